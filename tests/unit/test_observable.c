/* test_observable.c: kernels whose result depends on which thread holds which element, lane by
 * lane, as docs/language.md, section 13, defines it. THREADS in a text is the declared wave. */
#include "unit/lane_kit.h"

typedef struct Run {
  Lab lab;
  int threads; /* of a declared wave */
  bool ok;
} Run;

static char *with_threads(Arena *a, const char *text, int threads) {
  StrBuf out = {.arena = a};
  for (const char *at = text; *at;) {
    if (strncmp(at, "THREADS", 7) == 0) {
      sb_printf(&out, "%d", threads);
      at += 7;
    } else {
      sb_printf(&out, "%c", *at++);
    }
  }
  return arena_strdup(a, sb_text(&out));
}

static Run run_open(const char *text, const char *target) {
  Run r = {.threads = strcmp(target, "toy8") ? 64 : 8};
  Arena *a = arena_new();
  r.lab = lab_open(with_threads(a, text, r.threads));
  arena_free(a);
  return r;
}

/* Lowers and runs a kernel that has its tensors. */
static bool run_lanes(Run *r, const char *target, int schedule) {
  r->ok = lane_transform(&r->lab, target) && sample_reparses(&r->lab) &&
          lane_run(&r->lab, target, schedule);
  if (!r->ok) {
    StrBuf text = {.arena = r->lab.cx->arena};
    lab_print_errors(&r->lab);
    if (r->lab.k) ir_print(&text, r->lab.k);
    printf("on %s:\n%s", target, sb_text(&text));
  }
  return r->ok;
}

#define EACH_RUN(r, t, text)                                                                       \
  EACH_TARGET(t)                                                                                   \
  for (int schedule = 0; schedule < 3; schedule++)                                                 \
    for (Run r = run_open(text, t), *once = &r; once; lab_close(&r.lab), once = NULL)

/* ---- thread ids ---- */

/* b = a + a value that depends on the thread that holds the element. */
typedef struct Added {
  const char *header, *added;
  int rows, waves, more; /* columns: this many declared waves, and more */
  int (*expected)(int row, int column, int threads);
} Added;

static int along_columns(int row, int column, int threads) {
  (void)row;
  return 100 * (column % (2 * threads));
}

static int four_neighbours(int row, int column, int threads) {
  (void)row;
  return 100 * (column % (4 * threads) / 4);
}

static int along_rows(int row, int column, int threads) {
  (void)column, (void)threads;
  return 100 * (row % 4);
}

static int in_both(int row, int column, int threads) {
  return 100 * (column % (2 * threads)) + 1000000 * (row % 6 / 3);
}

static const Added thread_ids[] = {
    /* Lanes are along the dimension that workgroup dimension 0 divides. */
    {"  workgroup M by 2 on 1; workgroup N by 2*THREADS on 0; wave N by THREADS\n"
     "  hardware threads THREADS, vector {M: 1, N: THREADS}",
     "scalar 100 * $T0 : i32", 3, 3, 1, along_columns},
    /* A thread holds adjacent elements. */
    {"  workgroup M by 1 on 1; workgroup N by 4*THREADS on 0\n"
     "  hardware threads THREADS, vector {M: 1, N: 4*THREADS}",
     "fill 100 * $T0 + $T1 : tile<M, N, i32>", 2, 5, 3, four_neighbours},
    /* The rows are on dimension 0, so lanes are along them; those after the fourth hold nothing.
     */
    {"  workgroup M by 4 on 0; workgroup N by 3 on 1\n"
     "  hardware threads THREADS, vector {M: 4, N: 3}",
     "scalar 100 * $T0 : i32", 6, 0, 7, along_rows},
    /* Waves along dimension 1. */
    {"  workgroup M by 6 on 1; wave M by 3; workgroup N by 2*THREADS on 0; wave N by THREADS\n"
     "  hardware threads THREADS, vector {M: 1, N: THREADS}",
     "scalar 100 * $T0 + 1000000 * $T1 : i32", 11, 2, 5, in_both},
};

static int wrong_sums(Run *r, const Added *k, const char *target, int schedule) {
  int n = k->waves * r->threads + k->more, wrong = 0;
  int a = lab_tensor(&r->lab, DTYPE_i32, 2, k->rows, n);
  int b = lab_tensor(&r->lab, DTYPE_i32, 2, k->rows, n);
  if (!run_lanes(r, target, schedule)) return -1;
  for (int e = 0; e < k->rows * n; e++)
    wrong += get(&r->lab, b, e) != get(&r->lab, a, e) + k->expected(e / n, e % n, r->threads);
  return wrong;
}

