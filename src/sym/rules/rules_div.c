/* rules_div.c: floor, ceil and Mod, using facts.
 *
 * The rules for ceil are those for floor applied to -floor(-x): `opened` returns the argument of
 * the floor and `closed` converts the result back. */
#include "sym/rules/rules.h"

static const Sym *opened(SymCtx *cx, const Sym *s) {
  return s->kind == SYM_floor ? s->arg[0] : sym_neg(cx, s->arg[0]);
}
static const Sym *closed(SymCtx *cx, const Sym *s, const Sym *r) {
  return s->kind == SYM_floor ? r : sym_neg(cx, r);
}

const Sym *rule_floor_by_range(const SymFacts *f, const Sym *s) {
  Dom d = dom_of(f, s);
  Rat v;
  return dom_is_const(&d, &v) ? sym_num(f->cx, v) : NULL;
}

/* Moves terms that the facts show to be integers out of the floor. */
const Sym *rule_floor_integer_terms(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  Sum sum;
  const Sym *x = opened(cx, s);
  if (!x) return NULL;
  sum_of(x, &sum);
  const Sym *whole = cx->zero;
  for (int i = 0; i < sum.n; i++) {
    Dom d = dom_scale(dom_of(f, sum.term[i].base), sum.term[i].coeff);
    if (dom_is_integer(&d)) whole = sym_add(cx, whole, term_sym(cx, sum.term[i]));
  }
  if (!whole || whole == cx->zero) {
    Dom d = dom_of(f, x); /* fractions that are integers only when summed */
    return dom_is_integer(&d) ? closed(cx, s, x) : NULL;
  }
  return closed(cx, s, sym_add(cx, whole, sym_floor(cx, sym_sub(cx, x, whole))));
}

/* ---- terms that cannot carry
 *
 * Split the sum into a + b so that a lies on a lattice o + g*Z with 0 <= o < g. If -o <= b < g - o,
 * adding b never moves a across a multiple of g. */

typedef struct Split {
  const Sym *coarse, *fine;
  int64_t shift; /* multiples of g that b always adds */
  Rat g;
} Split;

/* A granularity of the term's lattice: offset + step*k, both reduced modulo `unit`. */
static bool granularity(const Dom *d, Rat unit, Rat *g) {
  return d->lattice && rat_gcd(d->step, unit, g);
}

/* Tries a split at granularity g: the terms on the lattice g*Z + o form the coarse part. */
static bool split_at(const SymFacts *f, const Sum *sum, Rat g, Rat unit, Split *out) {
  SymCtx *cx = f->cx;
  Dom fine = dom_const(RAT_ZERO), coarse = dom_const(sum->k);
  const Sym *a = sym_num(cx, sum->k), *b = cx->zero;
  Rat low, o, q, h;
  for (int i = 0; i < sum->n; i++) {
    Dom d = dom_scale(dom_of(f, sum->term[i].base), sum->term[i].coeff);
    bool on = granularity(&d, unit, &h) && rat_div(h, g, &q) && rat_is_int(q);
    const Sym *t = term_sym(cx, sum->term[i]);
    if (on) a = sym_add(cx, a, t), coarse = dom_add(coarse, d);
    else b = sym_add(cx, b, t), fine = dom_add(fine, d);
  }
  if (!a || !b || b == cx->zero || !coarse.lattice) return false;
  if (!rat_finite(fine.lo) || !rat_finite(fine.hi) || !rat_mod(coarse.offset, g, &o)) return false;
  if (!rat_add(fine.lo, o, &low) || !rat_div(low, g, &q)) return false;
  int64_t shift = rat_floor(q);
  if (!rat_add(fine.hi, o, &low) || !rat_div(low, g, &q) || rat_floor(q) != shift) return false;
  *out = (Split){a, b, shift, g};
  return true;
}

