/* llvm_cast.c: conversions between element types, with the rounding of dtype.c.
 *
 * Floats below 32 bits are encoded and decoded with integer arithmetic, except f16 where the
 * machine has instructions for it. The meaning of their codes is taken from dtype.c, not repeated
 * here. */
#include <inttypes.h>
#include <math.h>

#include "backend/llvm/llvm_state.h"
#include "ir/dtype.h"

/* ---- vectors of 32-bit integers, as text ---- */
typedef struct Ints {
  Llvm *p;
  int n;
  const char *type; /* <n x i32> */
} Ints;

static const char *literal(Ints *v, int64_t x) {
  return llvm_splat_of(v->p, "i32", arena_printf(v->p->arena, "%" PRId64, x), v->n);
}
static const char *arith(Ints *v, const char *op, const char *a, int64_t b) {
  return llvm_let(v->p, "%s %s %s, %s", op, v->type, a, literal(v, b));
}
static const char *arith2(Ints *v, const char *op, const char *a, const char *b) {
  return llvm_let(v->p, "%s %s %s, %s", op, v->type, a, b);
}
static const char *test(Ints *v, const char *how, const char *a, int64_t b) {
  return llvm_let(v->p, "icmp %s %s %s, %s", how, v->type, a, literal(v, b));
}
static const char *choose(Ints *v, const char *when, const char *yes, const char *no) {
  return llvm_let(v->p, "select %s %s, %s %s, %s %s", llvm_vec_type(v->p, "i1", v->n), when,
                  v->type, yes, v->type, no);
}
static const char *as_float(Ints *v, const char *x) {
  return llvm_let(v->p, "bitcast %s %s to %s", v->type, x, llvm_vec_type(v->p, "float", v->n));
}
static const char *as_int(Ints *v, const char *x) {
  return llvm_let(v->p, "bitcast %s %s to %s", llvm_vec_type(v->p, "float", v->n), x, v->type);
}

/* ---- small floats ---- */

typedef struct Small {
  int mantissa, width;       /* stored bits; bits of the magnitude */
  int least;                 /* exponent of the smallest normal number */
  int64_t largest;           /* code of the largest finite magnitude */
  int64_t over[2], nan[2];   /* codes beyond that, by sign */
  bool has_inf, signed_zero; /* the code after the largest is infinity */
  bool nan_is_minus_zero;
} Small;

static Small small_of(DType t) {
  Small s = {.mantissa = dtype_info[t].mantissa};
  s.width = dtype_info[t].exponent + s.mantissa;
  s.least = ilogb(dtype_decode(t, UINT64_C(1) << s.mantissa));
  while (s.largest + 1 < INT64_C(1) << s.width &&
         isfinite(dtype_decode(t, (uint64_t)s.largest + 1)))
    s.largest++;
  s.over[0] = (int64_t)dtype_encode(t, INFINITY);
  s.over[1] = (int64_t)dtype_encode(t, -INFINITY);
  s.nan[0] = (int64_t)dtype_encode(t, NAN);
  s.nan[1] = (int64_t)dtype_encode(t, copysign(NAN, -1));
  s.has_inf = s.over[0] == s.largest + 1 && isinf(dtype_decode(t, (uint64_t)s.over[0]));
  s.signed_zero = dtype_encode(t, -0.0) != 0;
  s.nan_is_minus_zero = isnan(dtype_decode(t, UINT64_C(1) << s.width));
  return s;
}

enum { F32_MANTISSA = 23, F32_BIAS = 127 };
#define F32_INF INT64_C(0x7f800000)

/* Encodes magnitudes at or above the smallest normal number. */
static const char *encode_normal(Ints *v, const Small *s, const char *mag) {
  int shift = F32_MANTISSA - s->mantissa;
  const char *odd = arith(v, "lshr", mag, shift);
  odd = arith(v, "and", odd, 1);
  const char *sum = arith(v, "add", mag, (INT64_C(1) << (shift - 1)) - 1);
  sum = arith2(v, "add", sum, odd);
  sum = arith(v, "lshr", sum, shift);
  return arith(v, "sub", sum, (int64_t)(F32_BIAS + s->least - 1) << s->mantissa);
}

/* Below it: adding 2^k rounds to the spacing of the codes, which are then in the low bits. */
static const char *encode_tiny(Ints *v, const Small *s, const char *mag) {
  int64_t big = (int64_t)(F32_BIAS + F32_MANTISSA + s->least - s->mantissa) << F32_MANTISSA;
  const char *type = llvm_vec_type(v->p, "float", v->n), *size = as_float(v, mag);
  const char *sum = llvm_let(v->p, "fadd %s %s, %s", type, size, as_float(v, literal(v, big)));
  return arith(v, "sub", as_int(v, sum), big);
}

