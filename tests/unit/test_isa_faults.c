/* test_isa_faults.c: what the executor reports: code that breaks one rule each.
 *
 * Programs are given as text, as a disassembler prints them: compilers do not write such code. */
#include "isa/isa.h"
#include "unit/harness.h"

enum { LINES = 80, WORD = 4 };

/* A program; `at` is the text of one instruction per line. */
typedef struct Program {
  const char *line[LINES];
  int n;
} Program;

static size_t next_line(void *user, const uint8_t *at, size_t bytes, uint64_t pc, char *text,
                        size_t room) {
  (void)at, (void)bytes;
  const Program *p = user;
  snprintf(text, room, "%s", p->line[pc / WORD]);
  return WORD;
}

typedef struct Run {
  Arena *a;
  IsaKernel *kernel;
  const char *error;
  IsaFault fault;
  bool ok;
} Run;

static const uint8_t no_code[LINES * WORD];

static IsaImage image_of(const Program *p, const char *chip) {
  bool is_wave32 = chip[3] == '1';
  return (IsaImage){.name = "k",
                    .chip = chip,
                    .code = no_code,
                    .bytes = (size_t)(p->n * WORD),
                    .group_bytes = 1024,
                    .private_bytes = 16,
                    .rsrc1 = 0xf0000,         /* denormals are kept */
                    .rsrc2 = 2 << 1 | 1 << 7, /* two user registers, the id of the workgroup */
                    .properties = (uint16_t)(8 | (is_wave32 ? 1 << 10 : 0))};
}

/* Two waves; s[0:1]: the arguments, which begin with the address of `data`; v0: the item. */
static Run run_text(const char *chip, const char *const *lines, void *data, size_t bytes) {
  Program p = {.n = 0};
  Run r = {.a = arena_new()};
  for (; lines[p.n]; p.n++) p.line[p.n] = lines[p.n];
  IsaImage image = image_of(&p, chip);
  r.kernel = isa_decode(r.a, &image, next_line, &p, &r.error);
  if (!r.kernel) return r;
  void *args[2] = {data, NULL};
  IsaRange ranges[] = {{"data", (uint64_t)(uintptr_t)data, bytes, true},
                       {"args", (uint64_t)(uintptr_t)args, sizeof args, false}};
  IsaLaunch l = {.kernel = r.kernel,
                 .grid = {1, 1, 1},
                 .block = {2 * (unsigned)isa_wave_size(r.kernel), 1, 1},
                 .args = args,
                 .args_bytes = sizeof args,
                 .ranges = ranges,
                 .nranges = 2,
                 .most = 1000};
  uint8_t *memory = arena_alloc(r.a, isa_machine_bytes(&l) + 64);
  memory += (64 - (uintptr_t)memory % 64) % 64;
  r.ok = isa_run(isa_machine(memory, &l), &l, (unsigned[3]){0}, &r.fault);
  return r;
}

#define GFX9(...)                                                                                  \
  (const char *const[]) { __VA_ARGS__, "s_endpgm", NULL }

typedef struct Case {
  const char *chip;
  const char *const *lines;
  IsaFaultKind kind;
  const char *text; /* part of the message */
} Case;

#define LOAD_ARGS "s_load_dwordx2 s[2:3], s[0:1], 0x0", "s_waitcnt lgkmcnt(0)"
#define ADDRESS "v_lshlrev_b32_e32 v1, 2, v0"

/* v1: a half of a word; v2: the other half of it, which another wave writes. */
#define HALVES(...)                                                                                \
  GFX9("v_lshlrev_b32_e32 v1, 2, v0", "v_and_b32_e32 v1, 0xff, v1", "v_lshrrev_b32_e32 v2, 5, v0", \
       "v_and_b32_e32 v2, 2, v2", "v_add_u32_e32 v1, v1, v2", "v_xor_b32_e32 v2, 2, v1",           \
       "ds_write_b16 v1, v0", __VA_ARGS__)
#define ATOMICS(...) GFX9("v_mov_b32_e32 v1, 16", "ds_add_u32 v1, v0", __VA_ARGS__)

/* A mask of which nothing was written, combined with EXEC; then it is used. */
#define MERGED(before, op, after)                                                                  \
  GFX9(LOAD_ARGS, ADDRESS, "v_cmp_lt_u32_e64 s[8:9], 5, v0", before, op " s[6:7], s[4:5], exec",   \
       "s_and_b64 s[8:9], s[8:9], exec", "s_or_b64 s[6:7], s[6:7], s[8:9]", after,                 \
       "v_cndmask_b32_e64 v2, 0, v0, s[6:7]", "global_store_dword v1, v2, s[2:3]")
/* s4 was never written, and is bits 8 to 39 of s[6:7]. */
#define MIDDLE(...)                                                                                \
  GFX9(LOAD_ARGS, "s_mov_b32 s5, 0", "s_lshl_b64 s[6:7], s[4:5], 8", __VA_ARGS__,                  \
       "v_mov_b32_e32 v8, s7", "v_and_b32_e32 v8, 0xfc, v8", "global_store_dword v8, v0, s[2:3]")

/* v8: its upper half was never written; v2: an address. Whether a part of a result is. */
#define UPPER(...)                                                                                 \
  GFX9(LOAD_ARGS, "v_lshlrev_b32_e32 v1, 2, v0", "v_lshl_or_b32 v8, v7, 16, v0", __VA_ARGS__,      \
       "v_and_b32_e32 v2, 0xfc, v2", "global_store_dword v2, v0, s[2:3]")

/* One wave writes and signals barrier 1, for which the other waits before it reads; then it signals
 * barrier 2. Where does it wait for its store? */
#define TWO_SIGNALS(before, after)                                                                 \
  GFX9("v_readfirstlane_b32 s4, v0", "v_and_b32_e32 v1, 31, v0", "v_lshlrev_b32_e32 v1, 2, v1",    \
       "s_mov_b32 m0, 0x20001", "s_cmp_lg_u32 s4, 0", "s_cbranch_scc1 7", "ds_store_b32 v1, v0",   \
       before, "s_barrier_signal m0", after, "s_mov_b32 m0, 0x10002", "s_barrier_signal m0",       \
       "s_endpgm", "s_barrier_join m0", "s_barrier_signal m0", "s_barrier_wait 1",                 \
       "ds_load_b32 v3, v1")

