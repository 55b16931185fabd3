/* fuzz_amd.c: no AMD code object crashes its readers, however it is damaged.
 *
 *     fuzz_amd [--seed N] [--count N] [--chip NAME]
 *
 * Code for one chip of each generation that an installed LLVM knows (chips.def) is damaged, or for
 * those whose name begins with NAME; a case belongs to the set of chips it was found with.
 *
 * LLVM's object and the code object that is linked from it are damaged: bytes and whole words
 * change, ranges are duplicated, moved or removed. The linker, the reader of the note and the
 * loader must reject them with an offset, or return something whose kernels lie in the memory that
 * they name; the executor then runs them to the end, or to a fault, and their loops are counted or
 * rejected with an offset. Words of any kind are disassembled. If a case ends the process, its
 * number is printed first. The last line is "N passed, M failed". Without libLLVM nothing is
 * tested. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/amd/amd_text.h"
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

/* ---- executing ----
 *
 * Addresses are operands of what is executed: they are the same on every machine and in every run,
 * so that a case can be repeated. */

enum { PAGE = 4096, ARGS_AT = PAGE, IMAGE_AT = 2 * PAGE, ROOM = 1 << 20 };
#define MEMORY_AT UINT64_C(0x300000000000) /* free on x86-64 and AArch64, with sanitizers too */

typedef struct Host {
  LlvmDisassembler d;
  uint8_t *memory; /* a page of data, one of arguments, and the code object */
} Host;

static uint8_t *open_memory(void) {
  uint8_t *memory = mmap((void *)(uintptr_t)MEMORY_AT, ROOM, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory != MAP_FAILED) return memory;
  printf("no memory at a fixed address\n");
  return NULL;
}

/* Decodes and executes what may not be a program any more: it ends, or a fault is reported. */
static void execute(Arena *a, const AmdImage *image, const IsaImage *code, Host *h) {
  const char *error = NULL;
  enum { DATA = 256, ARGS = 32 };
  uint8_t *data = h->memory, *args = h->memory + ARGS_AT, *memory = h->memory + IMAGE_AT;
  if (image->size > ROOM - IMAGE_AT) return;
  memset(data, 0, DATA);
  for (int i = 0; i < ARGS / 8; i++) memcpy(args + 8 * i, &data, 8);
  memcpy(memory, image->memory, image->size);
  IsaRange ranges[] = {{"data", (uint64_t)(uintptr_t)data, DATA, true},
                       {"args", (uint64_t)(uintptr_t)args, ARGS, false},
                       {"code", (uint64_t)(uintptr_t)memory, image->size, false}};
  IsaImage moved = *code;
  moved.code = memory + (code->code - image->memory);
  IsaLaunch l = {.kernel = isa_decode(a, &moved, llvm_disassemble, &h->d, &error),
                 .grid = {1, 1, 1},
                 .block = {64, 1, 1},
                 .args = args,
                 .args_bytes = ARGS,
                 .ranges = ranges,
                 .nranges = 3,
                 .most = 2000};
  if (!l.kernel) return;
  uint8_t *machine = arena_alloc(a, isa_machine_bytes(&l) + 64);
  machine += (64 - (uintptr_t)machine % 64) % 64;
  IsaFault fault;
  isa_run(isa_machine(machine, &l), &l, (unsigned[3]){0}, &fault);
}

/* True: rejected with an offset, or everything is where it should be. */
static bool load(Arena *a, const uint8_t *bytes, size_t n, Host *h) {
  AmdImage image;
  const char *error = NULL;
  if (!amd_image_load(a, bytes, n, &image, &error)) return has_offset(error);
  for (int i = 0; i < image.note.nkernels; i++) {
    IsaImage k;
    if (!amd_image_kernel(a, &image, image.note.kernels[i].name, &k, &error)) continue;
    if (!is_inside(&image, &k)) return false;
    execute(a, &image, &k, h);
  }
  return amd_loops(a, &image, h->d.l, &error) || has_offset(error);
}

static bool link_and_load(Arena *a, const uint8_t *bytes, size_t n, Host *h) {
  AmdCode code;
  const char *error = NULL;
  if (!amd_object_link(a, bytes, n, &code, &error)) return has_offset(error);
  return load(a, code.bytes, code.size, h);
}

