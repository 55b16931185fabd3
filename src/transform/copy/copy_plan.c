/* copy_plan.c: see copy_plan.h. */
#include "transform/copy/copy_plan.h"

#include "ir/dtype.h"

static bool covers_exactly(const Layout *l) {
  if (layout_replication(l) != 1) return false;
  return layout_positions(l) == layout_elements(l);
}

bool copy_plan(const Distribution *d, const Machine *m, const AccessBounds *b, CopyPlan *out) {
  const Type *t = b->access.tile;
  int bits = dtype_memory_bits(t->dtype), proved = b->run * bits / 8, n = 0;
  LayoutBlocking blocking = {
      .dims = t->rank, .bits = bits, .lanes = m->lanes, .waves = m->waves, .widest = proved};
  if (blocking.widest > m->target->global_access) blocking.widest = m->target->global_access;
  if (blocking.widest < 1) blocking.widest = 1;
  blocking.least = bits < 8 ? 8 / bits : 1; /* two lanes must not store to the same byte */
  if (!distribute_extents(d, b->access.op, t, blocking.extent)) return false;
  if (b->run_axis >= 0) blocking.order[n++] = b->run_axis;
  for (int i = t->rank - 1; i >= 0; i--)
    if (i != b->run_axis) blocking.order[n++] = i;
  out->layout = layout_blocked(&blocking);
  out->width = 1;
  if (b->run_axis >= 0)
    out->width = layout_vector(&out->layout, b->run_axis, bits, m->target->global_access);
  if (out->width > b->run) out->width = b->run;
  out->exact = covers_exactly(&out->layout);
  return true;
}

int copy_width(const CopyPlan *p, const AccessBounds *b, const MemLayout *m) {
  int slot = m->dims - p->layout.dims;
  int most = b->run_axis >= 0 ? mem_vector(m, b->run_axis + slot) : 1;
  return most < p->width ? most : p->width;
}

/* Bytes along the axis that are adjacent in a slot, and in the tensor. */
static int slot_run(const AccessBounds *b, const MemLayout *slot) {
  return mem_vector(slot, b->run_axis) * slot->bits / 8;
}

static int tensor_run(const AccessBounds *b, const MemLayout *slot) {
  return b->run * slot->bits / 8;
}

DirectPlan copy_direct(const Machine *m, const AccessBounds *b, const MemLayout *slot) {
  int64_t all = mem_bytes(slot), elements = 1;
  for (int d = 0; d < slot->dims; d++) elements *= slot->extent[d];
  if (b->run_axis < 0 || elements * slot->bits != all * 8) return (DirectPlan){0};
  for (int bytes = copy_direct_most(m); bytes >= 4; bytes -= 12) {
    int64_t block = (int64_t)bytes * m->lanes * m->waves;
    if (bytes * 8 >= slot->bits && slot_run(b, slot) >= bytes && tensor_run(b, slot) >= bytes &&
        all % block == 0)
      return (DirectPlan){bytes, (int)(all / block)};
  }
  return (DirectPlan){0};
}

int copy_direct_most(const Machine *m) {
  return target_has(m->target, FEATURE_DIRECT_LDS_16) ? 16 : 4;
}

const char *copy_why_not_wider(Arena *a, const Machine *m, const AccessBounds *b,
                               const MemLayout *slot) {
  int most = copy_direct_most(m);
  if (copy_direct(m, b, slot).bytes == most) return NULL;
  if (tensor_run(b, slot) < most)
    return arena_printf(a, "%d contiguous bytes are not guaranteed", most);
  if (slot_run(b, slot) < most)
    return arena_printf(a, "its layout separates pieces of %d bytes", slot_run(b, slot));
  return arena_printf(a, "its %lld bytes are not a multiple of %d for each of %d lanes",
                      (long long)mem_bytes(slot), most, m->lanes * m->waves);
}
