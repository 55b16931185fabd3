/* test_llvm_math.c: the accuracy of vector math, in units of the last place, over whole ranges.
 *
 * The reference is the C library in the next wider type. llvm.def states these bounds. */
#include <float.h>

#include "unit/cpu_kit.h"

enum { COUNT = 1 << 16 };

typedef struct Function {
  const char *name;
  long double (*exact)(long double);
  double lo, hi; /* arguments */
  double ulps;
} Function;

static long double sigmoidl(long double x) { return 1 / (1 + expl(-x)); }

static const Function of_f32[] = {
    {"exp2", exp2l, -160, 140, 1},   {"exp", expl, -110, 95, 1},
    {"exp", expl, -1, 1, 1},         {"exp2", exp2l, -1, 1, 1},
    {"log2", log2l, 0, 8, 1.5},      {"log2", log2l, 0.9, 1.1, 1.5},
    {"log2", log2l, 0, 1e38, 1.5},   {"log2", log2l, 0, 1e-38, 1.5},
    {"log10", log10l, 0, 8, 1.5},    {"log10", log10l, 0.9, 1.1, 1.5},
    {"log10", log10l, 0, 1e38, 1.5}, {"tanh", tanhl, -1, 1, 1.5},
    {"tanh", tanhl, -12, 12, 1.5},   {"tanh", tanhl, -1e-3, 1e-3, 1.5},
    {"sin", sinl, -4, 4, 0.6},       {"cos", cosl, -4, 4, 0.6},
    {"sin", sinl, -1e6, 1e6, 0.6},   {"cos", cosl, -1e6, 1e6, 0.6},
    {"sin", sinl, -3e38, 3e38, 0.6}, {"cos", cosl, -1e12, 1e12, 0.6},
    {"sinh", sinhl, -80, 80, 0.6},   {"cbrt", cbrtl, -1e6, 1e6, 0.6},
    {"sqrt", sqrtl, 0, 1e30, 0.5},   {"log", logl, 0, 8, 1.5},
    {"log", logl, 0.9, 1.1, 1.5},    {"log", logl, 0, 1e38, 1.5},
    {"log", logl, 0, 1e-38, 1.5},    {"erf", erfl, -5, 5, 1.5},
    {"erf", erfl, -1e-3, 1e-3, 1.5}, {"erf", erfl, -1e30, 1e30, 1.5},
    {"floor", floorl, -9, 9, 0},     {"ceil", ceill, -9, 9, 0},
    {"trunc", truncl, -9, 9, 0},     {"sigmoid", sigmoidl, -87, 20, 2},
    {"sigmoid", sigmoidl, -1, 1, 2},
};

static const Function of_f64[] = {
    {"exp2", exp2l, -1080, 1025, 1},
    {"exp", expl, -745, 709, 1},
    {"exp", expl, -1, 1, 1},
    {"sin", sinl, -4, 4, 1.5},
    {"cos", cosl, -4, 4, 1.5},
    {"sin", sinl, -1e6, 1e6, 1.5},
    {"cos", cosl, -1e6, 1e6, 1.5},
    {"cos", cosl, -1e300, 1e300, 1},
    {"log2", log2l, 0, 10, 1},
    {"tanh", tanhl, -5, 5, 2.5},
    {"log", logl, 0, 10, 1},
    {"erf", erfl, -6, 6, 1},
    {"sigmoid", sigmoidl, -700, 40, 2.5},
};

static const Function *trial;

static double argument(Lab *l, int64_t e) {
  l->seed = l->seed * 6364136223846793005u + 1442695040888963407u;
  double x = (double)(l->seed >> 11) * 0x1p-53;
  (void)e;
  return trial->lo + (trial->hi - trial->lo) * x;
}

static void fill_math(Lab *l) {
  DType t = l->k->body->args[0]->type->dtype;
  lab_tensor(l, t, 1, COUNT);
  lab_tensor(l, t, 1, COUNT);
  for (int64_t e = 0; e < COUNT; e++) put(l, 0, e, argument(l, e));
}

