/* cpu_object.h: makes object code (ELF, AArch64 or x86-64) executable in this process.
 *
 * For standalone code: sections, constants, internal jumps, and calls of the functions in
 * cpu_symbols.def. Anything else is refused by name. */
#ifndef WV_CPU_OBJECT_H
#define WV_CPU_OBJECT_H

#include "base/arena.h"

typedef struct CpuImage CpuImage;

/* NULL: *error says why. The bytes are not needed afterwards. */
CpuImage *cpu_object_load(const void *bytes, size_t size, Arena *a, const char **error);
void *cpu_object_symbol(const CpuImage *image, const char *name); /* NULL: it has none */
void cpu_object_unload(CpuImage *image);                          /* NULL is fine */

#endif
