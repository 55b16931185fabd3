/* ptx_small.c: floats of 8 bits and less without hardware support, to and from f32.
 *
 * The exponent and mantissa of a small float, shifted to their position in an f32, form an f32 with
 * another bias; one multiplication corrects it, including subnormals. What a format does with codes
 * beyond its numbers is taken from dtype.h. */
#include <math.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"

enum { F32_MANTISSA = 23 };

typedef struct Small {
  int mantissa, width; /* bits; width: without the sign */
  double least;        /* smallest normal number */
  bool is_scale;       /* exponents only */
  uint64_t largest;    /* code of the largest number, without the sign bit */
  uint64_t beyond;     /* code of infinity, which may be a number, infinite, or NaN */
  uint64_t nan;        /* code of NaN, or of a number */
  bool has_infinity, has_nan;
} Small;

static Small small_of(DType t) {
  const DTypeInfo *d = &dtype_info[t];
  Small s = {.mantissa = d->mantissa, .width = d->exponent + d->mantissa};
  s.is_scale = d->mantissa == 0;
  s.least = dtype_decode(t, (uint64_t)1 << d->mantissa);
  s.beyond = dtype_encode(t, INFINITY);
  s.nan = dtype_encode(t, NAN);
  s.has_infinity = isinf(dtype_decode(t, s.beyond));
  s.has_nan = isnan(dtype_decode(t, s.nan));
  s.largest = ((uint64_t)1 << s.width) - 1;
  while (!isfinite(dtype_decode(t, s.largest))) s.largest--;
  return s;
}

static const char *number(Ptx *p, double v) {
  return arena_printf(p->arena, "0f%08X", (unsigned)dtype_encode(DTYPE_f32, v));
}

/* ---- to f32 ---- */

static void scale_to_f32(Ptx *p, Reg code, Reg to) {
  Reg bits = ptx_new(p, REG_R), test = ptx_new(p, REG_P);
  ptx_line(p, "shl.b32 %s, %s, 23", bits.name, code.name);
  ptx_line(p, "setp.eq.s32 %s, %s, 0", test.name, code.name); /* 2**-127 is subnormal */
  ptx_line(p, "selp.b32 %s, 0x00400000, %s, %s", bits.name, bits.name, test.name);
  ptx_line(p, "setp.eq.s32 %s, %s, 255", test.name, code.name);
  ptx_line(p, "selp.b32 %s, 0x7FFFFFFF, %s, %s", bits.name, bits.name, test.name);
  ptx_line(p, "mov.b32 %s, %s", to.name, bits.name);
}

/* Codes that are not numbers: infinities and NaNs also have all exponent bits set in an f32. */
static void special_to_f32(Ptx *p, const Small *s, Reg code, Reg magnitude, Reg bits, Reg to) {
  Reg test = ptx_new(p, REG_P), other = ptx_new(p, REG_R), f = ptx_new(p, REG_F);
  bool by_sign = s->nan >> s->width;
  if (!s->has_nan && !s->has_infinity) return;
  if (s->has_infinity) {
    ptx_line(p, "setp.gt.u32 %s, %s, %d", test.name, magnitude.name, (int)s->largest);
    ptx_line(p, "or.b32 %s, %s, 0x7F800000", other.name, bits.name);
  } else {
    ptx_line(p, "setp.eq.s32 %s, %s, %d", test.name, by_sign ? code.name : magnitude.name,
             (int)s->nan);
    ptx_line(p, "mov.b32 %s, 0x7FFFFFFF", other.name);
  }
  ptx_line(p, "mov.b32 %s, %s", f.name, other.name);
  ptx_line(p, "selp.f32 %s, %s, %s, %s", to.name, f.name, to.name, test.name);
}

