/* cpu_state.h: what the files of the emitter for CPUs share. */
#ifndef WV_CPU_STATE_H
#define WV_CPU_STATE_H

#include "backend/cpu/cpu.h"
#include "backend/llvm/llvm_state.h"

typedef struct Lanes Lanes; /* cpu_lanes.h */

typedef struct Cpu {
  const CpuHost *host;
  int *repeated;  /* by value id: how many elements at a time are broadcast to a vector, if that is
                  * the only use; 0: there are other uses */
  bool has_tiles; /* uses CPU_TILES */
  int64_t scratch;
  int counters; /* of cpu_round */
  Vec(CpuWait) waits;
  StrBuf opening; /* emitted once, before all workgroups */
  Lanes *lanes;   /* NULL: a workgroup is one thread */
} Cpu;

/* Eight bytes that hold 0, and eight that may be overwritten. */
#define CPU_ZERO "@zero"
#define CPU_NOWHERE "%nowhere"
/* The stack block through which matrix registers are converted to and from vectors. */
#define CPU_TILES "%tiles"

/* ---- cpu.c ---- */

bool cpu_op_waits(const Op *op); /* it waits for other threads and does nothing else */

/* ---- cpu_ask.c: queries to the launch ---- */

/* Returns from the function if the launch was stopped. */
void cpu_ask(Llvm *p);
/* The same where a loop starts its next iteration, but only once per some number of iterations: at
 * first after `ask`, later often enough for a person not to notice. Counts the iterations of all
 * runs of the loop. */
void cpu_round(Llvm *p, int ask);

/* A while loop that continues until another thread changes memory. */
bool cpu_is_waiting(const Op *op);
/* Whether its iterations only read: if the carried values do not change, nothing does. */
bool cpu_only_looks(const Op *op);
/* After an iteration of it; `changed`: an i1. */
void cpu_wait(Llvm *p, const Op *op, const char *changed);
void cpu_end_of_while(Llvm *p, const Op *op); /* after an iteration of any while loop */
/* All waves meet at barrier `bar` (an i64), `members` of them. */
void cpu_meet(Llvm *p, const Op *op, const char *bar, int members, bool arrive);

/* ---- cpu_long.c ---- */

/* The column `rounds` of LlvmWatch. */
int64_t *cpu_find_long(Llvm *p);

/* ---- cpu_memory.c ---- */

LlvmFn cpu_alloc, cpu_load, cpu_store, cpu_prefetch, cpu_atomic;
LlvmFn cpu_load_rows, cpu_store_rows; /* cpu_rows.c */

/* ---- cpu_matrix.c ---- */

MatrixShape *cpu_find_matrices(Llvm *p);    /* by value id */
int cpu_matrix_count(const MatrixShape *s); /* registers */
/* The value in matrix registers: as it is held, or through memory. */
const char *const *cpu_tiles_of(Llvm *p, Held *h, const MatrixShape *s);
void cpu_matrix_set(Llvm *p, Held *h, const MatrixShape *s, const char *const *tile);
/* Starting at `at`, with rows `apart` bytes from each other; NULL: contiguous. */
void cpu_matrix_load(Llvm *p, Held *h, const MatrixShape *s, const char *at, const char *apart);
void cpu_matrix_store(Llvm *p, const Held *h, const char *at, const char *apart);
void cpu_matrix_to_vectors(Llvm *p, Held *h); /* gives it a vector form */

/* ---- cpu_mma.c ---- */

LlvmFn cpu_wave_mma;

#endif