/* Both waves add to a word, meet at barrier 1, and read it. */
#define NAMED                                                                                      \
  "s_mov_b32 m0, 0x20001", "s_barrier_join m0", "s_barrier_signal m0", "s_barrier_wait 1"
#define NAMED_ATOMICS(...) GFX9("v_mov_b32_e32 v1, 16", "ds_add_u32 v1, v0", __VA_ARGS__)

static const Case fault_cases[] = {
    {"gfx1250", TWO_SIGNALS("s_wait_dscnt 0x0", "s_nop 0"), ISA_OK, ""},
    {"gfx1250", TWO_SIGNALS("s_nop 0", "s_wait_dscnt 0x0"), ISA_EARLY,
     "wave 0 did not wait for its store before the barrier"},
    {"gfx1250", NAMED_ATOMICS("s_wait_dscnt 0x0", NAMED, "ds_load_b32 v3, v1"), ISA_OK, ""},
    {"gfx1250", NAMED_ATOMICS("s_wait_dscnt 0x0", "ds_load_b32 v3, v1"), ISA_RACE, "a wave before"},
    {"gfx1250", NAMED_ATOMICS(NAMED, "ds_load_b32 v3, v1"), ISA_EARLY,
     "did not wait for its atomic operation before the barrier"},
    {"gfx1250", /* another word afterwards, and another round */
     NAMED_ATOMICS("s_wait_dscnt 0x0", NAMED, "ds_add_u32 v1, v0 offset:4", "ds_load_b32 v3, v1",
                   "s_wait_dscnt 0x0", NAMED, "ds_add_u32 v1, v0", "s_wait_dscnt 0x0", NAMED,
                   "ds_load_b32 v3, v1", "ds_load_b32 v3, v1 offset:4"),
     ISA_OK, ""},
    {"gfx1250", /* a second round without a barrier between its atomics and the read */
     NAMED_ATOMICS("s_wait_dscnt 0x0", NAMED, "ds_add_u32 v1, v0", "s_wait_dscnt 0x0",
                   "ds_load_b32 v3, v1"),
     ISA_RACE, "without a barrier"},
    {"gfx942", GFX9("v_mov_b32_e32 v1, 0", "s_barrier"), ISA_OK, ""},
    {"gfx942", GFX9("s_load_dwordx2 s[2:3], s[0:1], 0x0", "s_mov_b32 s4, s2"), ISA_EARLY,
     "s2 is touched before a wait for `s_load_dwordx2"},
    {"gfx942",
     GFX9("s_load_dwordx2 s[2:3], s[0:1], 0x0", "s_load_dword s4, s[0:1], 0x8",
          "s_waitcnt lgkmcnt(1)", "s_mov_b32 s5, s2"),
     ISA_EARLY, "s2 is touched"}, /* scalar loads complete in any order */
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "global_load_dword v2, v1, s[2:3]", "v_add_u32_e32 v3, v2, v1"),
     ISA_EARLY, "v2 is touched"},
    {"gfx942", GFX9(LOAD_ARGS, ADDRESS, "global_load_dword v2, v1, s[2:3]", "v_mov_b32_e32 v2, 0"),
     ISA_EARLY, "v2 is touched"}, /* the load would overwrite it */
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "global_load_dword v2, v1, s[2:3]",
          "global_load_dword v3, v1, s[2:3]", "s_waitcnt vmcnt(1)", "v_add_u32_e32 v4, v2, v1"),
     ISA_OK, ""},
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "global_load_dword v2, v1, s[2:3]",
          "global_load_dword v3, v1, s[2:3]", "s_waitcnt vmcnt(1)", "v_add_u32_e32 v4, v3, v1"),
     ISA_EARLY, "v3 is touched"},
    {"gfx942", GFX9(LOAD_ARGS, "global_store_dword v0, v7, s[2:3]"), ISA_UNSET,
     "v7 is used, but was never written"},
    /* The low 36 bits of a sum need those of its terms; s5 was never written. */
    {"gfx942",
     GFX9(LOAD_ARGS, "s_mov_b32 s4, 1", "s_lshl_b64 s[6:7], s[4:5], 8", "v_mov_b32_e32 v8, s6",
          "v_mov_b32_e32 v9, s7", "v_add_u32_e32 v9, 1, v9", "v_alignbit_b32 v8, v9, v8, 4",
          "v_and_b32_e32 v8, 0, v8", "global_store_dword v8, v0, s[2:3]"),
     ISA_OK, ""},
    {"gfx942",
     GFX9(LOAD_ARGS, "s_mov_b32 s4, 1", "s_lshl_b64 s[6:7], s[4:5], 8", "v_mov_b32_e32 v8, s6",
          "v_mov_b32_e32 v9, s7", "v_alignbit_b32 v8, v9, v8, 9",
          "global_store_dword v8, v0, s[2:3]"),
     ISA_UNSET, "v8 is used"},
    {"gfx942",
     GFX9(LOAD_ARGS, "s_mov_b32 s4, 1", "s_lshr_b64 s[6:7], s[4:5], 8", "v_mov_b32_e32 v8, s6",
          "global_store_dword v8, v0, s[2:3]"),
     ISA_UNSET, "v8 is used"},
    {"gfx942",
     GFX9(LOAD_ARGS, "s_mov_b32 s4, 1", "s_lshl_b64 s[6:7], s[4:5], 8", "s_and_b32 s7, s7, 0xff",
          "v_mov_b32_e32 v8, s7", "global_store_dword v8, v0, s[2:3]"),
     ISA_OK, ""},
    {"gfx942",
     GFX9(LOAD_ARGS, "s_mov_b32 s4, 1", "s_lshl_b64 s[6:7], s[4:5], 8", "s_and_b32 s7, s7, 0x1ff",
          "v_mov_b32_e32 v8, s7", "global_store_dword v8, v0, s[2:3]"),
     ISA_UNSET, "v8 is used"},
    /* Merging masks of lanes: LLVM keeps the lanes that do not execute, of a mask that may be new. */
    {"gfx942", MERGED("s_nop 0", "s_andn2_b64", "s_nop 0"), ISA_OK, ""},
    {"gfx942", MERGED("s_mov_b64 exec, 0xf0", "s_andn2_b64", "s_nop 0"), ISA_OK, ""},
    {"gfx942", MERGED("s_mov_b64 exec, 0xf0", "s_andn2_b64", "s_mov_b64 exec, 0xf8"), ISA_UNSET,
     "v2 is used"},
    {"gfx942", MERGED("s_mov_b64 exec, 0xf0", "s_and_b64", "s_nop 0"), ISA_UNSET, "v2 is used"},
    {"gfx942", MERGED("s_mov_b64 exec, 0xf0", "s_or_b64", "s_nop 0"), ISA_OK, ""},
    {"gfx942", MERGED("s_mov_b64 exec, 0xf0", "s_orn2_b64", "s_nop 0"), ISA_UNSET, "v2 is used"},
    /* Bits in the middle: 8 to 39 of s[6:7] were never written. */
    {"gfx942", MIDDLE("s_lshr_b32 s7, s7, 8"), ISA_OK, ""},
    {"gfx942", MIDDLE("s_lshr_b32 s7, s7, 5"), ISA_UNSET, "v8 is used"},
    {"gfx942", MIDDLE("s_and_b32 s7, s7, 0xffffff00"), ISA_OK, ""},
    {"gfx942", MIDDLE("s_or_b32 s7, s7, 0xff"), ISA_OK, ""},
    {"gfx942", MIDDLE("s_or_b32 s7, s7, 0x7f"), ISA_UNSET, "v8 is used"},
    {"gfx942", MIDDLE("s_add_u32 s7, s7, 0", "s_lshr_b32 s7, s7, 8"), ISA_UNSET, "v8 is used"},
    {"gfx942", MERGED("s_mov_b64 exec, 0xf0", "s_orn2_b64", "s_mov_b64 exec, 15"), ISA_OK, ""},
    {"gfx942", MERGED("s_mov_b64 exec, 0xf0", "s_nor_b64", "s_nop 0"), ISA_OK, ""},
    {"gfx942", MERGED("s_mov_b64 exec, 0xf0", "s_nand_b64", "s_mov_b64 exec, 15"), ISA_OK, ""},
    /* One of two values: only the one that is chosen counts. */
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "s_cmp_eq_u32 0, 0", "s_cselect_b32 s6, 4, s20",
          "v_mov_b32_e32 v2, s6", "global_store_dword v1, v2, s[2:3]"),
     ISA_OK, ""},
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "s_cmp_eq_u32 0, 1", "s_cselect_b32 s6, 4, s20",
          "v_mov_b32_e32 v2, s6", "global_store_dword v1, v2, s[2:3]"),
     ISA_UNSET, "v2 is used"},
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "v_cmp_gt_u32_e64 s[8:9], v0, -1",
          "v_cndmask_b32_e64 v2, v0, v7, s[8:9]", "global_store_dword v1, v2, s[2:3]"),
     ISA_OK, ""},
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "v_cmp_gt_u32_e64 s[8:9], v0, -1",
          "v_cndmask_b32_e64 v2, v7, v0, s[8:9]", "global_store_dword v1, v2, s[2:3]"),
     ISA_UNSET, "v2 is used"},
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "v_cmp_gt_u32_e64 s[8:9], v0, 62",
          "v_cndmask_b32_e64 v2, v0, v7, s[8:9]", "global_store_dword v1, v2, s[2:3]"),
     ISA_UNSET, "v2 is used"},
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "v_cmp_gt_u32_e64 s[8:9], v0, 0x7e", "s_mov_b64 exec, 15",
          "v_cndmask_b32_e64 v2, v0, v7, s[8:9]", "global_store_dword v1, v2, s[2:3]"),
     ISA_OK, ""},
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "v_cndmask_b32_e64 v2, v0, v1, s[8:9]",
          "global_store_dword v1, v2, s[2:3]"),
     ISA_UNSET, "v2 is used"},
    /* Instructions that no lane executes use nothing, and VGPRs keep what they hold. */
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "s_mov_b64 exec, 0", "global_store_dword v1, v7, s[2:3]",
          "global_load_dword v2, v7, s[2:3]", "ds_write_b32 v7, v7"),
     ISA_OK, ""},
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "v_mov_b32_e32 v2, 0", "s_mov_b64 exec, 0", "v_mov_b32_e32 v2, v7",
          "s_mov_b64 exec, -1", "global_store_dword v1, v2, s[2:3]"),
     ISA_OK, ""},
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "s_mov_b64 exec, 0", "v_mov_b32_e32 v2, v7", "s_mov_b64 exec, -1",
          "global_store_dword v1, v2, s[2:3]"),
     ISA_UNSET, "v2 is used"},
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "s_mov_b64 exec, 0", "v_cmp_lt_u32_e64 s[8:9], v7, v0",
          "s_mov_b64 exec, -1", "v_cndmask_b32_e64 v2, v0, v7, s[8:9]",
          "global_store_dword v1, v2, s[2:3]"),
     ISA_OK, ""},
    {"gfx942", GFX9("s_mov_b64 exec, 0", "v_readfirstlane_b32 s4, v7", "s_cmp_eq_u32 s4, 0"),
     ISA_UNSET, "s4 is used"},
    {"gfx942",
     GFX9("v_mov_b32_e32 v3, 0", "s_mov_b64 exec, 0", "scratch_load_dword v3, off, off",
          "s_waitcnt vmcnt(0)", "s_mov_b64 exec, -1", "v_cmp_lt_u32_e32 vcc, v0, v3"),
     ISA_OK, ""},
    /* Parts of registers: halves of packed operands and of results, bytes, spilled words. */
    {"gfx942", UPPER("v_mov_b32_e32 v2, v8"), ISA_OK, ""},
    {"gfx942", UPPER("v_lshrrev_b32_e32 v2, 9, v8"), ISA_UNSET, "v2 is used"},
    {"gfx942", UPPER("v_pk_add_u16 v2, v8, v8"), ISA_OK, ""},
    {"gfx942", UPPER("v_pk_add_u16 v2, v8, v8 op_sel:[0,1]"), ISA_UNSET, "v2 is used"},
    {"gfx942", UPPER("v_pk_add_u16 v2, v8, v0 op_sel_hi:[0,0]", "v_lshrrev_b32_e32 v2, 16, v2"),
     ISA_OK, ""},
    {"gfx942", UPPER("v_add_f16_e32 v2, v8, v8"), ISA_OK, ""},
    {"gfx942", UPPER("v_add_f16_e64 v2, v8, v8 op_sel:[0,1,0]"), ISA_UNSET, "v2 is used"},
    {"gfx942", UPPER("v_bfi_b32 v2, 0xffff, v8, v0"), ISA_OK, ""},
    {"gfx942", UPPER("v_bfi_b32 v2, 0xffff, v0, v8"), ISA_OK, ""},
    {"gfx942", UPPER("v_bfi_b32 v2, 0xffff, v8, v0", "v_lshrrev_b32_e32 v2, 16, v2"), ISA_OK, ""},
    {"gfx942", UPPER("v_bfi_b32 v2, 0xffff, v0, v8", "v_lshrrev_b32_e32 v2, 16, v2"), ISA_UNSET,
     "v2 is used"},
    {"gfx942", UPPER("v_and_or_b32 v2, v8, 0xffff, v0", "v_lshrrev_b32_e32 v2, 16, v2"), ISA_OK,
     ""},
    {"gfx942", UPPER("v_and_or_b32 v2, v8, 0x7ffff, v0", "v_lshrrev_b32_e32 v2, 16, v2"), ISA_UNSET,
     "v2 is used"},
    {"gfx942",
     UPPER("s_mov_b32 s4, 0x5040c0d", "v_perm_b32 v2, v8, v0, s4", "v_lshrrev_b32_e32 v2, 16, v2"),
     ISA_OK, ""},
    {"gfx942",
     UPPER("s_mov_b32 s4, 0x7040c0d", "v_perm_b32 v2, v8, v0, s4", "v_lshrrev_b32_e32 v2, 24, v2"),
     ISA_UNSET, "v2 is used"},
    {"gfx1100", UPPER("v_mov_b32_e32 v2, 0", "v_mov_b16_e32 v2.h, v8.h"), ISA_OK, ""},
    {"gfx1100", UPPER("v_mov_b32_e32 v2, 0", "v_mov_b16_e32 v2.l, v8.h"), ISA_UNSET, "v2 is used"},
    {"gfx1100",
     UPPER("v_mov_b32_e32 v2, 0", "v_mov_b16_e32 v2.l, v8.h", "v_lshrrev_b32_e32 v2, 16, v2"),
     ISA_OK, ""},
    {"gfx942",
     UPPER("v_mov_b32_e32 v2, 0", "v_add_f16_e32 v2, v7, v7", "v_lshrrev_b32_e32 v2, 16, v2"),
     ISA_OK, ""},
    {"gfx942",
     UPPER("scratch_store_dword off, v8, off", "scratch_load_dword v2, off, off",
           "s_waitcnt vmcnt(0)"),
     ISA_OK, ""},
    {"gfx942",
     UPPER("scratch_store_dword off, v8, off", "scratch_load_dword v2, off, off",
           "s_waitcnt vmcnt(0)", "v_lshrrev_b32_e32 v2, 16, v2"),
     ISA_UNSET, "v2 is used"},
    {"gfx942",
     UPPER("scratch_store_dword off, v8, off", "scratch_store_short off, v0, off offset:2",
           "scratch_load_dword v2, off, off", "s_waitcnt vmcnt(0)", "v_lshrrev_b32_e32 v2, 16, v2"),
     ISA_OK, ""},
    {"gfx942", GFX9(LOAD_ARGS, "v_add_u32_e32 v2, v0, v7", "global_store_dword v1, v2, s[2:3]"),
     ISA_UNSET, "v1 is used"},
    {"gfx942", GFX9("v_cmp_lt_u32_e32 vcc, v0, v9"), ISA_UNSET, "v9 is used"},
    {"gfx942", GFX9(LOAD_ARGS, "v_mov_b32_e32 v1, 0x1fd", "global_load_dword v2, v1, s[2:3]"),
     ISA_OUTSIDE, "4 bytes are read at byte 509 of `data`, which has 512"},
    {"gfx942", GFX9("v_mov_b32_e32 v1, 0x3fd", "ds_write_b32 v1, v0"), ISA_OUTSIDE,
     "4 bytes at 1021 of LDS, of which the workgroup has 1024"},
    {"gfx942", GFX9("scratch_store_dword off, v0, off offset:16"), ISA_OUTSIDE,
     "scratch memory, which has 16"},
    {"gfx942",
     GFX9("v_readfirstlane_b32 s4, v0", "s_cmp_lg_u32 s4, 0", "s_cbranch_scc1 1", "s_barrier"),
     ISA_BARRIER, "wave 1 has ended without this barrier"},
    {"gfx942", GFX9("s_branch 65535"), ISA_ENDLESS, "1000 instructions"},
    {"gfx942", GFX9("s_trap 2"), ISA_UNKNOWN, "stops itself"},
    {"gfx942", GFX9(LOAD_ARGS, "v_mov_b32_e32 v1, 2", "global_atomic_add v1, v0, s[2:3]"),
     ISA_UNALIGNED, "on 4 bytes is 2 bytes beyond"},
    {"gfx942",
     GFX9("v_mov_b32_e32 v1, 4", "v_mov_b32_e32 v2, 0", "v_mov_b32_e32 v3, 0",
          "ds_add_u64 v1, v[2:3]"),
     ISA_UNALIGNED, "on 8 bytes is 4 bytes beyond"},
    /* Transposing reads need all lanes, aligned addresses, and the data of all of them. */
    {"gfx950", GFX9("v_lshlrev_b32_e32 v1, 3, v0", "ds_read_b64_tr_b16 v[2:3], v1"), ISA_OK, ""},
    {"gfx950", GFX9("v_lshlrev_b32_e32 v1, 3, v0", "ds_read_b64_tr_b16 v[2:3], v1 offset:4"),
     ISA_UNALIGNED, "LDS byte 4 is not a multiple of 8"},
    {"gfx950", GFX9("v_lshlrev_b32_e32 v1, 3, v0", "ds_read_b96_tr_b6 v[2:4], v1"), ISA_UNALIGNED,
     "LDS byte 8 is not a multiple of 16"},
    {"gfx950", GFX9("v_lshlrev_b32_e32 v1, 3, v0", "ds_read_b64_tr_b8 v[2:3], v1 offset:512"),
     ISA_OUTSIDE, "8 bytes at 1024 of LDS"},
    {"gfx950",
     GFX9("v_lshlrev_b32_e32 v1, 3, v0", "s_mov_b64 exec, 0xffff", "ds_read_b64_tr_b4 v[2:3], v1"),
     ISA_UNKNOWN, "while some lanes are inactive"},
    {"gfx950",
     GFX9("v_lshlrev_b32_e32 v1, 3, v0", "ds_read_b64_tr_b16 v[2:3], v1", "v_mov_b32_e32 v4, v3"),
     ISA_EARLY, "v3 is touched before a wait for `ds_read_b64_tr_b16"},
    {"gfx950",
     GFX9("v_lshlrev_b32_e32 v1, 3, v0", "v_xor_b32_e32 v4, 0x200, v1", "ds_write_b32 v4, v0",
          "s_waitcnt lgkmcnt(0)", "ds_read_b64_tr_b16 v[2:3], v1"),
     ISA_RACE, "without a barrier in between"},
    /* Copies from memory to LDS are not ordered with LDS reads, even of the same wave. */
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "s_mov_b32 m0, 0", "global_load_lds_dword v1, s[2:3]",
          "ds_read_b32 v2, v1"),
     ISA_EARLY, "did not wait for its copy"},
    {"gfx942",
     GFX9(LOAD_ARGS, ADDRESS, "v_readfirstlane_b32 s4, v1", "s_mov_b32 m0, s4",
          "global_load_lds_dword v1, s[2:3]", "s_waitcnt vmcnt(0)", "ds_read_b32 v2, v1"),
     ISA_OK, ""},
    /* Between waves: a store, a wait, a barrier, a read. */
    {"gfx942",
     GFX9(ADDRESS, "v_xor_b32_e32 v2, 0x100, v1", "ds_write_b32 v1, v0", "s_waitcnt lgkmcnt(0)",
          "s_barrier", "ds_read_b32 v3, v2"),
     ISA_OK, ""},
    {"gfx942",
     GFX9(ADDRESS, "v_xor_b32_e32 v2, 0x100, v1", "ds_write_b32 v1, v0", "s_barrier",
          "ds_read_b32 v3, v2"),
     ISA_EARLY, "did not wait for its store before the barrier"},
    {"gfx942",
     GFX9(ADDRESS, "v_xor_b32_e32 v2, 0x100, v1", "ds_write_b32 v1, v0", "s_waitcnt lgkmcnt(0)",
          "ds_read_b32 v3, v2"),
     ISA_RACE, "without a barrier in between"},
    /* Parts of a word: other bytes are other places. */
    {"gfx942", HALVES("s_waitcnt lgkmcnt(0)", "s_barrier", "ds_read_u16 v3, v2"), ISA_OK, ""},
    {"gfx942", HALVES("s_waitcnt lgkmcnt(0)", "ds_read_u16 v3, v2"), ISA_RACE, "without a barrier"},
    {"gfx942", HALVES("s_barrier", "ds_read_u16 v3, v2"), ISA_EARLY, "did not wait for its store"},
    {"gfx942", HALVES("s_waitcnt lgkmcnt(0)", "ds_read_u16 v3, v1"), ISA_OK, ""},
    {"gfx942", HALVES("ds_read_u16 v3, v2", "s_waitcnt lgkmcnt(0)", "ds_write_b16 v1, v0"),
     ISA_RACE, "without a barrier"},
    /* Atomic operations of several waves, and other accesses. */
    {"gfx942", ATOMICS("s_waitcnt lgkmcnt(0)", "s_barrier", "ds_read_b32 v3, v1"), ISA_OK, ""},
    {"gfx942", ATOMICS("s_waitcnt lgkmcnt(0)", "ds_read_b32 v3, v1"), ISA_RACE, "is written"},
    {"gfx942", ATOMICS("s_barrier", "ds_read_b32 v3, v1"), ISA_EARLY,
     "did not wait for its atomic operation"},
    {"gfx942", ATOMICS("ds_write_b32 v1, v0"), ISA_RACE, "is read, which wave 0 wrote"},
    {"gfx1201", GFX9("s_barrier_signal -1", "s_barrier_wait 0xffff"), ISA_OK, ""},
    {"gfx1201", GFX9("s_barrier_wait 0xffff"), ISA_BARRIER, "never signals"},
    {"gfx1201", GFX9("s_barrier_signal 1"), ISA_BARRIER, "which has no members"},
    {"gfx1201", GFX9("s_barrier_signal -2"), ISA_UNKNOWN, "does not know barrier -2"},
    {"gfx1201", GFX9("s_barrier_wait 1"), ISA_BARRIER, "a barrier it never signals"},
    /* Spilled registers may hold nothing, as long as they are not used. */
    {"gfx942",
     GFX9("scratch_store_dword off, v7, off", "scratch_load_dword v3, off, off",
          "s_waitcnt vmcnt(0)", "v_mov_b32_e32 v4, v3"),
     ISA_OK, ""},
    {"gfx942",
     GFX9("scratch_store_dword off, v7, off", "scratch_load_dword v3, off, off",
          "s_waitcnt vmcnt(0)", "v_cmp_lt_u32_e32 vcc, v0, v3"),
     ISA_UNSET, "v3 is used"},
    {"gfx942",
     GFX9("scratch_store_dword off, v0, off", "scratch_load_dword v3, off, off",
          "s_waitcnt vmcnt(0)", "v_cmp_lt_u32_e32 vcc, v0, v3"),
     ISA_OK, ""},
    {"gfx942", GFX9("scratch_store_dword v9, v0, off"), ISA_UNSET, "v9 is used"},
    {"gfx942",
     GFX9("s_getpc_b64 s[4:5]", "s_add_u32 s4, s4, 16", "s_addc_u32 s5, s5, 0",
          "s_setpc_b64 s[4:5]", "s_trap 2", "s_nop 0"),
     ISA_OK, ""},
    {"gfx942",
     GFX9("s_getpc_b64 s[4:5]", "s_add_u32 s4, s4, 18", "s_addc_u32 s5, s5, 0",
          "s_setpc_b64 s[4:5]", "s_nop 0", "s_nop 0"),
     ISA_OUTSIDE, "a jump"},
    /* 1024 registers: two further bits for src0, src1, src2 and the destination. */
    {"gfx1250",
     GFX9("s_set_vgpr_msb 0x40", "v_mov_b32_e32 v1, 7", "s_set_vgpr_msb 0x4004",
          "v_cmp_eq_u32_e32 vcc_lo, v0, v1"),
     ISA_OK, ""},
    {"gfx1250",
     GFX9("s_set_vgpr_msb 0x40", "v_mov_b32_e32 v1, 7", "s_set_vgpr_msb 0x4000",
          "v_cmp_eq_u32_e32 vcc_lo, v0, v1"),
     ISA_UNSET, "v1 is used"},
    {"gfx1250",
     GFX9("s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 25, 1), 0x1001", "v_mov_b32_e32 v1, 7",
          "s_set_vgpr_msb 4", "v_cmp_eq_u32_e32 vcc_lo, v0, v1"),
     ISA_OK, ""},
    {"gfx1250", GFX9("s_set_vgpr_msb 12", "v_cmp_eq_u32_e32 vcc_lo, v0, v2"), ISA_UNSET, "v770"},
    {"gfx1250", GFX9("s_set_vgpr_msb 2", "ds_load_b32 v1, v3"), ISA_UNSET, "v515 is used"},
    {"gfx1250", GFX9("s_set_vgpr_msb 4", "ds_store_b32 v0, v3"), ISA_UNSET, "v259 is used"},
    {"gfx1250", GFX9("s_set_vgpr_msb 0x80", "buffer_store_b32 v3, v0, s[8:11], null offen"),
     ISA_UNSET, "v515 is used"},
    {"gfx1100", GFX9("s_load_b32 s4, s[0:1], 0x0", "v_mov_b32_e32 v1, s4"), ISA_EARLY, "s4"},
};

