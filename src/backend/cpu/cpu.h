/* cpu.h: emits one thread's program as LLVM IR text, for CPUs. */
#ifndef WV_BACKEND_CPU_H
#define WV_BACKEND_CPU_H

#include "backend/llvm/llvm.h"

typedef enum CpuArch { CPU_AARCH64, CPU_X86_64 } CpuArch;

enum { CPU_SEGMENT_BITS = 128 }; /* an SVE register is a multiple of this */

typedef struct CpuHost {
  CpuArch arch;
  int vector_bits;      /* of a register */
  bool scalable;        /* registers are SVE's */
  bool f16;             /* conversions of f16 */
  bool fma;             /* fused multiply-add */
  bool native_masks;    /* loads and stores with a mask */
  const char *features; /* all of them, as LLVM spells them */
  bool fast_math;       /* requested: docs/numerics.md */
} CpuHost;

CpuHost cpu_host(const HostWords *words);

/* What every CPU of a row of targets.def has; `cpu`: the CPU this was compiled for. */
bool cpu_host_named(const char *target, CpuHost *out);

/* A point where the kernel waits for other threads, and what for: "waits for ...". */
typedef struct CpuWait {
  Span at;
  const char *what;
} CpuWait;

enum { CPU_CODE_GIVEN_UP = 1 }; /* returned when the kernel was stopped */

/* int32_t entry(const void *slots, int64_t first, int64_t last, void *scratch, void *watch): runs
 * the workgroups [first, last), numbered along x, then y, then z; if `waves` is not 1, their waves,
 * numbered first. A slot has 8 bytes. `scratch` is aligned to 64 bytes and belongs to the
 * workgroup. `watch` is passed to the functions of runtime/cpu/cpu_watch.h, which determine the
 * result if it is not 0. */
typedef struct CpuKernel {
  const char *text, *entry;
  const LlvmSlot *slots;
  int nslots;
  const Sym *grid[3];
  int64_t scratch; /* bytes */
  int waves;       /* of a workgroup, which run concurrently; 1: the workgroup runs as a whole */
  const CpuWait *waits;
  int nwaits;
  bool large; /* so large that optimising it would take minutes */
} CpuKernel;

/* Whether there are instructions for the op on some type, in programs of one thread or of many, or
 * the op is only a hint. */
bool cpu_writes(OpKind kind);

/* False after reporting what cannot be expressed for this host (E0601). */
bool cpu_emit(Kernel *k, const CpuHost *host, Arena *a, CpuKernel *out);

#endif
