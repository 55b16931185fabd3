/* isa_number.h: numbers as registers hold them. Everything rounds to nearest even. */
#ifndef WV_ISA_NUMBER_H
#define WV_ISA_NUMBER_H

#include <math.h>
#include <string.h>

#include "base/base.h"

static inline float isa_float(uint32_t bits) {
  union {
    uint32_t u;
    float f;
  } x = {.u = bits};
  return x.f;
}

static inline uint32_t isa_bits(float f) {
  union {
    float f;
    uint32_t u;
  } x = {.f = f};
  return x.u;
}

static inline double isa_double(uint64_t bits) {
  union {
    uint64_t u;
    double d;
  } x = {.u = bits};
  return x.d;
}

static inline uint64_t isa_bits64(double d) {
  union {
    double d;
    uint64_t u;
  } x = {.d = d};
  return x.u;
}

/* ---- f16 and bf16, without branches, so that loops over lanes are vectorised ---- */

/* The bits are those of a float with a smaller bias: one multiplication corrects it, also for
 * denormals. */
static inline float isa_from_f16(uint32_t h) {
  uint32_t sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
  uint32_t finite = isa_bits(isa_float(rest << 13) * 0x1p112f);
  uint32_t special = rest << 13 | 0x7f800000u;
  return isa_float(sign | (rest >= 0x7c00u ? special : finite));
}

static inline uint32_t isa_to_f16(float f) {
  uint32_t bits = isa_bits(f), sign = bits >> 16 & 0x8000u, x = bits & 0x7fffffffu;
  uint32_t normal = (x - (112u << 23) + 0xfffu + (x >> 13 & 1)) >> 13;
  uint32_t small = isa_bits(isa_float(x) + 0.5f) - isa_bits(0.5f); /* rounds at 2^-24 */
  uint32_t nan = 0x7e00u | (x >> 13 & 0x3ffu);
  uint32_t r = x < 0x38800000u ? small : normal;
  r = x >= 0x477ff000u ? 0x7c00u : r;
  r = x > 0x7f800000u ? nan : r;
  return sign | r;
}

/* Toward zero, as v_cvt_pkrtz_f16_f32 rounds: overflow gives the largest value. */
static inline uint32_t isa_to_f16_toward_zero(float f) {
  uint32_t nearest = isa_to_f16(f);
  bool is_special = isnan(f) || isinf(f);
  bool grew = fabsf(isa_from_f16(nearest)) > fabsf(f);
  return is_special || !grew ? nearest : nearest - 1;
}

/* a * b + c, for a type of fewer bits: the product is exact in f64 and the sum is rounded to odd, so
 * that the final rounding is the only one. */
static inline double isa_fma_odd(float a, float b, float c) {
  double product = (double)a * b, sum = product + c;
  double error = fabs(product) > fabs((double)c) ? c - (sum - product) : product - (sum - c);
  if (error == 0 || !isfinite(sum)) return sum;
  uint64_t bits = isa_bits64(sum);
  if (!(bits & 1)) bits += (error > 0) == (sum > 0) ? 1 : UINT64_MAX;
  return isa_double(bits);
}

/* Of f16 or bf16. */
static inline float isa_fma_narrow(float a, float b, float c) {
  double sum = isa_fma_odd(a, b, c);
  float narrow = (float)sum; /* f32 has more bits than the result: odd again */
  if ((double)narrow != sum && isfinite(narrow)) {
    uint32_t bits = isa_bits(narrow);
    bool too_big = fabs((double)narrow) > fabs(sum);
    if (!(bits & 1)) narrow = isa_float(too_big ? bits - 1 : bits + 1);
  }
  return narrow;
}
static inline float isa_from_bf16(uint32_t b) { return isa_float(b << 16); }

static inline uint32_t isa_to_bf16(float f) {
  uint32_t x = isa_bits(f);
  uint32_t rounded = (x + 0x7fffu + (x >> 16 & 1)) >> 16;
  return isnan(f) ? x >> 16 | 0x40u : rounded;
}

/* ---- formats of 8 bits and less ---- */

typedef struct IsaFormat {
  int mantissa, bias;
  uint32_t largest; /* bits of the largest finite value */
  enum {
    ISA_IEEE,
    ISA_FN,
    ISA_FNUZ,
    ISA_FINITE
  } special; /* infinities and NaN; NaN only; NaN in
                                                            * place of -0; neither */
  int bits;
} IsaFormat;

typedef enum IsaSmall { ISA_FP8, ISA_BF8, ISA_FP6, ISA_BF6, ISA_FP4, ISA_SMALLS } IsaSmall;

const IsaFormat *isa_format(IsaSmall s, bool is_fnuz);
float isa_from_small(const IsaFormat *f, uint32_t bits);
uint32_t isa_to_small(const IsaFormat *f, float v); /* overflow: infinity or NaN */

