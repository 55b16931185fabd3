/* test_legalise.c: a kernel legalised for a machine computes the same as before, within the bounds
 * of legalise_math.c. The simulator runs both: it has every op. */
#include <math.h>

#include "transform/pass_manager.h"
#include "unit/sim_kit.h"

enum { POINTS = 1024 };

static const char *const source =
    "thread kernel @f(%%a: mem<M, %s>, %%b: mem<M, %s>, %%c: mem<M, %s>)\n"
    "  launch grid (4) block (64) wave 64\n"
    "  bind M = 1024\n"
    "{\n"
    "  %%o = expr 256*$WG0 + 4*$T0 : i32\n"
    "  %%x = load %%a, %%o : vec<4, %s>\n"
    "  %%y = load %%b, %%o : vec<4, %s>\n"
    "  %%r = %s\n"
    "  store %%r, %%c, %%o\n"
    "}\n";

/* Zeros, infinities, NaN and signs against each other; then magnitudes from tiny to large. */
static void fill(Lab *l, double most) {
  static const double special[] = {0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 2, -3, 0.5, -0.5};
  int n = (int)WV_LEN(special);
  for (int e = 0; e < POINTS; e++) {
    double sign = lab_random(l) < 0 ? -1 : 1, step = pow(most * 1e6, (e % 211) / 210.0);
    put(l, 0, e, e < n * n ? special[e / n] : sign * 1e-6 * step * (1 + lab_random(l) / 16.0));
    put(l, 1, e, e < n * n ? special[e % n] : lab_random(l) + (e % 3) / 8.0);
  }
}

static bool run(const char *op, DType dtype, double most, bool legal, double *out) {
  const char *t = dtype_info[dtype].name;
  Arena *a = arena_new();
  Lab l = lab_open(arena_printf(a, source, t, t, t, t, t, op));
  for (int i = 0; i < 3; i++) lab_tensor(&l, dtype, 1, POINTS);
  fill(&l, most);
  PassOptions o = {.passes = "legalise", .target = "sm_80"};
  bool ok = l.k && (!legal || passes_run(l.k, &o));
  for (const Op *at = ok && legal ? ir_first(l.k) : NULL; at; at = ir_next(at))
    ok = ok && !strstr("softsign powf cbrt sinh atan2 erf sigmoid", op_info[at->kind].name);
  ok = ok && sim_lab(&l, &(SimOptions){0}, NULL);
  if (!ok) lab_print_errors(&l);
  for (int e = 0; e < POINTS; e++) out[e] = get(&l, 2, e);
  lab_close(&l);
  arena_free(a);
  return ok;
}

/* The largest relative error, in units of the last place; NaN, infinities and zeros must agree. */
static double error_of(const char *op, DType dtype, double most) {
  static double before[POINTS], after[POINTS];
  double worst = 0, unit = ldexp(1, -dtype_info[dtype].mantissa);
  if (!run(op, dtype, most, false, before) || !run(op, dtype, most, true, after)) return INFINITY;
  for (int e = 0; e < POINTS; e++) {
    double x = before[e], y = after[e];
    if ((isnan(x) && isnan(y)) || x == y) continue;
    if (!isfinite(x) || !isfinite(y)) return printf("%d: %g %g\n", e, x, y), INFINITY;
    double least = dtype == DTYPE_f64 ? 1e-306 : 1e-36; /* subnormal or nearly so */
    if (fabs(x) < least && fabs(y) < least) continue;
    worst = fmax(worst, fabs(x - y) / fabs(x) / unit);
  }
  return worst;
}

TEST(functions_are_as_near_as_stated) {
  CHECK(error_of("softsign %x {cap = 5.0}", DTYPE_f32, 1e6) <= 2);
  CHECK(error_of("softsign %x {cap = 5.0, head = 64}", DTYPE_f32, 1e6) <= 2);
  CHECK(error_of("cbrt %x", DTYPE_f32, 1e6) <= 3);
  CHECK(error_of("sinh %x", DTYPE_f32, 80) <= 4 + 80 / 2);
  CHECK(error_of("sinh %x", DTYPE_f32, 2) <= 4);
  CHECK(error_of("atan2 %x, %y", DTYPE_f32, 1e3) <= 4);
  CHECK(error_of("erf %x", DTYPE_f32, 8) <= 2);
  CHECK(error_of("sigmoid %x", DTYPE_f32, 80) <= 4);
  CHECK(error_of("powf %x, %y", DTYPE_f32, 8) <= 2 + 8 * 24);
}

TEST(remainders_are_exact) {
  CHECK(error_of("remf %x, %y", DTYPE_f32, 1e6) == 0);
  CHECK(error_of("mod %x, %y", DTYPE_f32, 1e6) == 0);
  CHECK(error_of("remf %x, %y", DTYPE_f16, 1e3) == 0);
}

