/* test_sim.c: every op of one lane's program has a meaning, and every check of the simulator
 * detects its mistake in the smallest kernel that has it. */
#include "unit/sim_kit.h"

#include "backend/sim/sim_state.h"

/* An op of the THREAD level without a row cannot be run: this detects a partly added op. */
TEST(every_op_runs) {
  for (int i = 0; i < OP_COUNT; i++) {
    bool lane = (op_info[i].level & LEVEL_THREAD) != 0;
    if (lane != (sim_step[i] != NULL)) printf("`%s`\n", op_info[i].name);
    CHECK(lane == (sim_step[i] != NULL));
  }
}

/* ---- small kernels ---- */

#define HEAD "thread kernel @k(%a: mem<64, i32>, %b: mem<64, i32>, %g: mem<64, f32>)\n"
#define ONE HEAD "  launch grid (1) block (32) wave 32 shared 1024\n{\n"
#define TWO HEAD "  launch grid (1) block (64) wave 32 shared 1024\n{\n"
#define GRID HEAD "  launch grid (2) block (32) wave 32 shared 1024\n{\n"

static void fill(Lab *l) {
  lab_tensor(l, DTYPE_i32, 1, 64);
  lab_fill(l, lab_tensor(l, DTYPE_i32, 1, 64), 0);
  lab_tensor(l, DTYPE_f32, 1, 64);
}

static bool finds(const char *text, const char *code, const char *blamed, const char *noted) {
  Trial t = trial_text(text);
  t.fill = fill;
  return trial_finds(&t, code, blamed, noted);
}

static bool passes(const char *text) {
  Trial t = trial_text(text);
  t.fill = fill;
  return trial_passes(&t, NULL);
}

/* ---- addresses ---- */

TEST(out_of_bounds) {
  CHECK(finds(ONE "  %i = expr 2*$T0 + 3 : i32\n  %x = load %a, %i : i32\n}\n", "E0801", "load %a",
              NULL));
  CHECK(finds(ONE "  %i = expr $T0 - 1 : i32\n  %x = load %a, %i : i32\n}\n", "E0801", "load %a",
              NULL));
  CHECK(finds(ONE "  %s = alloc : mem<8, i32, shared>\n  %i = expr floor($T0/4) + 1 : i32\n  %x = "
                  "expr 1 : i32\n"
                  "  store %x, %s, %i\n}\n",
              "E0801", "store %x", NULL));
  CHECK(passes(ONE "  %i = expr 2*$T0 + 3 : i32\n  %in = expr 2*$T0 + 3 < 64 : i1\n  %x = load %a, "
                   "%i, %in : i32\n"
                   "  store %x, %b, %i, %in\n}\n"));
}

/* Also where the access is masked off. */
TEST(overflow) {
  CHECK(finds(ONE "  %i = expr $T0*100000000 : i32\n  %in = expr $T0 < 1 : i1\n  %x = load %a, %i, "
                  "%in : i32\n}\n",
              "E0802", "expr $T0*100000000", NULL));
  CHECK(finds(ONE "  %i = expr 9223372036854775807*($T0 + 1) : index\n  %in = expr $T0 < 0 : i1\n"
                  "  %x = load %a, %i, %in : i32\n}\n",
              "E0802", "922337", NULL));
  CHECK(passes(ONE "  %i = expr $T0*100000000 : index\n  %in = expr $T0 < 1 : i1\n  %x = load %a, "
                   "%i, %in : i32\n}\n"));
}

/* Of loaded numbers: only where the value is used. */
#define LARGE                                                                                      \
  ONE "  %t = expr $T0*100000000 : index\n  %i = expr 8*$APPLY_EXPR_ARG_0 %t : i32\n"              \
      "  %in = expr $T0 < 1 : i1\n"
TEST(overflow_of_numbers) {
  CHECK(passes(LARGE "  %x = load %a, %i, %in : i32\n}\n"));
  CHECK(finds(LARGE "  %x = load %a, %i : i32\n}\n", "E0802", "expr 8*", NULL));
  CHECK(finds(LARGE "  %j = expr $APPLY_EXPR_ARG_0/2 %i : index\n  %x = load %a, %j : i32\n}\n",
              "E0802", "expr 8*", NULL));
}

