/* legalise_words.h: arithmetic helpers for writing functions as ops. */
#ifndef WV_LEGALISE_WORDS_H
#define WV_LEGALISE_WORDS_H

#include "ir/dtype.h"
#include "transform/legalise/legalise.h"

static inline Value *number(Expansion *x, double v) { return grow_number(x, v, x->dtype); }
static inline Value *add(Expansion *x, Value *a, Value *b) {
  return legalise_grow(x, OP_add, a, b, NULL);
}
static inline Value *sub(Expansion *x, Value *a, Value *b) {
  return legalise_grow(x, OP_sub, a, b, NULL);
}
static inline Value *mul(Expansion *x, Value *a, Value *b) {
  return legalise_grow(x, OP_mul, a, b, NULL);
}
static inline Value *divide(Expansion *x, Value *a, Value *b) {
  return legalise_grow(x, OP_div, a, b, NULL);
}
static inline Value *magnitude(Expansion *x, Value *a) {
  return legalise_grow(x, OP_abs, a, NULL, NULL);
}
static inline Value *negative(Expansion *x, Value *a) {
  return legalise_grow(x, OP_neg, a, NULL, NULL);
}
static inline Value *nearest(Expansion *x, Value *a) {
  return legalise_grow(x, OP_roundeven, a, NULL, NULL);
}
static inline Value *either(Expansion *x, Value *test, Value *yes, Value *no) {
  return legalise_grow(x, OP_select, test, yes, no);
}
static inline Value *test(Expansion *x, OpKind kind, Value *a, Value *b) {
  return grow_as(x, kind, a, b, DTYPE_i1);
}
static inline Value *as_type(Expansion *x, OpKind cast, Value *v, DType to) {
  return grow_as(x, cast, v, NULL, to);
}

/* Operand i in the type of the computation. */
static inline Value *operand(Expansion *x, int i) {
  Value *v = x->op->args[i];
  return v->type->dtype == x->dtype ? v : as_type(x, OP_cast, v, x->dtype);
}

static inline Value *result(Expansion *x, Value *v) {
  DType to = x->op->results[0].type->dtype;
  return to == x->dtype ? v : as_type(x, OP_cast, v, to);
}

/* ((c[n-1]*z + c[n-2])*z + ...)*z + c[0] */
static inline Value *polynomial(Expansion *x, Value *z, const double *c, int n) {
  Value *v = number(x, c[n - 1]);
  for (int i = n - 2; i >= 0; i--) v = add(x, mul(x, v, z), number(x, c[i]));
  return v;
}

/* The sign bit, also of zeros. */
static inline Value *has_sign(Expansion *x, Value *a) {
  DType bits = x->dtype == DTYPE_f64 ? DTYPE_i64 : DTYPE_i32;
  return test(x, OP_lt, as_type(x, OP_bitcast, a, bits), grow_number(x, 0, bits));
}

static inline Value *with_sign(Expansion *x, Value *sign, Value *v) {
  return either(x, has_sign(x, sign), negative(x, v), v);
}

#endif
