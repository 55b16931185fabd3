/* loop_proof.h: whether a loop orders its accesses to memory, for every number of iterations.
 *
 * Two accesses conflict if one of them writes and they may touch the same bytes. In a ring of n
 * slots, accesses to the slots of iterations i + a and j + b conflict only if j - i is a - b plus a
 * multiple of n. Each conflicting pair must be ordered one way or the other, and what a copy fills
 * must be read after it. What is done before the loop, such as filling its rings, must be ordered
 * before the iterations that touch the same bytes. Of a loop with others inside, iterations are written out
 * (loop_nest.h). wavec --proof prints what was found. */
#ifndef WV_SCHEDULE_LOOP_PROOF_H
#define WV_SCHEDULE_LOOP_PROOF_H

#include "analysis/distribute.h"
#include "schedule/loop_graph.h"
#include "target/target.h"

/* A pair of accesses that is out of order, and the iterations from the first to the second. */
typedef struct LoopPair {
  const LoopAccess *first, *second;
  int distance;
  bool other_wave;
  bool stale; /* ordered, but what is read was not filled yet */
  bool entry; /* the first comes before the loop; `distance` is the iteration of the second */
} LoopPair;

typedef struct LoopProof {
  LoopGraph graph, entry;
  int64_t most, most_in_all; /* iterations, of a run and of all runs; INT64_MAX: unknown */
  int pairs;                 /* that conflict */
  Vec(LoopPair) findings;
  Vec(const Op *) waiting; /* of a deadlock */
  const Op *unbalanced; /* an op of service waves, or a turn: its barrier has too many arrivals, or
                         * not enough; NULL: none */
} LoopProof;

LoopProof loop_prove(Arena *a, const Distribution *d, const MemoryUses *m, const Op *loop);

/* Proves all loops that rows of the kernel schedule on the machine, which may be NULL, and the loops around
 * them. False after reporting one that is not in order. */
bool loop_proof_check(const Distribution *d, const MemoryUses *m, const TargetInfo *t);

/* All loops of a kernel that access shared memory. */
void loop_proof_print(StrBuf *out, const Distribution *d, const MemoryUses *m);

#endif
