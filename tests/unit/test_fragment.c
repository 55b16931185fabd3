/* Matrix instructions: every row of mma.def, and rows made for lanes and CPUs.
 *
 * The formulas below are written from the public package's formulas and the PTX and wgmma
 * fragment tables, not from mma.def: two independent descriptions must agree lane by lane. */
#include "harness.h"
#include "target/register_tile.h"

typedef struct Rc {
  int row, col;
} Rc;

/* (lane of the wave, wave, register) -> coordinates of A over (m, k), B over (n, k), C over (m, n)
 */
typedef Rc Formula(int lane, int wave, int j);

#define F(name, row_, col_)                                                                        \
  static Rc name(int L, int w, int j) {                                                            \
    (void)L, (void)w, (void)j;                                                                     \
    return (Rc){row_, col_};                                                                       \
  }

/* ---- AMD ------------------------------------------------------------------------------------- */
F(amd_16x4, L % 16, 4 * (L / 16) + j)
F(amd_16x8, L % 16, 8 * (L / 16) + j)
F(amd_16k4, L % 16, 16 * (j / 4) + 4 * (L / 16) + j % 4)
F(amd_32x4, L % 32, 4 * (L / 32) + j)
F(amd_32x8, L % 32, 8 * (L / 32) + j)
F(amd_32k4, L % 32, 8 * (j / 4) + 4 * (L / 32) + j % 4)
F(amd_16x1, L % 16, L / 16)
F(amd_32x1, L % 32, L / 32)
F(amd_c16, 4 * (L / 16) + j, L % 16)
F(amd_c16_f64, 4 * j + L / 16, L % 16)
F(amd_c32, 8 * (j / 4) % 32 + 4 * (L / 32) + j % 4, L % 32)
F(amd_s8, L % 16, 64 * (j / 16) + 16 * (L / 16) + j % 16)
F(amd_s4, L % 16, 32 * (L / 16) + j)
/* The public package has 32 contiguous elements for all types; those of 8 bits are where AMD's test
 * of the instruction in Composable Kernel has them. */
F(amd_s32_8, L % 32, 32 * (j / 16) + 16 * (L / 32) + j % 16)
F(amd_s32, L % 32, 32 * (L / 32) + j)
F(amd_scale16, L % 16, L / 16)
F(amd_scale32, L % 32, L / 32)
F(rdna3, L % 16, j)
F(rdna3_c, 2 * j + L / 16, L % 16)
F(rdna4, L % 16, 8 * (L / 16) + j)
F(rdna4_c, 8 * (L / 16) + j, L % 16)
F(gfx1250, L % 16, 16 * (L / 16) + j)
F(gfx1250_k4, L % 16, 2 * (L / 16) + j)
F(gfx1250_k64, L % 16, 32 * (L / 16) + j)
/* byte g = j/2 of the lane is byte 32*(g/16) + 16*(L/16) + g%16 of the row, two elements each */
F(gfx1250_f4, L % 16, 2 * (32 * (j / 2 / 16) + 16 * (L / 16) + j / 2 % 16) + j % 2)
F(gfx1250_scale, L % 16, j)

/* ---- NVIDIA: t = lane%4, g = lane/4 ---------------------------------------------------------- */
#define T (L % 4)
#define G (L / 4)
F(nv_c, G + 8 * (j / 2), 2 * T + j % 2)
F(nv_c8, G, 2 * T + j)
F(nv_a16, G + 8 * (j / 2 % 2), 2 * T + j % 2 + 8 * (j / 4))
F(nv_b16, G, 2 * T + j % 2 + 8 * (j / 2))
F(nv_a8h, G + 8 * (j / 2), 2 * T + j % 2)
F(nv_b8h, G, 2 * T + j)
F(nv_a8t, G + 8 * (j % 2), T + 4 * (j / 2))
F(nv_b8t, G, T + 4 * j)
F(nv_a4t, G + 8 * j, T)
F(nv_b4t, G, T)
F(nv_a16b, G + 8 * (j / 4), 4 * T + j % 4)
F(nv_b16b, G, 4 * T + j)
F(nv_a32b, G + 8 * (j / 4 % 2), 16 * (j / 8) + 4 * T + j % 4)
F(nv_b32b, G, 16 * (j / 4) + 4 * T + j % 4)
F(wg_a16, 16 * w + G + 8 * (j / 2 % 2), 8 * (j / 4) + 2 * T + j % 2)
F(wg_a8, 16 * w + G + 8 * (j % 2), 4 * (j / 2) + T)
F(wg_a32, 16 * w + G + 8 * (j / 4 % 2), 16 * (j / 8) + 4 * T + j % 4)
F(wg_c, 16 * w + G + 8 * (j / 2 % 2), 8 * (j / 4) + 2 * T + j % 2) /* register 4i+2h+c */

