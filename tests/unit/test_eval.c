/* test_eval.c: the meaning of a kernel: elementwise ops, reductions and contractions of the tile
 * evaluator, compared with plain loops. */
#include <math.h>
#include <string.h>

#include "backend/eval/eval.h"
#include "backend/eval/scalar.h"
#include "ir/infer/infer.h"
#include "unit/eval_kit.h"

TEST(every_tile_op_has_a_meaning) {
  for (int i = 0; i < OP_COUNT; i++)
    if (op_info[i].level & LEVEL_TILE && !op_eval[i].run && !op_eval[i].compute) {
      printf("%s\n", op_info[i].name);
      CHECK(false);
    }
}

/* scalar.c computes every type that an op's rule accepts: floats, integers, or both. */
static bool has_functions(OpKind op, const char *kind, InferRule rule) {
  const ScalarFn *fn = &scalar_fn[op];
  bool floats = rule != RULE_binary_int && rule != RULE_unary_int && rule != RULE_shift;
  bool ints = rule != RULE_binary_float && rule != RULE_unary_float;
  if (strcmp(kind, "compare") == 0) return scalar_holds(op, true, true, true);
  if (strcmp(kind, "test") == 0) return fn->test != NULL;
  if (strcmp(kind, "unary") == 0) return (fn->f1 || !floats) && (fn->i1 || !ints);
  return (fn->f2 || !floats) && (fn->i2 || !ints);
}

