/* amd_compile.h: LLVM IR text to object code for an AMD GPU. */
#ifndef WV_AMD_COMPILE_H
#define WV_AMD_COMPILE_H

#include "runtime/llvm/llvm_library.h"

/* libLLVM, if it knows the chip; NULL: *error says what was found and what is needed. The library
 * is never tried out: one that is too old warns and compiles for another chip. */
const LlvmLibrary *amd_library_open(Arena *a, const AmdChip *chip, const char **error);

/* The chip as libLLVM names it. */
LlvmTarget amd_target(const AmdChip *chip);

/* A relocatable object, as LLVM writes it: code, the descriptor NAME.kd, the note. False: *error
 * says why, for example which symbol has no definition. */
bool amd_compile(const LlvmLibrary *l, Arena *a, const char *ir, const AmdChip *chip, bool assembly,
                 LlvmCode *out, const char **error);

#endif
