/* emit_element.c: what an access tests for one element, and the values from registers that its
 * coordinates contain. All of it is over $x, the coordinates of the element in the tile, so it
 * serves lanes (lower_open.c) and loops (lower_tiles) alike. */
#include "emit/emit.h"

/* ---- tests ---- */
const Sym *element_test(Lower *l, const AccessBounds *b, const Sym *test) {
  const Value *memory = b->access.memory;
  SymBinding to[2 * IR_MAX_RANK];
  int rank = memory ? memory->type->rank : 0;
  for (int m = 0; m < rank; m++) {
    const Sym *size = b->sizes[m];
    if (!size && !memory_is_scratch(memory)) size = emit_param_symbol(l, memory->index, "SIZE", m);
    if (!size || !b->coords[m]) return NULL;
    to[2 * m] = (SymBinding){access_y(l->sym, m), b->coords[m]};
    to[2 * m + 1] = (SymBinding){access_n(l->sym, m), size};
  }
  return sym_subst(l->sym, test, to, 2 * rank);
}

static bool add_test(Lower *l, const AccessBounds *b, const Sym *test, ElementTests *out) {
  if (!(out->at[out->n++] = element_test(l, b, test)))
    return emit_refuse(l, b->access.op, "a memory of unknown size");
  return true;
}

bool element_tests(Lower *l, const AccessBounds *b, bool elsewhere, ElementTests *out) {
  const Op *op = b->access.op;
  const Attr *mask = op_attr(op, ATTR_mask);
  out->n = 0;
  if (!mask) return emit_refuse(l, op, "an access without a computed mask");
  if (mask->n > MAX_BOUNDS) return emit_refuse(l, op, "a mask with this many conditions");
  for (int i = 0; !elsewhere && i < mask->n; i++)
    if (!add_test(l, b, mask->exprs[i], out)) return false;
  for (int i = 0; elsewhere && i < b->nbounds; i++)
    if (b->bounds[i].verdict != BOUND_promised && !add_test(l, b, b->bounds[i].test, out))
      return false;
  return true;
}

/* ---- offsets ---- */

/* An allocation has a layout. An argument is row-major, by its sizes; if only the tensor itself
 * knows them, or it is a view, it is addressed by its strides. */
const Sym *element_offset(Lower *l, const AccessBounds *b) {
  const Value *memory = b->access.memory;
  const Sym *offset = sym_int(l->sym, 0), *stride = sym_int(l->sym, 1);
  bool known = true;
  MemLayout m;
  if (memory_layout(memory, &m)) return memory_offset(l, &m, memory, b->access.op, b->coords);
  for (int d = 1; d < memory->type->rank; d++) known = known && b->sizes[d];
  if (memory_is_view(l->k, memory)) known = false;
  if (!known && memory_is_scratch(memory)) return NULL;
  for (int d = memory->type->rank - 1; d >= 0; d--) {
    if (!known) stride = emit_param_symbol(l, memory->index, "STRIDE", d);
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
  return bits < 64 && sym_range(l->sym, emit_facts(l), limit).lo >= INT64_C(1) << (bits - 1);
}

/* The truth values of -limit <= v <= limit. */
static Value *is_near(Lower *l, Value *v, const Sym *limit) {
  Value *wide = emit_cast(l, v, DTYPE_index), *truth[2];
  const Type *type = type_vec(l->k->cx, v->type->n, DTYPE_i1);
  for (int i = 0; i < 2; i++) {
    const Sym *end = i ? limit : sym_neg(l->sym, limit);
    Value *args[] = {wide, emit_splat(l, emit_expr(l, end, DTYPE_index), v->type->n)};
    truth[i] = emit_op(l, i ? OP_le : OP_ge, args, 2, NULL, 0, type);
  }
  return emit_binary(l, OP_and, truth[0], truth[1]);
}

/* The value, replaced by 0 where arithmetic on it might overflow; *near says where it is not (NULL:
 * nowhere replaced). A 32-bit value times a stride fits into 64 bits, so then only coordinates
 * matter. NULL after refusing. */
static Value *limited(Lower *l, const AccessBounds *b, const Sym *name, Value *v, Value **near) {
  DType dtype = v->type->dtype;
  const Sym *limit, *offset = dtype_info[dtype].bits < 64 ? NULL : element_offset(l, b);
  *near = NULL;
  if (!access_reach(l->sym, b->coords, b->access.memory->type->rank, offset, name, &limit)) {
    emit_refuse(l, b->access.op, "a product of values from memory as a coordinate");
    return NULL;
  }
  if (is_always_near(l, dtype, limit)) return v;
  *near = is_near(l, v, limit);
  return emit_select(l, *near, v, emit_splat(l, emit_number(l, dtype, 0), v->type->n));
}

bool element_take(Lower *l, const AccessBounds *b, const Sym *name, Value *v, ElementValues *to) {
  Value *near;
  if (to->n == ELEMENT_VALUES) return emit_refuse(l, b->access.op, "more than 4 dynamic values");
  v = v ? limited(l, b, name, v, &near) : NULL;
  if (!v) return false;
  to->near = emit_both(l, to->near, near);
  to->name[to->n] = (SymBinding){name, emit_arg(l, to->n)};
  to->value[to->n++] = v;
  return true;
}

/* The expression that the mapping gives; NULL: none. */
static const Sym *mapped_coord(const MemAccess *m, int i, const Sym *dim) {
  SymPairs where = {0};
  const Sym *e = NULL;
  if (m->mapping && i < m->mapping->ndynamic) where = m->mapping->dynamic[i];
  for (int p = 0; p < where.n; p++)
    if (dim_base(where.at[p].key) == dim_base(dim)) e = where.at[p].value;
  return e;
}

const Sym *element_own_coord(Lower *l, const AccessBounds *b, const Sym *dim) {
  const Type *t = b->access.tile;
  int own = t->kind == TYPE_scalar ? -1 : type_base_dim(t, dim);
  return own < 0 ? NULL : access_x(l->sym, own);
}

bool element_lookup(Lower *l, const AccessBounds *b, int i, const Sym *dim, const Sym **out) {
  const MemAccess *m = &b->access;
  SymBinding to[IR_MAX_RANK];
  const Sym *e = mapped_coord(m, i, dim);
  *out = e ? NULL : element_own_coord(l, b, dim);
  if (!e) return true;
  for (int j = 0; j < m->iterated.n; j++) {
    const Sym *x = element_own_coord(l, b, m->iterated.at[j].key);
    if (!x) return false;
    to[j] = (SymBinding){access_iterator(l->sym, j), x};
  }
  e = sym_subst(l->sym, distribute_expr(l->d, m->op, e), to, m->iterated.n);
  *out = e ? sym_floor(l->sym, e) : NULL;
  return *out != NULL;
}