/* ---- integers ---- */

static inline uint32_t isa_clz(uint32_t x) { /* of 0: -1 */
  uint32_t n = 0;
  if (!x) return UINT32_MAX;
  while (!(x & 0x80000000u)) x <<= 1, n++;
  return n;
}

static inline uint32_t isa_ctz(uint64_t x) { return x ? (uint32_t)lowest_bit(x) : UINT32_MAX; }

/* Bits after the sign that equal it, plus one; -1: all of them. */
static inline uint32_t isa_cls(uint32_t x) { return isa_clz((int32_t)x < 0 ? ~x : x); }

static inline uint32_t isa_popcount(uint64_t x) {
  uint32_t n = 0;
  for (; x; x &= x - 1) n++;
  return n;
}

/* Bit n of `table` is the result where the bits of a, b and c are those of n, a's highest. */
static inline uint32_t isa_bitop3(uint8_t table, uint32_t a, uint32_t b, uint32_t c) {
  uint32_t r = 0;
  for (int n = 0; n < 8; n++)
    if (table >> n & 1) r |= (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c);
  return r;
}

static inline uint32_t isa_reverse(uint32_t x) {
  uint32_t r = 0;
  for (int i = 0; i < 32; i++) r = r << 1 | (x >> i & 1);
  return r;
}

/* Conversions saturate; NaN is 0. */
static inline int32_t isa_to_i32(double v) {
  if (!(v > -2147483648.0)) return isnan(v) ? 0 : INT32_MIN;
  return v >= 2147483647.0 ? INT32_MAX : (int32_t)v;
}

static inline uint32_t isa_to_u32(double v) {
  if (!(v > 0)) return 0;
  return v >= 4294967295.0 ? UINT32_MAX : (uint32_t)v;
}

static inline int32_t isa_clamp_int(int32_t v, int32_t low, int32_t high) {
  return v < low ? low : v > high ? high : v;
}

/* ---- minimum and maximum ---- */

/* A number wins against NaN. -0 is less than +0. */
#define ISA_MIN_MAX(T, suffix, is_negative)                                                        \
  static inline T isa_min_##suffix(T a, T b) {                                                     \
    if (a != a) return b;                                                                          \
    if (b != b) return a;                                                                          \
    return a < b || (a == b && is_negative(a)) ? a : b;                                            \
  }                                                                                                \
  static inline T isa_max_##suffix(T a, T b) {                                                     \
    if (a != a) return b;                                                                          \
    if (b != b) return a;                                                                          \
    return a > b || (a == b && !is_negative(a)) ? a : b;                                           \
  }                                                                                                \
  static inline T isa_minimum_##suffix(T a, T b) { /* NaN wins */                                  \
    if (a != a || b != b) return (T)NAN;                                                           \
    return isa_min_##suffix(a, b);                                                                 \
  }                                                                                                \
  static inline T isa_maximum_##suffix(T a, T b) {                                                 \
    if (a != a || b != b) return (T)NAN;                                                           \
    return isa_max_##suffix(a, b);                                                                 \
  }
static inline bool isa_is_negative32(float a) { return isa_bits(a) >> 31; }
static inline bool isa_is_negative64(double a) { return isa_bits64(a) >> 63; }
ISA_MIN_MAX(float, f32, isa_is_negative32)
ISA_MIN_MAX(double, f64, isa_is_negative64)
#undef ISA_MIN_MAX

#define ISA_MIN(a, b) ((a) < (b) ? (a) : (b))
#define ISA_MAX(a, b) ((a) > (b) ? (a) : (b))
#define ISA_MED(a, b, c) ISA_MAX(ISA_MIN(a, b), ISA_MIN(ISA_MAX(a, b), c))

static inline int64_t isa_saturate(int64_t v, int64_t least, int64_t most) {
  return v < least ? least : v > most ? most : v;
}

static inline float isa_med_f32(float a, float b, float c) {
  if (isnan(a) || isnan(b) || isnan(c)) return isa_min_f32(isa_min_f32(a, b), c);
  return isa_max_f32(isa_min_f32(a, b), isa_min_f32(isa_max_f32(a, b), c));
}

/* ---- steps of an exact division ---- */

float isa_div_scale_f32(float a, float b, float c, bool *scaled);
double isa_div_scale_f64(double a, double b, double c, bool *scaled);
float isa_div_fmas_f32(float a, float b, float c, bool scaled);
double isa_div_fmas_f64(double a, double b, double c, bool scaled);
float isa_div_fixup_f32(float quotient, float denominator, float numerator);
double isa_div_fixup_f64(double quotient, double denominator, double numerator);

/* v_cmp_class: one bit per class of `v` is tested. */
bool isa_is_class(double v, bool is_denormal, uint32_t classes, bool is_signalling);

uint32_t isa_perm(uint32_t a, uint32_t b, uint32_t select);

#endif
