/* dtype.c: encode, decode and round for every row of types.def.
 *
 * One routine serves all float formats. A positive value v = q * 2^(e - mantissa), with e not below
 * the format's least exponent, has the code ((e + bias) << mantissa) + q - 2^mantissa, and a
 * subnormal the code q. So rounding q to an integer rounds the code, and a carry out of the
 * mantissa ends up in the exponent by itself. */
#include "ir/dtype.h"

#include <math.h>
#include <string.h>

/* The meaning of the codes beyond the finite values. */
typedef enum Specials {
  IEEE,   /* largest exponent: infinity and NaNs */
  FN,     /* all ones: NaN; no infinity */
  FNUZ,   /* the code of -0: NaN; no infinity */
  FINITE, /* only numbers */
  SCALE   /* no sign, no zero: exponents only, all ones: NaN */
} Specials;

typedef struct Format {
  int bias;
  Specials specials;
} Format;

static const Format formats[DTYPE_COUNT] = {
    [DTYPE_f64] = {1023, IEEE},       [DTYPE_f32] = {127, IEEE},
    [DTYPE_f16] = {15, IEEE},         [DTYPE_bf16] = {127, IEEE},
    [DTYPE_f8e4m3fn] = {7, FN},       [DTYPE_f8e4m3fnuz] = {8, FNUZ},
    [DTYPE_f8e5m2] = {15, IEEE},      [DTYPE_f8e5m2fnuz] = {16, FNUZ},
    [DTYPE_f8e8m0fnu] = {127, SCALE}, [DTYPE_f6e2m3fn] = {1, FINITE},
    [DTYPE_f4e2m1fn] = {1, FINITE},
};

enum { DOUBLE_MANTISSA = 52, DOUBLE_BIAS = 1023, DOUBLE_EXPONENTS = 0x7ff };

static uint64_t double_bits(double v) {
  uint64_t u;
  memcpy(&u, &v, sizeof u);
  return u;
}

static double double_of(uint64_t u) {
  double v;
  memcpy(&v, &u, sizeof v);
  return v;
}

static uint64_t ones(int n) { return n >= 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1; }

/* The largest finite magnitude's code, without sign. */
static uint64_t largest_code(DType t) {
  const DTypeInfo *d = &dtype_info[t];
  switch (formats[t].specials) {
  case IEEE: return (ones(d->exponent) << d->mantissa) - 1;
  case FN:
  case SCALE: return ones(d->exponent + d->mantissa) - 1;
  case FNUZ:
  case FINITE: break;
  }
  return ones(d->exponent + d->mantissa);
}

static bool is_nan_code(DType t, uint64_t sign, uint64_t magnitude) {
  const DTypeInfo *d = &dtype_info[t];
  switch (formats[t].specials) {
  case IEEE: return magnitude > ones(d->exponent) << d->mantissa;
  case FN:
  case SCALE: return magnitude == ones(d->exponent + d->mantissa);
  case FNUZ: return sign && magnitude == 0;
  case FINITE: break;
  }
  return false;
}

double dtype_decode(DType t, uint64_t bits) {
  const DTypeInfo *d = &dtype_info[t];
  const Format *f = &formats[t];
  int width = d->exponent + d->mantissa;
  uint64_t sign = f->specials == SCALE ? 0 : bits >> width & 1;
  uint64_t magnitude = bits & ones(width), mantissa = magnitude & ones(d->mantissa);
  uint64_t exponent = magnitude >> d->mantissa;
  uint64_t fraction = mantissa << (DOUBLE_MANTISSA - d->mantissa);
  if (exponent && exponent < ones(d->exponent) && f->specials != SCALE) /* nothing special */
    return double_of(sign << 63 |
                     (exponent + (uint64_t)(DOUBLE_BIAS - f->bias)) << DOUBLE_MANTISSA | fraction);
  if (is_nan_code(t, sign, magnitude)) {
    if (!fraction) fraction = (uint64_t)1 << (DOUBLE_MANTISSA - 1);
    return double_of(sign << 63 | (uint64_t)DOUBLE_EXPONENTS << DOUBLE_MANTISSA | fraction);
  }
  if (magnitude > largest_code(t)) return sign ? -INFINITY : INFINITY;
  if (t == DTYPE_f64) return double_of(bits);
  if (exponent == 0 && f->specials != SCALE) {
    double v = ldexp((double)mantissa, 1 - f->bias - d->mantissa);
    return sign ? -v : v;
  }
  uint64_t e = exponent + (uint64_t)(DOUBLE_BIAS - f->bias);
  return double_of(sign << 63 | e << DOUBLE_MANTISSA | fraction);
}

