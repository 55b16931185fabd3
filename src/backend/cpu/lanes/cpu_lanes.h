/* cpu_lanes.h: one lane's program for many lanes, run by one CPU thread.
 *
 * All threads of a workgroup are run by loops over them. Ops are grouped into *phases*: as long as
 * no thread depends on what another has done, one loop runs them all, thread by thread, whatever
 * branches and loops they contain. Where threads meet (a barrier, an exchange of registers, a
 * matrix instruction) the loop ends, and the live values of each thread are *kept* in scratch
 * memory, a copy per thread, until a later phase reads them.
 *
 *     %x = load %a, %i           for each thread: load, keep %x
 *     %y = shuffle xor %x   =>   for each thread: read the %x of another thread, add, keep %z
 *     %z = add %x, %y
 *     barrier workgroup
 *     store %z, %b, %i           for each thread: read %z, store
 *
 * Values that are *uniform*, the same in all threads, are computed once, outside the loops. A region
 * in which threads meet is *split*: it is emitted outside the loops, around the loops of its phases.
 * If its threads diverge, a truth value per thread says whether it takes part, and loops continue
 * until no thread does.
 *
 * So the code is as large as the lane's program, a barrier costs nothing, and between two meetings
 * threads run in the simplest order: one after the other.
 *
 * In that order, a thread that waits in a loop for what another one writes would wait forever. The
 * end of an iteration of such a loop is therefore a meeting too: the lanes of a wave take turns
 * there. Waves are independent of each other, and what one does before its loop another may do
 * after it: in kernels with such loops waves run *apart*, each on its own CPU thread, which runs
 * the program for its lanes. Barriers are then real (runtime/cpu/cpu_gang.h), and deadlocks are
 * detected. */
#ifndef WV_CPU_LANES_H
#define WV_CPU_LANES_H

#include "backend/cpu/cpu_state.h"

enum {
  LANES_ALONE = -1, /* neither in a phase nor uniform: split regions, and meetings */
  LANES_ONCE = 0    /* uniform */
};

enum { LANES_NOWHERE = -1 }; /* no address in scratch */

/* A symbol that differs between threads: the value of an op, or an i64 kept at `offset`. */
typedef struct LaneSymbol {
  const Sym *symbol;
  const Value *value; /* NULL: at `offset` */
  int64_t offset;     /* in scratch memory */
} LaneSymbol;

struct Lanes {
  int threads, wave; /* of a workgroup; lanes of a wave */
  int copies;        /* of kept values: one per thread, including those that the last wave lacks */
  int64_t block[3];
  int phases;
  int apart;        /* waves that run concurrently, each on its own; 1: all threads run here */
  const char *own;  /* the index of this one */
  const char *from; /* the index of its first thread */
  const char *size; /* its number of threads, or all */
  bool *meets;      /* by op id: threads meet in it */
  int *phase;       /* by op id: LANES_ALONE, LANES_ONCE or its phase; for ops in split regions */
  bool *uniform_region;    /* by op id, for split regions: all threads take the same path */
  bool *uniform;           /* by value id: the same in all threads */
  bool *is_kept;           /* by value id */
  int64_t *offset;         /* by value id: of its copies in scratch memory */
  int *read_in;            /* by value id: the last loop that read it */
  int loops;               /* loops over threads emitted so far */
  int64_t mask;            /* participating threads, a byte each; LANES_NOWHERE: all */
  int64_t any;             /* a byte: at least one takes part */
  int64_t staging;         /* for matrix instructions; LANES_NOWHERE: none yet */
  int64_t staged;          /* bytes there */
  Vec(LaneSymbol) symbols; /* in scope */
  const char *thread;      /* the index of the thread, in the loop being emitted */
};

/* ---- cpu_lanes_plan.c ---- */

/* NULL after reporting that the launch row does not give the threads. */
Lanes *lanes_plan(Llvm *p, const LaunchSpec *launch);

/* ---- cpu_lanes.c ---- */

/* Determines which wave runs, if waves run apart; `number`: of a wave, over all workgroups. Returns
 * the number of the workgroup. */
const char *lanes_open_wave(Llvm *p, const char *number);

/* A counted loop: `index` is 0, 1, ... */
typedef struct CountLoop {
  const char *index, *next, *head, *latch, *end, *count;
} CountLoop;
CountLoop lanes_count(Llvm *p, int64_t count);
void lanes_count_end(Llvm *p, const CountLoop *l);

/* A loop over the threads that take part. Forms made in it are dropped after it. */
typedef struct LaneLoop {
  CountLoop count;
  ScopeMark mark;
} LaneLoop;
LaneLoop lanes_open(Llvm *p);
void lanes_close(Llvm *p, const LaneLoop *l);

int64_t lanes_reserve(Llvm *p, int64_t bytes); /* scratch of this size */
int64_t lanes_bytes(const Type *t);            /* of one thread's value */
/* The address of thread `who`'s `bytes` of what is kept at `offset`. */
const char *lanes_at(Llvm *p, int64_t offset, int64_t bytes, const char *who);
Held *lanes_read(Llvm *p, const Value *v); /* this thread's */
void lanes_load(Llvm *p, Held *h, const Value *from, const char *who);
void lanes_keep(Llvm *p, Held *h, int64_t offset); /* this thread's */
/* In a loop over threads of its own, sets to[i] to from[i]. */
void lanes_copy(Llvm *p, Value *const *to, Value *const *from, int n);
void lanes_region(Llvm *p, const Region *r);
bool lanes_writes(OpKind kind); /* only in such programs */

/* ---- cpu_lanes_region.c: split regions ---- */

LlvmFn lanes_for, lanes_while, lanes_if;

/* ---- cpu_lanes_meet.c: exchange between lanes ---- */

LlvmFn lanes_shuffle, lanes_shuffle_idx;
LlvmFn lanes_barrier; /* if waves run apart; otherwise a meeting needs no code */

/* ---- cpu_lanes_mma.c ---- */

LlvmFn lanes_mma;

#endif
