/* test_isa_ops.c: one kernel per operation, compiled by LLVM and run by the executor, against the
 * same operation in C.
 *
 *     OP(name, type of operands, type of result, IR, C expression of a, b, c)
 *     OP(name, type, IR, C expression of a half of a, b, c)                     of PAIRS
 *
 * A kernel is compiled for each chip, so that the names of all generations are met. */
#include <math.h>

#include "unit/isa_kit.h"

enum { LANES = 64 };

/* ---- values ---- */

typedef struct Bits { /* 64 bits, of which a type uses the low ones */
  uint64_t u;
} Bits;

static uint64_t random_bits(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static float f32_of(uint64_t u) {
  uint32_t low = (uint32_t)u;
  float f;
  memcpy(&f, &low, 4);
  return f;
}
static uint64_t of_f32(float f) {
  uint32_t low;
  memcpy(&low, &f, 4);
  return low;
}
static double f64_of(uint64_t u) {
  double d;
  memcpy(&d, &u, 8);
  return d;
}
static uint64_t of_f64(double d) {
  uint64_t u;
  memcpy(&u, &d, 8);
  return u;
}

/* f16 by the definition of its fields. */
static double f16_of(uint64_t u) {
  int e = (int)(u >> 10 & 31), m = (int)(u & 1023);
  double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(m + 1024, e - 25) : ldexp(m, -24);
  return u >> 15 & 1 ? -v : v;
}

/* The nearest by search: slow, and obviously right. Ties go to even bits. */
static uint64_t of_f16(double v) {
  uint64_t sign = signbit(v) ? 0x8000 : 0, best = 0;
  double x = fabs(v);
  if (isnan(v)) return 0x7e00;
  if (x >= 65520) return sign | 0x7c00;
  for (uint64_t low = 0, high = 0x7bff; low <= high;) {
    uint64_t middle = (low + high) / 2;
    if (f16_of(middle) <= x) best = middle, low = middle + 1;
    else if (!middle) break;
    else high = middle - 1;
  }
  double below = x - f16_of(best), above = f16_of(best + 1) - x;
  if (best < 0x7bff && (above < below || (above == below && best & 1))) best++;
  else if (best == 0x7bff && x > 65504 && above < below) best++;
  return sign | best;
}

static double bf16_of(uint64_t u) { return f32_of(u << 16); }

/* The nearest of the two around it, as above. */
static uint64_t of_bf16(double v) {
  double x = fabs(v);
  uint64_t sign = signbit(v) ? 0x8000 : 0, best = of_f32((float)x) >> 16;
  if (isnan(v)) return 0x7fc0;
  if (bf16_of(best) > x) best--;
  double below = x - bf16_of(best), above = bf16_of(best + 1) - x;
  return sign | (best + (above < below || (above == below && best & 1)));
}

/* ---- operations ---- */

#define C_i32 int32_t
#define C_u32 uint32_t
#define C_i64 int64_t
#define C_u64 uint64_t
#define C_i16 int16_t
#define C_u16 uint16_t
#define C_f32 float
#define C_f64 double
#define C_f16 double
#define C_bf16 double
#define FROM_i32(u) (int32_t)(uint32_t)(u)
#define FROM_u32(u) (uint32_t)(u)
#define FROM_i64(u) (int64_t)(u)
#define FROM_u64(u) (u)
#define FROM_i16(u) (int16_t)(uint16_t)(u)
#define FROM_u16(u) (uint16_t)(u)
#define FROM_f32(u) f32_of(u)
#define FROM_f64(u) f64_of(u)
#define FROM_f16(u) f16_of(u)
#define FROM_bf16(u) bf16_of(u)
#define TO_i32(v) (uint32_t)(v)
#define TO_u32(v) (uint32_t)(v)
#define TO_i64(v) (uint64_t)(v)
#define TO_u64(v) (uint64_t)(v)
#define TO_i16(v) (uint16_t)(v)
#define TO_u16(v) (uint16_t)(v)
#define TO_f32(v) of_f32(v)
#define TO_f64(v) of_f64(v)
#define TO_f16(v) of_f16(v)
#define TO_bf16(v) of_bf16(v)

/* The limits of integers, to saturate at. */
#define LEAST_i32 (int64_t) INT32_MIN
#define MOST_i32 (int64_t) INT32_MAX
#define LEAST_u32 (int64_t)0
#define MOST_u32 (int64_t) UINT32_MAX
#define LEAST_i16 INT16_MIN
#define MOST_i16 INT16_MAX
#define LEAST_u16 0
#define MOST_u16 UINT16_MAX

/* Of a and b, then of the result and c. */
#define CHAIN(type, first, second)                                                                 \
  CALL2(type, first)                                                                               \
  "\n %r1 = call " type " @llvm." second "(" type " %r0, " type " %c)"
#define CALL1(type, name) "call " type " @llvm." name "(" type " %a)"
#define CALL2(type, name) "call " type " @llvm." name "(" type " %a, " type " %b)"
#define CALL3(type, name) "call " type " @llvm." name "(" type " %a, " type " %b, " type " %c)"

static int32_t clamped(double v) {
  return isnan(v) ? 0 : v <= -2147483648.0 ? INT32_MIN : v >= 2147483647.0 ? INT32_MAX : (int32_t)v;
}
static uint32_t leading(uint32_t v) {
  uint32_t n = 0;
  while (n < 32 && !(v >> (31 - n) & 1)) n++;
  return n;
}
static uint32_t trailing(uint32_t v) {
  uint32_t n = 0;
  while (n < 32 && !(v >> n & 1)) n++;
  return n;
}
static uint32_t ones(uint32_t v) {
  uint32_t n = 0;
  for (int i = 0; i < 32; i++) n += v >> i & 1;
  return n;
}
static uint32_t reversed(uint32_t v) {
  uint32_t r = 0;
  for (int i = 0; i < 32; i++) r |= (v >> i & 1) << (31 - i);
  return r;
}
static double maximum(double a, double b) { return isnan(a) || isnan(b) ? NAN : fmax(a, b); }
static double minimum(double a, double b) { return isnan(a) || isnan(b) ? NAN : fmin(a, b); }

#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define SAT(type, v) (C_##type)(MIN(MAX(v, LEAST_##type), MOST_##type))

/* clang-format off */
#define OPS(OP)                                                                                    \
  OP(add_i32,   u32, u32, "add i32 %a, %b", a + b)                                                 \
  OP(sub_i32,   u32, u32, "sub i32 %a, %b", a - b)                                                 \
  OP(mul_i32,   u32, u32, "mul i32 %a, %b", a * b)                                                 \
  OP(shl_i32,   u32, u32, "shl i32 %a, 5", a << 5)                                                 \
  OP(lshr_i32,  u32, u32, "lshr i32 %a, 9", a >> 9)                                                \
  OP(ashr_i32,  i32, i32, "ashr i32 %a, 7", a >> 7)                                                \
  OP(udiv_i32,  u32, u32, "udiv i32 %a, %b", a / b)                                                \
  OP(sdiv_i32,  i32, i32, "sdiv i32 %a, %b", b == -1 ? (int32_t)(0u - (uint32_t)a) : a / b)        \
  OP(urem_i32,  u32, u32, "urem i32 %a, %b", a % b)                                                \
  OP(srem_i32,  i32, i32, "srem i32 %a, %b", b == -1 ? 0 : a % b)                                  \
  OP(smin_i32,  i32, i32, CALL2("i32", "smin.i32"), a < b ? a : b)                                 \
  OP(smax_i32,  i32, i32, CALL2("i32", "smax.i32"), a > b ? a : b)                                 \
  OP(umin_i32,  u32, u32, CALL2("i32", "umin.i32"), a < b ? a : b)                                 \
  OP(umax_i32,  u32, u32, CALL2("i32", "umax.i32"), a > b ? a : b)                                 \
  OP(ctpop_i32, u32, u32, CALL1("i32", "ctpop.i32"), ones(a))                                      \
  OP(rev_i32,   u32, u32, CALL1("i32", "bitreverse.i32"), reversed(a))                             \
  OP(ctlz_i32,  u32, u32, "call i32 @llvm.ctlz.i32(i32 %a, i1 false)", leading(a))                 \
  OP(cttz_i32,  u32, u32, "call i32 @llvm.cttz.i32(i32 %a, i1 false)", trailing(a))                \
  OP(fshr_i32,  u32, u32, "call i32 @llvm.fshr.i32(i32 %a, i32 %b, i32 11)", a << 21 | b >> 11)    \
  OP(and_or,    u32, u32, "and i32 %a, %b\n %r1 = or i32 %r0, %c", (a & b) | c)                    \
  OP(add3,      u32, u32, "add i32 %a, %b\n %r1 = add i32 %r0, %c", a + b + c)                     \
  OP(shl_add,   u32, u32, "shl i32 %a, 3\n %r1 = add i32 %r0, %b", (a << 3) + b)                   \
  OP(mulk,      u32, u32, "mul i32 %a, 1280\n %q = add i32 %r0, -300\n %r1 = xor i32 %q, %b", (a * 1280 - 300) ^ b) \
  OP(negk,      i32, i32, "add i32 %c, 0\n %q = icmp slt i32 %a, -32\n %r1 = select i1 %q, i32 %b, i32 %r0", a < -32 ? b : c) \
  OP(udiv_k,    u32, u32, "udiv i32 %a, 17", a / 17)                                               \
  OP(sdiv_k,    i32, i32, "sdiv i32 %a, 35", a / 35)                                               \
  OP(srem_k,    i32, i32, "srem i32 %a, 272", a % 272)                                             \
  OP(slt_k64,   i64, i64, "add i64 %c, 0\n %q = icmp slt i64 %a, -32\n %r1 = select i1 %q, i64 %b, i64 %r0", a < -32 ? b : c) \
  OP(bfe,       u32, u32, "lshr i32 %a, 4\n %r1 = and i32 %r0, 1023", a >> 4 & 1023)               \
  OP(mul24,     u32, u32, "and i32 %a, 65535\n %q = and i32 %b, 65535\n %r1 = mul i32 %r0, %q", (a & 65535) * (b & 65535)) \
  OP(eq_i32,    u32, u32, "and i32 %a, 3\n %s = and i32 %b, 3\n %q = icmp eq i32 %r0, %s\n %r1 = select i1 %q, i32 %a, i32 %c", (a & 3) == (b & 3) ? a : c) \
  OP(ult_i32,   u32, u32, "add i32 %c, 0\n %q = icmp ult i32 %a, %b\n %r1 = select i1 %q, i32 %a, i32 %r0", a < b ? a : c) \
  OP(sge_i32,   i32, i32, "add i32 %c, 0\n %q = icmp sge i32 %a, %b\n %r1 = select i1 %q, i32 %a, i32 %r0", a >= b ? a : c) \
  OP(add_i64,   u64, u64, "add i64 %a, %b", a + b)                                                 \
  OP(sub_i64,   u64, u64, "sub i64 %a, %b", a - b)                                                 \
  OP(mul_i64,   u64, u64, "mul i64 %a, %b", a * b)                                                 \
  OP(shl_i64,   u64, u64, "shl i64 %a, 37", a << 37)                                               \
  OP(lshr_i64,  u64, u64, "lshr i64 %a, 21", a >> 21)                                              \
  OP(ashr_i64,  i64, i64, "ashr i64 %a, 40", a >> 40)                                              \
  OP(slt_i64,   i64, i64, "add i64 %c, 0\n %q = icmp slt i64 %a, %b\n %r1 = select i1 %q, i64 %a, i64 %r0", a < b ? a : c) \
  OP(sdiv_i64,  i64, i64, "sdiv i64 %a, %b", a / b)                                                \
  OP(urem_i64,  u64, u64, "urem i64 %a, %b", a % b)                                                \
  OP(mulhi_i32, u32, u32, "zext i32 %a to i64\n %q = zext i32 %b to i64\n %s = mul i64 %r0, %q\n %u = lshr i64 %s, 32\n %r1 = trunc i64 %u to i32", (uint64_t)a * b >> 32) \
  OP(add_i16,   i16, i16, "add i16 %a, %b", a + b)                                                 \
  OP(mul_i16,   i16, i16, "mul i16 %a, %b", a * b)                                                 \
  OP(mad_i16,   i16, i16, "mul i16 %a, %b\n %r1 = add i16 %r0, %c", a * b + c)                     \
  OP(smax_i16,  i16, i16, CALL2("i16", "smax.i16"), a > b ? a : b)                                 \
  OP(ashr_i16,  i16, i16, "ashr i16 %a, 3", a >> 3)                                                \
  OP(add_f32,   f32, f32, "fadd float %a, %b", a + b)                                              \
  OP(sub_f32,   f32, f32, "fsub float %a, %b", a - b)                                              \
  OP(mul_f32,   f32, f32, "fmul float %a, %b", a * b)                                              \
  OP(div_f32,   f32, f32, "fdiv float %a, %b", a / b)                                              \
  OP(fma_f32,   f32, f32, CALL3("float", "fma.f32"), fmaf(a, b, c))                                \
  OP(negfma,    f32, f32, "fneg float %a\n %q = call float @llvm.fabs.f32(float %b)\n %r1 = call float @llvm.fma.f32(float %r0, float %q, float %c)", fmaf(-a, fabsf(b), c)) \
  OP(sqrt_f32,  f32, f32, CALL1("float", "sqrt.f32"), sqrtf(a))                                    \
  OP(min_f32,   f32, f32, CALL2("float", "minnum.f32"), fminf(a, b))                               \
  OP(max_f32,   f32, f32, CALL2("float", "maxnum.f32"), fmaxf(a, b))                               \
  OP(maximum,   f32, f32, CALL2("float", "maximum.f32"), (float)maximum(a, b))                     \
  OP(max3_f32,  f32, f32, "call float @llvm.maxnum.f32(float %a, float %b)\n %r1 = call float @llvm.maxnum.f32(float %r0, float %c)", fmaxf(fmaxf(a, b), c)) \
  OP(floor_f32, f32, f32, CALL1("float", "floor.f32"), floorf(a))                                  \
  OP(ceil_f32,  f32, f32, CALL1("float", "ceil.f32"), ceilf(a))                                    \
  OP(trunc_f32, f32, f32, CALL1("float", "trunc.f32"), truncf(a))                                  \
  OP(rint_f32,  f32, f32, CALL1("float", "rint.f32"), rintf(a))                                    \
  OP(olt_f32,   f32, f32, "fadd float %c, 0.0\n %q = fcmp olt float %a, %b\n %r1 = select i1 %q, float %a, float %r0", a < b ? a : c + 0.0f) \
  OP(ueq_f32,   f32, f32, "fadd float %c, 0.0\n %q = fcmp ueq float %a, %b\n %r1 = select i1 %q, float %a, float %r0", a == b || isnan(a) || isnan(b) ? a : c + 0.0f) \
  OP(uno_f32,   f32, f32, "fadd float %c, 0.0\n %q = fcmp uno float %a, %b\n %r1 = select i1 %q, float %b, float %r0", isnan(a) || isnan(b) ? b : c + 0.0f) \
  OP(to_i32,    f32, i32, "call i32 @llvm.fptosi.sat.i32.f32(float %a)", clamped(a))               \
  OP(of_i32,    i32, f32, "sitofp i32 %a to float", (float)a)                                      \
  OP(of_u32,    u32, f32, "uitofp i32 %a to float", (float)a)                                      \
  OP(to_f16,    f32, f16, "fptrunc float %a to half", (double)a)                                   \
  OP(of_f16,    f16, f32, "fpext half %a to float", (float)a)                                      \
  OP(add_f64,   f64, f64, "fadd double %a, %b", a + b)                                             \
  OP(mul_f64,   f64, f64, "fmul double %a, %b", a * b)                                             \
  OP(fma_f64,   f64, f64, CALL3("double", "fma.f64"), fma(a, b, c))                                \
  OP(div_f64,   f64, f64, "fdiv double %a, %b", a / b)                                             \
  OP(sqrt_f64,  f64, f64, CALL1("double", "sqrt.f64"), sqrt(a))                                    \
  OP(floor_f64, f64, f64, CALL1("double", "floor.f64"), floor(a))                                  \
  OP(max_f64,   f64, f64, CALL2("double", "maxnum.f64"), fmax(a, b))                               \
  OP(to_f32,    f64, f32, "fptrunc double %a to float", (float)a)                                  \
  OP(to_f64,    f32, f64, "fpext float %a to double", (double)a)                                   \
  OP(i32_f64,   i32, f64, "sitofp i32 %a to double", (double)a)                                    \
  OP(add_f16,   f16, f16, "fadd half %a, %b", a + b)                                               \
  OP(mul_f16,   f16, f16, "fmul half %a, %b", a * b)                                               \
  OP(fma_f16,   f16, f16, CALL3("half", "fma.f16"), a * b + c)                                     \
  OP(max_f16,   f16, f16, CALL2("half", "maxnum.f16"), fmax(a, b))                                 \
  OP(floor_f16, f16, f16, CALL1("half", "floor.f16"), floor(a))                                    \
  OP(div_f16,   f16, f16, "fdiv half %a, %b", a / b)                                               \
  OP(rcp_f16,   f16, f16, CALL1("half", "amdgcn.rcp.f16"), 1 / a)                                  \
  OP(rsq_f16,   f16, f16, CALL1("half", "amdgcn.rsq.f16"), 1 / sqrt(a))                            \
  OP(sqrt_f16,  f16, f16, CALL1("half", "sqrt.f16"), sqrt(a))                                      \
  OP(exp_f16,   f16, f16, CALL1("half", "exp2.f16"), exp2(a))                                      \
  OP(log_f16,   f16, f16, CALL1("half", "log2.f16"), log2(a))                                      \
  OP(min_max_f16, f16, f16, CHAIN("half", "minimum.f16", "maximum.f16"), maximum(minimum(a, b), c)) \
  OP(max_min_f16, f16, f16, CHAIN("half", "maximum.f16", "minimum.f16"), minimum(maximum(a, b), c)) \
  OP(add_max_i32, i32, i32, CHAIN("i32", "sadd.sat.i32", "smax.i32"), MAX(SAT(i32, (int64_t)a + b), c)) \
  OP(add_min_i32, i32, i32, CHAIN("i32", "sadd.sat.i32", "smin.i32"), MIN(SAT(i32, (int64_t)a + b), c)) \
  OP(add_max_u32, u32, u32, CHAIN("i32", "uadd.sat.i32", "umax.i32"), MAX(SAT(u32, (int64_t)a + b), c)) \
  OP(add_min_u32, u32, u32, CHAIN("i32", "uadd.sat.i32", "umin.i32"), MIN(SAT(u32, (int64_t)a + b), c)) \
  OP(sum_max,   i32, i32, "add i32 %a, %b\n %r1 = call i32 @llvm.smax.i32(i32 %r0, i32 %c)", MAX((int32_t)((uint32_t)a + (uint32_t)b), c)) \
  OP(sub_sat_u32, u32, u32, CALL2("i32", "usub.sat.i32"), SAT(u32, (int64_t)a - b))                \
  OP(sub_sat_i32, i32, i32, CALL2("i32", "ssub.sat.i32"), SAT(i32, (int64_t)a - b))                \
  OP(add_sat_u16, u16, u16, CALL2("i16", "uadd.sat.i16"), SAT(u16, a + b))                         \
  OP(add_sat_i16, i16, i16, CALL2("i16", "sadd.sat.i16"), SAT(i16, a + b))                         \
  OP(sub_sat_u16, u16, u16, CALL2("i16", "usub.sat.i16"), SAT(u16, a - b))                         \
  OP(sub_sat_i16, i16, i16, CALL2("i16", "ssub.sat.i16"), SAT(i16, a - b))

/* Both halves of a register, one after the other. */
#define PAIRS(OP)                                                                                  \
  OP(pk_add_i16,  i16,  "add <2 x i16> %a, %b", a + b)                                             \
  OP(pk_add_k,    i16,  "add <2 x i16> %a, <i16 -4, i16 -4>", a - 4)                               \
  OP(pk_max3_i16, i16,  CHAIN("<2 x i16>", "smax.v2i16", "smax.v2i16"), MAX(MAX(a, b), c))         \
  OP(pk_min3_i16, i16,  CHAIN("<2 x i16>", "smin.v2i16", "smin.v2i16"), MIN(MIN(a, b), c))         \
  OP(pk_max3_u16, u16,  CHAIN("<2 x i16>", "umax.v2i16", "umax.v2i16"), MAX(MAX(a, b), c))         \
  OP(pk_min3_u16, u16,  CHAIN("<2 x i16>", "umin.v2i16", "umin.v2i16"), MIN(MIN(a, b), c))         \
  OP(pk_maxmin,   i16,  CHAIN("<2 x i16>", "smax.v2i16", "smin.v2i16"), MIN(MAX(a, b), c))         \
  OP(pk_addmax_i, i16,  CHAIN("<2 x i16>", "sadd.sat.v2i16", "smax.v2i16"), MAX(SAT(i16, a + b), c)) \
  OP(pk_addmin_i, i16,  CHAIN("<2 x i16>", "sadd.sat.v2i16", "smin.v2i16"), MIN(SAT(i16, a + b), c)) \
  OP(pk_addmax_u, u16,  CHAIN("<2 x i16>", "uadd.sat.v2i16", "umax.v2i16"), MAX(SAT(u16, a + b), c)) \
  OP(pk_addmin_u, u16,  CHAIN("<2 x i16>", "uadd.sat.v2i16", "umin.v2i16"), MIN(SAT(u16, a + b), c)) \
  OP(pk_subsat_i, i16,  CALL2("<2 x i16>", "ssub.sat.v2i16"), SAT(i16, a - b))                     \
  OP(pk_subsat_u, u16,  CALL2("<2 x i16>", "usub.sat.v2i16"), SAT(u16, a - b))                     \
  OP(pk_max3_f16, f16,  CHAIN("<2 x half>", "maxnum.v2f16", "maxnum.v2f16"), fmax(fmax(a, b), c))  \
  OP(pk_min3_f16, f16,  CHAIN("<2 x half>", "minnum.v2f16", "minnum.v2f16"), fmin(fmin(a, b), c))  \
  OP(pk_maximum3, f16,  CHAIN("<2 x half>", "maximum.v2f16", "maximum.v2f16"), maximum(maximum(a, b), c)) \
  OP(pk_add_bf16, bf16, "fadd <2 x bfloat> %a, %b", a + b)                                         \
  OP(pk_sub_bf16, bf16, "fsub <2 x bfloat> %a, %b", a - b)                                         \
  OP(pk_mul_bf16, bf16, "fmul <2 x bfloat> %a, %b", a * b)                                         \
  OP(pk_addk_bf16, bf16, "fadd <2 x bfloat> %a, <bfloat 1.0, bfloat 1.0>", a + 1)                  \
  OP(pk_fma_bf16, bf16, CALL3("<2 x bfloat>", "fma.v2bf16"), fma(a, b, c))                         \
  OP(pk_max_bf16, bf16, CALL2("<2 x bfloat>", "maxnum.v2bf16"), fmax(a, b))                        \
  OP(pk_min_bf16, bf16, CALL2("<2 x bfloat>", "minnum.v2bf16"), fmin(a, b))
/* clang-format on */

typedef enum Type {
  T_i32,
  T_u32,
  T_i64,
  T_u64,
  T_i16,
  T_u16,
  T_f32,
  T_f64,
  T_f16,
  T_bf16,
  TYPES
} Type;

static const struct {
  const char *ir, *pair;
  int bytes;
} types[TYPES] = {[T_i32] = {"i32", NULL, 4},          [T_u32] = {"i32", NULL, 4},
                  [T_i64] = {"i64", NULL, 8},          [T_u64] = {"i64", NULL, 8},
                  [T_i16] = {"i16", "<2 x i16>", 2},   [T_u16] = {"i16", "<2 x i16>", 2},
                  [T_f32] = {"float", NULL, 4},        [T_f64] = {"double", NULL, 8},
                  [T_f16] = {"half", "<2 x half>", 2}, [T_bf16] = {"bfloat", "<2 x bfloat>", 2}};

typedef struct Operation {
  const char *name, *ir;
  Type from, to;
  uint64_t (*expected)(uint64_t, uint64_t, uint64_t);
  bool is_pair; /* of two elements */
} Operation;

static const char *ir_of(const Operation *o, Type t) {
  return o->is_pair ? types[t].pair : types[t].ir;
}
static int bytes_of(const Operation *o, Type t) { return types[t].bytes * (o->is_pair ? 2 : 1); }

#define OP(name, from, to, ir, expression)                                                         \
  static uint64_t do_##name(uint64_t ua, uint64_t ub, uint64_t uc) {                               \
    C_##from a = FROM_##from(ua), b = FROM_##from(ub), c = FROM_##from(uc);                        \
    (void)a, (void)b, (void)c;                                                                     \
    return TO_##to(expression);                                                                    \
  }
