/* test_isa_text.c: the executor on instructions as a disassembler prints them, for what LLVM cannot
 * be made to emit at will: registers that overlap, any truth table, forms of constants. */
#include "unit/isa_kit.h"

typedef struct Lines {
  const char *const *at;
  int n;
} Lines;

static size_t print_line(void *user, const uint8_t *at, size_t bytes, uint64_t pc, char *text,
                         size_t room) {
  const Lines *l = user;
  (void)at, (void)bytes;
  snprintf(text, room, "\t%s", l->at[pc / 4]);
  return 4;
}

/* Runs the lines between those that make v1 the lane's index, and v[0:3] its 16 bytes in the
 * output; s[4:5] is the output. */
static bool run_lines(Arena *a, const char *chip, const char *const *lines, int n,
                      uint32_t out[64][4], const char **error) {
  enum { MOST = 32, KERNARG = 1 << 3 };
  static uint8_t code[4 * MOST];
  const char *all[MOST] = {"s_load_dwordx2 s[4:5], s[0:1], 0x0", "v_mov_b32_e32 v1, v0",
                           "s_waitcnt lgkmcnt(0)"};
  int count = 3;
  for (int i = 0; i < n; i++) all[count++] = lines[i];
  all[count++] = "v_lshlrev_b32_e32 v9, 4, v1";
  all[count++] = "global_store_dwordx4 v9, v[4:7], s[4:5]";
  all[count++] = "s_endpgm";
  Lines text = {all, count};
  IsaKit k = {.a = a, .most = 1000};
  k.code = (IsaImage){.name = "k", .chip = chip, .code = code, .properties = KERNARG};
  k.code.bytes = 4 * (size_t)count;
  k.kernel = isa_decode(k.a, &k.code, print_line, &text, &k.error);
  isa_kit_tensor(&k, "out", out, 64 * 16);
  bool ok = k.kernel && isa_kit_runs(&k, 1, 64);
  *error = k.error;
  return ok;
}

/* The sums of a matrix instruction may lie partly in the registers of its result. */
TEST(overlapping_sums) {
  Arena *a = arena_new();
  static const char *const up[] = {
      "v_mov_b32_e32 v2, 1.0",     "v_mov_b32_e32 v3, 2.0",
      "v_mov_b32_e32 v4, 4.0",     "v_mov_b32_e32 v5, 0.5",
      "v_mov_b64_e32 v[10:11], 0", "v_mfma_f32_16x16x16_f16 v[4:7], v[10:11], v[10:11], v[2:5]"};
  static const char *const down[] = {
      "v_mov_b32_e32 v6, 1.0",     "v_mov_b32_e32 v7, 2.0",
      "v_mov_b32_e32 v8, 4.0",     "v_mov_b32_e32 v9, 0.5",
      "v_mov_b64_e32 v[10:11], 0", "v_mfma_f32_16x16x16_f16 v[4:7], v[10:11], v[10:11], v[6:9]"};
  static const float expected[4] = {1, 2, 4, 0.5f};
  for (int way = 0; way < 2; way++) {
    static uint32_t out[64][4];
    const char *error;
    CHECK(run_lines(a, "gfx942", way ? down : up, 6, out, &error));
    for (int l = 0; l < 64; l += 21) CHECK_INT(memcmp(out[l], expected, sizeof expected), 0);
  }
  arena_free(a);
}

