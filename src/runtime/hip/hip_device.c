/* hip_device.c: AMD GPUs: enumeration, and the device that is current.
 *
 * HIP has no contexts to share: each thread has a current device, which PyTorch and others rely on,
 * so it is set back after each use. */
#include <stdio.h>
#include <string.h>

#include "runtime/hip/hip_driver.h"
#include "target/target.h"

/* ---- the vendor ---- */

int hip_make_current(Gpu *g, int index, GpuEntry *e) {
  HipState *s = hip_state(g);
  int now = index;
  *e = (GpuEntry){0};
  int error = s->f.device_current(&now);
  if (error || now == index) return error;
  error = s->f.device_set(index);
  if (!error) *e = (GpuEntry){.changed = true, .restore = true, .before = now};
  return error;
}

static void restore(Gpu *g, GpuEntry e) { hip_state(g)->f.device_set(e.before); }

static int copy(Gpu *g, void *to, const void *from, size_t bytes) {
  return hip_state(g)->f.copy(to, from, bytes, HIP_COPY_ANY);
}

/* The library also keeps the error for hipGetLastError, which PyTorch calls after its own launches:
 * it would raise what was reported here already. */
static void describe(Gpu *g, int error, const char **name, const char **text) {
  const HipDriver *f = &hip_state(g)->f;
  *name = f->error_name(error);
  *text = f->error_text(error);
  f->last_error();
}

static const GpuVendor vendor = {
    .name = "HIP",
    .checked = "use the simulator (target `sim:gfx942`), or execute the machine code on the host "
               "with every check (target `emu:gfx942`)",
    .lacks = "a cooperative launch",
    .no_device = "`rocminfo` lists the devices that ROCm finds: you need access to /dev/kfd (group "
                 "`render`), and HIP_VISIBLE_DEVICES must not hide the device. Without one, target "
                 "`emu:gfx942` executes the machine code on the host, and `sim:gfx942` runs the "
                 "kernel on a simulated GPU",
    .units = HIP_DEVICE_UNITS,
    .unit_threads = HIP_DEVICE_UNIT_THREADS,
    .make_current = hip_make_current,
    .restore = restore,
    .copy = copy,
    .describe = describe,
    .load = hip_load};

/* ---- opening ---- */

/* Without a device, HIP 6 says so in hipInit; HIP 5 calls the device invalid. */
static int count_devices(HipState *s) {
  Gpu *g = &s->gpu;
  int error = s->f.init(0);
  if (!error) error = s->f.version(&g->version);
  if (!error) error = s->f.device_count(&g->count);
  if (error != GPU_NO_DEVICE && error != GPU_BAD_DEVICE) return error;
  s->f.last_error();
  return g->count = 0;
}

static bool hip_open(Device *d, const DeviceReport *r) {
  HipState *s = ARENA_NEW(d->arena, HipState);
  Gpu *g = d->state = &s->gpu;
  if (!(g->library = gpu_library_load(d->arena, &hip_library, &s->f, r))) return false;
  g->vendor = &vendor;
  g->call = WV_GPU_CALLS(&s->f);
  if (!s->f.properties_6 && !s->f.properties_5) {
    Diag *lacks =
        diag_add(r->diags, DIAG_E0901, r->at, "`%s` lacks `hipGetDeviceProperties`", g->library);
    return diag_hint(r->diags, lacks, "%s", hip_library.newer);
  }
  int error = count_devices(s);
  if (error) return gpu_report(g, error, "cannot initialise the HIP runtime", r);
  if (g->count > DEVICE_MOST) g->count = DEVICE_MOST;
  for (int i = 0; i < g->count; i++) g->device[i] = i;
  return true;
}

static void hip_close(Device *d) { (void)d; }

int hip_chip(HipState *s, int index, char out[HIP_CHIP_BYTES]) {
  char properties[2 * HIP_PROPERTIES_6] = {0}; /* with room to spare */
  bool is_new = s->f.properties_6 != NULL;
  int error = (is_new ? s->f.properties_6 : s->f.properties_5)(properties, index);
  const char *chip = properties + (is_new ? HIP_PROPERTIES_6_CHIP : HIP_PROPERTIES_5_CHIP);
  snprintf(out, HIP_CHIP_BYTES, "%.*s", HIP_CHIP_BYTES - 1, error ? "" : chip);
  return error;
}

/* A chip without a row is named, so that messages about the device say which it is. */
static bool hip_facts(Device *d, int index, DeviceFacts *out, const DeviceReport *r) {
  Gpu *g = gpu_of(d);
  char chip[HIP_CHIP_BYTES];
  if (!gpu_facts(g, index, out, r)) return false;
  int error = hip_chip(hip_state(g), index, chip);
  if (error) return gpu_report(g, error, "cannot query a device", r);
  TargetChoice t = target_find(chip);
  if (t.kind == TARGET_HIP && t.machine) out->target = t.machine->name;
  size_t n = strlen(out->name);
  if (!out->target || !n)
    snprintf(out->name + n, sizeof out->name - n, "%s(%.31s)", n ? " " : "AMD GPU ", chip);
  return true;
}

/* No code for AMD has tensor maps. */
static int hip_encode(Device *d, int index, const ArtMap *m, void *map, void *address,
                      const int64_t *sizes, const int64_t *strides, bool changed) {
  (void)d, (void)index, (void)m, (void)map, (void)address, (void)sizes, (void)strides;
  (void)changed;
  return GPU_INVALID;
}

const DeviceKind device_hip = {.name = "hip",
                               .number = DEVICE_HIP,
                               .grid_most = {INT32_MAX, 65536, 65536},
                               .threads_most = UINT32_MAX,
                               .open = hip_open,
                               .close = hip_close,
                               .count = gpu_count,
                               .facts = hip_facts,
                               .load = gpu_load,
                               .unload = gpu_unload,
                               .resources = gpu_resources,
                               .launch = hip_launch,
                               .explain = gpu_explain,
                               .encode = hip_encode,
                               .is_captured = gpu_is_captured,
                               .alloc = gpu_alloc,
                               .alloc_zeros = gpu_alloc_zeros,
                               .release = gpu_release,
                               .copy = gpu_copy,
                               .wait = gpu_wait};