/* The distance in steps of the result's type. */
static double error_of(DType t, double got, long double want) {
  double near = dtype_round(t, (double)want);
  if (isnan(got) || isnan(near)) return isnan(got) == isnan(near) ? 0 : 1e9;
  if (isinf(near) || isinf(got)) return got == near ? 0 : fabs((double)want) < DBL_MAX ? 1e9 : 0;
  int least = t == DTYPE_f64 ? DBL_MIN_EXP - DBL_MANT_DIG : FLT_MIN_EXP - FLT_MANT_DIG;
  int digits = t == DTYPE_f64 ? DBL_MANT_DIG : FLT_MANT_DIG;
  int e = near == 0 ? least : ilogb(near) - digits + 1;
  return (double)(fabsl((long double)got - want) / ldexpl(1, e < least ? least : e));
}

static const char *kernel_text(Arena *a, const char *op, const char *type) {
  return arena_printf(a,
                      "thread kernel @k(%%a: mem<N, %s>, %%b: mem<N, %s>)\n"
                      "  launch grid (N//16) block (1) wave 1\n  dynamic N\n{\n"
                      "  %%at = expr $WG0*16 : index\n  %%x = load %%a, %%at : vec<16, %s>\n"
                      "  %%y = %s %%x\n  store %%y, %%b, %%at\n}\n",
                      type, type, type, op);
}

/* As on CPUs that round products before sums (SSE): half a unit more. */
static CpuRun run_apart(Lab *l) {
  const LlvmLibrary *llvm = kit_llvm(l->cx->arena);
  if (!llvm) return (CpuRun){.skipped = true, .ok = true};
  LlvmTarget here = cpu_host_target(llvm, l->cx->arena);
  CpuHost host = cpu_host(&here.words);
  host.fma = false;
  return cpu_run_as(l, NULL, &host);
}

static bool is_accurate(const Function *f, const char *type, bool apart) {
  Arena *a = arena_new();
  Lab l = lab_open(kernel_text(a, f->name, type));
  DType t = l.k->body->args[0]->type->dtype;
  double worst = 0, at = 0;
  trial = f;
  fill_math(&l);
  CpuRun r = apart ? run_apart(&l) : cpu_run(&l);
  for (int64_t e = 0; r.ok && !r.skipped && e < COUNT; e++) {
    double error = error_of(t, get(&l, 1, e), f->exact((long double)get(&l, 0, e)));
    if (error > worst) worst = error, at = get(&l, 0, e);
  }
  bool ok = r.ok && worst <= f->ulps + (apart ? 0.5 : 0);
  if (!ok || getenv("SHOW"))
    printf("%s of %s on [%g, %g]%s: %.3f ulp at %a\n", f->name, type, f->lo, f->hi,
           apart ? " without fma" : "", worst, at);
  lab_close(&l);
  arena_free(a);
  return ok;
}

TEST(accuracy_f32) {
  for (size_t i = 0; i < WV_LEN(of_f32); i++)
    for (int apart = 0; apart < 2; apart++) CHECK(is_accurate(&of_f32[i], "f32", apart));
}

TEST(accuracy_f64) {
  for (size_t i = 0; i < WV_LEN(of_f64); i++)
    for (int apart = 0; apart < 2; apart++) CHECK(is_accurate(&of_f64[i], "f64", apart));
}

/* What docs/numerics.md says about fast math: errors relative to the result, or absolute. */
typedef struct Fast {
  Function f; /* ulps: how many times 2^-bits */
  int bits;
  bool absolute;
} Fast;

