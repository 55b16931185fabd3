/* test_amd_object.c: LLVM's object to a code object, and what its note says. */
#include "runtime/amd/amd_compile.h"
#include "runtime/amd/amd_lines.h"
#include "runtime/amd/amd_text.h"
#include "target/target.h"
#include "unit/isa_kit.h"

static const LlvmLibrary *library(Arena *a) {
  const char *error = NULL;
  const LlvmLibrary *l = llvm_library_open(a, "the tests need", 0, &error);
  if (!l || !l->amdgpu) return printf("skipped: %s\n", error), NULL;
  return l;
}

/* False without libLLVM: the test is skipped. */
static bool compile(Arena *a, const char *ir, LlvmCode *out) {
  const LlvmLibrary *l = library(a);
  LlvmCompile o = {.target = amd_target(chip_named("gfx942")), .passes = "default<O1>"};
  const char *error = NULL;
  if (!l) return false;
  bool ok = llvm_compile(l, a, ir, &o, out, &error);
  if (!ok) printf("%s\n", error);
  return ok;
}

#define KERNEL(body)                                                                               \
  "define amdgpu_kernel void @k(ptr addrspace(1) %o, i32 %n, float %f, i64 %m) {\n" body           \
  "  ret void\n}\n"

/* A table of constants, LDS and an array in scratch memory. */
static const char whole[] =
    "@table = internal addrspace(4) constant [4 x i32] [i32 3, i32 1, i32 4, i32 1]\n"
    "@sm = internal addrspace(3) global [48 x i32] poison\n"
    "declare i32 @llvm.amdgcn.workitem.id.x()\n" KERNEL(
        "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
        "  %i = and i32 %n, 3\n"
        "  %p = getelementptr [4 x i32], ptr addrspace(4) @table, i32 0, i32 %i\n"
        "  %v = load i32, ptr addrspace(4) %p\n"
        "  %s = getelementptr [48 x i32], ptr addrspace(3) @sm, i32 0, i32 %t\n"
        "  store volatile i32 %v, ptr addrspace(3) %s\n"
        "  %w = load volatile i32, ptr addrspace(3) %s\n"
        "  %q = getelementptr i32, ptr addrspace(1) %o, i32 %t\n"
        "  store i32 %w, ptr addrspace(1) %q\n");

TEST(note) {
  Arena *a = arena_new();
  LlvmCode object;
  AmdCode linked;
  AmdImage image;
  const char *error = NULL;
  if (compile(a, whole, &object)) {
    CHECK(amd_object_link(a, object.bytes, object.size, &linked, &error));
    CHECK(amd_image_load(a, linked.bytes, linked.size, &image, &error));
    const AmdKernelNote *k = amd_note_find(&image.note, "k");
    CHECK_STR(image.chip, "gfx942");
    CHECK_STR(image.note.target, "amdgcn-amd-amdhsa--gfx942");
    CHECK(k != NULL);
    CHECK_STR(k->symbol, "k.kd");
    CHECK_INT(k->group_bytes, 192);
    CHECK_INT(k->wave, 64);
    CHECK_INT(k->vgpr_spills, 0);
    CHECK(k->vgprs > 0 && k->sgprs > 0 && k->nargs >= 4);
    CHECK_INT(k->args[0].offset, 0), CHECK_INT(k->args[0].size, 8);
    CHECK_STR(k->args[0].kind, "global_buffer");
    CHECK_INT(k->args[1].offset, 8), CHECK_INT(k->args[1].size, 4);
    CHECK_INT(k->args[2].offset, 12), CHECK_INT(k->args[2].size, 4);
    CHECK_INT(k->args[3].offset, 16), CHECK_INT(k->args[3].size, 8);
    CHECK(amd_note_find(&image.note, "other") == NULL);
  }
  arena_free(a);
}

/* The table is found relative to the code: a relocation that the linker resolves. */
TEST(constants) {
  static const int table[] = {3, 1, 4, 1};
  for (int n = 0; n < 4; n++) {
    static int o[32];
    float f = 0;
    int64_t m = 0;
    IsaKit k = isa_kit(whole, "gfx942");
    isa_kit_tensor(&k, "o", o, sizeof o);
    isa_kit_number(&k, &n, 4);
    isa_kit_number(&k, &f, 4);
    isa_kit_number(&k, &m, 8);
    CHECK(isa_kit_runs(&k, 1, 32));
    CHECK(k.skipped || (o[0] == table[n] && o[31] == table[n]));
    isa_kit_close(&k);
  }
}

