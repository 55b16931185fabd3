/* test_loops.c: the loops of AMD machine code, counted without running it. The code is text here: a
 * disassembler that returns one line for each word. */
#include "isa/loops/loops.h"
#include "unit/harness.h"

enum { MOST = 64 };

typedef struct Listing {
  const char *line[MOST]; /* NULL: not an instruction */
  int n;
} Listing;

static size_t next_line(void *user, const uint8_t *at, size_t bytes, uint64_t pc, char *text,
                        size_t room) {
  const Listing *l = user;
  (void)at, (void)bytes;
  if (!l->line[pc / 4]) return 0;
  snprintf(text, room, "\t%s", l->line[pc / 4]);
  return 4;
}

typedef struct Lab {
  Arena *a;
  IsaImage image;
  LoopKernel kernel;
  LoopCode code;
  uint64_t pc;
  const char *error;
  bool ok;
} Lab;

static Lab lab(const char *chip, const Listing *l) {
  static const uint8_t bytes[4 * MOST];
  Lab x = {.a = arena_new()};
  x.image = (IsaImage){.name = "k", .chip = chip, .code = bytes, .bytes = 4 * (size_t)l->n};
  if (strncmp(chip, "gfx1", 4) == 0) x.image.properties = 1 << 10;
  x.kernel = (LoopKernel){.vector = 128, .scalar = 32, .threads = 256};
  x.ok = loops_read(x.a, &x.image, next_line, (void *)(uintptr_t)l, &x.code, &x.pc, &x.error);
  return x;
}

static LoopMix mix_of(Lab *x, int loop) {
  x->kernel.image = &x->image;
  LoopRoom room = loops_room(&x->kernel);
  return loops_count(&x->kernel, &room, &x->code, loop);
}

#define LISTING(...)                                                                               \
  ((Listing){{__VA_ARGS__}, sizeof(const char *[]){__VA_ARGS__} / sizeof(char *)})

/* ---- loops ---- */

TEST(one_loop) {
  Listing l = LISTING("s_mov_b32 s0, 0",                                        /* 0 */
                      "v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[2:3], a[0:3]", /* 1: the loop */
                      "v_add_u32_e32 v4, v5, v6", "ds_read_b128 v[8:11], v4",   /**/
                      "global_load_dwordx4 v[12:15], v4, s[2:3]", "s_waitcnt vmcnt(0)", "s_barrier",
                      "s_load_dword s4, s[0:1], 0x0", "s_nop 3", "s_add_i32 s0, s0, 1",
                      "s_cbranch_scc1 65526", /* 10 -> 1 */
                      "s_endpgm");
  Lab x = lab("gfx942", &l);
  CHECK(x.ok);
  CHECK_INT(x.code.nloops, 1);
  CHECK_INT(x.code.loops[0].first, 4);
  CHECK_INT(x.code.loops[0].last, 40);
  LoopMix m = mix_of(&x, 0);
  for (int i = 0; i < LOOP_KINDS; i++) CHECK_INT(m.count[i], 1);
  CHECK_INT(m.n, 10);
  CHECK_INT((int)m.cycles[LOOP_UNIT_MATRIX], 16);
  CHECK_INT((int)m.cycles[LOOP_UNIT_VALU], 4);
  CHECK_INT((int)m.cycles[LOOP_UNIT_SALU], 4);
  CHECK_INT((int)m.cycles[LOOP_UNIT_LDS], 4 * 8);    /* four SIMDs, 1024 bytes at 128 each */
  CHECK_INT((int)m.cycles[LOOP_UNIT_MEMORY], 4 * 8); /* the same */
  CHECK_INT((int)m.cycles[LOOP_UNIT_ISSUE], 10);     /* every 4 cycles, but there are 4 waves */
  CHECK_INT(m.bound, LOOP_UNIT_LDS);
  arena_free(x.a);
}

TEST(nested_loops) {
  Listing l = LISTING("s_mov_b32 s0, 0", "s_mov_b32 s1, 0", /* 1: the outer loop */
                      "v_mfma_f32_4x4x4_16b_f16 a[0:3], v[0:1], v[2:3], a[0:3]", /* 2: the inner */
                      "s_cbranch_scc1 65534",                                    /* 3 -> 2 */
                      "v_mov_b32_e32 v0, 0", "s_cbranch_scc0 65531",             /* 5 -> 1 */
                      "s_endpgm");
  Lab x = lab("gfx942", &l);
  CHECK(x.ok);
  CHECK_INT(x.code.nloops, 2);
  CHECK_INT(x.code.loops[0].parent, -1);
  CHECK_INT(x.code.loops[1].parent, 0);
  CHECK_INT(mix_of(&x, 0).n, 3); /* s_mov, v_mov, the branch */
  CHECK_INT(mix_of(&x, 0).count[LOOP_MATRIX], 0);
  CHECK_INT(mix_of(&x, 1).n, 2);
  CHECK_INT(mix_of(&x, 1).count[LOOP_MATRIX], 1);
  arena_free(x.a);
}

