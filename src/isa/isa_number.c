/* isa_number.c: see isa_number.h. */
#include "isa/isa_number.h"

const IsaFormat *isa_format(IsaSmall s, bool is_fnuz) {
  static const IsaFormat ocp[ISA_SMALLS] = {
      [ISA_FP8] = {3, 7, 0x7e, ISA_FN, 8},     [ISA_BF8] = {2, 15, 0x7b, ISA_IEEE, 8},
      [ISA_FP6] = {3, 1, 0x1f, ISA_FINITE, 6}, [ISA_BF6] = {2, 3, 0x1f, ISA_FINITE, 6},
      [ISA_FP4] = {1, 1, 0x7, ISA_FINITE, 4},
  };
  static const IsaFormat fnuz[ISA_SMALLS] = {
      [ISA_FP8] = {3, 8, 0x7f, ISA_FNUZ, 8},
      [ISA_BF8] = {2, 16, 0x7f, ISA_FNUZ, 8},
  };
  return is_fnuz && s <= ISA_BF8 ? &fnuz[s] : &ocp[s];
}

float isa_from_small(const IsaFormat *f, uint32_t bits) {
  uint32_t sign = bits >> (f->bits - 1) & 1, rest = bits & ((1u << (f->bits - 1)) - 1);
  if (f->special == ISA_FNUZ && sign && !rest) return NAN;
  if (rest > f->largest)
    return f->special == ISA_IEEE && rest == f->largest + 1 ? (sign ? -INFINITY : INFINITY) : NAN;
  int exponent = (int)(rest >> f->mantissa), mantissa = (int)(rest & ((1u << f->mantissa) - 1));
  double v = exponent ? ldexp(mantissa + (1 << f->mantissa), exponent - f->bias - f->mantissa)
                      : ldexp(mantissa, 1 - f->bias - f->mantissa);
  return (float)(sign ? -v : v);
}

/* The bits of an overflow or, with `nan`, of a NaN. */
static uint32_t beyond(const IsaFormat *f, uint32_t sign, bool nan) {
  switch (f->special) {
  case ISA_IEEE: return sign | (nan ? f->largest + 2 : f->largest + 1);
  case ISA_FN: return sign | (f->largest + 1);
  case ISA_FNUZ: return 1u << (f->bits - 1);
  case ISA_FINITE: break;
  }
  return sign | f->largest;
}

uint32_t isa_to_small(const IsaFormat *f, float v) {
  uint32_t sign = isa_bits(v) >> 31 << (f->bits - 1);
  if (isnan(v)) return beyond(f, sign, true);
  if (isinf(v)) return beyond(f, sign, false);
  int exponent;
  double x = fabs((double)v);
  frexp(x, &exponent); /* x is in [2^(exponent-1), 2^exponent) */
  int least = 1 - f->bias, e = exponent - 1 < least ? least : exponent - 1;
  double steps = nearbyint(ldexp(x, f->mantissa - e));
  uint32_t rest = (uint32_t)steps + ((uint32_t)(e - least) << f->mantissa);
  if (rest > f->largest) return beyond(f, sign, false);
  return !rest && f->special == ISA_FNUZ ? 0 : sign | rest;
}

/* ---- division ----
 *
 * AMD's simulator rocjitsu has these rules, which were compared with gfx1100 and gfx1201; the ISA
 * documents differ. They are about exponents as encoded: that of a subnormal number is 0. */

static int exponent32(float v) { return (int)(isa_bits(v) >> 23 & 0xff); }
static int exponent64(double v) { return (int)(isa_bits64(v) >> 52 & 0x7ff); }

/* The operand `a` (b or c), scaled so that the quotient c/b and the steps toward it neither
 * overflow nor become subnormal. */
#define DIV_SCALE(T, name, exponent, FAR, BIAS, SCALE, LEAST)                                      \
  T name(T a, T b, T c, bool *scaled) {                                                            \
    int eb = exponent(b), ec = exponent(c), by = 0;                                                \
    bool is_large = ec - eb >= FAR, is_small = ec - eb <= -FAR;                                    \
    *scaled = is_large || is_small;                                                                \
    if (b == 0 || c == 0) return (T)NAN;                                                           \
    if (is_large) by = a == b ? SCALE : 0;                                                         \
    else if (!eb) by = SCALE;                                                                      \
    else if (eb >= 2 * BIAS - 1) by = is_small && a != b ? 0 : -SCALE;                             \
    else if (is_small) by = a == b ? 0 : SCALE;                                                    \
    else if (ec <= LEAST) by = SCALE;                                                              \
    return (T)ldexp(a, by);                                                                        \
  }
DIV_SCALE(float, isa_div_scale_f32, exponent32, 96, 127, 64, 24)
DIV_SCALE(double, isa_div_scale_f64, exponent64, 768, 1023, 128, 53)
#undef DIV_SCALE