static const Fast of_fast[] = {
    {{"exp2", exp2l, -125, 128, 1}, 21, false},     {{"exp2", exp2l, -1, 1, 1}, 21, false},
    {{"exp", expl, -16, 16, 1}, 19, false},         {{"exp", expl, -86.6, 88.72, 1}, 17, false},
    {{"log2", log2l, 0x1p-126, 8, 1}, 21, false},   {{"log2", log2l, 0.9, 1.1, 1}, 21, false},
    {{"log2", log2l, 1, 3e38, 1}, 21, false},       {{"log", logl, 0x1p-126, 8, 1}, 21, false},
    {{"log", logl, 0.9, 1.1, 1}, 21, false},        {{"log10", log10l, 0x1p-126, 8, 1}, 21, false},
    {{"log10", log10l, 1, 3e38, 1}, 21, false},     {{"sin", sinl, -6.3, 6.3, 1}, 20, true},
    {{"cos", cosl, -6.3, 6.3, 1}, 20, true},        {{"sin", sinl, -1000, 1000, 1}, 13, true},
    {{"cos", cosl, -1000, 1000, 1}, 13, true},      {{"tanh", tanhl, -20, 20, 1}, 20, true},
    {{"tanh", tanhl, -1e-3, 1e-3, 1}, 20, true},    {{"tanh_approx", tanhl, -9, 9, 1}, 20, true},
    {{"sigmoid", sigmoidl, -80, 80, 1}, 17, false},
};

static CpuRun run_fast(Lab *l, bool apart) {
  const LlvmLibrary *llvm = kit_llvm(l->cx->arena);
  if (!llvm) return (CpuRun){.skipped = true, .ok = true};
  LlvmTarget here = cpu_host_target(llvm, l->cx->arena);
  CpuHost host = cpu_host(&here.words);
  host.fma &= !apart;
  host.fast_math = true;
  return cpu_run_as(l, NULL, &host);
}

static bool is_near(const Fast *fast, bool apart) {
  Arena *a = arena_new();
  Lab l = lab_open(kernel_text(a, fast->f.name, "f32"));
  double worst = 0, at = 0;
  trial = &fast->f;
  fill_math(&l);
  CpuRun r = run_fast(&l, apart);
  for (int64_t e = 0; r.ok && !r.skipped && e < COUNT; e++) {
    long double want = fast->f.exact((long double)get(&l, 0, e));
    double error = (double)fabsl((long double)get(&l, 1, e) - want);
    if (!fast->absolute && want != 0) error /= (double)fabsl(want);
    if (!(error <= worst)) worst = error, at = get(&l, 0, e);
  }
  bool ok = r.ok && worst <= ldexp(1, -fast->bits);
  if (!ok || getenv("SHOW"))
    printf("fast %s on [%g, %g]%s: 2^%.2f at %a\n", fast->f.name, fast->f.lo, fast->f.hi,
           apart ? " without fma" : "", log2(worst), at);
  lab_close(&l);
  arena_free(a);
  return ok;
}

TEST(fast_math) {
  for (size_t i = 0; i < WV_LEN(of_fast); i++)
    for (int apart = 0; apart < 2; apart++) CHECK(is_near(&of_fast[i], apart));
}

/* The ends of the range: NaN stays NaN, 0 and infinity are exact, nothing leaves [-1, 1].
 */
static void fill_far(Lab *l) {
  static const double ends[] = {0.0,   INFINITY, -INFINITY, NAN,  0x1p-149, 3e38, -3e38, 127.75,
                                -1000, 1000,     128,       88.7, -1,       1e9,  -1e9,  -126};
  lab_tensor(l, DTYPE_f32, 1, 16);
  lab_tensor(l, DTYPE_f32, 1, 16);
  for (int e = 0; e < 16; e++) put(l, 0, e, ends[e]);
}

/* What fast math returns for the exact result `y` of `x`. */
static double fast_result(const char *op, double x, double y) {
  if (strncmp(op, "log", 3) == 0 && x >= 0 && x < FLT_MIN) return -INFINITY;
  if (strncmp(op, "exp", 3) == 0 && y < 0x1p-125) return 0;
  return y > FLT_MAX ? INFINITY : y;
}