/* A block that is rarely executed stands after the loop and branches back into it. */
TEST(block_behind_the_loop) {
  Listing l = LISTING("s_nop 0", "s_cbranch_vccnz 4",     /* 1: the loop; 1 -> 6 */
                      "s_nop 1", "s_nop 2",               /* 3: where the block returns to */
                      "s_cbranch_scc1 65532", "s_endpgm", /* 4 -> 1 */
                      "v_mov_b32_e32 v0, 1", "s_branch 65531" /* 6, 7 -> 3 */);
  Lab x = lab("gfx942", &l);
  CHECK(x.ok);
  CHECK_INT(x.code.nloops, 1);
  CHECK_INT(x.code.loops[0].header, 1);
  CHECK_INT(mix_of(&x, 0).n, 6);
  CHECK_INT(mix_of(&x, 0).count[LOOP_VALU], 1);
  arena_free(x.a);
}

/* Software pipelines of hand-written code are entered in the middle. */
TEST(entered_in_the_middle) {
  Listing l = LISTING("s_branch 2", "v_nop", "s_nop 0",  /* 0 -> 3 */
                      "s_nop 1", "s_cbranch_scc1 65532", /* 4 -> 1 */
                      "s_endpgm");
  Lab x = lab("gfx942", &l);
  CHECK(x.ok);
  CHECK_INT(x.code.nloops, 1);
  CHECK_INT(x.code.loops[0].header, 3);
  CHECK_INT(mix_of(&x, 0).n, 4);
  arena_free(x.a);
}

/* A branch backwards that no path leads around again. */
TEST(backwards_but_not_around) {
  Listing l = LISTING("s_branch 1", "s_endpgm", "s_nop 0", "s_branch 65533");
  Lab x = lab("gfx942", &l);
  CHECK(x.ok);
  CHECK_INT(x.code.nloops, 0);
  arena_free(x.a);
}

TEST(bad_code) {
  static const struct {
    Listing l;
    int pc;
    const char *why;
  } cases[] = {
      {{{"s_nop 0", NULL, "s_endpgm"}, 3}, 4, "not an instruction"},
      {{{"s_nop 0", "s_branch 100", "s_endpgm"}, 3}, 4, "a branch out of the kernel"},
      {{{"s_nop 0", "s_cbranch_scc0 65000", "s_endpgm"}, 3}, 4, "a branch out of the kernel"},
      {{{"s_nop 0", "s_nop 0"}, 2}, 4, "the kernel does not end here"},
      {{{NULL}, 0}, 0, "no code"},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    Lab x = lab("gfx942", &cases[i].l);
    CHECK(!x.ok);
    CHECK_INT((int)x.pc, cases[i].pc);
    CHECK_STR(x.error, cases[i].why);
    arena_free(x.a);
  }
  Listing data = LISTING("s_endpgm", NULL, "s_branch 100"); /* never reached */
  Lab x = lab("gfx942", &data);
  CHECK(x.ok);
  arena_free(x.a);
}

/* ---- cycles ---- */

