/* sym_code.c: lowers expressions to cheap straight-line integer operations.
 *
 *     (x + y)*K/8, 8 | K        shr(mul(add x y, K), 3)
 *     Mod(x, 64)                and x 63
 *     4*a + 4*b                 shl(add a b, 2)
 *     floor(x/C), C per launch  divmagic x, magic C, shift C         when 0 <= x < 2**32
 *
 * Equal operations are emitted once. A subexpression of launch-time symbols only is a launch
 * constant and costs nothing here. A sum is multiplied by its denominator before the division, so
 * fractions never appear. A denominator that is not known to be positive is made positive, because
 * both branches of a select are computed, including the one that is not taken. */
#include "sym/prove/facts.h"

typedef struct Lower {
  Arena *arena;
  Arena *scratch;
  SymCtx *cx;
  const SymFacts *f;
  const Sym *const *uniform;
  int nuniform;
  Vec(SymOp) ops;
  Vec(Dom) doms; /* of each op; decides between 32 and 64 bits */
  Map done;      /* expression -> op + 1 */
  Map same;      /* hash of an op -> op + 1 */
} Lower;

static const int op_cost[SYM_OP_COUNT] = {
#define SYM_OP(name, cost, doc) [SYM_OP_##name] = cost,
#include "sym/sym_ops.def"
};

static int lower(Lower *l, const Sym *s);

/* ---- emitting
 *
 * The order of operations must not depend on the C compiler, so no call here has two arguments that
 * both emit: C leaves their order of evaluation open. */

static bool same_op(const SymOp *x, const SymOp *y) {
  return x->kind == y->kind && x->a == y->a && x->b == y->b && x->c == y->c &&
         x->value == y->value && x->sym == y->sym;
}

static bool fits_32(const Dom *d) {
  Rat least = rat_int(INT32_MIN), most = rat_int(INT32_MAX);
  return rat_cmp(d->lo, least) >= 0 && rat_cmp(d->hi, most) <= 0;
}

/* The range of the result, from the ranges of the operands. */
static Dom op_dom(const Lower *l, const SymOp *op) {
  Dom a = l->doms.n ? l->doms.at[op->a] : dom_any(), b = l->doms.n ? l->doms.at[op->b] : dom_any();
  Rat shift;
  switch (op->kind) {
  case SYM_OP_const: return dom_const(rat_int(op->value));
  case SYM_OP_symbol:
  case SYM_OP_launch: return dom_of(l->f, op->sym);
  case SYM_OP_shift: return dom_range(RAT_ZERO, rat_int(63));
  case SYM_OP_add: return dom_add(a, b);
  case SYM_OP_sub: return dom_add(a, dom_scale(b, rat_int(-1)));
  case SYM_OP_mul: return dom_mul(a, b);
  case SYM_OP_shl:
    return dom_is_const(&b, &shift) ? dom_scale(a, rat_int(INT64_C(1) << shift.num))
                                    : dom_integer();
  case SYM_OP_shr:
    return dom_is_const(&b, &shift) ? dom_floor(dom_scale(a, (Rat){1, INT64_C(1) << shift.num}))
                                    : dom_integer();
  case SYM_OP_and: return b.lo.num >= 0 ? dom_range(RAT_ZERO, b.hi) : dom_integer();
  case SYM_OP_xor: return dom_xor(a, b);
  case SYM_OP_div: return dom_floor(dom_mul(a, dom_inverse(b)));
  case SYM_OP_rem: return dom_mod(a, b);
  case SYM_OP_divmagic: return dom_range(RAT_ZERO, a.hi);
  case SYM_OP_min: return dom_min(a, b);
  case SYM_OP_max: return dom_max(a, b);
  case SYM_OP_or:
  case SYM_OP_lt:
  case SYM_OP_le:
  case SYM_OP_eq:
  case SYM_OP_ne: return dom_range(RAT_ZERO, RAT_ONE);
  case SYM_OP_select: return dom_join(b, l->doms.at[op->c]);
  case SYM_OP_magic:
  case SYM_OP_COUNT: break;
  }
  return dom_integer();
}

