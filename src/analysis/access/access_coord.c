/* access_coord.c: the coordinates of an access, as expressions at its op.
 *
 *     read %a {mapping = map 2 {M: $index0, N: $index1 + OFF} -> ...}      $y1 = $x1 + OFF
 *
 * The rules are those of the evaluator (docs/language.md, section 6): coordinates come from the
 * mapping, or else by name; scratch is addressed relative to the workgroup's tile. */
#include "analysis/access/in_bounds.h"

/* ---- coordinates ---- */

/* The position of an access along a dimension that its register lacks: the workgroup's position. If
 * the value differs between waves, the wave's position. */
static const Sym *position(const MemAccess *a, const Standing *s, const Sym *dim,
                           const DimRange *here) {
  if (a->op->kind != OP_write || !a->op->args[0]->varying) return here->start;
  return sym_add(s->d->k->cx->sym, here->start, distribute_wave_offset(s->d, dim));
}

/* The register's coordinate along a dimension or, if it lacks the dimension, the position of the
 * access. */
static const Sym *coord_by_name(const MemAccess *a, const Standing *s, const Sym *dim, bool local) {
  SymCtx *cx = s->d->k->cx->sym;
  int axis = type_base_dim(a->tile, dim);
  DimRange here;
  if (!standing_range(s, a->op, axis < 0 ? dim : a->tile->dims[axis], &here)) return NULL;
  if (axis < 0) return local ? sym_int(cx, 0) : position(a, s, dim, &here);
  return local ? sym_sub(cx, access_x(cx, axis), here.start) : access_x(cx, axis);
}

/* Replaces iterators by coordinates; values from memory may be negative. */
static const Sym *fill_iterators(const MemAccess *a, const Standing *s, const Sym *e, bool local) {
  SymCtx *cx = s->d->k->cx->sym;
  Arena *arena = s->d->arena;
  int n = 0;
  SymBinding *to = ARENA_ARRAY(arena, SymBinding, a->iterated.n + a->ndynamic);
  for (int i = 0; i < a->iterated.n; i++) {
    const Sym *dim = a->iterated.at[i].key, *iterator = access_iterator(cx, i);
    if (!sym_contains(e, iterator)) continue;
    to[n] = (SymBinding){iterator, coord_by_name(a, s, dim, local)};
    if (!to[n++].to) return NULL;
  }
  for (int i = 0; i < a->ndynamic; i++)
    to[n++] = (SymBinding){access_dynamic(cx, i, true), access_dynamic(cx, i, false)};
  return sym_subst(cx, e, to, n);
}

const Sym *access_coord(const MemAccess *a, const Standing *s, int m) {
  const Sym *dim = a->memory->type->dims[m], *e = access_pair(a->coords, dim);
  if (m == a->replaced) return sym_symbol(s->d->k->cx->sym, "$replaced", false);
  if (!e) return coord_by_name(a, s, dim, a->local);
  /* remaining fractions are rounded down */
  return sym_floor(s->d->k->cx->sym,
                   fill_iterators(a, s, distribute_expr(s->d, a->op, e), a->local));
}

const Sym *access_peer(const MemAccess *a, const Standing *s) {
  const Attr *peer = op_attr(a->op, ATTR_peer);
  if (!peer) return NULL;
  return fill_iterators(a, s, distribute_expr(s->d, a->op, peer->sym), a->local);
}

/* ---- dynamic values ---- */

/* Whether a dynamic value is looked up at a single coordinate along `dim` for the whole run. */
static bool looked_up_evenly(const MemAccess *a, const Standing *s, SymPairs where, const Sym *dim,
                             int axis, int run) {
  SymCtx *cx = s->d->k->cx->sym;
  const Sym *e = access_pair(where, dim), *x = access_x(cx, axis);
  const Sym *begin = sym_mul(cx, sym_int(cx, run), sym_symbol(cx, "$q", false));
  if (!e) return type_base_dim(a->tile, dim) != axis;
  e = fill_iterators(a, s, distribute_expr(s->d, a->op, e), false);
  for (int r = 1; e && r < run; r++) {
    SymBinding first = {x, begin}, later = {x, sym_add(cx, begin, sym_int(cx, r))};
    const Sym *lhs = sym_subst(cx, e, &later, 1), *rhs = sym_subst(cx, e, &first, 1);
    if (sym_equal(cx, s->facts, sym_floor(cx, lhs), sym_floor(cx, rhs)) != SYM_ALWAYS) return false;
  }
  return e != NULL;
}

bool access_dynamic_is_even(const MemAccess *a, const Standing *s, int i, int axis, int run) {
  const Type *t = a->dynamic[i]->type;
  SymPairs where = {0};
  if (a->mapping && i < a->mapping->ndynamic) where = a->mapping->dynamic[i];
  for (int d = 0; d < t->rank; d++)
    if (!looked_up_evenly(a, s, where, t->dims[d], axis, run)) return false;
  return true;
}