/* Cycles of AMD's Matrix Instruction Calculator 1.3.2; gfx950 and gfx1250 by LLVM's model. */
static const struct {
  const char *chip, *text;
  int cycles;
} durations[] = {
    {"gfx90a", "v_mfma_f32_32x32x1f32", 64},
    {"gfx90a", "v_mfma_f32_16x16x1f32", 32},
    {"gfx90a", "v_mfma_f32_4x4x1f32", 8},
    {"gfx90a", "v_mfma_f32_32x32x8f16", 64},
    {"gfx90a", "v_mfma_f32_16x16x16bf16_1k", 32},
    {"gfx90a", "v_mfma_i32_16x16x16i8", 32},
    {"gfx90a", "v_mfma_i32_4x4x4i8", 8},
    {"gfx90a", "v_mfma_f64_16x16x4f64", 32},
    {"gfx90a", "v_mfma_f64_4x4x4f64", 16},
    {"gfx942", "v_mfma_f32_16x16x8_xf32", 16},
    {"gfx942", "v_mfma_f32_32x32x4_xf32", 32},
    {"gfx942", "v_mfma_f32_32x32x1_2b_f32", 64},
    {"gfx942", "v_mfma_f32_16x16x1_4b_f32", 32},
    {"gfx942", "v_mfma_f32_4x4x1_16b_f32", 8},
    {"gfx942", "v_mfma_f32_32x32x2_f32", 64},
    {"gfx942", "v_mfma_f32_16x16x4_f32", 32},
    {"gfx942", "v_mfma_f32_32x32x4_2b_f16", 64},
    {"gfx942", "v_mfma_f32_16x16x4_4b_f16", 32},
    {"gfx942", "v_mfma_f32_4x4x4_16b_f16", 8},
    {"gfx942", "v_mfma_f32_32x32x8_f16", 32},
    {"gfx942", "v_mfma_f32_16x16x16_f16", 16},
    {"gfx942", "v_mfma_i32_32x32x4_2b_i8", 64},
    {"gfx942", "v_mfma_i32_16x16x4_4b_i8", 32},
    {"gfx942", "v_mfma_i32_4x4x4_16b_i8", 8},
    {"gfx942", "v_mfma_i32_32x32x16_i8", 32},
    {"gfx942", "v_mfma_i32_16x16x32_i8", 16},
    {"gfx942", "v_mfma_f32_32x32x4_2b_bf16", 64},
    {"gfx942", "v_mfma_f32_16x16x16_bf16", 16},
    {"gfx942", "v_smfmac_f32_16x16x32_f16", 16},
    {"gfx942", "v_smfmac_f32_32x32x16_bf16", 32},
    {"gfx942", "v_smfmac_i32_32x32x32_i8", 32},
    {"gfx942", "v_mfma_f64_16x16x4_f64", 32},
    {"gfx942", "v_mfma_f64_4x4x4_4b_f64", 16},
    {"gfx942", "v_mfma_f32_16x16x32_bf8_fp8", 16},
    {"gfx942", "v_mfma_f32_32x32x16_fp8_fp8", 32},
    {"gfx942", "v_smfmac_f32_32x32x32_fp8_bf8", 32},
    {"gfx950", "v_mfma_f32_16x16x32_f16", 16},
    {"gfx950", "v_mfma_f32_32x32x16_bf16", 32},
    {"gfx950", "v_mfma_i32_16x16x64_i8", 16},
    {"gfx950", "v_mfma_f64_16x16x4_f64", 64},
    {"gfx950", "v_mfma_f32_16x16x128_f8f6f4", 32},
    {"gfx950", "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:7], v[8:11], v[0:3] cbsz:4 blgp:4", 16},
    {"gfx950", "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:7], v[8:15], v[0:3] cbsz:4", 32},
    {"gfx950",
     "v_mfma_scale_f32_32x32x64_f8f6f4 v[0:15], v[4:9], v[8:13], v[0:15], v1, v2 "
     "op_sel_hi:[0,0,0] cbsz:2 blgp:3",
     32},
    {"gfx950",
     "v_mfma_scale_f32_32x32x64_f8f6f4 v[0:15], v[4:9], v[8:13], v[0:15], v1, v2 "
     "op_sel_hi:[0,0,0] cbsz:1 blgp:4",
     64},
    {"gfx1100", "v_wmma_f32_16x16x16_f16", 32},
    {"gfx1102", "v_wmma_bf16_16x16x16_bf16", 32},
    {"gfx1100", "v_wmma_i32_16x16x16_iu8", 32},
    {"gfx1100", "v_wmma_i32_16x16x16_iu4", 16},
    {"gfx1201", "v_wmma_f32_16x16x16_bf16", 16},
    {"gfx1200", "v_wmma_f16_16x16x16_f16", 16},
    {"gfx1201", "v_wmma_i32_16x16x32_iu4", 8},
    {"gfx1201", "v_wmma_f32_16x16x16_fp8_bf8", 8},
    {"gfx1201", "v_swmmac_f32_16x16x32_f16", 16},
    {"gfx1201", "v_swmmac_f32_16x16x32_bf8_bf8", 8},
    {"gfx1250", "v_wmma_f32_16x16x32_f16", 8},
    {"gfx1250", "v_wmma_f32_16x16x64_fp8_bf8", 8},
    {"gfx1250", "v_wmma_f32_16x16x4_f32", 16},
    {"gfx1250", "v_wmma_i32_16x16x64_iu8", 16},
    {"gfx1250",
     "v_wmma_f32_16x16x128_f8f6f4 v[0:7], v[8:23], v[8:15], v[0:7] "
     "matrix_b_fmt:MATRIX_FMT_FP4",
     16},
    {"gfx1250",
     "v_wmma_f32_16x16x128_f8f6f4 v[0:7], v[8:15], v[8:15], v[0:7] "
     "matrix_a_fmt:MATRIX_FMT_FP4 matrix_b_fmt:MATRIX_FMT_FP4",
     8},
};

