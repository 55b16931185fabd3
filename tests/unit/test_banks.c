/* The bank model, compared with its definition, and layouts that are known to be good. */
#include "harness.h"
#include "target/banks.h"

static const TargetInfo *machine(const char *name) { return target_find(name).machine; }

/* ---- the definition, written out ------------------------------------------------------------- */

static unsigned next_random(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* Serve every bank one word per cycle until all lanes of the phase have theirs. */
static int cycles_of_phase(int banks, const int *address, const int *lanes, int n, int bytes) {
  enum { WORDS = 4096 };
  static unsigned char wanted[WORDS];
  int cycles = 0, left = 0;
  memset(wanted, 0, sizeof wanted);
  for (int i = 0; i < n; i++)
    for (int b = 0; address[lanes[i]] >= 0 && b < bytes; b++) {
      int word = (address[lanes[i]] + b) / 4;
      left += !wanted[word];
      wanted[word] = 1;
    }
  for (; left > 0; cycles++) {
    unsigned char busy[64] = {0};
    for (int word = 0; word < WORDS; word++) {
      if (!wanted[word] || busy[word % banks]) continue;
      busy[word % banks] = 1;
      wanted[word] = 0;
      left--;
    }
  }
  return cycles;
}

/* The lanes that AMD's machines serve together in reads of 16 bytes: groups of four. */
static const int phases_of_gfx942[][4] = {{0, 20}, {32, 52}, {4, 16},  {36, 48},
                                          {8, 28}, {40, 60}, {12, 24}, {44, 56}};
static const int phases_of_gfx950[][4] = {
    {0, 12, 20, 24}, {32, 44, 52, 56}, {4, 8, 16, 28}, {36, 40, 48, 60}};

/* The lanes of a phase of such reads; 0: its lanes are consecutive. */
static int listed_phase(const TargetInfo *t, int phase, int group[BANK_LANES]) {
  bool is_950 = strcmp(t->name, "gfx950") == 0;
  if (!is_950 && strcmp(t->name, "gfx942") != 0) return 0;
  const int *first = is_950 ? phases_of_gfx950[phase] : phases_of_gfx942[phase];
  int n = is_950 ? 16 : 8;
  for (int i = 0; i < n; i++) group[i] = first[i / 4] + i % 4;
  return n;
}

static int brute_cycles(const TargetInfo *t, const int *address, int lanes, int bytes,
                        bool is_read) {
  int width = bytes >= 16 ? t->phase16 : bytes == 8 ? t->phase8 : t->phase4, total = 0;
  bool is_wide = strcmp(t->name, "gfx950") == 0 && is_read && bytes >= 8;
  if (is_wide) width *= 2;
  for (int phase = 0; phase < lanes / width; phase++) {
    int group[BANK_LANES], n = is_read && bytes >= 16 ? listed_phase(t, phase, group) : 0;
    for (int i = 0; !n && i < width; i++) group[i] = phase * width + i;
    total += cycles_of_phase(is_wide ? 64 : t->banks, address, group, width, bytes);
  }
  return total;
}

TEST(model_equals_definition) {
  const char *names[] = {"sm_90a", "gfx942", "gfx950", "toy8", "gfx1100"};
  unsigned seed = 5;
  for (int i = 0; i < 3000; i++) {
    const TargetInfo *t = machine(names[i % 5]);
    int bytes = 1 << next_random(&seed) % 5, address[BANK_LANES];
    int stride = (int)(next_random(&seed) % 40) * bytes;
    bool random = next_random(&seed) % 2, is_read = next_random(&seed) % 2;
    for (int l = 0; l < t->lanes; l++) {
      address[l] = random ? (int)(next_random(&seed) % 256) * bytes : l * stride % 16384;
      if (next_random(&seed) % 16 == 0) address[l] = -1;
    }
    BankCost c = bank_cost(t, address, t->lanes, bytes, is_read);
    CHECK_INT(c.cycles, brute_cycles(t, address, t->lanes, bytes, is_read));
  }
}

TEST(plain_cases) {
  const TargetInfo *t = machine("sm_90a");
  int a[BANK_LANES];
  for (int l = 0; l < 32; l++) a[l] = 4 * l;
  CHECK_INT(bank_cost(t, a, 32, 4, true).cycles, 1);
  for (int l = 0; l < 32; l++) a[l] = 0; /* broadcast */
  CHECK_INT(bank_cost(t, a, 32, 4, true).conflicts, 0);
  for (int l = 0; l < 32; l++) a[l] = 128 * l; /* a column of 32 floats */
  CHECK_INT(bank_cost(t, a, 32, 4, true).conflicts, 31);
  for (int l = 0; l < 32; l++) a[l] = 16 * l; /* consecutive vectors: four phases, no conflict */
  CHECK_INT(bank_cost(t, a, 32, 16, true).cycles, 4);
  CHECK_INT(bank_cost(t, a, 32, 16, true).conflicts, 0);
  for (int l = 0; l < 32; l++) a[l] = 2 * (l / 2 * 2) + l % 2 * 2; /* halves of a word */
  CHECK_INT(bank_cost(t, a, 32, 2, true).conflicts, 0);
  CHECK_INT(bank_cost(machine("cpu"), a, 1, 4, true).cycles, 0);
}

/* In reads of 16 bytes gfx942 serves lanes 0-3 with 20-23; in writes, neighbours. */
TEST(gfx942_pairs_lanes_in_wide_reads) {
  const TargetInfo *t = machine("gfx942");
  int a[BANK_LANES];
  for (int l = 0; l < 64; l++) a[l] = 16 * (l < 8 ? l ^ 4 : l); /* 0-3 and 4-7 are swapped */
  CHECK_INT(bank_cost(t, a, 64, 16, false).conflicts, 0);
  CHECK_INT(bank_cost(t, a, 64, 16, true).conflicts, 2); /* 0-3 and 20-23, 4-7 and 16-19 */
}

/* gfx950 has 64 banks for reads of 8 and 16 bytes only. */
TEST(gfx950_is_wide_in_wide_reads) {
  const TargetInfo *t = machine("gfx950");
  int a[BANK_LANES], phase[BANK_LANES];
  for (int bytes = 4; bytes <= 16; bytes *= 2) {
    for (int l = 0; l < 64; l++) a[l] = bytes * l;
    CHECK_INT(bank_cost(t, a, 64, bytes, false).cycles, bytes / 2); /* 128 bytes a cycle */
    CHECK_INT(bank_cost(t, a, 64, bytes, true).cycles, bytes == 4 ? 2 : bytes / 4);
    CHECK_INT(bank_number(t, bytes, true), bytes == 4 ? 32 : 64);
    CHECK_INT(bank_number(t, bytes, false), 32);
  }
  bank_phases(t, 64, 16, true, phase);
  for (int l = 0; l < 32; l++) CHECK_INT(phase[l], (l >> 2 ^ l >> 3 ^ l >> 4) & 1);
  CHECK(phase[32] != phase[0] && phase[32] != phase[4]);
}

/* ---- known layouts --------------------------------------------------------------------------- */

/* ldmatrix: 8 lanes give the rows of an 8x8 matrix of 16-bit elements; step s is the s-th 16-byte
 * column.
 */
static int ldmatrix(const void *cx, int step, int lane) {
  int columns = *(const int *)cx;
  return lane % 8 * columns + (step * 4 + lane / 8) * 8 % columns;
}

TEST(nvidia_swizzles_serve_ldmatrix) {
  const TargetInfo *t = machine("sm_90a");
  const int columns[] = {64, 32}, spans[] = {128, 64};
  for (int i = 0; i < 2; i++) {
    int extent[] = {64, columns[i]};
    BankPattern p = {ldmatrix, &columns[i], columns[i] / 32, 32, 16, true, 1};
    BankTile tile = {2, {64, columns[i]}, 16, &p, 1, 1 << 16, false, false};
    MemLayout rows = mem_rows(2, extent, 16, 0), nv = mem_nvidia(2, extent, 16, spans[i]);
    CHECK(bank_judge(t, &tile, &rows).conflicts > 0);
    CHECK(bank_judge(t, &tile, &nv).found);
    CHECK_INT(bank_judge(t, &tile, &nv).conflicts, 0);
    BankChoice best = bank_choose(t, &tile);
    CHECK(best.found && best.conflicts == 0 && best.bytes == mem_bytes(&rows)); /* costs nothing */
    CHECK(best.layout.swizzle.mask != 0);
  }
}

/* The A operand of a 16x16x16 MFMA: lane reads 4 halves of row lane%16. */
TEST(padding_by_8_bytes_serves_mfma_reads) {
  const TargetInfo *t = machine("gfx942");
  Layout a;
  mma_fragment(mma_find("F32_16x16x16_F16"), MMA_A, &a);
  LayoutTiling tiling = layout_tiling(2, (int[]){64, 64}, NULL);
  Layout held = layout_tile(&a, &tiling);
  BankLayout use = {&held, 4};
  BankPattern p = {bank_layout_element, &use, layout_size(&held, LAYOUT_REG) / 4, 64, 8, true, 1};
  BankTile tile = {2, {64, 64}, 16, &p, 1, 1 << 16, false, false};
  MemLayout rows = mem_rows(2, (int[]){64, 64}, 16, 0),
            padded = mem_rows(2, (int[]){64, 64}, 16, 4);
  CHECK_INT(bank_judge(t, &tile, &rows).conflicts, 16 * 4 * 15); /* all 16 rows in the same banks */
  CHECK_INT(bank_judge(t, &tile, &padded).conflicts, 0);
  BankChoice best = bank_choose(t, &tile);
  CHECK_INT(best.conflicts, 0);
  tile.budget = 64 * 64 * 2;
  best = bank_choose(t, &tile);
  CHECK(best.found && best.conflicts == 0); /* within the bytes of the tile: a swizzle */
}

static int by_rows(const void *cx, int step, int lane) {
  int columns = *(const int *)cx;
  return step * columns + lane;
}

static int by_columns(const void *cx, int step, int lane) {
  int columns = *(const int *)cx;
  return lane * columns + step;
}

TEST(a_transpose_is_free_both_ways) {
  const TargetInfo *t = machine("sm_80");
  int columns = 32;
  BankPattern p[] = {{by_rows, &columns, 32, 32, 4, false, 1},
                     {by_columns, &columns, 32, 32, 4, true, 1}};
  BankTile tile = {2, {32, 32}, 32, p, 2, 1 << 16, false, false};
  MemLayout rows = mem_rows(2, tile.extent, 32, 0), padded = mem_rows(2, tile.extent, 32, 1);
  CHECK_INT(bank_judge(t, &tile, &rows).conflicts, 32 * 31);
  CHECK_INT(bank_judge(t, &tile, &padded).conflicts, 0); /* the classic */
  tile.is_dense = true;
  BankChoice best = bank_choose(t, &tile);
  CHECK_INT(best.conflicts, 0); /* columns are flipped by their row */
  CHECK(best.layout.swizzle.mask == 31 && best.layout.swizzle.shift == 5);
  tile.budget = 100;
  CHECK(!bank_choose(t, &tile).found); /* no room at all */
}

TEST(wide_accesses_stay_whole) {
  const TargetInfo *t = machine("sm_90a");
  int columns = 64;
  BankPattern p = {ldmatrix, &columns, 2, 32, 16, true, 1};
  BankTile tile = {2, {64, 64}, 16, &p, 1, 1 << 16, false, false};
  MemLayout odd = mem_rows(2, (int[]){64, 64}, 16, 2); /* rows of 132 bytes */
  CHECK(!bank_judge(t, &tile, &odd).found);
  MemLayout rows = mem_rows(2, (int[]){64, 64}, 16, 0), torn = mem_swizzled(&rows, 4, 3, 4);
  CHECK(!bank_judge(t, &tile, &torn).found);
}

/* The chosen layout is valid, fits, and is at least as good as plain rows. */
TEST(choices_are_never_worse_than_rows) {
  Arena *a = arena_new();
  const char *names[] = {"sm_90a", "gfx942", "gfx950", "toy8"};
  const int extents[] = {8, 16, 24, 48, 64, 80, 96};
  for (int i = 0; i < 4 * 7 * 2; i++) {
    const TargetInfo *t = machine(names[i % 4]);
    int extent[] = {32, extents[i / 4 % 7]}, bits = i / 28 ? 16 : 32;
    LayoutBlocking b = {2, {32, extent[1]}, {1, 0}, bits, t->lanes, 1, t->shared_access, 0};
    Layout load = layout_blocked(&b);
    LayoutBlocking c = {2, {32, extent[1]}, {0, 1}, bits, t->lanes, 1, t->shared_access, 0};
    Layout use = layout_blocked(&c); /* along the other dim: one element at a time */
    int v = layout_vector(&load, 1, bits, t->shared_access);
    BankLayout x = {&load, v}, y = {&use, 1};
    BankPattern p[] = {
        {bank_layout_element, &x, layout_size(&load, LAYOUT_REG) / v, t->lanes, v * bits / 8, false,
         1},
        {bank_layout_element, &y, layout_size(&use, LAYOUT_REG), t->lanes, bits / 8, true, 2}};
    MemLayout rows = mem_rows(2, extent, bits, 0);
    BankTile tile = {2, {32, extent[1]}, bits, p, 2, mem_bytes(&rows) * 2, false, false};
    BankChoice plain = bank_judge(t, &tile, &rows), best = bank_choose(t, &tile);
    CHECK(plain.found && best.found && best.cycles <= plain.cycles);
    CHECK(mem_is_valid(&best.layout) && mem_is_injective(a, &best.layout));
    CHECK(best.bytes <= mem_bytes(&rows) * 2);
    BankChoice again = bank_judge(t, &tile, &best.layout); /* the search agrees with the model */
    CHECK(again.found && again.cycles == best.cycles && again.conflicts == best.conflicts);
  }
  arena_free(a);
}

TESTS_MAIN(RUN(model_equals_definition) RUN(plain_cases) RUN(gfx942_pairs_lanes_in_wide_reads)
               RUN(gfx950_is_wide_in_wide_reads) RUN(nvidia_swizzles_serve_ldmatrix)
                   RUN(padding_by_8_bytes_serves_mfma_reads) RUN(a_transpose_is_free_both_ways)
                       RUN(wide_accesses_stay_whole) RUN(choices_are_never_worse_than_rows))
