/* test_cpu_dots.c: register tiles of every form, compiled for every CPU of targets.def;
 * test_cpu_rows.c runs them. */
#include "target/register_tile.h"
#include "unit/asm_kit.h"
#include "unit/dot_kit.h"

/* The instruction of a form on a CPU, and the number of results it accumulates. */
typedef struct Expected {
  DotForm form;
  const char *target; /* on it and those that follow it in its family */
  const char *product;
  int results;
} Expected;

static const Expected expected[] = {
    {DOT_tile, "cpu_neon", "fmla", 4},
    {DOT_tile, "cpu_neon_dot", "fmla", 4},
    {DOT_tile, "cpu_neon_mm", "fmla", 4},
    {DOT_tile, "cpu_sse", "mulps", 4},
    {DOT_tile, "cpu_avx2", "vfmadd", 8},
    {DOT_tile, "cpu_avx512", "vfmadd", 16},
    {DOT_tile, "cpu_avx512_bf16", "vfmadd", 16},
    {DOT_tile, "cpu_amx", "vfmadd", 16},
    {DOT_tile, "cpu_amx_fp16", "vfmadd", 16},
    {DOT_tile, "cpu_sve256", "fmla\tz", 8},
    {DOT_tile, "cpu_sve512", "fmla\tz", 16},
    {DOT_idot, "cpu_sve256", "sdot\tz", 8},
    {DOT_idot, "cpu_sve512", "sdot\tz", 16},
    {DOT_bfdot, "cpu_sve256", "bfdot\tz", 8},
    {DOT_immla, "cpu_sve256", "smmla\tz", 8},
    {DOT_bfmmla, "cpu_sve256", "bfmmla\tz", 8},
    {DOT_idot, "cpu_neon_dot", "sdot", 4},
    {DOT_idot, "cpu_neon_mm", "sdot", 4},
    {DOT_bfdot, "cpu_neon_mm", "bfdot", 4},
    {DOT_immla, "cpu_neon_mm", "smmla", 4},
    {DOT_bfmmla, "cpu_neon_mm", "bfmmla", 4},
    {DOT_wdot, "cpu_sse", "pmaddwd", 4},
    {DOT_wdot, "cpu_avx2", "vpmaddwd", 8},
    {DOT_wdot, "cpu_avx512", "vpmaddwd", 16},
    {DOT_wdot, "cpu_avx512_bf16", "vpdpwssd", 16},
    {DOT_wdot, "cpu_amx", "vpdpwssd", 16},
    {DOT_wdot, "cpu_amx_fp16", "vpdpwssd", 16},
    {DOT_bfdot, "cpu_avx512_bf16", "vdpbf16ps", 16},
    {DOT_bfdot, "cpu_amx", "vdpbf16ps", 16},
    {DOT_bfdot, "cpu_amx_fp16", "vdpbf16ps", 16},
    {DOT_amx_i8, "cpu_amx", "tdpbssd", 256},
    {DOT_amx_i8, "cpu_amx_fp16", "tdpbssd", 256},
    {DOT_amx_bf16, "cpu_amx", "tdpbf16ps", 256},
    {DOT_amx_bf16, "cpu_amx_fp16", "tdpbf16ps", 256},
    {DOT_amx_f16, "cpu_amx_fp16", "tdpfp16ps", 256},
};

/* A real CPU of the kind: LLVM schedules, and allocates registers, according to its name. */
static const char *cpu_of(const char *target) {
  static const struct {
    const char *target, *cpu;
  } rows[] = {{"cpu_sse", "nehalem"},           {"cpu_avx2", "haswell"},
              {"cpu_avx512", "skylake-avx512"}, {"cpu_avx512_bf16", "cooperlake"},
              {"cpu_amx", "sapphirerapids"},    {"cpu_amx_fp16", "sapphirerapids"},
              {"cpu_sve256", "neoverse-v1"},    {"cpu_sve512", "a64fx"}};
  for (size_t i = 0; i < WV_LEN(rows); i++)
    if (strcmp(rows[i].target, target) == 0) return rows[i].cpu;
  return "generic";
}

static Chip chip_of(Arena *a, const CpuInfo *p, const char *product) {
  bool arm = strcmp(p->arch, "aarch64") == 0;
  const char *triple = arena_printf(a, "%s-unknown-linux-gnu", p->arch);
  return (Chip){
      {triple, p->features, p->vector_bytes}, cpu_of(p->target), product, arm ? "[sp" : "(%rsp)"};
}

