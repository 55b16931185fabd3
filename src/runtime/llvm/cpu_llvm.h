/* cpu_llvm.h: libLLVM, found and loaded at run time: IR text to object code for this machine.
 *
 * Nothing is linked: any libLLVM from version 16 on will do. A loaded library stays loaded
 * (unloading LLVM is not safe), so opening it again costs next to nothing. */
#ifndef WV_CPU_LLVM_H
#define WV_CPU_LLVM_H

#include "base/arena.h"
#include "target/target.h"

typedef struct LlvmOpaque *LlvmRef;

typedef struct CpuLlvm {
  const char *path;
  unsigned version; /* major */
  void *library;
#define LLVM_FN(result, name, parameters) result(*name) parameters;
#include "runtime/llvm/cpu_llvm.def"
} CpuLlvm;

/* NULL: none was found, or the one named by WAVE_LLVM does not load; *error says what was tried and
 * what would help. */
const CpuLlvm *cpu_llvm_open(Arena *a, const char **error);

/* The CPU for which code is compiled. */
typedef struct CpuTarget {
  HostWords words;
  const char *cpu; /* as LLVM spells it */
} CpuTarget;

/* The row of targets.def that describes this CPU's registers. */
const char *cpu_target_row(const CpuTarget *t);

/* This machine, with exactly the features that this process may use. */
CpuTarget cpu_llvm_host(const CpuLlvm *l, Arena *a);

/* Any CPU of a row, with only the features that all of them have. */
CpuTarget cpu_target_of(Arena *a, const Processor *row);

typedef struct CpuCompile {
  CpuTarget target;
  const char *passes; /* a pipeline in LLVM's syntax; NULL: ours */
  bool assembly;      /* text instead of an object */
} CpuCompile;

typedef struct CpuCode {
  const void *bytes; /* in the arena, followed by a zero byte */
  size_t size;
  double parse, optimise, emit; /* seconds */
} CpuCode;

/* False: *error says why. LLVM's fatal errors are ordinary errors here. */
bool cpu_llvm_compile(const CpuLlvm *l, Arena *a, const char *ir, const CpuCompile *o, CpuCode *out,
                      const char **error);

#endif