static uint64_t encode_nan(DType t, uint64_t sign, uint64_t fraction) {
  const DTypeInfo *d = &dtype_info[t];
  int width = d->exponent + d->mantissa;
  switch (formats[t].specials) {
  case IEEE: break;
  case FN: return sign << width | ones(width);
  case FNUZ: return (uint64_t)1 << width;
  case FINITE:
  case SCALE: return ones(width);
  }
  uint64_t payload = fraction >> (DOUBLE_MANTISSA - d->mantissa);
  if (!payload) payload = (uint64_t)1 << (d->mantissa - 1);
  return sign << width | ones(d->exponent) << d->mantissa | payload;
}

static uint64_t encode_overflow(DType t, uint64_t sign) {
  const DTypeInfo *d = &dtype_info[t];
  int width = d->exponent + d->mantissa;
  switch (formats[t].specials) {
  case IEEE: return sign << width | ones(d->exponent) << d->mantissa;
  case FN:
  case FNUZ:
  case SCALE: return encode_nan(t, sign, 0);
  case FINITE: break;
  }
  return sign << width | largest_code(t);
}

/* x / 2^shift, to nearest, ties to even. */
static uint64_t shift_round(uint64_t x, int shift) {
  if (shift == 0) return x;
  if (shift > DOUBLE_MANTISSA + 2) return 0;
  uint64_t q = x >> shift, rest = x & ones(shift), half = (uint64_t)1 << (shift - 1);
  return q + (rest > half || (rest == half && (q & 1)));
}

/* Rounds the bits of a double to the format's mantissa. False: its exponent is near the ends of the
 * format's range, where not every mantissa is valid or a carry may leave the range. */
static bool round_plain(DType t, uint64_t *bits) {
  const DTypeInfo *d = &dtype_info[t];
  const Format *f = &formats[t];
  int e = (int)(*bits >> DOUBLE_MANTISSA & DOUBLE_EXPONENTS) - DOUBLE_BIAS + f->bias;
  int most = (1 << d->exponent) - (f->specials == IEEE ? 2 : 1);
  if (e < 1 || e >= most || f->specials == SCALE) return false;
  int shift = DOUBLE_MANTISSA - d->mantissa;
  if (!shift) return true;
  uint64_t odd = *bits >> shift & 1;
  *bits = (*bits + (((uint64_t)1 << (shift - 1)) - 1) + odd) & ~ones(shift);
  return true;
}

