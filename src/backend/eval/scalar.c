/* scalar.c: see scalar.h. */
#include "backend/eval/scalar.h"

#include <math.h>

/* ---- two operands ---- */

static double f_add(double a, double b) { return a + b; }
static double f_sub(double a, double b) { return a - b; }
static double f_mul(double a, double b) { return a * b; }
static double f_div(double a, double b) { return a / b; }

/* NaN wins; -0 is less than +0. */
static double f_max(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  return a > b ? a : b > a ? b : signbit(a) ? b : a;
}
static double f_min(double a, double b) { return -f_max(-a, -b); }

/* Unsigned arithmetic wraps; the least integer divided by -1 is itself. */
static int64_t i_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t i_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static int64_t i_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t i_div(int64_t a, int64_t b) { return b == -1 ? i_sub(0, a) : a / b; }
static int64_t i_mod(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
static int64_t i_floordiv(int64_t a, int64_t b) {
  return i_div(a, b) - (i_mod(a, b) != 0 && (a < 0) != (b < 0));
}
static int64_t i_and(int64_t a, int64_t b) { return a & b; }
static int64_t i_or(int64_t a, int64_t b) { return a | b; }
static int64_t i_xor(int64_t a, int64_t b) { return a ^ b; }
/* Shifting by the width of the type or more leaves no bits, whatever the type. */
static int64_t i_shl(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}
static int64_t i_shr(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }
/* Smaller unsigned integers are non-negative as int64_t too: only u64 differs. */
static int64_t u_div(int64_t a, int64_t b) { return (int64_t)((uint64_t)a / (uint64_t)b); }
static int64_t u_mod(int64_t a, int64_t b) { return (int64_t)((uint64_t)a % (uint64_t)b); }
static int64_t u_shr(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a >> b);
}
static int64_t u_max(int64_t a, int64_t b) { return (uint64_t)a > (uint64_t)b ? a : b; }
static int64_t u_min(int64_t a, int64_t b) { return (uint64_t)a < (uint64_t)b ? a : b; }
static int64_t i_max(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t i_min(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- one operand ---- */

static const double log2_e = 1.4426950408889634;

static double f_neg(double a) { return -a; }
static double f_rsqrt(double a) { return 1 / sqrt(a); }
static double f_reciprocal(double a) { return 1 / a; }
static double f_sigmoid(double a) { return 1 / (1 + exp(-a)); }
static double f_tanh_approx(double a) {
  double q = exp2(-2 * log2_e * fabs(a));
  return copysign((1 - q) / (1 + q), a);
}
static bool is_nan(double a) { return isnan(a); }
static bool is_inf(double a) { return isinf(a); }
static int64_t i_neg(int64_t a) { return i_sub(0, a); }
static int64_t i_not(int64_t a) { return ~a; } /* wrapping yields the opposite truth value */
static int64_t i_abs(int64_t a) { return a < 0 ? i_neg(a) : a; }

const ScalarFn scalar_fn[OP_COUNT] = {
    [OP_add] = {.f2 = f_add, .i2 = i_add},
    [OP_sub] = {.f2 = f_sub, .i2 = i_sub},
    [OP_mul] = {.f2 = f_mul, .i2 = i_mul},
    [OP_div] = {.f2 = f_div, .i2 = i_div, .u2 = u_div, .divides = true},
    [OP_mod] = {.f2 = fmod, .i2 = i_mod, .u2 = u_mod, .divides = true},
    [OP_floordiv] = {.i2 = i_floordiv, .u2 = u_div, .divides = true},
    [OP_and] = {.i2 = i_and},
    [OP_or] = {.i2 = i_or},
    [OP_xor] = {.i2 = i_xor},
    [OP_shl] = {.i2 = i_shl},
    [OP_shr] = {.i2 = i_shr, .u2 = u_shr},
    [OP_maximum] = {.f2 = f_max, .i2 = i_max, .u2 = u_max},
    [OP_minimum] = {.f2 = f_min, .i2 = i_min, .u2 = u_min},
    [OP_atan2] = {.f2 = atan2},
    [OP_powf] = {.f2 = pow},
    [OP_remf] = {.f2 = fmod},
    [OP_neg] = {.f1 = f_neg, .i1 = i_neg},
    [OP_not] = {.i1 = i_not},
    [OP_abs] = {.f1 = fabs, .i1 = i_abs},
    [OP_exp] = {.f1 = exp},
    [OP_exp2] = {.f1 = exp2},
    [OP_log] = {.f1 = log},
    [OP_log2] = {.f1 = log2},
    [OP_log10] = {.f1 = log10},
    [OP_sqrt] = {.f1 = sqrt},
    [OP_rsqrt] = {.f1 = f_rsqrt},
    [OP_cbrt] = {.f1 = cbrt},
    [OP_reciprocal] = {.f1 = f_reciprocal},
    [OP_reciprocal_approx] = {.f1 = f_reciprocal},
    [OP_sin] = {.f1 = sin},
    [OP_cos] = {.f1 = cos},
    [OP_sinh] = {.f1 = sinh},
    [OP_tanh] = {.f1 = tanh},
    [OP_tanh_approx] = {.f1 = f_tanh_approx},
    [OP_erf] = {.f1 = erf},
    [OP_sigmoid] = {.f1 = f_sigmoid},
    [OP_floor] = {.f1 = floor},
    [OP_ceil] = {.f1 = ceil},
    [OP_round] = {.f1 = round},
    [OP_roundeven] = {.f1 = nearbyint},
    [OP_trunc] = {.f1 = trunc},
    [OP_isnan] = {.test = is_nan},
    [OP_isinf] = {.test = is_inf},
};

IntFn2 *scalar_ints(OpKind kind, DType t) {
  const ScalarFn *fn = &scalar_fn[kind];
  return t == DTYPE_u64 && fn->u2 ? fn->u2 : fn->i2;
}

bool scalar_less(DType t, int64_t a, int64_t b) {
  return t == DTYPE_u64 ? (uint64_t)a < (uint64_t)b : a < b;
}

bool scalar_holds(OpKind kind, bool less, bool equal, bool greater) {
  switch (kind) {
  case OP_eq: return equal;
  case OP_ne: return less || greater;
  case OP_lt: return less;
  case OP_le: return less || equal;
  case OP_gt: return greater;
  case OP_ge: return greater || equal;
  default: WV_BUG("not a comparison");
  }
}

double scalar_softsign_cap(const Op *op, const int64_t *cap) {
  const Attr *given = op_attr(op, ATTR_cap), *head = op_attr(op, ATTR_head);
  double number = !given ? 30 : given->sym ? (double)*cap : given->number;
  return head ? number / sqrt((double)head->integer) : number;
}

double scalar_softsign(double a, double cap) { return a / (1 + fabs(a) / cap); }
