/* lower_until.c: how many iterations of a loop a group of waves needs, if the loop says until when its
 * iterations change an element of its results.
 *
 *     %r = for K {until = {M: $index0 + 1}}       K by 64, M by 256 over groups of 64: the last row that a
 *                                           =>    group has is 64*group + 63, so that it needs the
 *                                                 iterations at 0, 64 ... 64*group: group + 1 of them
 *
 * The position must not fall from one element to the next, so that the last one decides. */
#include "ir/layout_links.h"
#include "lower_threads/lower.h"

bool lower_meets(const Region *r) {
  for (const Op *op = r->owner ? r->first : NULL; op && op_is_inside(op, r->owner);
       op = ir_next(op))
    if (op->kind == OP_barrier) return true;
  return false;
}

static const Sym *put(Lower *l, const Sym *e, const Sym *symbol, const Sym *value) {
  SymBinding to[2];
  for (int i = 0; i < 2; i++)
    to[i] = (SymBinding){sym_symbol(l->sym, sym_name(symbol), i == 0), value};
  return e ? sym_subst(l->sym, e, to, 2) : NULL;
}

/* The index of the last element that the group has along `dim` of a result. */
static const Sym *last_of(Lower *l, const Op *loop, const Value *v, const Sym *dim) {
  DimRange here;
  int reach, at = v->type->kind == TYPE_tile && v->layout ? type_dim(v->type, dim) : -1;
  if (at < 0 || !standing_range(&l->standing, loop, dim, &here)) return NULL;
  const Sym *start = lane_group_start(l, v->layout, at, &reach);
  const Sym *last = sym_sub(l->sym, here.size, sym_int(l->sym, 1));
  last = sym_min(l->sym, last, sym_add(l->sym, start, sym_int(l->sym, reach)));
  return last ? sym_add(l->sym, here.start, last) : NULL;
}

/* The same for all results, which may lie in different ways; NULL: not known. */
static const Sym *last_element(Lower *l, const Op *loop, const Sym *dim) {
  const Sym *last = NULL;
  for (int i = 0; i < loop->nresults; i++) {
    if (!ir_count_uses(l->tiles, &loop->results[i])) continue;
    const Sym *own = last_of(l, loop, &loop->results[i], dim);
    last = own && last ? sym_max(l->sym, last, own) : own;
    if (!last) return NULL;
  }
  return last;
}

static bool is_negative(Lower *l, const Sym *e) {
  const Sym *positive = sym_ge(l->sym, e, sym_int(l->sym, 0));
  return !positive || !sym_proves(l->sym, emit_facts(l), positive);
}

/* Whether e does not become less from one index to the next: by its form. With numbers of more than 32 bits it might not
 * fit into 64. */
static bool never_falls(Lower *l, const Sym *e, const Sym *index) {
  SymKind kind = sym_kind(e);
  if (e == index || !sym_contains(e, index)) return true;
  if (kind != SYM_add && kind != SYM_mul && kind != SYM_floor && kind != SYM_ceil &&
      kind != SYM_min && kind != SYM_max)
    return false;
  for (int i = 0; i < sym_nargs(e); i++) {
    const Sym *arg = sym_arg(l->sym, e, i);
    int64_t n;
    if (sym_is_int(arg, &n) && (n < INT32_MIN || n > INT32_MAX)) return false;
    if (!never_falls(l, arg, index) || (kind == SYM_mul && is_negative(l, arg))) return false;
  }
  return true;
}

/* The position from which on nothing changes for the group. */
static const Sym *end_of(Lower *l, const Op *loop) {
  const SymPair *until = &op_attr(loop, ATTR_until)->pairs[0];
  const Sym *index = ir_numbered_symbol(l->k->cx, "$index", 0, true);
  const Sym *end = put(l, distribute_expr(l->d, loop, until->value), index, index);
  const Sym *last = last_element(l, loop, until->key);
  return end && last && never_falls(l, end, index) ? put(l, end, index, last) : NULL;
}

/* The first iteration whose position is `end` or beyond. */
static const Sym *iteration_at(Lower *l, const Op *loop, const Sym *end) {
  const Sym *axis = op_attr(loop, ATTR_axis)->sym, *counter = ir_loop_counter(l->k, axis);
  Standing inside = standing_inside(&l->standing, loop);
  const Sym *step, *first;
  DimRange here;
  int64_t by;
  if (!standing_range(&inside, loop->body->last, axis, &here)) return NULL;
  if (!sym_linear(l->sym, here.start, &counter, 1, &step, &first)) return NULL;
  if (!sym_is_int(step, &by) || by < 1) return NULL;
  return sym_ceildiv(l->sym, sym_sub(l->sym, end, first), step);
}

const Sym *lower_wanted(Lower *l, const Op *loop) {
  if (!op_has(loop, ATTR_until) || op_step(loop) != 1 || lower_meets(loop->body)) return NULL;
  const Sym *end = end_of(l, loop), *wanted = end ? iteration_at(l, loop, end) : NULL;
  const Sym *trips = distribute_trips(l->d, loop);
  if (wanted) wanted = sym_max(l->sym, sym_min(l->sym, trips, wanted), sym_int(l->sym, 0));
  if (wanted) wanted = sym_simplify(l->sym, emit_facts(l), wanted);
  if (!wanted) sym_take_error(l->sym);
  return wanted == trips ? NULL : wanted;
}
