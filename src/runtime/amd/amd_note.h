/* amd_note.h: what a code object's metadata says about its kernels. */
#ifndef WV_AMD_NOTE_H
#define WV_AMD_NOTE_H

#include "runtime/amd/amd_file.h"

typedef struct AmdArg {
  uint32_t offset, size;
  const char *kind; /* `global_buffer`, `by_value`, `hidden_...` */
} AmdArg;

typedef struct AmdKernelNote {
  const char *name, *symbol; /* symbol: of the descriptor, `gemm.kd` */
  uint32_t args_bytes, args_align;
  uint32_t group_bytes, private_bytes; /* LDS; scratch memory of a lane */
  uint32_t sgprs, vgprs, agprs, sgpr_spills, vgpr_spills;
  uint32_t wave, threads; /* lanes of a wave; most work-items of a workgroup */
  const AmdArg *args;
  int nargs;
} AmdKernelNote;

typedef struct AmdNote {
  const char *target; /* `amdgcn-amd-amdhsa--gfx942` */
  const AmdKernelNote *kernels;
  int nkernels;
} AmdNote;

/* False: f->error says what is damaged, and where. Keys that are not needed are skipped. */
bool amd_note_read(AmdFile *f, AmdNote *out);
const AmdKernelNote *amd_note_find(const AmdNote *n, const char *name); /* NULL: no such kernel */

#endif
