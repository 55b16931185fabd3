/* product.c: products as a coefficient times sorted (base, exponent) pairs.
 *
 * A product of sums is expanded while the result has at most EXPAND_LIMIT terms, so that
 * differences of addresses cancel term by term. Beyond that it stays a product of primitive sums
 * (coprime coefficients, no common factor, first coefficient positive), and so does a sum in a
 * denominator: (2*a + 2*b)/(a*c + b*c) is 2/c. */
#include <string.h>

#include "sym/node.h"

enum { EXPAND_LIMIT = 64 };

/* ---- gathering */

static Factor *product_at(Product *p) { return p->many ? p->many : p->few; }

void product_push(SymCtx *cx, Product *p, Factor f) {
  if (p->n == (p->many ? p->cap : FEW_FACTORS)) {
    int cap = p->n * 2;
    Factor *more = ARENA_ARRAY(cx->scratch, Factor, cap);
    memcpy(more, product_at(p), sizeof(Factor) * (size_t)p->n);
    p->many = more, p->cap = cap;
  }
  product_at(p)[p->n++] = f;
}

static bool scale_by(SymCtx *cx, Product *p, Rat v, int64_t exp) {
  if (v.num == 0 && exp < 0) return sym_zero_division(cx);
  if (rat_pow(v, exp, &v) && rat_mul(p->coeff, v, &p->coeff)) return true;
  return sym_overflow(cx);
}

bool product_gather(SymCtx *cx, Product *p, const Sym *s, int64_t exp) {
  s = sym_as_number(cx, s);
  if (!s) return false;
  if (is_num(s)) return scale_by(cx, p, s->k, exp);
  if (s->kind == SYM_mul && !scale_by(cx, p, s->k, exp)) return false;
  for (int i = 0; i < factor_count(s); i++) {
    int64_t e;
    Factor f = factor_at(s, i);
    if (__builtin_mul_overflow(f.exp, exp, &e) || e > INT32_MAX || e < INT32_MIN)
      return sym_fail(cx, "an exponent in this expression is too large");
    product_push(cx, p, (Factor){f.base, e});
  }
  return true;
}

static void sort_factors(Product *p) {
  Factor *f = product_at(p);
  for (int i = 1; i < p->n; i++) {
    Factor x = f[i];
    int j = i;
    for (; j > 0 && sym_order(x.base, f[j - 1].base) < 0; j--) f[j] = f[j - 1];
    f[j] = x;
  }
}

static void merge_factors(Product *p) {
  Factor *f = product_at(p);
  int m = 0;
  sort_factors(p);
  for (int i = 0; i < p->n; i++) {
    if (m && f[m - 1].base == f[i].base) f[m - 1].exp += f[i].exp;
    else f[m++] = f[i];
    if (f[m - 1].exp == 0) m--;
  }
  p->n = m;
}

/* ---- interning */

static const Sym *base_make(SymCtx *cx, const Factor *f, int n) {
  if (n == 1 && f->exp == 1) return f->base;
  bool integer = true;
  for (int i = 0; i < n && integer; i++) integer = f[i].exp > 0 && is_integer(f[i].base);
  SymKind kind = n == 1 ? SYM_pow : SYM_mul;
  Sym shape = {
      .kind = (uint8_t)kind, .flags = integer ? SYM_INTEGER : 0, .n = n, .k = RAT_ONE, .factor = f};
  return node_intern(cx, &shape);
}

const Sym *power_of(SymCtx *cx, Factor f) { return base_make(cx, &f, 1); }

/* ---- sums as factors */

int64_t factor_exponent(const Sym *base, const Sym *factor) {
  for (int i = 0; i < factor_count(base); i++)
    if (factor_at(base, i).base == factor) return factor_at(base, i).exp;
  return 0;
}

/* The factors common to all terms of a sum, with their smallest exponents. */
static void common_factors(SymCtx *cx, const Sym *sum, Product *out) {
  const Sym *first = sum->term[0].base;
  for (int i = 0; i < factor_count(first); i++) product_push(cx, out, factor_at(first, i));
  for (int t = 1; t < sum->n && out->n; t++)
    for (int i = 0; i < out->n; i++) {
      Factor *c = &product_at(out)[i];
      int64_t least = factor_exponent(sum->term[t].base, c->base);
      if (least < c->exp) c->exp = least;
      if ((c->exp > 0) != (least > 0) || !least) c->exp = 0;
      if (!c->exp) *c = product_at(out)[--out->n], i--;
    }
  if (sum->k.num) out->n = 0;
}

