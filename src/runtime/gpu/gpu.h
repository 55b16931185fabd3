/* gpu.h: what GPUs of different vendors have in common: finding the driver's library, memory,
 * loading, resources, reports. HIP was modelled on CUDA's driver interface: most functions have the
 * same types, and errors the same numbers. A vendor supplies a table of what differs. */
#ifndef WV_GPU_H
#define WV_GPU_H

#include "base/environment/environment.h"
#include "runtime/device.h"

/* The errors that drivers of all vendors return, by their common numbers. */
enum GpuError {
  GPU_OK = 0,
  GPU_INVALID = 1, /* a value */
  GPU_OUT_OF_MEMORY = 2,
  GPU_NOT_STARTED = 3,
  GPU_NO_DEVICE = 100,
  GPU_BAD_DEVICE = 101,
  GPU_BAD_IMAGE = 200,
  GPU_BAD_CONTEXT = 201, /* or none */
  GPU_NO_BINARY = 209,
  GPU_BAD_HANDLE = 400,
  GPU_NOT_FOUND = 500,
  GPU_ILLEGAL_ADDRESS = 700,
  GPU_MISALIGNED = 716,
  GPU_LAUNCH_FAILED = 719,
  GPU_NOT_TOGETHER = 720,
  GPU_CAPTURE_UNSUPPORTED = 900,
  GPU_NOT_THERE = -1,   /* ours: the driver is too old to have the function */
  GPU_NOT_CAPTURED = -2 /* ours: the driver cannot capture such a launch */
};

/* Attributes of functions, likewise. */
enum GpuFunctionAttribute { GPU_FUNCTION_LOCAL = 3, GPU_FUNCTION_REGISTERS = 4 };

/* ---- gpu_library.c ---- */

typedef struct GpuFunction {
  const char *symbol;
  size_t at; /* of the pointer in the vendor's struct */
  bool must; /* false: newer than the oldest supported driver */
} GpuFunction;

typedef struct GpuLibrary {
  const char *driver; /* "CUDA driver" */
  Variable variable;  /* names the library */
  const char *const *names;
  int nnames;
  const char *install, *newer; /* hints: it is absent; it is too old */
  const GpuFunction *functions;
  int nfunctions;
} GpuLibrary;

/* Fills in the pointers of `functions`. Returns the name of the library; NULL after reporting what
 * was looked for, and where. */
const char *gpu_library_load(Arena *a, const GpuLibrary *l, void *functions, const DeviceReport *r);

/* ---- gpu_device.c ---- */

typedef struct Gpu Gpu;

/* What is current for the thread is changed until gpu_leave, or permanently if nothing was. */
typedef struct GpuEntry {
  bool changed, restore;
  int before; /* the device, where devices are current rather than contexts */
} GpuEntry;

/* The driver's functions that all vendors have. */
typedef struct GpuCalls {
  int (*device_name)(char *name, int room, int device);
  int (*device_memory)(size_t *bytes, int device);
  int (*device_attr)(int *value, int attribute, int device);
  int (*alloc)(void **address, size_t bytes);
  int (*release)(void *address);
  int (*stream_capture)(void *stream, int *status);
  int (*stream_wait)(void *stream);
  int (*stream_make)(void **stream, unsigned flags);
  int (*stream_drop)(void *stream);
  int (*capture_mode)(int *mode);
  int (*fill)(void *address, int word, size_t words, void *stream);
  int (*module_unload)(void *module);
  int (*function)(void **function, void *module, const char *name);
  int (*function_get)(int *value, int attribute, void *function);
  int (*occupancy)(int *blocks, void *function, int threads, size_t shared);
} GpuCalls;

/* Those of a vendor's own struct. */
#define WV_GPU_CALLS(f)                                                                            \
  ((GpuCalls){.device_name = (f)->device_name,                                                     \
              .device_memory = (f)->device_memory,                                                 \
              .device_attr = (f)->device_attr,                                                     \
              .alloc = (f)->alloc,                                                                 \
              .release = (f)->release,                                                             \
              .stream_capture = (f)->stream_capture,                                               \
              .stream_wait = (f)->stream_wait,                                                     \
              .stream_make = (f)->stream_make,                                                     \
              .stream_drop = (f)->stream_drop,                                                     \
              .capture_mode = (f)->capture_mode,                                                   \
              .fill = (f)->fill,                                                                   \
              .module_unload = (f)->module_unload,                                                 \
              .function = (f)->function,                                                           \
              .function_get = (f)->function_get,                                                   \
              .occupancy = (f)->occupancy})

typedef struct GpuVendor {
  const char *name;        /* "CUDA" */
  const char *checked;     /* what finds faulty accesses */
  const char *lacks;       /* what launches may need that old drivers do not have */
  const char *no_device;   /* a hint if there is none; NULL: nothing to say */
  int units, unit_threads; /* numbers of device attributes */
  int (*make_current)(Gpu *g, int index, GpuEntry *e); /* the driver's error */
  void (*restore)(Gpu *g, GpuEntry e);
  int (*copy)(Gpu *g, void *to, const void *from, size_t bytes);
  /* The driver's words for an error; NULL: it has none. It is then considered reported. */
  void (*describe)(Gpu *g, int error, const char **name, const char **text);
  /* Loads code on the device that is current; false after reporting. */
  bool (*load)(Gpu *g, const ArtVariant *v, DeviceCode *out, const DeviceReport *r);
} GpuVendor;

/* An open driver: the first member of the vendor's state. */
struct Gpu {
  const GpuVendor *vendor;
  GpuCalls call;
  const char *library; /* the one that was loaded */
  int count, version;
  int device[DEVICE_MOST]; /* the driver's numbers */
};

static inline Gpu *gpu_of(Device *d) { return d->state; }

/* Reports an error of the driver: `what` it was asked to do. Returns false. */
bool gpu_report(Gpu *g, int error, const char *what, const DeviceReport *r);
bool gpu_check_index(const Gpu *g, int index, const DeviceReport *r);
/* Everything except the target. */
bool gpu_facts(Gpu *g, int index, DeviceFacts *out, const DeviceReport *r);

/* Makes a device current; false after reporting. */
bool gpu_enter(Gpu *g, int index, GpuEntry *e, const DeviceReport *r);
void gpu_leave(Gpu *g, GpuEntry e);

/* Unloads code from the device that is current. */
void gpu_unload_here(Gpu *g, DeviceCode *code);
void gpu_remark_spills(Gpu *g, const DeviceCode *code, const DeviceReport *r);

/* Rows of DeviceKind. */
int gpu_count(Device *d);
bool gpu_load(Device *d, int index, const ArtVariant *v, DeviceCode *out, const DeviceReport *r);
void gpu_unload(Device *d, DeviceCode *code);
bool gpu_resources(Device *d, const DeviceCode *code, DeviceResources *out, const DeviceReport *r);
void gpu_explain(Device *d, int error, const DeviceLaunch *l, const DeviceReport *r);
bool gpu_is_captured(Device *d, void *stream);
void *gpu_alloc(Device *d, int index, size_t bytes, const DeviceReport *r);
void *gpu_alloc_zeros(Device *d, int index, size_t bytes, const DeviceReport *r);
void gpu_release(Device *d, int index, void *memory, const DeviceReport *r);
bool gpu_copy(Device *d, int index, void *to, const void *from, size_t bytes,
              const DeviceReport *r);
bool gpu_wait(Device *d, int index, void *stream, const DeviceReport *r);

#endif