static int emit(Lower *l, SymOp op) {
  uint64_t h = hash_mix((uint64_t)op.kind << 32 | (uint32_t)op.a,
                        (uint64_t)(uint32_t)op.b << 32 | (uint32_t)op.c);
  h = hash_mix(h, (uint64_t)op.value ^ map_key(op.sym)) | 1;
  uintptr_t at = (uintptr_t)map_get(&l->same, h);
  if (at && same_op(&l->ops.at[at - 1], &op)) return (int)at - 1;
  Dom d = op_dom(l, &op);
  op.bits = fits_32(&d) ? 32 : 64;
  vec_push(l->scratch, &l->ops, op);
  vec_push(l->scratch, &l->doms, d);
  map_set(l->scratch, &l->same, h, (void *)(uintptr_t)l->ops.n);
  return l->ops.n - 1;
}

static int constant(Lower *l, int64_t v) {
  return emit(l, (SymOp){.kind = SYM_OP_const, .value = v});
}

static int op2(Lower *l, SymOpKind kind, int a, int b) {
  return emit(l, (SymOp){.kind = kind, .a = a, .b = b});
}

static bool const_value(const Lower *l, int op, int64_t *v) {
  *v = l->ops.at[op].value;
  return l->ops.at[op].kind == SYM_OP_const;
}

static int log2_of(int64_t v) { /* -1: not a power of two */
  if (v <= 0 || (v & (v - 1))) return -1;
  int n = 0;
  while (v > 1) v >>= 1, n++;
  return n;
}

static int times(Lower *l, int a, int b) {
  int64_t v;
  if (const_value(l, a, &v)) { /* constants go on the right */
    int t = a;
    a = b, b = t;
  }
  if (!const_value(l, b, &v)) return op2(l, SYM_OP_mul, a, b);
  if (v == 1) return a;
  if (v == -1) return op2(l, SYM_OP_sub, constant(l, 0), a);
  return log2_of(v) > 0 ? op2(l, SYM_OP_shl, a, constant(l, log2_of(v))) : op2(l, SYM_OP_mul, a, b);
}

/* ---- launch constants */

static bool is_uniform(const Lower *l, const Sym *s) {
  if (s->kind == SYM_symbol) {
    for (int i = 0; i < l->nuniform; i++)
      if (l->uniform[i] == s) return true;
    return false;
  }
  for (int i = 0; i < s->n && s->symbols; i++)
    if (!is_uniform(l, node_operand(s, i))) return false;
  return true;
}

/* ---- sums */

static int lower_scaled(Lower *l, Term t, int64_t scale) {
  int base = lower(l, t.base);
  return times(l, base, constant(l, scale));
}

/* A factor that several terms of the sum share, or NULL. */
static const Sym *shared_factor(const Sym *s) {
  const Sym *best = NULL;
  int most = 1;
  for (int i = 0; i < s->n; i++) {
    int n = factor_count(s->term[i].base);
    for (int j = 0; j < n && n > 1; j++) {
      Factor f = factor_at(s->term[i].base, j);
      int uses = 0;
      for (int t = 0; t < s->n; t++) uses += factor_exponent(s->term[t].base, f.base) > 0;
      if (f.exp > 0 && uses > most) most = uses, best = f.base;
    }
  }
  return best;
}

/* s = factor*inner + rest */
static int lower_factored(Lower *l, const Sym *s, const Sym *factor) {
  SymCtx *cx = l->cx;
  const Sym *inner = cx->zero, *rest = sym_num(cx, s->k);
  for (int i = 0; i < s->n; i++) {
    bool has = factor_exponent(s->term[i].base, factor) > 0;
    const Sym *t = term_sym(cx, s->term[i]);
    if (has) inner = sym_add(cx, inner, sym_div(cx, t, factor));
    else rest = sym_add(cx, rest, t);
  }
  if (!inner || !rest) return -1;
  int left = lower(l, inner), product = times(l, left, lower(l, factor));
  return rest == cx->zero ? product : op2(l, SYM_OP_add, product, lower(l, rest));
}

