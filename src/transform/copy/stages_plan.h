/* stages_plan.h: which copies of a loop may be prefetched, and how many iterations ahead.
 *
 * A copy may be prefetched if every iteration reads what it copied itself, nothing in the loop
 * stores to its source, and its source address follows from the loop's counter. A ring has a slot
 * for the iteration being computed, one for each iteration that is prefetched, and one more if a
 * product may still be reading the slot of the previous iteration. */
#ifndef WV_STAGES_PLAN_H
#define WV_STAGES_PLAN_H

#include "analysis/memory_uses.h"
#include "base/vec.h"
#include "transform/pass.h"

typedef struct StagedCopy {
  Op *copy, *alloc;
  bool async; /* otherwise its tile waits in registers while an iteration is computed */
  bool boxes; /* asynchronous, by a copy engine: a barrier signals its arrival */
} StagedCopy;

typedef struct StagedLoop {
  Op *loop;
  const Sym *axis, *counter, *trips;
  Vec(StagedCopy) copies;
  Op *product; /* is in flight while the next iteration begins; NULL: none */
  Op *early;   /* a product that is computed one iteration early; NULL: none */
} StagedLoop;

typedef struct StagesPlan {
  Vec(StagedLoop) loops;
  int slots; /* of the rings that asynchronous copies fill; below 2: nothing is prefetched */
} StagesPlan;

StagesPlan stages_plan(Kernel *k, PassCtx *cx);

static inline int staged_flights(const StagedLoop *l) { return l->product ? 1 : 0; }

/* How many iterations ahead a copy is made, and the slots of its ring. */
static inline int staged_ahead(const StagesPlan *p, const StagedLoop *l, const StagedCopy *c) {
  return c->async ? p->slots - 1 - staged_flights(l) : 1;
}
static inline int staged_slots(const StagesPlan *p, const StagedLoop *l, const StagedCopy *c) {
  return staged_ahead(p, l, c) + 1 + staged_flights(l);
}

#endif