TEST(thread_ids) {
  Arena *a = arena_new();
  for (size_t i = 0; i < WV_LEN(thread_ids); i++) {
    const Added *k = &thread_ids[i];
    const char *text = arena_printf(a,
                                    "kernel @k(%%a: mem<M, N, i32>, %%b: mem<M, N, i32>)\n%s; "
                                    "dynamic M; dynamic N\n{ %%x = read %%a\n  %%t = %s\n"
                                    "  %%y = add %%x, %%t\n  write %%y, %%b }",
                                    k->header, k->added);
    EACH_RUN(r, t, text) CHECK_INT(wrong_sums(&r, k, t, schedule), 0);
  }
  arena_free(a);
}

/* ---- symbols and branches of one thread ---- */

TEST(symbols_differ_between_lanes) {
  EACH_RUN(r, t,
           "kernel @k(%a: mem<N, i32>, %b: mem<N, i32>)\n"
           "  workgroup N by THREADS on 0\n"
           "  hardware threads THREADS, vector {N: THREADS}; dynamic N\n"
           "{ %s = scalar Mod($T0, 3) : i32\n  set_symbol OFF %s\n"
           "  %x = read %a {mapping = map 1 {N: $index0 + OFF} -> {N: $index0}}\n"
           "  write %x, %b }") {
    int n = 2 * r.threads + 3, a = lab_tensor(&r.lab, DTYPE_i32, 1, n);
    int b = lab_tensor(&r.lab, DTYPE_i32, 1, n), wrong = 0;
    CHECK(run_lanes(&r, t, schedule));
    for (int e = 0; e < n; e++) {
      int from = e + e % r.threads % 3;
      wrong += get(&r.lab, b, e) != (from < n ? get(&r.lab, a, from) : 0);
    }
    CHECK_INT(wrong, 0);
  }
}

/* Symbols set to what each thread has read; the element decides where another is read. */
TEST(symbols_from_memory) {
  EACH_RUN(r, t,
           "kernel @k(%i: mem<N, i32>, %a: mem<N, i32>, %b: mem<N, i32>)\n"
           "  workgroup N by THREADS on 0\n"
           "  hardware threads THREADS, vector {N: THREADS}; dynamic N\n"
           "{ %j = read %i\n  set_symbol AT %j\n"
           "  %x = read %a {mapping = map 1 {N: AT + 8} -> {N: $index0}}\n"
           "  write %x, %b }") {
    int n = 2 * r.threads + 3, i = lab_tensor(&r.lab, DTYPE_i32, 1, n);
    int a = lab_tensor(&r.lab, DTYPE_i32, 1, n), b = lab_tensor(&r.lab, DTYPE_i32, 1, n), wrong = 0;
    CHECK(run_lanes(&r, t, schedule));
    for (int e = 0; e < n; e++)
      wrong += get(&r.lab, b, e) != get(&r.lab, a, (int64_t)get(&r.lab, i, e) + 8);
    CHECK_INT(wrong, 0);
  }
}

TEST(branches_differ_between_lanes) {
  EACH_RUN(r, t,
           "kernel @k(%a: mem<N, i32>, %b: mem<N, i32>, %c: mem<N, i32>)\n"
           "  workgroup N by THREADS on 0\n"
           "  hardware threads THREADS, vector {N: THREADS}; dynamic N\n"
           "{ %x = read %a\n"
           "  if ($T0 > 2) { write %x, %b }\n"
           "  %z = fill 0 : tile<N, i32>\n  %p = gt %x, %z\n"
           "  %y = if %p carry %w = %x { %d = add %w, %w\n  yield %d }\n"
           "  write %y, %c }") {
    int n = 2 * r.threads + 3, a = lab_tensor(&r.lab, DTYPE_i32, 1, n);
    int b = lab_tensor(&r.lab, DTYPE_i32, 1, n), c = lab_tensor(&r.lab, DTYPE_i32, 1, n);
    lab_fill(&r.lab, b, 77);
    CHECK(run_lanes(&r, t, schedule));
    int wrong = 0;
    for (int e = 0; e < n; e++) {
      double x = get(&r.lab, a, e);
      wrong += get(&r.lab, b, e) != (e % r.threads > 2 ? x : 77);
      wrong += get(&r.lab, c, e) != (x > 0 ? 2 * x : x);
    }
    CHECK_INT(wrong, 0);
  }
}