uint64_t dtype_encode(DType t, double v) {
  const DTypeInfo *d = &dtype_info[t];
  const Format *f = &formats[t];
  uint64_t plain = double_bits(v);
  if (round_plain(t, &plain)) {
    uint64_t magnitude = (plain & ones(63)) >> (DOUBLE_MANTISSA - d->mantissa);
    magnitude -= (uint64_t)(DOUBLE_BIAS - f->bias) << d->mantissa;
    return plain >> 63 << (d->exponent + d->mantissa) | magnitude;
  }
  uint64_t u = double_bits(v), sign = u >> 63, fraction = u & ones(DOUBLE_MANTISSA);
  int exponent = (int)(u >> DOUBLE_MANTISSA & DOUBLE_EXPONENTS);
  if (exponent == DOUBLE_EXPONENTS && fraction) return encode_nan(t, sign, fraction);
  if (exponent == DOUBLE_EXPONENTS) return encode_overflow(t, sign);
  if (t == DTYPE_f64) return u;
  if (f->specials == SCALE && v < 0) return encode_nan(t, sign, 0);

  int e = (exponent ? exponent : 1) - DOUBLE_BIAS;
  uint64_t significand = fraction | (uint64_t)(exponent != 0) << DOUBLE_MANTISSA;
  int least = f->specials == SCALE ? -f->bias : 1 - f->bias;
  if (f->specials == SCALE && e < least) return 0;
  int below = e < least ? least - e : 0;
  uint64_t code = shift_round(significand, DOUBLE_MANTISSA - d->mantissa + below);
  if (!below) code += ((uint64_t)(e - least) << d->mantissa);
  if (f->specials == SCALE) code--; /* q is 1 or 2; there are no subnormals at code 0 */
  if (code > largest_code(t)) return encode_overflow(t, sign);
  if (f->specials == FNUZ && code == 0) return 0;
  return sign << (d->exponent + d->mantissa) | code;
}

double dtype_round(DType t, double v) {
  if (t == DTYPE_f64) return v;
  if (t == DTYPE_f32) return (double)(float)v;
  uint64_t plain = double_bits(v);
  if (round_plain(t, &plain)) return double_of(plain);
  return dtype_decode(t, dtype_encode(t, v));
}

double dtype_highest(DType t) {
  return formats[t].specials == IEEE ? INFINITY : dtype_decode(t, largest_code(t));
}

double dtype_lowest(DType t) {
  return formats[t].specials == SCALE ? dtype_decode(t, 0) : -dtype_highest(t);
}

/* ---- integers ------------------------------------------------------------------------------ */

int64_t dtype_wrap(DType t, int64_t v) {
  int bits = dtype_info[t].bits;
  if (dtype_info[t].class == DTYPE_BOOL) return v & 1;
  if (bits == 64) return v;
  if (dtype_is_unsigned(t)) return (int64_t)((uint64_t)v & ones(bits));
  int64_t sign = (int64_t)1 << (bits - 1);
  return (int64_t)(((uint64_t)v & ones(bits)) ^ (uint64_t)sign) - sign;
}

bool dtype_holds_int(DType t, int64_t v) { return dtype_wrap(t, v) == v; }

int64_t dtype_from_int(DType t, int64_t v) {
  return dtype_info[t].class == DTYPE_BOOL ? v != 0 : dtype_wrap(t, v);
}

/* A double holds 53 bits. For a longer number the last of them says whether more were lost ("round
 * to odd"), so that rounding to fewer bits gives the same result as rounding the number itself. */
double dtype_round_int(DType t, DType from, int64_t v) {
  const int64_t most = INT64_C(1) << (DOUBLE_MANTISSA + 1);
  const int lost = 63 - DOUBLE_MANTISSA;
  bool large = v < 0 && dtype_is_unsigned(from);
  if (t == DTYPE_f64 || (!large && v >= -most && v <= most))
    return dtype_round(t, dtype_int_value(from, v));
  bool inexact = ((uint64_t)v & ones(lost)) != 0;
  double kept = large ? (double)((uint64_t)v >> lost | inexact) : (double)(v >> lost | inexact);
  return dtype_round(t, ldexp(kept, lost));
}

int64_t dtype_min_int(DType t) {
  bool none = dtype_info[t].class == DTYPE_BOOL || dtype_is_unsigned(t);
  return none ? 0 : INT64_MIN >> (64 - dtype_info[t].bits);
}

int64_t dtype_max_int(DType t) {
  if (dtype_is_unsigned(t)) return (int64_t)ones(dtype_info[t].bits);
  return dtype_info[t].class == DTYPE_BOOL ? 1 : INT64_MAX >> (64 - dtype_info[t].bits);
}