static int add_term(Lower *l, int sum, Term t) {
  if (sum < 0) return lower_scaled(l, t, t.coeff.num);
  if (t.coeff.num > 0) return op2(l, SYM_OP_add, sum, lower_scaled(l, t, t.coeff.num));
  return op2(l, SYM_OP_sub, sum, lower_scaled(l, t, -t.coeff.num));
}

/* Integer coefficients. */
static int lower_sum(Lower *l, const Sym *s) {
  Sum sum;
  Rat content;
  sum_of(s, &sum);
  const Sym *factor = shared_factor(s);
  int r = factor ? lower_factored(l, s, factor) : -1;
  if (r >= 0) return r;
  if (sum_content(&sum, &content) && rat_gcd(content, sum.k, &content) && content.num > 1 &&
      sum.n > 1) {
    r = lower(l, sym_scale(l->cx, s, (Rat){1, content.num}));
    return times(l, r, constant(l, content.num));
  }
  for (int i = 0; i < s->n; i++)
    if (s->term[i].coeff.num > 0) r = add_term(l, r, s->term[i]);
  if (r < 0) r = constant(l, s->k.num), sum.k = RAT_ZERO;
  for (int i = 0; i < s->n; i++)
    if (s->term[i].coeff.num < 0) r = add_term(l, r, s->term[i]);
  if (sum.k.num < 0) return op2(l, SYM_OP_sub, r, constant(l, -sum.k.num));
  return sum.k.num ? op2(l, SYM_OP_add, r, constant(l, sum.k.num)) : r;
}

static int lower_product(Lower *l, const Sym *s) {
  int r = -1;
  for (int i = 0; i < s->n; i++)
    for (int64_t e = 0; e < s->factor[i].exp; e++) {
      int f = lower(l, s->factor[i].base);
      r = r < 0 ? f : times(l, r, f);
    }
  return s->kind == SYM_mul ? times(l, r, constant(l, s->k.num)) : r;
}

/* ---- division */

/* The factor by which s must be multiplied to clear all of its fractions, including those inside
 * branches. */
static const Sym *denominator(Lower *l, const Sym *s);

static const Sym *term_denominator(Lower *l, Term t) {
  SymCtx *cx = l->cx;
  const Sym *d = sym_int(cx, t.coeff.den);
  for (int i = 0; i < factor_count(t.base); i++) {
    Factor f = factor_at(t.base, i);
    int64_t e = f.exp < 0 ? -f.exp : f.exp;
    const Sym *own = f.exp < 0 ? f.base : denominator(l, f.base);
    d = sym_mul(cx, d, sym_pow(cx, own, e));
  }
  return d;
}

/* A common multiple: with a/b = p/q, a*q is b*p. */
static const Sym *join_denominators(Lower *l, const Sym *a, const Sym *b) {
  SymCtx *cx = l->cx;
  const Sym *ratio = sym_div(cx, a, b);
  if (!ratio || is_integer(ratio)) return ratio ? a : NULL;
  if (is_num(ratio)) return sym_scale(cx, a, rat_int(ratio->k.den));
  return sym_mul(cx, a, ratio->kind == SYM_add ? b : term_denominator(l, term_of(ratio)));
}

static const Sym *denominator(Lower *l, const Sym *s) {
  SymCtx *cx = l->cx;
  if (!s) return NULL;
  if (is_integer(s) || is_bool(s)) return cx->one;
  if (is_num(s)) return sym_int(cx, s->k.den);
  const Sym *d = cx->one;
  if (s->kind == SYM_add || s->kind == SYM_mul || s->kind == SYM_pow) {
    Sum sum;
    sum_of(s, &sum);
    d = sym_int(cx, sum.k.den);
    for (int i = 0; i < sum.n; i++) d = join_denominators(l, d, term_denominator(l, sum.term[i]));
    return d;
  }
  for (int i = s->kind == SYM_select; i < s->n; i++)
    d = join_denominators(l, d, denominator(l, s->arg[i]));
  bool ordered = s->kind == SYM_min || s->kind == SYM_max;
  return ordered && d && dom_of(l->f, d).lo.num <= 0 ? sym_mul(cx, d, d)
                                                     : d; /* a square keeps the order of the
                                                           * comparison */
}

