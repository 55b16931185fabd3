/* Conversion plans, checked by executing them; and chained matmuls. */
#include "harness.h"
#include "layout/convert.h"
#include "target/chain.h"

static Layout parsed(Harness *harness, const char *text) {
  Layout l;
  const char *wrong = layout_parse(&text, &l);
  if (wrong) printf("%s at `%s`\n", wrong, text);
  CHECK(!wrong && !*text);
  return l;
}

/* ---- executing a plan --------------------------------------------------------------------- */

/* Values are element numbers; -2 marks a register that nothing was written to. */
static void run_rounds(const ConvertPlan *p, int lanes, int xregs, int yregs, const int *x,
                       int *y) {
  for (int i = 0; i < p->nrounds; i++) {
    const ConvertRound *r = &p->rounds[i];
    for (int lane = 0; lane < lanes; lane++) {
      int there = r->flip >= 0 ? lane ^ r->flip : r->first;
      if (r->lanes[lane] < 0) continue;
      for (int b = 0; r->flip < 0 && lane >> b; b++) there += lane >> b & 1 ? r->step[b] : 0;
      for (int u = 0; u < p->unit; u++)
        y[lane * yregs + r->to * p->unit + u] = x[there * xregs + r->from * p->unit + u];
    }
  }
}

static void check_plan(Harness *harness, Arena *a, const Layout *from, const Layout *to,
                       const ConvertPlan *p) {
  if (p->kind == CONVERT_SHARED) return;
  const int *x = layout_table(a, from), *y = layout_table(a, to);
  int xregs = layout_size(from, LAYOUT_REG), yregs = layout_size(to, LAYOUT_REG);
  int lanes = layout_size(to, LAYOUT_LANE), waves = layout_size(to, LAYOUT_WAVE), wrong = 0;
  int *got = ARENA_ARRAY(a, int, lanes *yregs);
  CHECK_INT(p->groups * p->unit, yregs);
  for (int w = 0; w < waves; w++) {
    const int *xs = x + w * lanes * xregs, *ys = y + w * lanes * yregs;
    for (int i = 0; i < lanes * yregs; i++) got[i] = -2;
    for (int i = 0; p->kind != CONVERT_SHUFFLE && i < lanes * yregs; i++) {
      int r = i % yregs, source = p->source[r / p->unit] * p->unit + r % p->unit;
      if (p->kind == CONVERT_NOTHING) CHECK_INT(source, r);
      got[i] = xs[i / yregs * xregs + source];
    }
    if (p->kind == CONVERT_SHUFFLE) run_rounds(p, lanes, xregs, yregs, xs, got);
    for (int i = 0; i < lanes * yregs; i++) wrong += ys[i] >= 0 && got[i] != ys[i];
  }
  CHECK_INT(wrong, 0);
}

static ConvertPlan planned(Harness *harness, Arena *a, const char *from, const char *to, int bits) {
  Layout x = parsed(harness, from), y = parsed(harness, to);
  ConvertPlan p = convert_plan(a, &x, &y, bits);
  check_plan(harness, a, &x, &y, &p);
  return p;
}

/* ---- the four kinds -------------------------------------------------------------------------- */

TEST(equal_layouts_need_nothing) {
  Arena *a = arena_new();
  ConvertPlan p = planned(harness, a, "[16, 16] reg d0/4:1 | lane d1/16:1 d0/4:4",
                          "[16, 16] reg d0/2:1 d0/2:2 | lane d1/16:1 d0/4:4", 32);
  CHECK_INT(p.kind, CONVERT_NOTHING);
  CHECK_INT(p.cost, 0);
  /* The same holder twice: a replicated source serves a layout that divides it. */
  p = planned(harness, a, "[8] reg d0/8:1 | lane ~/8", "[8] reg d0/8:1 | lane ~/4 ~/2", 32);
  CHECK_INT(p.kind, CONVERT_NOTHING);
  arena_free(a);
}

TEST(registers_are_renamed) {
  Arena *a = arena_new();
  ConvertPlan p = planned(harness, a, "[4, 8] reg d0/4:1 | lane d1/8:1 | wave ~/2",
                          "[4, 8] reg d0/2:2 d0/2:1 | lane d1/8:1 | wave ~/2", 32);
  CHECK_INT(p.kind, CONVERT_REGISTERS);
  CHECK(p.source[1] == 2 && p.source[2] == 1);
  /* The same register in every lane, although it is a different element in each lane. */
  p = planned(harness, a, "[4, 8] reg d0/4:1 ~/2 | lane d1/8:1", "[4, 8] reg d0/4:1 | lane d1/8:1",
              32);
  CHECK_INT(p.kind, CONVERT_REGISTERS);
  p = planned(harness, a, "[8] reg d0/8:1 | lane ~/8", "[8] lane d0/8:1", 32);
  CHECK_INT(p.kind, CONVERT_SHUFFLE); /* each lane needs a different register: selects */
  CHECK_INT(p.cost, 7);
  arena_free(a);
}