/* sum = content * common factors * primitive; false: leave the sum unchanged. */
static bool sum_primitive(SymCtx *cx, const Sym *sum, Product *outer, const Sym **primitive) {
  Sum s;
  Rat k;
  sum_of(sum, &s);
  *outer = (Product){.coeff = RAT_ZERO};
  if (!sum_content(&s, &outer->coeff) || !rat_gcd(outer->coeff, s.k, &outer->coeff)) return false;
  if (s.term[0].coeff.num < 0) outer->coeff = rat_neg(outer->coeff);
  common_factors(cx, sum, outer);
  Product inverse = {.coeff = RAT_ONE};
  for (int i = 0; i < outer->n; i++)
    product_push(cx, &inverse, (Factor){product_at(outer)[i].base, -product_at(outer)[i].exp});
  Term *terms = ARENA_ARRAY(cx->scratch, Term, s.n);
  int n = 0;
  if (!rat_div(s.k, outer->coeff, &k)) return false;
  for (int i = 0; i < s.n; i++) {
    Product p = {.coeff = RAT_ONE};
    Rat c;
    if (!product_gather(cx, &p, s.term[i].base, 1)) return false;
    for (int j = 0; j < inverse.n; j++) product_push(cx, &p, product_at(&inverse)[j]);
    merge_factors(&p);
    if (!rat_div(s.term[i].coeff, outer->coeff, &c)) return false;
    if (p.n) terms[n++] = (Term){c, base_make(cx, product_at(&p), p.n)};
    else k = c; /* this term is the common part itself, and there was no constant */
  }
  *primitive = sum_collect(cx, k, terms, n);
  return *primitive && (*primitive)->kind == SYM_add;
}

static bool make_primitive(SymCtx *cx, Product *p) {
  int n = p->n;
  for (int i = 0; i < n; i++) {
    Factor f = product_at(p)[i];
    Product outer;
    const Sym *primitive;
    if (f.base->kind != SYM_add || !sum_primitive(cx, f.base, &outer, &primitive)) continue;
    if (!scale_by(cx, p, outer.coeff, f.exp)) return false;
    product_at(p)[i].base = primitive;
    for (int j = 0; j < outer.n; j++) {
      Factor g = product_at(&outer)[j];
      product_push(cx, p, (Factor){g.base, g.exp * f.exp});
    }
  }
  return true;
}

/* Number of terms after expansion, capped at EXPAND_LIMIT + 1; sums: how many factors are sums. */
static int expanded_terms(Product *p, int *sums) {
  int64_t count = 1;
  *sums = 0;
  for (int i = 0; i < p->n; i++) {
    const Factor *f = &product_at(p)[i];
    if (f->base->kind != SYM_add) continue;
    ++*sums;
    int terms = f->base->n + (f->base->k.num != 0);
    for (int64_t e = 0; e < f->exp && count <= EXPAND_LIMIT; e++) count *= terms;
  }
  return count <= EXPAND_LIMIT ? (int)count : EXPAND_LIMIT + 1;
}

static const Sym *finish(SymCtx *cx, Product *p) {
  if (!p->n || !p->coeff.num) return sym_num(cx, p->coeff);
  const Sym *base = base_make(cx, product_at(p), p->n);
  return base->kind == SYM_add ? sym_scale(cx, base, p->coeff)
                               : term_sym(cx, (Term){p->coeff, base});
}

/* acc * sum, term by term. */
static const Sym *distribute(SymCtx *cx, const Sym *acc, const Sym *sum) {
  Sum a, b;
  Vec(Term) terms = {0};
  Rat k = RAT_ZERO, c;
  sum_of(acc, &a), sum_of(sum, &b);
  for (int i = 0; i <= a.n; i++) {
    for (int j = 0; j <= b.n; j++) {
      if ((i == a.n && !a.k.num) || (j == b.n && !b.k.num)) continue;
      Product p = {.coeff = RAT_ONE};
      if (!rat_mul(i < a.n ? a.term[i].coeff : a.k, j < b.n ? b.term[j].coeff : b.k, &p.coeff))
        return sym_overflow(cx);
      if (i < a.n && !product_gather(cx, &p, a.term[i].base, 1)) return NULL;
      if (j < b.n && !product_gather(cx, &p, b.term[j].base, 1)) return NULL;
      const Sym *t = product_make(cx, &p);
      Sum s;
      if (!t) return NULL;
      sum_of(t, &s);
      for (int m = 0; m < s.n; m++) vec_push(cx->scratch, &terms, s.term[m]);
      if (!rat_add(k, s.k, &c)) return sym_overflow(cx);
      k = c;
    }
  }
  return sum_collect(cx, k, terms.at, terms.n);
}