static const struct {
  const char *names; /* of rows, separated by blanks; a final * matches any rest */
  Formula *a, *b, *c, *scale;
} formulas[] = {
    {"F32_16x16x16_F16 I32_16x16x16_I8", amd_16x4, amd_16x4, amd_c16, NULL},
    {"F32_32x32x8_F16 I32_32x32x8_I8", amd_32x4, amd_32x4, amd_c32, NULL},
    {"F32_16x16x32_K8_F16 F32_16x16x32_F8 I32_16x16x32_I8 F32_16x16x32_F16 F32_16x16x32_BF16",
     amd_16x8, amd_16x8, amd_c16, NULL},
    {"F32_32x32x16_K8_F16 F32_32x32x16_F8 I32_32x32x16_I8 F32_32x32x16_F16 F32_32x32x16_BF16",
     amd_32x8, amd_32x8, amd_c32, NULL},
    {"F32_16x16x32_K4_F8", amd_16k4, amd_16k4, amd_c16, NULL},
    {"F32_32x32x16_K4_F8", amd_32k4, amd_32k4, amd_c32, NULL},
    {"RDNA4_WAVE32_F32_16x16x16_F16 wmma12_*", rdna4, rdna4, rdna4_c, NULL},
    {"GFX1250_F32_16x16x32_F16 wmma1250_16x16x32_*", gfx1250, gfx1250, rdna4_c, NULL},
    {"wmma1250_16x16x4_*", gfx1250_k4, gfx1250_k4, rdna4_c, NULL},
    {"wmma1250_16x16x64_*", gfx1250_k64, gfx1250_k64, rdna4_c, NULL},
    {"F32_16x16x128_F8F6F4", amd_s8, amd_s8, amd_c16, amd_scale16},
    {"F32_16x16x128_F6F4", amd_s4, amd_s4, amd_c16, amd_scale16},
    {"F32_32x32x64_F8F6F4", amd_s32_8, amd_s32_8, amd_c32, amd_scale32},
    {"F32_32x32x64_F6F4", amd_s32, amd_s32, amd_c32, amd_scale32},
    {"GFX1250_F32_16x16x128_F8F6F4", gfx1250_f4, gfx1250_f4, rdna4_c, gfx1250_scale},
    {"mfma_16x16x4_f32_f32", amd_16x1, amd_16x1, amd_c16, NULL},
    {"mfma_32x32x2_f32_f32", amd_32x1, amd_32x1, amd_c32, NULL},
    {"mfma_16x16x4_f64_f64", amd_16x1, amd_16x1, amd_c16_f64, NULL},
    {"wmma11_*", rdna3, rdna3, rdna3_c, NULL},
    {"mma_m16n8k16_f32_f16 mma_m16n8k16_f16_f16 mma_m16n8k16_f32_bf16", nv_a16, nv_b16, nv_c, NULL},
    {"mma_m16n8k8_f32_f16 mma_m16n8k8_f16_f16 mma_m16n8k8_f32_bf16", nv_a8h, nv_b8h, nv_c, NULL},
    {"mma_m16n8k8_f32_tf32", nv_a8t, nv_b8t, nv_c, NULL},
    {"mma_m16n8k4_f32_tf32", nv_a4t, nv_b4t, nv_c, NULL},
    {"mma_m8n8k4_f64_f64", nv_b4t, nv_b4t, nv_c8, NULL},
    {"mma_m16n8k16_i32_i8", nv_a16b, nv_b16b, nv_c, NULL},
    {"mma_m16n8k32_*", nv_a32b, nv_b32b, nv_c, NULL},
    {"wgmma_*_f16 wgmma_*_bf16", wg_a16, NULL, wg_c, NULL},
    {"wgmma_*_tf32", wg_a8, NULL, wg_c, NULL},
    {"wgmma_*_f8 wgmma_*_i8", wg_a32, NULL, wg_c, NULL},
};