TEST(misaligned) {
  CHECK(finds(ONE "  %i = expr 2*Mod($T0, 2) : i32\n  %x = load %a, %i : vec<4, i32>\n}\n", "E0806",
              "load %a", NULL));
  CHECK(passes(ONE "  %i = expr 2*Mod($T0, 2) : i32\n  %x = load %a, %i : vec<2, i32>\n}\n"));
}

/* ---- values ---- */

TEST(uninitialised) {
  const char *read =
      ONE "  %s = alloc : mem<64, i32, shared>\n  %i = expr $T0 : i32\n  %x = load %s, %i : i32\n";
  Arena *a = arena_new();
  CHECK(passes(arena_printf(a, "%s}\n", read))); /* nothing depends on it */
  CHECK(finds(arena_printf(a, "%s  %%y = add %%x, %%i\n  store %%y, %%b, %%i\n}\n", read), "E0804",
              "store %y", NULL));
  CHECK(
      finds(arena_printf(a, "%s  %%y = load %%a, %%x : i32\n}\n", read), "E0804", "load %a", NULL));
  CHECK(finds(
      arena_printf(a, "%s  %%c = lt %%x, %%i\n  if %%c {\n    store %%i, %%b, %%i\n  }\n}\n", read),
      "E0804", "if %c", NULL));
  CHECK(finds(arena_printf(a, "%s  %%n = atomic add %%i, %%s, %%i\n}\n", read), "E0804", "atomic",
              NULL));
  CHECK(finds(arena_printf(a, "%s  mbar_wait %%m, %%z, %%x\n}\n",
                           ONE "  %m = alloc {base = 512} : mem<1, i64, shared>\n  %s = alloc "
                               "{base = 0} : mem<64, i32, shared>\n"
                               "  %z = expr 0 : i32\n  %i = expr $T0 : i32\n  if ($T0 < 1) {\n    "
                               "mbar_init %m, %z {count = 1}\n  }\n"
                               "  barrier wave\n  %x = load %s, %i : i32\n"),
              "E0804", "mbar_wait", NULL));
  arena_free(a);
}

TEST(selected_values_are_defined) {
  CHECK(passes(
      ONE "  %s = alloc : mem<64, i32, shared>\n  %i = expr $T0 : i32\n  %x = load %s, %i : i32\n"
          "  %no = expr $T0 < 0 : i1\n  %y = select %no, %x, %i\n  store %y, %b, %i\n}\n"));
}

TEST(shuffle_from_an_inactive_lane) {
  CHECK(finds(ONE "  %i = expr $T0 : i32\n  if ($T0 < 4) {\n    %x = shuffle xor %i {by = 4}\n    "
                  "store %x, %b, %i\n  }\n}\n",
              "E0805", "shuffle", NULL));
}

TEST(division) {
  CHECK(finds(ONE "  %i = expr $T0 : i32\n  %x = div %i, %i\n  store %x, %b, %i\n}\n", "E0707",
              "div", NULL));
  CHECK(finds(ONE "  %i = expr $T0 : i32\n  %x = mod %i, %i\n  %y = add %x, %i\n"
                  "  %z = load %a, %y : i32\n}\n",
              "E0707", "mod", NULL));
  CHECK(passes(ONE "  %i = expr $T0 : i32\n  %x = floordiv %i, %i\n  %some = expr $T0 > 0 : i1\n"
                   "  store %x, %b, %i, %some\n}\n"));
  CHECK(passes(ONE "  %i = expr $T0 : i32\n  if ($T0 > 0) {\n    %x = div %i, %i\n    store %x, "
                   "%b, %i\n  }\n}\n"));
}

TEST(not_finite) {
  const char *text = ONE "  %i = expr $T0 : i32\n  %z = scalar 0.0 : f32\n  %l = log2 %z\n  %x = "
                         "sub %l, %l\n  store %x, %g, %i\n}\n";
  CHECK(passes(text));
  Trial t = trial_text(text);
  t.fill = fill;
  t.options.nonfinite = true;
  CHECK(trial_finds(&t, "E0811", "log2", NULL));
}

