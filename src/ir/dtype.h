/* dtype.h: exact arithmetic of the element types.
 *
 * Values travel as double (floats) or int64_t (integers, truth values, index); both hold every
 * value of every row of types.def, but for u64: its values travel as the int64_t of the same bits.
 * The *bits* of an element are what memory holds, in the low end of a uint64_t. Conversions round
 * once, to nearest even, from the exact double. */
#ifndef WV_DTYPE_H
#define WV_DTYPE_H

#include "ir/ir.h"
#include "target/mma.h"

static inline bool dtype_is_float(DType t) { return dtype_info[t].class == DTYPE_FLOAT; }

static inline bool dtype_is_unsigned(DType t) { return dtype_info[t].class == DTYPE_UINT; }

/* ---- floats -------------------------------------------------------------------------------- */

double dtype_decode(DType t, uint64_t bits);

/* The nearest value's bits. Beyond the largest value: infinity where the format has one, else NaN
 * where it has one, else the largest value. A NaN becomes a NaN (its payload is kept as far as it
 * fits), or the largest value where there is none. f8e8m0fnu: a negative value is NaN, zero and
 * everything below 2^-127 is 2^-127, half way goes up. */
uint64_t dtype_encode(DType t, double v);

double dtype_round(DType t, double v); /* the value of dtype_encode(t, v) */
double dtype_lowest(DType t);          /* below or equal to every value: -inf or -largest */
double dtype_highest(DType t);         /* above or equal to every value: inf or largest */

/* Its name among the operands of matrix instructions; 0: none takes it. */
MmaType dtype_mma(DType t);

/* ---- integers ------------------------------------------------------------------------------ */

/* The value of the low bits: two's complement for signed integers, 0 or 1 for i1, unchanged for
 * index. */
int64_t dtype_wrap(DType t, int64_t v);

/* An integer converted to the type. An i1 is true, which is 1, where the integer is not 0; other
 * integers wrap; floats are rounded once. */
int64_t dtype_from_int(DType t, int64_t v);
double dtype_round_int(DType t, DType from, int64_t v);

/* Toward zero; out of range gives the nearest end, NaN gives 0. For i1: whether v is not 0. */
int64_t dtype_truncate(DType t, double v);

/* Expressions hold neither the least i64 nor the upper half of u64: such a constant is written as
 * the complement of the one that it is the complement of. */
static inline bool dtype_by_complement(DType t, int64_t v) {
  return v == INT64_MIN || (t == DTYPE_u64 && v < 0);
}

/* The integer as a float would have to be: before rounding. */
double dtype_int_value(DType t, int64_t v);

int64_t dtype_min_int(DType t);
int64_t dtype_max_int(DType t);

/* ---- memory -------------------------------------------------------------------------------- */

/* A tensor of `given` may be passed where a kernel says `d`. Where it says i8 it may mean bytes
 * that it looks at in its own way; and bf16, fp8 and smaller floats come as integers of their bits
 * from libraries that do not know them. */
bool dtype_accepts(DType d, DType given);

/* Four-bit types lie two to a byte, low nibble first; every other type has bytes of its own (i1
 * and six-bit floats one). Elements need not be aligned. */
size_t dtype_bytes(DType t, int64_t elements);
uint64_t dtype_load(DType t, const void *base, int64_t element);
void dtype_store(DType t, void *base, int64_t element, uint64_t bits);

/* The bits of an integer value. */
uint64_t dtype_int_bits(DType t, int64_t v);

/* Of an element in memory: truth values and six-bit floats are bytes there. */
static inline int dtype_memory_bits(DType t) {
  int bits = dtype_info[t].bits;
  return bits == 1 || bits == 6 ? 8 : bits;
}

#endif