TEST(faults) {
  static uint32_t data[128];
  for (size_t i = 0; i < WV_LEN(fault_cases); i++) {
    const Case *c = &fault_cases[i];
    Run r = run_text(c->chip, c->lines, data, sizeof data);
    bool right = r.kernel && r.fault.kind == c->kind && strstr(r.fault.text, c->text);
    CHECK(right);
    if (!right) printf("case %zu: %s\n", i, r.kernel ? r.fault.text : r.error);
    arena_free(r.a);
  }
}

/* The tensor is bytes 1 to 5 of two words. An atomic operation on a word may reach beyond it, if it
 * leaves the bytes there as they are. */
#define EDGE(at, word) LOAD_ARGS, "v_mov_b32_e32 v1, " at, "v_mov_b32_e32 v2, " word
TEST(word_edges) {
  const Case cases[] = {
      {"gfx942", GFX9(EDGE("0", "0x100"), "global_atomic_or v1, v2, s[2:3] offset:-1"), ISA_OK, ""},
      {"gfx942", GFX9(EDGE("0", "0xffff00ff"), "global_atomic_and v1, v2, s[2:3] offset:-1"),
       ISA_OK, ""},
      {"gfx942", GFX9(EDGE("3", "0x7f7f"), "global_atomic_xor v1, v2, s[2:3]"), ISA_OK, ""},
      {"gfx942", GFX9(EDGE("3", "0"), "global_atomic_or v1, v2, s[2:3]"), ISA_OK, ""},
      {"gfx942",
       GFX9(EDGE("3", "0x1234"), "v_mov_b32_e32 v3, 0",
            "global_atomic_cmpswap v4, v1, v[2:3], s[2:3] sc0", "s_waitcnt vmcnt(0)",
            "global_store_byte v3, v4, s[2:3] offset:3"),
       ISA_OK, ""},
      {"gfx942", GFX9(EDGE("0", "0x101"), "global_atomic_or v1, v2, s[2:3] offset:-1"), ISA_OUTSIDE,
       "4 bytes are written at byte -1 of `data`, which has 5"},
      {"gfx942", GFX9(EDGE("3", "0xff00ffff"), "global_atomic_and v1, v2, s[2:3]"), ISA_OUTSIDE,
       "4 bytes are written at byte 3 of `data`, which has 5"},
      {"gfx942",
       GFX9(EDGE("3", "0x12345"), "v_mov_b32_e32 v3, 0",
            "global_atomic_cmpswap v1, v[2:3], s[2:3]"),
       ISA_OUTSIDE, "at byte 3"},
      {"gfx942", GFX9(EDGE("3", "0"), "global_atomic_add v1, v2, s[2:3]"), ISA_OUTSIDE,
       "at byte 3"},
      {"gfx942", GFX9(EDGE("7", "0"), "global_atomic_or v1, v2, s[2:3]"), ISA_OUTSIDE, "at byte 7"},
      {"gfx942", GFX9(EDGE("2", "0"), "global_atomic_or v1, v2, s[2:3]"), ISA_OUTSIDE, "at byte 2"},
      {"gfx942", GFX9(EDGE("3", "0"), "global_load_dword v3, v1, s[2:3]"), ISA_OUTSIDE,
       "at byte 3"},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    uint32_t words[] = {0xa50000a5, 0xa5a50000, 0xa5a5a5a5};
    uint8_t *data = (uint8_t *)words + 1;
    Run r = run_text(cases[i].chip, cases[i].lines, data, 5);
    bool right = r.kernel && r.fault.kind == cases[i].kind && strstr(r.fault.text, cases[i].text);
    CHECK(right);
    if (!right) printf("case %zu: %s\n", i, r.kernel ? r.fault.text : r.error);
    CHECK((words[0] & 0xff) == 0xa5 && words[1] >> 16 == 0xa5a5 && words[2] == 0xa5a5a5a5);
    arena_free(r.a);
  }
}