/* Bit 4a + 2b + c of the table is the result for the bits a, b, c. */
TEST(bitop3) {
  Arena *a = arena_new();
  for (unsigned table = 0; table < 256; table += 15) {
    static uint32_t out[64][4];
    const char *error;
    char op[96], half[96];
    snprintf(op, sizeof op, "v_bitop3_b32 v4, v2, v3, v10 bitop3:0x%x", table);
    snprintf(half, sizeof half, "v_bitop3_b16 v5, v2, v3, v10 bitop3:0x%x", table);
    const char *const lines[] = {"v_mov_b32_e32 v2, 0xff00ff00",
                                 "v_mov_b32_e32 v3, 0xffff0000",
                                 "v_mov_b32_e32 v10, 0xf0f0f0f0",
                                 op,
                                 half,
                                 "v_mov_b32_e32 v6, lit(0x7)",
                                 "v_mov_b32_e32 v7, 0"};
    uint32_t r = 0;
    for (int bit = 0; bit < 32; bit++) {
      unsigned x = 0xff00ff00u >> bit & 1, y = 0xffff0000u >> bit & 1, z = 0xf0f0f0f0u >> bit & 1;
      r |= (uint32_t)(table >> (4 * x + 2 * y + z) & 1) << bit;
    }
    CHECK(run_lines(a, "gfx950", lines, 7, out, &error));
    CHECK_INT(out[63][0], r);
    CHECK_INT(out[63][1] & 0xffff, r & 0xffff);
    CHECK_INT(out[63][2], 7);
  }
  arena_free(a);
}

/* Floats are clamped to 0 and 1, integers to the values of their type. Constants of packed operands
 * have the type of the operand: the low half is the number, except for integers, where it is f32. */
TEST(clamped) {
  Arena *a = arena_new();
  static const struct {
    const char *line;
    uint32_t result; /* v2: 2.5 and -1.5 in f16; v3: the same in bf16; v10: 0x7fff and 0x8000 */
  } cases[] = {
      {"v_pk_add_f16 v4, v2, v2 clamp", 0x00003c00},
      {"v_pk_add_f16 v4, v2, 1.0", 0xbe004300},
      {"v_pk_add_f16 v4, v2, 1.0 op_sel_hi:[1,0]", 0xb8004300},
      {"v_pk_add_bf16 v4, v3, v3 clamp", 0x00003f80},
      {"v_pk_add_bf16 v4, v3, 1.0 op_sel_hi:[1,0]", 0xbf004060},
      {"v_pk_add_u16 v4, v10, v10", 0x0000fffe},
      {"v_pk_add_u16 v4, v10, v10 clamp", 0xfffffffe},
      {"v_pk_add_i16 v4, v10, v10 clamp", 0x80007fff},
      {"v_pk_sub_i16 v4, v10, 1 op_sel_hi:[1,0] clamp", 0x80007ffe},
      {"v_pk_sub_u16 v4, 1, v10 op_sel_hi:[0,1] clamp", 0x00000000},
      {"v_pk_add_u16 v4, v10, 1.0", 0xbf807fff},
      {"v_fma_mixlo_f16 v4, v2, v2, v2 op_sel_hi:[1,1,1] clamp", 0x77773c00},
      {"v_add_u32_e64 v4, v10, v10 clamp", 0xffffffff},
      {"v_add_i32 v4, v10, v10 clamp", 0x80000000},
      {"v_subrev_u32_e64 v4, v10, 7 clamp", 0},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    static uint32_t out[64][4];
    const char *error;
    const char *const lines[] = {"v_mov_b32_e32 v2, 0xbe004100",  "v_mov_b32_e32 v3, 0xbfc04020",
                                 "v_mov_b32_e32 v10, 0x80007fff", "v_mov_b32_e32 v4, 0x77777777",
                                 "v_mov_b32_e32 v5, 0",           "v_mov_b32_e32 v6, 0",
                                 "v_mov_b32_e32 v7, 0",           cases[i].line};
    CHECK(run_lines(a, "gfx950", lines, 8, out, &error));
    CHECK_INT(out[63][0], cases[i].result);
  }
  arena_free(a);
}