/* A value that all lanes hold is stored by those that reach the store. */
TEST(copies_are_stored_by_whoever_comes) {
  EACH_RUN(r, t,
           "kernel @k(%a: mem<M, i32>, %b: mem<M, i32>)\n"
           "  workgroup M by 2 on 1; workgroup N by THREADS on 0\n"
           "  hardware threads THREADS, vector {M: 1, N: THREADS}; dynamic M; bind N = THREADS\n"
           "{ %x = read %a\n  if ($T0 > 5) { write %x, %b } }") {
    int a = lab_tensor(&r.lab, DTYPE_i32, 1, 5), b = lab_tensor(&r.lab, DTYPE_i32, 1, 5), wrong = 0;
    CHECK(run_lanes(&r, t, schedule));
    for (int e = 0; e < 5; e++) wrong += get(&r.lab, b, e) != get(&r.lab, a, e);
    CHECK_INT(wrong, 0);
  }
}

TEST(loops_differ_between_lanes) {
  EACH_RUN(r, t,
           "kernel @k(%a: mem<N, i32>, %b: mem<N, i32>)\n"
           "  workgroup N by THREADS on 0; tile K by 1 iters Mod($T0, 4)\n"
           "  hardware threads THREADS, vector {N: THREADS}; dynamic N; bind K = 4\n"
           "{ %x = read %a\n"
           "  %s = for K carry %w = %x { %d = add %w, %w\n  yield %d }\n"
           "  write %s, %b }") {
    int n = 2 * r.threads + 3, a = lab_tensor(&r.lab, DTYPE_i32, 1, n);
    int b = lab_tensor(&r.lab, DTYPE_i32, 1, n), wrong = 0;
    CHECK(run_lanes(&r, t, schedule));
    for (int e = 0; e < n; e++)
      wrong += get(&r.lab, b, e) != get(&r.lab, a, e) * (1 << e % r.threads % 4);
    CHECK_INT(wrong, 0);
  }
}

/* Each lane starts at the position given by its own element; negative positions start at 0. */
TEST(loops_start_apart) {
  EACH_RUN(r, t,
           "kernel @k(%a: mem<N, i32>, %b: mem<N, i32>)\n"
           "  workgroup N by THREADS on 0; tile K by 1\n"
           "  hardware threads THREADS, vector {N: THREADS}; dynamic N; bind K = 9\n"
           "{ %x = read %a\n  %z = fill 0 : tile<N, i32>\n"
           "  %s = for K from %x step 2 carry %w = %z {\n"
           "    %c = fill $ARGK + 1 : tile<N, i32>\n  %d = add %w, %c\n  yield %d }\n"
           "  write %s, %b }") {
    int n = 2 * r.threads + 3, a = lab_tensor(&r.lab, DTYPE_i32, 1, n);
    int b = lab_tensor(&r.lab, DTYPE_i32, 1, n), wrong = 0;
    CHECK(run_lanes(&r, t, schedule));
    for (int e = 0; e < n; e++) {
      int sum = 0, start = (int)get(&r.lab, a, e);
      for (int k = start < 0 ? 0 : start; k < 9; k += 2) sum += k + 1;
      wrong += get(&r.lab, b, e) != sum;
    }
    CHECK_INT(wrong, 0);
  }
}

/* ---- atomics ---- */

static int once(int threads) { return threads > 0; }
static int by_both_waves(int threads) { return 2 * once(threads); }
static int by_three(int threads) { return 3 * once(threads); }
static int by_all_threads(int threads) { return 2 * threads; }

/* Rows that all threads of both waves hold; %t makes the kernel observable. */
#define HELD_ROWS(atomics)                                                                         \
  "kernel @k(%a: mem<M, i32>, %c: mem<M, i32>, %w: mem<M, N, i32>)\n"                              \
  "  workgroup M by 2 on 1; workgroup N by 2*THREADS on 0; wave N by THREADS\n"                    \
  "  hardware threads THREADS, vector {M: 1, N: THREADS}; dynamic M; bind N = 2*THREADS\n"         \
  "{ %x = read %a\n  %i = self_index N : tile<N, i32>\n"                                           \
  "  %t = apply_expr %i {expr = $APPLY_EXPR_ARG_0 + 1000*$T0}\n" atomics                           \
  "  %u = broadcast %x : tile<M, N, i32>\n  %y = add %u, %t\n  write %y, %w }"

