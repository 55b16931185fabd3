/* gpu_device.c: memory, loading, resources and reports, through the functions that the drivers of
 * all vendors have. What is current for the calling thread is left as it was found. */
#include <stdlib.h>

#include "base/os.h"
#include "runtime/gpu/gpu.h"

/* ---- reports ---- */

static bool is_fault(int error) {
  return error == GPU_ILLEGAL_ADDRESS || error == GPU_MISALIGNED || error == GPU_LAUNCH_FAILED;
}

bool gpu_report(Gpu *g, int error, const char *what, const DeviceReport *r) {
  const char *name = NULL, *text = NULL;
  g->vendor->describe(g, error, &name, &text);
  Diag *d = diag_add(r->diags, DIAG_E0902, r->at, "%s%s%s%s: %s (%s)", r->kernel ? "`" : "",
                     r->kernel ? r->kernel : "", r->kernel ? "`: " : "", what,
                     text ? text : "unknown error", name ? name : "?");
  if (is_fault(error))
    diag_hint(r->diags, d,
              "any kernel launched earlier may have caused this; this process can no longer use "
              "the device. To find the access, %s",
              g->vendor->checked);
  return false;
}

bool gpu_check_index(const Gpu *g, int index, const DeviceReport *r) {
  if (index >= 0 && index < g->count) return true;
  Diag *d = diag_add(r->diags, DIAG_E0902, r->at, "there is no %s device %d: %d available",
                     g->vendor->name, index, g->count);
  if (!g->count && g->vendor->no_device) diag_hint(r->diags, d, "%s", g->vendor->no_device);
  return false;
}

bool gpu_facts(Gpu *g, int index, DeviceFacts *out, const DeviceReport *r) {
  if (!gpu_check_index(g, index, r)) return false;
  int device = g->device[index];
  size_t memory = 0;
  *out = (DeviceFacts){.driver = g->version};
  int error = g->call.device_name(out->name, sizeof out->name, device);
  if (!error) error = g->call.device_memory(&memory, device);
  if (!error) error = g->call.device_attr(&out->units, g->vendor->units, device);
  out->memory = (int64_t)memory;
  return error ? gpu_report(g, error, "cannot query a device", r) : true;
}

static void explain_missing(Gpu *g, int error, const DeviceReport *r) {
  if (error == GPU_NOT_THERE)
    diag_add(r->diags, DIAG_E0905, r->at, "`%s` needs %s, which `%s` lacks", r->kernel,
             g->vendor->lacks, g->library);
  else
    diag_add(r->diags, DIAG_E0905, r->at,
             "the workgroups of `%s` wait for each other: %s cannot capture such a launch",
             r->kernel, g->vendor->name);
}

void gpu_explain(Device *d, int error, const DeviceLaunch *l, const DeviceReport *r) {
  Gpu *g = gpu_of(d);
  const char *name, *text;
  if (error == GPU_NOT_THERE || error == GPU_NOT_CAPTURED) {
    explain_missing(g, error, r);
    return;
  }
  if (error == GPU_NOT_TOGETHER) {
    g->vendor->describe(g, error, &name, &text);
    diag_add(r->diags, DIAG_E0905, r->at,
             "the workgroups of `%s` wait for each other, but do not all fit on the device at once",
             r->kernel);
  } else gpu_report(g, error, "the launch failed", r);
  const ArtVariant *v = l->code->variant;
  diag_note(r->diags, r->diags->last, (Span){0},
            "grid (%u, %u, %u), workgroups of (%d, %d, %d) threads and %d bytes of shared memory",
            l->grid[0], l->grid[1], l->grid[2], v->block[0], v->block[1], v->block[2], v->shared);
}

/* ---- what is current ---- */

bool gpu_enter(Gpu *g, int index, GpuEntry *e, const DeviceReport *r) {
  *e = (GpuEntry){0};
  if (!gpu_check_index(g, index, r)) return false;
  int error = g->vendor->make_current(g, index, e);
  return error ? gpu_report(g, error, "cannot use the device", r) : true;
}

void gpu_leave(Gpu *g, GpuEntry e) {
  if (e.restore) g->vendor->restore(g, e);
}

int gpu_count(Device *d) { return gpu_of(d)->count; }

bool gpu_is_captured(Device *d, void *stream) {
  int status = 0;
  return stream && gpu_of(d)->call.stream_capture(stream, &status) == GPU_OK && status != 0;
}

/* ---- memory ---- */

void *gpu_alloc(Device *d, int index, size_t bytes, const DeviceReport *r) {
  Gpu *g = gpu_of(d);
  GpuEntry e;
  void *address = NULL;
  if (!gpu_enter(g, index, &e, r)) return NULL;
  int error = g->call.alloc(&address, bytes ? bytes : 1);
  gpu_leave(g, e);
  if (error) gpu_report(g, error, "cannot allocate device memory", r), address = NULL;
  return address;
}

/* A stream of its own: the default one may not be used while others are being captured. */
static int fill_zeros(Gpu *g, void *address, size_t bytes) {
  enum { NON_BLOCKING = 1 };
  void *stream;
  int error = g->call.stream_make(&stream, NON_BLOCKING);
  if (error) return error;
  error = g->call.fill(address, 0, bytes / 4, stream);
  if (!error) error = g->call.stream_wait(stream);
  int dropped = g->call.stream_drop(stream);
  return error ? error : dropped;
}