static const char *by_sign(Ints *v, const char *minus, const int64_t codes[2]) {
  if (codes[0] == codes[1]) return literal(v, codes[0]);
  return choose(v, minus, literal(v, codes[1]), literal(v, codes[0]));
}

/* f32 as i32 -> codes in i32. */
static const char *encode(Ints *v, DType t, const char *bits) {
  Small s = small_of(t);
  const char *mag = arith(v, "and", bits, 0x7fffffff), *minus = test(v, "slt", bits, 0);
  const char *code = encode_normal(v, &s, mag);
  int64_t normal = (int64_t)(F32_BIAS + s.least) << F32_MANTISSA;
  if (F32_BIAS + s.least > 1)
    code = choose(v, test(v, "ult", mag, normal), encode_tiny(v, &s, mag), code);
  const char *sign = arith(v, "lshr", bits, 31), *over = test(v, "ugt", code, s.largest);
  sign = arith(v, "shl", sign, s.width);
  const char *with = arith2(v, "or", code, sign);
  if (!s.signed_zero) with = choose(v, test(v, "eq", code, 0), literal(v, 0), with);
  with = choose(v, over, by_sign(v, minus, s.over), with);
  return choose(v, test(v, "ugt", mag, F32_INF), by_sign(v, minus, s.nan), with);
}

/* Powers of two without sign: ties round up, and numbers below the least are clamped to it. */
static const char *encode_scale(Ints *v, const char *bits) {
  const char *up = arith(v, "add", bits, 0x400000), *tiny;
  up = arith(v, "lshr", up, F32_MANTISSA);
  tiny = llvm_let(v->p, "zext %s %s to %s", llvm_vec_type(v->p, "i1", v->n),
                  test(v, "uge", bits, 0x600000), v->type);
  up = choose(v, test(v, "ult", bits, 0x800000), tiny, up);
  up = choose(v, test(v, "sgt", up, 255), literal(v, 255), up);
  const char *minus_zero = test(v, "eq", bits, INT64_C(-2147483648));
  up = choose(v, test(v, "slt", bits, 0), literal(v, 255), up);
  up = choose(v, minus_zero, literal(v, 0), up);
  return choose(v, test(v, "ugt", arith(v, "and", bits, 0x7fffffff), F32_INF), literal(v, 255), up);
}

static const char *times_power(Ints *v, const char *x, int power) {
  const char *by = llvm_float_literal(v->p, DTYPE_f32, ldexp(1, power));
  return llvm_let(v->p, "fmul %s %s, %s", llvm_vec_type(v->p, "float", v->n), x,
                  llvm_splat_of(v->p, "float", by, v->n));
}

/* Finite magnitudes -> f32 as i32. In the same bits, f32 has the same numbers times a power of two;
 * the subnormal ones are subnormal there, too. */
static const char *decode_magnitude(Ints *v, const Small *s, const char *mag) {
  const char *bits = arith(v, "shl", mag, F32_MANTISSA - s->mantissa);
  if (v->p->machine->subnormals)
    return as_int(v, times_power(v, as_float(v, bits), F32_BIAS + s->least - 1));
  bits = arith(v, "add", bits, (int64_t)(F32_BIAS + s->least - 1) << F32_MANTISSA);
  const char *type = llvm_vec_type(v->p, "float", v->n);
  const char *tiny = llvm_let(v->p, "uitofp %s %s to %s", v->type, mag, type);
  tiny = as_int(v, times_power(v, tiny, s->least - s->mantissa));
  return choose(v, test(v, "ult", mag, INT64_C(1) << s->mantissa), tiny, bits);
}

/* Codes in i32 -> f32 as i32. */
static const char *decode(Ints *v, DType t, const char *code) {
  Small s = small_of(t);
  int64_t mask = (INT64_C(1) << s.width) - 1;
  const char *mag = arith(v, "and", code, mask), *minus = arith(v, "lshr", code, s.width);
  minus = arith(v, "shl", minus, 31);
  const char *bits = decode_magnitude(v, &s, mag);
  if (s.largest < mask)
    bits = choose(v, test(v, "ugt", mag, s.largest), literal(v, 0x7fc00000), bits);
  if (s.has_inf) bits = choose(v, test(v, "eq", mag, s.largest + 1), literal(v, F32_INF), bits);
  bits = arith2(v, "or", bits, minus);
  if (!s.nan_is_minus_zero) return bits;
  return choose(v, test(v, "eq", code, INT64_C(1) << s.width), literal(v, 0x7fc00000), bits);
}

