/* narrow: removes dimensions of tiles that are never used.
 *
 *     %x = read %p {mapping = map 2 {M: $T0, N: $index1} -> {M: $index0, N: $index1}}
 *     %y = add %x, %x : tile<M, N, f32>
 *     write %y, %c {mapping = map 2 {M: $index0, N: $index1} -> {M: $T0, N: $index1}}
 *   =>
 *     %x = read %p {mapping = map 1 {M: $T0, N: $index0} -> {N: $index0}}
 *     %y = add %x, %x : tile<N, f32>
 *     write %y, %c {mapping = map 1 {N: $index0} -> {M: $T0, N: $index0}}
 *
 * A mapping may omit the iterator of a dimension: whatever the coordinate, the same element is
 * read, or the same address is written. If all uses of a value are of this kind, or work on each
 * element separately, one coordinate of the dimension serves for all. Otherwise a thread that works
 * on a row of its own (M: $T0 above) would hold the same row once for each row of the tile.
 *
 * A dimension is needed by each op that depends on its coordinate, and then wherever a value with
 * that dimension comes from and goes to. Needs BOUNDS: a test of the coordinate depends on it
 * too. */
#include "analysis/access/in_bounds.h"
#include "ir/layout_links.h"
#include "transform/pass.h"

typedef struct Narrow {
  Kernel *k;
  const AccessBounds *const *bounds;
  unsigned *needed; /* by value: dims */
  bool changed;
} Narrow;

static bool is_tile(const Value *v) { return v->type->kind == TYPE_tile; }

static void need(Narrow *n, const Value *v, unsigned dims) {
  if (!is_tile(v) || (n->needed[v->id] | dims) == n->needed[v->id]) return;
  n->needed[v->id] |= dims;
  n->changed = true;
}

static unsigned all_dims(const Value *v) { return is_tile(v) ? (1u << v->type->rank) - 1 : 0; }

/* ---- which dims are used ---- */

static const Value *tile_of(const Op *op) {
  return op->kind == OP_read ? &op->results[0] : op->args[0];
}

/* The iterator of a dim of the register; NULL: the mapping uses it in another way. */
static const Sym *iterator_of(const Narrow *n, const MemAccess *a, const Sym *dim) {
  for (int i = 0; i < a->iterated.n; i++)
    for (int j = 0; a->iterated.at[i].key == dim && j < a->mapping->niterators; j++)
      if (a->iterated.at[i].value == access_iterator(n->k->cx->sym, j))
        return a->iterated.at[i].value;
  return NULL;
}

static bool looks_at(const Narrow *n, const MemAccess *a, int dim) {
  const AccessBounds *b = n->bounds[a->op->id];
  const Sym *x = access_x(n->k->cx->sym, dim), *iterator = iterator_of(n, a, a->tile->dims[dim]);
  if (!iterator || !b) return true;
  for (int i = 0; i < a->coords.n; i++)
    if (sym_contains(a->coords.at[i].value, iterator)) return true;
  for (int i = 0; i < a->iterated.n; i++)
    if (a->iterated.at[i].key != a->tile->dims[dim] &&
        sym_contains(a->iterated.at[i].value, iterator))
      return true;
  for (int i = 0; i < b->nbounds; i++)
    if (b->bounds[i].verdict != BOUND_proved && sym_contains(b->bounds[i].coord, x)) return true;
  return false;
}

static void need_access(Narrow *n, const Op *op) {
  const Value *v = tile_of(op);
  MemAccess a;
  bool mapped = is_tile(v) && access_of(op, &a) && a.mapping && !a.ndynamic &&
                !op_has(op, ATTR_bounds) && !op_has(op, ATTR_mask);
  if (!mapped) need(n, v, all_dims(v));
  for (int i = 0; mapped && i < a.tile->rank; i++)
    if (looks_at(n, &a, i)) need(n, v, 1u << i);
}

/* ---- where values come from and go to ---- */

/* Dims of one value correspond to those of the other with the same names. */
static void need_alike(Narrow *n, const Value *a, const Value *b) {
  for (int i = 0; is_tile(a) && is_tile(b) && i < a->type->rank; i++) {
    int j = type_dim(b->type, a->type->dims[i]);
    if (j < 0) continue;
    if (n->needed[a->id] >> i & 1) need(n, b, 1u << j);
    if (n->needed[b->id] >> j & 1) need(n, a, 1u << i);
  }
}

static void need_carried(Narrow *n, const Op *op) {
  int first = op_carried(op), axis = op->kind == OP_while ? 1 : 0;
  for (int i = 0; i < op->nresults; i++) {
    const Value *arg = op->body->args[axis + i];
    need_alike(n, arg, op->args[first + i]);
    need_alike(n, arg, op->body->last->args[axis + i]);
    need_alike(n, arg, &op->results[i]);
  }
}

