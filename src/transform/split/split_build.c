/* split_build.c: see split_build.h. */
#include "transform/split/split_build.h"

#include "ir/attr.h"
#include "ir/dtype.h"

/* ---- rows ---- */

Constraint *split_row(Kernel *k, ConstraintKind kind) {
  vec_push(k->arena, &k->constraints, constraint_empty(kind, k->at));
  return &k->constraints.at[k->constraints.n - 1];
}

const Sym *split_dim(Kernel *k, const char *name, const Sym *size) {
  const Sym *dim = sym_symbol(k->cx->sym, name, true);
  for (int i = 1; kernel_constraint(k, CONSTRAINT_bind, dim); i++)
    dim = ir_numbered_symbol(k->cx, arena_printf(k->arena, "%s_", name), i, true);
  Constraint *row = split_row(k, CONSTRAINT_bind);
  row->bind.symbol = dim, row->bind.value = size;
  return dim;
}

const Sym *split_rank(const Kernel *k, int axis) {
  return ir_numbered_symbol(k->cx, "$WG", axis, true);
}

/* ---- ops ---- */

Op *split_op(Kernel *k, Region *r, OpKind kind, Span at, Value *const *args, int n,
             const Type *type) {
  Op *op = ir_op_new(k, kind, at, args, n);
  if (type) ir_set_results(k, op, &type, 1);
  ir_append(r, op);
  return op;
}

Value *split_fill(Kernel *k, Region *r, Span at, const Type *t, int64_t value) {
  Op *op = split_op(k, r, OP_fill, at, NULL, 0, t);
  Attr number = {.key = ATTR_value, .number = (double)value};
  if (!dtype_is_float(t->dtype)) number.sym = sym_int(k->cx->sym, value);
  op_set_attr(k, op, number);
  return &op->results[0];
}

void split_barrier(Kernel *k, Region *r, Span at, const char *who) {
  Attr mode = {.key = ATTR_mode, .text = intern(&k->cx->names, who)};
  op_set_attr(k, split_op(k, r, OP_barrier, at, NULL, 0, NULL), mode);
}

Value *split_add(Kernel *k, Region *r, Span at, Value *a, Value *b) {
  if (!a) return b;
  return &split_op(k, r, OP_add, at, (Value *[]){a, b}, 2, b->type)->results[0];
}

/* ---- accesses ---- */

Attr split_mapping(Kernel *k, const Value *memory, const Type *t, const Sym *first, bool reads) {
  Arena *a = k->arena;
  const Type *m = memory->type;
  Mapping *map = ARENA_NEW(a, Mapping);
  SymPair *tile = ARENA_ARRAY(a, SymPair, t->rank + 1), *to = ARENA_ARRAY(a, SymPair, m->rank);
  for (int i = 0; i < t->rank; i++)
    tile[i] = (SymPair){dim_base(t->dims[i]), ir_numbered_symbol(k->cx, "$index", i, true)};
  to[0] = (SymPair){m->dims[0], first};
  for (int i = 1; i < m->rank; i++) to[i] = (SymPair){m->dims[i], tile[i - 1].value};
  SymPairs inside = {tile, t->rank}, outside = {to, m->rank};
  map->niterators = t->rank;
  map->inputs = reads ? outside : inside, map->outputs = reads ? inside : outside;
  return (Attr){.key = ATTR_mapping, .mapping = map};
}

Value *split_read(Kernel *k, Region *r, Span at, Value *memory, const Type *t, const Sym *first) {
  Op *op = split_op(k, r, OP_read, at, &memory, 1, t);
  op_set_attr(k, op, split_mapping(k, memory, t, first, true));
  return &op->results[0];
}

void split_write(Kernel *k, Region *r, Span at, Value *v, Value *memory, const Sym *first) {
  Op *op = split_op(k, r, OP_write, at, (Value *[]){v, memory}, 2, NULL);
  op_set_attr(k, op, split_mapping(k, memory, v->type, first, false));
}