static const char *decode_scale(Ints *v, const char *code) {
  const char *bits = arith(v, "shl", code, F32_MANTISSA);
  bits = choose(v, test(v, "eq", code, 0), literal(v, 0x400000), bits);
  return choose(v, test(v, "eq", code, 255), literal(v, 0x7fc00000), bits);
}

/* Rounds to nearest even, by the bits that are cut off. */
static const char *round_half(Ints *v, const char *bits, const char *high) {
  const char *odd = arith(v, "and", high, 1), *sum = arith(v, "add", bits, 0x7fff);
  return arith(v, "lshr", arith2(v, "add", sum, odd), 16);
}

/* A NaN stays a NaN. */
static const char *encode_bf16(Ints *v, const char *bits) {
  const char *high = arith(v, "lshr", bits, 16), *sum = round_half(v, bits, high);
  const char *nan = arith(v, "or", high, 0x40), *mag = arith(v, "and", bits, 0x7fffffff);
  return choose(v, test(v, "ugt", mag, F32_INF), nan, sum);
}

static Ints ints_of(Llvm *p, int n) { return (Ints){p, n, llvm_vec_type(p, "i32", n)}; }

/* f32 -> a small float as it is held. */
static const char *round_small(Llvm *p, DType t, int n, const char *x) {
  const char *type = llvm_vec_type(p, "float", n), *held = llvm_held_type(p, t, n);
  if (t == DTYPE_f16 && p->machine->f16) {
    const char *half = llvm_vec_type(p, "half", n);
    x = llvm_let(p, "fptrunc %s %s to %s", type, x, half);
    return llvm_let(p, "bitcast %s %s to %s", half, x, held);
  }
  Ints v = ints_of(p, n);
  const char *bits = as_int(&v, x);
  bits = t == DTYPE_bf16        ? encode_bf16(&v, bits)
         : t == DTYPE_f8e8m0fnu ? encode_scale(&v, bits)
                                : encode(&v, t, bits);
  return llvm_let(p, "trunc %s %s to %s", v.type, bits, held);
}

static const char *widen_small(Llvm *p, DType t, int n, const char *x) {
  const char *type = llvm_vec_type(p, "float", n), *held = llvm_held_type(p, t, n);
  if (t == DTYPE_f16 && p->machine->f16) {
    const char *half = llvm_vec_type(p, "half", n);
    x = llvm_let(p, "bitcast %s %s to %s", held, x, half);
    return llvm_let(p, "fpext %s %s to %s", half, x, type);
  }
  Ints v = ints_of(p, n);
  const char *code = llvm_let(p, "zext %s %s to %s", held, x, v.type);
  if (t == DTYPE_bf16) return as_float(&v, arith(&v, "shl", code, 16));
  return as_float(&v, t == DTYPE_f8e8m0fnu ? decode_scale(&v, code) : decode(&v, t, code));
}

static bool is_small(DType t) { return dtype_is_float(t) && llvm_elem_bits(t) < 32; }

const char *llvm_to_compute(Llvm *p, DType t, int n, const char *v) {
  return is_small(t) ? widen_small(p, t, n, v) : v;
}

/* Four bits in eight: the upper bits are sign-extended. */
static const char *wrap(Llvm *p, DType t, int n, const char *v) {
  if (t != DTYPE_i4) return v;
  const char *type = llvm_held_type(p, t, n), *four = llvm_splat_of(p, "i8", "4", n);
  v = llvm_let(p, "shl %s %s, %s", type, v, four);
  return llvm_let(p, "ashr %s %s, %s", type, v, four);
}

const char *llvm_from_compute(Llvm *p, DType t, int n, const char *v) {
  return is_small(t) ? round_small(p, t, n, v) : wrap(p, t, n, v);
}

/* ---- between classes ---- */

/* f64 -> f32 such that rounding again to fewer bits gives the same result as rounding once: toward
 * zero, with the last bit set if anything was lost. */