static bool fast_ends(const char *op, double (*exact)(double)) {
  Arena *a = arena_new();
  Lab l = lab_open(kernel_text(a, op, "f32"));
  fill_far(&l);
  CpuRun r = run_fast(&l, false);
  bool ok = r.ok, turns = exact == sin || exact == cos;
  double apart = exact == tanh ? 0x1p-20 : 0;
  for (int e = 0; r.ok && !r.skipped && e < 16; e++) {
    double x = get(&l, 0, e), got = get(&l, 1, e), want = fast_result(op, x, exact(x));
    bool right = isnan(want)               ? isnan(got)
                 : isinf(want)             ? got == want
                 : turns && fabs(x) > 1000 ? fabs(got) <= 1
                                           : fabs(got - want) <= 0x1p-17 * fabs(want) + apart;
    if (!right) printf("fast %s of %g is %g, not %g\n", op, x, got, want), ok = false;
  }
  lab_close(&l);
  arena_free(a);
  return ok;
}

TEST(fast_math_at_the_ends) {
  CHECK(fast_ends("exp", exp) && fast_ends("exp2", exp2));
  CHECK(fast_ends("log", log) && fast_ends("log2", log2) && fast_ends("log10", log10));
  CHECK(fast_ends("sin", sin) && fast_ends("cos", cos) && fast_ends("tanh", tanh));
}

/* Infinities, zeros, NaN, the smallest and the largest numbers: as in the simulator. */
static void fill_ends(Lab *l) {
  static const double ends[] = {0.0, -0.0,     INFINITY, -INFINITY, NAN,     1,
                                -1,  0x1p-149, 0x1p-126, -0x1p-149, FLT_MAX, -FLT_MAX,
                                0.5, 1000,     -1000,    2};
  DType t = l->k->body->args[0]->type->dtype;
  lab_tensor(l, t, 1, 16);
  lab_tensor(l, t, 1, 16);
  for (int e = 0; e < 16; e++) put(l, 0, e, ends[e]);
}

TEST(ends) {
  static const char *const ops[] = {"exp",  "exp2",    "log2",  "log10",       "sqrt",  "rsqrt",
                                    "sin",  "cos",     "tanh",  "tanh_approx", "round", "roundeven",
                                    "cbrt", "sinh",    "abs",   "reciprocal",  "neg",   "log",
                                    "erf",  "sigmoid", "floor", "ceil"};
  static const char *const types[] = {"f32", "f64", "f16", "bf16"};
  Arena *a = arena_new();
  for (size_t i = 0; i < WV_LEN(ops); i++)
    for (size_t t = 0; t < WV_LEN(types); t++) {
      double tolerance = t == 0 ? 4e-7 : t == 1 ? 4e-16 : t == 2 ? 1e-3 : 8e-3;
      bool ok = cpu_agrees(kernel_text(a, ops[i], types[t]), fill_ends, tolerance);
      if (!ok) printf("in `%s` of %s\n", ops[i], types[t]);
      CHECK(ok);
    }
  arena_free(a);
}

TEST(two_operands) {
  static const char *const ops[] = {"atan2", "powf", "remf", "maximum", "minimum"};
  Arena *a = arena_new();
  for (size_t i = 0; i < WV_LEN(ops); i++) {
    const char *text =
        arena_printf(a,
                     "thread kernel @k(%%a: mem<N, f32>, %%b: mem<N, f32>)\n"
                     "  launch grid (1) block (1) wave 1\n  dynamic N\n{\n"
                     "  %%zero = scalar 0 : index\n  %%x = load %%a, %%zero : vec<16, f32>\n"
                     "  %%r = pick [3, 1, 0, 2, 9, 8, 11, 10, 5, 4, 15, 14, 13, 12, 7, 6] %%x\n"
                     "  %%y = %s %%x, %%r\n  store %%y, %%b, %%zero\n}\n",
                     ops[i]);
    CHECK(cpu_agrees(text, fill_ends, 2e-7));
  }
  arena_free(a);
}

TESTS_MAIN(RUN(fast_math) RUN(fast_math_at_the_ends) RUN(accuracy_f32) RUN(accuracy_f64) RUN(ends)
               RUN(two_operands))
