/* bounds.c: which values an expression can take: its Dom, and upper bounds by elimination. */
#include "sym/prove/facts.h"

/* What the facts say about exactly this expression. */
static Dom dom_assumed(const SymFacts *f, const Sym *base, Dom d) {
  for (; f; f = f->parent) {
    if (!f->known.n || !(f->touched & base->symbols)) continue;
    const Dom *known = map_get(&f->known, map_key(base));
    if (known) d = dom_meet(d, *known);
  }
  return d;
}

static Dom dom_base(const SymFacts *f, const Sym *s);

static Dom dom_power(const SymFacts *f, Factor x) {
  Dom base = dom_of(f, x.base), d = dom_const(RAT_ONE);
  if (x.exp < 0) base = dom_inverse(base);
  int64_t e = x.exp < 0 ? -x.exp : x.exp;
  if (e == 1) return base;
  if (e > 16) return is_integer(x.base) && x.exp > 0 ? dom_integer() : dom_any();
  for (int64_t i = 0; i < e; i++) d = dom_mul(d, base);
  if (e % 2 == 0 && d.lo.num < 0) { /* an even power: interval multiplication cannot see it */
    d.lo = RAT_ZERO;
    dom_reduce(&d);
  }
  return d;
}

/* x is floor(y) or ceiling(n/256): what is at least x, without rounding. `coarse`: n instead of
 * n/256 + 255/256, which is as much if n is not negative. NULL: it is neither. */
static const Sym *unrounded(SymCtx *cx, const Sym *x, bool coarse) {
  if (x->kind == SYM_floor) return x->arg[0];
  const Sym *y = x->kind == SYM_ceil ? x->arg[0] : NULL;
  Rat more;
  if (!y || y->kind != SYM_mul || !y->base || y->k.num != 1 || !is_integer(y->base)) return NULL;
  if (coarse) return y->base;
  return rat_make(y->k.den - 1, y->k.den, &more) ? sym_add_const(cx, y, more) : NULL;
}

/* Sizes whose product has a bound may have none themselves: that of M*N is one of
 * ceiling(M/256)*ceiling(N/256), too. */
static Rat bound_unrounded(const SymFacts *f, const Sym *s, bool coarse) {
  const Sym *all = sym_int(f->cx, 1);
  bool changed = false;
  for (int i = 0; i < s->n && all; i++) {
    const Factor *x = &s->factor[i];
    const Sym *more = x->exp == 1 ? unrounded(f->cx, x->base, coarse) : NULL;
    if (x->exp < 0 || dom_of(f, more ? more : x->base).lo.num < 0) return RAT_INF;
    changed |= more != NULL;
    all = sym_mul(f->cx, all, more ? more : sym_pow(f->cx, x->base, x->exp));
  }
  if (!all) f->cx->error[0] = 0;
  return all && changed ? dom_of(f, all).hi : RAT_INF;
}

static Dom dom_product(const SymFacts *f, const Sym *s) {
  Dom d = dom_power(f, s->factor[0]);
  for (int i = 1; i < s->n; i++) d = dom_mul(d, dom_power(f, s->factor[i]));
  Rat small = rat_int(
      INT32_MAX >> 11); /* a multiple of what needs more may not fit 32 bits, with a worse bound */
  if (!f->bounds_products || s->n < 2) return d;
  for (int coarse = 0; coarse < 2 && rat_cmp(d.hi, small) > 0; coarse++) {
    Rat hi = bound_unrounded(f, s, coarse);
    if (rat_finite(hi) && rat_cmp(hi, d.hi) < 0) d.hi = hi;
    if (rat_finite(hi) && d.lo.num < 0) d.lo = RAT_ZERO; /* too large for a number before */
  }
  dom_reduce(&d);
  return d;
}

/* From the terms, then refined by relations and by facts about exactly this sum. */
static Dom dom_sum(const SymFacts *f, const Sym *s) {
  Dom d = dom_const(s->k);
  for (int i = 0; i < s->n; i++)
    d = dom_add(d, dom_scale(dom_of(f, s->term[i].base), s->term[i].coeff));
  bool related = false;
  for (const SymFacts *g = f; g; g = g->parent) related = related || g->relations.n;
  if (!related) return d;
  SymCtx *cx = f->cx;
  const Sym *core = sum_make(cx, RAT_ZERO, s->term, s->n), *opposite = sym_neg(cx, core);
  Dom k = dom_const(s->k);
  d = dom_meet(d, dom_add(dom_assumed(f, core, dom_any()), k));
  if (opposite)
    d = dom_meet(d, dom_add(dom_scale(dom_assumed(f, opposite, dom_any()), rat_int(-1)), k));
  return d;
}

static Dom dom_fold(const SymFacts *f, const Sym *s, Dom (*op)(Dom, Dom)) {
  Dom d = dom_of(f, s->arg[0]);
  for (int i = 1; i < s->n; i++) d = op(d, dom_of(f, s->arg[i]));
  return d;
}