/* What needs a linker is refused by name. */
TEST(refused) {
  static const struct {
    const char *ir, *error;
  } cases[] = {
      {"declare void @missing(i32)\n" KERNEL("  call void @missing(i32 %n)\n"),
       "undefined symbol `missing`"},
      {"@far = external addrspace(1) global i32\n" KERNEL(
           "  store i32 %n, ptr addrspace(1) @far\n"),
       "undefined symbol `far`"},
      {"@state = addrspace(1) global i32 7\n" KERNEL("  store i32 %n, ptr addrspace(1) @state\n"),
       "section `.data` is written at run time, which needs a linker"},
      {"@seen = addrspace(1) constant i32 7\n" KERNEL(
           "  %v = load volatile i32, ptr addrspace(1) @seen\n  store i32 %v, ptr addrspace(1) "
           "%o\n"),
       "of `seen` needs a linker"},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    Arena *a = arena_new();
    LlvmCode object;
    AmdCode linked;
    const char *error = "nothing";
    if (compile(a, cases[i].ir, &object)) {
      CHECK(!amd_object_link(a, object.bytes, object.size, &linked, &error));
      CHECK(strncmp(error, "offset 0x", 9) == 0);
      CHECK(strstr(error, cases[i].error) != NULL);
      if (!strstr(error, cases[i].error)) printf("%s\n", error);
    }
    arena_free(a);
  }
}

/* Instructions keep their source lines: which, is what LLVM says. */
static const char lined[] =
    "define amdgpu_kernel void @first(ptr addrspace(1) %o) {\n"
    "  store i32 1, ptr addrspace(1) %o\n  ret void\n}\n"
    "define amdgpu_kernel void @k(ptr addrspace(1) %o, ptr addrspace(1) %i) !dbg !4 {\n"
    "  %v = load volatile i32, ptr addrspace(1) %i, !dbg !6\n"
    "  store volatile i32 %v, ptr addrspace(1) %o, !dbg !7\n  ret void, !dbg !7\n}\n" KIT_LINES;

/* The line of the first instruction that begins with `text`; 0: none. */
static unsigned line_of(const IsaImage *k, const LlvmLibrary *l, const char *text) {
  LlvmTarget t = amd_target(chip_named("gfx942"));
  LlvmDisassembler d;
  char line[256];
  unsigned found = 0;
  if (!llvm_disassemble_open(l, &t, &d)) return 0;
  for (size_t at = 0, n = 1; at < k->bytes && n && !found; at += n) {
    n = llvm_disassemble(&d, k->code + at, k->bytes - at, at, line, sizeof line);
    const IsaLine *known = isa_line(k, at);
    if (n && known && strstr(line, text)) found = known->line;
  }
  llvm_disassemble_close(&d);
  return found;
}

TEST(lines) {
  Arena *a = arena_new();
  LlvmCode object;
  AmdCode linked;
  AmdImage image;
  IsaImage k;
  const char *error = NULL;
  if (compile(a, lined, &object)) {
    CHECK(amd_object_link(a, object.bytes, object.size, &linked, &error));
    CHECK(amd_image_load(a, linked.bytes, linked.size, &image, &error));
    CHECK(amd_image_kernel(a, &image, "k", &k, &error));
    CHECK(k.nlines > 1);
    CHECK_STR(k.lines[0].file, "src/k.py");
    CHECK_INT(line_of(&k, library(a), "global_load_dword"), 12);
    CHECK_INT(line_of(&k, library(a), "global_store_dword"), 300);
    CHECK(amd_image_kernel(a, &image, "first", &k, &error));
    CHECK_INT(k.nlines, 0);
  }
  arena_free(a);
}

/* Every part of a section, and other bytes, give no line outside the code and read nothing
 * beyond. */
TEST(damaged_lines) {
  Arena *a = arena_new();
  LlvmCode object;
  AmdCode linked;
  AmdImage image;
  const char *error = NULL;
  bool ok = compile(a, lined, &object) &&
            amd_object_link(a, object.bytes, object.size, &linked, &error) &&
            amd_image_load(a, linked.bytes, linked.size, &image, &error);
  for (size_t n = 0; ok && n < image.lines_size; n++) {
    int count;
    uint8_t *bytes = malloc(n + 1); /* so that sanitizers see its end */
    memcpy(bytes, image.lines, n);
    amd_lines(a, bytes, n, 0, image.size, &count);
    if (n == image.lines_size - 1)
      for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 0xff;
        const IsaLine *lines = amd_lines(a, bytes, n, 0, image.size, &count);
        for (int j = 0; j < count; j++) CHECK(lines[j].pc < image.size && lines[j].line);
        bytes[i] ^= 0xff;
      }
    free(bytes);
  }
  arena_free(a);
}

