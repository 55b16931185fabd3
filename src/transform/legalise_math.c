/* legalise_math.c: functions that no GPU has, in terms of those it has.
 *
 * Smaller floats are computed in f32 and rounded once. Errors are relative, in units of the last
 * place of f32, on top of those of exp2 and log2 (2 each):
 *
 *     softsign 2    cbrt 3    sinh 4    atan2 4    powf 2 + |b log2 a|
 *     remf, mod: exact while |a / b| < 2**28, computed in f64 */
#include <math.h>

#include "ir/dtype.h"
#include "transform/legalise.h"

/* ---- words ---- */

static Value *number(Expansion *x, double v) { return grow_number(x, v, x->dtype); }
static Value *add(Expansion *x, Value *a, Value *b) { return grow(x, OP_add, a, b, NULL); }
static Value *sub(Expansion *x, Value *a, Value *b) { return grow(x, OP_sub, a, b, NULL); }
static Value *mul(Expansion *x, Value *a, Value *b) { return grow(x, OP_mul, a, b, NULL); }
static Value *divide(Expansion *x, Value *a, Value *b) { return grow(x, OP_div, a, b, NULL); }
static Value *magnitude(Expansion *x, Value *a) { return grow(x, OP_abs, a, NULL, NULL); }
static Value *negative(Expansion *x, Value *a) { return grow(x, OP_neg, a, NULL, NULL); }
static Value *either(Expansion *x, Value *test, Value *yes, Value *no) {
  return grow(x, OP_select, test, yes, no);
}
static Value *test(Expansion *x, OpKind kind, Value *a, Value *b) {
  return grow_as(x, kind, a, b, DTYPE_i1);
}

/* Operand i in what is computed in. */
static Value *operand(Expansion *x, int i) {
  Value *v = x->op->args[i];
  return v->type->dtype == x->dtype ? v : grow_as(x, OP_cast, v, NULL, x->dtype);
}

static Value *result(Expansion *x, Value *v) {
  DType to = x->op->results[0].type->dtype;
  return to == x->dtype ? v : grow_as(x, OP_cast, v, NULL, to);
}

/* f32, or NULL's cue: f64 stays as it is. */
static bool in_f32(Expansion *x) {
  x->dtype = DTYPE_f32;
  return x->op->results[0].type->dtype != DTYPE_f64;
}

/* The sign bit: also of zeros. */
static Value *has_sign(Expansion *x, Value *a) {
  return test(x, OP_lt, grow_as(x, OP_bitcast, a, NULL, DTYPE_i32), grow_number(x, 0, DTYPE_i32));
}

static Value *with_sign(Expansion *x, Value *sign, Value *v) {
  return either(x, has_sign(x, sign), negative(x, v), v);
}

/* ((c[n-1]*z + c[n-2])*z + ...)*z + c[0] */
static Value *polynomial(Expansion *x, Value *z, const double *c, int n) {
  Value *v = number(x, c[n - 1]);
  for (int i = n - 2; i >= 0; i--) v = add(x, mul(x, v, z), number(x, c[i]));
  return v;
}

/* ---- functions ---- */

Value *expand_softsign(Expansion *x) {
  const Attr *given = op_attr(x->op, ATTR_cap), *head = op_attr(x->op, ATTR_head);
  double cap = given && !given->sym ? given->number : 30;
  if (head) cap *= 1 / sqrt((double)head->integer);
  if (!in_f32(x)) return NULL;
  Value *a = operand(x, 0), *one = number(x, 1);
  Value *share = divide(x, magnitude(x, a), number(x, cap));
  return result(x, divide(x, a, add(x, one, share)));
}

/* a - b*trunc(a/b): the product is exact in f64. What is smaller than b is the remainder itself,
 * zeros keep the sign of a, and 0 or infinity on the wrong side gives NaN. */
Value *expand_remf(Expansion *x) {
  if (!in_f32(x)) return NULL;
  x->dtype = DTYPE_f64;
  Value *a = operand(x, 0), *b = operand(x, 1), *zero = number(x, 0);
  Value *quotient = divide(x, a, b);
  Value *whole =
      grow_as(x, OP_cast, grow_as(x, OP_cast, quotient, NULL, DTYPE_i32), NULL, x->dtype);
  Value *r = sub(x, a, mul(x, whole, b));
  r = either(x, test(x, OP_eq, r, zero), mul(x, a, zero), r);
  r = either(x, test(x, OP_eq, sub(x, quotient, quotient), zero), r, number(x, NAN));
  r = either(x, test(x, OP_lt, magnitude(x, a), magnitude(x, b)), a, r);
  return result(x, r);
}