static Dom dom_select(const SymFacts *f, const Sym *s) {
  return dom_join(dom_of(f, s->arg[1]), dom_of(f, s->arg[2]));
}

static Dom dom_base(const SymFacts *f, const Sym *s) {
  switch ((SymKind)s->kind) {
  case SYM_symbol: return s->flags & SYM_NONNEG ? dom_range(RAT_ZERO, RAT_INF) : dom_integer();
  case SYM_int:
  case SYM_rational:
  case SYM_bool: return dom_const(s->k);
  case SYM_add: return dom_sum(f, s);
  case SYM_mul:
    if (s->base) return dom_scale(dom_of(f, s->base), s->k);
    return dom_product(f, s);
  case SYM_pow: return dom_product(f, s);
  case SYM_floor: return dom_floor(dom_of(f, s->arg[0]));
  case SYM_ceil: return dom_ceil(dom_of(f, s->arg[0]));
  case SYM_mod: return dom_mod(dom_of(f, s->arg[0]), dom_of(f, s->arg[1]));
  case SYM_xor: return dom_fold(f, s, dom_xor);
  case SYM_min: return dom_fold(f, s, dom_min);
  case SYM_max: return dom_fold(f, s, dom_max);
  case SYM_select: return dom_select(f, s);
  case SYM_le:
  case SYM_lt:
  case SYM_eq:
  case SYM_ne:
  case SYM_and:
  case SYM_or: return dom_range(RAT_ZERO, RAT_ONE);
  case SYM_COUNT: break;
  }
  WV_BUG("unknown kind of expression");
}

Dom dom_of(const SymFacts *f, const Sym *s) {
  if (is_num(s)) return dom_const(s->k);
  f = facts_about(f, s);
  Dom *d = map_get(&f->memo->dom, map_key(s));
  if (d) return *d;
  d = ARENA_NEW(f->arena, Dom);
  *d = dom_assumed(f, s, dom_base(f, s));
  map_set(f->arena, &f->memo->dom, map_key(s), d);
  return *d;
}

/* ---- elimination
 *
 * A relation r <= 0 gives e <= e - w*r for any w >= 0. Choosing w so that a term of e cancels, a
 * few times over, follows chains such as j <= i, i < N. With w = K >= 0 it shows that row i < M of
 * a tensor ends before M*K, which only helps where products of sizes have a bound. */

enum { ELIMINATION_DEPTH = 4, ELIMINATION_BUDGET = 128 };

static bool coefficient(const Sym *sum, const Sym *base, Rat *c) {
  Sum s;
  sum_of(sum, &s);
  for (int i = 0; i < s.n; i++)
    if (s.term[i].base == base) return *c = s.term[i].coeff, true;
  return false;
}

static Rat eliminate(const SymFacts *f, const Sym *e, int depth, int *budget);

/* e with term t cancelled by r, which contains the same base with coefficient c. */
static Rat without_term(const SymFacts *f, const Sym *e, Term t, const Sym *r, Rat c, Rat best,
                        int depth, int *budget) {
  SymCtx *cx = f->cx;
  Rat w;
  if ((c.num < 0) != (t.coeff.num < 0) || !rat_div(t.coeff, c, &w)) return best;
  const Sym *next = r ? sym_sub(cx, e, sym_scale(cx, r, w)) : NULL;
  if (!next) {
    cx->error[0] = 0;
    return best;
  }
  if (--*budget < 0) return best; /* too many relations: miss the proof rather than hang */
  Rat bound = eliminate(f, next, depth - 1, budget);
  return rat_cmp(bound, best) < 0 ? bound : best;
}

/* A factor of the term occurs in r: use r times the other factors, if they are non-negative. */
static Rat with_factors(const SymFacts *f, const Sym *e, Term t, const Sym *r, Rat best, int depth,
                        int *budget) {
  SymCtx *cx = f->cx;
  for (int i = 0; i < t.base->n && *budget > 0; i++) {
    const Factor *x = &t.base->factor[i];
    Rat c;
    if (x->exp != 1 || !coefficient(r, x->base, &c)) continue;
    const Sym *others = sym_div(cx, t.base, x->base);
    if (others && dom_of(f, others).lo.num >= 0)
      best = without_term(f, e, t, sym_mul(cx, others, r), c, best, depth, budget);
  }
  return best;
}

static Rat with_relation(const SymFacts *f, const Sym *e, const Sym *r, Rat best, int depth,
                         int *budget) {
  Sum s;
  sum_of(e, &s);
  for (int i = 0; i < s.n; i++) {
    Term t = s.term[i];
    Rat c;
    if (coefficient(r, t.base, &c)) best = without_term(f, e, t, r, c, best, depth, budget);
    else if (f->bounds_products && t.base->kind == SYM_mul)
      best = with_factors(f, e, t, r, best, depth, budget);
  }
  return best;
}

