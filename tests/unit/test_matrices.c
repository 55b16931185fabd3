/* test_matrices.c: which tiles ldmatrix loads and stmatrix stores, and that they do so
 * correctly. */
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

static int matrices_of(const char *text, int bits, int along) {
  Layout l = parsed(text);
  MatrixPlan p;
  return matrix_plan(&l, bits, along, &p) ? p.count * (p.transposed ? -1 : 1) : 0;
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
      filled += matrix_plan(&l, bits, 1, &p);
    }
  }
  CHECK(filled >= 8);
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

static int count_ops(const Sample *s, const char *target, OpKind kind, bool transposed) {
  SampleSizes sizes = {0};
  sample_sizes(s, 2, &sizes);
  Lab l = sample_open(s, &sizes);
  int n = lane_transform(&l, target) ? 0 : -1;
  for (const Op *op = ir_first(l.k); op; op = ir_next(op))
    n += op->kind == kind && (!transposed || op_has(op, ATTR_transposed));
  lab_close(&l);
  return n;
}

static int count_matrices(const Sample *s, const char *target, bool transposed) {
  return count_ops(s, target, OP_ldmatrix, transposed);
}

TEST(operands_in_shared_memory) {
  for (size_t i = 0; i < WV_LEN(kernels); i++) {
    const Sample *s = &kernels[i].sample;
    CHECK_INT(lane_differs(s, "sm_80"), 0);
    int all = count_matrices(s, "sm_80", false), turned = count_matrices(s, "sm_80", true);
    CHECK(kernels[i].ldmatrix ? all >= kernels[i].ldmatrix : all == 0);
    CHECK(kernels[i].transposed ? turned >= kernels[i].transposed : turned == 0);
    CHECK_INT(count_matrices(s, "gfx942", false), 0);
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
    CHECK_INT(count_ops(s, "sm_90a", OP_stmatrix, false), stored[i].stmatrix);
    CHECK_INT(count_ops(s, "sm_90a", OP_stmatrix, true), stored[i].transposed);
    CHECK_INT(count_ops(s, "sm_80", OP_stmatrix, false), 0);
  }
}

TESTS_MAIN(RUN(fragments_of_instructions) RUN(what_it_does_not_fill) RUN(all_rows_of_the_table)
               RUN(operands_in_shared_memory) RUN(results_to_shared_memory))
