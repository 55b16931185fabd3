/* reductions.h: ops that combine elements along a dimension, and what replaces an element that does
 * not exist. The table is reductions.def; the pass `padding` applies it. */
#ifndef WV_REDUCTIONS_H
#define WV_REDUCTIONS_H

#include "ir/dtype.h"
#include "ir/ir.h"

typedef enum Padding {
  PADDING_NONE, /* not a reduction */
  PADDING_ZERO,
  PADDING_ONE,
  PADDING_LOWEST,
  PADDING_HIGHEST,
  PADDING_PREDICATE,
  PADDING_BEHIND
} Padding;

typedef struct ReductionInfo {
  Padding padding;
  OpKind combine; /* OP_COUNT: none */
} ReductionInfo;

extern const ReductionInfo reduction_info[OP_COUNT];

static inline bool op_is_reduction(const Op *op) {
  return reduction_info[op->kind].padding != PADDING_NONE;
}

static inline bool op_is_scan(const Op *op) { return op->kind == OP_cumsum || op->kind == OP_scan; }

/* With `into`: each thread has a part, not each wave. */
bool reduction_is_by_thread(const Op *op);

/* Which elements exist: the last operand of an op whose padding is PREDICATE; NULL: all do. */
Value *reduction_exists(const Op *op);

/* Sums and products: small floats are combined in f32. */
static inline bool reduction_accumulates(OpKind kind) {
  return reduction_info[kind].combine == OP_add || reduction_info[kind].combine == OP_mul;
}

/* Counting an element twice changes the result. */
static inline bool reduction_takes_once(OpKind kind) {
  return reduction_accumulates(kind) || kind == OP_reduce;
}

/* The neutral element in a dtype: a number for float types, an integer for integer types. */
double padding_number(Padding p, DType t);
int64_t padding_integer(Padding p, DType t);
bool padding_fills(const Op *fill, Padding p); /* all that it makes is that element */

#endif
