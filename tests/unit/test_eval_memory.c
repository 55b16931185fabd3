/* test_eval_memory.c: mappings, masks, dynamic values, scratch memory, atomics and logs of the tile
 * evaluator, compared with plain loops. */
#include "unit/eval_kit.h"

#define ROWS_MN                                                                                    \
  "  workgroup M by 16 on 0; workgroup N by 16 on 1\n  hardware threads 64, vector {M: 16, N: "    \
  "16}\n"

/* ---- mappings ---- */

TEST(transposed_read_and_write) {
  Lab l = lab_open(
      "kernel @t(%a: mem<N, M, f16>, %b: mem<M, N, f16>, %c: mem<N, M, f16>)\n" ROWS_MN
      "  bind M = 20; bind N = 35\n"
      "{\n"
      "  %x = read %a {mapping = map 2 {N: $index1, M: $index0} -> {M: $index0, N: $index1}}\n"
      "  write %x, %b\n"
      "  write %x, %c {mapping = map 2 {M: $index0, N: $index1} -> {N: $index1, M: $index0}}\n"
      "}");
  int a = lab_tensor(&l, DTYPE_f16, 2, 35, 20), b = lab_tensor(&l, DTYPE_f16, 2, 20, 35);
  int c = lab_tensor(&l, DTYPE_f16, 2, 35, 20), wrong = 0;
  CHECK(lab_run(&l));
  for (int m = 0; m < 20; m++)
    for (int n = 0; n < 35; n++) {
      wrong += get(&l, b, m * 35 + n) != get(&l, a, n * 20 + m);
      wrong += get(&l, c, n * 20 + m) != get(&l, a, n * 20 + m);
    }
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

/* Without a mapping coordinates are matched by name: an [M, N] register is stored transposed into
 * [N, M] memory, and along a memory dimension that the register lacks it is broadcast over the
 * current tile. */
TEST(unmapped_write_goes_by_name) {
  Lab l = lab_open("kernel @t(%a: mem<M, N, i32>, %b: mem<N, B, M, i32>)\n"
                   "  workgroup M by 16 on 0; workgroup N by 16 on 1; workgroup B by 1 on 2\n"
                   "  hardware threads 64, vector {M: 16, N: 16, B: 0}\n"
                   "  bind M = 20; bind N = 35; bind B = 2\n"
                   "{ %x = read %a\n  write %x, %b }");
  int a = lab_tensor(&l, DTYPE_i32, 2, 20, 35), b = lab_tensor(&l, DTYPE_i32, 3, 35, 2, 20);
  int wrong = 0;
  CHECK(lab_run(&l));
  for (int e = 0; e < 35 * 2 * 20; e++) wrong += get(&l, b, e) != get(&l, a, e % 20 * 35 + e / 40);
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

/* Offsets by set_symbol and constants: each memory coordinate is tested on its own, so columns past
 * the end do not spill into the next row. */
TEST(offset_write_stays_in_its_row) {
  Lab l = lab_open("kernel @o(%a: mem<M, N, i32>, %b: mem<M, N, i32>)\n  grid 2\n" ROWS_MN
                   "  bind M = 5; bind N = 18\n"
                   "{\n"
                   "  %w = scalar $WG0 * 16 : index\n"
                   "  set_symbol OFF %w\n"
                   "  %x = read %a {mapping = map 2 {M: $index0, N: $index1 + OFF} -> {M: $index0, "
                   "N: $index1}}\n"
                   "  write %x, %b {mapping = map 2 {M: $index0, N: $index1} -> {M: $index0, N: "
                   "$index1 + OFF}}\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_i32, 2, 5, 18), b = lab_tensor(&l, DTYPE_i32, 2, 5, 18), wrong = 0;
  lab_fill(&l, b, 77);
  CHECK(lab_run(&l));
  for (int e = 0; e < 5 * 18; e++) wrong += get(&l, b, e) != get(&l, a, e);
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

/* Pages: token t of the sequence is row table[t] of the cache. */
TEST(paged_gather) {
  Lab l = lab_open(
      "kernel @g(%cache: mem<P, D, f16, layout(_, D)>, %table: mem<T, i32>, %b: mem<T, D, f16>)\n"
      "  workgroup D by 8 on 0; tile T by 4\n"
      "  hardware threads 64, vector {T: 4, D: 8}\n"
      "  bind D = 10; dynamic T; dynamic P\n"
      "{\n"
      "  for T {\n"
      "    %page = read %table\n"
      "    %x = read %cache, %page {mapping = map 2 {P: $dynamic_val0, D: $index1} ->\n"
      "      {T: $index0, D: $index1} with {T: $index0}}\n"
      "    write %x, %b\n"
      "    yield\n"
      "  }\n"
      "}");
  int cache = lab_tensor(&l, DTYPE_f16, 2, 50, 10), table = lab_tensor(&l, DTYPE_i32, 1, 11);
  int b = lab_tensor(&l, DTYPE_f16, 2, 11, 10), wrong = 0;
  for (int t = 0; t < 11; t++) put(&l, table, t, t * 37 % 53); /* 52 is not a page: masked */
  CHECK(lab_run(&l));
  for (int t = 0; t < 11; t++)
    for (int d = 0; d < 10; d++) {
      int page = (int)get(&l, table, t);
      wrong += get(&l, b, t * 10 + d) != (page < 50 ? get(&l, cache, page * 10 + d) : 0);
    }
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

/* One dynamic value for every four columns. */
TEST(dynamic_value_per_group) {
  Lab l =
      lab_open("kernel @d(%a: mem<M, N, i32>, %off: mem<M, G, i32>, %b: mem<M, N, i32>)\n" ROWS_MN
               "  bind M = 3; bind N = 32; bind G = 8\n"
               "{\n"
               "  %o = read %off\n"
               "  %x = read %a, %o {mapping = map 2 {M: $index0, N: $index1 + $dynamic_val0} ->\n"
               "    {M: $index0, N: $index1} with {M: $index0, G: floor($index1 / 4)}}\n"
               "  write %x, %b\n"
               "}");
  int a = lab_tensor(&l, DTYPE_i32, 2, 3, 32), off = lab_tensor(&l, DTYPE_i32, 2, 3, 8);
  int b = lab_tensor(&l, DTYPE_i32, 2, 3, 32), wrong = 0;
  CHECK(lab_run(&l));
  for (int m = 0; m < 3; m++)
    for (int n = 0; n < 32; n++) {
      int from = n + (int)get(&l, off, m * 8 + n / 4);
      wrong += get(&l, b, m * 32 + n) != (from >= 0 && from < 32 ? get(&l, a, m * 32 + from) : 0);
    }
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

/* ---- bounds ---- */

#define BOUNDED_COPY(bounds)                                                                       \
  "kernel @b(%a: mem<N, i32>, %b: mem<N, i32>)\n"                                                  \
  "  workgroup N by 16 on 0\n  hardware threads 64, vector {N: 16}\n  bind N = 20\n"               \
  "{ %x = read %a\n  write %x, %b {bounds = " bounds "} }"

TEST(bounds_replace_the_mask) {
  Lab l = lab_open(BOUNDED_COPY("{N: 18}"));
  int a = lab_tensor(&l, DTYPE_i32, 1, 20), b = lab_tensor(&l, DTYPE_i32, 1, 20);
  lab_fill(&l, b, 77);
  CHECK(lab_run(&l));
  CHECK(get(&l, b, 17) == get(&l, a, 17) && get(&l, b, 18) == 77);
  lab_close(&l);
}

TEST(without_bounds_outside_is_an_error) {
  Lab l = lab_open(BOUNDED_COPY("{}"));
  lab_tensor(&l, DTYPE_i32, 1, 20);
  lab_tensor(&l, DTYPE_i32, 1, 20);
  CHECK_STR(lab_error(&l), "E0703");
  CHECK_STR(l.cx->diags.last->text, "element (20) maps to (20) of `b`, which has shape (20)");
  lab_close(&l);
}

/* Ragged rows: the length comes from memory, and elements after it are masked. */
TEST(set_symbol_makes_ragged_bounds) {
  Lab l = lab_open("kernel @r(%a: mem<S, N, i32>, %len: mem<S, i32>, %b: mem<S, i32>)\n"
                   "  workgroup S by 1 on 0; tile N by 8\n"
                   "  hardware threads 64, vector {S: 0, N: 8}\n  dynamic N; dynamic S\n"
                   "{\n"
                   "  %n = read %len\n"
                   "  set_symbol N %n\n"
                   "  %z = fill 0 : tile<S, i32>\n"
                   "  %r = for N carry %acc = %z {\n"
                   "    %x = read %a\n"
                   "    %y = sum %x, %acc {dim = N}\n"
                   "    yield %y\n"
                   "  }\n"
                   "  write %r, %b\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_i32, 2, 4, 30), len = lab_tensor(&l, DTYPE_i32, 1, 4);
  int b = lab_tensor(&l, DTYPE_i32, 1, 4);
  static const int lengths[4] = {0, 5, 16, 29};
  for (int s = 0; s < 4; s++) put(&l, len, s, lengths[s]);
  CHECK(lab_run(&l));
  for (int s = 0; s < 4; s++) {
    double sum = 0;
    for (int n = 0; n < lengths[s]; n++) sum += get(&l, a, s * 30 + n);
    CHECK(get(&l, b, s) == sum);
  }
  lab_close(&l);
}

#define SIZED_COPY(layout)                                                                         \
  "kernel @k(%a: mem<N, D, i32>, %b: mem<N, D, i32" layout ">)\n"                                  \
  "  workgroup N by 4 on 0\n  hardware threads 64, vector {N: 4, D: 8}\n"                          \
  "  dynamic N; bind D = 3\n{ %x = read %a\n  write %x, %b }"

/* Tensors may disagree about a symbol if their layout leaves the entry open. */
TEST(sizes_of_open_layouts) {
  Lab l = lab_open(SIZED_COPY(", layout(_, D)"));
  int a = lab_tensor(&l, DTYPE_i32, 2, 6, 3), b = lab_tensor(&l, DTYPE_i32, 2, 4, 3);
  CHECK(lab_run(&l) && get(&l, b, 11) == get(&l, a, 11));
  lab_close(&l);
}

TEST(sizes_that_disagree) {
  Lab l = lab_open(SIZED_COPY(""));
  lab_tensor(&l, DTYPE_i32, 2, 6, 3);
  lab_tensor(&l, DTYPE_i32, 2, 4, 3);
  CHECK_STR(lab_error(&l), "E0702");
  CHECK_STR(l.cx->diags.last->text, "argument `b` has size 4 along `N`, expected 6");
  lab_close(&l);
}

/* ---- scratch ---- */

TEST(scratch_is_local_to_the_tile) {
  Lab l = lab_open("kernel @s(%a: mem<M, N, f16>, %b: mem<M, N, f16>)\n"
                   "  workgroup M by 16 on 0; tile N by 16\n"
                   "  hardware threads 64, vector {M: 16, N: 16}\n  bind M = 40; bind N = 40\n"
                   "{\n"
                   "  %s = alloc {physical = [16, 20]} : mem<M, N, f16, shared>\n"
                   "  for N {\n"
                   "    %x = read %a\n"
                   "    write %x, %s\n"
                   "    shared_barrier\n"
                   "    %y = read %s\n"
                   "    write %y, %b\n"
                   "    yield\n"
                   "  }\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_f16, 2, 40, 40), b = lab_tensor(&l, DTYPE_f16, 2, 40, 40), wrong = 0;
  CHECK(lab_run(&l));
  for (int e = 0; e < 1600; e++) wrong += get(&l, a, e) != get(&l, b, e);
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

TEST(scratch_must_be_written_first) {
  Lab l =
      lab_open("kernel @s(%b: mem<N, f32>)\n"
               "  workgroup N by 16 on 0\n  hardware threads 64, vector {N: 16}\n  bind N = 16\n"
               "{ %s = alloc {physical = [16]} : mem<N, f32, shared>\n  %x = read %s\n"
               "  write %x, %b }");
  lab_tensor(&l, DTYPE_f32, 1, 16);
  CHECK_STR(lab_error(&l), "E0704");
  lab_close(&l);
}

/* ---- atomics ---- */

/* Split-K: each workgroup along z adds its part. */
TEST(split_k_atomic_add) {
  Lab l = lab_open("kernel @k(%a: mem<M, K, f16>, %b: mem<N, K, f16>, %c: mem<M, N, f32>)\n"
                   "  workgroup M by 16 on 0; workgroup N by 16 on 1; workgroup S by 1 on 2\n"
                   "  tile K by 16 from OFF iters ceiling(LEN / 16)\n"
                   "  hardware threads 64, mma F32_16x16x16_F16, vector {S: 0}\n"
                   "  bind M = 20; bind N = 24; bind K = 112; bind S = 4\n"
                   "  bind OFF = $WG2 * 32; bind LEN = Min(K, ($WG2 + 1) * 32) - OFF\n"
                   "{\n"
                   "  %z = fill 0 : tile<M, N, f32>\n"
                   "  %r = for K carry %acc = %z {\n"
                   "    %x = read %a\n    %y = read %b\n    %n = mma %x, %y, %acc\n    yield %n\n"
                   "  }\n"
                   "  %old = atomic_add %r, %c\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_f16, 2, 20, 112), b = lab_tensor(&l, DTYPE_f16, 2, 24, 112);
  int c = lab_tensor(&l, DTYPE_f32, 2, 20, 24), wrong = 0;
  lab_fill(&l, c, 1);
  CHECK(lab_run(&l));
  for (int i = 0; i < 20; i++)
    for (int j = 0; j < 24; j++) {
      double sum = 1;
      for (int k = 0; k < 112; k++) sum += get(&l, a, i * 112 + k) * get(&l, b, j * 112 + k);
      wrong += get(&l, c, i * 24 + j) != sum;
    }
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

/* A histogram: elements beyond the end are not counted. */
TEST(atomic_histogram) {
  Lab l = lab_open("kernel @h(%a: mem<N, i32>, %h: mem<E, i32>, %old: mem<N, i32>)\n"
                   "  workgroup N by 64 on 0\n  hardware threads 64, vector {N: 64, E: 16}\n"
                   "  bind N = 100; bind E = 16\n"
                   "{\n"
                   "  %x = read %a\n"
                   "  %one = fill 1 : tile<N, i32>\n"
                   "  %o = atomic_add %one, %h, %x {mapping = map 1 {E: $dynamic_val0 + 8} -> {N: "
                   "$index0} with {N: $index0}}\n"
                   "  write %o, %old\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_i32, 1, 100), h = lab_tensor(&l, DTYPE_i32, 1, 16);
  int old = lab_tensor(&l, DTYPE_i32, 1, 100), counts[16] = {0};
  lab_fill(&l, h, 0);
  CHECK(lab_run(&l));
  for (int e = 0; e < 100; e++) CHECK_INT((int)get(&l, old, e), counts[(int)get(&l, a, e) + 8]++);
  for (int e = 0; e < 16; e++) CHECK_INT((int)get(&l, h, e), counts[e]);
  lab_close(&l);
}

TEST(atomic_min_in_scratch) {
  Lab l = lab_open(
      "kernel @m(%a: mem<M, N, i32>, %b: mem<N, i32>)\n"
      "  workgroup N by 16 on 0\n  hardware threads 64, vector {M: 8, N: 16}\n"
      "  bind M = 8; bind N = 20\n"
      "{\n"
      "  %s = alloc {physical = [16]} : mem<N, i32, shared>\n"
      "  %big = fill 1000 : tile<N, i32>\n"
      "  write %big, %s\n"
      "  %x = read %a\n"
      "  %o = atomic_min %x, %s {mapping = map 2 {N: $index1} -> {M: $index0, N: $index1}}\n"
      "  %y = read %s\n"
      "  write %y, %b\n"
      "}");
  int a = lab_tensor(&l, DTYPE_i32, 2, 8, 20), b = lab_tensor(&l, DTYPE_i32, 1, 20);
  CHECK(lab_run(&l));
  for (int n = 0; n < 20; n++) {
    double least = 1000;
    for (int m = 0; m < 8; m++)
      least = get(&l, a, m * 20 + n) < least ? get(&l, a, m * 20 + n) : least;
    CHECK(get(&l, b, n) == least);
  }
  lab_close(&l);
}

TEST(scatter_add_into_scratch) {
  Lab l = lab_open("kernel @s(%v: mem<M, N, i32>, %i: mem<M, N, i32>, %b: mem<M, N, i32>)\n"
                   "  workgroup N by 16 on 0\n  hardware threads 64, vector {M: 4, N: 16}\n  bind "
                   "M = 4; bind N = 20\n"
                   "{\n"
                   "  %s = alloc {physical = [4, 16]} : mem<M, N, i32, shared>\n"
                   "  %z = fill 0 : tile<M, N, i32>\n"
                   "  write %z, %s\n"
                   "  %x = read %v\n  %w = read %i\n"
                   "  scatter_add %x, %w, %s {pos = 0, mapping = map 2 {M: $index0, N: $index1} -> "
                   "{M: $index0, N: $index1}}\n"
                   "  %y = read %s\n"
                   "  write %y, %b\n"
                   "}");
  int v = lab_tensor(&l, DTYPE_i32, 2, 4, 20), i = lab_tensor(&l, DTYPE_i32, 2, 4, 20);
  int b = lab_tensor(&l, DTYPE_i32, 2, 4, 20);
  double want[80] = {0};
  for (int e = 0; e < 80; e++) {
    put(&l, i, e, e * 7 % 4);
    want[e * 7 % 4 * 20 + e % 20] += get(&l, v, e);
  }
  CHECK(lab_run(&l));
  for (int e = 0; e < 80; e++) CHECK(get(&l, b, e) == want[e]);
  lab_close(&l);
}

/* ---- logs ---- */

typedef struct Logged {
  int n;
  char labels[4][32];
  int rank[4];
  double at[4][64];
} Logged;

static void take_log(void *user, const char *label, const EvalBuffer *b) {
  Logged *l = user;
  snprintf(l->labels[l->n], sizeof l->labels[0], "%s", label);
  l->rank[l->n] = b->rank;
  for (int64_t e = 0; e < lab_count(b) && e < 64; e++)
    l->at[l->n][e] = (double)dtype_wrap(b->dtype, (int64_t)dtype_load(b->dtype, b->data, e));
  l->n++;
}

TEST(debug_logs) {
  Lab l =
      lab_open("kernel @d(%a: mem<K, i32>)\n"
               "  workgroup M by 1 on 0; tile K by 4\n  hardware threads 64, vector {K: 4, M: 0}\n"
               "  bind K = 10; bind M = 1\n"
               "{\n"
               "  %z = fill 5 : tile<M, i32>\n"
               "  debug_log \"\" %z\n"
               "  for K {\n"
               "    %x = read %a\n"
               "    debug_log \"\" %x\n"
               "    %c = scalar K : i32\n"
               "    %cm = broadcast %c : tile<M, i32>\n"
               "    debug_log \"steps\" %cm {iters = [(I, K, 2)]}\n"
               "    yield\n"
               "  }\n"
               "}");
  int a = lab_tensor(&l, DTYPE_i32, 1, 10);
  Logged logged = {0};
  l.options = (EvalOptions){.log = take_log, .user = &logged};
  CHECK(lab_run(&l));
  CHECK_INT(logged.n, 3);
  CHECK_STR(logged.labels[0], "debug_log_output_0"); /* inner regions first */
  CHECK_STR(logged.labels[1], "steps");
  CHECK_STR(logged.labels[2], "debug_log_output_2");
  for (int k = 0; k < 10; k++) CHECK(logged.at[0][k] == get(&l, a, k));
  CHECK(logged.rank[1] == 2 && logged.at[1][0] == 0 && logged.at[1][1] == 2);
  CHECK(logged.at[2][0] == 5);
  lab_close(&l);
}

TESTS_MAIN(RUN(transposed_read_and_write) RUN(unmapped_write_goes_by_name)
               RUN(offset_write_stays_in_its_row) RUN(paged_gather) RUN(dynamic_value_per_group)
                   RUN(bounds_replace_the_mask) RUN(without_bounds_outside_is_an_error)
                       RUN(set_symbol_makes_ragged_bounds) RUN(sizes_of_open_layouts)
                           RUN(sizes_that_disagree) RUN(scratch_is_local_to_the_tile)
                               RUN(scratch_must_be_written_first) RUN(split_k_atomic_add)
                                   RUN(atomic_histogram) RUN(atomic_min_in_scratch)
                                       RUN(scatter_add_into_scratch) RUN(debug_logs))
