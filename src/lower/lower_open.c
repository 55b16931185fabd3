/* lower_open.c: what an access of a tile is to one lane: where it begins, its offset and its tests
 * as expressions over the tile's coordinates, and how wide it may be.
 *
 * A width is taken only where analysis has shown that the elements are adjacent, aligned and tested
 * alike (AccessBounds.run). Coordinates that come from registers (dynamic values) make an address
 * of their own for every element. */
#include "ir/attr.h"
#include "ir/dtype.h"
#include "lower/lower.h"

/* ---- offsets ---- */

/* An allocation knows where its elements lie. An argument is row-major, by its sizes; where only
 * the tensor itself knows them, or it is a view, by its strides. */
const Sym *access_offset(Lower *l, const AccessBounds *b) {
  const Value *memory = b->access.memory;
  const Sym *offset = sym_int(l->sym, 0), *stride = sym_int(l->sym, 1);
  bool known = true;
  MemLayout m;
  if (memory_layout(memory, &m)) return memory_offset(l, &m, memory, b->access.op, b->coords);
  for (int d = 1; d < memory->type->rank; d++) known = known && b->sizes[d];
  if (memory_is_view(l->k, memory)) known = false;
  if (!known && memory_is_scratch(memory)) return NULL;
  for (int d = memory->type->rank - 1; d >= 0; d--) {
    if (!known) stride = lower_param_symbol(l, memory->index, "STRIDE", d);
    offset = sym_add(l->sym, offset, sym_mul(l->sym, b->coords[d], stride));
    if (known && d) stride = sym_mul(l->sym, stride, b->sizes[d]);
  }
  return offset;
}

/* ---- values that coordinates take from registers ---- */

static bool take_dynamic(Lower *l, LaneAccess *a, Value *v) {
  if (a->ndynamic == LANE_DYNAMIC) return lower_refuse(l, a->op, "more than 4 dynamic values");
  a->dynamic[a->ndynamic++] = v;
  return v != NULL;
}

/* Dynamic values, and the coordinate that an operand replaces, become $APPLY_EXPR_ARG_i. */
static bool open_dynamic(Lower *l, LaneAccess *a, SymBinding *to, int *n) {
  const MemAccess *m = a->access;
  for (int i = 0; i < m->ndynamic; i++) {
    to[(*n)++] = (SymBinding){access_dynamic(l->sym, i, false), emit_arg(l, a->ndynamic)};
    Value *v = access_looks_up_in_place(m, i) ? lower_operand(l, m->dynamic[i], m->tile, a->layout)
                                              : lower_lookup(l, a, i);
    if (!take_dynamic(l, a, v)) return false;
  }
  if (m->replaced < 0) return true;
  to[(*n)++] = (SymBinding){sym_symbol(l->sym, "$replaced", false), emit_arg(l, a->ndynamic)};
  return take_dynamic(l, a, lower_operand(l, a->op->args[1], m->tile, a->layout));
}

/* ---- opening ---- */

static bool open_place(Lower *l, LaneAccess *a) {
  const Type *t = a->access->tile;
  for (int i = 0; i < t->rank; i++) {
    DimRange here;
    if (!standing_range(&l->standing, a->op, t->dims[i], &here)) return false;
    a->start[i] = here.start;
    a->x[i] = sym_add(l->sym, here.start, lane_coord(l, a->layout, i));
  }
  return true;
}

/* What the mask says in terms of tile coordinates. */
static bool open_tests(Lower *l, LaneAccess *a, const AccessBounds *b, const SymBinding *dynamic,
                       int ndynamic) {
  const Attr *mask = op_attr(a->op, ATTR_mask);
  const Value *memory = a->access->memory;
  SymBinding to[2 * IR_MAX_RANK];
  int rank = memory->type->rank;
  if (!mask) return lower_refuse(l, a->op, "an access whose mask was not found yet");
  if (mask->n > MAX_BOUNDS) return lower_refuse(l, a->op, "a mask of so many tests");
  for (int m = 0; m < rank; m++) {
    const Sym *size = b->sizes[m];
    if (!size && !memory_is_scratch(memory)) size = lower_param_symbol(l, memory->index, "SIZE", m);
    if (!size || !a->coords[m]) return lower_refuse(l, a->op, "a memory of unknown size");
    to[2 * m] = (SymBinding){access_y(l->sym, m), a->coords[m]};
    to[2 * m + 1] = (SymBinding){access_n(l->sym, m), size};
  }
  for (int i = 0; i < mask->n; i++) {
    const Sym *test = sym_subst(l->sym, mask->dims[i], to, 2 * rank);
    a->tests[a->ntests++] = sym_subst(l->sym, test, dynamic, ndynamic);
  }
  return true;
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
  SymBinding dynamic[LANE_DYNAMIC + 1];
  int ndynamic = 0;
  *a = (LaneAccess){.op = op, .access = &b->access, .layout = layout};
  a->memory = l->value[b->access.memory->id];
  a->width = access_width(l, b, layout);
  a->offset_dtype = b->offset_bits == 32 ? DTYPE_i32 : DTYPE_index;
  if (!open_place(l, a) || !open_dynamic(l, a, dynamic, &ndynamic)) return false;
  for (int m = 0; m < b->access.memory->type->rank; m++)
    a->coords[m] = sym_subst(l->sym, b->coords[m], dynamic, ndynamic);
  a->offset = sym_subst(l->sym, access_offset(l, b), dynamic, ndynamic);
  if (!a->offset) return lower_refuse(l, op, "an address that cannot be written down");
  if (!open_tests(l, a, b, dynamic, ndynamic)) return false;
  memory_add_slot(l, b->access.memory, op, a->coords);
  return true;
}
