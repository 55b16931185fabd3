/* cuda_driver.h: the CUDA driver, loaded on demand; the constants of its interface that are used,
 * under our names. */
#ifndef WV_CUDA_DRIVER_H
#define WV_CUDA_DRIVER_H

#include "runtime/device.h"

enum CudaError {
  CUDA_OK = 0,
  CUDA_INVALID = 1, /* a value */
  CUDA_OUT_OF_MEMORY = 2,
  CUDA_NO_DEVICE = 100,
  CUDA_NO_CONTEXT = 201,
  CUDA_NO_BINARY = 209,
  CUDA_BAD_PTX = 218,
  CUDA_PTX_TOO_NEW = 222,
  CUDA_BAD_HANDLE = 400,
  CUDA_ILLEGAL_ADDRESS = 700,
  CUDA_TOO_MANY_RESOURCES = 701,
  CUDA_MISALIGNED = 716,
  CUDA_LAUNCH_FAILED = 719,
  CUDA_NOT_TOGETHER = 720,
  CUDA_CAPTURE_UNSUPPORTED = 900,
  CUDA_NOT_THERE = -1 /* ours: the driver is too old to have the function */
};

enum CudaDeviceAttribute {
  CUDA_DEVICE_GRID_X = 5, /* Y and Z follow */
  CUDA_DEVICE_UNITS = 16,
  CUDA_DEVICE_UNIT_THREADS = 39,
  CUDA_DEVICE_MAJOR = 75,
  CUDA_DEVICE_MINOR = 76,
  CUDA_DEVICE_SHARED_MOST = 97
};

enum CudaFunctionAttribute {
  CUDA_FUNCTION_THREADS_MOST = 0,
  CUDA_FUNCTION_LOCAL = 3,
  CUDA_FUNCTION_REGISTERS = 4,
  CUDA_FUNCTION_DYNAMIC_SHARED = 8,
  CUDA_FUNCTION_LARGE_CLUSTERS = 14
};

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
  const char *library; /* the library that was loaded */
} CudaDriver;

/* Loads the library and its functions; false after reporting what was looked for, and where. */
bool cuda_driver_load(Arena *a, CudaDriver *out, const DeviceReport *r);

/* What cuda_*.c share. */
enum { CUDA_DEVICES = DEVICE_MOST };

typedef struct CudaState {
  CudaDriver f;
  int count, version;
  int device[CUDA_DEVICES];
  void *context[CUDA_DEVICES]; /* retained on first use */
  bool cache_is_off;           /* the driver recompiles in every process */
} CudaState;

static inline CudaState *cuda_state(Device *d) { return d->state; }

/* Makes the context of a device current for the thread: permanently if it had none, as CUDA's
 * runtime library does, otherwise until cuda_leave. */
typedef struct CudaEntry {
  bool pushed, changed;
} CudaEntry;
int cuda_make_current(CudaState *s, int index, CudaEntry *e); /* the driver's error */
bool cuda_enter(CudaState *s, int index, CudaEntry *e, const DeviceReport *r);
void cuda_leave(CudaState *s, CudaEntry e);

/* Reports an error of the driver: `what` it was asked to do. Returns false. */
bool cuda_report(CudaState *s, int error, const char *what, const DeviceReport *r);

/* cuda_module.c */
bool cuda_load(Device *d, int index, const ArtVariant *v, DeviceCode *out, const DeviceReport *r);
void cuda_unload(Device *d, DeviceCode *code);
bool cuda_resources(Device *d, const DeviceCode *code, DeviceResources *out, const DeviceReport *r);

/* cuda_launch.c */
int cuda_launch(Device *d, const DeviceLaunch *l);
void cuda_explain(Device *d, int error, const DeviceLaunch *l, const DeviceReport *r);
int cuda_encode(Device *d, int index, const ArtMap *m, void *map, void *address,
                const int64_t *sizes, const int64_t *strides, bool changed);

#endif
