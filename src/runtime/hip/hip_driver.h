/* hip_driver.h: HIP's runtime library, loaded on demand; the constants of its interface that are
 * used, under our names. */
#ifndef WV_HIP_DRIVER_H
#define WV_HIP_DRIVER_H

#include "runtime/gpu/gpu.h"

enum HipDeviceAttribute { HIP_DEVICE_UNIT_THREADS = 57, HIP_DEVICE_UNITS = 63 };

enum { HIP_COPY_ANY = 4 }; /* the library finds out where addresses are */

/* What `extra` of a launch contains: each is followed by its value. */
enum HipLaunchWord { HIP_LAUNCH_BLOCK = 1, HIP_LAUNCH_BLOCK_BYTES = 2, HIP_LAUNCH_END = 3 };

/* Streams that are not objects: the default one, under two names, and that of the thread. */
enum { HIP_STREAM_LAST_SPECIAL = 2 };

/* The chip's name in the properties of a device, of this many bytes. */
enum HipProperties {
  HIP_PROPERTIES_5 = 792,
  HIP_PROPERTIES_5_CHIP = 396,
  HIP_PROPERTIES_6 = 1472,
  HIP_PROPERTIES_6_CHIP = 1160,
  HIP_CHIP_BYTES = 256
};

typedef struct HipDriver {
#define HIP_FN(need, result, name, symbol, arguments) result(*name) arguments;
#include "runtime/hip/hip_driver.def"
} HipDriver;

extern const GpuLibrary hip_library;

/* What hip_*.c share. */
typedef struct HipState {
  Gpu gpu;
  HipDriver f;
} HipState;

static inline HipState *hip_state(Gpu *g) { return (HipState *)g; }

/* hip_device.c */
int hip_make_current(Gpu *g, int index, GpuEntry *e); /* the library's error */
/* The chip's name and its settings: "gfx942:sramecc+:xnack-". The library's error. */
int hip_chip(HipState *s, int index, char out[HIP_CHIP_BYTES]);

/* hip_module.c */
bool hip_load(Gpu *g, const ArtVariant *v, DeviceCode *out, const DeviceReport *r);

/* hip_launch.c */
int hip_launch(Device *d, const DeviceLaunch *l);

#endif
