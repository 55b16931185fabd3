/* amd.h: emits one lane's program as LLVM IR text, for AMD GPUs.
 *
 * What a launch and an executor of code objects must know:
 *
 *   entry     the kernel is the function `entry`; LLVM adds its descriptor, `entry.kd`, and the note
 *   arguments one block in the layout of a C struct (the kernarg segment), in the order of `slots`:
 *             pointers have 8 bytes, scalar parameters 4 or 8, values computed at launch 4 or 8
 *             (`bytes`), each aligned to its size. There are no hidden arguments
 *   group     `shared` bytes of LDS, all static: they are in the descriptor, and a launch adds none
 *   ids       workgroups by x, y, z; a workgroup has one dimension of `threads` lanes. A wave has as
 *             many lanes as the row of targets.def says: 64 on CDNA, 32 on RDNA */
#ifndef WV_AMD_H
#define WV_AMD_H

#include "backend/llvm/llvm.h"

typedef struct AmdOptions {
  unsigned llvm; /* the version of the library that will compile the text */
  bool fast_math;
} AmdOptions;

typedef struct AmdKernel {
  const char *text, *entry;
  const LlvmSlot *slots;
  int nslots;
  const Sym *grid[3], *block[3];
  int shared;     /* bytes of LDS */
  bool waits_all; /* LLVM will wait for all loads that end in the LDS before any read of it */
} AmdKernel;

/* Whether there are instructions for the op on some type, or the op is only a hint. */
bool amd_writes(OpKind kind);

/* False after reporting what the chip cannot express (E0601). */
bool amd_emit(Kernel *k, const TargetInfo *t, const AmdOptions *o, Arena *a, AmdKernel *out);

#endif