static const Sym *cleared(Lower *l, const Sym *s, const Sym *d);

/* coeff * base * d, where a factor of the base may itself contain fractions. Inverses are handled
 * first: a divisor that is a sum cancels against d itself, but not against d times something, which
 * would be expanded. */
static const Sym *cleared_term(Lower *l, Term t, const Sym *d) {
  SymCtx *cx = l->cx;
  const Sym *r = d;
  for (int i = 0; i < factor_count(t.base); i++) {
    Factor f = factor_at(t.base, i);
    if (f.exp < 0) r = sym_mul(cx, r, sym_pow(cx, f.base, f.exp));
  }
  r = sym_scale(cx, r, t.coeff);
  for (int i = 0; i < factor_count(t.base); i++) {
    Factor f = factor_at(t.base, i);
    if (f.exp < 0) continue;
    if (!is_integer(f.base)) {
      const Sym *own = denominator(l, f.base);
      r = sym_mul(cx, r, sym_pow(cx, own, -f.exp));
      r = sym_mul(cx, r, sym_pow(cx, cleared(l, f.base, own), f.exp));
    } else {
      r = sym_mul(cx, r, sym_pow(cx, f.base, f.exp));
    }
  }
  return r;
}

/* s * d without fractions; d is a multiple of s's denominator. */
static const Sym *cleared(Lower *l, const Sym *s, const Sym *d) {
  SymCtx *cx = l->cx;
  if (!s || !d) return NULL;
  if (is_integer(s)) return sym_mul(cx, s, d);
  if (s->kind == SYM_add || s->kind == SYM_mul || s->kind == SYM_pow || is_num(s)) {
    Sum sum;
    sum_of(s, &sum);
    const Sym *r = sym_scale(cx, d, sum.k);
    for (int i = 0; i < sum.n; i++) r = sym_add(cx, r, cleared_term(l, sum.term[i], d));
    return r;
  }
  if (s->kind == SYM_select)
    return sym_select(cx, s->arg[0], cleared(l, s->arg[1], d), cleared(l, s->arg[2], d));
  const Sym *args[64];
  if (s->n > (int)WV_LEN(args)) return sym_fail(cx, "too many operands with fractions");
  for (int i = 0; i < s->n; i++) args[i] = cleared(l, s->arg[i], d);
  return sym_build(cx, (SymKind)s->kind, args, s->n);
}

/* Divisors that are sums, and the symbols that stand for them. */
typedef struct Divisors {
  SymBinding of[8];
  int n;
} Divisors;

static const Sym *named(Lower *l, Divisors *d, const Sym *sum) {
  for (int i = 0; i < d->n; i++)
    if (d->of[i].to == sum) return d->of[i].from;
  if (d->n == (int)WV_LEN(d->of)) return sum;
  char name[] = "$DIVISOR0";
  name[sizeof name - 2] = (char)('0' + d->n);
  d->of[d->n].to = sum;
  return d->of[d->n++].from = sym_symbol(l->cx, name, false);
}

/* s with such divisors replaced by their symbols. */
static const Sym *with_names(Lower *l, const Sym *s, Divisors *d) {
  SymCtx *cx = l->cx;
  Sum sum;
  sum_of(s, &sum);
  const Sym *all = sym_num(cx, sum.k);
  for (int i = 0; i < sum.n; i++) {
    const Sym *term = sym_num(cx, sum.term[i].coeff);
    for (int j = 0; j < factor_count(sum.term[i].base); j++) {
      Factor f = factor_at(sum.term[i].base, j);
      bool divides = f.exp < 0 && f.base->kind == SYM_add;
      const Sym *base = divides ? named(l, d, f.base) : f.base;
      term = sym_mul(cx, term, sym_pow(cx, base, f.exp));
    }
    all = sym_add(cx, all, term);
  }
  return all;
}

/* s = top / bottom, both without fractions. The product of two divisors that are sums would be
 * expanded, and then neither cancels against it; symbols stand for them in the meantime. */