TEST(report) {
  static uint32_t data[128];
  const char *const lines[] = {LOAD_ARGS, "v_mov_b32_e32 v1, 0x200",
                               "global_load_dword v2, v1, s[2:3]", "s_endpgm", NULL};
  Run r = run_text("gfx942", lines, data, sizeof data);
  CHECK_STR(isa_fault_text(r.a, r.kernel, &r.fault),
            "kernel `k`, pc 0xc (`global_load_dword v2, v1, s[2:3]`), workgroup (0, 0, 0), wave 0, "
            "lane 0: 4 bytes are read at byte 512 of `data`, which has 512");
  arena_free(r.a);
}

/* What is not known is an error before anything runs. */
TEST(unknown) {
  static const struct {
    const char *line, *error;
  } cases[] = {
      {"v_frobnicate_b32 v0, v1", "the executor does not know this instruction"},
      {"v_add_f32_e32 v0, v1", "an unexpected number of operands"},
      {"v_add_f32_e32 v0, v1, v2, v3", "an unexpected number of operands"},
      {"v_add_f32_e32 v0, v1, v256", "v256"},
      {"v_add_f32_e32 v0, v1, s[3:1]", "s[3:1]"},
      {"v_add_f32_e32 v0, v1, v2 fancy:1", "fancy:1"},
      {"v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[2:3], a[0:3] cbsz:1",
       "a form of this matrix instruction that is not implemented"},
      {"v_mfma_f32_16x16x16_f16 a[0:3], v[0:3], v[2:3], a[0:3]",
       "a form of this matrix instruction that is not implemented"},
      {"s_branch 100", "a branch out of the kernel"},
      {"v_readfirstlane_b32 0.5, v0", "0.5"},
      {"ds_swizzle_b32 v0, v1 offset:swizzle(FFT,1)", "offset:swizzle(FFT,1)"},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    uint32_t data[1] = {0};
    const char *const lines[] = {cases[i].line, "s_endpgm", NULL};
    Run r = run_text("gfx942", lines, data, sizeof data);
    CHECK(!r.kernel && r.error && strstr(r.error, cases[i].error));
    if (r.error && !strstr(r.error, cases[i].error)) printf("%s\n", r.error);
    if (r.error) CHECK(strstr(r.error, "kernel `k` (gfx942), pc 0x0") != NULL);
    arena_free(r.a);
  }
}