/* ---- races ---- */

TEST(races) {
  /* lanes of one op: storing the same bits is not a race, different ones are */
  CHECK(passes(ONE "  %z = expr 0 : i32\n  store %z, %b, %z\n}\n"));
  CHECK(finds(ONE "  %z = expr 0 : i32\n  %i = expr $T0 : i32\n  store %i, %b, %z\n}\n", "E0803",
              "store %i", "store %i"));
  /* waves of a workgroup */
  CHECK(passes(TWO "  %z = expr 0 : i32\n  store %z, %b, %z\n}\n"));
  CHECK(finds(TWO "  %z = expr 0 : i32\n  %i = expr floor($T0/32) : i32\n  store %i, %b, %z\n}\n",
              "E0803", "store %i", "store %i"));
  /* reads do not race; atomics race with other accesses, not with each other */
  CHECK(passes(TWO
               "  %z = expr 0 : i32\n  %x = load %a, %z : i32\n  %o = atomic add %z, %b, %z\n}\n"));
  CHECK(finds(TWO
              "  %z = expr 0 : i32\n  %o = atomic add %z, %b, %z\n  %x = load %b, %z : i32\n}\n",
              "E0803", "load %b", "atomic"));
  /* an ordinary write after other atomics is not forgotten */
  CHECK(finds(TWO "  %z = expr 0 : i32\n  if ($T0 < 1) {\n    store %z, %b, %z\n  }\n"
                  "  %o = atomic add %z, %b, %z\n}\n",
              "E0803", "atomic", "store %z"));
  /* nor is an atomic before a later one that is ordered with the reader */
  const char *later = "  if (Eq($T0, 1)) {\n    %p = atomic add %z, %b, %z\n";
  const char *earlier = ONE "  %z = expr 0 : i32\n  if ($T0 < 1) {\n    %o = atomic max %z, %b, "
                            "%z\n  }\n";
  Arena *arena = arena_new();
  CHECK(finds(arena_printf(arena, "%s%s    %%x = load %%b, %%z : i32\n  }\n}\n", earlier, later),
              "E0803", "load %b", "atomic max"));
  CHECK(finds(arena_printf(arena, "%s%s    store %%z, %%b, %%z\n  }\n}\n", earlier, later), "E0803",
              "store %z", "atomic max"));
  CHECK(passes(arena_printf(arena, "%s%s  }\n  barrier wave\n  %%x = load %%b, %%z : i32\n}\n",
                            earlier, later)));
  arena_free(arena);
  /* a workgroup barrier also orders global memory */
  CHECK(passes(
      TWO
      "  %i = expr $T0 : i32\n  %j = expr 63 - $T0 : i32\n  store %i, %b, %i\n  barrier workgroup\n"
      "  %x = load %b, %j : i32\n}\n"));
}

TEST(workgroups) {
  CHECK(finds(GRID "  %i = expr $T0 : i32\n  store %i, %b, %i\n}\n", "E0808", "store %i",
              "store %i"));
  CHECK(passes(GRID "  %i = expr 32*$WG0 + $T0 : i32\n  store %i, %b, %i\n}\n"));
  CHECK(finds(
      GRID
      "  %i = expr 32*$WG0 + $T0 : i32\n  %j = expr 32 - 32*$WG0 + $T0 : i32\n  store %i, %b, %i\n"
      "  %x = load %b, %j : i32\n}\n",
      "E0803", "load %b", "store %i"));
}

static void fill_halves(Lab *l) { lab_tensor(l, DTYPE_i4, 1, 64); }

/* Each lane stores its own number to the element `at`, then executes `more`. */
static Trial halves(const char *at, const char *more) {
  Trial t = trial_text("");
  t.text = arena_printf(t.arena,
                        "thread kernel @k(%%a: mem<64, i4>)\n  launch grid (1) block (32) wave 32\n"
                        "{\n  %%t = expr $T0 : i32\n  %%x = cast %%t : i4\n  %%i = expr %s : i32\n"
                        "  store %%x, %%a, %%i\n%s}\n",
                        at, more);
  t.fill = fill_halves;
  return t;
}

