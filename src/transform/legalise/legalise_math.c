/* legalise_math.c: functions that no GPU has, in terms of those it has.
 *
 * Smaller floats are computed in f32 and rounded once. Errors are relative, in ulp, on top of those
 * of exp2 and log2 (2 each):
 *
 *     softsign 2    cbrt 3    sinh 4    atan2 4    erf 2    sigmoid 4    powf 2 + |b log2 a|
 *     remf, mod: exact, computed in f64    div by a power of two: exact, a product */
#include <math.h>
#include <stdlib.h>

#include "transform/legalise/legalise_words.h"

/* The type of the computation: f32, or f64 for f64. */
static void open_type(Expansion *x) {
  x->dtype = x->op->results[0].type->dtype == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
}

/* Functions that exist for f32 but not for f64. */
static Value *exp2_of(Expansion *x, Value *a) {
  return x->dtype == DTYPE_f64 ? f64_exp2(x, a) : legalise_grow(x, OP_exp2, a, NULL, NULL);
}
static Value *exp_of(Expansion *x, Value *a) {
  return x->dtype == DTYPE_f64 ? f64_exp(x, a) : legalise_grow(x, OP_exp, a, NULL, NULL);
}
static Value *log2_of(Expansion *x, Value *a) {
  return x->dtype == DTYPE_f64 ? f64_log2(x, a) : legalise_grow(x, OP_log2, a, NULL, NULL);
}

/* ---- functions ---- */

Value *expand_softsign(Expansion *x) {
  const Attr *given = op_attr(x->op, ATTR_cap), *head = op_attr(x->op, ATTR_head);
  double scale = head ? 1 / sqrt((double)head->integer) : 1;
  open_type(x);
  Value *a = operand(x, 0), *one = number(x, 1), *cap;
  if (given && given->sym) cap = mul(x, grow_expr(x, given->sym, x->dtype), number(x, scale));
  else cap = number(x, (given ? given->number : 30) * scale);
  Value *share = divide(x, magnitude(x, a), cap);
  return result(x, divide(x, a, add(x, one, share)));
}

/* The constant that a value has in every register; 0: there is none. */
static double constant_of(const Value *v) {
  const Op *op = v->def && v->def->kind == OP_splat ? v->def->args[0]->def : v->def;
  const Attr *value = op && op->kind == OP_scalar ? op_attr(op, ATTR_value) : NULL;
  return value && !value->sym ? value->number : 0;
}

/* Division by a power of two is a product with another one, if that is not subnormal: the
 * exact results are equal, and both are rounded once. */
Value *expand_div(Expansion *x) {
  x->dtype = x->op->results[0].type->dtype;
  if (!dtype_is_float(x->dtype) || dtype_memory_bits(x->dtype) < 16) return NULL;
  int exponent, most = dtype_memory_bits(x->dtype) == 16 ? 14 : 126;
  double by = constant_of(x->op->args[1]);
  if (fabs(frexp(by, &exponent)) != 0.5 || abs(exponent - 1) > most) return NULL;
  return mul(x, x->op->args[0], number(x, 1 / by));
}

/* The f64 remainder is left to the emitter, which has a fused multiply-add. */
Value *expand_remf(Expansion *x) {
  if (x->op->results[0].type->dtype == DTYPE_f64) return NULL;
  x->dtype = DTYPE_f64;
  Value *a = operand(x, 0), *b = operand(x, 1);
  return result(x, legalise_grow(x, OP_remf, a, b, NULL));
}

Value *expand_mod(Expansion *x) {
  return dtype_is_float(x->op->results[0].type->dtype) ? expand_remf(x) : NULL;
}