/* How often each row is added, depending on what the kernel specifies. */
static const struct Adding {
  const char *text;
  int (*times)(int threads);
} adding[] = {
    {HELD_ROWS("  %o = atomic_add %x, %c\n"), once},
    {HELD_ROWS("  %o = atomic_add %x, %c {ept = 1}\n"), by_all_threads},
    {HELD_ROWS("  if ($WG0 < 1) { %o = atomic_add %x, %c\n  yield }\n"), once},
    {HELD_ROWS("  if (floor($T0/THREADS) < 1) { %o = atomic_add %x, %c\n  yield }\n"), once},
    {HELD_ROWS("  if (floor($T0/THREADS) < M) { %o = atomic_add %x, %c\n  yield }\n"),
     by_both_waves},
    {HELD_ROWS("  if ($T0 < 3) { %o = atomic_add %x, %c\n  yield }\n"), by_three},
};

TEST(held_rows_are_added) {
  for (size_t i = 0; i < WV_LEN(adding); i++) EACH_RUN(r, t, adding[i].text) {
      int a = lab_tensor(&r.lab, DTYPE_i32, 1, 5), c = lab_tensor(&r.lab, DTYPE_i32, 1, 5);
      int times = adding[i].times(r.threads), wrong = 0;
      lab_tensor(&r.lab, DTYPE_i32, 2, 5, 2 * r.threads);
      lab_fill(&r.lab, c, 3);
      CHECK(run_lanes(&r, t, schedule));
      for (int e = 0; e < 5; e++) wrong += get(&r.lab, c, e) != 3 + times * get(&r.lab, a, e);
      CHECK_INT(wrong, 0);
    }
}

/* Each wave has its own sum, and adds it once: together they add everything. */
TEST(sums_of_waves_are_added) {
  EACH_RUN(r, t,
           "kernel @k(%a: mem<M, N, i32>, %c: mem<M, i32>)\n"
           "  workgroup M by 2 on 1; workgroup N by 2*THREADS on 0; wave N by THREADS\n"
           "  hardware threads THREADS, vector {M: 1, N: THREADS}; dynamic M; dynamic N\n"
           "{ %x = read %a\n  %s = sum %x {dim = N}\n  %o = atomic_add %s, %c }") {
    int n = 4 * r.threads - 3, a = lab_tensor(&r.lab, DTYPE_i32, 2, 5, n);
    int c = lab_tensor(&r.lab, DTYPE_i32, 1, 5), wrong = 0;
    lab_fill(&r.lab, c, 0);
    CHECK(run_lanes(&r, t, schedule));
    for (int m = 0; m < 5; m++) {
      double sum = 0;
      for (int e = 0; e < n; e++) sum += get(&r.lab, a, m * n + e);
      wrong += get(&r.lab, c, m) != sum;
    }
    CHECK_INT(wrong, 0);
  }
}

/* One thread performs the atomic; all others, also in the other wave, get its result. */
TEST(all_holders_are_told) {
  EACH_RUN(r, t,
           "kernel @k(%a: mem<M, i32>, %c: mem<M, i32>, %w: mem<M, N, i32>)\n"
           "  workgroup M by 2 on 1; workgroup N by 2*THREADS on 0; wave N by THREADS\n"
           "  hardware threads THREADS, vector {M: 1, N: THREADS}; dynamic M; bind N = 2*THREADS\n"
           "{ %x = read %a\n  %i = self_index N : tile<N, i32>\n"
           "  %t = apply_expr %i {expr = $APPLY_EXPR_ARG_0 + 1000*$T0}\n"
           "  %o = atomic_add %x, %c\n  %u = broadcast %o : tile<M, N, i32>\n"
           "  %y = add %u, %t\n  write %y, %w }") {
    int n = 2 * r.threads, a = lab_tensor(&r.lab, DTYPE_i32, 1, 5), wrong = 0;
    int c = lab_tensor(&r.lab, DTYPE_i32, 1, 5), w = lab_tensor(&r.lab, DTYPE_i32, 2, 5, n);
    for (int e = 0; e < 5; e++) put(&r.lab, c, e, 70 + e);
    CHECK(run_lanes(&r, t, schedule));
    for (int m = 0; m < 5; m++) {
      wrong += get(&r.lab, c, m) != 70 + m + get(&r.lab, a, m);
      for (int e = 0; e < n; e++) wrong += get(&r.lab, w, m * n + e) != 70 + m + 1001 * e;
    }
    CHECK_INT(wrong, 0);
  }
}

