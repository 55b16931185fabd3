/* llvm_library.h: libLLVM, found and loaded at run time: IR text to object code, and object code to
 * text.
 *
 * Nothing is linked: any libLLVM from version 16 on will do. A loaded library stays loaded
 * (unloading LLVM is not safe), so opening it again costs next to nothing. If several versions are
 * installed, version 19 is used, or the newest if 19 is too old for the machine; a process may use
 * both. WAVE_LLVM names another. */
#ifndef WV_LLVM_LIBRARY_H
#define WV_LLVM_LIBRARY_H

#include "base/arena.h"
#include "target/target.h"

typedef struct LlvmOpaque *LlvmRef;

typedef struct LlvmLibrary {
  const char *path;
  unsigned version; /* major */
  bool amdgpu;      /* it compiles for AMD GPUs */
  void *library;
#define LLVM_FN(result, name, parameters) result(*name) parameters;
#include "runtime/llvm/llvm_library.def"
} LlvmLibrary;

/* NULL: none was found, or the one named by WAVE_LLVM does not load; *error says what was tried and
 * what would help. `user`: what needs it, such as "CPU targets need". `wanted`: the version that the
 * machine needs, 0 for any; if only older ones are installed, one of them is opened. */
const LlvmLibrary *llvm_library_open(Arena *a, const char *user, unsigned wanted,
                                     const char **error);

/* The machine for which code is compiled. */
typedef struct LlvmTarget {
  HostWords words;
  const char *cpu; /* as LLVM spells it */
} LlvmTarget;

/* How much time LLVM may spend on generating code. */
typedef enum LlvmEffort {
  LLVM_MOST_EFFORT,
  LLVM_USUAL_EFFORT, /* LLVM's default */
  LLVM_LEAST_EFFORT  /* the time is proportional to the length of the program */
} LlvmEffort;

typedef struct LlvmCompile {
  LlvmTarget target;
  const char *passes; /* a pipeline in LLVM's syntax; NULL: ours */
  LlvmEffort effort;
  bool assembly; /* text instead of an object */
} LlvmCompile;

typedef struct LlvmCode {
  const void *bytes; /* in the arena, followed by a zero byte */
  size_t size;
  double parse, optimise, emit; /* seconds */
} LlvmCode;

/* False: *error says why. LLVM's fatal errors are ordinary errors here. */
bool llvm_compile(const LlvmLibrary *l, Arena *a, const char *ir, const LlvmCompile *o,
                  LlvmCode *out, const char **error);

/* ---- llvm_disassemble.c ---- */

typedef struct LlvmDisassembler {
  const LlvmLibrary *l;
  LlvmRef state;
} LlvmDisassembler;

/* False: the library has no disassembler for the target. */
bool llvm_disassemble_open(const LlvmLibrary *l, const LlvmTarget *t, LlvmDisassembler *out);
/* The instruction at the start of `bytes`, whose address is `pc`, as text of at most `size` bytes
 * with its final zero; returns its length in bytes, 0 if there is none. An IsaDisassemble. */
size_t llvm_disassemble(void *disassembler, const uint8_t *bytes, size_t n, uint64_t pc, char *text,
                        size_t size);
void llvm_disassemble_close(LlvmDisassembler *d);

#endif