Value *expand_mod(Expansion *x) {
  return dtype_is_float(x->op->results[0].type->dtype) ? expand_remf(x) : NULL;
}

/* exp2(b log2 |a|); a negative a has a value where b is whole, with its sign where b is odd. */
Value *expand_powf(Expansion *x) {
  if (!in_f32(x)) return NULL;
  Value *a = operand(x, 0), *b = operand(x, 1), *zero = number(x, 0), *one = number(x, 1);
  Value *m = magnitude(x, a), *log = grow(x, OP_log2, m, NULL, NULL);
  Value *p = grow(x, OP_exp2, mul(x, b, log), NULL, NULL);
  p = either(x, test(x, OP_eq, m, one), one, p);
  Value *half = mul(x, b, number(x, 0.5));
  Value *is_whole = test(x, OP_eq, grow(x, OP_roundeven, b, NULL, NULL), b);
  Value *is_even = test(x, OP_eq, grow(x, OP_roundeven, half, NULL, NULL), half);
  Value *turned = either(x, is_even, p, negative(x, p));
  p = either(x, has_sign(x, a), either(x, is_whole, turned, p), p);
  Value *nowhere = either(x, test(x, OP_eq, m, number(x, INFINITY)), p, number(x, NAN));
  nowhere = either(x, is_whole, p, nowhere);
  p = either(x, test(x, OP_lt, a, zero), nowhere, p);
  return result(x, either(x, test(x, OP_eq, b, zero), one, p));
}

/* One step of Newton's behind exp2(log2(a)/3). */
Value *expand_cbrt(Expansion *x) {
  if (!in_f32(x)) return NULL;
  Value *a = operand(x, 0), *m = magnitude(x, a), *third = number(x, 1.0 / 3);
  Value *log = grow(x, OP_log2, m, NULL, NULL);
  Value *y = grow(x, OP_exp2, mul(x, log, third), NULL, NULL);
  Value *off = sub(x, y, divide(x, m, mul(x, y, y)));
  y = with_sign(x, a, sub(x, y, mul(x, off, third)));
  Value *plain = test(x, OP_ne, mul(x, m, number(x, 0.5)), m); /* not 0, not infinite */
  return result(x, either(x, plain, y, a));
}

/* A series up to 1; above, from exp(a/2), which does not overflow before sinh does. */
Value *expand_sinh(Expansion *x) {
  static const double series[] = {1, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880};
  if (!in_f32(x)) return NULL;
  Value *a = operand(x, 0), *m = magnitude(x, a), *half = number(x, 0.5), *one = number(x, 1);
  Value *small = mul(x, a, polynomial(x, mul(x, a, a), series, (int)WV_LEN(series)));
  Value *h = grow(x, OP_exp, mul(x, m, half), NULL, NULL);
  Value *large = sub(x, mul(x, mul(x, h, half), h), divide(x, half, mul(x, h, h)));
  return result(x, either(x, test(x, OP_lt, m, one), small, with_sign(x, a, large)));
}

/* atan of the smaller over the larger in [0, 1], by halves of it, then the octant. */
Value *expand_atan2(Expansion *x) {
  static const double series[] = {-3.33329491539e-1, 1.99777106478e-1, -1.38776856032e-1,
                                  8.05374449538e-2};
  const double pi = 3.14159265358979323846;
  if (!in_f32(x)) return NULL;
  Value *a = operand(x, 0), *b = operand(x, 1), *one = number(x, 1), *zero = number(x, 0);
  Value *up = magnitude(x, a), *right = magnitude(x, b);
  Value *least = grow(x, OP_minimum, up, right, NULL), *most = grow(x, OP_maximum, up, right, NULL);
  Value *t = either(x, test(x, OP_eq, least, most), one, divide(x, least, most));
  t = either(x, test(x, OP_eq, most, zero), zero, t);
  Value *steep = test(x, OP_gt, t, number(x, 0.41421356237309503));
  Value *u = either(x, steep, divide(x, sub(x, t, one), add(x, t, one)), t), *z = mul(x, u, u);
  Value *tail = mul(x, mul(x, polynomial(x, z, series, (int)WV_LEN(series)), z), u);
  Value *r = add(x, tail, u);
  r = either(x, steep, add(x, r, number(x, pi / 4)), r);
  r = either(x, test(x, OP_gt, up, right), sub(x, number(x, pi / 2), r), r);
  r = either(x, has_sign(x, b), sub(x, number(x, pi), r), r);
  return result(x, with_sign(x, a, r));
}
