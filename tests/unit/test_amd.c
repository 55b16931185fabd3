/* test_amd.c: every op of one lane's program has instructions for AMD GPUs, or `legalise` removes
 * it; LLVM compiles them for every chip that it knows; what it does not know is an error. */
#include <elf.h>
#include <stdlib.h>

#include "backend/amd/amd.h"
#include "runtime/amd/amd_compile.h"
#include "transform/pass_manager.h"
#include "unit/harness.h"

typedef struct Emitted {
  Context *cx;
  KernelList list;
  Arena *arena;
  AmdKernel code;
  bool ok;
} Emitted;

static Emitted emit(const char *text, const char *target, unsigned llvm) {
  Emitted e = {.cx = context_new(), .arena = arena_new()};
  KernelList list = e.list = ir_parse(e.cx, "k.wave", text, e.cx->arena);
  PassOptions passes = {.passes = "legalise", .target = target};
  AmdOptions o = {.llvm = llvm};
  e.ok = list.n == 1 && passes_run(list.at[0], &passes) &&
         amd_emit(list.at[0], target_find(target).machine, &o, e.arena, &e.code);
  return e;
}

static void drop(Emitted *e) {
  for (int i = 0; i < e->list.n; i++) kernel_free(e->list.at[i]);
  arena_free(e->arena);
  context_free(e->cx);
}

static bool said(const Emitted *e, const char *words) {
  for (const Diag *d = e->cx->diags.first; d; d = d->next)
    if (strstr(d->text, words)) return true;
  return false;
}

/* ---- ops ---- */

/* Machines that are not AMD's have them. */
static bool is_of_others(OpKind kind) {
  static const OpKind rows[] = {
      OP_stmatrix,    OP_tma_load,    OP_tma_store,         OP_mbar_init,    OP_mbar_inval,
      OP_mbar_expect, OP_mbar_arrive, OP_mbar_arrive_async, OP_mbar_wait,    OP_bulk_commit,
      OP_bulk_wait,   OP_wgmma,       OP_wgmma_fence,       OP_wgmma_commit, OP_wgmma_wait,
      OP_load_rows,   OP_store_rows,  OP_fence_proxy,       OP_inline_ptx,   OP_softsign};
  for (size_t i = 0; i < WV_LEN(rows); i++)
    if (rows[i] == kind) return true;
  return false;
}

TEST(every_op_is_written) {
  for (int i = 0; i < OP_COUNT; i++) {
    bool lane = op_info[i].level & LEVEL_THREAD;
    if (lane && amd_writes((OpKind)i) == is_of_others((OpKind)i))
      printf("`%s` has no instructions, or is in the list\n", op_info[i].name), CHECK(!"written");
  }
}

/* ---- libraries ---- */

/* The library that can compile for the chip; NULL: none here. */
static const LlvmLibrary *library_for(Arena *a, const char *chip) {
  const char *error = NULL;
  return amd_library_open(a, chip_named(chip), &error);
}

static const char product[] =
    "thread kernel @product(%a: mem<M, f16>, %n: i16, %c: mem<M, f32>)\n"
    "  launch grid (ceiling(M/64)) block (64) wave 64 shared 1024\n  dynamic M\n{\n"
    "  %t = alloc {base = 0} : mem<256, f16, shared>\n"
    "  %o = expr 4*$T0 : i32\n  %x = load %a, %o : vec<4, f16>\n  store %x, %t, %o\n"
    "  barrier workgroup\n  %y = load %t, %o : vec<4, f16>\n  %z = scalar 0.0 : f32\n"
    "  %zero = splat %z : vec<4, f32>\n"
    "  %p = wave_mma F32_16x16x16_F16 %x, %y, %zero : vec<4, f32>\n  store %p, %c, %o\n}\n";

TEST(arguments) {
  Emitted e = emit(product, "gfx942", 19);
  CHECK(e.ok);
  CHECK_STR(e.code.entry, "wave_product");
  CHECK_INT(e.code.shared, 1024);
  static const int bytes[] = {8, 4, 8};
  for (int i = 0; i < 3; i++) CHECK_INT(e.code.slots[i].bytes, bytes[i]);
  drop(&e);
}

/* The machine of an object, and the symbols that a loader looks for. */
static bool has_symbol(const LlvmCode *code, const char *name) {
  const char *bytes = code->bytes;
  for (size_t i = 0; i + strlen(name) < code->size; i++)
    if (memcmp(bytes + i, name, strlen(name) + 1) == 0) return true;
  return false;
}

