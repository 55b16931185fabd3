/* test_matrices.c: which tiles ldmatrix and AMD's transposing reads load and stmatrix stores, and that
 * they do so correctly. */
#include "target/matrices.h"
#include "target/mma.h"
#include "unit/lane_kit.h"

static Layout parsed(const char *text) {
  Layout l = {0};
  const char *at = text;
  const char *wrong = layout_parse(&at, &l);
  if (wrong) printf("%s: %s\n", text, wrong);
  return l;
}

static const TargetInfo *machine(const char *name) { return target_find(name).machine; }

static int matrices_of(const char *text, int bits, int along) {
  Layout l = parsed(text);
  MatrixPlan p;
  if (!matrix_plan(machine("sm_90a"), &l, bits, along, &p)) return 0;
  return p.count * (p.transposed ? -1 : 1);
}

TEST(fragments_of_instructions) {
  /* a and b of m16n8k16, of tf32 and of eight bits; columns of b if rows of memory are along n
   */
  CHECK_INT(matrices_of("[16, 16] reg d1/2:1 d0/2:8 d1/2:8 | lane d1/4:2 d0/8:1", 16, 1), 4);
  CHECK_INT(matrices_of("[8, 16] reg d1/2:1 d1/2:8 | lane d1/4:2 d0/8:1", 16, 1), 2);
  CHECK_INT(matrices_of("[8, 8] reg d1/2:1 | lane d1/4:2 d0/8:1", 16, 1), 1);
  CHECK_INT(matrices_of("[16, 8] reg d0/2:8 d1/2:4 | lane d1/4:1 d0/8:1", 32, 1), 4);
  CHECK_INT(matrices_of("[16, 32] reg d1/4:1 d0/2:8 d1/2:16 | lane d1/4:4 d0/8:1", 8, 1), 4);
  CHECK_INT(matrices_of("[8, 16] reg d1/2:1 d1/2:8 | lane d1/4:2 d0/8:1", 16, 0), -2);
}

TEST(what_it_does_not_fill) {
  CHECK_INT(matrices_of("[16, 16] reg d1/8:1 | lane d1/2:8 d0/16:1", 16, 1), 0);
  CHECK_INT(matrices_of("[8, 32] reg d1/4:1 d1/2:16 | lane d1/4:4 d0/8:1", 16, 1), 0);
  CHECK_INT(matrices_of("[16, 12] reg d1/2:1 d0/2:8 d1/2:8 | lane d1/4:2 d0/8:1", 16, 1), 0);
  CHECK_INT(matrices_of("[8, 16] reg d1/4:1 | lane d1/4:4 d0/8:1", 8, 0), 0);
  CHECK_INT(matrices_of("[8, 16] reg d1/2:1 | lane d1/4:2 d0/8:1 | wave d1/2:4", 16, 1), 0);
  CHECK_INT(matrices_of("[8, 8] reg d1/2:1 | lane d1/4:2 d0/4:1", 16, 1), 0);
  CHECK_INT(matrices_of("[8, 24] reg d1/2:1 d1/3:8 | lane d1/4:2 d0/8:1", 16, 1), 1);
}

/* Every fragment of the table that it loads has 8, 16 or 32 bits; it loads all with 16. */
TEST(all_rows_of_the_table) {
  int filled = 0;
  for (int i = 0; mma_at(i); i++) {
    const MmaInfo *row = mma_at(i);
    for (int part = MMA_A; part <= MMA_B; part++) {
      Layout l;
      MatrixPlan p;
      if (strncmp(row->name, "mma_m16n8k", 10) != 0 || !mma_fragment(row, (MmaOperand)part, &l))
        continue;
      int bits = 32 / (l.part[LAYOUT_REG].n ? l.part[LAYOUT_REG].at[0].radix : 1);
      if (l.part[LAYOUT_REG].n && l.part[LAYOUT_REG].at[0].stride != 1) bits = 32;
      filled += matrix_plan(machine("sm_90a"), &l, bits, 1, &p);
    }
  }
  CHECK(filled >= 8);
}

/* ---- AMD's forms ---- */