static bool fraction(Lower *l, const Sym *s, const Sym **top, const Sym **bottom) {
  Divisors d = {0};
  if (s->kind == SYM_add) s = with_names(l, s, &d);
  *bottom = denominator(l, s);
  *top = cleared(l, s, *bottom);
  if (d.n && *top && *bottom) {
    *top = sym_subst(l->cx, *top, d.of, d.n);
    *bottom = sym_subst(l->cx, *bottom, d.of, d.n);
  }
  if (*top && !is_integer(*top))
    sym_fail(l->cx, "a fraction cannot be lowered to integer operations");
  return *top && is_integer(*top);
}

/* A divisor that equals d up to sign wherever the quotient matters, and is positive everywhere. */
static int positive_divisor(Lower *l, const Sym *d, int *sign) {
  Dom dom = dom_of(l->f, d);
  int v = lower(l, d), zero = constant(l, 0), one = constant(l, 1);
  *sign = -1;
  if (dom.lo.num > 0) return v;
  if (dom.lo.num == 0) return op2(l, SYM_OP_max, v, one);
  int minus = op2(l, SYM_OP_sub, zero, v), negative = op2(l, SYM_OP_lt, v, zero);
  *sign = negative;
  return op2(l, SYM_OP_max, op2(l, SYM_OP_max, v, minus), one);
}

static bool magic_applies(Lower *l, const Sym *top, const Sym *d) {
  Dom a = dom_of(l->f, top), b = dom_of(l->f, d);
  Rat limit = rat_int(UINT32_MAX);
  return !is_num(d) && is_uniform(l, d) && a.lo.num >= 0 && rat_cmp(a.hi, limit) <= 0 &&
         b.lo.num >= 0 && rat_cmp(b.hi, limit) <= 0; /* a quotient by 0 does not matter */
}

static int divide(Lower *l, const Sym *top, const Sym *d) {
  int64_t v;
  if (sym_is_int(d, &v) && v > 0) {
    int a = lower(l, top), shift = log2_of(v);
    if (v == 1) return a;
    return shift >= 0 ? op2(l, SYM_OP_shr, a, constant(l, shift))
                      : op2(l, SYM_OP_div, a, constant(l, v));
  }
  if (magic_applies(l, top, d)) {
    int m = emit(l, (SymOp){.kind = SYM_OP_magic, .sym = d}),
        k = emit(l, (SymOp){.kind = SYM_OP_shift, .sym = d});
    return emit(l, (SymOp){.kind = SYM_OP_divmagic, .a = lower(l, top), .b = m, .c = k});
  }
  int sign, b = positive_divisor(l, d, &sign), a = lower(l, top);
  if (sign >= 0)
    a = emit(l, (SymOp){.kind = SYM_OP_select,
                        .a = sign,
                        .b = op2(l, SYM_OP_sub, constant(l, 0), a),
                        .c = a});
  return op2(l, SYM_OP_div, a, b);
}

static int lower_floor(Lower *l, const Sym *x) {
  const Sym *top, *bottom;
  return fraction(l, x, &top, &bottom) ? divide(l, top, bottom) : -1;
}

/* ceil(x) = -floor(-x); over an integer denominator it is floor((x + d - 1)/d). */
static int lower_ceil(Lower *l, const Sym *x) {
  const Sym *top, *bottom;
  int64_t d;
  if (!fraction(l, x, &top, &bottom)) return -1;
  if (sym_is_int(bottom, &d)) return divide(l, sym_add_const(l->cx, top, rat_int(d - 1)), bottom);
  if (is_integer(bottom) && dom_of(l->f, bottom).lo.num > 0)
    return divide(l, sym_add_const(l->cx, sym_add(l->cx, top, bottom), rat_int(-1)), bottom);
  int zero = constant(l, 0);
  return op2(l, SYM_OP_sub, zero, divide(l, sym_neg(l->cx, top), bottom));
}

