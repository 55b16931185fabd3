/* amd_object.h: makes a code object, which drivers load, of the relocatable object that LLVM
 * writes: what a linker does, for kernels that refer to nothing outside. */
#ifndef WV_AMD_OBJECT_H
#define WV_AMD_OBJECT_H

#include "base/arena.h"

typedef struct AmdCode {
  const uint8_t *bytes; /* in the arena */
  size_t size;
} AmdCode;

/* False: *error names the symbol or the relocation, or the offset of what is damaged. */
bool amd_object_link(Arena *a, const void *object, size_t size, AmdCode *out, const char **error);

#endif