TEST(functions_of_f64) {
  CHECK(error_of("exp %x", DTYPE_f64, 700) <= 4);
  CHECK(error_of("exp2 %x", DTYPE_f64, 1000) <= 4);
  CHECK(error_of("log %x", DTYPE_f64, 1e300) <= 4);
  CHECK(error_of("erf %x", DTYPE_f64, 8) <= 2);
  CHECK(error_of("sigmoid %x", DTYPE_f64, 700) <= 4);
  CHECK(error_of("log2 %x", DTYPE_f64, 1e300) <= 4);
  CHECK(error_of("log10 %x", DTYPE_f64, 1e300) <= 4);
  CHECK(error_of("sin %x", DTYPE_f64, 1e3) <= 4);
  CHECK(error_of("cos %x", DTYPE_f64, 1e3) <= 4);
  CHECK(error_of("tanh %x", DTYPE_f64, 1e2) <= 4);
  CHECK(error_of("softsign %x {cap = 5.0}", DTYPE_f64, 1e6) <= 2);
  CHECK(error_of("cbrt %x", DTYPE_f64, 1e6) <= 3);
  CHECK(error_of("sinh %x", DTYPE_f64, 700) <= 8);
  CHECK(error_of("atan2 %x, %y", DTYPE_f64, 1e3) <= 4);
  CHECK(error_of("powf %x, %y", DTYPE_f64, 8) <= 4 + 8 * 24);
}

/* Ops that exist for f64 stay. */
TEST(remainders_of_f64) { CHECK(error_of("remf %x, %y", DTYPE_f64, 1e6) == 0); }

TEST(smaller_floats_are_rounded_once) {
  CHECK(error_of("cbrt %x", DTYPE_f16, 1e3) <= 1);
  CHECK(error_of("softsign %x {cap = 5.0}", DTYPE_bf16, 1e3) <= 1);
  CHECK(error_of("erf %x", DTYPE_f16, 4) <= 1);
  CHECK(error_of("sigmoid %x", DTYPE_bf16, 20) <= 1);
  CHECK(error_of("sinh %x", DTYPE_f16, 4) <= 1);
}

/* ---- dot products ---- */

/* Lanes that share a result hold slices of k; two copies along k and along the results. */
static bool run_dot(const char *dot, const char *in, const char *out, bool legal, double *to) {
  Arena *a = arena_new();
  Lab l = lab_open(arena_printf(
      a,
      "thread kernel @f(%%a: mem<M, %s>, %%b: mem<M, %s>, %%c: mem<M, %s>)\n"
      "  launch grid (1) block (32) wave 32\n  bind M = 1024\n{\n"
      "  %%i = expr 16*Mod($T0, 8) : i32\n  %%j = expr 16*$T0 : i32\n  %%k = expr 4*$T0 : i32\n"
      "  %%x = load %%a, %%i : vec<16, %s>\n  %%y = load %%b, %%j : vec<16, %s>\n"
      "  %%z = load %%c, %%k : vec<4, %s>\n"
      "  %%r = wave_mma %s %%x, %%y, %%z {copies = [1, 2, 2]}\n  store %%r, %%c, %%k\n}\n",
      in, in, out, in, in, out, dot));
  DType t, u;
  dtype_parse(in, &t), dtype_parse(out, &u);
  for (int i = 0; i < 3; i++) lab_tensor(&l, i < 2 ? t : u, 1, POINTS);
  for (int e = 0; e < POINTS; e++)
    put(&l, 0, e, e % 7 - 3), put(&l, 1, e, e % 5 - 2), put(&l, 2, e, e % 128 / 4 % 4);
  PassOptions o = {.passes = "legalise", .target = "sm_80"};
  bool ok = l.k && (!legal || passes_run(l.k, &o));
  for (const Op *at = ok && legal ? ir_first(l.k) : NULL; at; at = ir_next(at))
    ok = ok && at->kind != OP_wave_mma;
  ok = ok && sim_lab(&l, &(SimOptions){0}, NULL);
  if (!ok) lab_print_errors(&l);
  for (int e = 0; e < POINTS; e++) to[e] = get(&l, 2, e);
  lab_close(&l);
  arena_free(a);
  return ok;
}

static bool dots_agree(const char *dot, const char *in, const char *out) {
  static double before[POINTS], after[POINTS];
  if (!run_dot(dot, in, out, false, before) || !run_dot(dot, in, out, true, after)) return false;
  double most = 0;
  for (int e = 0; e < POINTS; e++) most = fmax(most, fabs(before[e]));
  return most > 4 && memcmp(before, after, sizeof before) == 0;
}

TEST(dot_products) {
  CHECK(dots_agree("dot(2, 4, 8, N)", "f16", "f32"));
  CHECK(dots_agree("dot(2, 4, 8, N)", "i8", "i32"));
  CHECK(dots_agree("dot(2, 4, 8, N)", "bf16", "f16"));
  CHECK(dots_agree("dot(2, 4, 8, N)", "f64", "f64"));
}

TESTS_MAIN(RUN(functions_are_as_near_as_stated) RUN(remainders_are_exact) RUN(functions_of_f64)
               RUN(remainders_of_f64) RUN(smaller_floats_are_rounded_once) RUN(dot_products))