static const char *round_to_odd(Llvm *p, int n, const char *x) {
  Ints v = ints_of(p, n);
  const char *wide = llvm_vec_type(p, "double", n), *type = llvm_vec_type(p, "float", n);
  const char *near = llvm_let(p, "fptrunc %s %s to %s", wide, x, type);
  const char *back = llvm_let(p, "fpext %s %s to %s", type, near, wide);
  const char *lost = llvm_let(p, "fcmp one %s %s, %s", wide, back, x);
  const char *name = arena_printf(p->arena, n == 1 ? "llvm.fabs.f64" : "llvm.fabs.v%df64", n);
  const char *a = llvm_call(p, wide, name, wide, arena_printf(p->arena, "%s %s", wide, back));
  const char *b = llvm_call(p, wide, name, wide, arena_printf(p->arena, "%s %s", wide, x));
  const char *above = llvm_let(p, "fcmp ogt %s %s, %s", wide, a, b);
  const char *truth = llvm_vec_type(p, "i1", n);
  const char *down = llvm_let(p, "sext %s %s to %s", truth, above, v.type);
  const char *bits = arith2(&v, "add", as_int(&v, near), down);
  const char *sticky = llvm_let(p, "zext %s %s to %s", truth, lost, v.type);
  return as_float(&v, arith2(&v, "or", bits, sticky));
}

static const char *convert(Llvm *p, const char *how, const char *from, const char *to, int n,
                           const char *v) {
  return llvm_let(p, "%s %s %s to %s", how, llvm_vec_type(p, from, n), v, llvm_vec_type(p, to, n));
}

/* 64-bit integers as f64 rounded to odd, as in dtype_round_int. */
static const char *long_to_odd(Llvm *p, bool is_signed, int n, const char *v) {
  const char *type = llvm_vec_type(p, "i64", n), *wide = llvm_vec_type(p, "double", n);
  const char *truth = llvm_vec_type(p, "i1", n), *eleven = llvm_splat_of(p, "i64", "11", n);
  const char *low = llvm_splat_of(p, "i64", "2047", n), *zero = llvm_splat_of(p, "i64", "0", n);
  const char *high = llvm_let(p, "%s %s %s, %s", is_signed ? "ashr" : "lshr", type, v, eleven);
  const char *rest = llvm_let(p, "and %s %s, %s", type, v, low);
  const char *lost = llvm_let(p, "icmp ne %s %s, %s", type, rest, zero);
  lost = llvm_let(p, "zext %s %s to %s", truth, lost, type);
  high = llvm_let(p, "or %s %s, %s", type, high, lost);
  const char *most = llvm_splat_of(p, "i64", "9007199254740992", n);
  const char *twice = llvm_splat_of(p, "i64", "18014398509481984", n);
  const char *size = is_signed ? llvm_let(p, "add %s %s, %s", type, v, most) : v;
  const char *is_long = llvm_let(p, "icmp ugt %s %s, %s", type, size, is_signed ? twice : most);
  const char *kept = llvm_let(p, "select %s %s, %s %s, %s %s", truth, is_long, type, high, type, v);
  const char *by = llvm_splat_of(p, "double", "2048.0", n),
             *one = llvm_splat_of(p, "double", "1.0", n);
  by = llvm_let(p, "select %s %s, %s %s, %s %s", truth, is_long, wide, by, wide, one);
  kept = llvm_let(p, "%s %s %s to %s", is_signed ? "sitofp" : "uitofp", type, kept, wide);
  return llvm_let(p, "fmul %s %s, %s", wide, kept, by);
}

/* The number as f32 or f64, whichever leads to a single rounding on the way to `to`. */
static const char *int_to_float(Llvm *p, DType from, DType to, int n, const char *v) {
  const char *how = from == DTYPE_i1 || dtype_is_unsigned(from) ? "uitofp" : "sitofp";
  int once = is_small(to) ? 16 : 32; /* integers up to this width are rounded once in f32 */
  if (to == DTYPE_f64) return convert(p, how, llvm_elem_type(from), "double", n, v);
  if (llvm_elem_bits(from) <= once)
    return llvm_from_compute(p, to, n, convert(p, how, llvm_elem_type(from), "float", n, v));
  if (llvm_elem_bits(from) == 64) v = long_to_odd(p, !dtype_is_unsigned(from), n, v);
  else v = convert(p, how, llvm_elem_type(from), "double", n, v);
  return llvm_cast_vector(p, DTYPE_f64, to, n, v);
}