TEST(every_elementwise_op_is_computed) {
#define ELEMENTWISE(name, kind, flags, rule, cost, doc)                                            \
  if (!has_functions(OP_##name, #kind, RULE_##rule)) {                                             \
    printf("%s\n", #name);                                                                         \
    CHECK(!"scalar.c lacks a type that the op accepts");                                           \
  }
#include "ir/elementwise.def"
}

/* Of zeros, as far as the op is defined for the class. */
static bool gives_zero(OpKind op) {
  const ScalarFn *fn = &scalar_fn[op];
  return (!fn->f1 || fn->f1(0) == 0) && (!fn->f2 || fn->f2(0, 0) == 0) &&
         (!fn->i1 || fn->i1(0) == 0) && (!fn->i2 || fn->i2(0, 0) == 0);
}

TEST(ops_that_keep_zeros) {
  for (OpKind op = 0; op < OP_COUNT; op++)
    if ((op_info[op].flags & OPF_ZERO) && !gives_zero(op)) {
      printf("%s\n", op_info[op].name);
      CHECK(!"is not 0 for zeros");
    }
  CHECK(!gives_zero(OP_cos) && !gives_zero(OP_not));
}

/* ---- copies and elementwise ---- */

#define COPY_ROWS                                                                                  \
  "  workgroup M by 1 on 1; workgroup N by 256 on 0\n"                                             \
  "  hardware threads 64, vector {M: 1, N: 256}\n"

TEST(masked_copy) {
  Lab l = lab_open("kernel @copy(%a: mem<M, N, f16>, %b: mem<M, N, f16>)\n" COPY_ROWS
                   "  bind M = 111; bind N = 813\n"
                   "{ %x = read %a\n  write %x, %b }");
  int a = lab_tensor(&l, DTYPE_f16, 2, 111, 813), b = lab_tensor(&l, DTYPE_f16, 2, 111, 813);
  CHECK(lab_run(&l));
  int wrong = 0;
  for (int e = 0; e < 111 * 813; e++) wrong += get(&l, a, e) != get(&l, b, e);
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

/* A view with padding between its rows: the padding is not touched. */
TEST(strided_dynamic_copy) {
  Lab l = lab_open("kernel @copy(%a: mem<M, N, i32>, %b: mem<M, N, i32>)\n" COPY_ROWS
                   "  dynamic M; dynamic N\n"
                   "{ %x = read %a\n  write %x, %b }");
  int a = lab_tensor(&l, DTYPE_i32, 2, 5, 300), b = lab_tensor(&l, DTYPE_i32, 2, 5, 310);
  lab_fill(&l, b, 99);
  l.tensors[b].shape[1] = 300;
  CHECK(lab_run(&l));
  int wrong = 0;
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < 310; j++)
      wrong += get(&l, b, i * 310 + j) != (j < 300 ? get(&l, a, i * 300 + j) : 99);
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

TEST(empty_and_single) {
  const char *text =
      "kernel @copy(%a: mem<M, N, f32>, %b: mem<M, N, f32>)\n" COPY_ROWS "  dynamic M; dynamic N\n"
      "{ %x = read %a\n  %y = add %x, %x\n  write %y, %b }";
  for (int m = 0; m < 2; m++) {
    Lab l = lab_open(text);
    int a = lab_tensor(&l, DTYPE_f32, 2, m, 1), b = lab_tensor(&l, DTYPE_f32, 2, m, 1);
    CHECK(lab_run(&l));
    if (m) CHECK(get(&l, b, 0) == 2 * get(&l, a, 0));
    lab_close(&l);
  }
}

#define VECTOR_ROWS                                                                                \
  "  workgroup N by 32 on 0\n  hardware threads 64, vector {N: 32}\n  bind N = 45\n"

TEST(integer_arithmetic) {
  Lab l = lab_open("kernel @ints(%a: mem<N, i8>, %b: mem<N, i8>, %c: mem<N, i8>, %d: mem<N, i8>,\n"
                   "  %e: mem<N, i8>, %f: mem<N, i8>, %g: mem<N, i8>)\n" VECTOR_ROWS "{\n"
                   "  %x = read %a\n  %y = read %b\n"
                   "  %quotient = div %x, %y\n  write %quotient, %c\n"
                   "  %floored = floordiv %x, %y\n  write %floored, %d\n"
                   "  %rest = mod %x, %y\n  write %rest, %e\n"
                   "  %sq = mul %x, %x\n  %wrapped = mul %sq, %sq\n  write %wrapped, %f\n"
                   "  %less = lt %x, %y\n  %truth = cast %less : tile<N, i8>\n  write %truth, %g\n"
                   "}");
  int t[7];
  for (int i = 0; i < 7; i++) t[i] = lab_tensor(&l, DTYPE_i8, 1, 45);
  for (int e = 0; e < 45; e++)
    if (get(&l, t[1], e) == 0) put(&l, t[1], e, 3);
  CHECK(lab_run(&l));
  for (int e = 0; e < 45; e++) {
    int a = (int)get(&l, t[0], e), b = (int)get(&l, t[1], e);
    CHECK_INT((int)get(&l, t[2], e), a / b);
    CHECK_INT((int)get(&l, t[3], e), (int)floor((double)a / b));
    CHECK_INT((int)get(&l, t[4], e), a % b);
    CHECK_INT((int)get(&l, t[5], e), (int8_t)(a * a * a * a));
    CHECK_INT((int)get(&l, t[6], e), a < b ? 1 : 0);
  }
  put(&l, t[1], 44, 0); /* the masked divisors after it were zero all the time */
  CHECK_STR(lab_error(&l), "E0707");
  lab_close(&l);
}

TEST(float_semantics) {
  Lab l =
      lab_open("kernel @floats(%a: mem<N, f16>, %b: mem<N, f16>, %c: mem<N, i1>, %d: mem<N, f16>,\n"
               "  %e: mem<N, i8>, %f: mem<N, f16>)\n" VECTOR_ROWS "{\n"
               "  %x = read %a\n  %y = read %b\n"
               "  %n = ne %x, %y\n  write %n, %c\n"
               "  %m = maximum %x, %y\n  write %m, %d\n"
               "  %t = cast %x : tile<N, i8>\n  write %t, %e\n"
               "  %third = div %x, %y\n  write %third, %f\n"
               "}");
  int a = lab_tensor(&l, DTYPE_f16, 1, 45), b = lab_tensor(&l, DTYPE_f16, 1, 45);
  int c = lab_tensor(&l, DTYPE_i1, 1, 45), d = lab_tensor(&l, DTYPE_f16, 1, 45);
  int e = lab_tensor(&l, DTYPE_i8, 1, 45), f = lab_tensor(&l, DTYPE_f16, 1, 45);
  put(&l, a, 0, NAN), put(&l, b, 0, 1);
  put(&l, a, 1, 60000), put(&l, b, 1, 0.5);
  put(&l, a, 2, -2.75), put(&l, b, 2, 3);
  put(&l, a, 3, 1), put(&l, b, 3, 3);
  CHECK(lab_run(&l));
  CHECK(get(&l, c, 0) == 0 && isnan(get(&l, d, 0)) && get(&l, e, 0) == 0);
  CHECK(get(&l, c, 1) == 1 || get(&l, c, 1) == -1);
  CHECK(get(&l, d, 1) == 60000 && get(&l, e, 1) == 127 && get(&l, f, 1) == INFINITY);
  CHECK(get(&l, e, 2) == -2 && get(&l, d, 2) == 3);
  CHECK(get(&l, f, 3) == dtype_round(DTYPE_f16, 1.0 / 3));
  lab_close(&l);
}

typedef struct UnaryCase {
  const char *op;
  double in, out;
} UnaryCase;

TEST(unary_functions) {
  static const UnaryCase cases[] = {
      {"neg", 2, -2},
      {"abs", -3, 3},
      {"exp2", 3, 8},
      {"log2", 8, 3},
      {"log10", 1000, 3},
      {"sqrt", 9, 3},
      {"rsqrt", 4, 0.5},
      {"cbrt", 27, 3},
      {"reciprocal", 4, 0.25},
      {"reciprocal_approx", 4, 0.25},
      {"round", 2.5, 3},
      {"round", -2.5, -3},
      {"roundeven", 2.5, 2},
      {"exp", 0, 1},
      {"sin", 0, 0},
      {"cos", 0, 1},
      {"sinh", 0, 0},
      {"log", 1, 0},
      {"erf", 0.5, 0.5204998778},
      {"sigmoid", 0, 0.5},
      {"floor", -2.5, -3},
      {"ceil", -2.5, -2},
      {"ceil", 2.5, 3},
      {"trunc", -2.5, -2},
      {"trunc", 2.5, 2},
      {"tanh", 0, 0},
      {"tanh_approx", 90, 1},
      {"softsign", 30, 15},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    char text[400];
    snprintf(text, sizeof text,
             "kernel @f(%%a: mem<N, f32>, %%b: mem<N, f32>)\n" VECTOR_ROWS
             "{ %%x = read %%a\n  %%y = %s %%x\n  write %%y, %%b }",
             cases[i].op);
    Lab l = lab_open(text);
    int a = lab_tensor(&l, DTYPE_f32, 1, 45), b = lab_tensor(&l, DTYPE_f32, 1, 45);
    lab_fill(&l, a, cases[i].in);
    CHECK(lab_run(&l));
    CHECK(fabs(get(&l, b, 44) - cases[i].out) < 1e-6);
    lab_close(&l);
  }
}

/* Packed fp4: the low nibble is the first of two elements. */
TEST(bitcast_splits_bytes) {
  Lab l = lab_open(
      "kernel @unpack(%a: mem<K/2, i8>, %b: mem<K, f32>)\n"
      "  workgroup K by 32 on 0\n  hardware threads 64, vector {K: 32}\n  bind K = 64\n"
      "{ %x = read %a\n  %y = bitcast %x : tile<K, f4e2m1fn>\n  %z = cast %y : tile<K, f32>\n"
      "  write %z, %b }");
  int a = lab_tensor(&l, DTYPE_i8, 1, 32), b = lab_tensor(&l, DTYPE_f32, 1, 64);
  for (int i = 0; i < 32; i++) put(&l, a, i, (i * 37) & 255);
  CHECK(lab_run(&l));
  for (int i = 0; i < 64; i++)
    CHECK(get(&l, b, i) ==
          dtype_decode(DTYPE_f4e2m1fn, (uint64_t)((i / 2 * 37) >> (i % 2 * 4)) & 15));
  lab_close(&l);
}

/* ---- reductions ---- */

TEST(row_softmax) {
  Lab l = lab_open("kernel @softmax(%a: mem<M, N, f32>, %b: mem<M, N, f32>)\n"
                   "  workgroup M by 1 on 0\n  hardware threads 64, vector {M: 1, N: 1024}\n"
                   "  bind M = 5; bind N = 100\n"
                   "{\n"
                   "  %x = read %a\n"
                   "  %m = max %x {dim = N}\n"
                   "  %w = broadcast %m : tile<M, N, f32>\n"
                   "  %d = sub %x, %w\n"
                   "  %e = exp %d\n"
                   "  %s = sum %e {dim = N}\n"
                   "  %y = div %e, %s\n"
                   "  write %y, %b\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_f32, 2, 5, 100), b = lab_tensor(&l, DTYPE_f32, 2, 5, 100);
  CHECK(lab_run(&l));
  for (int i = 0; i < 5; i++) {
    double m = -INFINITY, s = 0;
    for (int j = 0; j < 100; j++) m = fmax(m, get(&l, a, i * 100 + j));
    for (int j = 0; j < 100; j++) s += exp(get(&l, a, i * 100 + j) - m);
    for (int j = 0; j < 100; j++)
      CHECK(fabs(get(&l, b, i * 100 + j) - exp(get(&l, a, i * 100 + j) - m) / s) < 1e-6);
  }
  lab_close(&l);
}

/* Over a dimension that is not the last, in a loop with a carried initial value. Elements beyond
 * the unaligned end count as 0. */
TEST(column_maximum_in_a_loop) {
  Lab l = lab_open("kernel @colmax(%a: mem<K, N, i32>, %b: mem<N, i32>)\n"
                   "  workgroup N by 16 on 0; tile K by 8\n"
                   "  hardware threads 64, vector {K: 8, N: 16}\n  bind K = 20; bind N = 30\n"
                   "{\n"
                   "  %low = fill -100 : tile<N, i32>\n"
                   "  %r = for K carry %best = %low {\n"
                   "    %x = read %a\n"
                   "    %y = max %x, %best {dim = K}\n"
                   "    yield %y\n"
                   "  }\n"
                   "  write %r, %b\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_i32, 2, 20, 30), b = lab_tensor(&l, DTYPE_i32, 1, 30);
  for (int i = 0; i < 20; i++) put(&l, a, i * 30, -5), put(&l, a, i * 30 + 1, i);
  CHECK(lab_run(&l));
  CHECK_INT((int)get(&l, b, 0), -5); /* the last tile has four rows that do not exist */
  CHECK_INT((int)get(&l, b, 1), 19);
  lab_close(&l);
}

TEST(cumsum_with_init) {
  Lab l =
      lab_open("kernel @scan(%a: mem<M, N, i32>, %s: mem<M, i32>, %b: mem<M, N, i32>)\n"
               "  workgroup M by 2 on 0\n  hardware threads 64, vector {M: 2, N: 64}\n"
               "  bind M = 3; bind N = 50\n"
               "{ %x = read %a\n  %i = read %s\n  %y = cumsum %x, %i {dim = N}\n  write %y, %b }");
  int a = lab_tensor(&l, DTYPE_i32, 2, 3, 50), s = lab_tensor(&l, DTYPE_i32, 1, 3);
  int b = lab_tensor(&l, DTYPE_i32, 2, 3, 50);
  CHECK(lab_run(&l));
  for (int i = 0; i < 3; i++) {
    double sum = get(&l, s, i);
    for (int j = 0; j < 50; j++) {
      sum += get(&l, a, i * 50 + j);
      CHECK(get(&l, b, i * 50 + j) == sum);
    }
  }
  lab_close(&l);
}

TEST(topk_ties_take_the_first) {
  Lab l = lab_open("kernel @top(%a: mem<M, N, f32>, %v: mem<M, K, f32>, %w: mem<M, K, i32>)\n"
                   "  workgroup M by 1 on 0\n  hardware threads 64, vector {M: 1, N: 64, K: 3}\n"
                   "  bind M = 2; bind N = 8; bind K = KK; bind KK = 3\n"
                   "{ %x = read %a\n  %y, %i = topk %x {dim = N, k_dim = K}\n"
                   "  write %y, %v\n  write %i, %w }");
  int a = lab_tensor(&l, DTYPE_f32, 2, 2, 8);
  int v = lab_tensor(&l, DTYPE_f32, 2, 2, 3), w = lab_tensor(&l, DTYPE_i32, 2, 2, 3);
  static const double row[8] = {1, 7, 3, 7, -2, 5, 5, 0};
  for (int i = 0; i < 16; i++) put(&l, a, i, row[i % 8]);
  CHECK(lab_run(&l));
  for (int i = 0; i < 2; i++) {
    CHECK(get(&l, v, 3 * i) == 7 && get(&l, v, 3 * i + 1) == 7 && get(&l, v, 3 * i + 2) == 5);
    CHECK(get(&l, w, 3 * i) == 1 && get(&l, w, 3 * i + 1) == 3 && get(&l, w, 3 * i + 2) == 5);
  }
  lab_close(&l);
}

/* ---- contractions ---- */

#define GEMM_BODY                                                                                  \
  "{\n"                                                                                            \
  "  %z = fill 0 : tile<M, N, f32>\n"                                                              \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    %x = read %a\n"                                                                             \
  "    %y = read %b\n"                                                                             \
  "    %n = mma %x, %y, %acc\n"                                                                    \
  "    yield %n\n"                                                                                 \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"

static int gemm_errors(const Lab *l, int a, int b, int c, int m, int n, int k) {
  int wrong = 0;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int x = 0; x < k; x++) sum += get(l, a, i * k + x) * get(l, b, j * k + x);
      wrong += get(l, c, i * n + j) != sum;
    }
  return wrong;
}

TEST(gemm_unaligned) {
  Lab l =
      lab_open("kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16>, %c: mem<M, N, f32>)\n"
               "  workgroup M by 64 on 0; workgroup N by 64 on 1; tile K by 32\n"
               "  wave M by 32; wave N by 32\n"
               "  hardware threads 64, mma F32_16x16x16_F16\n"
               "  dynamic M; dynamic N; dynamic K\n" GEMM_BODY);
  int a = lab_tensor(&l, DTYPE_f16, 2, 70, 45), b = lab_tensor(&l, DTYPE_f16, 2, 90, 45);
  int c = lab_tensor(&l, DTYPE_f32, 2, 70, 90);
  CHECK(lab_run(&l));
  CHECK_INT(gemm_errors(&l, a, b, c, 70, 90, 45), 0);
  lab_close(&l);
}

TEST(gemm_without_a_loop) {
  Lab l = lab_open("kernel @gemm(%a: mem<M, K, i8>, %b: mem<N, K, i8>, %c: mem<M, N, i32>)\n"
                   "  workgroup M by 16 on 0; workgroup N by 16 on 1\n"
                   "  hardware threads 64, mma I32_16x16x16_I8\n"
                   "  bind M = 20; bind N = 33; bind K = 50\n"
                   "{\n"
                   "  %z = fill 0 : tile<M, N, i32>\n"
                   "  %x = read %a\n  %y = read %b\n"
                   "  %n = mma %x, %y, %z\n"
                   "  write %n, %c\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_i8, 2, 20, 50), b = lab_tensor(&l, DTYPE_i8, 2, 33, 50);
  int c = lab_tensor(&l, DTYPE_i32, 2, 20, 33);
  CHECK(lab_run(&l));
  CHECK_INT(gemm_errors(&l, a, b, c, 20, 33, 50), 0);
  lab_close(&l);
}

/* Batch on workgroup dimensions 2 and 3, which share $WG2; listed in the wrong order. */
TEST(batched_gemm_on_four_dimensions) {
  Lab l = lab_open(
      "kernel @bmm(%a: mem<B, H, M, K, f16>, %b: mem<B, H, N, K, f16>, %c: mem<B, H, M, N, f32>)\n"
      "  workgroup M by 16 on 0; workgroup N by 16 on 1\n"
      "  workgroup H by 1 on 3; workgroup B by 1 on 2; tile K by 16\n"
      "  hardware threads 64, mma F32_16x16x16_F16, vector {B: 0, H: 0}\n"
      "  bind B = 3; bind H = 2; bind M = 16; bind N = 20; bind K = 32\n"
      "{\n"
      "  %z = fill 0 : tile<B, H, M, N, f32>\n"
      "  %r = for K carry %acc = %z {\n"
      "    %x = read %a\n    %y = read %b\n    %n = mma %x, %y, %acc\n    yield %n\n"
      "  }\n"
      "  write %r, %c\n"
      "}");
  int a = lab_tensor(&l, DTYPE_f16, 4, 3, 2, 16, 32),
      b = lab_tensor(&l, DTYPE_f16, 4, 3, 2, 20, 32);
  int c = lab_tensor(&l, DTYPE_f32, 4, 3, 2, 16, 20);
  lab_fill(&l, c, -1);
  CHECK(lab_run(&l));
  int wrong = 0;
  for (int g = 0; g < 6; g++)
    for (int i = 0; i < 16; i++)
      for (int j = 0; j < 20; j++) {
        double sum = 0;
        for (int x = 0; x < 32; x++)
          sum += get(&l, a, (g * 16 + i) * 32 + x) * get(&l, b, (g * 20 + j) * 32 + x);
        wrong += get(&l, c, (g * 16 + i) * 20 + j) != sum;
      }
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

TEST(scaled_mma_by_k_coordinate) {
  Lab l = lab_open("kernel @mx(%a: mem<M, K/2, i8>, %as: mem<M, K/32, i8>, %b: mem<N, K/2, i8>,\n"
                   "  %bs: mem<N, K/32, i8>, %c: mem<M, N, f32>)\n"
                   "  workgroup M by 16 on 0; workgroup N by 16 on 1; tile K by 128\n"
                   "  hardware threads 64, mma F32_16x16x128_F8F6F4\n"
                   "  bind M = 16; bind N = 17; dynamic K\n"
                   "{\n"
                   "  %z = fill 0 : tile<M, N, f32>\n"
                   "  %r = for K carry %acc = %z {\n"
                   "    %x8 = read %a\n    %x = bitcast %x8 : tile<M, K, f4e2m1fn>\n"
                   "    %u8 = read %as\n    %u = bitcast %u8 : tile<M, K/32, f8e8m0fnu>\n"
                   "    %y8 = read %b\n    %y = bitcast %y8 : tile<N, K, f4e2m1fn>\n"
                   "    %v8 = read %bs\n    %v = bitcast %v8 : tile<N, K/32, f8e8m0fnu>\n"
                   "    %n = scaled_mma %x, %u, %y, %v, %acc\n"
                   "    yield %n\n"
                   "  }\n"
                   "  write %r, %c\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_i8, 2, 16, 128), as = lab_tensor(&l, DTYPE_i8, 2, 16, 8);
  int b = lab_tensor(&l, DTYPE_i8, 2, 17, 128), bs = lab_tensor(&l, DTYPE_i8, 2, 17, 8);
  int c = lab_tensor(&l, DTYPE_f32, 2, 16, 17);
  for (int e = 0; e < 16 * 8; e++) put(&l, as, e, 124 + e % 4);
  for (int e = 0; e < 17 * 8; e++) put(&l, bs, e, 126 + e % 3);
  for (int e = 0; e < 17 * 128; e++) {
    if (e < 16 * 128) put(&l, a, e, e * 29 % 251);
    put(&l, b, e, e * 31 % 253);
  }
  CHECK(lab_run(&l));
  for (int i = 0; i < 16; i += 5)
    for (int j = 0; j < 17; j += 4) {
      double sum = 0;
      for (int k = 0; k < 256; k++) {
        uint64_t x = (uint64_t)(int64_t)get(&l, a, i * 128 + k / 2) >> (k % 2 * 4) & 15;
        uint64_t y = (uint64_t)(int64_t)get(&l, b, j * 128 + k / 2) >> (k % 2 * 4) & 15;
        sum += dtype_decode(DTYPE_f4e2m1fn, x) *
               ldexp(1, ((int)get(&l, as, i * 8 + k / 32) & 255) - 127) *
               dtype_decode(DTYPE_f4e2m1fn, y) *
               ldexp(1, ((int)get(&l, bs, j * 8 + k / 32) & 255) - 127);
      }
      CHECK(get(&l, c, i * 17 + j) == (double)(float)sum);
    }
  lab_close(&l);
}

TESTS_MAIN(RUN(every_tile_op_has_a_meaning) RUN(every_elementwise_op_is_computed)
               RUN(ops_that_keep_zeros) RUN(masked_copy) RUN(strided_dynamic_copy)
                   RUN(empty_and_single) RUN(integer_arithmetic) RUN(float_semantics)
                       RUN(unary_functions) RUN(bitcast_splits_bytes) RUN(row_softmax)
                           RUN(column_maximum_in_a_loop) RUN(cumsum_with_init)
                               RUN(topk_ties_take_the_first) RUN(gemm_unaligned)
                                   RUN(gemm_without_a_loop) RUN(batched_gemm_on_four_dimensions)
                                       RUN(scaled_mma_by_k_coordinate))
