/* tiles_needed.c: how much of a tile is ever used.
 *
 * A workgroup at the edge has tiles that extend past their tensors. If all writes skip the elements
 * from some coordinate on, and no op combines elements of different coordinates, products need not
 * compute them. The same holds of a value whose every use skips them. */
#include "ir/ops/reductions.h"
#include "lower_tiles/tiles.h"

static bool has(const Type *t, const Sym *dim) {
  return t->kind == TYPE_tile && type_has_dim(t, dim);
}

/* The op combines elements of different coordinates along the dim. */
static bool joins(const Op *op, Kernel *k, const Sym *dim) {
  const Attr *along = op_attr(op, ATTR_dim);
  if (along && op->kind != OP_self_index && op->kind != OP_exists &&
      dim_base(along->sym) == dim_base(dim))
    return true;
  Product p;
  return op->kind == OP_mma && !product_of(k, op, &p) && dim_base(p.roles.k) == dim_base(dim);
}

/* Values with this dim are looked up at coordinates that mappings compute. */
static bool looks_up(const Op *op, const Sym *dim) {
  MemAccess a;
  if (!access_of(op, &a)) return false;
  for (int i = 0; i < a.ndynamic; i++)
    if (has(a.dynamic[i]->type, dim)) return true;
  return false;
}

/* The limit is constant throughout the kernel: no loop or set_symbol, not even a later one, changes
 * it. */
static bool is_invariant(const Tiles *t, const Sym *limit) {
  for (const Op *op = ir_first(t->l.k); op; op = ir_next(op)) {
    const Attr *axis = op_attr(op, ATTR_axis), *version = op_attr(op, ATTR_version);
    if (version && sym_contains(limit, version->sym)) return false;
    if (axis && sym_contains(limit, ir_loop_counter(t->l.k, axis->sym))) return false;
  }
  return true;
}

const Sym *tiles_needed(Tiles *t, const Sym *dim) {
  const Sym *limit = NULL;
  for (const Op *op = ir_first(t->l.k); op; op = ir_next(op)) {
    MemAccess a;
    if (joins(op, t->l.k, dim) || looks_up(op, dim)) return NULL;
    bool writes = op_info[op->kind].flags & OPF_WRITES;
    if (!writes || !access_of(op, &a) || !has(a.tile, dim)) continue;
    const Sym *own = access_limit(t, op, dim);
    if (!own || (limit && own != limit)) return NULL;
    limit = own;
  }
  return limit && is_invariant(t, limit) ? limit : NULL;
}

/* ---- one value ---- */

typedef struct Uses {
  Tiles *t;
  const Sym *dim, *limit; /* limit NULL: no use so far */
  const Op *except;
  bool *seen; /* by value id */
} Uses;

static bool uses_below(Uses *u, const Value *v);

/* The elements that the op uses of v, its operand number i, end at a coordinate. */
static const Sym *end_of_use(Uses *u, const Op *op, int i) {
  if (op->kind == OP_write) return i == 0 ? access_limit(u->t, op, u->dim) : NULL;
  if (op->kind == OP_select && i == 1) return access_kept_limit(u->t, &op->results[0], u->dim);
  return NULL;
}

/* An element of its result depends on no later element of its operand. */
static bool keeps_order(const Op *op, int i) {
  return op_is_elementwise(op) || (op_is_scan(op) && i == 0);
}

static bool use_is_below(Uses *u, const Op *op, int i) {
  if (op == u->except) return true;
  const Sym *own = end_of_use(u, op, i);
  if (!own) return keeps_order(op, i) && uses_below(u, &op->results[0]);
  bool same = !u->limit || u->limit == own;
  u->limit = own;
  return same;
}

static bool uses_below(Uses *u, const Value *v) {
  if (u->seen[v->id]) return true;
  u->seen[v->id] = true;
  if (!has(v->type, u->dim)) return false;
  for (const Op *op = ir_first(u->t->l.k); op; op = ir_next(op))
    for (int i = 0; i < op->nargs; i++)
      if (op->args[i] == v && !use_is_below(u, op, i)) return false;
  return true;
}

const Sym *tiles_used_below(Tiles *t, const Value *v, const Sym *dim, const Op *except) {
  Uses u = {.t = t, .dim = dim, .except = except};
  u.seen = ARENA_ARRAY(t->l.arena, bool, t->l.k->nvalues + 1);
  return uses_below(&u, v) && u.limit && is_invariant(t, u.limit) ? u.limit : NULL;
}