/* What is not known is an error, with the instruction. */
TEST(refused) {
  Arena *a = arena_new();
  static const char *const lines[] = {
      "v_mfma_f32_16x16x16_f16 v[4:7], v[10:11], v[10:11], v[4:7] cbsz:1",
      "v_mfma_scale_f32_16x16x128_f8f6f4 v[4:7], v[10:17], v[10:17], v[4:7], v1, v1 cbsz:4",
      "v_mfma_scale_f32_16x16x128_f8f6f4 v[4:7], v[10:17], v[10:17], v[4:7], v1, v1 cbsz:5",
      "v_mfma_scale_f32_16x16x128_f8f6f4 v[4:7], v[10:17], v[10:17], v[4:7]",
      "v_bitop3_b32 v4, v2, v3",
      "v_mov_b32_e32 v2, lit(x)"};
  for (size_t i = 0; i < WV_LEN(lines); i++) {
    static uint32_t out[64][4];
    const char *error = NULL;
    CHECK(!run_lines(a, "gfx950", &lines[i], 1, out, &error));
    CHECK(error && strstr(error, lines[i]));
  }
  arena_free(a);
}

/* gfx950: a scale in a VGPR is a byte, any other is the exponent of an f32. */
TEST(scales) {
  Arena *a = arena_new();
  static const char *const scales[] = {"v20, v20", "s6, v20", "v20, s6", "s6, s6", "2.0, v20"};
  static const float expected[] = {128, 256, 256, 512, 256};
  for (size_t i = 0; i < WV_LEN(scales); i++) {
    static uint32_t out[64][4];
    const char *error,
        *product = arena_printf(a,
                                "v_mfma_scale_f32_16x16x128_f8f6f4 v[4:7], v[10:17], v[10:17], 0, "
                                "%s op_sel_hi:[0,0,0]",
                                scales[i]);
    const char *const lines[] = {"s_mov_b32 s6, 2.0",
                                 "v_mov_b32_e32 v20, 0x7f",
                                 "v_mov_b32_e32 v10, 0x38383838", /* 1 as f8e4m3fn */
                                 "v_mov_b32_e32 v11, v10",
                                 "v_mov_b64_e32 v[12:13], v[10:11]",
                                 "v_mov_b64_e32 v[14:15], v[10:11]",
                                 "v_mov_b64_e32 v[16:17], v[10:11]",
                                 product};
    CHECK(run_lines(a, "gfx950", lines, 8, out, &error));
    CHECK_INT(memcmp(out[9], &expected[i], sizeof expected[i]), 0);
  }
  arena_free(a);
}

/* Hardware registers are copied to and from any scalar register. */
TEST(hardware_registers) {
  Arena *a = arena_new();
  static const char *const reads[] = {"s_getreg_b32 s6, hwreg(HW_REG_SHADER_CYCLES_LO)",
                                      "s_getreg_b32 vcc_lo, hwreg(HW_REG_SHADER_CYCLES_LO)",
                                      "s_sub_u32 s6, vcc_lo, s6",
                                      "v_mov_b32_e32 v4, s6",
                                      "v_mov_b32_e32 v5, 0",
                                      "v_mov_b64_e32 v[6:7], 0"};
  static const char *const rounds[] = {"v_mov_b64_e32 v[4:5], 0", "v_mov_b64_e32 v[6:7], 0",
                                       "s_mov_b32 vcc_lo, 3",
                                       "s_setreg_b32 hwreg(HW_REG_MODE, 0, 2), vcc_lo"};
  static const char *const unknown[] = {"s_getreg_b32 v4, hwreg(HW_REG_SHADER_CYCLES_LO)"};
  static uint32_t out[64][4];
  const char *error = NULL;
  CHECK(run_lines(a, "gfx1201", reads, 6, out, &error));
  CHECK_INT(out[0][0], 1); /* instruction later */
  CHECK(!run_lines(a, "gfx1201", rounds, 4, out, &error));
  CHECK(!error);
  CHECK(!run_lines(a, "gfx1201", unknown, 1, out, &error));
  CHECK(error && strstr(error, "not understood"));
  arena_free(a);
}

TESTS_MAIN(RUN(overlapping_sums) RUN(bitop3) RUN(clamped) RUN(refused) RUN(scales)
               RUN(hardware_registers))
