/* fuzz_amd.c: no AMD code object crashes its readers, however it is damaged.
 *
 *     fuzz_amd [--seed N] [--count N]
 *
 * LLVM's object and the code object that is linked from it are damaged: bytes and whole words
 * change, ranges are duplicated, moved or removed. The linker, the reader of the note and the
 * loader must reject them with an offset, or return something whose kernels lie in the memory that
 * they name; the executor then runs them to the end, or to a fault. The last line is "N passed, M failed". Without libLLVM nothing is tested. */
#include <inttypes.h>
#include <stdlib.h>

#include "unit/isa_kit.h"

static uint64_t state;

static uint32_t next(void) { /* splitmix64 */
  uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)(z >> 32);
}

static size_t below(size_t n) { return n ? next() % n : 0; }

static void damage_word(uint8_t *bytes, size_t n) {
  static const int64_t values[] = {0, 1, -1, 255, 4096, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  int64_t value = values[below(WV_LEN(values))];
  size_t size = (size_t)1 << below(4), at = below(n);
  if (at + size <= n) memcpy(bytes + at, &value, size);
}

/* In place; returns the new size. Most of what matters is in the header and in the tables. */
static size_t damage(uint8_t *bytes, size_t n) {
  size_t at = below(below(2) || n < 64 ? n : 64), size = below(n - at), to = below(n);
  switch (below(6)) {
  case 0: bytes[at] ^= (uint8_t)(1 << below(8)); break;
  case 1:
  case 2: damage_word(bytes, n); break;
  case 3: return n - below(n); /* cut off */
  case 4: /* cut out */ memmove(bytes + at, bytes + at + size, n - at - size); return n - size;
  default: /* copied elsewhere */
    if (to + size <= n) memmove(bytes + to, bytes + at, size);
  }
  return n;
}

static bool is_inside(const AmdImage *image, const IsaImage *k) {
  return k->code >= image->memory && k->code + k->bytes <= image->memory + image->size;
}

static bool has_offset(const char *error) { return error && strncmp(error, "offset 0x", 9) == 0; }

/* Decodes and executes what may not be a program any more: it ends, or a fault is reported. */
static void execute(Arena *a, const AmdImage *image, const IsaImage *code, LlvmDisassembler *d) {
  const char *error = NULL;
  uint32_t data[64] = {0};
  void *args[4] = {data, data, data, data};
  IsaRange ranges[] = {{"data", (uint64_t)(uintptr_t)data, sizeof data, true},
                       {"args", (uint64_t)(uintptr_t)args, sizeof args, false},
                       {"code", (uint64_t)(uintptr_t)image->memory, image->size, false}};
  IsaImage small = *code;
  small.group_bytes &= 0xffff, small.private_bytes &= 0xfff;
  IsaLaunch l = {.kernel = isa_decode(a, &small, kit_disassemble, d, &error),
                 .grid = {1, 1, 1},
                 .block = {64, 1, 1},
                 .args = args,
                 .args_bytes = sizeof args,
                 .ranges = ranges,
                 .nranges = 3,
                 .most = 2000};
  if (!l.kernel) return;
  uint8_t *memory = arena_alloc(a, isa_machine_bytes(&l) + 64);
  memory += (64 - (uintptr_t)memory % 64) % 64;
  IsaFault fault;
  isa_run(isa_machine(memory, &l), &l, (unsigned[3]){0}, &fault);
}

/* True: rejected with an offset, or everything is where it should be. */
static bool load(Arena *a, const uint8_t *bytes, size_t n, LlvmDisassembler *d) {
  AmdImage image;
  const char *error = NULL;
  if (!amd_image_load(a, bytes, n, &image, &error)) return has_offset(error);
  for (int i = 0; i < image.note.nkernels; i++) {
    IsaImage k;
    if (!amd_image_kernel(a, &image, image.note.kernels[i].name, &k, &error)) continue;
    if (!is_inside(&image, &k)) return false;
    execute(a, &image, &k, d);
  }
  return true;
}

static bool link_and_load(Arena *a, const uint8_t *bytes, size_t n, LlvmDisassembler *d) {
  AmdCode code;
  const char *error = NULL;
  if (!amd_object_link(a, bytes, n, &code, &error)) return has_offset(error);
  return load(a, code.bytes, code.size, d);
}

/* Where the instructions of a linked file are: what is mapped there begins a page before it. */
static size_t code_of(Arena *a, const AmdCode *linked, size_t *n) {
  enum { PAGE = 4096 };
  AmdImage image;
  IsaImage k;
  const char *error;
  bool ok = amd_image_load(a, linked->bytes, linked->size, &image, &error) &&
            amd_image_kernel(a, &image, "k", &k, &error);
  *n = ok ? k.bytes : 0;
  return ok ? (size_t)(k.code - image.memory) - PAGE : 0;
}

/* Other instructions, in an intact file. */
static bool other_code(const AmdCode *linked, LlvmDisassembler *d) {
  Arena *a = arena_new();
  size_t n, at = code_of(a, linked, &n);
  uint8_t *bytes = memcpy(arena_alloc(a, linked->size + 1), linked->bytes, linked->size);
  for (size_t i = 1 + below(3); i > 0 && n > 4; i--) {
    uint32_t word =
        below(2) ? next() : (uint32_t)1 << below(32) ^ *(uint32_t *)(void *)(bytes + at);
    memcpy(bytes + at + below(n / 4) * 4, &word, 4);
  }
  bool ok = load(a, bytes, linked->size, d);
  arena_free(a);
  return ok;
}

static bool one_case(const AmdCode *file, bool is_linked, LlvmDisassembler *d) {
  Arena *a = arena_new();
  size_t n = file->size;
  uint8_t *bytes = memcpy(arena_alloc(a, n + 1), file->bytes, n);
  for (size_t i = 1 + below(4); i > 0 && n > 0; i--) n = damage(bytes, n);
  bool ok = is_linked ? load(a, bytes, n, d) : link_and_load(a, bytes, n, d);
  arena_free(a);
  return ok;
}

static const char ir[] =
    "@table = internal addrspace(4) constant [4 x i32] [i32 3, i32 1, i32 4, i32 1]\n"
    "@sm = internal addrspace(3) global [64 x i32] poison\n"
    "declare i32 @llvm.amdgcn.workitem.id.x()\n"
    "define amdgpu_kernel void @k(ptr addrspace(1) %o, i32 %n) {\n"
    "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %i = and i32 %t, 3\n"
    "  %p = getelementptr [4 x i32], ptr addrspace(4) @table, i32 0, i32 %i\n"
    "  %v = load i32, ptr addrspace(4) %p\n"
    "  %s = getelementptr [64 x i32], ptr addrspace(3) @sm, i32 0, i32 %i\n"
    "  store i32 %v, ptr addrspace(3) %s\n"
    "  %q = getelementptr i32, ptr addrspace(1) %o, i32 %n\n"
    "  store i32 %v, ptr addrspace(1) %q\n"
    "  ret void\n}\n"
    "define amdgpu_kernel void @second(ptr addrspace(1) %o) {\n"
    "  store i32 1, ptr addrspace(1) %o\n  ret void\n}\n";

static bool compile(Arena *a, AmdCode *object, AmdCode *linked, LlvmDisassembler *d) {
  const char *error = NULL;
  LlvmCode code;
  const LlvmLibrary *l = llvm_library_open(a, "the fuzzer needs", 0, &error);
  LlvmCompile o = {.target = kit_target("gfx942"), .passes = "default<O1>"};
  if (!l || !l->amdgpu || !llvm_compile(l, a, ir, &o, &code, &error))
    return printf("%s\n", error), false;
  *object = (AmdCode){code.bytes, code.size};
  if (!llvm_disassemble_open(l, &o.target, d)) return printf("no disassembler\n"), false;
  if (amd_object_link(a, object->bytes, object->size, linked, &error)) return true;
  return printf("%s\n", error), false;
}

int main(int argc, char **argv) {
  uint64_t seed = 1, count = 10000, failed = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--count") == 0) count = strtoull(argv[i + 1], NULL, 10);
  }
  Arena *a = arena_new();
  AmdCode object, linked;
  LlvmDisassembler d = {0};
  if (!compile(a, &object, &linked, &d)) count = 0;
  for (uint64_t i = 0; i < count; i++) {
    state = (seed + i) * UINT64_C(0x9e3779b97f4a7c15);
    if (i % 3 == 2 ? other_code(&linked, &d) : one_case(i % 3 ? &linked : &object, i % 3, &d))
      continue;
    failed++;
    printf("seed %" PRIu64 ", case %" PRIu64 "\n", seed, i);
  }
  if (d.state) llvm_disassemble_close(&d);
  arena_free(a);
  printf("%" PRIu64 " passed, %" PRIu64 " failed\n", count - failed, failed);
  return failed != 0;
}