/* Where the instructions of a linked file are: what is mapped there begins a page before it. */
static size_t code_of(Arena *a, const AmdCode *linked, size_t *n) {
  AmdImage image;
  IsaImage k;
  const char *error;
  bool ok = amd_image_load(a, linked->bytes, linked->size, &image, &error) &&
            amd_image_kernel(a, &image, "k", &k, &error);
  *n = ok ? k.bytes : 0;
  return ok ? (size_t)(k.code - image.memory) - PAGE : 0;
}

/* Other instructions, in an intact file. */
static bool other_code(const AmdCode *linked, Host *h) {
  Arena *a = arena_new();
  size_t n, at = code_of(a, linked, &n);
  uint8_t *bytes = memcpy(arena_alloc(a, linked->size + 1), linked->bytes, linked->size);
  for (size_t i = 1 + below(3); i > 0 && n > 4; i--) {
    uint8_t *to = bytes + at + below(n / 4) * 4;
    uint32_t word;
    memcpy(&word, to, 4);
    word = below(2) ? next() : word ^ (uint32_t)1 << below(32);
    memcpy(to, &word, 4);
  }
  bool ok = load(a, bytes, linked->size, h);
  arena_free(a);
  return ok;
}

/* Other numbers in the descriptor of an intact kernel: what a wave starts with. */
static bool other_start(const AmdCode *linked, Host *h) {
  Arena *a = arena_new();
  AmdImage image;
  IsaImage k;
  const char *error = NULL;
  bool ok = amd_image_load(a, linked->bytes, linked->size, &image, &error) &&
            amd_image_kernel(a, &image, "k", &k, &error);
  if (ok) {
    if (below(2)) k.group_bytes = next() & 0xffff;
    if (below(2)) k.private_bytes = next() & 0xfff;
    if (below(2)) k.rsrc1 = next();
    if (below(2)) k.rsrc2 = next();
    if (below(2)) k.rsrc3 = next();
    if (below(2)) k.properties = (uint16_t)next();
    if (below(2)) k.preload = (uint16_t)(below(2) ? next() : below(128));
    execute(a, &image, &k, h);
  }
  arena_free(a);
  return ok;
}

/* Any words at all, most of which are no instructions. */
static bool other_words(Host *h) {
  uint8_t bytes[1024];
  char text[256];
  for (size_t at = 0; at < sizeof bytes; at += 4) memcpy(bytes + at, &(uint32_t){next()}, 4);
  for (size_t at = 0, n; at < sizeof bytes; at += n ? n : 4) {
    n = llvm_disassemble(&h->d, bytes + at, sizeof bytes - at, at, text, sizeof text);
    if (n % 4 || n > sizeof bytes - at) return false;
  }
  return true;
}

static bool one_case(const AmdCode *file, bool is_linked, Host *h) {
  Arena *a = arena_new();
  size_t n = file->size;
  uint8_t *bytes = memcpy(arena_alloc(a, n + 1), file->bytes, n);
  for (size_t i = 1 + below(4); i > 0 && n > 0; i--) n = damage(bytes, n);
  bool ok = is_linked ? load(a, bytes, n, h) : link_and_load(a, bytes, n, h);
  arena_free(a);
  return ok;
}

static const char ir[] =
    "@table = internal addrspace(4) constant [4 x i32] [i32 3, i32 1, i32 4, i32 1]\n"
    "@sm = internal addrspace(3) global [64 x i32] poison\n"
    "declare i32 @llvm.amdgcn.workitem.id.x()\n"
    "define amdgpu_kernel void @k(ptr addrspace(1) %o, i32 %n) !dbg !4 {\n"
    "  %t = call i32 @llvm.amdgcn.workitem.id.x(), !dbg !6\n"
    "  %i = and i32 %t, 3\n"
    "  %p = getelementptr [4 x i32], ptr addrspace(4) @table, i32 0, i32 %i, !dbg !6\n"
    "  %v = load i32, ptr addrspace(4) %p, !dbg !6\n"
    "  %s = getelementptr [64 x i32], ptr addrspace(3) @sm, i32 0, i32 %i\n"
    "  store i32 %v, ptr addrspace(3) %s, !dbg !7\n"
    "  %q = getelementptr i32, ptr addrspace(1) %o, i32 %n\n"
    "  store i32 %v, ptr addrspace(1) %q, !dbg !7\n"
    "  ret void\n}\n"
    "define amdgpu_kernel void @second(ptr addrspace(1) %o, i32 %n) {\n"
    "e: %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  br label %l\n"
    "l: %i = phi i32 [0, %e], [%j, %l]\n"
    "  %x = xor i32 %t, %i\n"
    "  %m = and i32 %x, 63\n"
    "  %s = getelementptr [64 x i32], ptr addrspace(3) @sm, i32 0, i32 %m\n"
    "  store volatile i32 %i, ptr addrspace(3) %s\n"
    "  %j = add i32 %i, 1\n"
    "  %c = icmp slt i32 %j, %n\n"
    "  br i1 %c, label %l, label %r\n"
    "r: store i32 1, ptr addrspace(1) %o\n"
    "  ret void\n}\n" KIT_LINES;