/* Every prefix of a file is refused, and so are files of other kinds. */
TEST(truncated) {
  Arena *a = arena_new();
  LlvmCode object;
  AmdCode linked, again;
  AmdImage image;
  const char *error = NULL;
  int accepted = 0;
  if (compile(a, whole, &object)) {
    CHECK(amd_object_link(a, object.bytes, object.size, &linked, &error));
    for (size_t n = 0; n < linked.size; n += 7)
      accepted += amd_image_load(a, linked.bytes, n, &image, &error);
    for (size_t n = 0; n < object.size; n += 7)
      accepted += amd_object_link(a, object.bytes, n, &again, &error);
    CHECK_INT(accepted, 0);
    CHECK(!amd_image_load(a, object.bytes, object.size, &image, &error));
    CHECK_STR(error, "offset 0x10: of type 1, expected a code object");
    CHECK(!amd_object_link(a, linked.bytes, linked.size, &again, &error));
    CHECK_STR(error, "offset 0x10: of type 3, expected a relocatable object");
    CHECK(!amd_image_load(a, "\177ELF", 4, &image, &error));
    CHECK_STR(error, "offset 0x0: the header of 64 bytes, but the file ends at 0x4");
  }
  arena_free(a);
}

/* The first aligned word with this value, in a loaded code object. */
static uint8_t *find_bytes(const AmdImage *image, uint32_t value) {
  for (size_t at = 0; at + 64 <= image->size; at += 64)
    if (memcmp(image->memory + at, &value, 4) == 0) return (uint8_t *)image->memory + at;
  return NULL;
}

/* Numbers that a code object may not ask for. */
TEST(edited) {
  static const struct {
    size_t at; /* in the descriptor */
    uint32_t value;
    const char *error;
  } cases[] = {
      {0, UINT32_MAX,
       "the descriptor of `k` asks for 4294967295 bytes of LDS, of which gfx942 has "
       "65536"},
      {4, 1 << 30, "the descriptor of `k` asks for 1073741824 bytes of scratch memory for a lane"},
      {16, 64, "the descriptor of `k` names another entry"},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    Arena *a = arena_new();
    LlvmCode object;
    AmdCode linked;
    AmdImage image;
    IsaImage k;
    const char *error = "nothing";
    if (compile(a, whole, &object) &&
        amd_object_link(a, object.bytes, object.size, &linked, &error) &&
        amd_image_load(a, linked.bytes, linked.size, &image, &error)) {
      uint8_t *descriptor = find_bytes(&image, 192); /* its first word: the bytes of LDS */
      CHECK(descriptor && amd_image_kernel(a, &image, "k", &k, &error));
      memcpy(descriptor + cases[i].at, &cases[i].value, 4);
      CHECK(!amd_image_kernel(a, &image, "k", &k, &error));
      CHECK(strstr(error, cases[i].error) != NULL);
      if (!strstr(error, cases[i].error)) printf("%s\n", error);
    }
    arena_free(a);
  }
}

/* Code in a section of a type that has no bytes in a file, but a size. */
TEST(code_without_bytes) {
  static const uint32_t types[] = {SHT_NULL, SHT_NOBITS};
  for (size_t t = 0; t < WV_LEN(types); t++) {
    Arena *a = arena_new();
    LlvmCode object;
    AmdCode linked;
    const char *error = "nothing";
    if (compile(a, whole, &object)) {
      char *bytes = arena_copy(a, object.bytes, object.size);
      Elf64_Ehdr *h = (Elf64_Ehdr *)(void *)bytes;
      Elf64_Shdr *s = (Elf64_Shdr *)(void *)(bytes + h->e_shoff);
      for (int i = 0; i < h->e_shnum; i++)
        if (s[i].sh_flags & SHF_EXECINSTR)
          s[i].sh_type = types[t], s[i].sh_size = 1 << 30, s[i].sh_flags = SHF_EXECINSTR;
      CHECK(!amd_object_link(a, bytes, object.size, &linked, &error));
      CHECK(strncmp(error, "offset 0x", 9) == 0);
    }
    arena_free(a);
  }
}

