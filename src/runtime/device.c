/* device.c: the table of kinds of devices. */
#include "runtime/device.h"

static const DeviceKind *const kinds[] = {&device_cuda, &device_hip, &device_cpu}; /* best first */

const DeviceKind *device_kind_at(int i) {
  return i >= 0 && i < (int)WV_LEN(kinds) ? kinds[i] : NULL;
}

const DeviceKind *device_kind(int number) {
  for (size_t i = 0; i < WV_LEN(kinds); i++)
    if (kinds[i]->number == number) return kinds[i];
  return NULL;
}

const DeviceKind *device_kind_for(TargetKind kind) {
  return kind == TARGET_CUDA  ? &device_cuda
         : kind == TARGET_HIP ? &device_hip
         : kind == TARGET_CPU ? &device_cpu
         : kind == TARGET_EMU ? &device_emu
                              : NULL;
}

static void shut(void *device) {
  Device *d = device;
  d->kind->close(d);
}

Device *device_open(const DeviceKind *kind, const DeviceReport *r) {
  Arena *a = arena_new();
  Device *d = ARENA_NEW(a, Device);
  *d = (Device){.kind = kind, .arena = a};
  if (kind->open(d, r)) return landing_hold(&d->held, shut, d), d;
  arena_free(a);
  return NULL;
}

Device *device_owned(Device *d) {
  if (!d) return NULL;
  landing_let_go(&d->held);
  arena_owned(d->arena);
  return d;
}

void device_close(Device *d) {
  if (!d) return;
  landing_let_go(&d->held);
  d->kind->close(d);
  arena_free(d->arena);
}