/* Every element that some lane addresses is some lane's, exactly once. */
TEST(forms_lose_nothing) {
  static const int forms[][2] = {{64, 16}, {64, 8}, {64, 4}, {32, 16}, {32, 8}, {32, 4}};
  for (size_t i = 0; i < WV_LEN(forms); i++) {
    const MatrixForm *f = matrix_form(forms[i][0], forms[i][1]);
    bool seen[64][16] = {{0}};
    CHECK(f != NULL);
    for (int lane = 0; f && lane < f->lanes; lane++)
      for (int r = 0; r < f->row / f->bits; r++) {
        MatrixSource from = matrix_source(f, r, lane);
        CHECK(from.lane < f->lanes && from.element < f->row / f->bits);
        CHECK(!seen[from.lane][from.element]);
        seen[from.lane][from.element] = true;
      }
  }
  CHECK(!matrix_form(64, 32) && !matrix_form(64, 6) && !matrix_form(16, 16));
}

/* The rows that the lanes address; "": the instruction does not fill the layout. */
static const char *rows_of(Arena *a, const char *chip, const char *text, int bits, int along) {
  Layout l = parsed(text);
  MatrixPlan p;
  StrBuf out = {.arena = a};
  if (!matrix_plan(machine(chip), &l, bits, along, &p)) return "";
  layout_print(&out, &p.rows);
  return sb_text(&out);
}

TEST(columns_of_fragments) {
  Arena *a = arena_new();
#define ROWS_OF(chip, text, bits, along) rows_of(a, chip, text, bits, along)
  /* 16x16x32 of f16 and of f8, 32x32x16 of f16, and WMMA on gfx1250, with rows of memory along n */
  const char *f16 = "[16, 32] reg d1/8:1 | lane d0/16:1 d1/4:8";
  CHECK_STR(ROWS_OF("gfx950", f16, 16, 0),
            "[16, 32] reg d1/2:4 | lane d0/2:4 d0/2:8 d1/2:1 d1/2:2 d1/2:8 d1/2:16");
  CHECK_STR(ROWS_OF("gfx950", f16, 8, 0),
            "[16, 32] lane d0/2:8 d1/2:1 d1/2:2 d1/2:4 d1/2:8 d1/2:16");
  CHECK_STR(ROWS_OF("gfx950", "[32, 16] reg d1/8:1 | lane d0/32:1 d1/2:8", 16, 0),
            "[32, 16] reg d1/2:4 | lane d0/2:4 d0/2:8 d1/2:1 d1/2:2 d0/2:16 d1/2:8");
  CHECK_STR(ROWS_OF("gfx1250", "[16, 32] reg d1/8:1 d1/2:16 | lane d0/16:1 d1/2:8", 16, 0),
            "[16, 32] reg d1/2:16 | lane d1/2:1 d1/2:2 d1/2:4 d0/2:8 d1/2:8");
  CHECK_STR(ROWS_OF("gfx950", f16, 16, 1), "");  /* along k: a plain load */
  CHECK_STR(ROWS_OF("gfx942", f16, 16, 0), "");  /* has no such instructions */
  CHECK_STR(ROWS_OF("gfx950", f16, 32, 0), "");  /* nor has any machine, of this type */
  CHECK_STR(ROWS_OF("gfx1250", f16, 16, 0), ""); /* other waves */
  CHECK_STR(ROWS_OF("gfx950", "[12, 32] reg d1/8:1 | lane d0/16:1 d1/4:8", 16, 0), "");
  CHECK_STR(ROWS_OF("gfx950", "[16, 12] reg d1/3:1 | lane d0/16:1 d1/4:3", 16, 0), "");
  CHECK_STR(ROWS_OF("gfx950", "[16, 32] reg d1/8:1 | lane d1/4:8 d0/16:1", 16, 0), "");
  CHECK_STR(ROWS_OF("gfx950", "[18, 32] reg d1/8:1 | lane d0/16:1 d1/4:8 | wave d0/2:2", 16, 0),
            "");
  arena_free(a);
}