TEST(objects) {
  static const char *const chips[] = {"gfx90a", "gfx942", "gfx950"};
  for (size_t i = 0; i < WV_LEN(chips); i++) {
    Arena *a = arena_new();
    const LlvmLibrary *l = library_for(a, chips[i]);
    Emitted e = emit(product, chips[i], l ? l->version : 19);
    LlvmCode code;
    const char *error = NULL;
    CHECK(e.ok);
    bool done =
        l && e.ok && amd_compile(l, a, e.code.text, chip_named(chips[i]), false, &code, &error);
    CHECK(done == (l != NULL));
    if (done) {
      const Elf64_Ehdr *head = code.bytes;
      CHECK_INT(head->e_flags & 0xff, chip_named(chips[i])->elf);
      CHECK(has_symbol(&code, "wave_product.kd"));
    }
    drop(&e);
    arena_free(a);
  }
}

/* Every row of chips.def is known to LLVM by that name and number. */
TEST(chips) {
  static const char empty[] = "define amdgpu_kernel void @k() { ret void }\n";
  const AmdChip *chip;
  for (int i = 0; (chip = chip_at(i)); i++) {
    Arena *a = arena_new();
    const char *error = NULL;
    const LlvmLibrary *l = amd_library_open(a, chip, &error);
    LlvmCode code;
    CHECK(target_find(chip->name).machine && chip_named(chip->like));
    CHECK_STR(chip_named(chip->like)->like, chip->like);
    CHECK(chip_numbered(chip->elf) == chip);
    if (l) CHECK(amd_compile(l, a, empty, chip, false, &code, &error));
    else CHECK(strstr(error, chip->name));
    arena_free(a);
  }
  CHECK(!chip_named("gfx9"));
  CHECK(!chip_numbered(0));
}

/* LLVM 22 crashes on this addition, for gfx1250, if its literal is missing. */
TEST(cut_off_instruction) {
  static const uint8_t code[] = {0xff, 0xf8, 0xdf, 0x23, 0x78, 0x56, 0x34, 0x12};
  const AmdChip *chip;
  for (int i = 0; (chip = chip_at(i)); i++) {
    Arena *a = arena_new();
    const char *error = NULL;
    char text[256];
    const LlvmLibrary *l = amd_library_open(a, chip, &error);
    LlvmTarget t = amd_target(chip);
    LlvmDisassembler d = {0};
    if (l && llvm_disassemble_open(l, &t, &d)) {
      CHECK_INT((int)llvm_disassemble(&d, code, 8, 0, text, sizeof text), 8);
      CHECK_INT((int)llvm_disassemble(&d, code, 4, 0, text, sizeof text), 0);
    }
    llvm_disassemble_close(&d);
    arena_free(a);
  }
}

/* ---- versions ---- */

static const char masked[] =
    "thread kernel @masked(%a: mem<M, f32>, %c: mem<M, f32>)\n"
    "  launch grid (16) block (64) wave 64\n  bind M = 1000\n{\n"
    "  %o = expr 64*$WG0 + $T0 : i32\n  %in = expr 64*$WG0 + $T0 < M : i1\n"
    "  %x = load %a, %o, %in : f32\n  %y = exp2 %x : f32\n  store %y, %c, %o, %in\n}\n";

/* Only what the version has is written. */
TEST(versions) {
  static const struct {
    unsigned llvm;
    bool has;
    const char *word;
  } cases[] = {{16, false, "raw.ptr.buffer"},    {17, true, "raw.ptr.buffer"},
               {16, false, "amdgcn.exp2"},       {17, true, "amdgcn.exp2"},
               {18, true, "readfirstlane("},     {19, true, "readfirstlane.i32("},
               {18, false, "readfirstlane.i32("}};
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    Emitted e = emit(masked, "gfx942", cases[i].llvm);
    CHECK(e.ok);
    if (e.ok) CHECK((strstr(e.code.text, cases[i].word) != NULL) == cases[i].has);
    drop(&e);
  }
}

#define WMMA_KERNEL(row, n)                                                                        \
  "thread kernel @product(%a: mem<M, f16>, %c: mem<M, f32>)\n"                                     \
  "  launch grid (ceiling(M/32)) block (32) wave 32\n  dynamic M\n{\n"                             \
  "  %o = expr " #n "*$T0 : i32\n  %x = load %a, %o : vec<" #n ", f16>\n"                          \
  "  %z = scalar 0.0 : f32\n  %zero = splat %z : vec<8, f32>\n"                                    \
  "  %p = wave_mma " row " %x, %x, %zero : vec<8, f32>\n  %q = expr 8*$T0 : i32\n"                 \
  "  store %p, %c, %q\n}\n"

