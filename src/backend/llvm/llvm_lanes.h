/* llvm_lanes.h: one lane's program of many lanes, run by one thread of a processor.
 *
 * All threads of a workgroup are run by loops over them. Ops are grouped into *phases*: as long as
 * no thread needs to know what another has done, one loop runs them all, thread by thread, whatever
 * branches and loops they contain. Where threads meet (a barrier, an exchange of registers, a
 * matrix instruction) the loop ends, and what a thread knows is *kept* in scratch memory, a copy
 * for each thread, until a later phase reads it.
 *
 *     %x = load %a, %i           for each thread: load, keep %x
 *     %y = shuffle xor %x   =>   for each thread: read the %x of another thread, add, keep %z
 *     %z = add %x, %y
 *     barrier workgroup
 *     store %z, %b, %i           for each thread: read %z, store
 *
 * What is *alike* in all threads is computed once, outside of the loops. A region in which threads
 * meet is *split*: it is written outside of the loops, around those of its phases. If its threads
 * go different ways, a truth value for each says who takes part, and loops go on until nobody does.
 *
 * So code is as large as the lane's program, a barrier costs nothing, and the order in which
 * threads run between two meetings is the simplest: one after another.
 *
 * A thread that waits in a loop for what another one writes would wait for ever in that order. So
 * the end of a round of such a loop is a meeting, too: lanes of a wave take turns there. Waves are
 * independent of each other, and what one does before its loop another may do behind: in kernels
 * with such loops they run *apart*, each by a thread of the processor that runs the program for its
 * own lanes. Then barriers are real (runtime/cpu_gang.h), which also finds deadlocks. */
#ifndef WV_LLVM_LANES_H
#define WV_LLVM_LANES_H

#include "backend/llvm/llvm_state.h"

enum {
  LANES_ALONE = -1, /* neither in a phase nor alike: split regions, and where threads meet */
  LANES_ONCE = 0    /* alike in all threads */
};

enum { LANES_NOWHERE = -1 }; /* no place in scratch */

/* A symbol that differs between threads: the value of an op, or an i64 kept at `place`. */
typedef struct LaneSymbol {
  const Sym *symbol;
  const Value *value; /* NULL: at `place` */
  int64_t place;
} LaneSymbol;

struct Lanes {
  int threads, wave; /* of a workgroup; lanes of a wave */
  int copies;        /* of what is kept: threads, and those a last wave lacks */
  int64_t block[3];
  int phases;
  int apart;        /* waves that run at the same time, each for itself; 1: all threads run here */
  const char *own;  /* which of them this is */
  const char *from; /* the number of its first thread */
  const char *size; /* how many it has, or all */
  bool *meets;      /* by op id: threads meet in it */
  int *phase;       /* by op id: LANES_ALONE, LANES_ONCE or its phase; of ops in split regions */
  bool *one_way;    /* by op id, of split regions: all threads go the same way */
  bool *alike;      /* by value id */
  bool *is_kept;    /* by value id */
  int64_t *place;   /* by value id: where its copies are kept */
  int *read_in;     /* by value id: the last loop that read it */
  int loops;        /* over threads, written so far */
  int64_t mask;     /* who takes part, a byte each; LANES_NOWHERE: everybody */
  int64_t any;      /* a byte: somebody does */
  int64_t staging;  /* of matrix instructions; LANES_NOWHERE: there was none yet */
  int64_t staged;   /* bytes there */
  Vec(LaneSymbol) symbols; /* in scope */
  const char *thread;      /* the number of the thread, in the loop that is being written */
};

/* ---- llvm_lanes_plan.c ---- */

/* NULL after reporting: the launch row says nothing of threads. */
Lanes *lanes_plan(Llvm *p, const Constraint *launch);

/* ---- llvm_lanes.c ---- */

/* Which wave runs, if they run apart; `number`: of a wave, all workgroups' counted. Returns that of
 * the workgroup. */
const char *lanes_open_wave(Llvm *p, const char *number);

/* A counted loop: `index` is 0, 1, ... */
typedef struct CountLoop {
  const char *index, *next, *head, *latch, *end, *count;
} CountLoop;
CountLoop lanes_count(Llvm *p, int64_t count);
void lanes_count_end(Llvm *p, const CountLoop *l);

/* A loop over the threads that take part. What is made in it is forgotten behind it. */
typedef struct LaneLoop {
  CountLoop count;
  ScopeMark mark;
} LaneLoop;
LaneLoop lanes_open(Llvm *p);
void lanes_close(Llvm *p, const LaneLoop *l);

int64_t lanes_reserve(Llvm *p, int64_t bytes); /* scratch of that size */
int64_t lanes_bytes(const Type *t);            /* of a value of one thread */
/* Where thread `who` has its `bytes` of what is kept at `place`. */
const char *lanes_at(Llvm *p, int64_t place, int64_t bytes, const char *who);
Held *lanes_read(Llvm *p, const Value *v); /* this thread's */
void lanes_load(Llvm *p, Held *h, const Value *from, const char *who);
void lanes_keep(Llvm *p, Held *h, int64_t place); /* this thread's */
/* In a loop over threads of its own: to[i] becomes from[i]. */
void lanes_copy(Llvm *p, Value *const *to, Value *const *from, int n);
void lanes_region(Llvm *p, const Region *r);
bool lanes_writes(OpKind kind); /* in such programs only */

/* ---- llvm_lanes_region.c: split regions ---- */

LlvmFn lanes_for, lanes_while, lanes_if;

/* ---- llvm_lanes_meet.c: exchange between lanes ---- */

LlvmFn lanes_shuffle, lanes_shuffle_idx;
LlvmFn lanes_barrier; /* where waves run apart; nothing else needs to be done to meet */

/* ---- llvm_lanes_mma.c ---- */

LlvmFn lanes_mma;

#endif