#define PAIR(name, type, ir, expression) OP(name, type, type, ir, expression)
OPS(OP)
PAIRS(PAIR)
#undef OP
#undef PAIR

static const Operation operations[] = {
#define OP(name, from, to, ir, expression) {#name, ir, T_##from, T_##to, do_##name, false},
#define PAIR(name, type, ir, expression) {#name, ir, T_##type, T_##type, do_##name, true},
    OPS(OP) PAIRS(PAIR)
#undef OP
#undef PAIR
};

static uint64_t expected(const Operation *o, const uint64_t in[3]) {
  if (!o->is_pair) return o->expected(in[0], in[1], in[2]);
  uint64_t low = o->expected(in[0] & 0xffff, in[1] & 0xffff, in[2] & 0xffff);
  return low | o->expected(in[0] >> 16, in[1] >> 16, in[2] >> 16) << 16;
}

/* ---- kernels ---- */

/* Operands are arguments of the kernel, the same for all lanes: scalar instructions, where there are
 * any. */
static const char *uniform_kernel_of(Arena *a, const Operation *o) {
  const char *t = ir_of(o, o->from), *r = ir_of(o, o->to);
  const char *result = strstr(o->ir, "%r1") ? "%r1" : "%r0";
  return arena_printf(a,
                      "define amdgpu_kernel void @k(ptr addrspace(1) %%y, %s %%a, %s %%b, %s "
                      "%%c) #0 {\n %%r0 = %s\n store %s %s, ptr addrspace(1) %%y\n ret void\n}\n"
                      "attributes #0 = { nounwind \"amdgpu-flat-work-group-size\"=\"64,64\" }\n",
                      t, t, t, o->ir, r, result);
}

