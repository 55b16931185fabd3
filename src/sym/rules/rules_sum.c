/* rules_sum.c: combining the terms of a sum. */
#include "sym/rules/rules.h"

/* ---- floor and Mod of the same thing */

static const Sym *improved(const Sym *s, const Sym *r) { return r && r->size < s->size ? r : NULL; }

/* For a term c*floor(y): the integer x = d*y and k with c = -k*d. */
static bool quotient_of(SymCtx *cx, Term t, const Sym **x, int64_t *d, Rat *k) {
  Sum y;
  if (t.base->kind != SYM_floor && t.base->kind != SYM_ceil) return false;
  sum_of(t.base->arg[0], &y);
  if (!sum_denominator(&y, d) || !int_lcm(*d, y.k.den, d) || *d < 2) return false;
  *x = sym_scale(cx, t.base->arg[0], rat_int(*d));
  return *x && rat_div(t.coeff, rat_int(-*d), k);
}

static int64_t denominator(const Sym *s) {
  Sum sum;
  int64_t den;
  sum_of(s, &sum);
  return sum_denominator(&sum, &den) ? den : INT64_MAX;
}

/* k*x + c*floor(x/d), c = -k*d: k*Mod(x, d). For a ceil -k*Mod(-x, d). Not if that makes fractions of
 * coefficients, which are divisions in code. */
const Sym *rule_sum_floor_to_mod(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  for (int i = 0; i < s->n; i++) {
    const Sym *x;
    int64_t d;
    Rat k;
    if (!quotient_of(cx, s->term[i], &x, &d, &k)) continue;
    bool down = s->term[i].base->kind == SYM_floor;
    const Sym *mod = sym_mod(cx, down ? x : sym_neg(cx, x), sym_int(cx, d));
    const Sym *rest = sym_sub(cx, sym_sub(cx, s, term_sym(cx, s->term[i])), sym_scale(cx, x, k));
    const Sym *r = improved(s, sym_add(cx, rest, sym_scale(cx, mod, down ? k : rat_neg(k))));
    if (r && denominator(r) <= denominator(s)) return r;
  }
  return NULL;
}

/* Replaces the terms x = s->term[i] and y = s->term[j] by r, scaled by the coefficient of x. */
static const Sym *replace_pair(SymCtx *cx, const Sym *s, int i, int j, const Sym *r) {
  const Sym *rest = sym_sub(cx, sym_sub(cx, s, term_sym(cx, s->term[i])), term_sym(cx, s->term[j]));
  return improved(s, sym_add(cx, rest, sym_scale(cx, r, s->term[i].coeff)));
}

/* x = Mod(a, m) with coefficient 1; y with coefficient c relative to it. */
static const Sym *join_mod(SymCtx *cx, const Sym *x, const Sym *y, Rat c) {
  const Sym *a = x->arg[0], *m = x->arg[1];
  if (!is_num(m) || !rat_eq(c, m->k)) return NULL;
  const Sym *q = sym_floordiv(cx, a, m);
  if (!q || q == y) return q ? a : NULL;
  if (y->kind != SYM_mod || !is_num(y->arg[1])) return NULL;
  return sym_mod(cx, q, y->arg[1]) == y ? sym_mod(cx, a, sym_mul(cx, m, y->arg[1])) : NULL;
}

/* x - m*floor(x/m) for a base x, whatever form floor gave the quotient. */
static const Sym *join_floor(SymCtx *cx, const Sym *x, const Sym *y, Rat c) {
  if ((y->kind != SYM_floor && y->kind != SYM_ceil) || !rat_is_int(c) || c.num > -2 ||
      !is_integer(x))
    return NULL;
  const Sym *m = sym_int(cx, -c.num);
  return sym_floordiv(cx, x, m) == y ? sym_mod(cx, x, m) : NULL;
}

const Sym *rule_sum_mod_pairs(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  for (int i = 0; i < s->n; i++) {
    for (int j = 0; j < s->n; j++) {
      Rat c;
      const Sym *x = s->term[i].base, *y = s->term[j].base;
      if (i == j || !rat_div(s->term[j].coeff, s->term[i].coeff, &c)) continue;
      const Sym *r = x->kind == SYM_mod ? join_mod(cx, x, y, c) : NULL;
      if (!r) r = join_floor(cx, x, y, c);
      if (r) r = replace_pair(cx, s, i, j, r);
      if (r) return r;
    }
  }
  return NULL;
}

/* 64*floor(t/2) + Mod(32*t + x, 64) is 32*t + x when 0 <= x < 32: a part of the Mod has the floor of
 * the same thing. */
const Sym *rule_sum_mod_parts(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  for (int i = 0; i < s->n && s->n > 1; i++) {
    const Sym *x = s->term[i].base, *parts = x->kind == SYM_mod ? rule_mod_small_terms(f, x) : NULL;
    if (!parts || parts->kind != SYM_add) continue;
    const Sym *rest = sym_sub(cx, s, term_sym(cx, s->term[i]));
    const Sym *all = sym_add(cx, rest, sym_scale(cx, parts, s->term[i].coeff));
    const Sym *r = all && all->kind == SYM_add ? rule_sum_mod_pairs(f, all) : all;
    r = improved(s, r);
    if (r) return r;
  }
  return NULL;
}

/* ---- selects of one condition */

const Sym *rule_sum_selects(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  for (int i = 0; i < s->n; i++) {
    const Sym *x = s->term[i].base;
    if (x->kind != SYM_select) continue;
    for (int j = i + 1; j < s->n; j++) {
      const Sym *y = s->term[j].base;
      if (y->kind != SYM_select || y->arg[0] != x->arg[0]) continue;
      Rat c;
      if (!rat_div(s->term[j].coeff, s->term[i].coeff, &c)) continue;
      const Sym *yes = sym_add(cx, x->arg[1], sym_scale(cx, y->arg[1], c));
      const Sym *no = sym_add(cx, x->arg[2], sym_scale(cx, y->arg[2], c));
      const Sym *r = replace_pair(cx, s, i, j, sym_select(cx, x->arg[0], yes, no));
      if (r) return r;
    }
  }
  return NULL;
}

/* ---- roundings whose remainder is known */

/* floor(y) is y - r when y lies on r + Z; worthwhile when several of them cancel. */
const Sym *rule_sum_exact(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  const Sym *all = s;
  int found = 0;
  for (int i = 0; i < s->n && all; i++) {
    const Sym *b = s->term[i].base;
    Rat r;
    if (b->kind != SYM_floor && b->kind != SYM_ceil) continue;
    Dom d = dom_of(f, b->arg[0]);
    if (!d.lattice || !rat_is_int(d.step) || !d.step.num || !rat_mod(d.offset, RAT_ONE, &r))
      continue;
    if (b->kind == SYM_ceil && r.num && !rat_sub(r, RAT_ONE, &r)) continue;
    const Sym *exact = sym_add_const(cx, b->arg[0], rat_neg(r));
    all = sym_add(cx, all, sym_scale(cx, sym_sub(cx, exact, b), s->term[i].coeff));
    found++;
  }
  return found ? improved(s, all) : NULL;
}
