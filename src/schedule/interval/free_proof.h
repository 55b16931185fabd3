/* free_proof.h: what else is known where an interval is proved to be too short. It makes the problem larger, so
 * that it is left out elsewhere.
 *
 *     meetings   every tile that waves share has a barrier between its fill and its reads, and if it has few
 *                slots one between its reads and the next fill. Several of them may be one barrier. A barrier
 *                waits until what was stored before it has arrived (loop_times.c)
 *     lateness   if a store, with what it needs, can be a whole iteration later, it is: units are as free
 *                then, registers and slots are occupied for a shorter time, and nothing else has to change.
 *                So there is a schedule in which none can be, at the same interval */
#ifndef WV_SCHEDULE_FREE_PROOF_H
#define WV_SCHEDULE_FREE_PROOF_H

#include "schedule/interval/free_graph.h"

/* Adds it to a graph of both waves. */
void free_prove(Free *f);

#endif