/* `elements_per_thread` limits how many of its elements a thread applies an op to. */
TEST(first_elements_are_added) {
  EACH_RUN(r, t,
           "kernel @k(%a: mem<N, i32>, %c: mem<N, i32>)\n"
           "  workgroup N by 4*THREADS on 0\n"
           "  hardware threads THREADS, vector {N: 4*THREADS}; dynamic N\n"
           "{ %x = read %a\n  %o = atomic_add %x, %c {ept = 1} }") {
    int n = 4 * r.threads + 6, a = lab_tensor(&r.lab, DTYPE_i32, 1, n);
    int c = lab_tensor(&r.lab, DTYPE_i32, 1, n), wrong = 0;
    lab_fill(&r.lab, c, 3);
    CHECK(run_lanes(&r, t, schedule));
    for (int e = 0; e < n; e++) wrong += get(&r.lab, c, e) != 3 + (e % 4 ? 0 : get(&r.lab, a, e));
    CHECK_INT(wrong, 0);
  }
}

/* The sample of tile_samples.h: every thread holds all bins, and one adds them. */
TEST(histogram) {
  EACH_RUN(r, t,
           "kernel @histogram(%a: mem<N, i32>, %i: mem<N, i32>, %h: mem<B, i32>)\n"
           "  workgroup N by THREADS on 0; hardware threads THREADS, vector {N: THREADS, B: 6}\n"
           "  dynamic N; bind B = 6\n"
           "{\n"
           "  %z = fill 0 : tile<B, i32>\n"
           "  %s = alloc : mem<B, i32, shared>\n"
           "  write %z, %s\n"
           "  %x = read %a\n"
           "  %at = read %i\n"
           "  scatter_add %x, %at, %s {pos = 0, mapping = map 1 {N: $index0} -> {B: 0}}\n"
           "  %sum = read %s\n"
           "  %old = atomic_add %sum, %h\n"
           "}") {
    int n = 2 * r.threads + 3, a = lab_tensor(&r.lab, DTYPE_i32, 1, n);
    int i = lab_tensor(&r.lab, DTYPE_i32, 1, n), h = lab_tensor(&r.lab, DTYPE_i32, 1, 6), wrong = 0;
    double bins[6] = {0};
    lab_fill(&r.lab, h, 0);
    for (int e = 0; e < n; e++) {
      int at = (int)get(&r.lab, i, e);
      if (at >= 0 && at < 6) bins[at] += get(&r.lab, a, e);
    }
    CHECK(run_lanes(&r, t, schedule));
    for (int e = 0; e < 6; e++) wrong += get(&r.lab, h, e) != bins[e];
    CHECK_INT(wrong, 0);
  }
}

/* The sample of tile_samples.h: every thread holds the sums, and one adds them. */
TEST(split) {
  EACH_RUN(r, t,
           "kernel @split(%a: mem<M, K, i32>, %c: mem<M, i32>)\n"
           "  workgroup M by 4 on 1; workgroup S by 1 on 0 iters 2\n"
           "  tile K by 4 from 6 * $WG0 iters ceiling((Min(K, 6 * $WG0 + 6) - 6 * $WG0) / 4)\n"
           "  hardware threads THREADS, vector {M: 1, K: THREADS, S: 0}; dynamic M; dynamic K\n"
           "  bind S = 2\n"
           "{\n"
           "  %z = fill 0 : tile<M, i32>\n"
           "  %r = for K carry %acc = %z { %x = read %a\n  %n = sum %x, %acc {dim = K}\n"
           "  yield %n }\n"
           "  %old = atomic_add %r, %c\n"
           "}") {
    int a = lab_tensor(&r.lab, DTYPE_i32, 2, 7, 11), c = lab_tensor(&r.lab, DTYPE_i32, 1, 7);
    int wrong = 0;
    lab_fill(&r.lab, c, 5);
    CHECK(run_lanes(&r, t, schedule));
    for (int m = 0; m < 7; m++) {
      double sum = 0; /* tiles at 0, 4 and at 6, 10 */
      for (int k = 0; k < 8; k++) sum += get(&r.lab, a, 11 * m + k);
      for (int k = 6; k < 11; k++) sum += get(&r.lab, a, 11 * m + k);
      wrong += get(&r.lab, c, m) != 5 + sum;
    }
    CHECK_INT(wrong, 0);
  }
}