/* The block that a large matmul is divided into: one instruction per group of results it
 * accumulates, no spills, no calls. */
static bool block_compiles(const Expected *e) {
  Arena *a = arena_new();
  const CpuInfo *p = cpu_named(e->target);
  DType type = operands_of(e->form), sums = sums_of(type);
  TileProduct wanted = {.a = (unsigned)dtype_mma(type), .b = (unsigned)dtype_mma(type)};
  wanted.sum = (unsigned)dtype_mma(sums), wanted.bits = 32;
  wanted.rows = 1024, wanted.columns = 960;
  RegisterTile t = register_tile(target_find(e->target).machine, &wanted);
  wanted.a = wanted.b = 0; /* it has better forms for these: blocks of vectors */
  if (t.form != e->form) t = register_tile(target_find(e->target).machine, &wanted);
  const MmaInfo *row = mma_register_tile(a, e->form, t.m, t.n, 0);
  Lab l = lab_open(loop_text(a, row, type, sums, 8));
  Chip chip = chip_of(a, p, e->product);
  bool skipped;
  const char *text = assembly_of(&l, &chip, &skipped), *loop = NULL;
  size_t size = text ? loop_at(text, e->product, &loop) : 0;
  int products = loop ? count_of(loop, size + 1, e->product) : 0;
  int spills = loop ? count_of(loop, size, chip.spill) : 1;
  LlvmCode code;
  const char *names[8];
  /* With 16 registers, 12 sums, 3 columns, a row and a separate product are one too many.
   */
  bool tight = e->results <= 8 && (e->form == DOT_wdot || e->product[0] == 'm');
  bool ok = skipped || (products == t.m * t.n / e->results && (tight || spills == 0));
  if (!ok)
    printf("%s on %s: %d products, %d spills\n%.*s\n", row->name, e->target, products, spills,
           (int)size, loop ? loop : "");
  if (!skipped && code_of(&l, &chip, false, &code, &skipped))
    for (int i = undefined_of(&code, names, 8); i-- > 0; ok = false)
      printf("%s on %s calls %s\n", row->name, e->target, names[i]);
  lab_close(&l);
  arena_free(a);
  return ok;
}

TEST(blocks_are_the_instruction) {
  for (size_t i = 0; i < WV_LEN(expected); i++) CHECK(block_compiles(&expected[i]));
}

/* Every form of every CPU has an expectation. */
TEST(every_form_is_expected) {
  for (int i = 0; cpu_at(i); i++)
    for (int f = 0; f < DOT_COUNT; f++) {
      const CpuInfo *p = cpu_at(i);
      bool found = !*p->arch || !(p->tiles >> f & 1);
      for (size_t e = 0; e < WV_LEN(expected); e++)
        found |= (int)expected[e].form == f && strcmp(expected[e].target, p->target) == 0;
      if (!found) printf("%s on %s\n", dot_info((DotForm)f)->word, p->target);
      CHECK(found);
    }
}

/* Edges of matmuls, and forms on CPUs that lack them (text may request them): they compile. */
TEST(every_shape_compiles) {
  static const int shapes[][2] = {{1, 1}, {3, 5}, {2, 16}, {4, 6}};
  static const char *const targets[] = {"cpu_neon",   "cpu_neon_mm", "cpu_sve256",
                                        "cpu_sve512", "cpu_sse",     "cpu_amx"};
  for (size_t t = 0; t < WV_LEN(targets); t++)
    for (int f = 0; f < DOT_COUNT; f++)
      for (size_t s = 0; s < WV_LEN(shapes); s++) {
        Arena *a = arena_new();
        DType type = operands_of((DotForm)f);
        const MmaInfo *row = mma_register_tile(a, (DotForm)f, shapes[s][0], shapes[s][1], 0);
        Lab l = lab_open(loop_text(a, row, type, sums_of(type), 2));
        Chip chip = chip_of(a, cpu_named(targets[t]), "");
        bool skipped;
        const char *text = assembly_of(&l, &chip, &skipped);
        if (!skipped && !text) printf("%s on %s\n", row->name, targets[t]);
        CHECK(skipped || text);
        lab_close(&l);
        arena_free(a);
      }
}

TESTS_MAIN(RUN(blocks_are_the_instruction) RUN(every_form_is_expected) RUN(every_shape_compiles))