/* Elements of another size: those along the last dim are parts of others, or several of them. */
static void need_last(Narrow *n, const Value *a, const Value *b) {
  if (!is_tile(a) || dtype_info[a->type->dtype].bits == dtype_info[b->type->dtype].bits) return;
  need(n, a, 1u << (a->type->rank - 1));
  need(n, b, 1u << (b->type->rank - 1));
}

static void need_op(Narrow *n, const Op *op) {
  if (op->kind == OP_bitcast) need_last(n, op->args[0], &op->results[0]);
  if (op->kind == OP_read || op->kind == OP_write) need_access(n, op);
  else if (op->body) need_carried(n, op);
  else if (op_is_elementwise(op))
    for (int i = 0; i < op->nargs; i++) need_alike(n, op->args[i], &op->results[0]);
  else if (op->kind != OP_fill && op->kind != OP_yield) {
    for (int i = 0; i < op->nargs; i++) need(n, op->args[i], all_dims(op->args[i]));
    for (int i = 0; i < op->nresults; i++) need(n, &op->results[i], all_dims(&op->results[i]));
  }
}

/* A tile keeps at least one dim. */
static void need_one(Narrow *n, Value *v) {
  if (is_tile(v) && v->type->rank && !n->needed[v->id]) need(n, v, 1u << (v->type->rank - 1));
}

static void each_value(Narrow *n, void (*fn)(Narrow *, Value *)) {
  for (Op *op = ir_first(n->k); op; op = ir_next(op)) {
    for (int i = 0; i < op->nresults; i++) fn(n, &op->results[i]);
    for (int i = 0; op->body && i < op->body->nargs; i++) fn(n, op->body->args[i]);
  }
}

static void find_needed(Narrow *n) {
  do {
    n->changed = false;
    for (const Op *op = ir_first(n->k); op; op = ir_next(op)) need_op(n, op);
    if (!n->changed) each_value(n, need_one);
  } while (n->changed);
}

/* ---- removing the rest ---- */

static SymPairs rewrite_pairs(Narrow *n, SymPairs from, const Value *v, const SymBinding *to,
                              int nto) {
  SymPairs out = {ARENA_ARRAY(n->k->arena, SymPair, from.n), 0};
  for (int i = 0; i < from.n; i++) {
    int dim = v ? type_dim(v->type, from.at[i].key) : -1;
    if (dim >= 0 && !(n->needed[v->id] >> dim & 1)) continue;
    const Sym *e = sym_subst(n->k->cx->sym, from.at[i].value, to, nto);
    out.at[out.n++] = (SymPair){from.at[i].key, e};
  }
  return out;
}

/* The remaining iterators are renumbered. */
static void narrow_mapping(Narrow *n, Op *op) {
  const Value *v = tile_of(op);
  MemAccess a;
  if (!is_tile(v) || n->needed[v->id] == all_dims(v) || !access_of(op, &a)) return;
  SymBinding to[IR_MAX_RANK];
  Mapping *m = arena_copy(n->k->arena, a.mapping, sizeof *m);
  m->niterators = 0;
  for (int i = 0; i < a.mapping->niterators; i++) {
    const Sym *old = access_iterator(n->k->cx->sym, i);
    bool gone = false;
    for (int d = 0; d < a.tile->rank; d++)
      gone |= !(n->needed[v->id] >> d & 1) && iterator_of(n, &a, a.tile->dims[d]) == old;
    to[i] = (SymBinding){old, access_iterator(n->k->cx->sym, gone ? i : m->niterators++)};
  }
  bool in = op->kind == OP_read;
  m->inputs = rewrite_pairs(n, a.mapping->inputs, in ? NULL : v, to, a.mapping->niterators);
  m->outputs = rewrite_pairs(n, a.mapping->outputs, in ? v : NULL, to, a.mapping->niterators);
  op_set_attr(n->k, op, (Attr){.key = ATTR_mapping, .mapping = m});
}

static void narrow_type(Narrow *n, Value *v) {
  const Sym *dims[IR_MAX_RANK];
  int rank = 0;
  if (!is_tile(v) || n->needed[v->id] == all_dims(v)) return;
  for (int i = 0; i < v->type->rank; i++)
    if (n->needed[v->id] >> i & 1) dims[rank++] = v->type->dims[i];
  v->type = type_tile(n->k->cx, dims, rank, v->type->dtype);
  n->changed = true;
}

bool pass_narrow(Kernel *k, PassCtx *cx) {
  Narrow n = {.k = k, .bounds = cx->facts.in_bounds};
  n.needed = ARENA_ARRAY(cx->scratch, unsigned, k->nvalues);
  find_needed(&n);
  for (Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_read || op->kind == OP_write) narrow_mapping(&n, op);
  n.changed = false;
  each_value(&n, narrow_type);
  return cx->idle = !n.changed, true;
}