/* Two waves share N; each gets the sum of its own half, and writes it to its own position. */
TEST(sums_of_waves) {
  EACH_RUN(
      r, t,
      "kernel @k(%a: mem<M, N, i32>, %b: mem<M, V, i32>)\n"
      "  workgroup M by 2 on 1; workgroup N by 4*THREADS on 0; wave N by 2*THREADS\n"
      "  hardware threads THREADS, vector {M: 1, N: 2*THREADS}; dynamic M; dynamic N\n"
      "  bind V = 2\n"
      "{ %x = read %a\n  %s = sum %x {dim = N}\n"
      "  write %s, %b {mapping = map 1 {M: $index0} -> {M: $index0, V: floor($T0/THREADS)}} }") {
    int n = 4 * r.threads - 3, a = lab_tensor(&r.lab, DTYPE_i32, 2, 3, n);
    int b = lab_tensor(&r.lab, DTYPE_i32, 2, 3, 2), wrong = 0;
    CHECK(run_lanes(&r, t, schedule));
    for (int m = 0; m < 3; m++)
      for (int w = 0; w < 2; w++) {
        double sum = 0;
        for (int k = 2 * w * r.threads; k < n && k < 2 * (w + 1) * r.threads; k++)
          sum += get(&r.lab, a, m * n + k);
        wrong += get(&r.lab, b, 2 * m + w) != sum;
      }
    CHECK_INT(wrong, 0);
  }
}

/* ---- elements of a thread ---- */

TEST(elements_of_a_thread) {
  EACH_RUN(r, t,
           "kernel @k(%a: mem<M, N, i32>, %b: mem<M, L, i32>)\n"
           "  workgroup M by 1 on 1; workgroup N by 4*THREADS on 0\n"
           "  hardware threads THREADS, vector {M: 1, N: 4*THREADS}; dynamic M; dynamic N\n"
           "  bind L = THREADS\n"
           "{ %x = read %a\n  %e = extract %x {offset = [2]}\n"
           "  write %e, %b {mapping = map 1 {M: $index0} -> {M: $index0, L: $T0}} }") {
    int n = 4 * r.threads, a = lab_tensor(&r.lab, DTYPE_i32, 2, 3, n);
    int b = lab_tensor(&r.lab, DTYPE_i32, 2, 3, r.threads), wrong = 0;
    CHECK(run_lanes(&r, t, schedule));
    for (int e = 0; e < 3 * r.threads; e++) wrong += get(&r.lab, b, e) != get(&r.lab, a, 4 * e + 2);
    CHECK_INT(wrong, 0);
  }
}

/* Which element a thread takes depends on the thread. */
TEST(element_by_expression) {
  EACH_RUN(r, t,
           "kernel @k(%a: mem<M, N, i32>, %b: mem<M, L, i32>)\n"
           "  workgroup M by 1 on 1; workgroup N by 4*THREADS on 0\n"
           "  hardware threads THREADS, vector {M: 1, N: 4*THREADS}; dynamic M; dynamic N\n"
           "  bind L = THREADS\n"
           "{ %x = read %a\n  %e = extract %x {offset = [Mod($T0, 4)]}\n"
           "  write %e, %b {mapping = map 1 {M: $index0} -> {M: $index0, L: $T0}} }") {
    int n = 4 * r.threads, a = lab_tensor(&r.lab, DTYPE_i32, 2, 3, n);
    int b = lab_tensor(&r.lab, DTYPE_i32, 2, 3, r.threads), wrong = 0;
    CHECK(run_lanes(&r, t, schedule));
    for (int e = 0; e < 3 * r.threads; e++)
      wrong += get(&r.lab, b, e) != get(&r.lab, a, 4 * e + e % 4);
    CHECK_INT(wrong, 0);
  }
}

/* ---- products ---- */

