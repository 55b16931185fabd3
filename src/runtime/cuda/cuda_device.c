/* cuda_device.c: NVIDIA GPUs: enumeration, contexts and memory.
 *
 * Each device is used through its primary context, which PyTorch and others use too, so their
 * streams and memory can be used here. A thread's current context is left unchanged, unless it had
 * none. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda_driver.h"
#include "target/target.h"

bool cuda_report(CudaState *s, int error, const char *what, const DeviceReport *r) {
  const char *name = NULL, *text = NULL;
  s->f.error_name(error, &name);
  s->f.error_text(error, &text);
  Diag *d = diag_add(r->diags, DIAG_E0902, r->at, "%s%s%s%s: %s (%s)", r->kernel ? "`" : "",
                     r->kernel ? r->kernel : "", r->kernel ? "`: " : "", what,
                     text ? text : "unknown error", name ? name : "?");
  if (error == CUDA_ILLEGAL_ADDRESS || error == CUDA_MISALIGNED || error == CUDA_LAUNCH_FAILED)
    diag_hint(r->diags, d,
              "any kernel launched earlier may have caused this; this process can no longer use "
              "the device. To find the access, use the simulator: target `sim:sm_90a`");
  return false;
}

/* ---- opening ---- */

static bool cuda_open(Device *d, const DeviceReport *r) {
  CudaState *s = ARENA_NEW(d->arena, CudaState);
  d->state = s;
  if (!cuda_driver_load(d->arena, &s->f, r)) return false;
  int error = s->f.init(0);
  if (!error) error = s->f.version(&s->version);
  if (!error) error = s->f.device_count(&s->count);
  if (error == CUDA_NO_DEVICE) error = s->count = 0;
  if (error) return cuda_report(s, error, "cannot initialise the CUDA driver", r);
  if (s->count > CUDA_DEVICES) s->count = CUDA_DEVICES;
  for (int i = 0; i < s->count; i++)
    if ((error = s->f.device_get(&s->device[i], i)))
      return cuda_report(s, error, "cannot open a device", r);
  const char *off = getenv("CUDA_CACHE_DISABLE");
  s->cache_is_off = off && *off && strcmp(off, "0") != 0;
  return true;
}

static void cuda_close(Device *d) {
  CudaState *s = cuda_state(d);
  for (int i = 0; i < s->count; i++)
    if (s->context[i]) s->f.primary_release(s->device[i]);
}

static int cuda_count(Device *d) { return cuda_state(d)->count; }

static bool check_index(CudaState *s, int index, const DeviceReport *r) {
  if (index >= 0 && index < s->count) return true;
  diag_add(r->diags, DIAG_E0902, r->at, "there is no CUDA device %d: %d available", index,
           s->count);
  return false;
}

static bool cuda_facts(Device *d, int index, DeviceFacts *out, const DeviceReport *r) {
  CudaState *s = cuda_state(d);
  if (!check_index(s, index, r)) return false;
  int device = s->device[index], major, minor;
  size_t memory;
  int error = s->f.device_name(out->name, sizeof out->name, device);
  if (!error) error = s->f.device_memory(&memory, device);
  if (!error) error = s->f.device_attr(&major, CUDA_DEVICE_MAJOR, device);
  if (!error) error = s->f.device_attr(&minor, CUDA_DEVICE_MINOR, device);
  if (!error) error = s->f.device_attr(&out->units, CUDA_DEVICE_UNITS, device);
  if (error) return cuda_report(s, error, "cannot query a device", r);
  out->memory = (int64_t)memory;
  out->driver = s->version;
  const TargetInfo *machine = target_of_capability(major * 10 + minor);
  out->target = machine ? machine->name : NULL;
  return true;
}

/* ---- contexts ---- */

int cuda_make_current(CudaState *s, int index, CudaEntry *e) {
  void *now = NULL, *context = s->context[index];
  int error = s->f.ctx_current(&now);
  *e = (CudaEntry){.pushed = now && now != context, .changed = now != context};
  if (!error && e->changed) error = now ? s->f.ctx_push(context) : s->f.ctx_set(context);
  if (error) *e = (CudaEntry){0};
  return error;
}

bool cuda_enter(CudaState *s, int index, CudaEntry *e, const DeviceReport *r) {
  int error = 0;
  *e = (CudaEntry){0};
  if (!check_index(s, index, r)) return false;
  if (!s->context[index]) error = s->f.primary_retain(&s->context[index], s->device[index]);
  if (!error) error = cuda_make_current(s, index, e);
  return error ? cuda_report(s, error, "cannot create a device context", r) : true;
}

void cuda_leave(CudaState *s, CudaEntry e) {
  void *old;
  if (e.pushed) s->f.ctx_pop(&old);
}

static bool cuda_is_captured(Device *d, int index, void *stream) {
  CudaState *s = cuda_state(d);
  int status = 0;
  (void)index;
  return stream && s->f.stream_capture(stream, &status) == CUDA_OK && status != 0;
}

/* ---- memory ---- */

static void *cuda_alloc(Device *d, int index, size_t bytes, const DeviceReport *r) {
  CudaState *s = cuda_state(d);
  CudaEntry e;
  uint64_t address = 0;
  if (!cuda_enter(s, index, &e, r)) return NULL;
  int error = s->f.alloc(&address, bytes ? bytes : 1);
  cuda_leave(s, e);
  if (error) cuda_report(s, error, "cannot allocate device memory", r);
  return (void *)(uintptr_t)address;
}

static void cuda_release(Device *d, int index, void *memory, const DeviceReport *r) {
  CudaState *s = cuda_state(d);
  CudaEntry e;
  if (!memory || !cuda_enter(s, index, &e, r)) return;
  int error = s->f.release((uint64_t)(uintptr_t)memory);
  cuda_leave(s, e);
  if (error) cuda_report(s, error, "cannot free device memory", r);
}

static bool cuda_copy(Device *d, int index, void *to, const void *from, size_t bytes,
                      const DeviceReport *r) {
  CudaState *s = cuda_state(d);
  CudaEntry e;
  if (!bytes) return true;
  if (!cuda_enter(s, index, &e, r)) return false;
  int error = s->f.copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes);
  cuda_leave(s, e);
  return error ? cuda_report(s, error, "a copy failed", r) : true;
}

static bool cuda_wait(Device *d, int index, void *stream, const DeviceReport *r) {
  CudaState *s = cuda_state(d);
  CudaEntry e;
  if (!cuda_enter(s, index, &e, r)) return false;
  int error = s->f.stream_wait(stream);
  cuda_leave(s, e);
  return error ? cuda_report(s, error, "execution on the device failed", r) : true;
}

const DeviceKind device_cuda = {.name = "cuda",
                                .number = DEVICE_CUDA,
                                .grid_most = {INT32_MAX, 65535, 65535},
                                .open = cuda_open,
                                .close = cuda_close,
                                .count = cuda_count,
                                .facts = cuda_facts,
                                .load = cuda_load,
                                .unload = cuda_unload,
                                .resources = cuda_resources,
                                .launch = cuda_launch,
                                .explain = cuda_explain,
                                .encode = cuda_encode,
                                .is_captured = cuda_is_captured,
                                .alloc = cuda_alloc,
                                .release = cuda_release,
                                .copy = cuda_copy,
                                .wait = cuda_wait};