/* More arguments in registers than a descriptor can mean. */
TEST(preloaded) {
  Program p = {.line = {"s_endpgm"}, .n = 1};
  IsaImage image = image_of(&p, "gfx942");
  Arena *a = arena_new();
  const char *error = NULL;
  image.preload = 127;
  CHECK(!isa_decode(a, &image, next_line, &p, &error));
  CHECK_STR(error, "kernel `k` starts with 127 arguments in registers, of at most 32");
  image.preload = 16;
  CHECK(isa_decode(a, &image, next_line, &p, &error) != NULL);
  arena_free(a);
}

TEST(unknown_on_gfx1250) {
  const struct {
    const char *const *lines;
    const char *error;
  } cases[] = {
      {GFX9("s_set_vgpr_msb 0xc0", "v_mov_b64_e32 v[255:256], 0"),
       "the chip lacks such a register"},
      {GFX9("s_set_vgpr_msb 1", "s_cbranch_scc0 1", "s_set_vgpr_msb 0", "s_nop 0", "s_branch -4"),
       "numbered differently"},
      {GFX9("s_getreg_b32 s3, hwreg(HW_REG_IB_STS2, 4, 2)"), "s_getreg_b32"},
      {GFX9("s_wait_tensorcnt 0x0"), "the executor does not know this instruction"},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    uint32_t data[1] = {0};
    Run r = run_text("gfx1250", cases[i].lines, data, sizeof data);
    CHECK(!r.kernel && r.error && strstr(r.error, cases[i].error));
    if (r.error && !strstr(r.error, cases[i].error)) printf("%s\n", r.error);
    arena_free(r.a);
  }
}