TEST(butterflies_are_recognised) {
  Arena *a = arena_new();
  ConvertPlan p = planned(harness, a, "[8, 2] reg d1/2:1 | lane d0/2:1 d0/4:2",
                          "[8, 2] reg d1/2:1 | lane d0/8:1", 32);
  CHECK_INT(p.kind, CONVERT_NOTHING);
  p = planned(harness, a, "[8] lane d0/2:4 d0/2:2 d0/2:1", "[8] lane d0/2:4 d0/2:1 d0/2:2", 32);
  CHECK_INT(p.kind, CONVERT_SHUFFLE);
  CHECK_INT(p.nrounds, 1);
  CHECK_INT(p.rounds[0].flip, -1); /* a permutation of lane bits is not a butterfly */
  CHECK(p.rounds[0].whole);
  /* A 2x2 transpose: half of the values stay, the others come from the neighbour. */
  p = planned(harness, a, "[2, 2] reg d0/2:1 | lane d1/2:1", "[2, 2] reg d1/2:1 | lane d0/2:1", 32);
  CHECK_INT(p.kind, CONVERT_SHUFFLE);
  int flips = 0;
  for (int i = 0; i < p.nrounds; i++) flips += p.rounds[i].flip;
  CHECK(p.nrounds == 4 && flips == 2 && p.cost == 2 * 2 + 2);
  arena_free(a);
}

TEST(a_transpose_of_registers_and_lanes) {
  Arena *a = arena_new();
  ConvertPlan p = planned(harness, a, "[2, 8] reg d0/2:1 | lane d1/8:1",
                          "[2, 8] reg d1/2:1 | lane d0/2:1 d1/4:2", 32);
  CHECK_INT(p.kind, CONVERT_SHUFFLE);
  CHECK_INT(p.nrounds, 4);
  /* The whole tile in each lane: the last bit of the lane chooses, nothing is shuffled. */
  p = planned(harness, a, "[2, 4] reg d0/2:1 | lane d1/4:1 ~/2", "[2, 4] lane d1/4:1 d0/2:1", 32);
  CHECK_INT(p.kind, CONVERT_SHUFFLE);
  CHECK(p.rounds[0].flip == 0 && p.rounds[1].flip == 0 && p.cost == 1);
  arena_free(a);
}

TEST(halves_travel_in_words) {
  Arena *a = arena_new();
  const char *x = "[16, 8] reg d1/2:1 d0/2:8 | lane d1/4:2 d0/8:1";
  const char *y = "[16, 8] reg d1/2:1 d0/2:8 | lane d0/8:1 d1/4:2";
  ConvertPlan p = planned(harness, a, x, y, 32), h = planned(harness, a, x, y, 16);
  CHECK(p.unit == 1 && h.unit == 2);
  CHECK_INT(p.nrounds, 4);
  CHECK_INT(h.nrounds, 2);
  arena_free(a);
}

TEST(between_waves_only_memory_helps) {
  Arena *a = arena_new();
  ConvertPlan p = planned(harness, a, "[8, 4] lane d0/8:1 | wave d1/4:1",
                          "[8, 4] lane d1/4:1 d0/2:1 | wave d0/4:2", 32);
  CHECK_INT(p.kind, CONVERT_SHARED);
  p = planned(harness, a, "[8] lane d0/8:1", "[8] reg d0/2:1 | lane d0/4:2", 32);
  CHECK_INT(p.kind, CONVERT_SHARED); /* waves of another size */
  p = planned(harness, a, "[8, 4] lane d0/8:1 | wave ~/4", "[8, 4] lane d0/8:1 | wave ~/4", 32);
  arena_free(a);
}

/* ---- property: any plan is right ------------------------------------------------------------- */

