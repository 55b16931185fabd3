/* lower_forms.c: expressions over the coordinates of a tile, taken apart once for all registers.
 *
 *     200*$x0 + $x1 at (3, 8)        its value at register 0, plus 3 steps of 200 and 8 of 1
 *     Mod($x0, W)*8 + $x1            along $x0 more than an addition: once for each place there
 *
 * Simplification is the dear part of lowering an access; a form pays it once for each place along
 * the dims that are not linear. */
#include "lower/lower.h"

/* ---- cheaper spellings ---- */

static int cost_of(Lower *l, const SymFacts *facts, const Sym *e) {
  Arena *own = arena_new(); /* what the facts learn on the way stays in theirs */
  const SymCode *code = sym_lower(own, l->sym, facts, &e, 1);
  int cost = code ? code->cost : INT32_MAX;
  if (!code) sym_take_error(l->sym);
  arena_free(own);
  return cost;
}

static const Sym *simplified(Lower *l, const Sym *e) {
  const Sym *s = sym_simplify(l->sym, lower_facts(l), e);
  if (!s) sym_take_error(l->sym);
  return s ? s : e;
}

/* The smallest expression is not always the one with the cheapest operations:
 * (25*t - 9*Mod(t, 4))/2 is 8*floor(t/4) + ... with shifts. */
const Sym *cheaper(Lower *l, const Sym *e) {
  const Sym *s = simplified(l, e);
  if (s == e || sym_is_bool(e) || sym_nargs(s) == 0) return s;
  return cost_of(l, lower_facts(l), e) < cost_of(l, lower_facts(l), s) ? e : s;
}

/* ---- forms ---- */

static bool is_over_tile(Lower *l, const Sym *e, int rank) {
  for (int i = 0; i < rank; i++)
    if (sym_contains(e, access_x(l->sym, i))) return true;
  return false;
}

/* The step along each dim on its own; NULL: there is none. */
static void single_steps(Lower *l, TileForm *f) {
  for (int i = 0; i < f->rank; i++) {
    const Sym *x = access_x(l->sym, i), *rest;
    if (!sym_contains(f->whole, x)) f->step[i] = sym_int(l->sym, 0);
    else if (sym_is_bool(f->whole) || !sym_linear(l->sym, f->whole, &x, 1, &f->step[i], &rest) ||
             is_over_tile(l, f->step[i], f->rank))
      f->step[i] = NULL;
  }
}

TileForm *form_of(Lower *l, const Sym *e, int rank) {
  TileForm *f = ARENA_NEW(l->arena, TileForm);
  *f = (TileForm){.whole = lower_sound(l, e), .rank = rank};
  single_steps(l, f);
  return f;
}

static bool same_place(const TileForm *f, const int *a, const int *b) {
  for (int i = 0; i < f->rank; i++)
    if (!f->step[i] && a[i] != b[i]) return false;
  return true;
}

/* Which spelling is the cheaper one is decided once for a form: its values are alike. */
static const Sym *spelt(Lower *l, TileForm *f, const Sym *e) {
  if (f->values.n) return f->plain ? e : simplified(l, e);
  const Sym *s = cheaper(l, e);
  f->plain = s == e && s != simplified(l, e);
  return s;
}

/* The value where only the dims without a step have moved from register 0. */
static const Sym *known_at(Lower *l, TileForm *f, const Sym *const *x, const int *coord) {
  SymBinding to[IR_MAX_RANK];
  FormValue v = {0};
  for (int i = 0; i < f->values.n; i++)
    if (same_place(f, f->values.at[i].coord, coord)) return f->values.at[i].value;
  for (int i = 0; i < f->rank; i++) {
    v.coord[i] = coord[i];
    const Sym *moved = f->step[i] ? x[i] : sym_add(l->sym, x[i], sym_int(l->sym, coord[i]));
    to[i] = (SymBinding){access_x(l->sym, i), moved};
  }
  v.value = sym_subst(l->sym, f->whole, to, f->rank);
  if (v.value) v.value = spelt(l, f, v.value);
  vec_push(l->arena, &f->values, v);
  return v.value;
}

const Sym *form_at(Lower *l, TileForm *f, const Sym *const *x, const int *coord) {
  const Sym *terms[IR_MAX_RANK + 1], *zero = sym_int(l->sym, 0);
  int n = 0;
  terms[n++] = known_at(l, f, x, coord);
  for (int i = 0; i < f->rank; i++)
    if (f->step[i] && f->step[i] != zero && coord[i])
      terms[n++] = sym_mul(l->sym, f->step[i], sym_int(l->sym, coord[i]));
  return n == 1 ? terms[0] : sym_sum(l->sym, terms, n);
}
