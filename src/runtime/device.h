/* device.h: kinds of devices, as tables of functions. The layers above (launch, the compiler's
 * driver) know no vendor; a new kind is a row in device.c and a file of functions. */
#ifndef WV_DEVICE_H
#define WV_DEVICE_H

#include "base/diag.h"
#include "base/landing.h"
#include "runtime/cache/artefact.h"
#include "target/target.h"

/* Kinds by DLPack's numbers, and the most devices of a kind. */
enum { DEVICE_HOST = 1, DEVICE_CUDA = 2, DEVICE_HIP = 10, DEVICE_MOST = 16 };

typedef struct DeviceFacts {
  char name[128];
  const char *target; /* row of targets.def; NULL: none is for it */
  int64_t memory;
  int units, driver;
} DeviceFacts;

typedef struct DeviceResources {
  int registers, shared, spilled, threads, workgroups;
  double occupancy;
} DeviceResources;

/* An instruction of loaded code, see wv_instruction. */
typedef struct DeviceInstruction {
  uint64_t at;
  const char *text;
  bool executed, needed;
} DeviceInstruction;

/* Where problems are reported, and the name of the kernel concerned. */
typedef struct DeviceReport {
  Diags *diags;
  Span at;
  const char *kernel; /* NULL: none */
} DeviceReport;

/* A variant on a device, ready to be launched. */
typedef struct DeviceCode {
  const ArtVariant *variant;
  int device;
  void *module, *function; /* private to the kind */
  void *image;             /* bytes that the driver reads until the code is unloaded; NULL: none */
  double load_ms;
  unsigned block[3], shared; /* as in the variant, besides what else a launch takes */
  bool together;
} DeviceCode;

/* One launch. `args` point at the arguments, as many as the variant has. */
typedef struct DeviceLaunch {
  const DeviceCode *code;
  unsigned grid[3];
  void **args;
  void *packed; /* the same arguments as one block, at the offsets of the variant's args */
  void *stream;
  const struct wv_launch_arg *given; /* what the caller passed: tensors with their sizes */
  int ngiven;
  const struct ArtParam *params;   /* of `given` */
  bool overlap;                    /* with the previous launch: programmatic dependent launch */
  bool (*interrupted)(void *user); /* called now and then by kinds that run a kernel before `launch`
                                    * returns: whether to end it early. NULL: never */
  void *user;
} DeviceLaunch;

typedef struct DeviceKind DeviceKind;

/* An open driver. Freed with device_close; what it handed out must be returned before. */
typedef struct Device {
  const DeviceKind *kind;
  Arena *arena;
  void *state; /* private to the kind */
  Held held;
} Device;

struct DeviceKind {
  const char *name;
  int number;
  int64_t grid_most[3];
  int64_t threads_most; /* of a grid, along a dim; 0: as many as its workgroups have */
  bool (*open)(Device *d, const DeviceReport *r); /* false after reporting */
  void (*close)(Device *d);
  int (*count)(Device *d);
  bool (*facts)(Device *d, int index, DeviceFacts *out, const DeviceReport *r);
  /* Code is loaded while nothing is being captured. Remarks of the driver go to `r`. */
  bool (*load)(Device *d, int index, const ArtVariant *v, DeviceCode *out, const DeviceReport *r);
  void (*unload)(Device *d, DeviceCode *code);
  bool (*resources)(Device *d, const DeviceCode *code, DeviceResources *out, const DeviceReport *r);
  int (*launch)(Device *d, const DeviceLaunch *l); /* 0: launched; else the driver's error */
  void (*explain)(Device *d, int error, const DeviceLaunch *l, const DeviceReport *r);
  /* A tensor map of 128 bytes; `changed`: more than the address has changed. Returns the driver's
   * error. */
  int (*encode)(Device *d, int index, const ArtMap *m, void *map, void *address,
                const int64_t *sizes, const int64_t *strides, bool changed);
  bool (*is_captured)(Device *d, void *stream);
  void *(*alloc)(Device *d, int index, size_t bytes, const DeviceReport *r);
  /* The zeros are in place when it returns. It may be called while a stream is being captured, and
   * leaves nothing in the graph. */
  void *(*alloc_zeros)(Device *d, int index, size_t bytes, const DeviceReport *r);
  void (*release)(Device *d, int index, void *memory, const DeviceReport *r);
  bool (*copy)(Device *d, int index, void *to, const void *from, size_t bytes,
               const DeviceReport *r);
  bool (*wait)(Device *d, int index, void *stream, const DeviceReport *r);
  /* For tests, of kinds that execute instructions one by one: false past the last one. `remove`:
   * launches do without it; -1: with all of them. NULL elsewhere. */
  bool (*instruction)(const DeviceCode *code, int i, DeviceInstruction *out);
  bool (*remove)(const DeviceCode *code, int i);
};

const DeviceKind *device_kind(int number);          /* NULL: no such kind */
const DeviceKind *device_kind_for(TargetKind kind); /* NULL: no device runs such programs */
const DeviceKind *device_kind_at(int i);            /* best first; NULL past the end */
extern const DeviceKind device_emu; /* runs AMD machine code on the host, on the host's tensors */
extern const DeviceKind device_cuda, device_hip, device_cpu;

/* NULL after reporting that there is no driver. */
Device *device_open(const DeviceKind *kind, const DeviceReport *r);
void device_close(Device *d);    /* NULL is fine */
Device *device_owned(Device *d); /* by something that outlives the call (base/landing.h) */

#endif