static const char *kernel_of(Arena *a, const Operation *o) {
  const char *t = ir_of(o, o->from), *r = ir_of(o, o->to);
  const char *result = strstr(o->ir, "%r1") ? "%r1" : "%r0";
  return arena_printf(
      a,
      "define amdgpu_kernel void @k(ptr addrspace(1) %%x, ptr addrspace(1) %%y) #0 {\n"
      " %%t = call i32 @llvm.amdgcn.workitem.id.x()\n"
      " %%t3 = mul i32 %%t, 3\n"
      " %%pa = getelementptr %s, ptr addrspace(1) %%x, i32 %%t3\n"
      " %%pb = getelementptr %s, ptr addrspace(1) %%pa, i32 1\n"
      " %%pc = getelementptr %s, ptr addrspace(1) %%pa, i32 2\n"
      " %%a = load %s, ptr addrspace(1) %%pa\n %%b = load %s, ptr addrspace(1) %%pb\n"
      " %%c = load %s, ptr addrspace(1) %%pc\n"
      " %%r0 = %s\n"
      " %%q9 = getelementptr %s, ptr addrspace(1) %%y, i32 %%t\n"
      " store %s %s, ptr addrspace(1) %%q9\n ret void\n}\n"
      "attributes #0 = { nounwind \"amdgpu-flat-work-group-size\"=\"64,64\" }\n",
      t, t, t, t, t, t, o->ir, r, r, result);
}