/* A store of half a byte does not conflict with the other half. */
TEST(halves_of_bytes) {
  Trial t = halves("$T0", "");
  CHECK(trial_passes(&t, NULL));
  t = halves("floor($T0/2)", "");
  CHECK(trial_finds(&t, "E0803", "store %x", "store %x"));
  t = halves("$T0", "  %j = expr 1 + $T0 : i32\n  %y = load %a, %j : i4\n");
  CHECK(trial_finds(&t, "E0803", "load %a", "store %x"));
}

static bool is_sixty_four(const Lab *l) { return get(l, 1, 0) == 64; }

TEST(atomics) {
  Trial t = trial_text(
      GRID "  %z = expr 0 : i32\n  %one = expr 1 : i32\n  %o = atomic add %one, %b, %z\n}\n");
  t.fill = fill;
  CHECK(trial_passes(&t, is_sixty_four));
}

/* ---- barriers ---- */

TEST(divergence) {
  CHECK(finds(ONE "  if ($T0 < 16) {\n    barrier workgroup\n  }\n}\n", "E0805",
              "barrier workgroup", NULL));
  CHECK(finds(TWO "  if ($T0 < 32) {\n    barrier workgroup\n  }\n}\n", "E0805",
              "barrier workgroup", NULL));
  CHECK(passes(TWO "  if ($T0 < 32) {\n    barrier named {bar = 3, count = 32}\n  }\n}\n"));
  CHECK(finds(ONE "  %z = scalar 0.0 : f16\n  %y = scalar 0.0 : f32\n  %x = splat %z : vec<8, "
                  "f16>\n  %w = splat %z : vec<4, f16>\n"
                  "  %v = splat %y : vec<4, f32>\n  if ($T0 < 8) {\n    %d = wave_mma "
                  "mma_m16n8k16_f32_f16 %x, %w, %v\n  }\n}\n",
              "E0805", "wave_mma", NULL));
}

TEST(named_barriers) {
  const char *order = TWO
      "  %s = alloc : mem<64, i32, shared>\n  %i = expr $T0 : i32\n"
      "  if ($T0 < 32) {\n    store %i, %s, %i\n    barrier named {bar = 1, count = 64, arrive}\n  "
      "}\n"
      "  if ($T0 >= 32) {\n    barrier named {bar = 1, count = 64}\n    %j = expr $T0 - 32 : i32\n"
      "    %x = load %s, %j : i32\n    store %x, %b, %i\n  }\n}\n";
  CHECK(passes(order));
  Trial t = trial_text(order);
  t.fill = fill;
  trial_replace(&t, "    barrier named {bar = 1, count = 64}\n",
                "    barrier named {bar = 2, count = 32}\n");
  CHECK(trial_finds(&t, "E0803", "load %s", "store %i"));
  CHECK(finds(
      TWO
      "  barrier named {bar = 1, count = 32, arrive}\n  barrier named {bar = 2, count = 96}\n}\n",
      "E0807", "barrier named {bar = 2", NULL));
}

TEST(split_barriers) {
  const char *text =
      TWO "  %s = alloc : mem<64, i32, shared>\n  %i = expr $T0 : i32\n  %j = expr 63 - $T0 : i32\n"
          "  store %i, %s, %i\n  barrier_signal\n  barrier_wait\n  %x = load %s, %j : i32\n  store "
          "%x, %b, %i\n}\n";
  CHECK(passes(text));
  Trial t = trial_text(text);
  t.fill = fill;
  trial_replace(&t, "  barrier_signal\n  barrier_wait\n", "");
  CHECK(trial_finds(&t, "E0803", "load %s", "store %i"));
}

TEST(clusters) {
  CHECK(passes(
      HEAD "  launch grid (2) block (32) wave 32 cluster (2)\n{\n  %i = expr 32*$WG0 + $T0 : i32\n"
           "  %j = expr 63 - 32*$WG0 - $T0 : i32\n  store %i, %b, %i\n  barrier cluster\n  %x = "
           "load %b, %j : i32\n}\n"));
}

