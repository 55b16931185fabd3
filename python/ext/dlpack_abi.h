/* dlpack_abi.h: the part of DLPack's binary interface that is used here, under our names.
 *
 * Tensors arrive as DLTensor: from the capsule of `__dlpack__` (unversioned, stable since DLPack
 * 0.2), or directly from a type's table of C functions (DLPack 1.2 and later, PyTorch 2.11 and
 * later). */
#ifndef WV_DLPACK_ABI_H
#define WV_DLPACK_ABI_H

#include <stdint.h>

enum {
  DL_CPU = 1,
  DL_CUDA = 2,
  DL_CUDA_HOST = 3,
  DL_ROCM = 10,
  DL_ROCM_HOST = 11,
  DL_CUDA_MANAGED = 13
};
enum { DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT = 4, DL_BOOL = 6 };

typedef struct DLTensor {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides; /* strides count elements; NULL: row-major */
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor tensor;
  void *manager;
  void (*deleter)(struct DLManagedTensor *);
} DLManagedTensor;

/* What a type offers as `__dlpack_c_exchange_api__`: a capsule of this name, valid until the
 * process ends. Functions return 0, or -1 with a Python exception. */
#define DL_EXCHANGE_NAME "dlpack_exchange_api"
enum { DL_EXCHANGE_MAJOR = 1 };

typedef struct DLExchange {
  uint32_t major, minor;
  const struct DLExchange *older; /* a table of an earlier major version, or NULL */
  void *allocate, *managed_from_python, *managed_to_python; /* not used here */
  /* Fills in a view that the object owns; may be NULL. Nothing is synchronised. */
  int (*view)(void *object, DLTensor *out);
  int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
} DLExchange;

#endif
