/* isa.h: runs AMD machine code on the host, wave by wave, and checks it.
 *
 * A kernel is decoded once: a disassembler (libLLVM's; the caller passes it in) turns each
 * instruction into text, and the text is parsed into operands. Each instruction then has a C
 * function that executes it for all lanes of a wave. Device addresses are host addresses.
 *
 * The executor knows nothing of time, but it does know what the code must not rely on: a register
 * that a load fills may not be touched before the wait that covers the load, and data in LDS may
 * not be read by another wave before the store is waited for and a barrier is passed. Whatever
 * breaks these rules ends the run with a fault, as do accesses outside the memory of the launch,
 * registers that were never written, and instructions that isa.def does not list. */
#ifndef WV_ISA_H
#define WV_ISA_H

#include "base/arena.h"

/* Writes the text of the instruction at `at` (at most `bytes` long, its address is `pc`); returns
 * its size in bytes, 0 if there is none. */
typedef size_t IsaDisassemble(void *user, const uint8_t *at, size_t bytes, uint64_t pc, char *text,
                              size_t room);

/* Instructions from this one on come from a line of the source. */
typedef struct IsaLine {
  uint64_t pc; /* distance from the start of the kernel */
  const char *file;
  uint32_t line;
} IsaLine;

/* A kernel of a loaded code object. The fields of the 64-byte kernel descriptor are kept as they
 * are. */
typedef struct IsaImage {
  const char *name, *chip; /* chip: `gfx942` */
  const uint8_t *code;     /* in memory with everything it refers to */
  size_t bytes;            /* of the kernel's function */
  uint32_t group_bytes;    /* LDS */
  uint32_t private_bytes;  /* of a lane: spilled registers, arrays */
  uint32_t rsrc1, rsrc2, rsrc3;
  uint16_t properties;  /* which registers are set when a wave starts */
  uint16_t preload;     /* arguments that are in registers when a wave starts */
  const IsaLine *lines; /* by pc */
  int nlines;
} IsaImage;

/* The source line of the instruction at `pc`; NULL: unknown. */
const IsaLine *isa_line(const IsaImage *image, uint64_t pc);

typedef struct IsaKernel IsaKernel;

/* NULL: *error names the instruction that is not known, with its place. */
IsaKernel *isa_decode(Arena *a, const IsaImage *image, IsaDisassemble *disassemble, void *user,
                      const char **error);
int isa_wave_size(const IsaKernel *k); /* lanes */
int isa_instructions(const IsaKernel *k);
/* The text of instruction `i` and its distance from the start of the kernel. */
const char *isa_text(const IsaKernel *k, int i, uint64_t *offset);
/* For tests: instruction `i` does nothing from now on; -1: every instruction is executed again. */
void isa_remove(IsaKernel *k, int i);

/* What the workgroups that ran so far made of a wait or a barrier. */
typedef enum IsaUse {
  ISA_EXECUTED = 1,
  ISA_NEEDED = 2 /* something was accessed that no other wait covered, or that no other barrier
                  * ordered */
} IsaUse;
unsigned isa_use(const IsaKernel *k, int i);

/* Memory that a launch may access. */
typedef struct IsaRange {
  const char *name;
  uint64_t at, bytes;
  bool writable;
} IsaRange;

typedef struct IsaLaunch {
  const IsaKernel *kernel;
  unsigned grid[3], block[3]; /* workgroups, and work-items of each */
  const void *args;           /* the kernel argument segment */
  size_t args_bytes;
  unsigned group_bytes; /* LDS besides what the image says */
  const IsaRange *ranges;
  int nranges;
  uint64_t most; /* instructions that a wave may execute; 0: no limit */
} IsaLaunch;

typedef enum IsaFaultKind {
  ISA_OK,
  ISA_UNKNOWN,   /* a case of an instruction that is not implemented */
  ISA_OUTSIDE,   /* an access outside the ranges, LDS or scratch memory */
  ISA_UNALIGNED, /* an atomic operation on an address that is not a multiple of its size */
  ISA_EARLY,     /* a register or LDS touched before the wait that covers it */
  ISA_UNSET,     /* a register that was never written */
  ISA_RACE,      /* LDS shared between waves without a barrier in between */
  ISA_BARRIER,   /* a barrier that some waves never reach */
  ISA_DIVERGED,  /* a matrix instruction with inactive lanes */
  ISA_ENDLESS,   /* more instructions than the launch allows */
} IsaFaultKind;

typedef struct IsaFault {
  IsaFaultKind kind;
  uint64_t pc; /* distance from the start of the kernel */
  unsigned group[3];
  int wave, lane; /* lane -1: the whole wave */
  char text[240]; /* what is wrong */
  char at[120];   /* the instruction */
} IsaFault;

/* The registers, LDS and scratch memory of one workgroup; used again by the next one. Running
 * allocates nothing. */
typedef struct IsaMachine IsaMachine;

size_t isa_machine_bytes(const IsaLaunch *l);
IsaMachine *isa_machine(void *memory, const IsaLaunch *l); /* memory: aligned to 64 */

/* Runs one workgroup. False: *fault says why. */
bool isa_run(IsaMachine *m, const IsaLaunch *l, const unsigned group[3], IsaFault *fault);

/* "kernel `k`, gemm.py:12, pc 0x40 (`ds_read_b32 v0, v1`), workgroup (0, 0, 0), wave 1, lane 3:
 * ..." */
const char *isa_fault_text(Arena *a, const IsaKernel *k, const IsaFault *fault);

#endif
