/* loop_lag.h: loops in which the second half of the waves runs one barrier after the first
 * (ir/schedule/turn_ops.h).
 *
 * In a graph of such a loop, the first of the two waves that compute belongs to the first half, and the
 * other one to the second. Barrier j of the first is barrier j - 1 of the other, for j = 0 the last one
 * of the iteration before. So what the first half does between two barriers comes before what the other
 * does between the same two, and what the second half does comes before what the first does two barriers
 * later. Accesses must be in the order of the program, whichever half makes them: a pair that is in order
 * between the halves has a barrier between the waves of one half, too.
 *
 * A barrier that does not wait for shared memory leaves accesses in flight, until the next one, or the
 * next wait, that does. */
#ifndef WV_SCHEDULE_LOOP_LAG_H
#define WV_SCHEDULE_LOOP_LAG_H

#include "schedule/loop_graph.h"

bool loop_is_lagged(const Distribution *d, const Op *loop);

/* Adds what the barriers of a lagged loop order to its graph. */
void loop_lag_add(Arena *a, LoopGraph *g);

/* The barrier before the loop that only the second half passes; NULL: there is none. */
const LoopTurn *loop_lag_opening(const Distribution *d, const LoopGraph *entry);

/* Whether waves wait for their accesses to shared memory there. */
bool loop_lag_waits(const LoopTurn *x);

/* A barrier of a loop that begins no turn, ends none, or that not all waves reach equally often; NULL:
 * none. */
const Op *loop_lag_unbalanced(const LoopGraph *g);

/* A barrier before a loop without the one after it, or the other way round; NULL: none. */
const Op *loop_lag_half_open(const Kernel *k);

#endif