/* The offset of a lane has a sign on gfx1250, and may count elements. */
TEST(offsets_on_gfx1250) {
  static uint32_t data[128];
  const char *const lines[] = {"s_load_b64 s[2:3], s[0:1], 0x0",
                               "s_wait_kmcnt 0x0",
                               "v_mov_b32_e32 v1, 0xffff",
                               "global_store_b32 v0, v1, s[2:3] scale_offset",
                               "v_mov_b32_e32 v2, -4",
                               "v_mov_b32_e32 v3, 5",
                               "global_store_b32 v2, v3, s[2:3] offset:484",
                               "s_mov_b32 s4, 3",
                               "s_load_b32 s5, s[2:3], s4 offset:0x0 scale_offset",
                               "s_wait_kmcnt 0x0",
                               "v_mov_b32_e32 v4, s5",
                               "global_store_b32 v2, v4, s[2:3] offset:488",
                               "s_endpgm",
                               NULL};
  Run r = run_text("gfx1250", lines, data, sizeof data);
  if (!r.ok) printf("%s\n", r.kernel ? r.fault.text : r.error);
  CHECK(r.ok);
  for (int i = 0; i < 64; i++) CHECK_INT(data[i], 0xffff);
  CHECK_INT(data[64], 0), CHECK_INT(data[120], 5), CHECK_INT(data[121], 0xffff);
  arena_free(r.a);
}