/* A loop of one instruction. */
static LoopMix alone(const char *chip, const char *text) {
  Listing l = LISTING(text, "s_branch 65534");
  Lab x = lab(chip, &l);
  LoopMix m = mix_of(&x, 0);
  arena_free(x.a);
  return m;
}

TEST(matrix_instructions) {
  for (size_t i = 0; i < WV_LEN(durations); i++) {
    LoopMix m = alone(durations[i].chip, durations[i].text);
    CHECK_INT(m.count[LOOP_MATRIX], 1);
    CHECK(!m.unknown);
    if ((int)m.cycles[LOOP_UNIT_MATRIX] != durations[i].cycles)
      printf("%s %s\n", durations[i].chip, durations[i].text);
    CHECK_INT((int)m.cycles[LOOP_UNIT_MATRIX], durations[i].cycles);
  }
  Listing l = LISTING("v_mfma_f32_64x64x64_f4 v[0:3]", "s_branch 65534");
  Lab x = lab("gfx942", &l);
  CHECK_STR(mix_of(&x, 0).unknown, "v_mfma_f32_64x64x64_f4 v[0:3]");
  arena_free(x.a);
}

TEST(units_that_are_shared) {
  CHECK_INT((int)alone("gfx942", "v_mfma_f32_16x16x16_f16").cycles[LOOP_UNIT_VALU], 0);
  CHECK_INT((int)alone("gfx942", "v_mfma_f32_16x16x4_f32").cycles[LOOP_UNIT_VALU], 32);
  CHECK_INT((int)alone("gfx1100", "v_wmma_f32_16x16x16_f16").cycles[LOOP_UNIT_VALU], 32);
}

TEST(other_instructions) {
  static const struct {
    const char *chip, *text;
    LoopUnit unit;
    int cycles; /* of LDS and memory, four SIMDs' on CDNA, two on RDNA */
  } cases[] = {
      {"gfx942", "v_exp_f32_e32 v0, v1", LOOP_UNIT_VALU, 16},
      {"gfx942", "v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]", LOOP_UNIT_VALU, 4},
      {"gfx1100", "v_add_f32_e32 v0, v1, v2", LOOP_UNIT_VALU, 1},
      {"gfx1100", "v_exp_f32_e32 v0, v1", LOOP_UNIT_VALU, 4},
      {"gfx942", "ds_read_b32 v0, v1", LOOP_UNIT_LDS, 8},
      {"gfx942", "ds_read_u16_d16_hi v0, v1", LOOP_UNIT_LDS, 8},
      {"gfx942", "ds_read_b64 v[0:1], v2", LOOP_UNIT_LDS, 16},
      {"gfx942", "ds_read2_b64 v[0:3], v4 offset1:1", LOOP_UNIT_LDS, 32},
      {"gfx942", "ds_read2st64_b32 v[0:1], v4 offset1:1", LOOP_UNIT_LDS, 16},
      {"gfx942", "ds_write_b128 v0, v[4:7]", LOOP_UNIT_LDS, 32},
      {"gfx950", "ds_read_b128 v[4:7], v0", LOOP_UNIT_LDS, 16},
      {"gfx950", "ds_read_b64_tr_b16 v[4:5], v0", LOOP_UNIT_LDS, 8},
      {"gfx1100", "ds_load_2addr_stride64_b64 v[0:3], v4 offset1:1", LOOP_UNIT_LDS, 8},
      {"gfx942", "global_load_dword v0, v1, s[0:1]", LOOP_UNIT_MEMORY, 16},
      {"gfx942", "buffer_load_dwordx4 v[0:3], v1, s[0:3], 0 offen", LOOP_UNIT_MEMORY, 32},
      {"gfx90a", "buffer_load_dwordx4 v[0:3], v1, s[0:3], 0 offen", LOOP_UNIT_MEMORY, 64},
      {"gfx942", "buffer_load_dword v1, s[0:3], 0 offen lds", LOOP_UNIT_LDS, 8},
      {"gfx950", "global_load_lds_dwordx4 v[0:1], off", LOOP_UNIT_LDS, 16},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    int cycles = (int)alone(cases[i].chip, cases[i].text).cycles[cases[i].unit];
    if (cycles != cases[i].cycles) printf("%s %s\n", cases[i].chip, cases[i].text);
    CHECK_INT(cycles, cases[i].cycles);
  }
}