/* Finds the split with the finest coarse part that works. unit: 1 for a floor, m for Mod(x, m). */
static bool find_split(const SymFacts *f, const Sum *sum, Rat unit, Split *out) {
  for (int i = 0; i < sum->n; i++) {
    Dom d = dom_scale(dom_of(f, sum->term[i].base), sum->term[i].coeff);
    Rat g;
    if (!granularity(&d, unit, &g) || g.num == 0) continue;
    if (split_at(f, sum, g, unit, out)) return true;
  }
  return false;
}

/* floor(x/4 + 1/4) is floor(x/4) when 4 | x: rounds the constant to the lattice of the terms. */
static const Sym *drop_constant(const SymFacts *f, const Sum *sum) {
  SymCtx *cx = f->cx;
  const Sym *terms = sum_make(cx, RAT_ZERO, sum->term, sum->n);
  Dom d = dom_of(f, terms);
  Rat g, o, q, shift;
  if (!granularity(&d, RAT_ONE, &g) || !g.num || !rat_mod(d.offset, g, &o)) return NULL;
  if (!rat_add(sum->k, o, &q) || !rat_div(q, g, &q) || !rat_mul(g, rat_int(rat_floor(q)), &shift))
    return NULL;
  return rat_eq(shift, sum->k) ? NULL : sym_floor(cx, sym_add_const(cx, terms, shift));
}

const Sym *rule_floor_small_terms(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  Sum sum;
  Split split;
  Rat shift;
  const Sym *x = opened(cx, s);
  if (!x) return NULL;
  sum_of(x, &sum);
  if (sum.n + (sum.k.num != 0) < 2) return NULL;
  if (find_split(f, &sum, RAT_ONE, &split) && rat_mul(split.g, rat_int(split.shift), &shift))
    return closed(cx, s, sym_floor(cx, sym_add_const(cx, split.coarse, shift)));
  return sum.k.num ? closed(cx, s, drop_constant(f, &sum)) : NULL;
}

/* ---- nested rounding over an expression */

/* The product of all factors with negative exponents: a common denominator of the terms. */
static const Sym *denominator(SymCtx *cx, const Sum *sum) {
  const Sym *den = NULL;
  for (int i = 0; i < sum->n; i++) {
    const Sym *own = cx->one;
    for (int j = 0; j < factor_count(sum->term[i].base); j++) {
      Factor f = factor_at(sum->term[i].base, j);
      if (f.exp < 0) own = sym_mul(cx, own, sym_pow(cx, f.base, -f.exp));
    }
    if (den && den != own) return NULL;
    den = own;
  }
  return den;
}

/* x = top / q with integers top and q >= 1. */
static bool integer_fraction(const SymFacts *f, const Sym *x, const Sym **top, const Sym **q) {
  SymCtx *cx = f->cx;
  Sum sum;
  int64_t den;
  if (!x) return false;
  sum_of(x, &sum);
  *q = sum.k.num ? NULL : denominator(cx, &sum);
  if (!*q || *q == cx->one || !is_integer(*q) || dom_of(f, *q).lo.num <= 0) return false;
  if (!sum_denominator(&sum, &den)) return false;
  *q = sym_scale(cx, *q, rat_int(den));
  *top = sym_mul(cx, x, *q);
  return *top && is_integer(*top);
}

/* Uses relations: floor(i/N) is 0 when 0 <= i < N. */
const Sym *rule_floor_below(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  const Sym *top, *q, *x = opened(cx, s);
  if (!integer_fraction(f, x, &top, &q) || dom_of(f, top).lo.num < 0) return NULL;
  const Sym *below = sym_lt(cx, top, q);
  return below && prove_by_rule(f, below) == SYM_ALWAYS ? cx->zero : NULL;
}

/* floor((floor(y) + i)/q) with an integer q >= 1. */
const Sym *rule_floor_unwrap(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  Sum top;
  const Sym *numerator, *q, *x = opened(cx, s);
  if (!integer_fraction(f, x, &numerator, &q)) return NULL;
  sum_of(numerator, &top);
  for (int i = 0; i < top.n; i++) {
    Term t = top.term[i];
    bool down = t.base->kind == SYM_floor && rat_is(t.coeff, 1),
         up = t.base->kind == SYM_ceil && rat_is(t.coeff, -1);
    if (!down && !up) continue;
    const Sym *inner = sym_add(cx, sym_sub(cx, numerator, term_sym(cx, t)),
                               sym_scale(cx, t.base->arg[0], t.coeff));
    return closed(cx, s, sym_floor(cx, sym_div(cx, inner, q)));
  }
  return NULL;
}