/* The sum a * b + c is scaled before it is rounded: a subnormal quotient is rounded only once. */
float isa_div_fmas_f32(float a, float b, float c, bool scaled) {
  if (!scaled) return fmaf(a, b, c);
  return (float)(isa_fma_odd(a, b, c) * (exponent32(c) > 127 ? 0x1p64 : 0x1p-64));
}

/* fma(a, b, c), and what rounding lost (Boldo, Muller: Exact and approximated error of the FMA). */
static double fma_and_error(double a, double b, double c, double *error) {
  double r = fma(a, b, c), product = a * b, low = fma(a, b, -product);
  double s = c + low, t = s - c, s_low = (c - (s - t)) + (low - t);
  double v = product + s, w = v - product, v_low = (product - (v - w)) + (s - w);
  *error = (v - r + v_low) + s_low;
  return r;
}

/* (v + error) * 2^by, where v is rounded: the error matters if v lies halfway between results. */
static double scaled_once(double v, double error, int by) {
  double r = ldexp(v, by), lost = v - ldexp(r, -by);
  bool is_halfway = lost != 0 && fabs(lost) == ldexp(1, -1075 - by);
  if (!is_halfway || error == 0 || (error > 0) != (lost > 0)) return r;
  return nextafter(r, error > 0 ? INFINITY : -INFINITY);
}

/* The terms are brought to exponents at which nothing overflows. One that is far less than the other
 * only says in which direction the sum is rounded. */
double isa_div_fmas_f64(double a, double b, double c, bool scaled) {
  enum { FAR = -200 };
  int ea, eb, ec, by = !scaled ? 0 : exponent64(c) > 1023 ? 128 : -128;
  double sum = fma(a, b, c), error;
  if (!scaled || a == 0 || b == 0 || !isfinite(sum)) return ldexp(sum, by);
  a = frexp(a, &ea), b = frexp(b, &eb), c = frexp(c, &ec);
  ea += eb;
  int most = c == 0 || ea > ec ? ea : ec;
  a = ldexp(a, ea - most < FAR ? FAR : ea - most);
  c = ldexp(c, ec - most < FAR ? FAR : ec - most);
  sum = fma_and_error(a, b, c, &error);
  return scaled_once(sum, error, most + by);
}

/* The steps toward a quotient far out of range give infinity or NaN (infinity minus infinity). */
#define DIV_FIXUP(T, name, exponent, LEAST)                                                        \
  T name(T q, T d, T n) {                                                                          \
    bool negative = (signbit(d) != 0) != (signbit(n) != 0);                                        \
    if (isnan(n) || isnan(d)) return (T)NAN;                                                       \
    if ((n == 0 && d == 0) || (isinf(n) && isinf(d))) return (T)NAN;                               \
    if (d == 0 || isinf(n)) return (T)(negative ? -INFINITY : INFINITY);                           \
    if (n == 0 || isinf(d)) return (T)(negative ? -0.0 : 0.0);                                     \
    if (exponent(n) - exponent(d) < LEAST) return (T)(negative ? -0.0 : 0.0);                      \
    if (isnan(q)) return (T)(negative ? -INFINITY : INFINITY);                                     \
    return negative ? -(T)fabs(q) : (T)fabs(q);                                                    \
  }
DIV_FIXUP(float, isa_div_fixup_f32, exponent32, -150)
DIV_FIXUP(double, isa_div_fixup_f64, exponent64, -1075)
#undef DIV_FIXUP

bool isa_is_class(double v, bool is_denormal, uint32_t classes, bool is_signalling) {
  enum { SNAN = 1, QNAN = 2, NEG_INF = 4, POS_INF = 512 };
  bool negative = signbit(v) != 0;
  if (isnan(v)) return classes & (is_signalling ? SNAN : QNAN);
  if (isinf(v)) return classes & (negative ? NEG_INF : POS_INF);
  int from_zero = v == 0 ? 0 : is_denormal ? 1 : 2; /* -zero is bit 5, +zero bit 6 */
  return classes >> (negative ? 5 - from_zero : 6 + from_zero) & 1;
}

/* Byte i of the result is chosen by byte i of `select` from the eight bytes a:b. */
uint32_t isa_perm(uint32_t a, uint32_t b, uint32_t select) {
  uint64_t all = (uint64_t)a << 32 | b;
  uint32_t r = 0;
  for (int i = 0; i < 4; i++) {
    uint32_t s = select >> 8 * i & 0xff, byte;
    if (s >= 13) byte = 0xff;
    else if (s == 12) byte = 0;
    else if (s >= 8) byte = all >> (16 * (s - 8) + 15) & 1 ? 0xff : 0;
    else byte = (uint32_t)(all >> 8 * s & 0xff);
    r |= byte << 8 * i;
  }
  return r;
}