/* Constants are not copies, and neither are values that matrix instructions neither made nor
 * accumulate, even in registers that they use elsewhere. */
TEST(accumulator_copies) {
  Listing l = LISTING(
      "v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[2:3], a[0:3]",
      "v_mfma_f32_16x16x16_f16 v[8:11], v[0:1], v[2:3], 0", "v_accvgpr_read_b32 v4, a2", /* copy */
      "v_mov_b32_e32 v20, v11",                                                          /* copy */
      "v_mov_b32_e32 v21, v20",                                      /* copy: of the same product */
      "v_mul_f32_e32 v11, v12, v13", "v_mov_b32_e32 v22, v11",       /* no longer a product */
      "v_mov_b64_e32 v[30:31], v[40:41]",                            /* copy: accumulated below */
      "v_mfma_f32_16x16x16_f16 v[28:31], v[0:1], v[2:3], v[28:31]",  /**/
      "v_accvgpr_write_b32 a3, v5",                                  /* copy: accumulated above */
      "v_accvgpr_write_b32 a0, 0", "v_mov_b32_e32 v8, 1.0",          /* constants */
      "v_mov_b32_e32 v8, s3", "global_store_dword v28, v29, s[0:1]", /* writes no register */
      "v_mov_b32_e32 v50, v28",                                      /* copy */
      "v_mov_b32_e32 v51, v52", "s_branch 65519");
  Lab x = lab("gfx942", &l);
  CHECK(x.ok);
  CHECK_INT(x.code.nloops, 1);
  CHECK_INT(mix_of(&x, 0).copies, 6);
  arena_free(x.a);
}

/* ---- addresses in LDS ---- */

/* Cycles of the first access to LDS by its addresses; 0: they are not known. */
static int walked(const char *chip, const Listing *l) {
  Lab x = lab(chip, l);
  const char *error = NULL;
  x.image.rsrc2 = 2 << 1; /* two registers point to the arguments */
  x.image.properties |= 8;
  const IsaKernel *k = isa_decode(x.a, &x.image, next_line, (void *)(uintptr_t)l, &error);
  int cycles = -1;
  if (!k) printf("%s\n", error);
  if (k) loops_walk(x.a, k, &x.code);
  for (int i = 0; k && i < x.code.n && cycles < 0; i++)
    if (x.code.at[i].kind == LOOP_LDS) cycles = x.code.lds[i];
  arena_free(x.a);
  return cycles;
}

TEST(bank_conflicts) {
  static const struct {
    const char *chip, *address, *access;
    int cycles;
  } cases[] = {
      {"gfx942", "v_lshlrev_b32_e32 v1, 2, v0", "ds_read_b32 v2, v1", 2},
      {"gfx942", "v_lshlrev_b32_e32 v1, 3, v0", "ds_read_b32 v2, v1", 4},
      {"gfx942", "v_lshlrev_b32_e32 v1, 7, v0", "ds_read_b32 v2, v1", 64},
      {"gfx942", "v_mov_b32_e32 v1, 0x40", "ds_read_b32 v2, v1", 2}, /* the same word */
      {"gfx942", "v_lshlrev_b32_e32 v1, 4, v0", "ds_read_b128 v[4:7], v1", 8},
      {"gfx942", "v_lshlrev_b32_e32 v1, 7, v0", "ds_write_b64 v1, v[4:5] offset:8", 64},
      {"gfx942", "v_lshlrev_b32_e32 v1, 3, v0", "ds_read2_b64 v[4:7], v1 offset1:64", 8},
      {"gfx1100", "v_lshlrev_b32_e32 v1, 2, v0", "ds_load_b32 v2, v1", 1},
      {"gfx1100", "v_lshlrev_b32_e32 v1, 7, v0", "ds_load_b32 v2, v1", 32},
      {"gfx942", "global_load_dword v1, v0, s[0:1]", "ds_read_b32 v2, v1", 0},
      {"gfx942", "v_mov_b32_e32 v1, v9", "ds_read_b32 v2, v1", 0}, /* never written */
      {"gfx942", "v_lshlrev_b32_e32 v1, 2, v0", "ds_read_b96 v[4:6], v1", 0},
      {"gfx942", "v_add_u32_e32 v1, 1, v0", "ds_read_b32 v2, v1", 0}, /* not aligned */
      {"gfx942", "v_lshlrev_b32_e32 v1, 2, v0", "ds_bpermute_b32 v2, v1, v0", 0},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    Listing l = LISTING("v_and_b32_e32 v0, 0x3ff, v0", cases[i].address, cases[i].access,
                        "s_cbranch_scc1 65534", "s_endpgm");
    int cycles = walked(cases[i].chip, &l);
    if (cycles != cases[i].cycles) printf("%s: %s\n", cases[i].address, cases[i].access);
    CHECK_INT(cycles, cases[i].cycles);
  }
}

