/* llvm.h: emits one lane's program as LLVM IR text, for CPUs.
 *
 * The text uses the syntax of LLVM 16, which every newer library parses. It depends only on the
 * kernel and the host description. */
#ifndef WV_LLVM_H
#define WV_LLVM_H

#include "ir/ir.h"
#include "target/target.h"

typedef enum LlvmArch { LLVM_AARCH64, LLVM_X86_64 } LlvmArch;

enum { LLVM_SEGMENT_BITS = 128 }; /* an SVE register is a multiple of this */

typedef struct LlvmHost {
  LlvmArch arch;
  int vector_bits;      /* of a register */
  bool scalable;        /* registers are SVE's */
  bool f16;             /* conversions of f16 */
  bool fma;             /* fused multiply-add */
  bool native_masks;    /* loads and stores with a mask */
  const char *features; /* all of them, as LLVM spells them */
  bool fast_math;       /* requested: docs/numerics.md */
} LlvmHost;

LlvmHost llvm_host(const HostWords *words);

/* What every CPU of a row of targets.def has; `cpu`: the CPU this was compiled for. */
bool llvm_host_named(const char *target, LlvmHost *out);

/* What a kernel's first argument points to: one slot of 8 bytes each. */
typedef enum LlvmSlotKind {
  LLVM_POINTER, /* the data of parameter `param` */
  LLVM_SCALAR,  /* the bits of parameter `param`, of its dtype */
  LLVM_VALUE,   /* `value`, computed at launch */
  LLVM_MAGIC,   /* for a division by `value`: sym_ops.def */
  LLVM_SHIFT
} LlvmSlotKind;

typedef struct LlvmSlot {
  LlvmSlotKind kind;
  int param;
  const Sym *value;
  DType dtype; /* of a scalar */
} LlvmSlot;

/* A point where the kernel waits for other threads, and what for: "waits for ...". */
typedef struct LlvmWait {
  Span at;
  const char *what;
} LlvmWait;

enum { LLVM_GIVEN_UP = 1 }; /* returned when the kernel was stopped */

/* int32_t entry(const void *slots, int64_t first, int64_t last, void *scratch, void *watch): runs
 * the workgroups [first, last), numbered along x, then y, then z; if `waves` is not 1, their waves,
 * numbered first. `scratch` is aligned to 64 bytes and belongs to the workgroup. `watch` is passed
 * to the functions of runtime/cpu/cpu_watch.h, which determine the result if it is not 0. */
typedef struct LlvmKernel {
  const char *text, *entry;
  const LlvmSlot *slots;
  int nslots;
  const Sym *grid[3];
  int64_t scratch; /* bytes */
  int waves;       /* of a workgroup, which run concurrently; 1: the workgroup runs as a whole */
  const LlvmWait *waits;
  int nwaits;
} LlvmKernel;

/* Whether there are instructions for the op on some type, in programs of one thread or of many, or
 * the op is only a hint. */
bool llvm_writes(OpKind kind);

/* False after reporting what cannot be expressed for this host (E0601). */
bool llvm_emit(Kernel *k, const LlvmHost *host, Arena *a, LlvmKernel *out);

#endif
