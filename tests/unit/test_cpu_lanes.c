/* test_cpu_lanes.c: programs of many lanes as machine code, compared with the simulator: barriers,
 * barriers in divergent control flow, shuffles, matrix instructions. */
#include "unit/cpu_kit.h"

static int size_of_n;

static void fill(Lab *l) {
  for (int t = 0; t < l->k->params.n; t++)
    lab_tensor(l, l->k->body->args[t]->type->dtype, 1, size_of_n);
}

static bool agrees(const char *text, int n) {
  size_of_n = n;
  return cpu_agrees(text, fill, 0);
}

/* A program of two tensors of `type`, with waves of `wave` threads. */
static bool runs(const char *type, const char *block, int wave, int n, const char *body) {
  Arena *a = arena_new();
  const char *text = arena_printf(a,
                                  "thread kernel @k(%%a: mem<N, %s>, %%b: mem<N, %s>)\n"
                                  "  launch grid (2) block (%s) wave %d shared 8192\n"
                                  "  dynamic N\n{\n%s}\n",
                                  type, type, block, wave, body);
  bool ok = agrees(text, n);
  if (!ok) printf("%s in blocks of %s, waves of %d\n", type, block, wave);
  arena_free(a);
  return ok;
}

#define AT "  %at = expr $WG0*(N/2) + $T0 : index\n"
#define SELF "  %x = load %a, %at : f32\n"

/* ---- exchange ---- */

TEST(shuffles) {
  static const char *const types[] = {"f64", "f32", "f16", "i64", "i32", "i16", "i8"};
  static const char *const shuffles[] = {"xor %x {by = 1}", "xor %x {by = 6}",  "up %x {by = 1}",
                                         "up %x {by = 3}",  "down %x {by = 2}", "down %x {by = 7}"};
  Arena *a = arena_new();
  for (size_t s = 0; s < WV_LEN(shuffles); s++)
    for (size_t t = 0; t < WV_LEN(types); t++) {
      const char *body = arena_printf(
          a, "%s  %%x = load %%a, %%at : %s\n  %%y = shuffle %s\n  store %%y, %%b, %%at\n", AT,
          types[t], shuffles[s]);
      CHECK(runs(types[t], "16", 8, 32, body));
    }
  arena_free(a);
}

/* Waves of any size; several registers; shuffles of shuffled values. */
TEST(sizes_of_waves) {
  static const int waves[] = {1, 2, 3, 8, 12, 32, 64};
  static const char body[] = "  %at = expr 4*($WG0*(N/8) + $T0) : index\n"
                             "  %x = load %a, %at : vec<4, f32>\n"
                             "  %1 = shuffle xor %x {by = 1}\n  %2 = add %x, %1\n"
                             "  %3 = shuffle down %2 {by = 2}\n  %4 = shuffle up %1 {by = 1}\n"
                             "  %5 = sub %3, %4\n  store %5, %b, %at\n";
  for (size_t i = 0; i < WV_LEN(waves); i++) {
    char block[16];
    snprintf(block, sizeof block, "%d", 2 * waves[i]);
    CHECK(runs("f32", block, waves[i], 16 * waves[i], body));
  }
}

TEST(lanes_by_number) {
  CHECK(runs("i32", "64", 32, 128,
             AT "  %x = load %a, %at : i32\n  %l = expr 31 - Mod($T0, 32) : i32\n"
                "  %y = shuffle_idx %x, %l\n  %m = expr Mod($T0*5, 32) : i32\n"
                "  %z = shuffle_idx %y, %m\n  store %z, %b, %at\n"));
}

TEST(alike_in_all_lanes) {
  CHECK(runs("i32", "16", 8, 32,
             AT "  %n = expr N + 3 : i32\n  %y = shuffle xor %n {by = 1}\n"
                "  %z = splat %y : vec<1, i32>\n  store %y, %b, %at\n"));
}

/* ---- meeting ---- */

