/* legalise_f64.c: functions that machines provide for f32 only, in f64.
 *
 * Errors in ulp: exp2, exp, log, log2, log10, tanh 4; sin, cos 4 up to 10**6, beyond that an
 * absolute error of |a| 2**-85. Coefficients are those of the series where these are short enough:
 * arguments are reduced first. */
#include <math.h>

#include "transform/legalise/legalise_words.h"

enum { MANTISSA = 52, BIAS = 1023 };

static Value *integer(Expansion *x, double v) { return grow_number(x, v, DTYPE_i64); }

static Value *clamp(Expansion *x, Value *a, double most) {
  Value *low = legalise_grow(x, OP_maximum, a, number(x, -most), NULL);
  return legalise_grow(x, OP_minimum, low, number(x, most), NULL);
}

/* 2**k for an integer k that is a normal exponent. */
static Value *power(Expansion *x, Value *k) {
  Value *bits = as_type(x, OP_cast, add(x, k, number(x, BIAS)), DTYPE_i64);
  bits = grow_as(x, OP_mul, bits, integer(x, ldexp(1, MANTISSA)), DTYPE_i64);
  return as_type(x, OP_bitcast, bits, DTYPE_f64);
}

/* v 2**k in two steps, so that results may be subnormal or infinite. */
static Value *scaled(Expansion *x, Value *v, Value *k) {
  Value *half = nearest(x, mul(x, k, number(x, 0.5)));
  return mul(x, mul(x, v, power(x, half)), power(x, sub(x, k, half)));
}

/* r in [-0.35, 0.35] */
static Value *exp_series(Expansion *x, Value *r) {
  double c[15] = {1};
  for (int i = 1; i < (int)WV_LEN(c); i++) c[i] = c[i - 1] / i;
  return polynomial(x, r, c, (int)WV_LEN(c));
}

Value *f64_exp2(Expansion *x, Value *a) {
  Value *v = clamp(x, a, 1100), *k = nearest(x, v);
  return scaled(x, exp_series(x, mul(x, sub(x, v, k), number(x, 0.69314718055994530942))), k);
}

/* ln 2 in two parts: an integer times the first is exact. */
Value *f64_exp(Expansion *x, Value *a) {
  const double high = 0x1.62e42feep-1, low = 0x1.a39ef35793c76p-33;
  Value *v = clamp(x, a, 760), *k = nearest(x, mul(x, v, number(x, 1.4426950408889634074)));
  Value *r = sub(x, sub(x, v, mul(x, k, number(x, high))), mul(x, k, number(x, low)));
  return scaled(x, exp_series(x, r), k);
}

/* a = m 2**e with m in [sqrt(1/2), sqrt(2)): ln m, and e. */
static Value *log_parts(Expansion *x, Value *a, Value **e) {
  Value *tiny = test(x, OP_lt, a, number(x, 0x1p-1022));
  Value *v = either(x, tiny, mul(x, a, number(x, 0x1p54)), a);
  Value *bits = as_type(x, OP_bitcast, v, DTYPE_i64);
  Value *over = grow_as(x, OP_sub, bits, integer(x, 0x1.ff3504f33p61), DTYPE_i64);
  Value *within = grow_as(x, OP_and, over, integer(x, 0x1p52 - 1), DTYPE_i64);
  Value *exponent = grow_as(x, OP_sub, over, within, DTYPE_i64);
  Value *m = as_type(x, OP_bitcast, grow_as(x, OP_sub, bits, exponent, DTYPE_i64), DTYPE_f64);
  Value *plain = mul(x, as_type(x, OP_cast, exponent, DTYPE_f64), number(x, 0x1p-52));
  *e = sub(x, plain, either(x, tiny, number(x, 54), number(x, 0)));
  double c[11];
  for (int i = 0; i < (int)WV_LEN(c); i++) c[i] = 2.0 / (2 * i + 1);
  Value *s = divide(x, sub(x, m, number(x, 1)), add(x, m, number(x, 1)));
  return mul(x, s, polynomial(x, mul(x, s, s), c, (int)WV_LEN(c)));
}

/* The special values of a logarithm. */
static Value *log_special(Expansion *x, Value *a, Value *v) {
  Value *zero = number(x, 0), *none = either(x, test(x, OP_lt, a, zero), number(x, NAN), a);
  Value *edge = either(x, test(x, OP_eq, a, zero), number(x, -INFINITY), none);
  Value *above = either(x, test(x, OP_lt, a, number(x, INFINITY)), v, edge);
  return either(x, test(x, OP_gt, a, zero), above, edge);
}