static int lower_mod(Lower *l, const Sym *s) {
  const Sym *a = s->arg[0], *m = s->arg[1];
  int64_t v;
  int x = lower(l, a);
  if (sym_is_int(m, &v) && log2_of(v) >= 0) return op2(l, SYM_OP_and, x, constant(l, v - 1));
  if (is_num(m) || (!magic_applies(l, a, m) && dom_of(l->f, m).lo.num > 0))
    return op2(l, SYM_OP_rem, x, lower(l, m));
  int q = divide(l, a, m);
  return op2(l, SYM_OP_sub, x, op2(l, SYM_OP_mul, lower(l, m), q));
}

/* ---- the rest */

static int lower_fold(Lower *l, const Sym *s, SymOpKind kind) {
  int r = lower(l, s->arg[0]);
  for (int i = 1; i < s->n; i++) r = op2(l, kind, r, lower(l, s->arg[i]));
  return r;
}

/* Multiplies both sides by the denominator, whose sign may reverse the comparison. */
static int lower_compare_fraction(Lower *l, const Sym *s) {
  const Sym *top, *bottom;
  if (!fraction(l, s->base, &top, &bottom)) return -1;
  int zero = constant(l, 0), a = lower(l, top), sign;
  positive_divisor(l, bottom, &sign);
  if (sign >= 0)
    a = emit(l,
             (SymOp){.kind = SYM_OP_select, .a = sign, .b = op2(l, SYM_OP_sub, zero, a), .c = a});
  static const SymOpKind kinds[] = {
      [SYM_le] = SYM_OP_le, [SYM_lt] = SYM_OP_lt, [SYM_eq] = SYM_OP_eq, [SYM_ne] = SYM_OP_ne};
  return op2(l, kinds[s->kind], a, zero);
}

static int lower_compare(Lower *l, const Sym *s, SymOpKind kind) {
  if (!is_integer(s->base)) return lower_compare_fraction(l, s);
  int a = lower(l, s->arg[0]);
  return op2(l, kind, a, lower(l, s->arg[1]));
}

static int lower_select(Lower *l, const Sym *s) {
  int cond = lower(l, s->arg[0]), yes = lower(l, s->arg[1]);
  return emit(l, (SymOp){.kind = SYM_OP_select, .a = cond, .b = yes, .c = lower(l, s->arg[2])});
}

static int lower_node(Lower *l, const Sym *s) {
  switch ((SymKind)s->kind) {
  case SYM_symbol: return emit(l, (SymOp){.kind = SYM_OP_symbol, .sym = s});
  case SYM_int:
  case SYM_bool: return constant(l, s->k.num);
  case SYM_rational: return constant(l, rat_floor(s->k));
  case SYM_add: return is_integer(s) ? lower_sum(l, s) : lower_floor(l, s);
  case SYM_mul:
  case SYM_pow: return is_integer(s) ? lower_product(l, s) : lower_floor(l, s);
  case SYM_floor: return lower_floor(l, s->arg[0]);
  case SYM_ceil: return lower_ceil(l, s->arg[0]);
  case SYM_mod: return is_integer(s) ? lower_mod(l, s) : lower_floor(l, s);
  case SYM_xor: return lower_fold(l, s, SYM_OP_xor);
  case SYM_min: return is_integer(s) ? lower_fold(l, s, SYM_OP_min) : lower_floor(l, s);
  case SYM_max: return is_integer(s) ? lower_fold(l, s, SYM_OP_max) : lower_floor(l, s);
  case SYM_select: return is_integer(s) ? lower_select(l, s) : lower_floor(l, s);
  case SYM_le: return lower_compare(l, s, SYM_OP_le);
  case SYM_lt: return lower_compare(l, s, SYM_OP_lt);
  case SYM_eq: return lower_compare(l, s, SYM_OP_eq);
  case SYM_ne: return lower_compare(l, s, SYM_OP_ne);
  case SYM_and: return lower_fold(l, s, SYM_OP_and);
  case SYM_or: return lower_fold(l, s, SYM_OP_or);
  case SYM_COUNT: break;
  }
  WV_BUG("unknown kind of expression");
}

/* The facts may say more about the expression than its operations show. */
static void sharpen(Lower *l, int op, const Sym *s) {
  if (!is_integer(s)) return;
  l->doms.at[op] = dom_meet(l->doms.at[op], dom_of(l->f, s));
  if (fits_32(&l->doms.at[op])) l->ops.at[op].bits = 32;
}