TEST(transposed_through_shared_memory) {
  static const char body[] = "  %s = alloc {base = 0} : mem<64, f32, shared>\n" AT SELF
                             "  %t = expr $T0 : i32\n  store %x, %s, %t\n  barrier workgroup\n"
                             "  %u = expr Mod($T0, 8)*8 + floor($T0/8) : i32\n"
                             "  %y = load %s, %u : f32\n  barrier workgroup\n"
                             "  %z = add %x, %y\n  store %z, %s, %t\n  workgroup_barrier\n"
                             "  %w = load %s, %u : f32\n  store %w, %b, %at\n";
  CHECK(runs("f32", "64", 8, 128, body));
  CHECK(runs("f32", "64", 64, 128, body));
}

TEST(three_dimensions_of_threads) {
  CHECK(runs("i32", "4, 3, 2", 8, 48,
             "  %t = expr $T0 + 4*($T1 + 3*$T2) : index\n"
             "  %at = expr signed($APPLY_EXPR_ARG_0) + $WG0*(N/2) %t : index\n"
             "  %v = expr 100*$T0 + 10*$T1 + $T2 : i32\n  barrier workgroup\n"
             "  %y = shuffle down %v {by = 3}\n  store %y, %b, %at\n"));
}

TEST(truth_and_symbols_are_kept) {
  CHECK(runs("f32", "32", 8, 64,
             AT SELF "  %m = expr $T0 < 13 : i1\n  %v = expr 3*$T0 : index\n"
                     "  set_symbol S %v {version = S.2}\n  barrier workgroup\n"
                     "  %i = expr Mod(S.2, N/2) + $WG0*(N/2) : index\n"
                     "  %y = load %a, %i, %m : f32\n  %z = add %x, %y\n  store %z, %b, %at\n"));
}

/* ---- different ways ---- */

TEST(branches_around_a_meeting) {
  CHECK(runs("f32", "32", 8, 64,
             AT SELF "  %c = expr floor($T0/8) < 2 : i1\n"
                     "  %r = if %c carry %p = %x {\n    %q = shuffle xor %p {by = 4}\n"
                     "    %s = add %p, %q\n    yield %s\n  }\n  store %r, %b, %at\n"));
  CHECK(runs("f32", "32", 8, 64,
             AT SELF "  %r = if ($T0 > 15) carry %p = %x {\n"
                     "    %u = if ($WG0 > 0) carry %v = %p {\n"
                     "      %q = shuffle xor %v {by = 1}\n      yield %q\n    }\n"
                     "    %s = add %u, %x\n    yield %s\n  }\n  store %r, %b, %at\n"));
}

TEST(branches_within_a_phase) {
  CHECK(runs("f32", "32", 8, 64,
             AT SELF "  %r = if ($T0 > 13) carry %p = %x {\n    %s = add %p, %p\n"
                     "    yield %s\n  }\n  barrier workgroup\n"
                     "  if (Eq(Mod($T0, 3), 0)) {\n    store %r, %b, %at\n  }\n"));
}

#define LOOP(trips)                                                                                \
  "  %r, %u = for K with {trips = " trips "} carry %p = %x, %o = %x {\n"                           \
  "    %q = shuffle xor %p {by = 1}\n    %k = expr $ARGK + 1 : i32\n    %f = cast %k : f32\n"      \
  "    %v = mul %f, %o\n    %s = add %q, %v\n    yield %s, %p\n  }\n  %z = sub %r, %u\n"           \
  "  store %z, %b, %at\n"

TEST(loops_around_a_meeting) {
  CHECK(runs("f32", "32", 8, 64, AT SELF LOOP("5")));
  CHECK(runs("f32", "32", 8, 64, AT SELF LOOP("0")));
  CHECK(runs("f32", "32", 8, 64, AT SELF LOOP("N - 61")));
  CHECK(runs("f32", "32", 8, 64, AT SELF LOOP("floor($T0/8)")));
}

