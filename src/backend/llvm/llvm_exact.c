/* llvm_exact.c: products that need no rounding.
 *
 * Operands of scaled matmuls are elements of few bits times a power of two, as bf16: 4- and 6-bit
 * floats times their scales are exact, so that the upper half of the f32 product is the result. Those
 * of 8 bits are rounded, but their NaNs need no attention. */
#include <math.h>

#include "backend/llvm/llvm_state.h"
#include "ir/dtype.h"

/* The numbers are multiples of 2^least, with at most `bits` bits; or infinite, or NaN. */
typedef struct Grain {
  int bits, least;
} Grain;

/* Too many to be of use. */
static const Grain any = {64, 0};

static Grain grain_of_type(DType t) {
  if (t == DTYPE_f8e8m0fnu) return (Grain){1, ilogb(dtype_decode(t, 0))};
  if (!dtype_is_float(t) || dtype_info[t].bits > 8) return any;
  return (Grain){dtype_info[t].mantissa + 1, ilogb(dtype_decode(t, 1))};
}

static Grain grain_of(const Value *v) {
  const Op *def = v->def;
  if (!def) return any;
  if (def->kind == OP_cast) return grain_of_type(def->args[0]->type->dtype);
  if (def->kind == OP_pick || def->kind == OP_splat) return grain_of(def->args[0]);
  if (def->kind != OP_join) return any;
  Grain all = grain_of(def->args[0]);
  for (int i = 1; i < def->nargs; i++) {
    Grain one = grain_of(def->args[i]);
    if (one.bits > all.bits) all.bits = one.bits;
    if (one.least < all.least) all.least = one.least;
  }
  return all;
}

/* A power of two has one bit, and adds none. */
static int product_bits(Grain a, Grain b) {
  return a.bits == 1 ? b.bits : b.bits == 1 ? a.bits : a.bits + b.bits;
}

/* Casts make the same NaN of all codes, which multiplication keeps. */
LlvmRounding llvm_rounding_of(const Op *op) {
  enum { BF16_BITS = 8, BF16_LEAST = -133 };
  if (op->kind != OP_mul || op->results[0].type->dtype != DTYPE_bf16) return LLVM_ROUNDS;
  Grain a = grain_of(op->args[0]), b = grain_of(op->args[1]);
  if (a.bits == any.bits || b.bits == any.bits) return LLVM_ROUNDS;
  bool fits = product_bits(a, b) <= BF16_BITS && a.least + b.least >= BF16_LEAST;
  return fits ? LLVM_CUTS : LLVM_ROUNDS_ALL;
}
