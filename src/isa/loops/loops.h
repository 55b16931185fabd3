/* loops.h: the loops of AMD machine code that contain matrix instructions: what is in them, and what
 * limits their speed.
 *
 * Instructions need not be known to the executor: a name is enough to count them. For each unit of
 * the machine (target/units/units.def) the cycles that one iteration of one wave occupies it are added up; the
 * largest sum is a lower bound of the time. Latencies, waits and caches that miss are not
 * modelled. */
#ifndef WV_LOOPS_H
#define WV_LOOPS_H

#include "base/strbuf.h"
#include "isa/isa.h"

/* ---- reading ---- */

typedef enum LoopKind {
  LOOP_MATRIX,
  LOOP_VALU,
  LOOP_SALU,
  LOOP_LDS,
  LOOP_MEMORY,
  LOOP_SCALAR_MEMORY,
  LOOP_WAIT,
  LOOP_BARRIER,
  LOOP_BRANCH,
  LOOP_OTHER,
  LOOP_KINDS
} LoopKind;

typedef struct LoopInstr {
  const char *text; /* NULL: these bytes are not an instruction */
  int name;         /* length of its name, without the suffix of an encoding */
  LoopKind kind;
  uint32_t pc;
  int target; /* of a branch: the index of an instruction; -1: none */
  bool ends;  /* the next instruction does not follow it */
  int loop;   /* the innermost loop around it; -1: none */
} LoopInstr;

typedef struct LoopRange {
  int parent;           /* -1: none */
  int header;           /* where it is entered: an instruction */
  uint32_t first, last; /* pc of its first and last instruction, which may enclose others */
} LoopRange;

typedef struct LoopCode {
  const LoopInstr *at;
  int n;
  const LoopRange *loops; /* outer ones before those inside */
  int nloops;
  const int *lds; /* cycles of each access to LDS by its addresses; 0: unknown. NULL: all are */
} LoopCode;

/* False: *error says what is wrong with the code at *pc. */
bool loops_read(Arena *a, const IsaImage *image, IsaDisassemble *disassemble, void *user,
                LoopCode *out, uint64_t *pc, const char **error);

/* Finds the addresses in LDS (code->lds), for code that the executor knows. */
void loops_walk(Arena *a, const IsaKernel *k, LoopCode *code);

/* ---- counting ---- */

typedef enum LoopUnit {
  LOOP_UNIT_MATRIX,
  LOOP_UNIT_VALU,
  LOOP_UNIT_SALU,
  LOOP_UNIT_LDS,
  LOOP_UNIT_MEMORY,
  LOOP_UNIT_ISSUE,
  LOOP_UNITS
} LoopUnit;

/* What the metadata says about the kernel. */
typedef struct LoopKernel {
  const IsaImage *image;
  uint32_t vector, accumulation, scalar; /* registers; accumulation is part of vector */
  uint32_t vector_spills, scalar_spills;
  uint32_t threads; /* of a workgroup, at most */
} LoopKernel;

typedef struct LoopRoom {
  int waves_per_group;
  int waves; /* of a SIMD; 0: a workgroup does not fit */
  int busy;  /* SIMDs with at least one wave */
  const char *limit;
} LoopRoom;

LoopRoom loops_room(const LoopKernel *k);

typedef struct LoopMix {
  int n, count[LOOP_KINDS];
  int copies;                /* of accumulators: loops_copies */
  int transcendental;        /* and other slow vector instructions */
  int scratch;               /* accesses to spilled registers and arrays */
  int conflicts;             /* cycles of LDS beyond those of accesses without conflicts */
  int unknown_lds;           /* accesses to LDS whose addresses are not known */
  double cycles[LOOP_UNITS]; /* of an iteration */
  LoopUnit bound;
  const char *unknown; /* a matrix instruction of unknown duration; NULL: none */
} LoopMix;

/* The instructions of a loop, without those of loops inside it. */
LoopMix loops_count(const LoopKernel *k, const LoopRoom *room, const LoopCode *code, int loop);

/* Moves from registers that a matrix instruction wrote last, and moves to registers that one
 * accumulates next. */
int loops_copies(const LoopCode *code, int loop);

/* All of it as text. */
void loops_print(StrBuf *out, const LoopKernel *k, const LoopCode *code);

#endif