TEST(deadlock) {
  CHECK(finds(
      ONE "  %z = expr 0 : index\n  while F as signed(F.2) (%f) from %z cond signed(F.2) < 1 {\n"
          "    %v = load %b, %z {volatile} : i32\n    %n = cast %v : index\n    yield %n\n  }\n}\n",
      "E0807", "while F", NULL));
  Trial t = trial_text(
      ONE "  %z = expr 0 : index\n  while F as signed(F.2) (%f) from %z cond signed(F.2) > -1 {\n"
          "    %n = expr $APPLY_EXPR_ARG_0 + 1 %f : index\n    yield %n\n  }\n}\n");
  t.fill = fill;
  t.options.steps = 1000;
  CHECK(trial_finds(&t, "E0814", "", NULL));
}

/* ---- mbarriers ---- */

#define MBAR ONE "  %m = alloc : mem<2, i64, shared>\n  %z = expr 0 : i32\n"

TEST(mbarriers) {
  CHECK(finds(MBAR "  mbar_wait %m, %z, %z\n}\n", "E0809", "mbar_wait", NULL));
  CHECK(finds(MBAR "  if ($T0 < 1) {\n    mbar_init %m, %z {count = 1}\n    mbar_init %m, %z "
                   "{count = 1}\n  }\n}\n",
              "E0809", "mbar_init", "mbar_init"));
  CHECK(passes(MBAR "  if ($T0 < 1) {\n    mbar_init %m, %z {count = 1}\n    mbar_inval %m, %z\n   "
                    " mbar_init %m, %z {count = 2}\n  }\n}\n"));
  CHECK(finds(
      MBAR "  if ($T0 < 1) {\n    mbar_init %m, %z {count = 2}\n    mbar_arrive %m, %z\n  }\n}\n",
      "E0809", "mbar_init", NULL));
  CHECK(finds(
      MBAR
      "  if ($T0 < 1) {\n    mbar_init %m, %z {count = 1}\n    mbar_expect %m, %z {bytes = 16}\n"
      "    mbar_arrive %m, %z\n    mbar_arrive %m, %z\n  }\n}\n",
      "E0809", "mbar_arrive", NULL));
  /* two phases ahead */
  CHECK(finds(MBAR "  if ($T0 < 1) {\n    mbar_init %m, %z {count = 1}\n    mbar_arrive %m, %z\n   "
                   " mbar_arrive %m, %z\n"
                   "    mbar_wait %m, %z, %z\n  }\n}\n",
              "E0809", "mbar_wait", NULL));
}

/* ---- tensor stores and counted copies ---- */

static const char store_box[] =
    HEAD "  launch grid (1) block (32) wave 32 shared 1024\n{\n  %s = alloc : mem<64, i32, "
         "shared>\n  %i = expr $T0 : i32\n"
         "  %j = expr $T0 + 32 : i32\n  %z = expr 0 : i32\n  store %i, %s, %i\n  store %i, %s, "
         "%j\n  fence_proxy\n  barrier workgroup\n"
         "  if ($T0 < 1) {\n    tma_store %s, %z, %b, %z {box = [64]}\n    bulk_commit\n    "
         "bulk_wait 0 {read}\n  }\n"
         "  barrier workgroup\n  store %z, %s, %i\n}\n";

static bool finds_in_store(const char *from, const char *to, const char *code, const char *blamed,
                           const char *noted) {
  Trial t = trial_edited(trial_text(store_box), fill, from, to);
  return trial_finds(&t, code, blamed, noted);
}

TEST(tensor_store) {
  CHECK(passes(store_box));
  CHECK(finds_in_store("  fence_proxy\n", "", "E0810", "tma_store", "store %i"));
  CHECK(finds_in_store("    bulk_wait 0 {read}\n", "", "E0803", "store %z", "tma_store"));
  CHECK(finds_in_store("    bulk_commit\n", "", "E0803", "store %z", "tma_store"));
  CHECK(finds_in_store("  store %i, %s, %j\n", "", "E0804", "tma_store", NULL));
  CHECK(finds_in_store("  store %z, %s, %i\n}", "  %x = load %b, %i : i32\n}", "E0803", "load %b",
                       "tma_store"));
}

