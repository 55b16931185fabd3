/* llvm.h: one lane's program as LLVM IR text, for processors.
 *
 * The text is in the dialect of LLVM 16, which every newer library parses. It depends on the kernel
 * and the host description alone. */
#ifndef WV_LLVM_H
#define WV_LLVM_H

#include "ir/ir.h"
#include "target/target.h"

typedef enum LlvmArch { LLVM_AARCH64, LLVM_X86_64 } LlvmArch;

enum { LLVM_SEGMENT_BITS = 128 }; /* a register of SVE is some of these */

typedef struct LlvmHost {
  LlvmArch arch;
  int vector_bits;      /* of a register */
  bool scalable;        /* registers are SVE's */
  bool f16;             /* conversions of f16 */
  bool fma;             /* products and sums in one instruction */
  bool native_masks;    /* loads and stores with a mask */
  const char *features; /* all of them, as LLVM spells them */
} LlvmHost;

LlvmHost llvm_host(const HostWords *words);

/* What every processor of a row of targets.def has; `cpu`: of the one this was compiled for. */
bool llvm_host_named(const char *target, LlvmHost *out);

/* What a kernel finds behind its first argument: one slot of 8 bytes each. */
typedef enum LlvmSlotKind {
  LLVM_POINTER, /* the data of parameter `param` */
  LLVM_SCALAR,  /* the bits of parameter `param`, of its dtype */
  LLVM_VALUE,   /* `value`, computed at launch */
  LLVM_MAGIC,   /* of a division by `value`: sym_ops.def */
  LLVM_SHIFT
} LlvmSlotKind;

typedef struct LlvmSlot {
  LlvmSlotKind kind;
  int param;
  const Sym *value;
  DType dtype; /* of a scalar */
} LlvmSlot;

/* void entry(const void *slots, int64_t first, int64_t last, void *scratch): the workgroups
 * [first, last), counted along x, then y, then z. `scratch` is aligned to 64 bytes. */
typedef struct LlvmKernel {
  const char *text, *entry;
  const LlvmSlot *slots;
  int nslots;
  const Sym *grid[3];
  int64_t scratch; /* bytes */
} LlvmKernel;

/* False after reporting what cannot be written for this host (E0601). */
bool llvm_emit(Kernel *k, const LlvmHost *host, Arena *a, LlvmKernel *out);

#endif