/* A buffer of gfx1250: 57 bits of address, 45 of length. Lanes beyond the length do nothing. */
TEST(buffers_of_gfx1250) {
  static uint32_t data[128];
  const char *const lines[] = {"s_load_b64 s[4:5], s[0:1], 0x0", /* s4: the resource */
                               "s_wait_kmcnt 0x0",
                               "s_or_b32 s5, s5, 0x80000000", /* 64 bytes, and 128 */
                               "s_mov_b32 s6, 1",
                               "s_mov_b32 s7, 0",
                               "v_lshlrev_b32_e32 v1, 2, v0",
                               "v_mov_b32_e32 v2, 9",
                               "buffer_store_b32 v2, v1, s[4:7], null offen",
                               "s_endpgm",
                               NULL};
  Run r = run_text("gfx1250", lines, data, sizeof data);
  if (!r.ok) printf("%s\n", r.kernel ? r.fault.text : r.error);
  CHECK(r.ok);
  for (int i = 0; i < 64; i++) CHECK_INT(data[i], i < 48 ? 9 : 0);
  arena_free(r.a);
}

/* Which waits and barriers a run needed: one letter for each instruction of that kind. */
static void check_use(Harness *harness, const char *const *lines, const char *expected) {
  static uint32_t data[128];
  char found[LINES] = {0};
  Run r = run_text("gfx942", lines, data, sizeof data);
  for (int i = 0, n = 0; r.kernel && i < isa_instructions(r.kernel); i++) {
    uint64_t at;
    const char *text = isa_text(r.kernel, i, &at);
    unsigned use = isa_use(r.kernel, i);
    if (strncmp(text, "s_wait", 6) != 0 && strncmp(text, "s_barrier", 9) != 0) continue;
    found[n++] = use & ISA_NEEDED ? 'n' : use & ISA_EXECUTED ? 'e' : '-';
  }
  CHECK(r.ok);
  CHECK_STR(found, expected);
  if (!r.ok) printf("%s\n", r.kernel ? r.fault.text : r.error);
  arena_free(r.a);
}

