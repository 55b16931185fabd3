/* test_llvm.c: machine code of one-lane kernels, compared with the simulator. */
#include "unit/cpu_kit.h"
#include "unit/ops_kit.h"

/* ---- elementwise ops, every type ---- */

static const char *const int_types[] = {"i64", "i32", "i16", "i8", "i4"};
static const char *const float_types[] = {"f64",       "f32",        "f16",     "bf16",
                                          "f8e4m3fn",  "f8e4m3fnuz", "f8e5m2",  "f8e5m2fnuz",
                                          "f8e8m0fnu", "f6e2m3fn",   "f4e2m1fn"};
static const char *const binary_ops[] = {"add", "sub", "mul", "div", "maximum", "minimum"};
static const char *const exact_binary_ints[] = {"mod", "floordiv", "and", "or"};
static const char *const compares[] = {"eq", "ne", "lt", "le", "gt", "ge"};
static const char *const exact_unary[] = {"neg", "abs"};
static const char *const float_unary[] = {"sqrt", "rsqrt", "reciprocal", "round", "roundeven"};

/* `op` on one or two vectors of n elements, one in each of 16 workgroups. Four-bit elements come in
 * pairs. */
static bool op_agrees(const char *op, int nargs, const char *type, const char *out, int n,
                      double tolerance) {
  char text[1024], in[64], result[64];
  n = whole_bytes(type, out, n);
  fill_count = n * 16;
  bool given = strcmp(op, "cast") == 0;
  vector_text(in, sizeof in, type, n);
  snprintf(text, sizeof text,
           "thread kernel @k(%%a: mem<N, %s>, %%b: mem<N, %s>, %%c: mem<N, %s>)\n"
           "  launch grid (16) block (1) wave 1\n  bind N = %d\n{\n"
           "  %%at = expr $WG0*%d : index\n"
           "  %%x = load %%a, %%at : %s\n  %%y = load %%b, %%at : %s\n"
           "  %%z = %s %%x%s%s%s\n  store %%z, %%c, %%at\n}\n",
           type, type, out, n * 16, n, in, in, op, nargs == 2 ? ", %y" : "", given ? " : " : "",
           given ? vector_text(result, sizeof result, out, n) : "");
  bool ok = cpu_agrees(text, fill_bits, tolerance);
  if (!ok) printf("in `%s` of %s to %s, %d elements\n", op, type, out, n);
  return ok;
}

static int length_of(int i) {
  static const int lengths[] = {1, 4, 7, 16, 32};
  return lengths[i % 5];
}

TEST(integers) {
  int turn = 0;
  for (size_t t = 0; t < WV_LEN(int_types); t++) {
    const char *type = int_types[t];
    for (size_t i = 0; i < WV_LEN(binary_ops); i++)
      CHECK(op_agrees(binary_ops[i], 2, type, type, length_of(turn++), 0));
    for (size_t i = 0; i < WV_LEN(exact_binary_ints); i++)
      CHECK(op_agrees(exact_binary_ints[i], 2, type, type, length_of(turn++), 0));
    for (size_t i = 0; i < WV_LEN(compares); i++)
      CHECK(op_agrees(compares[i], 2, type, "i1", length_of(turn++), 0));
    for (size_t i = 0; i < WV_LEN(exact_unary); i++)
      CHECK(op_agrees(exact_unary[i], 1, type, type, length_of(turn++), 0));
    CHECK(op_agrees("not", 1, type, type, 8, 0));
  }
}

TEST(floats) {
  int turn = 0;
  for (size_t t = 0; t < WV_LEN(float_types); t++) {
    const char *type = float_types[t];
    for (size_t i = 0; i < WV_LEN(binary_ops); i++)
      CHECK(op_agrees(binary_ops[i], 2, type, type, length_of(turn++), 0));
    for (size_t i = 0; i < WV_LEN(compares); i++)
      CHECK(op_agrees(compares[i], 2, type, "i1", length_of(turn++), 0));
    for (size_t i = 0; i < WV_LEN(exact_unary); i++)
      CHECK(op_agrees(exact_unary[i], 1, type, type, length_of(turn++), 0));
    for (size_t i = 0; i < WV_LEN(float_unary); i++)
      CHECK(op_agrees(float_unary[i], 1, type, type, length_of(turn++),
                      strcmp(type, "f32") == 0 || strcmp(type, "f64") == 0 ? 3e-7 : 0));
    CHECK(op_agrees("mod", 2, type, type, length_of(turn++), 0));
  }
}

TEST(casts) {
  int turn = 0;
  const char *all[WV_LEN(int_types) + WV_LEN(float_types) + 1];
  size_t n = 0;
  for (size_t i = 0; i < WV_LEN(int_types); i++) all[n++] = int_types[i];
  for (size_t i = 0; i < WV_LEN(float_types); i++) all[n++] = float_types[i];
  all[n++] = "i1";
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++)
      CHECK(op_agrees("cast", 1, all[i], all[j], length_of(turn++), 0));
}

TESTS_MAIN(RUN(integers) RUN(floats) RUN(casts))
