/* cpu_reloc.h: one relocation of an object, for the architecture this is compiled for. */
#ifndef WV_CPU_RELOC_H
#define WV_CPU_RELOC_H

#include "base/base.h"

typedef struct CpuReloc {
  unsigned kind;          /* R_AARCH64_... or R_X86_64_... */
  uint64_t symbol, patch; /* addresses: the target, and what is patched */
  int64_t addend;
  bool outside;  /* the symbol is outside the object: it may be far */
  uint64_t stub; /* 16 bytes that may be used for it */
  bool used_stub;
} CpuReloc;

bool cpu_relocate(CpuReloc *r); /* false: of unknown kind, or out of reach */

#endif
