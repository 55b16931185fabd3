/* cuda_device.c: NVIDIA GPUs: enumeration and contexts.
 *
 * Each device is used through its primary context, which PyTorch and others use too, so their
 * streams and memory can be used here. A thread's current context is left unchanged, unless it had
 * none. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda_driver.h"
#include "target/target.h"

/* ---- the vendor ---- */

int cuda_make_current(Gpu *g, int index, GpuEntry *e) {
  CudaState *s = cuda_state(g);
  void *now = NULL, **context = &s->context[index];
  *e = (GpuEntry){0};
  int error = *context ? GPU_OK : s->f.primary_retain(context, g->device[index]);
  if (!error) error = s->f.ctx_current(&now);
  if (error || now == *context) return error;
  error = now ? s->f.ctx_push(*context) : s->f.ctx_set(*context);
  if (!error) *e = (GpuEntry){.changed = true, .restore = now != NULL};
  return error;
}

static void restore(Gpu *g, GpuEntry e) {
  void *old;
  (void)e;
  cuda_state(g)->f.ctx_pop(&old);
}

static int copy(Gpu *g, void *to, const void *from, size_t bytes) {
  return cuda_state(g)->f.copy(to, from, bytes);
}

static void describe(Gpu *g, int error, const char **name, const char **text) {
  cuda_state(g)->f.error_name(error, name);
  cuda_state(g)->f.error_text(error, text);
}

static const GpuVendor vendor = {.name = "CUDA",
                                 .checked = "use the simulator: target `sim:sm_90a`",
                                 .lacks = "overlapping launches or tensor maps",
                                 .units = CUDA_DEVICE_UNITS,
                                 .unit_threads = CUDA_DEVICE_UNIT_THREADS,
                                 .make_current = cuda_make_current,
                                 .restore = restore,
                                 .copy = copy,
                                 .describe = describe,
                                 .load = cuda_load};

/* ---- opening ---- */

static bool cuda_open(Device *d, const DeviceReport *r) {
  CudaState *s = ARENA_NEW(d->arena, CudaState);
  Gpu *g = d->state = &s->gpu;
  if (!(g->library = gpu_library_load(d->arena, &cuda_library, &s->f, r))) return false;
  g->vendor = &vendor;
  g->call = WV_GPU_CALLS(&s->f);
  int error = s->f.init(0);
  if (!error) error = s->f.version(&g->version);
  if (!error) error = s->f.device_count(&g->count);
  if (error == GPU_NO_DEVICE) error = g->count = 0;
  if (error) return gpu_report(g, error, "cannot initialise the CUDA driver", r);
  if (g->count > DEVICE_MOST) g->count = DEVICE_MOST;
  for (int i = 0; i < g->count; i++)
    if ((error = s->f.device_get(&g->device[i], i)))
      return gpu_report(g, error, "cannot open a device", r);
  const char *off = getenv("CUDA_CACHE_DISABLE");
  s->cache_is_off = off && *off && strcmp(off, "0") != 0;
  return true;
}

static void cuda_close(Device *d) {
  CudaState *s = cuda_state(gpu_of(d));
  for (int i = 0; i < s->gpu.count; i++)
    if (s->context[i]) s->f.primary_release(s->gpu.device[i]);
}

static bool cuda_facts(Device *d, int index, DeviceFacts *out, const DeviceReport *r) {
  Gpu *g = gpu_of(d);
  CudaState *s = cuda_state(g);
  int major, minor;
  if (!gpu_facts(g, index, out, r)) return false;
  int device = g->device[index];
  int error = s->f.device_attr(&major, CUDA_DEVICE_MAJOR, device);
  if (!error) error = s->f.device_attr(&minor, CUDA_DEVICE_MINOR, device);
  if (error) return gpu_report(g, error, "cannot query a device", r);
  const TargetInfo *machine = target_of_capability(major * 10 + minor);
  out->target = machine ? machine->name : NULL;
  return true;
}

const DeviceKind device_cuda = {.name = "cuda",
                                .number = DEVICE_CUDA,
                                .grid_most = {INT32_MAX, 65535, 65535},
                                .open = cuda_open,
                                .close = cuda_close,
                                .count = gpu_count,
                                .facts = cuda_facts,
                                .load = gpu_load,
                                .unload = gpu_unload,
                                .resources = gpu_resources,
                                .launch = cuda_launch,
                                .explain = gpu_explain,
                                .encode = cuda_encode,
                                .is_captured = gpu_is_captured,
                                .alloc = gpu_alloc,
                                .alloc_zeros = gpu_alloc_zeros,
                                .release = gpu_release,
                                .copy = gpu_copy,
                                .wait = gpu_wait};