TEST(loops_from_different_starts) {
  CHECK(runs("f32", "32", 8, 64,
             AT SELF "  %i = expr floor($T0/8) : index\n"
                     "  %r = for K from %i step 3 with {trips = 8} carry %p = %x {\n"
                     "    %q = shuffle xor %p {by = 1}\n    %k = expr $ARGK : i32\n"
                     "    %f = cast %k : f32\n    %s = add %q, %f\n    yield %s\n  }\n"
                     "  store %r, %b, %at\n"));
}

/* A loop in a loop, a branch in both; each wave as often as its number. */
TEST(loops_in_loops) {
  CHECK(runs("f32", "32", 8, 64,
             AT SELF "  %r = for K with {trips = floor($T0/8)} carry %p = %x {\n"
                     "    %s = for J with {trips = $ARGK + 1} carry %q = %p {\n"
                     "      %t = if ($ARGJ > 0) carry %e = %q {\n"
                     "        %u = shuffle down %e {by = 1}\n        %v = add %u, %e\n"
                     "        yield %v\n      }\n      yield %t\n    }\n    yield %s\n  }\n"
                     "  store %r, %b, %at\n"));
}

TEST(while_loops_around_a_meeting) {
  static const char body[] =
      AT SELF "  %i = expr floor($T0/8) : index\n"
              "  %r = while W as signed(W.2) (%w) from %i cond signed(W.2) < 6 carry %p = %x {\n"
              "    %q = shuffle down %p {by = 1}\n    %e = expr signed(W.2) + 2 : index\n"
              "    %s = add %p, %q\n    yield %e, %s\n  }\n  store %r, %b, %at\n";
  CHECK(runs("f32", "32", 8, 64, body));
}

/* ---- atomics: lane by lane ---- */

TEST(atomics) {
  CHECK(runs("i32", "32", 8, 64,
             AT "  %x = load %a, %at : i32\n  %zero = expr $WG0 : index\n"
                "  %o = atomic add %x, %b, %zero : i32\n"));
}

/* ---- matrix instructions ---- */

static bool multiplies(const char *mma, int wave, const char *in, const char *acc, int a, int b,
                       int c) {
  Arena *arena = arena_new();
  const char *text = arena_printf(
      arena,
      "thread kernel @k(%%a: mem<N, %s>, %%b: mem<N, %s>, %%c: mem<N, %s>)\n"
      "  launch grid (1) block (%d) wave %d\n  dynamic N\n{\n"
      "  %%i = expr $T0*%d : index\n  %%j = expr $T0*%d : index\n  %%l = expr $T0*%d : index\n"
      "  %%x = load %%a, %%i : vec<%d, %s>\n  %%y = load %%b, %%j : vec<%d, %s>\n"
      "  %%z = load %%c, %%l : vec<%d, %s>\n  %%r = wave_mma %s %%x, %%y, %%z\n"
      "  store %%r, %%c, %%l\n}\n",
      in, in, acc, 2 * wave, wave, a, b, c, a, in, b, in, c, acc, mma);
  bool ok = agrees(text, 2 * wave * (a > b ? (a > c ? a : c) : (b > c ? b : c)));
  if (!ok) printf("%s\n", mma);
  arena_free(arena);
  return ok;
}

TEST(products) {
  CHECK(multiplies("F32_16x16x16_F16", 64, "f16", "f32", 4, 4, 4));
  CHECK(multiplies("F32_32x32x8_F16", 64, "f16", "f32", 4, 4, 16));
  CHECK(multiplies("I32_16x16x32_I8", 64, "i8", "i32", 8, 8, 4));
  CHECK(multiplies("F32_16x16x32_F8", 64, "f8e4m3fnuz", "f32", 8, 8, 4));
  CHECK(multiplies("mma_m16n8k16_f32_f16", 32, "f16", "f32", 8, 4, 4));
  CHECK(multiplies("mma_m16n8k8_f32_tf32", 32, "f32", "f32", 4, 2, 4));
}

