/* dtype.h: exact arithmetic of the element types.
 *
 * Values are passed as double (floats) or int64_t (integers, truth values, index); these represent
 * every value of every row of types.def, except for u64, whose values are passed as the int64_t
 * with the same bits. The *bits* of an element are what memory holds, in the low end of a uint64_t.
 * Conversions round once, to nearest even, from the exact double. */
#ifndef WV_DTYPE_H
#define WV_DTYPE_H

#include "ir/ir.h"
#include "target/mma.h"

static inline bool dtype_is_float(DType t) { return dtype_info[t].class == DTYPE_FLOAT; }

static inline bool dtype_is_unsigned(DType t) { return dtype_info[t].class == DTYPE_UINT; }

/* ---- floats -------------------------------------------------------------------------------- */

double dtype_decode(DType t, uint64_t bits);

/* The bits of the nearest value. Beyond the largest value: infinity if the format has one, else NaN
 * if it has one, else the largest value. A NaN becomes a NaN (with as much of its payload as fits),
 * or the largest value if there is none. f8e8m0fnu: a negative value is NaN, zero and everything
 * below 2^-127 is 2^-127, ties round up. */
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
bool dtype_holds_int(DType t, int64_t v); /* dtype_wrap does not change it */

/* An integer converted to the type. An i1 is 1 if the integer is not 0; other integers wrap; floats
 * are rounded once. */
int64_t dtype_from_int(DType t, int64_t v);
double dtype_round_int(DType t, DType from, int64_t v);

/* Toward zero; out of range gives the nearest end of the range, NaN gives 0. For i1: whether v is
 * not 0. */
int64_t dtype_truncate(DType t, double v);

/* Expressions cannot represent the least i64 or the upper half of u64: such a constant is written
 * as the complement of its complement. */
static inline bool dtype_by_complement(DType t, int64_t v) {
  return v == INT64_MIN || (t == DTYPE_u64 && v < 0);
}

/* The integer as an exact number, before rounding. */
double dtype_int_value(DType t, int64_t v);

int64_t dtype_min_int(DType t);
int64_t dtype_max_int(DType t);

/* ---- memory -------------------------------------------------------------------------------- */

/* Whether a tensor of `given` may be passed where a kernel declares `d`. A kernel that declares i8
 * may mean bytes that it interprets in its own way; and bf16, fp8 and smaller floats arrive as
 * integers of their bits from libraries that do not support them. */
bool dtype_accepts(DType d, DType given);

/* 4-bit types are stored two per byte, low nibble first; every other type takes whole bytes (i1 and
 * 6-bit floats one). Elements need not be aligned. */
size_t dtype_bytes(DType t, int64_t elements);
uint64_t dtype_load(DType t, const void *base, int64_t element);
void dtype_store(DType t, void *base, int64_t element, uint64_t bits);

/* The bits of an integer value. */
uint64_t dtype_int_bits(DType t, int64_t v);

/* Bits of an element in memory: truth values and 6-bit floats are bytes there. */
/* The fewest elements of a type that are whole elements of another: as many bits. */
typedef struct BitGroup {
  int from, to; /* 1 i8 is 2 f4e2m1fn; 3 i8 are 4 f6e2m3fn */
} BitGroup;
BitGroup dtype_bit_group(DType from, DType to);

static inline int dtype_memory_bits(DType t) {
  int bits = dtype_info[t].bits;
  return bits == 1 || bits == 6 ? 8 : bits;
}

#endif
