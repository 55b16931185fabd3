/* test_eval_kernels.c: whole kernels in the tile evaluator: attention, a persistent GEMM, a
 * ragged batch with bound scalars. */
#include <math.h>

#include "unit/eval_kit.h"

/* ---- attention ---- */

enum { BATCH = 2, QUERIES = 40, KEYS = 45, HEAD = 16, OUT = 20 };

/* Scores are computed transposed and permuted; keys past the end are masked by hand. */
static const char attention[] =
    "kernel @attention(%q: mem<B, M, K1, f16, shared>, %k: mem<B, K2, K1, f16>,\n"
    "  %v: mem<B, N, K2, f16>, %c: mem<B, M, N, f32>)\n"
    "  workgroup M by 32 on 0; workgroup N by 16 on 1; workgroup B by 1 on 2; tile K2 by 16\n"
    "  wave M by 16; wave N by 16\n"
    "  hardware threads 64, mma F32_16x16x16_F16, vector {B: 0}\n"
    "  dynamic M; dynamic N; dynamic K2; dynamic B; bind K1 = 16\n"
    "{\n"
    "  %o0 = fill 0.0 : tile<B, N, M, f32>\n"
    "  %s0 = fill 0.0 : tile<B, M, f32>\n"
    "  %m0 = fill -1000000.0 : tile<B, M, f32>\n"
    "  %i = self_index K2 : tile<K2, i64>\n" /* outside: each iteration uses its part */
    "  %m, %s, %o = for K2 carry %pm = %m0, %ps = %s0, %acc = %o0 {\n"
    "    %zero = fill 0.0 : tile<B, K2, M, f32>\n"
    "    %qr = read %q\n"
    "    %kr = read %k\n"
    "    %st = mma %kr, %qr, %zero\n"
    "    %x = permute %st : tile<B, M, K2, f32>\n"
    "    %in = apply_expr %i {expr = signed($APPLY_EXPR_ARG_0) < K2}\n"
    "    %in1 = cast %in : tile<K2, i1>\n"
    "    %mask = broadcast %in1 : tile<M, K2, i1>\n"
    "    %keep = fill 0.0 : tile<M, K2, f32>\n"
    "    %drop = fill -1000000.0 : tile<M, K2, f32>\n"
    "    %bias = select %mask, %keep, %drop\n"
    "    %xm = add %x, %bias\n"
    "    %mj = max %xm, %pm {dim = K2}\n"
    "    %shrink = sub %pm, %mj\n"
    "    %factor = exp2 %shrink\n"
    "    %rel = sub %xm, %mj\n"
    "    %e = exp2 %rel\n"
    "    %before = mul %ps, %factor\n"
    "    %d = sum %e, %before {dim = K2}\n"
    "    %p = cast %e : tile<B, M, K2, f16>\n"
    "    %vr = read %v\n"
    "    %scaled = mul %acc, %factor\n"
    "    %on = mma %vr, %p, %scaled\n"
    "    yield %mj, %d, %on\n"
    "  }\n"
    "  %r = reciprocal %s\n"
    "  %res = mul %o, %r\n"
    "  write %res, %c\n"
    "}";

static double attend(const Lab *l, int q, int k, int v, int b, int m, int n) {
  double score[KEYS], best = -INFINITY, total = 0, out = 0;
  for (int j = 0; j < KEYS; j++) {
    score[j] = 0;
    for (int x = 0; x < HEAD; x++)
      score[j] += get(l, q, (b * QUERIES + m) * HEAD + x) * get(l, k, (b * KEYS + j) * HEAD + x);
    best = fmax(best, score[j]);
  }
  for (int j = 0; j < KEYS; j++) {
    total += exp2(score[j] - best);
    out += exp2(score[j] - best) * get(l, v, (b * OUT + n) * KEYS + j);
  }
  return out / total;
}

