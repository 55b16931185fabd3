/* rules_logic.c: Min, Max, comparisons and select. */
#include "sym/rules/rules.h"

const Sym *rule_extreme(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  for (int i = 0; i < s->n; i++) {
    for (int j = 0; j < s->n; j++) {
      if (i == j) continue;
      const Sym *beats =
          s->kind == SYM_min ? sym_le(cx, s->arg[j], s->arg[i]) : sym_ge(cx, s->arg[j], s->arg[i]);
      if (!beats || prove_by_rule(f, beats) != SYM_ALWAYS) continue;
      const Sym *rest = NULL;
      for (int k = 0; k < s->n; k++) {
        if (k == i) continue;
        rest = !rest                ? s->arg[k]
               : s->kind == SYM_min ? sym_min(cx, rest, s->arg[k])
                                    : sym_max(cx, rest, s->arg[k]);
      }
      return rest;
    }
  }
  return NULL;
}

const Sym *rule_compare_prove(const SymFacts *f, const Sym *s) {
  SymTruth t = prove_by_rule(f, s);
  return t == SYM_UNKNOWN ? NULL : sym_bool(f->cx, t == SYM_ALWAYS);
}

/* A term without its factors that are positive; NULL: it may be negative. */
static const Sym *without_positive(const SymFacts *f, const Sym *term) {
  SymCtx *cx = f->cx;
  const Sym *left = sym_int(cx, 1), *one = left;
  for (int i = 0; i < factor_count(term); i++) {
    Factor x = factor_at(term, i);
    if (x.exp < 1 || !is_integer(x.base) || dom_of(f, x.base).lo.num < 0) return NULL;
    const Sym *positive = sym_ge(cx, x.base, one);
    if (!positive || prove_by_rule(f, positive) != SYM_ALWAYS) left = sym_mul(cx, left, x.base);
    if (!left) return NULL;
  }
  return left;
}

/* A sum of terms that are not negative is at least 1, or at most 0: their positive factors do not matter. */
const Sym *rule_compare_some(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  Sum sum;
  sum_of(s->base, &sum);
  bool some = sum.n && sum.term[0].coeff.num < 0, changed = false;
  if (cmp_kind(s) != SYM_le || !rat_is(sum.k, some)) return NULL;
  const Sym *all = sym_int(cx, 0);
  for (int i = 0; i < sum.n && all; i++) {
    Term t = sum.term[i];
    if ((t.coeff.num < 0) != some) return NULL;
    const Sym *left = without_positive(f, t.base);
    if (!left) return NULL;
    changed |= left != t.base || !rat_is(t.coeff, some ? -1 : 1);
    all = sym_add(cx, all, left);
  }
  if (!all || !changed) return NULL;
  return some ? sym_ge(cx, all, sym_int(cx, 1)) : sym_le(cx, all, sym_int(cx, 0));
}

/* Divides out factors that all terms share and whose sign is known. */
const Sym *rule_compare_factor(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  Sum sum;
  sum_of(s->base, &sum);
  if (sum.k.num) return NULL;
  const Sym *first = sum.term[0].base;
  if (sum.n == 1 && factor_count(first) == 1 && factor_at(first, 0).exp == 1) return NULL;
  for (int i = 0; i < factor_count(first); i++) {
    const Sym *x = factor_at(first, i).base;
    Dom d = dom_of(f, x);
    bool positive = d.lo.num > 0, negative = d.hi.num < 0;
    if (!positive && !negative) continue;
    const Sym *q = sym_div(cx, s->base, x);
    if (!q || q->size >= s->base->size) continue;
    return cmp_with(cx, cmp_kind(s), positive ? q : sym_neg(cx, q));
  }
  return NULL;
}