Value *f64_log2(Expansion *x, Value *a) {
  Value *e, *ln = log_parts(x, a, &e);
  return log_special(x, a, add(x, mul(x, ln, number(x, 1.4426950408889634074)), e));
}

static Value *f64_log(Expansion *x, Value *a) {
  const double high = 0x1.62e42feep-1, low = 0x1.a39ef35793c76p-33; /* ln 2 */
  Value *e, *ln = log_parts(x, a, &e);
  Value *v = add(x, ln, mul(x, e, number(x, low)));
  return log_special(x, a, add(x, v, mul(x, e, number(x, high))));
}

static Value *f64_log10(Expansion *x, Value *a) {
  const double high = 0x1.34413508p-2, low = 0x1.f79fef311f12bp-34; /* log10(2) */
  Value *e, *ln = log_parts(x, a, &e);
  Value *v = add(x, mul(x, ln, number(x, 0.43429448190325182765)), mul(x, e, number(x, low)));
  return log_special(x, a, add(x, v, mul(x, e, number(x, high))));
}

/* The sine of a plus `turns` quarter turns. pi/2 is split into three parts, the first two so short
 * that an integer times them is exact. */
static Value *sine(Expansion *x, Value *a, double turns) {
  static const double part[] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69};
  double s[9] = {-1.0 / 6}, c[10] = {-0.5};
  for (int i = 1; i < (int)WV_LEN(s); i++) s[i] = -s[i - 1] / ((2 * i + 2) * (2 * i + 3));
  for (int i = 1; i < (int)WV_LEN(c); i++) c[i] = -c[i - 1] / ((2 * i + 1) * (2 * i + 2));
  Value *k = nearest(x, mul(x, a, number(x, 0.63661977236758134308))), *r = a;
  for (int i = 0; i < 3; i++) r = sub(x, r, mul(x, k, number(x, part[i])));
  Value *z = mul(x, r, r);
  Value *odd = add(x, r, mul(x, mul(x, r, z), polynomial(x, z, s, (int)WV_LEN(s))));
  Value *even = add(x, number(x, 1), mul(x, z, polynomial(x, z, c, (int)WV_LEN(c))));
  Value *q = add(x, k, number(x, turns)); /* modulo 4: floor(q / 4) is (q - 1.5) / 4, rounded */
  Value *four = nearest(x, mul(x, sub(x, q, number(x, 1.5)), number(x, 0.25)));
  q = sub(x, q, mul(x, four, number(x, 4)));
  Value *lies =
      grow_as(x, OP_or, test(x, OP_eq, q, number(x, 1)), test(x, OP_eq, q, number(x, 3)), DTYPE_i1);
  Value *v = either(x, lies, even, odd);
  return either(x, test(x, OP_ge, q, number(x, 2)), negative(x, v), v);
}

/* Below 1, the quotient of two series; above, 1 - 2 / (exp(2|a|) + 1). */
static Value *f64_tanh(Expansion *x, Value *a) {
  double s[11] = {1}, c[11] = {1};
  for (int i = 1; i < (int)WV_LEN(s); i++) s[i] = s[i - 1] / ((2 * i) * (2 * i + 1));
  for (int i = 1; i < (int)WV_LEN(c); i++) c[i] = c[i - 1] / ((2 * i - 1) * (2 * i));
  Value *m = magnitude(x, a), *z = mul(x, a, a), *one = number(x, 1);
  Value *cosh = polynomial(x, z, c, (int)WV_LEN(c));
  Value *small = divide(x, mul(x, a, polynomial(x, z, s, (int)WV_LEN(s))), cosh);
  Value *e = add(x, f64_exp(x, add(x, m, m)), one);
  Value *large = with_sign(x, a, sub(x, one, divide(x, number(x, 2), e)));
  return either(x, test(x, OP_lt, m, one), small, large);
}

Value *expand_f64(Expansion *x) {
  if (x->op->results[0].type->dtype != DTYPE_f64) return NULL;
  x->dtype = DTYPE_f64;
  Value *a = x->op->args[0];
  switch (x->op->kind) {
  case OP_exp: return f64_exp(x, a);
  case OP_exp2: return f64_exp2(x, a);
  case OP_log: return f64_log(x, a);
  case OP_log2: return f64_log2(x, a);
  case OP_log10: return f64_log10(x, a);
  case OP_sin: return sine(x, a, 0);
  case OP_cos: return sine(x, a, 1);
  case OP_tanh:
  case OP_tanh_approx: return f64_tanh(x, a);
  default: return NULL;
  }
}