TEST(needed) {
  check_use(harness,
            GFX9(LOAD_ARGS, ADDRESS, "global_load_dword v2, v1, s[2:3]", "s_waitcnt vmcnt(0)",
                 "v_mov_b32_e32 v3, v2"),
            "nn");
  check_use(harness,
            GFX9(LOAD_ARGS, ADDRESS, "global_load_dword v2, v1, s[2:3]", "s_waitcnt vmcnt(0)",
                 "s_waitcnt vmcnt(0)", "v_mov_b32_e32 v3, v2"),
            "nee"); /* each covers the other */
  check_use(harness,
            GFX9(LOAD_ARGS, ADDRESS, "global_load_dword v2, v1, s[2:3]", "s_waitcnt vmcnt(1)",
                 "s_waitcnt vmcnt(0)", "v_mov_b32_e32 v3, v2"),
            "nen");
  check_use(harness, GFX9("s_branch 1", "s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)"), "-e");
  /* Data of another wave: a store, its wait, barriers, a read. */
  check_use(harness,
            GFX9(ADDRESS, "v_xor_b32_e32 v2, 0x100, v1", "ds_write_b32 v1, v0",
                 "s_waitcnt lgkmcnt(0)", "s_barrier", "ds_read_b32 v3, v2"),
            "nn");
  check_use(harness,
            GFX9(ADDRESS, "v_xor_b32_e32 v2, 0x100, v1", "ds_write_b32 v1, v0",
                 "s_waitcnt lgkmcnt(0)", "s_barrier", "s_barrier", "ds_read_b32 v3, v2"),
            "nee");
  check_use(harness,
            GFX9(ADDRESS, "ds_write_b32 v1, v0", "s_waitcnt lgkmcnt(0)", "s_barrier",
                 "ds_read_b32 v3, v1"),
            "ee"); /* its own */
}

/* A load into v2, `younger` loads after it, and a use of v2 without a wait. */
static bool is_complete(const char *chip, const char *first, const char *next, int younger) {
  static uint32_t data[128];
  const char *lines[LINES] = {"s_load_dwordx2 s[2:3], s[0:1], 0x0", "s_waitcnt lgkmcnt(0)",
                              "v_lshlrev_b32_e32 v1, 2, v0"};
  int n = 3;
  lines[n++] = first;
  while (younger-- > 0) lines[n++] = next;
  lines[n++] = "v_mov_b32_e32 v4, v2";
  lines[n++] = "s_endpgm";
  Run r = run_text(chip, lines, data, sizeof data);
  bool ok = r.ok;
  arena_free(r.a);
  return ok;
}

/* A counter at its maximum admits no further operation before the oldest one is complete. */
TEST(full_counters) {
#define GLOBAL "global_load_dword v2, v1, s[2:3]", "global_load_dword v3, v1, s[2:3]"
#define LDS "ds_read_b32 v2, v1", "ds_read_b32 v3, v1"
  CHECK(!is_complete("gfx942", GLOBAL, 62) && is_complete("gfx942", GLOBAL, 63));
  CHECK(!is_complete("gfx942", LDS, 14) && is_complete("gfx942", LDS, 15));
  CHECK(!is_complete("gfx1100", LDS, 62) && is_complete("gfx1100", LDS, 63));
}

TESTS_MAIN(RUN(full_counters) RUN(faults) RUN(word_edges) RUN(needed) RUN(report) RUN(unknown)
               RUN(preloaded) RUN(unknown_on_gfx1250) RUN(offsets_on_gfx1250)
                   RUN(buffers_of_gfx1250))