void small_to_f32(Ptx *p, DType t, Reg code, Reg to) {
  Small s = small_of(t);
  if (s.is_scale) {
    scale_to_f32(p, code, to);
    return;
  }
  Reg magnitude = ptx_new(p, REG_R), sign = ptx_new(p, REG_R), bits = ptx_new(p, REG_R);
  Reg f = ptx_new(p, REG_F);
  ptx_line(p, "bfe.u32 %s, %s, 0, %d", magnitude.name, code.name, s.width);
  ptx_line(p, "shl.b32 %s, %s, %d", sign.name, code.name, 31 - s.width);
  ptx_line(p, "shl.b32 %s, %s, %d", bits.name, magnitude.name, F32_MANTISSA - s.mantissa);
  ptx_line(p, "and.b32 %s, %s, 0x80000000", sign.name, sign.name);
  ptx_line(p, "or.b32 %s, %s, %s", bits.name, bits.name, sign.name);
  ptx_line(p, "mov.b32 %s, %s", f.name, bits.name);
  ptx_line(p, "mul.f32 %s, %s, %s", to.name, f.name, number(p, ldexp(s.least, 126)));
  special_to_f32(p, &s, code, magnitude, bits, to);
}

/* ---- two at a time ---- */

/* The two halves of byte i of a word of 4-bit floats, each in the low bits of a half-word. */
static Reg nibbles_apart(Ptx *p, Reg word, int i) {
  Reg byte = ptx_new(p, REG_R), apart = ptx_new(p, REG_R);
  ptx_line(p, "bfe.u32 %s, %s, %d, 8", byte.name, word.name, 8 * i);
  ptx_line(p, "mul.lo.u32 %s, %s, 0x1001", apart.name, byte.name);
  return apart;
}

Held ptx_f4_to_words(Ptx *p, Held *h, DType to) {
  const Reg *word = ptx_words_of(p, h);
  Held out = held_new(p, to, h->n, true);
  const char *name = to == DTYPE_f16 ? "f16" : "bf16";
  int shift = dtype_info[to].mantissa - 1, bias = (1 << (dtype_info[to].exponent - 1)) - 1;
  unsigned kept = 0x70007u << shift, one = (unsigned)dtype_encode(to, ldexp(1, bias - 1));
  Reg by = ptx_new(p, REG_R), zero = ptx_new(p, REG_R);
  ptx_line(p, "mov.b32 %s, 0x%08X", by.name, one * 0x10001u);
  ptx_line(p, "mov.b32 %s, 0x80008000", zero.name); /* -0 leaves every sum unchanged */
  for (int i = 0; i < h->n / 2; i++) {
    Reg apart = nibbles_apart(p, word[i / 4], i % 4), bits = ptx_new(p, REG_R);
    Reg sign = ptx_new(p, REG_R);
    ptx_line(p, "shl.b32 %s, %s, %d", bits.name, apart.name, shift);
    ptx_line(p, "shl.b32 %s, %s, 12", sign.name, apart.name);
    ptx_line(p, "and.b32 %s, %s, 0x%08X", bits.name, bits.name, kept);
    ptx_line(p, "and.b32 %s, %s, 0x80008000", sign.name, sign.name);
    ptx_line(p, "or.b32 %s, %s, %s", bits.name, bits.name, sign.name);
    ptx_line(p, "fma.rn.%sx2 %s, %s, %s, %s", name, out.word[i].name, bits.name, by.name,
             zero.name);
  }
  return out;
}

/* ---- from f32 ---- */

/* Ties round up; a negative number has no code. */
static Reg scale_from_f32(Ptx *p, Reg f) {
  Reg bits = ptx_new(p, REG_R), code = ptx_new(p, REG_R), low = ptx_new(p, REG_R);
  Reg test = ptx_new(p, REG_P);
  ptx_line(p, "mov.b32 %s, %s", bits.name, f.name);
  ptx_line(p, "and.b32 %s, %s, 0x7FFFFFFF", bits.name, bits.name);
  ptx_line(p, "add.u32 %s, %s, 0x00400000", code.name, bits.name);
  ptx_line(p, "shr.u32 %s, %s, 23", code.name, code.name);
  ptx_line(p, "setp.ge.u32 %s, %s, 0x00600000", test.name, bits.name); /* 1.5 * 2**-127 */
  ptx_line(p, "selp.b32 %s, 1, 0, %s", low.name, test.name);
  ptx_line(p, "setp.lt.u32 %s, %s, 0x00800000", test.name, bits.name);
  ptx_line(p, "selp.b32 %s, %s, %s, %s", code.name, low.name, code.name, test.name);
  ptx_line(p, "setp.geu.f32 %s, %s, 0f00000000", test.name, f.name);
  ptx_line(p, "selp.b32 %s, %s, 255, %s", code.name, code.name, test.name);
  ptx_line(p, "min.u32 %s, %s, 255", code.name, code.name);
  return code;
}