/* ---- waves that wait for each other ---- */

/* Until element `at` of %f is `value`. */
#define WAIT(n, at, value)                                                                         \
  "  %p" n " = expr " at " : index\n  %q" n " = scalar 0 : index\n"                                \
  "  while F" n " as signed(F" n ".2) (%i" n ") from %q" n " cond Ne(signed(F" n ".2), " value     \
  ") {\n    %v" n " = load %f, %p" n " {volatile} : i32\n    %w" n " = cast %v" n                  \
  " : index\n    yield %w" n "\n  }\n"
#define SET(n, at, value)                                                                          \
  "  %a" n " = expr " at " : index\n  %b" n " = expr " value " : i32\n"                            \
  "  %c" n " = expr Eq(Mod($T0, 8), 0) : i1\n  store %b" n ", %f, %a" n ", %c" n " {volatile}\n"

static void fill_flags(Lab *l) {
  lab_tensor(l, DTYPE_i32, 1, size_of_n);
  for (int t = 1; t < l->k->params.n; t++) lab_fill(l, lab_tensor(l, DTYPE_i32, 1, size_of_n), 0);
}

static const char *waiting_text(Arena *a, int grid, int block, const char *body) {
  return arena_printf(a,
                      "thread kernel @k(%%a: mem<N, i32>, %%b: mem<N, i32>, %%f: mem<N, i32>)\n"
                      "  launch grid (%d) block (%d) wave 8 shared 4096\n  dynamic N\n{\n%s}\n",
                      grid, block, body);
}

static bool waits(int block, const char *body) {
  Arena *a = arena_new();
  size_of_n = 4 * block;
  bool ok = cpu_agrees(waiting_text(a, 1, block, body), fill_flags, 0);
  arena_free(a);
  return ok;
}

#define OWN "  %at = expr $T0 : index\n  %x = load %a, %at : i32\n"

/* The wait comes first in the text: the wave that sets the flag must overtake it. */
TEST(a_wave_waits_for_one_behind) {
  static const char body[] = OWN "  if ($T0 < 8) {\n" WAIT(
      "1", "0", "1") "  %o = expr $T0 + 8 : index\n"
                     "  %y = load %b, %o : i32\n  store %y, %b, %at\n  }\n"
                     "  if ($T0 >= 8) {\n  store %x, %b, %at\n  barrier wave\n"
                     "  if ($T0 < 16) {\n" SET("2", "0", "1") "  }\n  }\n";
  CHECK(waits(16, body));
  CHECK(waits(24, body));
  CHECK(waits(20, body)); /* the last wave has four lanes */
}

/* Two waves pass a number back and forth, with a workgroup barrier after it. */
TEST(waves_take_turns) {
  static const char body[] =
      OWN "  if ($T0 < 8) {\n  for K with {trips = 9} {\n" WAIT("1", "0", "2*$ARGK")
          SET("2", "0",
              "2*$ARGK + 1") "  yield\n  }\n  }\n"
                             "  if ($T0 >= 8) {\n  for K with {trips = 9} {\n" WAIT("3", "0",
                                                                                    "2*$ARGK + 1")
                                 SET("4", "0",
                                     "2*$ARGK + 2") "  yield\n  }\n  }\n"
                                                    "  barrier workgroup\n  %z = scalar 0 : "
                                                    "index\n  %n = load %f, %z : i32\n"
                                                    "  %s = add %x, %n\n  store %s, %b, %at\n";
  CHECK(waits(16, body));
}