/* Numbers of ordinary size, and the ends of the range. */
static uint64_t value_of(Type t, int lane, int which, uint64_t *state) {
  static const double corners[] = {0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 65504.0, 6.1e-5};
  uint64_t u = random_bits(state);
  double v = ((double)(u >> 40) / 65536.0 - 128.0) * (which == 2 ? 0.125 : 1.0);
  if (lane < 10) v = corners[(lane + 3 * which) % 10];
  if (t == T_f32 && lane == 10 + which) return of_f32(NAN);
  if (t == T_f32 && lane == 13 + which) return of_f32(INFINITY);
  if (t == T_f32 && lane == 16 + which) return 0x00000123; /* a denormal */
  if (t == T_f16) return of_f16(v);
  if (t == T_bf16) return of_bf16(v);
  if (t == T_f32) return of_f32((float)v);
  if (t == T_f64) return of_f64(v + (double)(u & 0xffff) * 0x1p-40);
  if (lane < 8 && which == 1) u = (uint64_t)(lane + 1); /* small divisors */
  if (lane == 8 && which == 0) u = UINT64_C(0x8000000080008000);
  return which == 1 && !(uint32_t)u ? 1 : u;
}

static uint64_t input_of(const Operation *o, int lane, int which, uint64_t *state) {
  uint64_t low = value_of(o->from, lane, which, state);
  if (!o->is_pair) return low;
  return (low & 0xffff) | (value_of(o->from, LANES - 1 - lane, which, state) & 0xffff) << 16;
}