/* The code of the magnitude: rounded to a multiple of its last bit's value by adding and
 * subtracting 2**23 times that. */
static Reg magnitude_code(Ptx *p, DType t, const Small *s, Reg f) {
  Reg a = ptx_new(p, REG_F), step = ptx_new(p, REG_F), bits = ptx_new(p, REG_R);
  double largest = dtype_decode(t, s->largest);
  bool finite = !s->has_nan && !s->has_infinity;
  ptx_line(p, "abs.f32 %s, %s", a.name, f.name);
  ptx_line(p, "min.f32 %s, %s, %s", a.name, a.name,
           number(p, finite ? largest : exp2(floor(log2(largest)) + 1)));
  ptx_line(p, "mov.b32 %s, %s", bits.name, a.name);
  ptx_line(p, "and.b32 %s, %s, 0x7F800000", bits.name, bits.name);
  ptx_line(p, "mov.b32 %s, %s", step.name, bits.name);
  ptx_line(p, "max.f32 %s, %s, %s", step.name, step.name, number(p, s->least));
  ptx_line(p, "mul.f32 %s, %s, %s", step.name, step.name,
           number(p, exp2(F32_MANTISSA - s->mantissa)));
  ptx_line(p, "add.rn.f32 %s, %s, %s", a.name, a.name, step.name);
  ptx_line(p, "sub.rn.f32 %s, %s, %s", a.name, a.name, step.name);
  ptx_line(p, "mul.f32 %s, %s, %s", a.name, a.name, number(p, ldexp(1 / s->least, -126)));
  ptx_line(p, "mov.b32 %s, %s", bits.name, a.name);
  ptx_line(p, "shr.u32 %s, %s, %d", bits.name, bits.name, F32_MANTISSA - s->mantissa);
  return bits;
}

Reg small_from_f32(Ptx *p, DType t, Reg f) {
  Small s = small_of(t);
  if (s.is_scale) return scale_from_f32(p, f);
  Reg code = magnitude_code(p, t, &s, f), sign = ptx_new(p, REG_R), out = ptx_new(p, REG_R);
  Reg test = ptx_new(p, REG_P);
  bool by_sign = s.nan >> s.width; /* the code of -0 is NaN */
  ptx_line(p, "mov.b32 %s, %s", sign.name, f.name);
  ptx_line(p, "shr.u32 %s, %s, 31", sign.name, sign.name);
  if (by_sign) {
    ptx_line(p, "setp.eq.u32 %s, %s, 0", test.name, code.name);
    ptx_line(p, "selp.b32 %s, 0, %s, %s", sign.name, sign.name, test.name);
  }
  ptx_line(p, "bfi.b32 %s, %s, %s, %d, 1", out.name, sign.name, code.name, s.width);
  if (s.has_nan && !s.has_infinity) {
    ptx_line(p, "setp.gt.u32 %s, %s, %d", test.name, code.name, (int)s.largest);
    ptx_line(p, "selp.b32 %s, %d, %s, %s", out.name, (int)s.nan, out.name, test.name);
  }
  ptx_line(p, "setp.nan.f32 %s, %s, %s", test.name, f.name, f.name);
  ptx_line(p, "selp.b32 %s, %d, %s, %s", out.name, (int)s.nan, out.name, test.name);
  return out;
}