/* ---- branches with denominators of their own */

/* A select inside s that is not an integer and whose branches lack a constant denominator. Clearing
 * it would multiply one branch by something that may be 0 in that branch. */
static const Sym *fractional_select(Lower *l, const Sym *s) {
  if (is_integer(s) && s->kind != SYM_floor && s->kind != SYM_ceil) return NULL;
  if (is_cmp(s)) return fractional_select(l, s->base);
  if (s->kind == SYM_select) {
    const Sym *d = denominator(l, s);
    return d && !is_num(d) ? s : NULL;
  }
  for (int i = 0; i < s->n && sym_nargs(s) && !is_bool(s); i++) {
    const Sym *operand = node_operand(s, i),
              *found = is_integer(operand) ? NULL : fractional_select(l, operand);
    if (found) return found;
  }
  return NULL;
}

typedef struct Replace {
  SymCtx *cx;
  const Sym *from, *to;
} Replace;

static const Sym *replace(void *data, const Sym *s) {
  Replace *r = data;
  if (s == r->from) return r->to;
  return is_num(s) || s->kind == SYM_symbol || s->size < r->from->size
             ? s
             : node_map(r->cx, s, replace, r);
}

/* f(select(c, a, b)) is select(c, f(a), f(b)). */
static int lower_lifted(Lower *l, const Sym *s, const Sym *select) {
  int op[2];
  for (int i = 0; i < 2; i++) {
    Replace r = {l->cx, select, select->arg[i + 1]};
    const Sym *branch = replace(&r, s);
    if (!branch) return -1;
    op[i] = lower(l, branch);
  }
  return emit(
      l, (SymOp){.kind = SYM_OP_select, .a = lower(l, select->arg[0]), .b = op[0], .c = op[1]});
}

static int lower(Lower *l, const Sym *s) {
  uintptr_t known = (uintptr_t)map_get(&l->done, map_key(s));
  if (known) return (int)known - 1;
  bool whole = is_integer(s) || is_bool(s);
  bool launch = l->nuniform && whole && s->symbols && s->kind != SYM_symbol && is_uniform(l, s);
  const Sym *select = launch ? NULL : fractional_select(l, s);
  int r = launch   ? emit(l, (SymOp){.kind = SYM_OP_launch, .sym = s})
          : select ? lower_lifted(l, s, select)
                   : lower_node(l, s);
  if (r < 0) r = constant(l, 0), l->cx->error[0] || sym_overflow(l->cx);
  sharpen(l, r, s);
  map_set(l->scratch, &l->done, map_key(s), (void *)((uintptr_t)r + 1));
  return r;
}

SymCode *sym_code_launch(Arena *a, SymCtx *cx, const SymFacts *f, const Sym *const *exprs, int n,
                         const Sym *const *uniform, int nuniform) {
  ArenaMark mark = arena_mark(cx->scratch);
  Lower l = {.arena = a,
             .scratch = cx->scratch,
             .cx = cx,
             .f = f ? f : cx->no_facts,
             .uniform = uniform,
             .nuniform = nuniform};
  SymCode *code = ARENA_NEW(a, SymCode);
  cx->error[0] = 0;
  code->results = ARENA_ARRAY(a, int, n);
  code->nresults = n;
  for (int i = 0; i < n && !cx->error[0]; i++)
    code->results[i] = exprs[i] ? lower(&l, exprs[i]) : -1;
  code->ops = arena_copy(a, l.ops.at, sizeof(SymOp) * (size_t)l.ops.n);
  code->nops = l.ops.n;
  for (int i = 0; i < code->nops; i++) code->cost += op_cost[code->ops[i].kind];
  arena_rewind(cx->scratch, mark);
  return cx->error[0] ? NULL : code;
}

SymCode *sym_code(Arena *a, SymCtx *cx, const SymFacts *f, const Sym *const *exprs, int n) {
  return sym_code_launch(a, cx, f, exprs, n, NULL, 0);
}