/* All operands of MFMA instructions that have at least as many elements as a form. */
TEST(all_operands_of_gfx950) {
  int filled = 0;
  for (int i = 0; mma_at(i); i++) {
    const MmaInfo *row = mma_at(i);
    for (int part = MMA_A; part <= MMA_B; part++) {
      Layout l;
      MatrixPlan p;
      if (row->lanes != 64 || !mma_fragment(row, (MmaOperand)part, &l)) continue;
      for (int bits = 4; bits <= 16; bits *= 2) {
        bool fits = layout_size(&l, LAYOUT_REG) % (64 / bits) == 0;
        bool is_filled = matrix_plan(machine("gfx950"), &l, bits, 0, &p);
        filled += is_filled;
        if (fits && row->m >= 16 && l.dims == 2 && !is_filled)
          printf("%s, %d bits\n", row->name, bits), CHECK(!"filled");
      }
    }
  }
  CHECK(filled >= 20);
}

/* ---- in kernels ---- */

#define GEMM(dtype, acc, bk, memory_a, memory_b)                                                   \
  "kernel @gemm(%a: mem<M, K, " dtype ">, %b: mem<N, K, " dtype ">, %c: mem<M, N, " acc ">)\n"     \
  "  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by " bk "\n"                           \
  "  wave M by 16; wave N by 16; hardware threads 64\n"                                            \
  "  dynamic M; dynamic N; dynamic K\n"                                                            \
  "{\n"                                                                                            \
  "  %sa = alloc {" memory_a "} : mem<M, K, " dtype ", shared>\n"                                  \
  "  %sb = alloc {" memory_b "} : mem<N, K, " dtype ", shared>\n"                                  \
  "  %z = fill 0 : tile<M, N, " acc ">\n"                                                          \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    copy %a, %sa\n    copy %b, %sb\n"                                                           \
  "    %x = read %sa\n    %y = read %sb\n"                                                         \
  "    %n = mma %x, %y, %acc\n    yield %n\n"                                                      \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"

#define ROWS(n, bits) "memory = [32, " n "] d1/" n ":1 d0/32:" n " : " bits " bits"
#define SIZES(k)                                                                                   \
  {                                                                                                \
    {"M", 32}, {"N", 32}, { "K", k }                                                               \
  }

static const struct {
  Sample sample;
  int ldmatrix, transposed; /* at least this many for inner tiles and the others */
} kernels[] = {
    {{"rows", GEMM("f16", "f32", "32", ROWS("32", "16"), ROWS("32", "16")), SIZES(32)}, 4, 0},
    {{"bf16", GEMM("bf16", "f32", "32", ROWS("32", "16"), ROWS("32", "16")), SIZES(32)}, 4, 0},
    {{"i8", GEMM("i8", "i32", "32", ROWS("32", "8"), ROWS("32", "8")), SIZES(32)}, 4, 0},
    {{"swizzled",
      GEMM("f16", "f32", "32", "memory = [32, 32] d1/32:1 d0/32:32 xor 0x18>>3 : 16 bits",
           "memory = [32, 32] d1/32:1 d0/32:40 : 16 bits"),
      SIZES(32)},
     4,
     0},
    {{"columns",
      GEMM("f16", "f32", "32", "memory = [32, 32] d0/32:1 d1/32:32 xor 0x18>>3 : 16 bits",
           "memory = [32, 32] d0/32:1 d1/32:40 : 16 bits"),
      SIZES(32)},
     4,
     4},
    {{"pairs that lie apart",
      GEMM("f16", "f32", "32", "memory = [32, 32] d1/32:1 d0/32:34 : 16 bits",
           "memory = [32, 32] d1/4:1 d0/32:4 d1/8:128 : 16 bits"),
      SIZES(32)},
     0,
     0},
};

static int count_ops(const Sample *s, const char *target, OpKind kind, AttrKey with) {
  SampleSizes sizes = {0};
  sample_sizes(s, 2, &sizes);
  Lab l = sample_open(s, &sizes);
  int n = lane_transform(&l, target) ? 0 : -1;
  for (const Op *op = ir_first(l.k); op; op = ir_next(op))
    n += op->kind == kind && (with == ATTR_NONE || op_has(op, with));
  lab_close(&l);
  return n;
}

