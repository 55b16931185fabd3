/* test_cpu_x86.c: code for other CPUs: it compiles, and the loop of a register tile keeps its
 * accumulators in registers. */
#include "unit/asm_kit.h"

static const Chip chips[] = {
    {{"x86_64-unknown-linux-gnu", "+avx2,+fma,+f16c", 0}, "haswell", "vfmadd231ps", "(%rsp)"},
    {{"x86_64-unknown-linux-gnu", "+sse2", 0}, "nehalem", "mulps", "(%rsp)"},
    {{"x86_64-unknown-linux-gnu", "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx2,+fma,+f16c", 0},
     "skylake-avx512",
     "vfmadd231ps",
     "(%rsp)"},
    {{"aarch64-unknown-linux-gnu", "+neon,+fullfp16,+dotprod,-sve", 0},
     "neoverse-n1",
     "fmla",
     "[sp"},
    {{"aarch64-unknown-linux-gnu", "+neon,+dotprod,+i8mm,+bf16,+sve", 32},
     "neoverse-v1",
     "fmla",
     "[sp"},
    {{"aarch64-unknown-linux-gnu", "+neon,+sve", 64}, "a64fx", "fmla", "[sp"},
};

static bool tile_stays(const Chip *c, int m, int n, int lanes) {
  Arena *a = arena_new();
  Lab l = lab_open(arena_printf(
      a,
      "thread kernel @tile(%%a: mem<A, f32>, %%b: mem<B, f32>, %%c: mem<C, f32>)\n"
      "  launch grid (1) block (1) wave 1\n  bind A = 4096; bind B = 4096; bind C = 4096\n"
      "{\n  %%zero = scalar 0 : index\n  %%start = load %%c, %%zero : vec<%d, f32>\n"
      "  %%r = for K with {trips = 64} carry %%acc = %%start {\n"
      "    %%i = expr $ARGK*%d : index\n    %%j = expr $ARGK*%d : index\n"
      "    %%x = load %%a, %%i : vec<%d, f32>\n    %%y = load %%b, %%j : vec<%d, f32>\n"
      "    %%s = wave_mma tile_%dx%dx1 %%x, %%y, %%acc\n    yield %%s\n  }\n"
      "  store %%r, %%c, %%zero\n}\n",
      m * n, m, n, m, n, m, n));
  bool skipped;
  const char *text = assembly_of(&l, c, &skipped), *loop = NULL;
  size_t size = text ? loop_at(text, c->product, &loop) : 0;
  int products = loop ? count_of(loop, size + 1, c->product) : 0;
  int spills = loop ? count_of(loop, size, c->spill) : 1;
  bool ok = skipped || (products == m * n / lanes && spills == 0);
  if (!ok)
    printf("%s: %d products, %d spills\n%.*s\n", c->cpu, products, spills, (int)size,
           loop ? loop : "");
  lab_close(&l);
  arena_free(a);
  return ok;
}

TEST(tiles_stay_in_registers) {
  CHECK(tile_stays(&chips[0], 6, 16, 8));
  CHECK(tile_stays(&chips[0], 4, 24, 8));
  CHECK(tile_stays(&chips[2], 8, 48, 16));
  CHECK(tile_stays(&chips[3], 8, 12, 4));
  CHECK(tile_stays(&chips[4], 8, 24, 8));
  CHECK(tile_stays(&chips[5], 8, 48, 16));
}

/* Every type through loads with masks, arithmetic, math, casts and stores. */
TEST(every_type_compiles) {
  static const char *const types[] = {"f64",       "f32",        "f16",     "bf16",
                                      "f8e4m3fn",  "f8e4m3fnuz", "f8e5m2",  "f8e5m2fnuz",
                                      "f8e8m0fnu", "f6e2m3fn",   "f4e2m1fn"};
  Arena *a = arena_new();
  for (size_t c = 0; c < WV_LEN(chips); c++)
    for (size_t t = 0; t < WV_LEN(types); t++) {
      bool skipped;
      Lab l = lab_open(arena_printf(
          a,
          "thread kernel @k(%%a: mem<N, %s>, %%b: mem<N, i8>)\n"
          "  launch grid (N//16) block (1) wave 1\n  dynamic N\n{\n"
          "  %%at = expr $WG0*16 : index\n  %%in = expr $WG0*16 < N : i1\n"
          "  %%x = load %%a, %%at, %%in : vec<16, %s>\n  %%y = exp %%x\n  %%z = log2 %%y\n"
          "  %%u = tanh %%z\n  %%w = maximum %%u, %%x\n  %%m = lt %%w, %%x\n"
          "  %%s = select %%m, %%w, %%x\n  store %%s, %%a, %%at, %%m\n"
          "  %%i = cast %%s : vec<16, i8>\n  %%v = load %%b, %%at : vec<16, i8>\n"
          "  %%d = div %%i, %%v\n  store %%d, %%b, %%at\n}\n",
          types[t], types[t]));
      const char *text = assembly_of(&l, &chips[c], &skipped);
      CHECK(skipped || text);
      lab_close(&l);
    }
  arena_free(a);
}

/* Vector functions are inlined, on every CPU: nothing is called, except for sines without FMA,
 * which need an exact product. */
static bool calls_nothing(const Chip *c, const char *op, const char *type) {
  Arena *a = arena_new();
  Lab l = lab_open(arena_printf(a,
                                "thread kernel @k(%%a: mem<N, %s>)\n"
                                "  launch grid (N//16) block (1) wave 1\n  dynamic N\n{\n"
                                "  %%at = expr $WG0*16 : index\n"
                                "  %%x = load %%a, %%at : vec<16, %s>\n  %%y = %s %%x\n"
                                "  store %%y, %%a, %%at\n}\n",
                                type, type, op));
  LlvmCode code;
  bool skipped, ok = true;
  const char *names[4];
  if (code_of(&l, c, false, &code, &skipped))
    for (int i = undefined_of(&code, names, 4); i-- > 0;) {
      bool sine = *op == 's' || *op == 'c', exact = strcmp(names[i], "fma") == 0;
      bool large = sine && (strcmp(op, names[i]) == 0 || exact);
      if (!large) printf("%s of %s on %s calls %s\n", op, type, c->cpu, names[i]);
      ok &= large;
    }
  else ok = skipped;
  lab_close(&l);
  arena_free(a);
  return ok;
}

TEST(vectors_call_nothing) {
  static const char *const f32[] = {"exp",         "exp2", "log2",  "log10", "tanh",
                                    "tanh_approx", "sin",  "cos",   "sqrt",  "rsqrt",
                                    "reciprocal",  "abs",  "round", "neg",   "roundeven"};
  static const char *const f64[] = {"exp", "exp2", "sin", "cos", "sqrt", "rsqrt", "round"};
  for (size_t c = 0; c < WV_LEN(chips); c++) {
    for (size_t i = 0; i < WV_LEN(f32); i++) {
      CHECK(calls_nothing(&chips[c], f32[i], "f32"));
      CHECK(calls_nothing(&chips[c], f32[i], "bf16"));
    }
    for (size_t i = 0; i < WV_LEN(f64); i++) CHECK(calls_nothing(&chips[c], f64[i], "f64"));
  }
}

TESTS_MAIN(RUN(tiles_stay_in_registers) RUN(every_type_compiles) RUN(vectors_call_nothing))