/* Lanes shuffle registers and communicate through shared memory around a loop that waits. */
TEST(meetings_of_waves_that_run_apart) {
  static const char body[] =
      "  %s = alloc {base = 0} : mem<64, i32, shared>\n" OWN
      "  %1 = shuffle xor %x {by = 1}\n  store %1, %s, %at\n  barrier workgroup\n"
      "  %o = expr Mod($T0 + 9, 32) : index\n  %2 = load %s, %o : i32\n"
      "  if ($T0 < 24) {\n" WAIT(
          "1", "1", "7") "  }\n"
                         "  if ($T0 >= 24) {\n" SET(
                             "2", "1",
                             "7") "  }\n"
                                  "  barrier workgroup\n  store %2, %s, %at\n  barrier workgroup\n"
                                  "  %3 = load %s, %o : i32\n  %4 = shuffle down %3 {by = 2}\n  "
                                  "store %4, %b, %at\n";
  CHECK(waits(32, body));
}

/* Each workgroup waits for the next one. */
TEST(waves_of_several_workgroups) {
  Arena *a = arena_new();
  static const char body[] =
      "  %at = expr 16*$WG0 + $T0 : index\n  %x = load %a, %at : i32\n"
      "  if ($T0 < 8) {\n  if ($WG0 < 3) {\n" WAIT("1", "$WG0 + 1", "1") "  }\n" SET(
          "2", "$WG0", "1") "  }\n  store %x, %b, %at\n";
  size_of_n = 64;
  CHECK(cpu_agrees(waiting_text(a, 4, 16, body), fill_flags, 0));
  arena_free(a);
}

/* What the compiled kernel waits for in vain, and on which line. */
static bool is_stuck(int grid, int block, const char *body, const char *what, unsigned line) {
  Arena *a = arena_new();
  size_of_n = 4 * block;
  Lab l = lab_open(waiting_text(a, grid, block, body));
  if (l.k) fill_flags(&l);
  CpuRun r = cpu_run(&l);
  const CpuWait *w = r.result >= CPU_STUCK ? &r.waits[r.result - CPU_STUCK] : NULL;
  bool ok = r.skipped || (w && strstr(w->what, what) && w->at.line == line);
  if (!ok) printf("result %d, line %u\n", r.result, w ? w->at.line : 0);
  lab_close(&l);
  arena_free(a);
  return ok;
}

TEST(deadlocks) {
  CHECK(is_stuck(1, 8, WAIT("1", "0", "1"), "memory that no other thread changes", 7));
  CHECK(is_stuck(1, 32, WAIT("1", "0", "1"), "memory that no other thread changes", 7));
  CHECK(is_stuck(3, 32, WAIT("1", "$WG0", "1") SET("2", "$WG0", "1"), "memory that", 7));
  /* One wave has ended, one waits for it at the barrier. */
  CHECK(is_stuck(
      1, 16,
      "  if ($T0 >= 8) {\n" SET("2", "0", "1") "  }\n"
                                               "  if ($T0 < 8) {\n" WAIT(
                                                   "1", "0", "1") "  barrier workgroup\n  }\n",
      "a barrier that not all", 19));
  /* One wave waits at the barrier, the other for memory. */
  CHECK(is_stuck(
      1, 16,
      "  if ($T0 < 8) {\n  barrier workgroup\n" SET(
          "2", "0", "1") "  }\n"
                         "  if ($T0 >= 8) {\n" WAIT("1", "0", "1") "  barrier workgroup\n  }\n",
      "a barrier that not all", 6));
}

/* ---- limits ---- */

TEST(too_much_is_kept) {
  Arena *a = arena_new();
  StrBuf text = {.arena = a};
  sb_puts(&text, "thread kernel @k(%a: mem<N, f64>)\n  launch grid (1) block (1024) wave 64\n"
                 "  bind N = 8\n{\n  %i = expr $T0 : i64\n  %t = cast %i : f64\n"
                 "  %x0 = splat %t : vec<4096, f64>\n"); /* 32 MB for all threads */
  for (int i = 0; i < 9; i++) sb_printf(&text, "  %%x%d = shuffle xor %%x%d {by = 1}\n", i + 1, i);
  sb_puts(&text, "  %z = pick [0] %x9\n  %at = expr Mod($T0, 8) : index\n"
                 "  store %z, %a, %at\n}\n");
  Lab l = lab_open(sb_text(&text));
  CpuHost host = cpu_host(&(HostWords){"aarch64-linux-gnu", "+neon", 0});
  CpuKernel k;
  CHECK(l.k && !cpu_emit(l.k, &host, l.cx->arena, &k));
  CHECK(l.cx->diags.last && strstr(l.cx->diags.last->text, "this much per-thread memory"));
  lab_close(&l);
  arena_free(a);
}