/* c*round(x) + k <= 0 with a single rounding. */
const Sym *rule_compare_floor(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  Sum sum;
  Rat bound;
  sum_of(s->base, &sum);
  const Sym *r = sum.n == 1 ? sum.term[0].base : NULL;
  if (!r || (r->kind != SYM_floor && r->kind != SYM_ceil) || cmp_kind(s) != SYM_le) return NULL;
  Rat c = sum.term[0].coeff;
  if (!rat_div(rat_neg(sum.k), c, &bound)) return NULL;
  bool upper = c.num > 0, down = r->kind == SYM_floor;
  int64_t b = upper ? rat_floor(bound) : rat_ceil(bound);
  /* floor(x) <= b: x < b + 1.  floor(x) >= b: x >= b.  ceil(x) <= b: x <= b.  ceil(x) >= b: x > b
   * - 1. */
  if (upper && down) return sym_lt(cx, r->arg[0], sym_add_const(cx, sym_int(cx, b), RAT_ONE));
  if (upper) return sym_le(cx, r->arg[0], sym_int(cx, b));
  if (down) return sym_ge(cx, r->arg[0], sym_int(cx, b));
  return sym_gt(cx, r->arg[0], sym_add_const(cx, sym_int(cx, b), rat_int(-1)));
}

/* ---- select */

/* select(a <= b, a, b) is Min(a, b). */
const Sym *rule_select_extreme(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  const Sym *c = s->arg[0], *yes = s->arg[1], *no = s->arg[2];
  if (c->kind != SYM_le && c->kind != SYM_lt) return NULL;
  if (c == sym_le(cx, yes, no) || c == sym_lt(cx, yes, no)) return sym_min(cx, yes, no);
  if (c == sym_ge(cx, yes, no) || c == sym_gt(cx, yes, no)) return sym_max(cx, yes, no);
  return NULL;
}

/* Moves terms that both branches add out of the select. */
const Sym *rule_select_common(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  Sum yes, no;
  sum_of(s->arg[1], &yes), sum_of(s->arg[2], &no);
  const Sym *common = rat_eq(yes.k, no.k) ? sym_num(cx, yes.k) : cx->zero;
  for (int i = 0; i < yes.n; i++)
    for (int j = 0; j < no.n; j++)
      if (yes.term[i].base == no.term[j].base && rat_eq(yes.term[i].coeff, no.term[j].coeff))
        common = sym_add(cx, common, term_sym(cx, yes.term[i]));
  if (!common || common == cx->zero) return NULL;
  const Sym *rest =
      sym_select(cx, s->arg[0], sym_sub(cx, s->arg[1], common), sym_sub(cx, s->arg[2], common));
  return sym_add(cx, rest, common);
}

/* Moves a factor common to all coefficients of both branches out of the select. */
const Sym *rule_select_content(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  Sum yes, no;
  Rat g, h;
  sum_of(s->arg[1], &yes), sum_of(s->arg[2], &no);
  if (!sum_content(&yes, &g) || !sum_content(&no, &h) || !rat_gcd(g, h, &g)) return NULL;
  if (!rat_gcd(g, yes.k, &g) || !rat_gcd(g, no.k, &g) || !g.num || rat_is(g, 1)) return NULL;
  Rat inverse = {g.den, g.num};
  const Sym *inner = sym_select(cx, s->arg[0], sym_scale(cx, s->arg[1], inverse),
                                sym_scale(cx, s->arg[2], inverse));
  return sym_scale(cx, inner, g);
}

/* Moves constants out of the operands that are sums: the parts of an address that differ between
 * accesses of a swizzled tile come together, so that the rest is computed once. */
const Sym *rule_xor_constants(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  const Sym *all = cx->zero;
  for (int i = 0; i < s->n && all; i++) {
    const Sym *x = s->arg[i];
    Sum sum;
    sum_of(x, &sum);
    const Sym *k = sym_num(cx, sum.k), *rest = sum.n ? sym_sub(cx, x, k) : NULL;
    bool apart = rest && rat_is_int(sum.k) && sum.k.num > 0;
    if (apart) {
      Dom d = dom_of(f, rest);
      apart = dom_is_integer(&d) && !((uint64_t)sum.k.num & ~d.zeros);
    }
    all = apart ? sym_xor(cx, sym_xor(cx, all, rest), k) : sym_xor(cx, all, x);
  }
  return all;
}
