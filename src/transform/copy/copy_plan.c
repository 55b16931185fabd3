/* copy_plan.c: see copy_plan.h. */
#include "transform/copy/copy_plan.h"

#include "ir/dtype.h"
#include "ir/schedule/op_parts.h"

/* ---- slices ---- */

CopySlice copy_slice(const Op *copy) {
  CopySlice s;
  for (int i = 0; i < IR_MAX_RANK; i++) {
    OpPart part = parts_along(copy, i);
    s.at[i] = part.at, s.of[i] = part.of;
  }
  return s;
}

int copy_slices(const CopySlice *s) {
  int n = 1;
  for (int i = 0; i < IR_MAX_RANK; i++) n *= s->of[i];
  return n;
}

/* The layout of a slice becomes that of the tile. */
static void add_slices(Layout *l, const CopySlice *s) {
  for (int i = 0; i < l->dims; i++) {
    int each = l->extent[i];
    l->extent[i] *= s->of[i];
    layout_push(l, LAYOUT_REG, i, s->of[i], each);
  }
}

int64_t copy_along(const MemLayout *slot, int dim, int x) {
  int at[LAYOUT_DIMS] = {0};
  at[dim] = x;
  return mem_linear_offset(slot, at);
}

/* ---- by threads ---- */

static bool covers_exactly(const Layout *l) {
  if (layout_replication(l) != 1) return false;
  return layout_positions(l) == layout_elements(l);
}

bool copy_plan(const Distribution *d, const Machine *m, const AccessBounds *b, CopyPlan *out) {
  CopySlice s = copy_slice(b->access.op);
  return copy_plan_slice(d, m, b, &s, out);
}

bool copy_plan_slice(const Distribution *d, const Machine *m, const AccessBounds *b,
                     const CopySlice *s, CopyPlan *out) {
  const Type *t = b->access.tile;
  int bits = dtype_memory_bits(t->dtype), proved = b->run * bits / 8, n = 0;
  LayoutBlocking blocking = {
      .dims = t->rank, .bits = bits, .lanes = m->lanes, .waves = m->waves, .widest = proved};
  if (blocking.widest > m->target->global_access) blocking.widest = m->target->global_access;
  if (blocking.widest < 1) blocking.widest = 1;
  blocking.least = bits < 8 ? 8 / bits : 1; /* two lanes must not store to the same byte */
  if (!distribute_extents(d, b->access.op, t, blocking.extent)) return false;
  for (int i = 0; i < t->rank; i++) blocking.extent[i] /= s->of[i];
  if (b->run_axis >= 0) blocking.order[n++] = b->run_axis;
  for (int i = t->rank - 1; i >= 0; i--)
    if (i != b->run_axis) blocking.order[n++] = i;
  out->layout = b->access.ndynamic
                    ? anchor_access(d, m, b->access.op, t, b->access.memory->type, blocking.extent)
                    : layout_blocked(&blocking);
  add_slices(&out->layout, s);
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

/* ---- loads that end in shared memory ---- */

/* Bytes along the axis that are adjacent in a slot, and in the tensor. */
static int slot_run(const AccessBounds *b, const MemLayout *slot) {
  return mem_vector(slot, b->run_axis) * slot->bits / 8;
}

static int tensor_run(const AccessBounds *b, const MemLayout *slot) {
  return b->run * slot->bits / 8;
}

/* Slices along the dim are equal, one as far from the next as the other. */
static bool repeats(const MemLayout *slot, int dim, int of, int64_t *last) {
  int each = slot->extent[dim] / of;
  *last = 0;
  for (int x = 0; x < slot->extent[dim]; x++) {
    int64_t inside = copy_along(slot, dim, x % each);
    if (copy_along(slot, dim, x) != copy_along(slot, dim, x - x % each) + inside) return false;
    if (inside > *last) *last = inside;
  }
  return true;
}

/* Whether each slice of a dense slot is one piece of it, which its swizzle keeps together. */
static bool is_piece(const MemLayout *slot, const CopySlice *s, int64_t elements) {
  int64_t last = 0, end = 1, most;
  for (int d = 0; d < slot->dims; d++) {
    if (slot->extent[d] % s->of[d] || !repeats(slot, d, s->of[d], &most)) return false;
    last += most;
  }
  while (slot->swizzle.mask >= end) end *= 2;
  return last == elements - 1 && elements % end == 0;
}

static int first_element(const MemLayout *slot, const CopySlice *s) {
  int64_t first = 0;
  for (int d = 0; d < slot->dims; d++)
    first += copy_along(slot, d, s->at[d] * (slot->extent[d] / s->of[d]));
  return (int)first;
}

DirectPlan copy_direct(const Machine *m, const AccessBounds *b, const MemLayout *slot) {
  CopySlice s = copy_slice(b->access.op);
  return copy_direct_slice(m, b, slot, &s);
}

DirectPlan copy_direct_slice(const Machine *m, const AccessBounds *b, const MemLayout *slot,
                             const CopySlice *s) {
  int64_t all = mem_bytes(slot), elements = 1, n = copy_slices(s);
  for (int d = 0; d < slot->dims; d++) elements *= slot->extent[d];
  if (b->run_axis < 0 || elements * slot->bits != all * 8) return (DirectPlan){0};
  if (n > 1 && !is_piece(slot, s, elements / n)) return (DirectPlan){0};
  for (int bytes = copy_direct_most(m); bytes >= 4; bytes -= 12) {
    int64_t block = (int64_t)bytes * m->lanes * m->waves;
    if (bytes * 8 >= slot->bits && slot_run(b, slot) >= bytes && tensor_run(b, slot) >= bytes &&
        all % (block * n) == 0)
      return (DirectPlan){bytes, (int)(all / (block * n)), first_element(slot, s)};
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
