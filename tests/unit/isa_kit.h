/* isa_kit.h: LLVM IR for AMD GPUs, compiled by libLLVM, linked, and run by the executor.
 *
 *     IsaKit k = isa_kit(ir, "gfx942");
 *     isa_kit_tensor(&k, "x", x, sizeof x); ... isa_kit_number(&k, 4, n);
 *     bool ok = isa_kit_run(&k, groups, threads);        k.fault says why not
 *
 * Kernels are named `k`. Without libLLVM every test passes with a line that says so. */
#ifndef WV_ISA_KIT_H
#define WV_ISA_KIT_H

#include <stdlib.h>

#include "isa/isa.h"
#include "runtime/amd/amd_compile.h"
#include "runtime/amd/amd_image.h"
#include "runtime/amd/amd_object.h"
#include "runtime/llvm/llvm_library.h"
#include "unit/harness.h"

enum { KIT_RANGES = 16, KIT_ARGS = 256 };

typedef struct IsaKit {
  Arena *a;
  bool skipped;
  const char *error; /* compiling, linking, decoding */
  AmdImage image;
  IsaImage code;
  IsaKernel *kernel;
  IsaRange ranges[KIT_RANGES];
  int nranges;
  uint8_t args[KIT_ARGS];
  size_t nargs;
  IsaFault fault;
  uint64_t most; /* instructions of a wave */
} IsaKit;

/* Metadata for source lines: !4 is the function, !6 line 12 of src/k.py, !7 line 300. */
#define KIT_LINES                                                                                  \
  "!llvm.dbg.cu = !{!0}\n!llvm.module.flags = !{!1, !2}\n"                                         \
  "!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !5, producer: \"wave\", "             \
  "isOptimized: "                                                                                  \
  "true, runtimeVersion: 0, emissionKind: LineTablesOnly)\n"                                       \
  "!1 = !{i32 2, !\"Debug Info Version\", i32 3}\n!2 = !{i32 7, !\"Dwarf Version\", i32 4}\n"      \
  "!3 = !DISubroutineType(types: !{})\n"                                                           \
  "!4 = distinct !DISubprogram(name: \"k\", scope: !5, file: !5, line: 9, type: !3, scopeLine: "   \
  "9, "                                                                                            \
  "spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !0)\n"                                   \
  "!5 = !DIFile(filename: \"src/k.py\", directory: \"\")\n"                                        \
  "!6 = !DILocation(line: 12, column: 3, scope: !4)\n"                                             \
  "!7 = !DILocation(line: 300, column: 1, scope: !4)\n"

static inline void kit_decode(IsaKit *k, const LlvmLibrary *l) {
  LlvmTarget t = amd_target(chip_named(k->code.chip));
  LlvmDisassembler d;
  if (!llvm_disassemble_open(l, &t, &d)) {
    k->error = "libLLVM has no disassembler for AMD GPUs";
    return;
  }
  k->kernel = isa_decode(k->a, &k->code, llvm_disassemble, &d, &k->error);
  llvm_disassemble_close(&d);
}

static inline void isa_kit_close(IsaKit *k) { arena_free(k->a); }

static inline IsaKit isa_kit(const char *ir, const char *chip) {
  IsaKit k = {.a = arena_new(), .most = 1 << 24};
  const LlvmLibrary *l = amd_library_open(k.a, chip_named(chip), &k.error);
  LlvmCode object;
  AmdCode linked;
  if (!l) return printf("skipped: %s\n", k.error), k.skipped = true, k;
  LlvmCompile o = {.target = amd_target(chip_named(chip)), .passes = "default<O1>"};
  if (llvm_compile(l, k.a, ir, &o, &object, &k.error) &&
      amd_object_link(k.a, object.bytes, object.size, &linked, &k.error) &&
      amd_image_load(k.a, linked.bytes, linked.size, &k.image, &k.error) &&
      amd_image_kernel(k.a, &k.image, "k", &k.code, &k.error))
    kit_decode(&k, l);
  k.ranges[k.nranges++] =
      (IsaRange){"the code object", (uint64_t)(uintptr_t)k.image.memory, k.image.size, false};
  if (!k.kernel) printf("%s: %s\n", chip, k.error);
  return k;
}

static inline void isa_kit_tensor(IsaKit *k, const char *name, void *data, size_t bytes) {
  k->ranges[k->nranges++] = (IsaRange){name, (uint64_t)(uintptr_t)data, bytes, true};
  k->nargs = (k->nargs + 7) & ~(size_t)7;
  memcpy(k->args + k->nargs, &data, 8);
  k->nargs += 8;
}

static inline void isa_kit_number(IsaKit *k, const void *value, size_t bytes) {
  k->nargs = (k->nargs + bytes - 1) / bytes * bytes;
  memcpy(k->args + k->nargs, value, bytes);
  k->nargs += bytes;
}

static inline bool isa_kit_run(IsaKit *k, unsigned groups, unsigned threads) {
  if (!k->kernel) return k->skipped;
  IsaRange ranges[KIT_RANGES];
  memcpy(ranges, k->ranges, sizeof ranges);
  ranges[k->nranges] =
      (IsaRange){"the arguments", (uint64_t)(uintptr_t)k->args, sizeof k->args, false};
  IsaLaunch l = {.kernel = k->kernel,
                 .grid = {groups, 1, 1},
                 .block = {threads, 1, 1},
                 .args = k->args,
                 .args_bytes = k->nargs,
                 .ranges = ranges,
                 .nranges = k->nranges + 1,
                 .most = k->most};
  char *memory = calloc(1, isa_machine_bytes(&l) + 64);
  IsaMachine *m = isa_machine(memory + (64 - (uintptr_t)memory % 64) % 64, &l);
  bool ok = true;
  for (unsigned g = 0; ok && g < groups; g++)
    ok = isa_run(m, &l, (unsigned[3]){g, 0, 0}, &k->fault);
  free(memory);
  return ok;
}

/* Runs, and prints the fault if there is one. */
static inline bool isa_kit_runs(IsaKit *k, unsigned groups, unsigned threads) {
  bool ok = isa_kit_run(k, groups, threads);
  if (!ok && k->kernel) printf("%s\n", isa_fault_text(k->a, k->kernel, &k->fault));
  return ok;
}

#endif