static const char product[] =
    "kernel @k(%a: mem<M, K, f16>, %b: mem<N, K, f16>, %c: mem<M, N, f32>, %d: mem<M, N, f32>)\n"
    "  workgroup M by 32 on 0; workgroup N by 32 on 1; wave M by 16; wave N by 16; tile K by 16\n"
    "  hardware threads THREADS, mma F32_16x16x16_F16; dynamic M; dynamic N; dynamic K\n"
    "{\n"
    "  %z = fill 0.0 : tile<M, N, f32>\n"
    "  %r = for K carry %acc = %z { %x = read %a\n  %y = read %b\n"
    "    %n = mma %x, %y, %acc\n  yield %n }\n"
    "  write %r, %c\n"
    "  %t = scalar $T0 + 1000 * $T1 : f32\n  %s = mul %r, %z\n  %w = add %s, %t\n"
    "  write %w, %d\n"
    "}";

static bool is_product(const Lab *l, int m, int n, int k) {
  int wrong = 0;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int e = 0; e < k; e++) sum += get(l, 0, i * k + e) * get(l, 1, j * k + e);
      wrong += get(l, 2, i * n + j) != sum;
    }
  return !wrong;
}

/* The part of each declared wave is computed by its threads; on a machine that has the instruction
 * each thread holds what docs/language.md, section 13.3, says. */
TEST(products_of_declared_waves) {
  EACH_RUN(r, t, product) {
    int m = 45, n = 37, k = 19, wrong = 0;
    lab_tensor(&r.lab, DTYPE_f16, 2, m, k), lab_tensor(&r.lab, DTYPE_f16, 2, n, k);
    lab_tensor(&r.lab, DTYPE_f32, 2, m, n);
    int d = lab_tensor(&r.lab, DTYPE_f32, 2, m, n);
    CHECK(run_lanes(&r, t, schedule));
    CHECK(is_product(&r.lab, m, n, k));
    for (int e = 0; e < m * n; e++) {
      int row = e / n % 32, column = e % n % 32, id = (int)get(&r.lab, d, e);
      wrong += id / 1000 != column / 16 || id % 1000 / r.threads != row / 16;
      if (strcmp(t, "gfx942") == 0) wrong += id % 1000 % 64 != column % 16 + 16 * (row % 16 / 4);
    }
    CHECK_INT(wrong, 0);
  }
}

/* Only the waves of one column compute, and they compute their own part. */
TEST(products_of_some_waves) {
  EACH_RUN(r, t,
           "kernel @k(%a: mem<M, K, f16>, %b: mem<N, K, f16>, %c: mem<M, N, f32>)\n"
           "  workgroup M by 32 on 0; workgroup N by 32 on 1; wave M by 16; wave N by 16\n"
           "  hardware threads THREADS, mma F32_16x16x16_F16; dynamic M; dynamic N; bind K = 16\n"
           "{\n"
           "  %z = fill 0.0 : tile<M, N, f32>\n"
           "  if ($T1 > 0) { %x = read %a\n  %y = read %b\n  %n = mma %x, %y, %z\n"
           "    write %n, %c }\n"
           "}") {
    int m = 45, n = 37, k = 16, wrong = 0;
    lab_tensor(&r.lab, DTYPE_f16, 2, m, k), lab_tensor(&r.lab, DTYPE_f16, 2, n, k);
    int c = lab_tensor(&r.lab, DTYPE_f32, 2, m, n);
    lab_fill(&r.lab, c, 7);
    CHECK(run_lanes(&r, t, schedule));
    for (int e = 0; e < m * n; e++) {
      double sum = 0;
      for (int i = 0; i < k; i++)
        sum += get(&r.lab, 0, e / n * k + i) * get(&r.lab, 1, e % n * k + i);
      wrong += get(&r.lab, c, e) != (e % n % 32 < 16 ? 7 : sum);
    }
    CHECK_INT(wrong, 0);
  }
}

TESTS_MAIN(RUN(thread_ids) RUN(symbols_differ_between_lanes) RUN(symbols_from_memory)
               RUN(branches_differ_between_lanes) RUN(copies_are_stored_by_whoever_comes)
                   RUN(loops_differ_between_lanes) RUN(loops_start_apart) RUN(held_rows_are_added)
                       RUN(sums_of_waves_are_added) RUN(all_holders_are_told)
                           RUN(first_elements_are_added) RUN(histogram) RUN(split)
                               RUN(sums_of_waves) RUN(elements_of_a_thread)
                                   RUN(element_by_expression) RUN(products_of_declared_waves)
                                       RUN(products_of_some_waves))
