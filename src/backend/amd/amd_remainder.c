/* amd_remainder.c: the exact remainder of f64.
 *
 * LLVM's own expansion is a - trunc(a/b) b, which is wrong if the quotient has more than 53 bits or b is infinite.
 * r - q s is exact if q = trunc(r / s) has at most 52 bits. So s is b times a power of two that makes the quotient that
 * small, and the remainder is divided again until it is less than b, as on NVIDIA GPUs (ptx_remainder.c). Most
 * operands need one iteration. The loop is a function, which LLVM inlines: elements of a vector take turns. */
#include "backend/amd/amd_state.h"

#define FUNCTION "wave.remainder"

/* One multiplication by 2^k, for k up to 1000, of what is left of k. */
#define SCALE(from, to, left, rest)                                                                \
  "  %part" to " = call i64 @llvm.smin.i64(i64 %" left ", i64 1000)\n"                             \
  "  %" rest " = sub i64 %" left ", %part" to "\n"                                                 \
  "  %biased" to " = add i64 %part" to ", 1023\n"                                                  \
  "  %bits" to " = shl i64 %biased" to ", 52\n"                                                    \
  "  %power" to " = bitcast i64 %bits" to " to double\n"                                           \
  "  %" to " = fmul double %" from ", %power" to "\n"

/* The exponent of a number, also if that is subnormal; it is then below 0. */
#define EXPONENT(of, out)                                                                          \
  "  %small_" out " = fcmp olt double %" of ", 0x0010000000000000\n"                               \
  "  %up_" out " = fmul double %" of ", 0x4350000000000000\n"                                      \
  "  %normal_" out " = select i1 %small_" out ", double %up_" out ", double %" of "\n"             \
  "  %word_" out " = bitcast double %normal_" out " to i64\n"                                      \
  "  %biased_" out " = lshr i64 %word_" out ", 52\n"                                               \
  "  %less_" out " = select i1 %small_" out ", i64 54, i64 0\n"                                    \
  "  %" out " = sub i64 %biased_" out ", %less_" out "\n"

/* NaN where a is infinite, b is 0, or either is NaN; zeros keep the sign of a. If a quotient is
 * rounded up, the remainder is negative, and s is added. */
static const char definition[] =
    "define internal double @" FUNCTION "(double %a, double %b) alwaysinline nounwind {\n"
    "entry:\n"
    "  %size = call double @llvm.fabs.f64(double %a)\n"
    "  %d = call double @llvm.fabs.f64(double %b)\n"
    "  %finite = fcmp olt double %size, 0x7FF0000000000000\n"
    "  %some = fcmp ogt double %d, 0.0\n"
    "  %has = and i1 %finite, %some\n"
    "  %first = select i1 %has, double %size, double 0x7FF8000000000000\n"
    EXPONENT("d", "exponent")
    "  br label %test\n"
    "test:\n"
    "  %r = phi double [ %first, %entry ], [ %next, %turn ]\n"
    "  %more = fcmp oge double %r, %d\n"
    "  br i1 %more, label %turn, label %end\n"
    "turn:\n"
    EXPONENT("r", "own")
    "  %apart = sub i64 %own, %exponent\n"
    "  %beyond = sub i64 %apart, 50\n"
    "  %k = call i64 @llvm.smax.i64(i64 %beyond, i64 0)\n" SCALE("d", "s1", "k", "k1")
        SCALE("s1", "s2", "k1", "k2") SCALE("s2", "s", "k2", "k3")
    "  %share = fdiv double %r, %s\n"
    "  %q = call double @llvm.trunc.f64(double %share)\n"
    "  %minus = fneg double %q\n"
    "  %low = call double @llvm.fma.f64(double %minus, double %s, double %r)\n"
    "  %under = fcmp olt double %low, 0.0\n"
    "  %plus = fadd double %low, %s\n"
    "  %next = select i1 %under, double %plus, double %low\n"
    "  br label %test\n"
    "end:\n"
    "  %out = call double @llvm.copysign.f64(double %r, double %a)\n"
    "  ret double %out\n"
    "}";

static const char *const called[] = {
    "declare double @llvm.fabs.f64(double)", "declare double @llvm.trunc.f64(double)",
    "declare double @llvm.fma.f64(double, double, double)",
    "declare double @llvm.copysign.f64(double, double)", "declare i64 @llvm.smin.i64(i64, i64)",
    "declare i64 @llvm.smax.i64(i64, i64)"};

const char *amd_remainder(Llvm *p, int n, const char *a, const char *b) {
  const char *type = llvm_vec_type(p, "double", n), *out = "poison";
  for (size_t i = 0; i < WV_LEN(called); i++) llvm_declare(p, called[i]);
  llvm_declare(p, definition);
  for (int i = 0; i < n; i++) {
    const char *x = n == 1 ? a : llvm_let(p, "extractelement %s %s, i32 %d", type, a, i);
    const char *y = n == 1 ? b : llvm_let(p, "extractelement %s %s, i32 %d", type, b, i);
    const char *r = llvm_let(p, "call double @" FUNCTION "(double %s, double %s)", x, y);
    out = n == 1 ? r : llvm_let(p, "insertelement %s %s, double %s, i32 %d", type, out, r, i);
  }
  return out;
}