static bool is_same(Type t, uint64_t got, uint64_t want) {
  if (t == T_f32) return got == want || (isnan(f32_of(got)) && isnan(f32_of(want)));
  if (t == T_f64) return got == want || (isnan(f64_of(got)) && isnan(f64_of(want)));
  if (t == T_f16) return got == want || (isnan(f16_of(got)) && isnan(f16_of(want)));
  if (t == T_bf16) return got == want || (isnan(bf16_of(got)) && isnan(bf16_of(want)));
  return got == want;
}

static bool is_right(const Operation *o, uint64_t got, uint64_t want) {
  if (!o->is_pair) return is_same(o->to, got, want);
  return is_same(o->to, got & 0xffff, want & 0xffff) && is_same(o->to, got >> 16, want >> 16);
}

/* Whether the quotient's last bit may differ: LLVM divides f16 by a reciprocal in f32. */
static bool is_near(const Operation *o, uint64_t got, uint64_t want) {
  return strcmp(o->name, "div_f16") == 0 && (got - want == 1 || want - got == 1);
}

static void complain(const Operation *o, const char *chip, const uint64_t *in, uint64_t got,
                     uint64_t want) {
  printf("%s on %s: 0x%llx, 0x%llx, 0x%llx give 0x%llx, expected 0x%llx\n", o->name, chip,
         (unsigned long long)in[0], (unsigned long long)in[1], (unsigned long long)in[2],
         (unsigned long long)got, (unsigned long long)want);
}