/* One `*` in a pattern matches any text. */
static bool matches(const char *pattern, size_t n, const char *name) {
  const char *star = memchr(pattern, '*', n);
  if (!star) return strlen(name) == n && memcmp(name, pattern, n) == 0;
  size_t head = (size_t)(star - pattern), tail = n - head - 1, len = strlen(name);
  return len >= head + tail && memcmp(name, pattern, head) == 0 &&
         memcmp(name + len - tail, star + 1, tail) == 0;
}

static int formula_of(const char *name) {
  for (size_t i = 0; i < WV_LEN(formulas); i++)
    for (const char *p = formulas[i].names; *p; p += strspn(p, " ")) {
      size_t n = strcspn(p, " ");
      if (matches(p, n, name)) return (int)i;
      p += n;
    }
  return -1;
}

static void check_formula(Harness *harness, const MmaInfo *row, MmaOperand operand, Formula *f) {
  Layout l;
  bool in_registers = mma_fragment(row, operand, &l);
  CHECK(in_registers == (f != NULL));
  if (!in_registers || !f) return;
  int wrong = 0;
  for (int w = 0; w < layout_size(&l, LAYOUT_WAVE); w++)
    for (int lane = 0; lane < layout_size(&l, LAYOUT_LANE); lane++)
      for (int j = 0; j < layout_size(&l, LAYOUT_REG); j++) {
        int c[LAYOUT_DIMS];
        layout_at(&l, j, lane, w, c);
        Rc want = f(lane, w, j);
        wrong += c[0] != want.row || c[1] != want.col;
      }
  if (wrong) printf("%s operand %d: %d elements are misplaced\n", row->name, operand, wrong);
  CHECK_INT(wrong, 0);
}

TEST(layouts_equal_the_published_formulas) {
  for (int i = 0; i < mma_count(); i++) {
    const MmaInfo *row = mma_at(i);
    int f = formula_of(row->name);
    if (f < 0) printf("no formula for %s\n", row->name);
    CHECK(f >= 0);
    if (f < 0) continue;
    check_formula(harness, row, MMA_A, formulas[f].a);
    check_formula(harness, row, MMA_B, formulas[f].b);
    check_formula(harness, row, MMA_C, formulas[f].c);
    check_formula(harness, row, MMA_SA, formulas[f].scale);
    check_formula(harness, row, MMA_SB, formulas[f].scale);
  }
}

/* ---- cover ----------------------------------------------------------------------------------- */

static void check_row(Harness *harness, Arena *a, const MmaInfo *row) {
  for (int o = 0; o < MMA_OPERANDS; o++) {
    Layout l;
    if (!mma_fragment(row, (MmaOperand)o, &l)) continue;
    LayoutCover c = layout_cover(a, &l);
    if (!c.exact || c.over) printf("%s operand %d does not cover its tile\n", row->name, o);
    CHECK(c.exact && c.over == 0);
    CHECK_INT(layout_size(&l, LAYOUT_LANE) * layout_size(&l, LAYOUT_WAVE), row->lanes);
  }
}

TEST(fragments_cover_their_tiles) {
  Arena *a = arena_new();
  for (int i = 0; i < mma_count(); i++) check_row(harness, a, mma_at(i));
  arena_free(a);
}

TEST(only_declared_operands_are_replicated) {
  for (int i = 0; i < mma_count(); i++) {
    const MmaInfo *row = mma_at(i);
    bool rdna3 = matches("wmma11_*", 8, row->name), gfx1250 = matches("GFX1250_*", 9, row->name);
    for (int o = 0; o < MMA_OPERANDS; o++) {
      Layout l;
      if (!mma_fragment(row, (MmaOperand)o, &l)) continue;
      bool twice = (rdna3 && o != MMA_C) || (gfx1250 && o >= MMA_SA);
      CHECK_INT(layout_replication(&l), twice ? 2 : 1);
    }
  }
}