/* What LLVM cannot compile is an error with a name, also where LLVM gives up for good; the next
 * compile works. */
TEST(failures_of_llvm) {
  static const struct {
    const char *chip, *ir, *error;
  } cases[] = {
      {"gfx942", "declare void @missing(i32)\n" KERNEL("  call void @missing(i32 %n)\n"),
       "`missing` is not defined"},
      {"gfx942",
       "declare i32 @llvm.amdgcn.no.such.thing(i32)\n" KERNEL(
           "  %x = call i32 @llvm.amdgcn.no.such.thing(i32 %n)\n"
           "  store i32 %x, ptr addrspace(1) %o\n"),
       "llvm.amdgcn.no.such.thing"},
      {"gfx942", KERNEL("  %x = add i32 %n, %none\n"), "%none"},
      {"gfx1100", /* of another chip: it cannot be selected */
       "declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half>, <4 x half>, <4 x float>, "
       "i32, i32, i32)\n" KERNEL(
           "  %x = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half> zeroinitializer, "
           "<4 x half> zeroinitializer, <4 x float> zeroinitializer, i32 0, i32 0, i32 0)\n"
           "  store <4 x float> %x, ptr addrspace(1) %o\n"),
       "mfma"},
  };
  Arena *a = arena_new();
  const LlvmLibrary *l = library(a);
  for (size_t i = 0; l && i < WV_LEN(cases); i++) {
    const AmdChip *chip = chip_named(cases[i].chip);
    LlvmCode code;
    const char *error = "nothing";
    CHECK(!amd_compile(l, a, cases[i].ir, chip, false, &code, &error));
    CHECK(strstr(error, cases[i].error) != NULL);
    if (!strstr(error, cases[i].error)) printf("%s\n", error);
    CHECK(amd_compile(l, a, whole, chip, false, &code, &error));
  }
  arena_free(a);
}

/* A file that says it is for a newer chip: the library's disassembler would end the process. */
TEST(chip_that_llvm_lacks) {
  Arena *a = arena_new();
  const LlvmLibrary *l = library(a);
  LlvmCode object;
  AmdCode linked;
  AmdImage image;
  const char *error = NULL;
  if (l && l->version < chip_named("gfx1250")->llvm && compile(a, whole, &object)) {
    CHECK(amd_object_link(a, object.bytes, object.size, &linked, &error));
    CHECK(amd_image_load(a, linked.bytes, linked.size, &image, &error));
    image.chip = "gfx1250";
    CHECK(!amd_listing(a, &image, l, &error));
    CHECK(strstr(error, "offset 0x30: code for gfx1250, which libLLVM") != NULL);
  }
  arena_free(a);
}

/* SDWA words that LLVM decodes, though no chip has the selector, and cannot print. */
TEST(selectors_that_do_not_exist) {
  static const struct {
    uint32_t word[2];
    size_t size;
  } cases[] = {
      {{0x66fcc2f9, 0x8002ff02}, 0}, /* of the result, and what becomes of its other bits */
      {{0x020404f9, 0x06060702}, 0}, /* of the result */
      {{0x020404f9, 0x06061e02}, 0}, /* what becomes of the other bits */
      {{0x020404f9, 0x06070602}, 0}, /* of the first operand */
      {{0x020404f9, 0x07060602}, 0}, /* of the second */
      {{0x020404f9, 0x06060602}, 8}, {{0x7d8404f9, 0x06061e02}, 8}, {{0x7d8404f9, 0x07061e02}, 0},
  };
  Arena *a = arena_new();
  LlvmTarget t = amd_target(chip_named("gfx942"));
  const LlvmLibrary *l = library(a);
  LlvmDisassembler d;
  if (l && llvm_disassemble_open(l, &t, &d)) {
    for (size_t i = 0; i < WV_LEN(cases); i++) {
      char text[256];
      const uint8_t *bytes = (const uint8_t *)cases[i].word;
      CHECK(llvm_disassemble(&d, bytes, 8, 0, text, sizeof text) == cases[i].size);
    }
    llvm_disassemble_close(&d);
  }
  arena_free(a);
}

TESTS_MAIN(RUN(note) RUN(constants) RUN(refused) RUN(lines) RUN(damaged_lines) RUN(truncated)
               RUN(edited) RUN(code_without_bytes) RUN(failures_of_llvm) RUN(chip_that_llvm_lacks)
                   RUN(selectors_that_do_not_exist))