static const Sym *expand(SymCtx *cx, Product *p) {
  Product monomial = {.coeff = p->coeff};
  for (int i = 0; i < p->n; i++) {
    Factor f = product_at(p)[i];
    if (f.base->kind != SYM_add || f.exp < 0) product_push(cx, &monomial, f);
  }
  const Sym *acc = finish(cx, &monomial);
  for (int i = 0; acc && i < p->n; i++) {
    Factor f = product_at(p)[i];
    if (f.base->kind != SYM_add || f.exp < 0) continue;
    for (int64_t e = 0; acc && e < f.exp; e++) acc = distribute(cx, acc, f.base);
  }
  return acc;
}

static bool has_positive_sum(Product *p) {
  for (int i = 0; i < p->n; i++)
    if (product_at(p)[i].base->kind == SYM_add && product_at(p)[i].exp > 0) return true;
  return false;
}

const Sym *product_make(SymCtx *cx, Product *p) {
  if (!p->coeff.num) return cx->zero;
  merge_factors(p);
  int sums, terms = expanded_terms(p, &sums);
  if (!sums) return finish(cx, p);
  if (sums > 1 || terms > EXPAND_LIMIT || !has_positive_sum(p)) {
    if (!make_primitive(cx, p)) return NULL;
    merge_factors(p);
    terms = expanded_terms(p, &sums);
  }
  if (terms > EXPAND_LIMIT || !has_positive_sum(p)) return finish(cx, p);
  return expand(cx, p);
}

/* The product with its coefficient split off. */
const Sym *product_split(SymCtx *cx, Product *p, Rat *coeff) {
  *coeff = RAT_ONE;
  if (p->n > 1 || !p->coeff.num || (p->n && product_at(p)->exp != 1)) {
    const Sym *s = product_make(cx, p);
    if (!s || s->kind == SYM_add || is_num(s)) return s;
    Term t = term_of(s);
    *coeff = t.coeff;
    return t.base;
  }
  *coeff = p->coeff;
  return p->n ? product_at(p)->base : cx->one;
}

/* ---- constructors */

const Sym *sym_product(SymCtx *cx, const Sym *const *factors, int n) {
  ArenaMark mark = arena_mark(cx->scratch);
  Product p = {.coeff = RAT_ONE};
  bool ok = true;
  for (int i = 0; i < n && ok; i++) ok = product_gather(cx, &p, factors[i], 1);
  const Sym *s = ok ? product_make(cx, &p) : NULL;
  arena_rewind(cx->scratch, mark);
  return s;
}

const Sym *sym_mul(SymCtx *cx, const Sym *a, const Sym *b) {
  if (!a || !b) return NULL;
  if (is_num(a)) return sym_scale(cx, sym_as_number(cx, b), a->k);
  if (is_num(b)) return sym_scale(cx, sym_as_number(cx, a), b->k);
  const Sym *known = op_cached(cx, SYM_mul, a, b);
  if (known) return known;
  const Sym *s = sym_product(cx, (const Sym *const[]){a, b}, 2);
  return s ? op_remember(cx, SYM_mul, a, b, s) : NULL;
}

const Sym *sym_pow(SymCtx *cx, const Sym *base, int64_t exponent) {
  if (!base) return NULL;
  ArenaMark mark = arena_mark(cx->scratch);
  Product p = {.coeff = RAT_ONE};
  const Sym *s = product_gather(cx, &p, base, exponent) ? product_make(cx, &p) : NULL;
  arena_rewind(cx->scratch, mark);
  return s;
}

const Sym *sym_div(SymCtx *cx, const Sym *a, const Sym *b) {
  if (!a || !b) return NULL;
  if (is_num(b)) {
    if (!b->k.num) return sym_zero_division(cx);
    Rat inverse = b->k.num < 0 ? (Rat){-b->k.den, -b->k.num} : (Rat){b->k.den, b->k.num};
    return sym_scale(cx, sym_as_number(cx, a), inverse);
  }
  return sym_mul(cx, a, sym_pow(cx, b, -1));
}