/* ---- cases ---- */

typedef struct Files {
  AmdCode object, linked;
} Files;

enum { KINDS = 5 };

/* A case is its number alone: --seed N --count 1 runs case N. */
static bool run_case(const Files *f, uint64_t n, Host *h) {
  state = n * UINT64_C(0x9e3779b97f4a7c15);
  switch (n % KINDS) {
  case 0: return one_case(&f->object, false, h);
  case 1: return one_case(&f->linked, true, h);
  case 2: return other_code(&f->linked, h);
  case 3: return other_words(h);
  default: return other_start(&f->linked, h);
  }
}

static char running[64]; /* printed if the case ends the process */

static void crashed(int sig) {
  ssize_t n = write(STDERR_FILENO, running, strlen(running));
  (void)n;
  signal(sig, SIG_DFL);
  raise(sig);
}

/* False: no LLVM that is installed knows the chip. */
static bool compile(Arena *a, const AmdChip *chip, Files *f, LlvmDisassembler *d) {
  const char *error = NULL;
  LlvmCode code;
  const LlvmLibrary *l = amd_library_open(a, chip, &error);
  LlvmCompile o = {.target = amd_target(chip), .passes = "default<O1>"};
  if (!l) return printf("%s: %s\n", chip->name, error), false;
  bool ok = llvm_compile(l, a, ir, &o, &code, &error) && llvm_disassemble_open(l, &o.target, d);
  if (ok) f->object = (AmdCode){code.bytes, code.size};
  ok = ok && amd_object_link(a, f->object.bytes, f->object.size, &f->linked, &error);
  if (!ok) printf("%s: %s\n", chip->name, error ? error : "no disassembler");
  return ok;
}

enum { CHIPS = 32 }; /* at most */

/* The chips that are damaged: one of each generation, or those whose name begins with `only`. */
static int compile_all(Arena *a, const char *only, Files *files, Host *h) {
  const AmdChip *chip;
  int n = 0;
  for (int i = 0; n < CHIPS && (chip = chip_at(i)); i++) {
    bool is_wanted =
        only ? strncmp(chip->name, only, strlen(only)) == 0 : strcmp(chip->name, chip->like) == 0;
    if (is_wanted && compile(a, chip, &files[n], &h[n].d)) n++;
  }
  return n;
}

int main(int argc, char **argv) {
  static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
  uint64_t seed = 1, count = 10000, failed = 0;
  const char *only = NULL;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--count") == 0) count = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--chip") == 0) only = argv[i + 1];
  }
  Arena *a = arena_new();
  Files files[CHIPS];
  Host h[CHIPS] = {{.memory = NULL}};
  int chips = compile_all(a, only, files, h);
  uint8_t *memory = open_memory();
  if (!memory || !chips) count = 0;
  for (int i = 0; i < chips; i++) h[i].memory = memory;
  for (size_t i = 0; i < WV_LEN(fatal); i++) signal(fatal[i], crashed);
  for (uint64_t n = seed; n < seed + count; n++) {
    snprintf(running, sizeof running, "crashed: --seed %" PRIu64 " --count 1\n", n);
    uint64_t chip = n / KINDS % (uint64_t)chips;
    if (run_case(&files[chip], n, &h[chip])) continue;
    failed++;
    printf("failed: --seed %" PRIu64 " --count 1\n", n);
  }
  for (int i = 0; i < chips; i++) llvm_disassemble_close(&h[i].d);
  arena_free(a);
  printf("%" PRIu64 " passed, %" PRIu64 " failed\n", count - failed, failed);
  return failed != 0;
}