static int run(const Operation *o, const char *chip) {
  uint64_t in[LANES][3], state = 7;
  uint8_t x[LANES * 3 * 8], y[LANES * 8] = {0};
  int from = bytes_of(o, o->from), to = bytes_of(o, o->to), bad = 0;
  for (int l = 0; l < LANES; l++)
    for (int w = 0; w < 3; w++) {
      in[l][w] = input_of(o, l, w, &state);
      memcpy(x + (3 * l + w) * from, &in[l][w], (size_t)from);
    }
  Arena *a = arena_new();
  IsaKit k = isa_kit(kernel_of(a, o), chip);
  isa_kit_tensor(&k, "x", x, sizeof x);
  isa_kit_tensor(&k, "y", y, sizeof y);
  bool ok = isa_kit_runs(&k, 1, LANES);
  for (int l = 0; ok && !k.skipped && l < LANES; l++) {
    uint64_t got = 0, want = expected(o, in[l]);
    memcpy(&got, y + l * to, (size_t)to);
    if (is_right(o, got, want) || is_near(o, got, want)) continue;
    if (!bad++) complain(o, chip, in[l], got, want);
  }
  isa_kit_close(&k);
  arena_free(a);
  return !ok + bad;
}

static int run_uniform(const Operation *o, const char *chip) {
  uint64_t state = 11;
  int bad = 0;
  Arena *a = arena_new();
  IsaKit k = isa_kit(uniform_kernel_of(a, o), chip);
  for (int n = 0; n < 24 && !k.skipped && k.kernel; n++) {
    uint64_t y = 0, in[3];
    IsaKit once = k;
    isa_kit_tensor(&once, "y", &y, sizeof y);
    for (int w = 0; w < 3; w++) {
      in[w] = input_of(o, n, w, &state);
      isa_kit_number(&once, &in[w], (size_t)bytes_of(o, o->from));
    }
    uint64_t want = expected(o, in);
    if (!isa_kit_runs(&once, 1, LANES)) bad++;
    else if (!is_right(o, y, want) && !is_near(o, y, want) && !bad++)
      complain(o, chip, in, y, want);
  }
  bad += !k.skipped && !k.kernel;
  isa_kit_close(&k);
  arena_free(a);
  return bad;
}

TEST(uniform_operations) {
  static const char *const chips[] = {"gfx942", "gfx1201", "gfx1250"};
  for (size_t i = 0; i < WV_LEN(operations); i++)
    for (size_t c = 0; c < WV_LEN(chips); c++) CHECK_INT(run_uniform(&operations[i], chips[c]), 0);
}

TEST(operations) {
  static const char *const chips[] = {"gfx90a", "gfx942", "gfx1100", "gfx1201", "gfx1250"};
  for (size_t i = 0; i < WV_LEN(operations); i++)
    for (size_t c = 0; c < WV_LEN(chips); c++) CHECK_INT(run(&operations[i], chips[c]), 0);
}

TESTS_MAIN(RUN(operations) RUN(uniform_operations))