static unsigned next_random(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* A random cover of a 16x16 tile by 8 or 16 lanes and 2 waves: bits of the coordinates, shuffled.
 */
static Layout random_layout(unsigned *seed, int lane_bits) {
  int bits[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int i = 7; i > 0; i--) {
    int j = (int)(next_random(seed) % (unsigned)(i + 1)), t = bits[i];
    bits[i] = bits[j];
    bits[j] = t;
  }
  Layout l = layout_of(2, (int[]){16, 16});
  if (next_random(seed) % 2) layout_repeat(&l, LAYOUT_LANE, 2);
  else lane_bits++;
  for (int i = 0; i < 8; i++)
    layout_push(&l,
                i < lane_bits    ? LAYOUT_LANE
                : i == lane_bits ? LAYOUT_WAVE
                                 : LAYOUT_REG,
                bits[i] / 4, 2, 1 << bits[i] % 4);
  return l;
}

TEST(random_plans_are_right) {
  Arena *a = arena_new();
  unsigned seed = 3;
  int kinds[4] = {0};
  for (int i = 0; i < 300; i++, arena_reset(a)) {
    Layout x = random_layout(&seed, 3), y = random_layout(&seed, 3);
    if (i % 3 == 0) { /* the same wave bit: shuffles become possible */
      y = x;
      Digit *d = y.part[LAYOUT_LANE].at, t = d[1];
      d[1] = d[2], d[2] = t;
      if (i % 2) t = d[1], d[1] = y.part[LAYOUT_REG].at[0], y.part[LAYOUT_REG].at[0] = t;
    }
    ConvertPlan p = convert_plan(a, &x, &y, (int[]){8, 16, 32}[i / 3 % 3]);
    check_plan(harness, a, &x, &y, &p);
    kinds[p.kind]++;
  }
  CHECK(kinds[CONVERT_SHUFFLE] > 50 && kinds[CONVERT_SHARED] > 50);
  arena_free(a);
}

/* ---- chains
 * -------------------------------------------------------------------------------------- */

/* Every register of the operand, in every thread, gets the row it needs and the K given by pi. */
static void check_chain(Harness *harness, const ChainUse *u, const Chain *c) {
  Layout have, want;
  mma_fragment(u->first, MMA_C, &have);
  mma_fragment(u->second, u->as_rhs != c->swap_second ? MMA_B : MMA_A, &want);
  have = layout_select(&have, u->contracts_m != c->swap_first ? (int[]){1, 0} : (int[]){0, 1}, 2);
  LayoutTiling t = layout_tiling(2, (int[]){u->rows, u->k}, NULL);
  have = layout_tile(&have, &t);
  want = layout_tile(&want, &t);
  int wrong = 0;
  for (int w = 0; w < layout_size(&want, LAYOUT_WAVE); w++)
    for (int l = 0; l < layout_size(&want, LAYOUT_LANE); l++)
      for (int r = 0; r < c->registers; r++) {
        int x[LAYOUT_DIMS], y[LAYOUT_DIMS];
        layout_at(&have, c->source[r], l, w, x);
        layout_at(&want, r, l, w, y);
        wrong += x[0] != y[0] || x[1] != c->pi[y[1]];
      }
  CHECK_INT(wrong, 0);
  unsigned char seen[1024] = {0};
  for (int i = 0; i < u->k; i++) CHECK(c->pi[i] < u->k && !seen[c->pi[i]]++);
}

/* S^T = K * Q^T, then P as rhs: attention as the public templates write it. */
static Chain attention(Harness *harness, Arena *a, const char *first, const char *second, int rows,
                       int k) {
  ChainUse u = {mma_find(first), mma_find(second), true, true, rows, k};
  Chain c = chain_find(a, &u);
  if (c.found) check_chain(harness, &u, &c);
  return c;
}

TEST(mfma_chains) {
  Arena *a = arena_new();
  Chain c = attention(harness, a, "F32_16x16x16_F16", "F32_16x16x16_F16", 16, 16);
  CHECK(c.found && c.identity && !c.swap_first && !c.swap_second);
  c = attention(harness, a, "F32_16x16x16_F16", "F32_16x16x16_F16", 32, 64);
  CHECK(c.found && c.identity); /* with copies */
  c = attention(harness, a, "F32_32x32x8_F16", "F32_32x32x8_F16", 32, 32);
  CHECK(c.found && c.identity && c.registers == 16);
  for (int r = 0; r < 16; r++) CHECK_INT(c.source[r], r); /* run after run, in order */
  c = attention(harness, a, "F32_16x16x32_F8", "F32_16x16x32_K4_F8", 16, 32);
  CHECK(c.found && c.identity); /* this is the purpose of the K4 rows */
  c = attention(harness, a, "F32_16x16x32_F8", "F32_16x16x32_F8", 16, 32);
  CHECK(c.found && !c.identity); /* the same without them: V is read in that order */
  for (int g = 0; g < 4; g++)
    for (int j = 0; j < 8; j++) CHECK_INT(c.pi[8 * g + j], 16 * (j / 4) + 4 * g + j % 4);
  c = attention(harness, a, "F32_32x32x8_F16", "F32_16x16x16_F16", 32, 32);
  CHECK(!c.found);
  c = attention(harness, a, "F32_16x16x16_F16", "F32_32x32x8_F16", 32, 32);
  CHECK(!c.found);
  c = attention(harness, a, "F32_16x16x16_F16", "mma_m16n8k16_f32_f16", 16, 16);
  CHECK(!c.found); /* other waves */
  arena_free(a);
}

TEST(mfma_results_that_are_not_transposed_need_a_swap) {
  Arena *a = arena_new();
  const MmaInfo *row = mma_find("F32_16x16x16_F16");
  ChainUse u = {row, row, false, false, 16, 16}; /* S = Q * K^T, then P as lhs */
  Chain c = chain_find(a, &u);
  CHECK(c.found && c.identity && c.swap_first && !c.swap_second);
  check_chain(harness, &u, &c);
  arena_free(a);
}

TEST(nvidia_chains) {
  Arena *a = arena_new();
  const MmaInfo *h = mma_find("mma_m16n8k16_f32_f16"), *q = mma_find("mma_m16n8k32_f32_f8");
  ChainUse u = {h, h, false, false, 16, 64};
  Chain c = chain_find(a, &u);
  CHECK(c.found && c.identity && !c.swap_first && !c.swap_second);
  check_chain(harness, &u, &c);
  u = (ChainUse){q, q, false, false, 16, 64}; /* 8 bits: with a permutation */
  c = chain_find(a, &u);
  CHECK(c.found && !c.identity);
  check_chain(harness, &u, &c);
  u = (ChainUse){h, h, true, true, 16, 64}; /* written for MFMA: two copies of B, 8 rows each */
  c = chain_find(a, &u);
  CHECK(c.found && c.identity && c.swap_first && !c.swap_second);
  check_chain(harness, &u, &c);
  arena_free(a);
}

TEST(wgmma_chains) {
  Arena *a = arena_new();
  const MmaInfo *s = mma_find("wgmma_m64n128k16_f32_f16"), *o = mma_find("wgmma_m64n64k16_f32_f16");
  ChainUse u = {s, o, false, false, 64, 128};
  Chain c = chain_find(a, &u);
  CHECK(c.found && c.identity && !c.swap_first);
  check_chain(harness, &u, &c);
  for (int r = 0; r < c.registers; r++) CHECK_INT(c.source[r], r); /* in order, 8 for each k16 */
  u = (ChainUse){s, o, true, true, 64, 128}; /* as rhs it would be in shared memory: swap */
  c = chain_find(a, &u);
  CHECK(c.found && c.swap_first && c.swap_second);
  u = (ChainUse){mma_find("wgmma_m64n128k32_f32_f8"),
                 mma_find("wgmma_m64n64k32_f32_f8"),
                 false,
                 false,
                 64,
                 128};
  c = chain_find(a, &u);
  CHECK(c.found && !c.identity);
  check_chain(harness, &u, &c);
  arena_free(a);
}

TEST(scales_bind_their_block) {
  Arena *a = arena_new();
  /* The result has 4 consecutive rows per lane, the operand needs 32: the permutation would mix
   * elements with different scales. */
  ChainUse u = {mma_find("F32_16x16x32_F8"), mma_find("F32_16x16x128_F6F4"), true, true, 16, 128};
  CHECK(!chain_find(a, &u).found);
  u.second = mma_find("F32_16x16x32_F8");
  CHECK(chain_find(a, &u).found);
  arena_free(a);
}

TESTS_MAIN(RUN(equal_layouts_need_nothing) RUN(registers_are_renamed)
               RUN(butterflies_are_recognised) RUN(a_transpose_of_registers_and_lanes)
                   RUN(halves_travel_in_words) RUN(between_waves_only_memory_helps)
                       RUN(random_plans_are_right) RUN(mfma_chains)
                           RUN(mfma_results_that_are_not_transposed_need_a_swap) RUN(nvidia_chains)
                               RUN(wgmma_chains) RUN(scales_bind_their_block))
