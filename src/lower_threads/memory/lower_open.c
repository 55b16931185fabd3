/* lower_open.c: what an access of a tile is to one lane: its start, its offset and its tests as
 * expressions over the tile's coordinates, and how wide it may be.
 *
 * A width is used only if analysis has shown that the elements are adjacent, aligned and tested
 * together (AccessBounds.run). Coordinates that come from registers (dynamic values) give every
 * element an address of its own. */
#include "ir/attr.h"
#include "ir/dtype.h"
#include "lower_threads/lower.h"

/* ---- offsets ---- */

/* An allocation has a layout. An argument is row-major, by its sizes; if only the tensor itself
 * knows them, or it is a view, it is addressed by its strides. */
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

/* Whether every value of the dtype is within the limit. */
static bool is_always_near(Lower *l, DType dtype, const Sym *limit) {
  int bits = dtype_info[dtype].bits;
  if (!limit) return true;
  return bits < 64 && sym_range(l->sym, lower_facts(l), limit).lo >= INT64_C(1) << (bits - 1);
}

/* The truth values of -limit <= v <= limit. */
static Value *is_near(Lower *l, Value *v, const Sym *limit) {
  Value *wide = emit_cast(l, v, DTYPE_index), *truth[2];
  const Type *type = type_vec(l->k->cx, v->type->n, DTYPE_i1);
  for (int i = 0; i < 2; i++) {
    const Sym *end = i ? limit : sym_neg(l->sym, limit);
    Value *args[] = {wide, emit_splat(l, emit_expr(l, end, DTYPE_index), v->type->n)};
    truth[i] = emit(l, i ? OP_le : OP_ge, args, 2, NULL, 0, type);
  }
  return emit_binary(l, OP_and, truth[0], truth[1]);
}

/* A 32-bit value times a stride fits into 64 bits, so then only coordinates matter. */
Value *lower_limited(Lower *l, const AccessBounds *b, const Sym *name, Value *v, Value **near) {
  DType dtype = v->type->dtype;
  const Sym *limit, *offset = dtype_info[dtype].bits < 64 ? NULL : access_offset(l, b);
  *near = NULL;
  if (!access_reach(l->sym, b->coords, b->access.memory->type->rank, offset, name, &limit)) {
    lower_refuse(l, b->access.op, "a product of values from memory as a coordinate");
    return NULL;
  }
  if (is_always_near(l, dtype, limit)) return v;
  *near = is_near(l, v, limit);
  return emit_select(l, *near, v, emit_splat(l, emit_number(l, dtype, 0), v->type->n));
}

static bool take_dynamic(Lower *l, LaneAccess *a, const AccessBounds *b, const Sym *name,
                         Value *v) {
  Value *near;
  if (a->ndynamic == LANE_DYNAMIC) return lower_refuse(l, a->op, "more than 4 dynamic values");
  v = v ? lower_limited(l, b, name, v, &near) : NULL;
  if (!v) return false;
  a->near = a->near && near ? emit_binary(l, OP_and, a->near, near) : near ? near : a->near;
  a->dynamic[a->ndynamic++] = v;
  return true;
}

/* Dynamic values, and the coordinate that an operand replaces, become $APPLY_EXPR_ARG_i. */
static bool open_dynamic(Lower *l, LaneAccess *a, const AccessBounds *b, SymBinding *to, int *n) {
  const MemAccess *m = a->access;
  for (int i = 0; i < m->ndynamic; i++) {
    const Sym *name = access_dynamic(l->sym, i, false);
    to[(*n)++] = (SymBinding){name, emit_arg(l, a->ndynamic)};
    Value *v = access_looks_up_in_place(m, i) ? lower_operand(l, m->dynamic[i], m->tile, a->layout)
                                              : lower_lookup(l, a, i);
    if (!take_dynamic(l, a, b, name, v)) return false;
  }
  if (m->replaced < 0) return true;
  const Sym *name = sym_symbol(l->sym, "$replaced", false);
  to[(*n)++] = (SymBinding){name, emit_arg(l, a->ndynamic)};
  return take_dynamic(l, a, b, name, lower_operand(l, a->op->args[1], m->tile, a->layout));
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

/* Defines $y and $n of a test in terms of tile coordinates. */
static bool open_memory(Lower *l, const LaneAccess *a, const AccessBounds *b, SymBinding *to) {
  const Value *memory = a->access->memory;
  for (int m = 0; m < memory->type->rank; m++) {
    const Sym *size = b->sizes[m];
    if (!size && !memory_is_scratch(memory)) size = lower_param_symbol(l, memory->index, "SIZE", m);
    if (!size || !a->coords[m]) return lower_refuse(l, a->op, "a memory of unknown size");
    to[2 * m] = (SymBinding){access_y(l->sym, m), a->coords[m]};
    to[2 * m + 1] = (SymBinding){access_n(l->sym, m), size};
  }
  return true;
}

/* The tests of the mask in terms of tile coordinates. */
static bool open_tests(Lower *l, LaneAccess *a, const AccessBounds *b, const SymBinding *dynamic,
                       int ndynamic) {
  const Attr *mask = op_attr(a->op, ATTR_mask);
  SymBinding to[2 * IR_MAX_RANK];
  if (!mask) return lower_refuse(l, a->op, "an access without a computed mask");
  if (mask->n > MAX_BOUNDS) return lower_refuse(l, a->op, "a mask with this many conditions");
  if (!open_memory(l, a, b, to)) return false;
  for (int i = 0; i < mask->n; i++) {
    const Sym *test = sym_subst(l->sym, mask->exprs[i], to, 2 * a->access->memory->type->rank);
    a->tests[a->ntests++] = sym_subst(l->sym, test, dynamic, ndynamic);
  }
  return true;
}

bool open_elsewhere(Lower *l, LaneAccess *a, const AccessBounds *b) {
  SymBinding to[2 * IR_MAX_RANK];
  if (!open_memory(l, a, b, to)) return false;
  a->ntests = 0;
  a->width = 1;
  a->offset_dtype = DTYPE_index;
  for (int i = 0; i < b->nbounds; i++)
    if (b->bounds[i].verdict != BOUND_promised)
      a->tests[a->ntests++] =
          sym_subst(l->sym, b->bounds[i].test, to, 2 * a->access->memory->type->rank);
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
  if (!open_place(l, a) || !open_dynamic(l, a, b, dynamic, &ndynamic)) return false;
  for (int m = 0; m < b->access.memory->type->rank; m++)
    a->coords[m] = sym_subst(l->sym, b->coords[m], dynamic, ndynamic);
  a->offset = sym_subst(l->sym, access_offset(l, b), dynamic, ndynamic);
  if (!a->offset) return lower_refuse(l, op, "an address that cannot be expressed");
  if (!open_tests(l, a, b, dynamic, ndynamic)) return false;
  memory_add_slot(l, b->access.memory, op, a->coords);
  return true;
}