TEST(element_counts) {
  for (int i = 0; i < mma_count(); i++) {
    const MmaInfo *row = mma_at(i);
    Layout a, c;
    CHECK(mma_fragment(row, MMA_A, &a) && mma_fragment(row, MMA_C, &c));
    if (row->operand_elems) CHECK_INT(row->operand_elems, layout_size(&a, LAYOUT_REG));
    bool told = row->acc_elems && !(row->code && row->form == MMA_SCALED);
    if (told) CHECK_INT(row->acc_elems, layout_size(&c, LAYOUT_REG));
  }
}

/* ---- execution ------------------------------------------------------------------------------- */

enum { MOST_TILE = 64 * 256 };

typedef struct Matrices {
  int a[MOST_TILE], b[MOST_TILE], c[MOST_TILE]; /* row-major: m x k, n x k, m x n */
} Matrices;

static unsigned next_random(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* The value in every register that holds an element. */
static int *scatter(Arena *a, const Layout *l, const int *tile) {
  const int *table = layout_table(a, l);
  int n = layout_positions(l), *held = ARENA_ARRAY(a, int, n);
  for (int p = 0; p < n; p++) held[p] = tile[table[p]];
  return held;
}

/* One native instruction on `regs_*` registers of each thread: elements are matched by their K. */
static void execute(Arena *a, const MmaInfo *row, const int *ra, const int *rb, int *rc) {
  Layout la, lb, lc;
  int *ta = ARENA_ARRAY(a, int, row->m * row->k), *tb = ARENA_ARRAY(a, int, row->n * row->k);
  mma_fragment(row, MMA_A, &la);
  mma_fragment(row, MMA_C, &lc);
  const int *at = layout_table(a, &la), *ct = layout_table(a, &lc);
  for (int p = 0; p < layout_positions(&la); p++) ta[at[p]] = ra[p];
  if (mma_fragment(row, MMA_B, &lb)) {
    const int *bt = layout_table(a, &lb);
    for (int p = 0; p < layout_positions(&lb); p++) tb[bt[p]] = rb[p];
  } else memcpy(tb, rb, sizeof *tb * (size_t)(row->n * row->k)); /* it is in shared memory */
  for (int p = 0; p < layout_positions(&lc); p++)
    for (int k = 0; k < row->k; k++)
      rc[p] += ta[ct[p] / row->n * row->k + k] * tb[ct[p] % row->n * row->k + k];
}

/* The native instruction that a virtual row consists of. */
static const MmaInfo *native_of(const MmaInfo *row) {
  for (int i = 0; row->form == MMA_VIRTUAL && i < mma_count(); i++)
    if (mma_at(i)->form == MMA_NATIVE && strcmp(mma_at(i)->emit, row->emit) == 0) return mma_at(i);
  return row;
}

/* Registers [from, from + n) of every thread. */
static int *slice(Arena *a, const int *held, int threads, int regs, int from, int n) {
  int *out = ARENA_ARRAY(a, int, threads *n);
  for (int t = 0; t < threads; t++)
    for (int r = 0; r < n; r++) out[t * n + r] = held[t * regs + from + r];
  return out;
}

static void check_product(Harness *harness, const MmaInfo *row, const Matrices *x, const int *got) {
  int wrong = 0;
  for (int m = 0; m < row->m; m++)
    for (int n = 0; n < row->n; n++) {
      int want = x->c[m * row->n + n];
      for (int k = 0; k < row->k; k++) want += x->a[m * row->k + k] * x->b[n * row->k + k];
      wrong += got[m * row->n + n] != want;
    }
  if (wrong) printf("%s: %d results are wrong\n", row->name, wrong);
  CHECK_INT(wrong, 0);
}

static void randomise(Matrices *x, unsigned *seed) {
  for (int i = 0; i < MOST_TILE; i++) {
    x->a[i] = (int)(next_random(seed) % 15) - 7;
    x->b[i] = (int)(next_random(seed) % 15) - 7;
    x->c[i] = (int)(next_random(seed) % 100);
  }
}

TEST(every_row_multiplies) {
  static Matrices x;
  Arena *a = arena_new();
  unsigned seed = 7;
  for (int i = 0; i < mma_count(); i++, arena_reset(a)) {
    const MmaInfo *row = mma_at(i), *native = native_of(row);
    Layout la, lb, lc;
    randomise(&x, &seed);
    mma_fragment(row, MMA_A, &la);
    mma_fragment(row, MMA_C, &lc);
    bool b_in_registers = mma_fragment(row, MMA_B, &lb);
    const int *ra = scatter(a, &la, x.a), *rb = b_in_registers ? scatter(a, &lb, x.b) : x.b;
    int *rc = scatter(a, &lc, x.c), parts = row->k / native->k;
    int regs = layout_size(&la, LAYOUT_REG), each = regs / parts;
    for (int p = 0; p < parts; p++) { /* the parts share the accumulator */
      if (parts == 1) execute(a, native, ra, rb, rc);
      else
        execute(a, native, slice(a, ra, row->lanes, regs, p * each, each),
                slice(a, rb, row->lanes, regs, p * each, each), rc);
    }
    const int *owner = layout_owners(a, &lc);
    int *got = ARENA_ARRAY(a, int, row->m * row->n);
    for (int e = 0; e < row->m * row->n; e++) got[e] = rc[owner[e]];
    check_product(harness, row, &x, got);
  }
  arena_free(a);
}

/* ---- made rows ------------------------------------------------------------------------------- */

/* Each lane multiplies its own elements; lanes that share a result add their sums. */
static void execute_dot(Arena *a, const MmaInfo *row, int k_vec, int k_mult, const int *ra,
                        const int *rb, int *rc) {
  Layout la, lb;
  mma_fragment(row, MMA_A, &la);
  mma_fragment(row, MMA_B, &lb);
  int an = layout_size(&la, LAYOUT_REG), bn = layout_size(&lb, LAYOUT_REG);
  int outs = (an > bn ? an : bn) / k_vec, *sum = ARENA_ARRAY(a, int, row->lanes *outs);
  for (int lane = 0; lane < row->lanes; lane++)
    for (int o = 0; o < outs; o++)
      for (int j = 0; j < k_vec; j++)
        sum[lane * outs + o] +=
            ra[lane * an + (o * k_vec + j) % an] * rb[lane * bn + (o * k_vec + j) % bn];
  for (int lane = 0; lane < row->lanes; lane++)
    for (int o = 0; o < outs; o++)
      for (int i = 0; i < k_mult; i++)
        rc[lane * outs + o] += sum[(lane / k_mult * k_mult + i) * outs + o];
}

TEST(generic_dot_on_any_wave) {
  static Matrices x;
  Arena *a = arena_new();
  unsigned seed = 9;
  const int lanes[] = {1, 8, 32, 64}, vecs[] = {1, 2, 3, 4}, mults[] = {1, 2, 4, 8};
  for (int i = 0; i < 4 * 4 * 4 * 4 * 2; i++, arena_reset(a)) {
    MmaDot dot = {vecs[i / 4 % 4], vecs[i / 16 % 4], mults[i / 64 % 4], (MmaAlong)(i / 256)};
    const MmaInfo *row = mma_dot(a, dot, lanes[i % 4]);
    CHECK((row != NULL) == (lanes[i % 4] % dot.k_mult == 0));
    if (!row) continue;
    check_row(harness, a, row);
    Layout la, lb, lc;
    randomise(&x, &seed);
    mma_fragment(row, MMA_A, &la);
    mma_fragment(row, MMA_B, &lb);
    mma_fragment(row, MMA_C, &lc);
    int *rc = scatter(a, &lc, x.c), got[8 * 64];
    execute_dot(a, row, dot.k_vec, dot.k_mult, scatter(a, &la, x.a), scatter(a, &lb, x.b), rc);
    const int *table = layout_table(a, &lc);
    for (int p = 0; p < layout_positions(&lc); p++) got[table[p]] = rc[p];
    check_product(harness, row, &x, got);
  }
  arena_free(a);
}

TEST(generic_dot_equals_the_reference) {
  Arena *a = arena_new();
  const MmaInfo *row = mma_dot(a, (MmaDot){1, 4, 2, MMA_ALONG_N}, 64);
  CHECK_STR(row->name, "dot_n1_k4x2_l64");
  CHECK_INT(row->m, 1);
  CHECK_INT(row->n, 32);
  CHECK_INT(row->k, 8);
  Layout A, b, c;
  mma_fragment(row, MMA_A, &A);
  mma_fragment(row, MMA_B, &b);
  mma_fragment(row, MMA_C, &c);
  for (int L = 0; L < 64; L++)
    for (int j = 0; j < 4; j++) {
      int at[LAYOUT_DIMS];
      layout_at(&A, j, L, 0, at);
      CHECK(at[0] == 0 && at[1] == L % 2 * 4 + j);
      layout_at(&b, j, L, 0, at);
      CHECK(at[0] == L / 2 && at[1] == L % 2 * 4 + j);
      layout_at(&c, 0, L, 0, at);
      CHECK(at[0] == 0 && at[1] == L / 2);
    }
  arena_free(a);
}

TEST(register_tiles) {
  Arena *a = arena_new();
  const int shapes[][3] = {{6, 16, 1}, {14, 32, 1}, {8, 12, 1}, {2, 2, 8}, {8, 12, 4}, {1, 1, 1}};
  for (size_t i = 0; i < WV_LEN(shapes); i++) {
    const MmaInfo *row = mma_register_tile(a, DOT_tile, shapes[i][0], shapes[i][1], shapes[i][2]);
    check_row(harness, a, row);
    CHECK(target_has_mma(target_find("cpu").machine, row));
  }
  CHECK_STR(mma_register_tile(a, DOT_tile, 6, 16, 1)->name, "tile_6x16x1");
  arena_free(a);
}

TEST(register_tiles_have_names) {
  Arena *a = arena_new();
  const MmaInfo *row = mma_named(a, "tile_8x48x2");
  CHECK(row && row->m == 8 && row->n == 48 && row->k == 2 && row->form == MMA_TILE);
  CHECK(mma_named(a, "F32_16x16x16_F16") == mma_find("F32_16x16x16_F16"));
  const char *wrong[] = {"tile_8x48",           "tile_0x48x1",  "tile_8x48x1x", "tile_8x048x1",
                         "tile_-8x48x1",        "tile_64x65x1", "tile",         "",
                         "tile_99999999999x1x1"};
  for (size_t i = 0; i < WV_LEN(wrong); i++) CHECK(!mma_named(a, wrong[i]));
  arena_free(a);
}

/* At most three quarters of the registers, and no more than fits the tile. */
TEST(register_tiles_suit_the_product) {
  TargetInfo wide = *target_find("cpu").machine, narrow = wide;
  wide.global_access = 64, wide.registers = 512;
  narrow.global_access = 32, narrow.registers = 128;
  RegisterTile big = register_tile(&wide, &(TileProduct){.bits = 32, .rows = 1024, .columns = 960});
  CHECK(big.m == 8 && big.n == 48);
  RegisterTile f64 = register_tile(&wide, &(TileProduct){.bits = 64, .rows = 1024, .columns = 960});
  CHECK(f64.m == 8 && f64.n == 24);
  RegisterTile few =
      register_tile(&narrow, &(TileProduct){.bits = 32, .rows = 1024, .columns = 960});
  CHECK(few.m == 4 && few.n == 24);
  RegisterTile row = register_tile(&wide, &(TileProduct){.bits = 32, .rows = 1, .columns = 64});
  CHECK(row.m == 1 && row.n == 64);
  for (int rows = 1; rows < 40; rows += 3)
    for (int columns = 1; columns < 300; columns += 7) {
      RegisterTile t =
          register_tile(&narrow, &(TileProduct){.bits = 32, .rows = rows, .columns = columns});
      CHECK(t.m >= 1 && t.n % 8 == 0 && t.m * t.n / 8 <= 12);
    }
}

/* The last form that fits is used: by machine, type and grain. */
TEST(forms_suit_the_product) {
  const struct {
    const char *machine;
    unsigned a, b, sum;
    int rows, columns;
    DotForm form;
    int m, n;
  } cases[] = {{"cpu_amx", MMA_bf16, MMA_bf16, MMA_f32, 128, 192, DOT_amx_bf16, 32, 32},
               {"cpu_amx", MMA_bf16, MMA_bf16, MMA_f32, 16, 48, DOT_amx_bf16, 16, 32},
               {"cpu_amx", MMA_bf16, MMA_bf16, MMA_f32, 100, 192, DOT_bfdot, 8, 48},
               {"cpu_amx", MMA_bf16, MMA_f16, MMA_f32, 128, 192, DOT_tile, 8, 48},
               {"cpu_amx", MMA_f8e4m3fn, MMA_f8e5m2, MMA_f32, 64, 64, DOT_amx_bf16, 32, 32},
               {"cpu_amx", MMA_i8, MMA_i8, MMA_i32, 64, 64, DOT_amx_i8, 32, 32},
               {"cpu_amx", MMA_f16, MMA_f16, MMA_f32, 64, 96, DOT_tile, 8, 48},
               {"cpu_amx_fp16", MMA_f16, MMA_f16, MMA_f32, 64, 64, DOT_amx_f16, 32, 32},
               {"cpu_neon_mm", MMA_i8, MMA_i8, MMA_i32, 64, 96, DOT_immla, 8, 12},
               {"cpu_neon_mm", MMA_i8, MMA_i8, MMA_i32, 65, 96, DOT_idot, 4, 16},
               {"cpu_neon_dot", MMA_bf16, MMA_bf16, MMA_f32, 64, 96, DOT_tile, 8, 12},
               {"cpu_sse", MMA_i8, MMA_i8, MMA_i32, 64, 96, DOT_wdot, 4, 12},
               {"cpu_sse", 0, 0, MMA_f32, 64, 96, DOT_tile, 4, 12}};
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    TileProduct p = {cases[i].a, cases[i].b, cases[i].sum, 32, cases[i].rows, cases[i].columns};
    RegisterTile t = register_tile(target_find(cases[i].machine).machine, &p);
    if (t.form != cases[i].form || t.m != cases[i].m || t.n != cases[i].n)
      printf("case %zu: %s %dx%d\n", i, dot_info(t.form)->word, t.m, t.n);
    CHECK(t.form == cases[i].form && t.m == cases[i].m && t.n == cases[i].n);
  }
}