static const char counted[] =
    "thread kernel @k(%a: mem<64, i32>, %b: mem<64, i32>, %g: mem<64, f32>)\n  launch grid (1) "
    "block (64) wave 64 shared 1024\n{\n"
    "  %s = alloc : mem<2, 64, i32, shared>\n  %i = expr $T0 : i32\n  %j = expr $T0 + 64 : i32\n"
    "  copy_async %s, %i, %a, %i {bytes = 4, counted}\n  copy_async %s, %j, %a, %i {bytes = 4, "
    "counted}\n"
    "  counter_wait {counters = {load: 1}}\n  %x = load %s, %i : i32\n  store %x, %b, %i\n}\n";

TEST(counted_copies) {
  CHECK(passes(counted));
  Trial t = trial_text(counted);
  t.fill = fill;
  trial_replace(&t, "{load: 1}", "{load: 2}");
  CHECK(trial_finds(&t, "E0803", "load %s", "copy_async"));
}

/* ---- divergent code ---- */

static bool is_divergent_sum(const Lab *l) {
  for (int i = 0; i < 32; i++)
    if (get(l, 1, i) != (i % 2 ? i * i : 100)) return false;
  return true;
}

/* Odd lanes loop as often as their number; even ones keep their carried value. */
TEST(masks) {
  Trial t = trial_text(ONE "  %i = expr $T0 : i32\n  %z = expr 100*(1 - Mod($T0, 2)) : i32\n"
                           "  %odd = expr Eq(Mod($T0, 2), 1) : i1\n  %r = if %odd carry %p = %z {\n"
                           "    %s = for K with {trips = $T0} carry %acc = %p {\n      %n = add "
                           "%acc, %i\n      yield %n\n    }\n"
                           "    yield %s\n  }\n  store %r, %b, %i\n}\n");
  t.fill = fill;
  CHECK(trial_passes(&t, is_divergent_sum));
}

/* ---- costs ---- */

TEST(costs) {
  Lab l = lab_open(HEAD "  launch grid (1) block (32) wave 32 shared 4096\n{\n  %s = alloc : "
                        "mem<32, 32, i32, shared>\n"
                        "  %i = expr $T0 : i32\n  %c = expr 32*$T0 : i32\n  %x = load %a, %i : "
                        "i32\n  store %x, %s, %c\n"
                        "  %j = expr 2*$T0 : i32\n  %y = load %a, %j : i32\n}\n");
  fill(&l);
  SimReport r = {0};
  CHECK(sim_lab(&l, NULL, &r));
  uint64_t conflicts = 0, sectors = 0, needed = 0;
  for (int i = 0; i < r.nlines; i++) {
    conflicts += r.line[i].conflicts;
    sectors += r.line[i].sectors;
    needed += r.line[i].sectors_needed;
  }
  CHECK_INT((long long)conflicts, 31); /* a column of 32 words: one bank */
  CHECK_INT((long long)sectors, 4 + 8);
  CHECK_INT((long long)needed, 4 + 4);
  CHECK_INT((long long)r.total.instructions, 6);
  lab_close(&l);
}

TESTS_MAIN(RUN(every_op_runs) RUN(out_of_bounds) RUN(overflow) RUN(overflow_of_numbers)
               RUN(misaligned) RUN(uninitialised) RUN(selected_values_are_defined)
                   RUN(shuffle_from_an_inactive_lane) RUN(division) RUN(not_finite) RUN(races)
                       RUN(workgroups) RUN(halves_of_bytes) RUN(atomics) RUN(divergence)
                           RUN(named_barriers) RUN(split_barriers) RUN(clusters) RUN(deadlock)
                               RUN(mbarriers) RUN(tensor_store) RUN(counted_copies) RUN(masks)
                                   RUN(costs))