/* The path to the loop leads around what another version of it does; a value that depends on memory
 * through a comparison is unknown. */
TEST(path_to_a_loop) {
  Listing around = LISTING("v_lshlrev_b32_e32 v1, 2, v0", "s_cbranch_scc1 2", /* 1 -> 4 */
                           "v_mov_b32_e32 v1, 0", "s_endpgm",                 /**/
                           "ds_read_b32 v2, v1", "s_cbranch_scc1 65534", "s_endpgm");
  CHECK_INT(walked("gfx942", &around), 2);
  Listing compared = LISTING("global_load_dword v3, v0, s[0:1]", "s_waitcnt vmcnt(0)",
                             "v_cmp_eq_u32_e32 vcc, v3, v0", "v_cndmask_b32_e32 v1, v0, v0, vcc",
                             "ds_read_b32 v2, v1", "s_cbranch_scc1 65534", "s_endpgm");
  CHECK_INT(walked("gfx942", &compared), 0);
  Listing scalar =
      LISTING("s_load_dword s4, s[0:1], 0x0", "s_waitcnt lgkmcnt(0)", "s_cmp_eq_u32 s4, 0",
              "s_cselect_b32 s5, 64, 128", "v_mov_b32_e32 v1, s5", "ds_read_b32 v2, v1",
              "s_cbranch_scc1 65534", "s_endpgm");
  CHECK_INT(walked("gfx942", &scalar), 0);
}

/* ---- occupancy ---- */

TEST(waves_of_a_simd) {
  static const struct {
    const char *chip;
    unsigned vector, scalar, threads, lds;
    int waves, busy;
    const char *limit;
  } cases[] = {
      {"gfx942", 24, 20, 256, 0, 8, 4, "the hardware"},
      {"gfx942", 65, 20, 256, 0, 7, 4, "vector registers"},
      {"gfx942", 128, 20, 256, 0, 4, 4, "vector registers"},
      {"gfx942", 257, 20, 256, 0, 1, 4, "vector registers"},
      {"gfx942", 24, 104, 256, 0, 7, 4, "scalar registers"},
      {"gfx942", 128, 20, 256, 32768, 2, 4, "LDS"},
      {"gfx942", 128, 20, 128, 65536, 1, 2, "LDS"},
      {"gfx942", 128, 20, 256, 65537, 0, 0, "LDS"},
      {"gfx950", 128, 20, 256, 32768, 4, 4, "vector registers"},
      {"gfx1100", 128, 20, 128, 0, 10, 2, "vector registers"},
      {"gfx1201", 32, 107, 128, 0, 16, 2, "the hardware"},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    IsaImage image = {.chip = cases[i].chip, .group_bytes = cases[i].lds};
    if (strncmp(cases[i].chip, "gfx1", 4) == 0) image.properties = 1 << 10;
    LoopKernel k = {.image = &image,
                    .vector = cases[i].vector,
                    .scalar = cases[i].scalar,
                    .threads = cases[i].threads};
    LoopRoom r = loops_room(&k);
    CHECK_INT(r.waves, cases[i].waves);
    CHECK_INT(r.busy, cases[i].busy);
    CHECK_STR(r.limit, cases[i].limit);
  }
}

TESTS_MAIN(RUN(one_loop) RUN(nested_loops) RUN(block_behind_the_loop) RUN(entered_in_the_middle)
               RUN(backwards_but_not_around) RUN(bad_code) RUN(matrix_instructions)
                   RUN(units_that_are_shared) RUN(other_instructions) RUN(accumulator_copies)
                       RUN(bank_conflicts) RUN(path_to_a_loop) RUN(waves_of_a_simd))