static Rat eliminate(const SymFacts *f, const Sym *e, int depth, int *budget) {
  Rat best = dom_of(f, e).hi;
  if (depth == 0 || is_num(e)) return best;
  for (const SymFacts *g = f; g; g = g->parent)
    for (int i = 0; i < g->relations.n; i++)
      if (g->relations.at[i]->symbols & e->symbols)
        best = with_relation(f, e, g->relations.at[i], best, depth, budget);
  return best;
}

Rat sym_upper_bound(const SymFacts *f, const Sym *s) {
  int budget = ELIMINATION_BUDGET;
  if (is_num(s)) return s->k;
  const Rat *known = map_get(&f->memo->upper, map_key(s));
  if (known) return *known;
  Rat bound = eliminate(f, s, ELIMINATION_DEPTH, &budget);
  map_set(f->arena, &f->memo->upper, map_key(s), arena_copy(f->arena, &bound, sizeof bound));
  return bound;
}

/* ---- proofs by rule */

static bool is_kept(const SymFacts *f, const Sym *cond) {
  for (; f; f = f->parent)
    for (int i = 0; i < f->kept.n; i++)
      if (f->kept.at[i] == cond) return true;
  return false;
}

static bool has_relations(const SymFacts *f) {
  for (; f; f = f->parent)
    if (f->relations.n) return true;
  return false;
}

static bool never_zero(const Dom *d) {
  Rat r;
  if (d->lo.num > 0 || d->hi.num < 0) return true;
  if (!d->lattice) return false;
  if (!d->step.num) return d->offset.num != 0;
  return rat_mod(d->offset, d->step, &r) && r.num != 0;
}

static SymTruth prove_order(const SymFacts *f, const Sym *e, bool strict) {
  Dom d = dom_of(f, e);
  Rat hi = d.hi, lo = d.lo;
  if (has_relations(f)) {
    const Sym *opposite = sym_neg(f->cx, e);
    hi = sym_upper_bound(f, e);
    if (opposite) lo = rat_neg(sym_upper_bound(f, opposite));
  }
  if (strict ? hi.num < 0 : hi.num <= 0) return SYM_ALWAYS;
  if (strict ? lo.num >= 0 : lo.num > 0) return SYM_NEVER;
  return SYM_UNKNOWN;
}

static SymTruth prove_zero(const SymFacts *f, const Sym *e) {
  Dom d = dom_of(f, e);
  if (never_zero(&d)) return SYM_NEVER;
  if (d.lo.num == 0 && d.hi.num == 0 && rat_finite(d.lo) && rat_finite(d.hi)) return SYM_ALWAYS;
  if (!has_relations(f)) return SYM_UNKNOWN;
  const Sym *opposite = sym_neg(f->cx, e);
  Rat hi = sym_upper_bound(f, e),
      lo = opposite ? rat_neg(sym_upper_bound(f, opposite)) : RAT_MINUS_INF;
  if (hi.num < 0 || lo.num > 0) return SYM_NEVER;
  return hi.num == 0 && lo.num == 0 ? SYM_ALWAYS : SYM_UNKNOWN;
}

static SymTruth negate(SymTruth t) {
  return t == SYM_UNKNOWN ? t : t == SYM_ALWAYS ? SYM_NEVER : SYM_ALWAYS;
}

static SymTruth prove_all(const SymFacts *f, const Sym *cond) {
  SymTruth absorbing = cond->kind == SYM_and ? SYM_NEVER : SYM_ALWAYS, all = negate(absorbing);
  for (int i = 0; i < cond->n; i++) {
    SymTruth t = prove_by_rule(f, cond->arg[i]);
    if (t == absorbing) return t;
    if (t == SYM_UNKNOWN) all = t;
  }
  return all;
}

static SymTruth prove_by_kind(const SymFacts *f, const Sym *cond) {
  switch ((SymKind)cond->kind) {
  case SYM_le:
  case SYM_lt: return prove_order(f, cond->base, cmp_kind(cond) == SYM_lt);
  case SYM_eq: return prove_zero(f, cond->base);
  case SYM_ne: return negate(prove_zero(f, cond->base));
  default: return prove_all(f, cond);
  }
}

SymTruth prove_by_rule(const SymFacts *f, const Sym *cond) {
  if (cond->kind == SYM_bool) return cond->k.num ? SYM_ALWAYS : SYM_NEVER;
  f = facts_about(f, cond);
  SymTruth t = prove_by_kind(f, cond);
  if (t != SYM_UNKNOWN || !(f->touched & cond->symbols)) return t;
  if (is_kept(f, cond)) return SYM_ALWAYS;
  return is_kept(f, sym_not(f->cx, cond)) ? SYM_NEVER : SYM_UNKNOWN;
}
