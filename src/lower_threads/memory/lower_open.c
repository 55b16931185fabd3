/* lower_open.c: what an access of a tile is to one lane: its start, its offset and its tests as
 * expressions over the tile's coordinates, and how wide it may be.
 *
 * A width is used only if analysis has shown that the elements are adjacent, aligned and tested
 * together (AccessBounds.run). Coordinates that come from registers (dynamic values) give every
 * element an address of its own. */
#include "ir/dtype.h"
#include "lower_threads/lower.h"

/* ---- values that coordinates take from registers ---- */
/* Dynamic values, and the coordinate that an operand replaces. */
static bool open_dynamic(Lower *l, LaneAccess *a, const AccessBounds *b) {
  const MemAccess *m = a->access;
  for (int i = 0; i < m->ndynamic; i++) {
    Value *v = access_looks_up_in_place(m, i) ? lower_operand(l, m->dynamic[i], m->tile, a->layout)
                                              : lower_lookup(l, a, b, i);
    if (!element_take(l, b, access_dynamic(l->sym, i, false), v, &a->dynamic)) return false;
  }
  if (m->replaced < 0) return true;
  Value *v = lower_operand(l, a->op->args[1], m->tile, a->layout);
  return element_take(l, b, sym_symbol(l->sym, "$replaced", false), v, &a->dynamic);
}

/* ---- opening ---- */

static bool open_tile(Lower *l, LaneAccess *a) {
  const Type *t = a->access->tile;
  for (int i = 0; i < t->rank; i++) {
    DimRange here;
    if (!standing_range(&l->standing, a->op, t->dims[i], &here)) return false;
    a->start[i] = here.start;
    a->x[i] = sym_add(l->sym, here.start, lane_coord(l, a->layout, i));
  }
  return true;
}

static const Sym *with_dynamic(Lower *l, const LaneAccess *a, const Sym *e) {
  return sym_subst(l->sym, e, a->dynamic.name, a->dynamic.n);
}

static bool open_tests(Lower *l, LaneAccess *a, const AccessBounds *b, bool elsewhere) {
  if (!element_tests(l, b, elsewhere, &a->tests)) return false;
  for (int i = 0; i < a->tests.n; i++) a->tests.at[i] = with_dynamic(l, a, a->tests.at[i]);
  return true;
}

bool open_elsewhere(Lower *l, LaneAccess *a, const AccessBounds *b) {
  a->width = 1;
  a->offset_dtype = DTYPE_index;
  return open_tests(l, a, b, true);
}

static int access_width(const Lower *l, const AccessBounds *b, const Layout *layout) {
  const Type *t = b->access.memory->type;
  bool shared = memory_is_scratch(b->access.memory);
  int bytes = shared ? l->machine.target->shared_access : l->machine.target->global_access;
  if (b->run_axis < 0) return 1;
  int width = layout_vector(layout, b->run_axis, dtype_memory_bits(t->dtype), bytes);
  return width < b->run ? width : b->run;
}

bool open_access(Lower *l, const Op *op, const AccessBounds *b, const Layout *layout,
                 LaneAccess *out) {
  LaneAccess *a = out;
  *a = (LaneAccess){.op = op, .access = &b->access, .layout = layout};
  a->memory = l->value[b->access.memory->id];
  a->width = access_width(l, b, layout);
  a->offset_dtype = b->offset_bits == 32 ? DTYPE_i32 : DTYPE_index;
  if (!open_tile(l, a) || !open_dynamic(l, a, b)) return false;
  for (int m = 0; m < b->access.memory->type->rank; m++)
    a->coords[m] = with_dynamic(l, a, b->coords[m]);
  a->offset = with_dynamic(l, a, element_offset(l, b));
  if (!a->offset) return emit_refuse(l, op, "an address that cannot be expressed");
  if (!open_tests(l, a, b, false)) return false;
  memory_add_slot(l, b->access.memory, op, a->coords);
  return true;
}