/* exp2(b log2 |a|); a negative a has a result if b is an integer, with a sign if b is odd. */
Value *expand_powf(Expansion *x) {
  open_type(x);
  Value *a = operand(x, 0), *b = operand(x, 1), *zero = number(x, 0), *one = number(x, 1);
  Value *m = magnitude(x, a), *log = log2_of(x, m);
  Value *p = exp2_of(x, mul(x, b, log));
  p = either(x, test(x, OP_eq, m, one), one, p);
  Value *half = mul(x, b, number(x, 0.5));
  Value *is_whole = test(x, OP_eq, nearest(x, b), b);
  Value *is_even = test(x, OP_eq, nearest(x, half), half);
  Value *turned = either(x, is_even, p, negative(x, p));
  p = either(x, has_sign(x, a), either(x, is_whole, turned, p), p);
  Value *nowhere = either(x, test(x, OP_eq, m, number(x, INFINITY)), p, number(x, NAN));
  nowhere = either(x, is_whole, p, nowhere);
  p = either(x, test(x, OP_lt, a, zero), nowhere, p);
  return result(x, either(x, test(x, OP_eq, b, zero), one, p));
}

/* One Newton step after exp2(log2(a)/3). */
Value *expand_cbrt(Expansion *x) {
  open_type(x);
  Value *a = operand(x, 0), *m = magnitude(x, a), *third = number(x, 1.0 / 3);
  Value *log = log2_of(x, m);
  Value *y = exp2_of(x, mul(x, log, third));
  Value *off = sub(x, y, divide(x, m, mul(x, y, y)));
  y = with_sign(x, a, sub(x, y, mul(x, off, third)));
  Value *plain = test(x, OP_ne, mul(x, m, number(x, 0.5)), m); /* neither 0 nor infinite */
  return result(x, either(x, plain, y, a));
}

/* A series up to 1; above, from exp(a/2), which does not overflow before sinh does. */
Value *expand_sinh(Expansion *x) {
  static const double series[] = {1,
                                  1.0 / 6,
                                  1.0 / 120,
                                  1.0 / 5040,
                                  1.0 / 362880,
                                  1.0 / 39916800,
                                  1.0 / 6227020800,
                                  1.0 / 1307674368000,
                                  1.0 / 355687428096000,
                                  1.0 / 121645100408832000};
  open_type(x);
  int terms = x->dtype == DTYPE_f64 ? (int)WV_LEN(series) : 5;
  Value *a = operand(x, 0), *m = magnitude(x, a), *half = number(x, 0.5), *one = number(x, 1);
  Value *small = mul(x, a, polynomial(x, mul(x, a, a), series, terms));
  Value *h = exp_of(x, mul(x, m, half));
  Value *large = sub(x, mul(x, mul(x, h, half), h), divide(x, half, mul(x, h, h)));
  return result(x, either(x, test(x, OP_lt, m, one), small, with_sign(x, a, large)));
}

/* Below 1, a plus a times a polynomial of a*a. Above, 1 minus the complement: f32 computes that
 * from a polynomial for its logarithm, f64 as exp(-a*a) times a polynomial of (a-3)/(a+3).
 * Coefficients are minimax with respect to erf itself. */
static Value *erf_left(Expansion *x, Value *m) {
  static const double narrow[] = {-0.0003275848294062725, -1.6271325773968508,
                                  -0.9178991712799504,    -0.15233313448882405,
                                  0.03414165904445264,    -0.005358644501224445,
                                  0.0005153528129745239,  -2.2596143102590875e-05};
  static const double wide[] = {
      0x1.6e9827d229d2cp-3,   -0x1.4e102b9cf8e74p-2, 0x1.f6ff2040dc554p-3,  -0x1.336ffbf0966e0p-3,
      0x1.258b13c2d09eap-4,   -0x1.8fa5842bfef18p-6, 0x1.17c9e6081e461p-8,  0x1.735d54c83d590p-11,
      -0x1.37ed16c69929cp-11, 0x1.a60d3c3beb5d4p-15, 0x1.2ce5f83cab881p-14, -0x1.aabe7cf6bf090p-18,
      -0x1.b7d3b56c7e19ep-18};
  bool is_wide = x->dtype == DTYPE_f64;
  Value *v = legalise_grow(x, OP_minimum, m, number(x, is_wide ? 6 : 4), NULL);
  if (!is_wide) return exp2_of(x, polynomial(x, v, narrow, (int)WV_LEN(narrow)));
  Value *three = number(x, 3), *t = divide(x, sub(x, v, three), add(x, v, three));
  return mul(x, exp_of(x, negative(x, mul(x, v, v))), polynomial(x, t, wide, (int)WV_LEN(wide)));
}