/* Drivers refuse to allocate while a stream is being captured, unless the thread says that what it
 * allocates does not belong to the graph. */
void *gpu_alloc_zeros(Device *d, int index, size_t bytes, const DeviceReport *r) {
  enum { RELAXED = 2 };
  Gpu *g = gpu_of(d);
  GpuEntry e;
  int mode = RELAXED;
  void *address = NULL;
  const size_t whole = (bytes + 4) / 4 * 4;
  if (!gpu_enter(g, index, &e, r)) return NULL;
  int error = g->call.capture_mode(&mode);
  if (!error) {
    error = g->call.alloc(&address, whole);
    if (!error && (error = fill_zeros(g, address, whole))) g->call.release(address), address = NULL;
    g->call.capture_mode(&mode);
  }
  gpu_leave(g, e);
  if (error) gpu_report(g, error, "cannot allocate device memory", r), address = NULL;
  return address;
}

void gpu_release(Device *d, int index, void *memory, const DeviceReport *r) {
  Gpu *g = gpu_of(d);
  GpuEntry e;
  if (!memory || !gpu_enter(g, index, &e, r)) return;
  int error = g->call.release(memory);
  gpu_leave(g, e);
  if (error) gpu_report(g, error, "cannot free device memory", r);
}

bool gpu_copy(Device *d, int index, void *to, const void *from, size_t bytes,
              const DeviceReport *r) {
  Gpu *g = gpu_of(d);
  GpuEntry e;
  if (!bytes) return true;
  if (!gpu_enter(g, index, &e, r)) return false;
  int error = g->vendor->copy(g, to, from, bytes);
  gpu_leave(g, e);
  return error ? gpu_report(g, error, "a copy failed", r) : true;
}

bool gpu_wait(Device *d, int index, void *stream, const DeviceReport *r) {
  Gpu *g = gpu_of(d);
  GpuEntry e;
  if (!gpu_enter(g, index, &e, r)) return false;
  int error = g->call.stream_wait(stream);
  gpu_leave(g, e);
  return error ? gpu_report(g, error, "execution on the device failed", r) : true;
}

/* ---- code ---- */

void gpu_remark_spills(Gpu *g, const DeviceCode *code, const DeviceReport *r) {
  int spilled = 0;
  if (!g->call.function_get(&spilled, GPU_FUNCTION_LOCAL, code->function) && spilled)
    diag_add(r->diags, DIAG_R0901, r->at, "`%s`: %d bytes per thread are spilled to local memory",
             r->kernel, spilled);
}

/* A module being loaded, on a device that was made current for it. */
typedef struct Loading {
  Gpu *g;
  GpuEntry e;
  DeviceCode *out;
} Loading;

/* A module that cannot be unloaded keeps its image. */
void gpu_unload_here(Gpu *g, DeviceCode *code) {
  if (code->module && g->call.module_unload(code->module) != GPU_OK) return;
  free(code->image);
  code->module = code->function = code->image = NULL;
}

static void stop_loading(void *loading) {
  Loading *l = loading;
  gpu_unload_here(l->g, l->out);
  gpu_leave(l->g, l->e);
}

bool gpu_load(Device *d, int index, const ArtVariant *v, DeviceCode *out, const DeviceReport *r) {
  Loading l = {.g = gpu_of(d), .out = out};
  Held held;
  double start = os_seconds();
  *out = (DeviceCode){
      .variant = v, .device = index, .shared = (unsigned)v->shared, .together = v->together};
  for (int i = 0; i < 3; i++) out->block[i] = (unsigned)v->block[i];
  if (!gpu_enter(l.g, index, &l.e, r)) return false;
  landing_hold(&held, stop_loading, &l);
  bool ok = l.g->vendor->load(l.g, v, out, r);
  landing_let_go(&held);
  if (!ok) gpu_unload_here(l.g, out);
  gpu_leave(l.g, l.e);
  out->load_ms = (os_seconds() - start) * 1e3;
  return ok;
}

/* Errors are ignored: after a fault on the device nothing can be unloaded. */
void gpu_unload(Device *d, DeviceCode *code) {
  Gpu *g = gpu_of(d);
  GpuEntry e;
  if (g->vendor->make_current(g, code->device, &e) != GPU_OK) return;
  gpu_unload_here(g, code);
  gpu_leave(g, e);
}

bool gpu_resources(Device *d, const DeviceCode *code, DeviceResources *out, const DeviceReport *r) {
  Gpu *g = gpu_of(d);
  const ArtVariant *v = code->variant;
  GpuEntry e;
  int most = 1;
  *out = (DeviceResources){.shared = v->shared, .threads = v->block[0] * v->block[1] * v->block[2]};
  if (!gpu_enter(g, code->device, &e, r)) return false;
  int error = g->call.function_get(&out->registers, GPU_FUNCTION_REGISTERS, code->function);
  if (!error) error = g->call.function_get(&out->spilled, GPU_FUNCTION_LOCAL, code->function);
  if (!error)
    error = g->call.occupancy(&out->workgroups, code->function, out->threads, code->shared);
  if (!error) error = g->call.device_attr(&most, g->vendor->unit_threads, g->device[code->device]);
  gpu_leave(g, e);
  out->occupancy = most > 0 ? (double)out->workgroups * out->threads / most : 0;
  return error ? gpu_report(g, error, "cannot query its resources", r) : true;
}