/* ---- Mod */

/* Reduces coefficients modulo m to [0, m), which gives the tightest range. */
static const Sym *nonneg_residues(SymCtx *cx, const Sum *sum, int64_t m) {
  Term *t = ARENA_ARRAY(cx->scratch, Term, sum->n);
  for (int i = 0; i < sum->n; i++) {
    t[i] = sum->term[i];
    if (!rat_is_int(t[i].coeff) || !is_integer(t[i].base)) return NULL;
    t[i].coeff.num = int_mod(t[i].coeff.num, m);
  }
  return sum_make(cx, sum->k, t, sum->n);
}

static const Sym *reduce_by_range(const SymFacts *f, const Sym *a, Rat m) {
  Dom d = dom_of(f, a);
  Rat lo, hi, k;
  if (!rat_finite(d.lo) || !rat_finite(d.hi) || !rat_div(d.lo, m, &lo) || !rat_div(d.hi, m, &hi))
    return NULL;
  if (rat_floor(lo) != rat_floor(hi) || !rat_mul(m, rat_int(-rat_floor(lo)), &k)) return NULL;
  return sym_add_const(f->cx, a, k);
}

static const Sym *mod_by_const(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  Sum sum;
  const Sym *r = reduce_by_range(f, s->arg[0], s->arg[1]->k);
  if (r) return r;
  sum_of(s->arg[0], &sum);
  ArenaMark mark = arena_mark(cx->scratch);
  const Sym *other = nonneg_residues(cx, &sum, s->arg[1]->k.num);
  arena_rewind(cx->scratch, mark);
  return other && other != s->arg[0] ? reduce_by_range(f, other, s->arg[1]->k) : NULL;
}

const Sym *rule_mod_by_range(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  const Sym *a = s->arg[0], *m = s->arg[1];
  if (is_num(m)) return mod_by_const(f, s);
  if (dom_of(f, m).lo.num <= 0) return NULL;
  if (dom_of(f, a).lo.num < 0) return NULL;
  const Sym *below = sym_lt(cx, a, m); /* NULL: it overflows 64 bits */
  return below && prove_by_rule(f, below) == SYM_ALWAYS ? a : NULL;
}

const Sym *rule_mod_multiples(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  Sum sum;
  Rat m = s->arg[1]->k, q, r;
  if (!is_num(s->arg[1])) return NULL;
  sum_of(s->arg[0], &sum);
  const Sym *left = sym_num(cx, sum.k);
  bool changed = false;
  for (int i = 0; i < sum.n; i++) {
    Dom d = dom_scale(dom_of(f, sum.term[i].base), sum.term[i].coeff);
    bool multiple =
        d.lattice && rat_div(d.step, m, &q) && rat_is_int(q) && rat_mod(d.offset, m, &r);
    changed = changed || multiple;
    left = sym_add(cx, left, multiple ? sym_num(cx, r) : term_sym(cx, sum.term[i]));
  }
  return changed ? sym_mod(cx, left, s->arg[1]) : NULL;
}

const Sym *rule_mod_small_terms(const SymFacts *f, const Sym *s) {
  SymCtx *cx = f->cx;
  Sum sum;
  Split split;
  Rat shift;
  if (!is_num(s->arg[1])) return NULL;
  sum_of(s->arg[0], &sum);
  if (sum.n < 2 || !find_split(f, &sum, s->arg[1]->k, &split) ||
      !rat_mul(split.g, rat_int(split.shift), &shift))
    return NULL;
  const Sym *coarse = sym_mod(cx, sym_add_const(cx, split.coarse, shift), s->arg[1]);
  return sym_add(cx, coarse, sym_add_const(cx, split.fine, rat_neg(shift)));
}
