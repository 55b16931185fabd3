/* amd_loops.h: the loops of the kernels of a code object, as text (isa/loops). */
#ifndef WV_AMD_LOOPS_H
#define WV_AMD_LOOPS_H

#include "runtime/amd/amd_image.h"
#include "runtime/llvm/llvm_library.h"

/* NULL: *error says what is wrong, with the offset in the file. `l` knows the image's chip. */
const char *amd_loops(Arena *a, const AmdImage *image, const LlvmLibrary *l, const char **error);

#endif