static const char wmma_1250[] = WMMA_KERNEL("GFX1250_F32_16x16x32_F16", 16);
static const char wmma_12[] = WMMA_KERNEL("RDNA4_WAVE32_F32_16x16x16_F16", 8);

TEST(matrix_versions) {
  static const struct {
    const char *text, *chip;
    unsigned llvm;
    bool ok;
  } cases[] = {{wmma_1250, "gfx1250", 22, true},  {wmma_1250, "gfx1250", 21, false},
               {wmma_1250, "gfx1201", 22, false}, {wmma_12, "gfx1201", 18, true},
               {wmma_12, "gfx1201", 17, false},   {wmma_12, "gfx1100", 19, false}};
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    Emitted e = emit(cases[i].text, cases[i].chip, cases[i].llvm);
    CHECK(e.ok == cases[i].ok);
    if (!e.ok) CHECK(said(&e, "this matrix instruction is not supported"));
    drop(&e);
  }
}

static const char scaled[] =
    "thread kernel @product(%a: mem<M, f8e4m3fn>, %b: mem<M, f8e8m0fnu>, %c: mem<M, f32>)\n"
    "  launch grid (ceiling(M/64)) block (64) wave 64\n  dynamic M\n{\n"
    "  %o = expr 32*$T0 : i32\n  %x = load %a, %o : vec<32, f8e4m3fn>\n"
    "  %s = load %b, %o : f8e8m0fnu\n  %z = scalar 0.0 : f32\n  %zero = splat %z : vec<4, f32>\n"
    "  %p = wave_mma F32_16x16x128_F8F6F4 %x, %x, %zero, %s, %s : vec<4, f32>\n"
    "  store %p, %c, %o\n}\n";

/* The statements that keep a scaled product where it is, and its scales in VGPRs. */
TEST(scaled_versions) {
  static const struct {
    unsigned llvm;
    bool has;
    const char *statement;
  } cases[] = {{21, true, "float> asm \"\", \"=v,0\""},
               {22, true, "float> asm \"\", \"=^VA,0\""},
               {21, true, "i32 asm \"\", \"=v,0\""},
               {22, false, "i32 asm"}};
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    Emitted e = emit(scaled, "gfx950", cases[i].llvm);
    CHECK(e.ok);
    if (e.ok) CHECK((strstr(e.code.text, cases[i].statement) != NULL) == cases[i].has);
    drop(&e);
  }
}

/* ---- what is refused ---- */

TEST(unknown_intrinsics) {
  Arena *a = arena_new();
  const LlvmLibrary *l = library_for(a, "gfx942");
  LlvmCode code;
  const char *error = "";
  const char *text = "define amdgpu_kernel void @k() { call void @somewhere() ret void }\n"
                     "declare void @somewhere()\n";
  if (l) {
    CHECK(!amd_compile(l, a, text, chip_named("gfx942"), false, &code, &error));
    CHECK(strstr(error, "somewhere"));
  }
  arena_free(a);
}

TEST(refusals) {
  Emitted narrow = emit("thread kernel @k(%a: mem<N, f32>)\n"
                        "  launch grid (1) block (32) wave 32\n  bind N = 64\n{\n"
                        "  %o = expr $T0 : i32\n  %x = load %a, %o : f32\n  store %x, %a, %o\n}\n",
                        "gfx942", 19);
  CHECK(!narrow.ok);
  CHECK(said(&narrow, "a wave of 32 lanes is not supported on gfx942"));
  drop(&narrow);
  Emitted named = emit("thread kernel @k(%a: mem<N, f32>)\n"
                       "  launch grid (1) block (128) wave 64\n  bind N = 64\n{\n"
                       "  barrier named {bar = 1, count = 64}\n}\n",
                       "gfx942", 19);
  CHECK(!named.ok);
  CHECK(said(&named, "barrier"));
  drop(&named);
}

TESTS_MAIN(RUN(every_op_is_written) RUN(arguments) RUN(objects) RUN(chips) RUN(cut_off_instruction)
               RUN(versions) RUN(matrix_versions) RUN(scaled_versions) RUN(unknown_intrinsics)
                   RUN(refusals))
