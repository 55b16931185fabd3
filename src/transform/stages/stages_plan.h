/* stages_plan.h: which copies of a loop are prefetched, and which of its ops are computed early.
 *
 * A copy may be prefetched if every iteration reads what it copied itself, nothing in the loop
 * stores to its source, and its source address follows from the loop's counter, or from tables that
 * can be read early: they are then read one iteration before the copy is issued. A ring has a slot
 * for the iteration being computed, one for each iteration that is prefetched, and one more if a
 * product may still be reading the slot of the previous iteration. A tile that waits in registers can
 * do without a slot of its own, for one more barrier.
 *
 * Rows of a schedule pin some of this for a loop or an operand (stages_rows.h). A `stages` row says
 * how many slots the others have; without it the compiler chooses. */
#ifndef WV_STAGES_PLAN_H
#define WV_STAGES_PLAN_H

#include "analysis/memory_uses.h"
#include "analysis/runs.h"
#include "base/vec.h"
#include "ir/schedule/schedule.h"
#include "transform/pass.h"

enum { STAGED_FREE = -1 }; /* not pinned */

typedef struct StagedCopy {
  Op *copy, *alloc;
  bool async; /* otherwise its tile waits in registers while an iteration is computed */
  bool boxes; /* asynchronous, by a copy engine: a barrier signals its arrival */
  int ahead;  /* iterations from what arrives in shared memory to what is read there */
  int kept;   /* iterations for which its tile waits in registers before it is stored, at most 1; if
              * both are 0, it is not prefetched */
  int slots;  /* of its ring */
  int lead, least_lead; /* of its reads: the most and the least */
  Op *issue, *store; /* it is issued before the one, and stored to shared memory before the other */
  bool late;         /* it belongs to the group that the next iteration closes */
  Value *first, *loaded, *stored; /* in registers: before the loop if it is kept, in an iteration */
  Value **coords;                 /* what its coordinates are computed from, in an iteration */
  const char *role; /* of the waves that make the copy (stages_roles.h); NULL: those that compute */
  int tokens;       /* its barriers: in StagedLoop.tokens */
  /* Pins, or STAGED_FREE. The store is that of a copy through registers. */
  int pinned_ahead, pinned_slots, load_stage, store_stage, cycle, store_cycle;
  int64_t registers; /* of a thread, for a tile that waits in them; 0: not known yet */
} StagedCopy;

/* An op that a row places. */
typedef struct StagedPin {
  Op *op;
  OpClass class; /* by which it was named */
  const char *name;
  Place to;
  const Constraint *row;
} StagedPin;

/* An op that the `order` row lists; its number is its rank. */
typedef struct StagedListed {
  Op *op;
  OpClass class; /* by which it was named */
  const char *name;
} StagedListed;

/* The barriers of copies with a role. */
typedef struct StagedTokens {
  Value *full, *empty; /* rings of them */
  const Op *reader;    /* the first op that reads what the copies bring */
  int slots, lead, least_lead, copies;
} StagedTokens;

typedef struct StagedLoop {
  Op *loop;
  const Sym *axis, *counter;
  const Sym *trips; /* the counter stays below it, and grows by `step` */
  const Sym *count; /* iterations */
  int64_t step;
  Vec(StagedCopy) copies;
  Op *product; /* is in flight while the next iteration begins; NULL: none */
  Op *early;   /* a product that is computed one iteration early; NULL: none */
  Op *late;    /* the product that alone is not, besides its sum; NULL: only `early` is */
  Op *may_fly, *may_be_early; /* what `product` and `early` are if there are enough slots */
  bool only_served;   /* `early` is NULL without service waves: registers hold one result of it */
  int *leads, nleads; /* by op id: how many iterations early an op of the body is computed */
  int lead;           /* the most of them, but for those of `tables` */
  Vec(Op *) tables;   /* ops that only compute coordinates of copies */
  int table_lead;     /* the most of their leads */
  /* What rows say: */
  const Constraint *row; /* the `schedule` row; NULL: none */
  int depth;             /* stages; 0: not pinned */
  Vec(StagedPin) pins;
  Vec(StagedPin) rings;    /* copies with a `ring` row; to.stage is the number of slots */
  const Constraint *order; /* the `order` row; NULL: none */
  Vec(StagedListed) listed;
  const Constraint *roles; /* the `roles` row, if copies have a role; NULL: none */
  const Role *copying;     /* that role */
  bool chosen;             /* no row requested it */
  Runs runs;               /* through which the slots of these copies are counted */
  Vec(StagedTokens) tokens;
} StagedLoop;

typedef struct StagesPlan {
  Vec(StagedLoop) loops; /* in which something is prefetched or computed early */
} StagesPlan;

/* False after reporting rows that cannot be obeyed. */
bool stages_plan(Kernel *k, PassCtx *cx, StagesPlan *out);

/* Whether the op is one of the loop's copies that may be prefetched. */
bool staged_copies(const StagedLoop *l, const Op *op);
/* Whether the op reads what the copy brings to shared memory: it fetches it, or takes it from there. */
bool staged_reads(const StagedCopy *c, const Op *op);
/* Both are parts of what fills one tile. */
bool staged_are_parts(const Op *a, const Op *b);
static inline int staged_lead(const StagedLoop *l, const Op *op) {
  return op->id < l->nleads ? l->leads[op->id] : 0;
}
/* How many iterations pass from what a copy delivers to the first read of it. */
static inline int staged_slack(const StagedCopy *c) { return c->ahead - c->lead; }
static inline int staged_flights(const StagedLoop *l) { return l->product ? 1 : 0; }

#endif
