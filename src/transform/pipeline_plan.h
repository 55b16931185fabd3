/* pipeline_plan.h: which copies of a loop may run ahead of it, and how far.
 *
 * A copy may when every iteration reads what it copied itself, nothing in the loop stores to its
 * source, and where it copies from follows from the loop's counter. A ring has a slot for the
 * iteration that is computed, one for each that copies run ahead, and one more where a product may
 * still be reading the slot of the iteration before. */
#ifndef WV_PIPELINE_PLAN_H
#define WV_PIPELINE_PLAN_H

#include "analysis/memory_uses.h"
#include "base/vec.h"
#include "transform/pass.h"

typedef struct StagedCopy {
  Op *copy, *alloc;
  bool async; /* else its tile waits in registers while an iteration is computed */
  bool boxes; /* asynchronous, by a copy engine: a barrier says when it has arrived */
} StagedCopy;

typedef struct StagedLoop {
  Op *loop;
  const Sym *axis, *counter, *trips;
  Vec(StagedCopy) copies;
  Op *product; /* is under way while the next iteration begins; NULL: none is */
  Op *early;   /* a product that is computed one iteration early; NULL: none is */
} StagedLoop;

typedef struct PipelinePlan {
  Vec(StagedLoop) loops;
  int slots; /* of the rings that asynchronous copies fill; below 2: nothing runs ahead */
} PipelinePlan;

PipelinePlan pipeline_plan(Kernel *k, PassCtx *cx);

static inline int staged_flights(const StagedLoop *l) { return l->product ? 1 : 0; }

/* Iterations that a copy runs ahead, and the slots of its ring. */
static inline int staged_ahead(const PipelinePlan *p, const StagedLoop *l, const StagedCopy *c) {
  return c->async ? p->slots - 1 - staged_flights(l) : 1;
}
static inline int staged_slots(const PipelinePlan *p, const StagedLoop *l, const StagedCopy *c) {
  return staged_ahead(p, l, c) + 1 + staged_flights(l);
}

#endif