Value *expand_erf(Expansion *x) {
  static const double narrow[] = {
      0.1283791657295594,   -0.376126258374651,     0.11283585248605635,  -0.02685381458207252,
      0.005188330482592488, -0.0008010202699272506, 7.853849828429409e-05};
  static const double wide[] = {
      0x1.06eba8214db69p-3,  -0x1.812746b0379bdp-2,  0x1.ce2f21a040d21p-4,  -0x1.b82ce311fab6fp-6,
      0x1.565bccf92eaadp-8,  -0x1.c02db03e3cd72p-11, 0x1.f9a2bab00ed8ep-14, -0x1.f4ca4dbca9a02p-17,
      0x1.b97fd5d5cea58p-20, -0x1.5c072df7c0e9ep-23, 0x1.d71b21cf3dcd1p-27, -0x1.abae353b8c9f6p-31};
  open_type(x);
  bool is_wide = x->dtype == DTYPE_f64;
  Value *a = operand(x, 0), *m = magnitude(x, a), *one = number(x, 1);
  Value *part = polynomial(x, mul(x, a, a), is_wide ? wide : narrow,
                           (int)(is_wide ? WV_LEN(wide) : WV_LEN(narrow)));
  Value *small = add(x, a, mul(x, a, part));
  Value *large = with_sign(x, a, sub(x, one, erf_left(x, m)));
  return result(x, either(x, test(x, OP_lt, m, one), small, large));
}

/* exp overflows where the result would be subnormal; the result is 0 there. */
Value *expand_sigmoid(Expansion *x) {
  open_type(x);
  Value *a = operand(x, 0), *one = number(x, 1);
  return result(x, divide(x, one, add(x, one, exp_of(x, negative(x, a)))));
}

/* atan of the smaller over the larger in [0, 1], halved, then the octant. */
Value *expand_atan2(Expansion *x) {
  static const double series[] = {-3.33329491539e-1, 1.99777106478e-1, -1.38776856032e-1,
                                  8.05374449538e-2};
  const double pi = 3.14159265358979323846;
  double taylor[21];
  open_type(x);
  for (int i = 0; i < (int)WV_LEN(taylor); i++) taylor[i] = (i % 2 ? 1.0 : -1.0) / (2 * i + 3);
  bool wide = x->dtype == DTYPE_f64;
  const double *terms = wide ? taylor : series;
  int count = (int)(wide ? WV_LEN(taylor) : WV_LEN(series));
  Value *a = operand(x, 0), *b = operand(x, 1), *one = number(x, 1), *zero = number(x, 0);
  Value *up = magnitude(x, a), *right = magnitude(x, b);
  Value *least = legalise_grow(x, OP_minimum, up, right, NULL),
        *most = legalise_grow(x, OP_maximum, up, right, NULL);
  Value *t = either(x, test(x, OP_eq, least, most), one, divide(x, least, most));
  t = either(x, test(x, OP_eq, most, zero), zero, t);
  Value *steep = test(x, OP_gt, t, number(x, 0.41421356237309503));
  Value *u = either(x, steep, divide(x, sub(x, t, one), add(x, t, one)), t), *z = mul(x, u, u);
  Value *tail = mul(x, mul(x, polynomial(x, z, terms, count), z), u);
  Value *r = add(x, tail, u);
  r = either(x, steep, add(x, r, number(x, pi / 4)), r);
  r = either(x, test(x, OP_gt, up, right), sub(x, number(x, pi / 2), r), r);
  r = either(x, has_sign(x, b), sub(x, number(x, pi), r), r);
  return result(x, with_sign(x, a, r));
}