TEST(attention_with_unaligned_keys) {
  Lab l = lab_open(attention);
  int q = lab_tensor(&l, DTYPE_f16, 3, BATCH, QUERIES, HEAD);
  int k = lab_tensor(&l, DTYPE_f16, 3, BATCH, KEYS, HEAD);
  int v = lab_tensor(&l, DTYPE_f16, 3, BATCH, OUT, KEYS);
  int c = lab_tensor(&l, DTYPE_f32, 3, BATCH, QUERIES, OUT), wrong = 0;
  for (int e = 0; e < BATCH * QUERIES * HEAD; e++) put(&l, q, e, get(&l, q, e) / 8);
  for (int e = 0; e < BATCH * KEYS * HEAD; e++) put(&l, k, e, get(&l, k, e) / 8);
  CHECK(lab_run(&l));
  for (int b = 0; b < BATCH; b++)
    for (int m = 0; m < QUERIES; m++)
      for (int n = 0; n < OUT; n++) {
        double got = get(&l, c, (b * QUERIES + m) * OUT + n);
        wrong += !(fabs(got - attend(&l, q, k, v, b, m, n)) < 5e-3);
      }
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

/* ---- persistent GEMM ---- */

/* Three workgroups share the six tiles of C; offsets are symbols in the mappings, and the last tile
 * of each row is partial. */
TEST(persistent_gemm) {
  Lab l = lab_open("kernel @p(%a: mem<M, K, f16>, %b: mem<N, K, f16>, %c: mem<M, N, f32>)\n"
                   "  grid 4\n"
                   "  workgroup M by 16 on 0; workgroup N by 16 on 1; tile K by 16; tile T\n"
                   "  hardware threads 64, mma F32_16x16x16_F16\n"
                   "  bind M = 20; bind N = 40; bind K = 24; bind T = 6\n"
                   "{\n"
                   "  %first = scalar $WG0 : index\n"
                   "  while T as signed(T.2) (%t) from %first cond T < 6 {\n"
                   "    %three = scalar 3 : index\n    %size = scalar 16 : index\n"
                   "    %row = floordiv %t, %three\n    %col = mod %t, %three\n"
                   "    %mo = mul %row, %size\n    %no = mul %col, %size\n"
                   "    set_symbol MO %mo\n    set_symbol NO %no\n"
                   "    %z = fill 0 : tile<M, N, f32>\n"
                   "    %r = for K carry %acc = %z {\n"
                   "      %x = read %a {mapping = map 2 {M: $index0 + MO, K: $index1} -> {M: "
                   "$index0, K: $index1}}\n"
                   "      %y = read %b {mapping = map 2 {N: $index0 + NO, K: $index1} -> {N: "
                   "$index0, K: $index1}}\n"
                   "      %n = mma %x, %y, %acc\n"
                   "      yield %n\n"
                   "    }\n"
                   "    write %r, %c {mapping = map 2 {M: $index0, N: $index1} -> {M: $index0 + "
                   "MO, N: $index1 + NO}}\n"
                   "    %groups = scalar 4 : index\n"
                   "    %next = add %t, %groups\n"
                   "    set_symbol T %next\n"
                   "    yield\n"
                   "  }\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_f16, 2, 20, 24), b = lab_tensor(&l, DTYPE_f16, 2, 40, 24);
  int c = lab_tensor(&l, DTYPE_f32, 2, 20, 40), wrong = 0;
  lab_fill(&l, c, 77);
  CHECK(lab_run(&l));
  for (int m = 0; m < 20; m++)
    for (int n = 0; n < 40; n++) {
      double sum = 0;
      for (int k = 0; k < 24; k++) sum += get(&l, a, m * 24 + k) * get(&l, b, n * 24 + k);
      wrong += get(&l, c, m * 40 + n) != sum;
    }
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

/* ---- ragged batch ---- */

/* Rows of all sequences in one tensor; the grid covers the longest one, a scalar of the call. */
TEST(ragged_batch) {
  Lab l = lab_open(
      "kernel @r(%x: mem<N, D, i32, layout(_, D)>, %begin: mem<S, i32>, %y: mem<N, D, i32, "
      "layout(_, D)>,\n"
      "  %longest: i32 binds LONGEST)\n"
      "  workgroup N by 4 on 0 iters ceiling(LONGEST / 4); workgroup S by 1 on 1 iters S - 1\n"
      "  hardware threads 64, vector {N: 4, D: 8, S: 0}\n"
      "  dynamic N; dynamic S; bind D = 3; assume LONGEST > 0; assume LEN > 0\n"
      "{\n"
      "  %from = read %begin\n"
      "  %to = read %begin {mapping = map 1 {S: $index0 + 1} -> {S: $index0}}\n"
      "  %len = sub %to, %from\n"
      "  set_symbol START %from\n"
      "  set_symbol N %len\n"
      "  %v = read %x {mapping = map 2 {N: $index0 + START, D: $index1} -> {N: $index0, D: "
      "$index1}}\n"
      "  %i = self_index N : tile<N, i32>\n"
      "  %w = add %v, %i\n"
      "  write %w, %y {mapping = map 2 {N: $index0, D: $index1} -> {N: $index0 + START, D: "
      "$index1}}\n"
      "}");
  static const int begin[5] = {0, 3, 3, 10, 16};
  int x = lab_tensor(&l, DTYPE_i32, 2, 20, 3), s = lab_tensor(&l, DTYPE_i32, 1, 5);
  int y = lab_tensor(&l, DTYPE_i32, 2, 18, 3), wrong = 0;
  lab_number(&l, 7);
  lab_fill(&l, y, 77);
  for (int i = 0; i < 5; i++) put(&l, s, i, begin[i]);
  CHECK(lab_run(&l));
  for (int seq = 0; seq < 4; seq++)
    for (int r = begin[seq]; r < begin[seq + 1]; r++)
      for (int d = 0; d < 3; d++)
        wrong += get(&l, y, r * 3 + d) != get(&l, x, r * 3 + d) + r - begin[seq];
  CHECK_INT(wrong, 0);
  CHECK(get(&l, y, 16 * 3) == 77);
  lab_close(&l);
}

/* Scaled dimensions under a mapping: the key is K, iterators count bytes. */
TEST(preshuffled_bytes) {
  Lab l = lab_open(
      "kernel @s(%a: mem<K/2, M, i8>, %b: mem<M, K/2, i8>)\n"
      "  workgroup M by 4 on 0; tile K by 8\n  hardware threads 64, vector {M: 4, K: 8}\n"
      "  bind M = 5; dynamic K\n"
      "{\n"
      "  for K {\n"
      "    %x = read %a {mapping = map 2 {K: $index1, M: $index0} -> {M: $index0, K: $index1}}\n"
      "    write %x, %b\n"
      "    yield\n"
      "  }\n"
      "}");
  int a = lab_tensor(&l, DTYPE_i8, 2, 10, 5), b = lab_tensor(&l, DTYPE_i8, 2, 5, 10), wrong = 0;
  CHECK(lab_run(&l));
  for (int e = 0; e < 50; e++) wrong += get(&l, b, e) != get(&l, a, e % 10 * 5 + e / 10);
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

TESTS_MAIN(RUN(attention_with_unaligned_keys) RUN(persistent_gemm) RUN(ragged_batch)
               RUN(preshuffled_bytes))