/* Each thread reads `n` elements under masks that many of them share, and then writes the first
 * ones, also under masks. */
static const char *many_elements(Arena *a, int n, int written) {
  enum { MASKS = 8 };
  StrBuf text = {.arena = a};
  sb_puts(&text, "thread kernel @k(%a: mem<N, i32>, %b: mem<N, i32>)\n"
                 "  launch grid (1) block (4) wave 4\n  dynamic N\n{\n  %s0 = scalar 0 : i32\n");
  for (int i = 0; i < MASKS; i++)
    sb_printf(&text, "  %%m%d = expr $T0 + %d < Mod(N, 11) : i1\n", i, i);
  for (int i = 0; i < n; i++)
    sb_printf(&text,
              "  %%at%d = expr $T0 + %d : index\n  %%x%d = load %%a, %%at%d, %%m%d : i32\n"
              "  %%s%d = add %%s%d, %%x%d\n",
              i, 4 * i, i, i, i % MASKS, i + 1, i, i);
  for (int i = 0; i < written; i++)
    sb_printf(&text, "  store %%s%d, %%b, %%at%d, %%m%d\n", n - i, i, (i + 1) % MASKS);
  sb_puts(&text, "}\n");
  return sb_text(&text);
}

static int longest_block(const char *text) {
  int lines = 0, most = 0;
  for (; text; text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL) {
    lines = *text == ' ' ? lines + 1 : 0;
    if (lines > most) most = lines;
  }
  return most;
}

/* Blocks are divided when they have 2000 instructions, and the result is what the simulator says. */
static bool is_divided(int n, int written, bool large) {
  Arena *a = arena_new();
  const char *text = many_elements(a, n, written);
  CpuHost host = cpu_host(&(HostWords){"aarch64-linux-gnu", "+neon", 0});
  CpuKernel k = {0};
  Lab l = lab_open(text);
  bool ok = l.k && cpu_emit(l.k, &host, l.cx->arena, &k) && k.large == large;
  int most = ok ? longest_block(k.text) : 0;
  lab_close(&l);
  ok = ok && most >= 2000 && most < 2050 && agrees(text, 4 * n + 8);
  arena_free(a);
  return ok;
}

/* LLVM takes a time for a block of many masked loads that is more than quadratic, and seven seconds
 * to allocate registers for as many masked stores. */
TEST(large_programs) {
  CHECK(is_divided(600, 50, false));
  CHECK(is_divided(1020, 1000, true));
}

TESTS_MAIN(RUN(shuffles) RUN(sizes_of_waves) RUN(lanes_by_number) RUN(alike_in_all_lanes)
               RUN(transposed_through_shared_memory) RUN(three_dimensions_of_threads)
                   RUN(truth_and_symbols_are_kept) RUN(branches_around_a_meeting)
                       RUN(branches_within_a_phase) RUN(loops_around_a_meeting)
                           RUN(loops_from_different_starts) RUN(loops_in_loops)
                               RUN(while_loops_around_a_meeting) RUN(atomics) RUN(products)
                                   RUN(a_wave_waits_for_one_behind) RUN(waves_take_turns)
                                       RUN(meetings_of_waves_that_run_apart)
                                           RUN(waves_of_several_workgroups) RUN(deadlocks)
                                               RUN(too_much_is_kept) RUN(large_programs))
