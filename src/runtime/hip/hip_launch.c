/* hip_launch.c: one launch. Nothing here allocates, waits or locks. */
#include "runtime/hip/hip_driver.h"

/* The arguments are one block, laid out like the kernel's own argument segment: HIP copies it, and
 * does not have to collect them. */
static int launch_block(HipState *s, const DeviceLaunch *l) {
  const DeviceCode *c = l->code;
  size_t bytes = (size_t)c->variant->arg_bytes;
  void *extra[] = {(void *)HIP_LAUNCH_BLOCK, l->packed, (void *)HIP_LAUNCH_BLOCK_BYTES, &bytes,
                   (void *)HIP_LAUNCH_END};
  return s->f.launch(c->function, l->grid[0], l->grid[1], l->grid[2], c->block[0], c->block[1],
                     c->block[2], c->shared, l->stream, NULL, extra);
}

/* A cooperative launch takes the arguments one by one. It is not recorded by a capture: it would run
 * at once. */
static int launch_together(HipState *s, const DeviceLaunch *l) {
  const DeviceCode *c = l->code;
  int captured = 0;
  if (!s->f.launch_together) return GPU_NOT_THERE;
  if (l->stream && !s->f.stream_capture(l->stream, &captured) && captured) return GPU_NOT_CAPTURED;
  return s->f.launch_together(c->function, l->grid[0], l->grid[1], l->grid[2], c->block[0],
                              c->block[1], c->block[2], c->shared, l->stream, l->args);
}

/* A stream belongs to a device; the special ones are those of the device that is current. `overlap`
 * is a permission that HIP cannot use: the launch waits for the previous one. */
int hip_launch(Device *d, const DeviceLaunch *l) {
  HipState *s = hip_state(gpu_of(d));
  GpuEntry e = {0};
  int error = GPU_OK;
  if (s->gpu.count > 1 && (uintptr_t)l->stream <= HIP_STREAM_LAST_SPECIAL)
    error = hip_make_current(&s->gpu, l->code->device, &e);
  if (!error) error = WV_UNLIKELY(l->code->together) ? launch_together(s, l) : launch_block(s, l);
  gpu_leave(&s->gpu, e);
  return error;
}