/* ---- the table itself
 * ---------------------------------------------------------------------------- */

TEST(names_and_codes_are_unique) {
  int published = 0, wgmma = 0;
  for (int i = 0; i < mma_count(); i++) {
    const MmaInfo *row = mma_at(i);
    published += row->code != 0;
    wgmma += row->lanes == 128;
    CHECK(mma_find(row->name) == row);
    for (int j = 0; row->code && j < i; j++) CHECK(mma_at(j)->code != row->code);
  }
  CHECK_INT(published, 21);
  CHECK_INT(wgmma, 6 * 32 + 18);
  CHECK(!mma_find("wgmma_m64n40k32_i32_i8") && mma_find("wgmma_m64n40k32_f32_f8"));
  CHECK(!mma_at(mma_count()) && !mma_at(-1) && !mma_find("F32"));
}

TEST(types_and_variants) {
  const MmaInfo *f8 = mma_find("F32_16x16x128_F8F6F4"), *h = mma_find("F32_16x16x16_F16");
  CHECK_STR(mma_for_type(f8, MMA_f4e2m1fn)->name, "F32_16x16x128_F6F4");
  CHECK(mma_for_type(f8, MMA_f8e5m2) == f8 && !mma_for_type(h, MMA_i8));
  CHECK(mma_allows(h, MMA_bf16, MMA_bf16, MMA_f32) && !mma_allows(h, MMA_f16, MMA_bf16, MMA_f32));
  CHECK(mma_allows(f8, MMA_f8e5m2, MMA_f8e4m3fn, MMA_f32));
  CHECK_INT(mma_k_block(f8), 32);
  CHECK_INT(mma_k_block(h), 16);
}

TESTS_MAIN(RUN(layouts_equal_the_published_formulas) RUN(fragments_cover_their_tiles)
               RUN(only_declared_operands_are_replicated) RUN(element_counts)
                   RUN(every_row_multiplies) RUN(generic_dot_on_any_wave)
                       RUN(generic_dot_equals_the_reference) RUN(register_tiles)
                           RUN(register_tiles_have_names) RUN(register_tiles_suit_the_product)
                               RUN(forms_suit_the_product) RUN(names_and_codes_are_unique)
                                   RUN(types_and_variants))