TEST(operands_in_shared_memory) {
  for (size_t i = 0; i < WV_LEN(kernels); i++) {
    const Sample *s = &kernels[i].sample;
    CHECK_INT(lane_differs(s, "sm_80"), 0);
    int all = count_ops(s, "sm_80", OP_ldmatrix, ATTR_NONE);
    int turned = count_ops(s, "sm_80", OP_ldmatrix, ATTR_transposed);
    CHECK(kernels[i].ldmatrix ? all >= kernels[i].ldmatrix : all == 0);
    CHECK(kernels[i].transposed ? turned >= kernels[i].transposed : turned == 0);
    CHECK_INT(count_ops(s, "gfx942", OP_ldmatrix, ATTR_NONE), 0);
    CHECK_INT(lane_differs(s, "gfx950"), 0);
    int columns = count_ops(s, "gfx950", OP_ldmatrix, ATTR_columns);
    CHECK_INT(count_ops(s, "gfx950", OP_ldmatrix, ATTR_NONE), columns);
    CHECK(kernels[i].transposed ? columns >= kernels[i].transposed : columns == 0);
  }
}

/* Matmuls whose rounded results are written through shared memory: `rows` x `cols` for each
 * wave. */
#define STAGED(dtype, rows, cols, tile, memory)                                                    \
  "kernel @staged(%a: mem<M, K, f16>, %b: mem<N, K, f16>, %c: mem<M, N, " dtype ">)\n"             \
  "  workgroup M by " tile " on 0; workgroup N by " tile " on 1; tile K by 16\n"                   \
  "  wave M by " rows "; wave N by " cols "; hardware threads 32\n"                                \
  "  dynamic M; dynamic N; dynamic K\n"                                                            \
  "{\n"                                                                                            \
  "  %s = alloc {memory = [" tile ", " tile "] " memory " bits} : mem<M, N, " dtype ", shared>\n"  \
  "  %z = fill 0 : tile<M, N, f32>\n"                                                              \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    %x = read %a\n    %y = read %b\n"                                                           \
  "    %n = mma %x, %y, %acc\n    yield %n\n"                                                      \
  "  }\n"                                                                                          \
  "  %h = cast %r : tile<M, N, " dtype ">\n"                                                       \
  "  write %h, %s\n"                                                                               \
  "  copy %s, %c\n"                                                                                \
  "}"
#define SQUARE(n)                                                                                  \
  {                                                                                                \
    {"M", n}, {"N", n}, { "K", 16 }                                                                \
  }

/* What stmatrix stores: an 8x8 matrix in each of four registers of a lane, or transposed. */
static const struct {
  Sample sample;
  int stmatrix, transposed; /* for inner tiles and the others */
} stored[] = {
    {{"rows", STAGED("f16", "16", "16", "32", "d1/32:1 d0/32:32 : 16"), SQUARE(32)}, 2, 0},
    {{"bf16", STAGED("bf16", "16", "32", "32", "d1/32:1 d0/32:40 : 16"), SQUARE(32)}, 4, 0},
    {{"swizzled", STAGED("f16", "16", "64", "64", "d1/64:1 d0/64:64 xor 0x38>>3 : 16"), SQUARE(64)},
     8,
     0},
    {{"columns", STAGED("f16", "16", "16", "32", "d0/32:1 d1/32:32 : 16"), SQUARE(32)}, 2, 2},
    {{"rows of 12 bytes", STAGED("f16", "16", "16", "32", "d1/32:1 d0/32:38 : 16"), SQUARE(32)},
     0,
     0},
    {{"words", STAGED("f32", "16", "16", "32", "d1/32:1 d0/32:32 : 32"), SQUARE(32)}, 0, 0},
};

TEST(results_to_shared_memory) {
  for (size_t i = 0; i < WV_LEN(stored); i++) {
    const Sample *s = &stored[i].sample;
    CHECK_INT(lane_differs(s, "sm_90a"), 0);
    CHECK_INT(count_ops(s, "sm_90a", OP_stmatrix, ATTR_NONE), stored[i].stmatrix);
    CHECK_INT(count_ops(s, "sm_90a", OP_stmatrix, ATTR_transposed), stored[i].transposed);
    CHECK_INT(count_ops(s, "sm_80", OP_stmatrix, ATTR_NONE), 0);
  }
}

TESTS_MAIN(RUN(forms_lose_nothing) RUN(columns_of_fragments) RUN(all_operands_of_gfx950)
               RUN(fragments_of_instructions) RUN(what_it_does_not_fill) RUN(all_rows_of_the_table)
                   RUN(operands_in_shared_memory) RUN(results_to_shared_memory))
