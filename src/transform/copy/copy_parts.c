/* copy_parts.c: see copy_parts.h. */
#include "transform/copy/copy_parts.h"

#include "ir/dtype.h"
#include "transform/copy/copy_box.h"

static Arena *arena_of(const CopyModes *w) { return w->k->cx->diags.arena; }

/* ---- by mode ---- */

static const char *why_box(const CopyModes *w, const AccessBounds *b, const MemLayout *slot,
                           const CopySlice *s, int d) {
  CopyBox box;
  if (!copy_box_slice(w->d, b, slot, s, &box)) return NULL;
  if (copy_box(w->d, b, slot, &box)) return "it is not made of boxes";
  int m = 0;
  while (m + 1 < box.rank && box.axis[m] != d) m++;
  return arena_printf(arena_of(w), "a box has %d elements along this dimension, and a part %d",
                      box.extent[m], slot->extent[d] / s->of[d]);
}

static const char *why_direct(const CopyModes *w, const AccessBounds *b, const MemLayout *slot,
                              const CopySlice *s) {
  if (copy_direct_slice(w->machine, b, slot, s).bytes) return NULL;
  return arena_printf(arena_of(w),
                      "the %d lanes of a workgroup fill neighbouring bytes of shared memory, which "
                      "its parts do not have",
                      w->machine->lanes * w->machine->waves);
}

/* No thread has elements past its slice, which would be another one's. */
static bool stays_inside(const Layout *l, const CopySlice *s) {
  for (int d = 0; d < l->dims; d++) {
    int last = 0;
    EACH_DIGIT(l, p, g)
      if (g->stride && g->dim == d) last += (g->radix - 1) * g->stride;
    if (s->of[d] > 1 && last >= l->extent[d]) return false;
  }
  return true;
}

static const char *why_threads(const CopyModes *w, const Op *copy, const AccessBounds *b,
                               const MemLayout *slot, const CopySlice *s, int d) {
  CopyPlan plan;
  int bits = dtype_memory_bits(copy->args[1]->type->dtype);
  if (!copy_plan_slice(w->d, w->machine, b, s, &plan)) return "its tile size is unknown";
  if (plan.layout.extent[d] != slot->extent[d]) return "its tile is not the whole allocation";
  if (!stays_inside(&plan.layout, s) || (copy_goes_by(copy, "async") && !plan.exact))
    return "a part does not divide evenly among the threads";
  int bytes = copy_width(&plan, b, slot) * bits / 8;
  if (copy_goes_by(copy, "async") && bytes < 4)
    return arena_printf(arena_of(w), "asynchronous copies have at least 4 bytes, and these %d",
                        bytes);
  return NULL;
}

/* ---- all of them ---- */

const char *copy_why_whole(const CopyModes *w, const Op *copy, const CopySlice *s, int d) {
  const AccessBounds *b = w->bounds[copy->id];
  const Op *alloc = copy->args[1]->def;
  MemLayout slot;
  if (copy->nargs > 2) return "its coordinates come from memory";
  if (!alloc || alloc->kind != OP_alloc || !copy_slot_layout(w->d, alloc, &slot))
    return "its tile size is unknown";
  if (slot.extent[d] % s->of[d] || slot.extent[d] / s->of[d] * slot.bits % 8)
    return arena_printf(arena_of(w), "its tile has %d elements along this dimension",
                        slot.extent[d]);
  if (copy_goes_by(copy, "tma")) return why_box(w, b, &slot, s, d);
  if (copy_goes_by(copy, "direct")) return why_direct(w, b, &slot, s);
  return why_threads(w, copy, b, &slot, s, d);
}

int copy_other_dim(const CopyModes *w, const Op *copy, int of) {
  for (int d = 0; d < copy->args[1]->type->rank; d++) {
    CopySlice s = copy_slice(copy);
    s.of[d] = of;
    if (!copy_why_whole(w, copy, &s, d)) return d;
  }
  return -1;
}
