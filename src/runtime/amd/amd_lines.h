/* amd_lines.h: the source lines of a code object's instructions, from its .debug_line section. */
#ifndef WV_AMD_LINES_H
#define WV_AMD_LINES_H

#include "isa/isa.h"

/* The rows of DWARF 2 to 4 for `size` bytes of code at `address`, by pc. What is damaged, or of a
 * newer version, has no lines. */
const IsaLine *amd_lines(Arena *a, const uint8_t *section, size_t n, uint64_t address,
                         uint64_t size, int *count);

#endif