int64_t dtype_truncate(DType t, double v) {
  if (dtype_info[t].class == DTYPE_BOOL) return v != 0;
  if (isnan(v)) return 0;
  double end = ldexp(1, dtype_info[t].bits - !dtype_is_unsigned(t));
  if (dtype_is_unsigned(t) && v < end) return v <= 0 ? 0 : (int64_t)(uint64_t)v;
  if (v >= end) return dtype_max_int(t);
  if (v < -end) return dtype_min_int(t);
  return (int64_t)v;
}

double dtype_int_value(DType t, int64_t v) {
  return dtype_is_unsigned(t) ? (double)(uint64_t)v : (double)v;
}

uint64_t dtype_int_bits(DType t, int64_t v) { return (uint64_t)v & ones(dtype_info[t].bits); }

BitGroup dtype_bit_group(DType from, DType to) {
  int a = dtype_info[from].bits, b = dtype_info[to].bits, common = a;
  while (a % common || b % common) common--;
  return (BitGroup){b / common, a / common};
}

/* ---- memory -------------------------------------------------------------------------------- */

static size_t width(DType t) { return (size_t)(dtype_info[t].bits + 7) / 8; }

bool dtype_accepts(DType d, DType given) {
  bool same_bits = dtype_memory_bits(d) == dtype_memory_bits(given);
  bool unknown = dtype_is_float(d) && dtype_info[d].bits <= 16 && d != DTYPE_f16;
  if (d == given) return true;
  if (d == DTYPE_i8) return same_bits;
  bool ints = dtype_info[given].class == DTYPE_INT || dtype_is_unsigned(given);
  if (unknown) return same_bits && ints;
  if (dtype_info[d].class == DTYPE_INT || dtype_is_unsigned(d)) return same_bits && ints;
  return (d == DTYPE_index && same_bits && ints) || (d == DTYPE_i1 && same_bits && ints);
}

size_t dtype_bytes(DType t, int64_t elements) {
  if (dtype_info[t].bits == 4) return ((size_t)elements + 1) / 2;
  return (size_t)elements * width(t);
}

uint64_t dtype_load(DType t, const void *base, int64_t element) {
  const unsigned char *at = base;
  if (dtype_info[t].bits == 4) return (uint64_t)(at[element >> 1] >> ((element & 1) * 4)) & 15;
  uint64_t bits = 0;
  for (size_t i = 0, n = width(t); i < n; i++)
    bits |= (uint64_t)at[element * (int64_t)n + (int64_t)i] << (8 * i);
  return dtype_info[t].class == DTYPE_BOOL ? bits != 0 : bits & ones(dtype_info[t].bits);
}

void dtype_store(DType t, void *base, int64_t element, uint64_t bits) {
  unsigned char *at = base;
  if (dtype_info[t].bits == 4) {
    int shift = (int)(element & 1) * 4;
    unsigned char *byte = &at[element >> 1];
    *byte = (unsigned char)((*byte & ~(15 << shift)) | (int)(bits & 15) << shift);
    return;
  }
  for (size_t i = 0, n = width(t); i < n; i++)
    at[element * (int64_t)n + (int64_t)i] = (unsigned char)(bits >> (8 * i));
}

/* ---- matrix instructions ---- */

MmaType dtype_mma(DType t) {
  switch (t) {
  case DTYPE_f64: return MMA_f64;
  case DTYPE_f32: return MMA_f32;
  case DTYPE_f16: return MMA_f16;
  case DTYPE_bf16: return MMA_bf16;
  case DTYPE_f8e4m3fn: return MMA_f8e4m3fn;
  case DTYPE_f8e5m2: return MMA_f8e5m2;
  case DTYPE_f8e4m3fnuz: return MMA_f8e4m3fnuz;
  case DTYPE_f8e5m2fnuz: return MMA_f8e5m2fnuz;
  case DTYPE_f6e2m3fn: return MMA_f6e2m3fn;
  case DTYPE_f4e2m1fn: return MMA_f4e2m1fn;
  case DTYPE_i32: return MMA_i32;
  case DTYPE_i8: return MMA_i8;
  case DTYPE_i16: return MMA_i16;
  default: return (MmaType)0;
  }
}
