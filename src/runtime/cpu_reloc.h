/* cpu_reloc.h: one relocation of an object, for the processor this is compiled for. */
#ifndef WV_CPU_RELOC_H
#define WV_CPU_RELOC_H

#include "base/base.h"

typedef struct CpuReloc {
  unsigned kind;          /* R_AARCH64_... or R_X86_64_... */
  uint64_t symbol, place; /* addresses: what is referred to, what is changed */
  int64_t addend;
  bool outside;  /* the symbol is not part of the object: it may be far */
  uint64_t stub; /* 16 bytes that may be used for it */
  bool used_stub;
} CpuReloc;

bool cpu_relocate(CpuReloc *r); /* false: of a kind that is not known, or too far */

#endif
