/* cuda_driver.h: the CUDA driver, loaded on demand; the constants of its interface that are used,
 * under our names. */
#ifndef WV_CUDA_DRIVER_H
#define WV_CUDA_DRIVER_H

#include "runtime/gpu/gpu.h"

enum CudaError { CUDA_BAD_PTX = 218, CUDA_PTX_TOO_NEW = 222 }; /* besides those of gpu.h */

enum CudaDeviceAttribute {
  CUDA_DEVICE_GRID_X = 5, /* Y and Z follow */
  CUDA_DEVICE_UNITS = 16,
  CUDA_DEVICE_UNIT_THREADS = 39,
  CUDA_DEVICE_MAJOR = 75,
  CUDA_DEVICE_MINOR = 76,
  CUDA_DEVICE_SHARED_MOST = 97
};

enum CudaFunctionAttribute { CUDA_FUNCTION_DYNAMIC_SHARED = 8, CUDA_FUNCTION_LARGE_CLUSTERS = 14 };

enum CudaJitOption {
  CUDA_JIT_INFO = 3,
  CUDA_JIT_INFO_BYTES = 4,
  CUDA_JIT_ERRORS = 5,
  CUDA_JIT_ERRORS_BYTES = 6,
  CUDA_JIT_VERBOSE = 12
};

enum CudaLaunchAttributeId { CUDA_LAUNCH_TOGETHER = 2, CUDA_LAUNCH_OVERLAP = 6 };

typedef struct CudaLaunchAttribute {
  int id;
  int pad;
  union {
    char room[64];
    int on;
  } value;
} CudaLaunchAttribute;

typedef struct CudaLaunchConfig {
  unsigned grid[3], block[3], shared;
  void *stream;
  CudaLaunchAttribute *attrs;
  unsigned nattrs;
} CudaLaunchConfig;

typedef struct CudaDriver {
#define CUDA_FN(need, name, symbol, arguments) int(*name) arguments;
#include "runtime/cuda/cuda_driver.def"
} CudaDriver;

extern const GpuLibrary cuda_library;

/* What cuda_*.c share. */
typedef struct CudaState {
  Gpu gpu;
  CudaDriver f;
  void *context[DEVICE_MOST]; /* retained on first use */
  bool cache_is_off;          /* the driver recompiles in every process */
} CudaState;

static inline CudaState *cuda_state(Gpu *g) { return (CudaState *)g; }

/* Makes the context of a device current for the thread: permanently if it had none, as CUDA's
 * runtime library does, otherwise until cuda_restore. Returns the driver's error. */
int cuda_make_current(Gpu *g, int index, GpuEntry *e);

/* cuda_module.c */
bool cuda_load(Gpu *g, const ArtVariant *v, DeviceCode *out, const DeviceReport *r);

/* cuda_launch.c */
int cuda_launch(Device *d, const DeviceLaunch *l);
int cuda_encode(Device *d, int index, const ArtMap *m, void *map, void *address,
                const int64_t *sizes, const int64_t *strides, bool changed);

#endif