/* Toward zero; out of range gives the nearest end of the range, NaN gives 0. */
static const char *float_to_int(Llvm *p, DType from, DType to, int n, const char *v) {
  const char *elem = from == DTYPE_f64 ? "double" : "float";
  v = llvm_to_compute(p, from, n, v);
  if (to == DTYPE_i1)
    return llvm_let(p, "fcmp une %s %s, zeroinitializer", llvm_vec_type(p, elem, n), v);
  int bits = llvm_elem_bits(to) == 64 ? 64 : 32;
  const char *in = llvm_vec_type(p, elem, n), *out = arena_printf(p->arena, "i%d", bits);
  const char *shape = n == 1 ? "" : arena_printf(p->arena, "v%d", n);
  const char *name =
      arena_printf(p->arena, "llvm.fpto%ci.sat.%si%d.%sf%d", dtype_is_unsigned(to) ? 'u' : 's',
                   shape, bits, shape, from == DTYPE_f64 ? 64 : 32);
  v = llvm_call(p, llvm_vec_type(p, out, n), name, in, arena_printf(p->arena, "%s %s", in, v));
  if (dtype_info[to].bits >= 32) return v;
  Lane lane = {"i32", 32, n, dtype_is_unsigned(to)};
  Ints ints = ints_of(p, n);
  const char *low[] = {v, literal(&ints, dtype_min_int(to))};
  const char *high[] = {llvm_apply(p, OP_maximum, lane, low), literal(&ints, dtype_max_int(to))};
  v = llvm_apply(p, OP_minimum, lane, high);
  return convert(p, "trunc", "i32", llvm_elem_type(to), n, v);
}

static const char *int_to_int(Llvm *p, DType from, DType to, int n, const char *v) {
  int in = llvm_elem_bits(from), out = llvm_elem_bits(to);
  if (to == DTYPE_i1)
    return from == DTYPE_i1
               ? v
               : llvm_let(p, "icmp ne %s %s, zeroinitializer", llvm_held_type(p, from, n), v);
  if (in != out)
    v = convert(p,
                in > out                                      ? "trunc"
                : from == DTYPE_i1 || dtype_is_unsigned(from) ? "zext"
                                                              : "sext",
                llvm_elem_type(from), llvm_elem_type(to), n, v);
  return wrap(p, to, n, v);
}

const char *llvm_cut_to_bf16(Llvm *p, int n, const char *x) {
  Ints v = ints_of(p, n);
  return llvm_let(p, "trunc %s %s to %s", v.type, arith(&v, "lshr", as_int(&v, x), 16),
                  llvm_held_type(p, DTYPE_bf16, n));
}

const char *llvm_round_to_bf16(Llvm *p, int n, const char *x) {
  Ints v = ints_of(p, n);
  const char *bits = as_int(&v, x), *high = arith(&v, "lshr", bits, 16);
  return llvm_let(p, "trunc %s %s to %s", v.type, round_half(&v, bits, high),
                  llvm_held_type(p, DTYPE_bf16, n));
}

static const char *float_to_float(Llvm *p, DType from, DType to, int n, const char *v) {
  v = llvm_to_compute(p, from, n, v);
  if (from == DTYPE_f64 && to == DTYPE_f32) return convert(p, "fptrunc", "double", "float", n, v);
  if (from == DTYPE_f64) return llvm_from_compute(p, to, n, round_to_odd(p, n, v));
  if (to == DTYPE_f64) return convert(p, "fpext", "float", "double", n, v);
  if (to == DTYPE_bf16 && llvm_elem_bits(from) == 8) return llvm_cut_to_bf16(p, n, v);
  return llvm_from_compute(p, to, n, v);
}

const char *llvm_cast_vector(Llvm *p, DType from, DType to, int n, const char *v) {
  if (from == to) return v;
  if (dtype_is_float(from))
    return dtype_is_float(to) ? float_to_float(p, from, to, n, v) : float_to_int(p, from, to, n, v);
  return dtype_is_float(to) ? int_to_float(p, from, to, n, v) : int_to_int(p, from, to, n, v);
}

void llvm_cast(Llvm *p, const Op *op) {
  Held *from = llvm_held_get(p, op->args[0]), *to = llvm_held_new(p, &op->results[0]);
  if (p->machine->cast_packed && p->machine->cast_packed(p, from, to)) return;
  int a = llvm_compute_width(p, from->dtype), b = llvm_compute_width(p, to->dtype);
  int width = from->dtype == DTYPE_i1 && from->n > 1 ? llvm_form_width(from) : a < b ? a : b;
  int count = part_count(to->n, width);
  const char *const *in = llvm_parts_of(p, from, width);
  const char **part = ARENA_ARRAY(p->arena, const char *, count);
  for (int i = 0; i < count; i++)
    part[i] = llvm_cast_vector(p, from->dtype, to->dtype, part_size(to->n, width, i), in[i]);
  llvm_held_set(p, to, width, part);
}
