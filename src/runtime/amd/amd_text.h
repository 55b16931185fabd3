/* amd_text.h: a code object as text: its instructions, and what limits its loops (isa/loops). */
#ifndef WV_AMD_TEXT_H
#define WV_AMD_TEXT_H

#include "runtime/amd/amd_image.h"
#include "runtime/llvm/llvm_library.h"

/* Both: NULL: *error says what is wrong, with the offset in the file. `l` knows the image's chip. */
const char *amd_loops(Arena *a, const AmdImage *image, const LlvmLibrary *l, const char **error);
/* As libLLVM disassembles it, with the places of branches and the source lines. */
const char *amd_listing(Arena *a, const AmdImage *image, const LlvmLibrary *l, const char **error);

#endif
