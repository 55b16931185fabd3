/* loop_pairs.h: pairs of accesses of a loop, or of what comes before it, that must be ordered. */
#ifndef WV_SCHEDULE_LOOP_PAIRS_H
#define WV_SCHEDULE_LOOP_PAIRS_H

#include "schedule/loop_order.h"
#include "schedule/proof/loop_proof.h"

typedef struct Prover {
  LoopProof *proof;
  const OrderTable *table;
  const Distribution *d;
  const bool *overlap; /* by two memories: [a * nmemories + b] */
  int nmemories;
  const Value **memory; /* MemoryUses.memories */
  Arena *arena;
} Prover;

/* For Prover.overlap: accesses are compared in pairs, so it pays to ask once. */
const bool *loop_overlaps(Arena *a, const MemoryUses *m);

void loop_report(Prover *p, LoopPair pair);

/* One of them writes, and they may touch the same bytes. */
bool loop_conflict(const Prover *p, const LoopAccess *x, const LoopAccess *y);

/* The iterations between them are `from`, plus or minus multiples of `every`. */
void loop_conflicts_of(const LoopAccess *x, const LoopAccess *y, int *from, int *every);

/* Whether accesses of the body conflict if the second is d iterations later. */
bool loop_conflict_at(const Prover *p, const LoopAccess *x, const LoopAccess *y, int d);

/* The first iteration in which y, of the body, conflicts with x, which comes before the loop. */
int loop_first_conflict(const LoopAccess *x, const LoopAccess *y);

/* Iterations, at most, of which one may have the first access and another the second. */
int64_t loop_most_of(const Prover *p, const LoopAccess *x, const LoopAccess *y);

/* In one wave only what is in flight can be out of order. An access by name touches the same
 * elements in the same threads in every iteration. */
bool loop_needs_no_order(const LoopAccess *x, int v, const LoopAccess *y, int w);

/* A copy and a read of what it fills. */
bool loop_is_filled_by(const LoopAccess *fill, const LoopAccess *read);

/* Whether the orders of the table, which hold while the loop goes on, leave two accesses that conflict
 * unordered, or a read before what it reads is filled. */
bool loop_out_of_order(const Prover *p, const LoopAccess *x, const LoopAccess *y, LoopPair *found);
/* Reports all that are, at different distances. */
void loop_check_pair(Prover *p, const LoopAccess *x, const LoopAccess *y);

#endif
