/* loop_nest.h: loops with others inside: whether what one iteration accesses is in order with the next.
 *
 * The proof of a loop is about one run of it. A loop around it begins the next run while accesses of the
 * last one may be in flight. So iterations of the outer loop are written out one after another, with all
 * iterations of the loops inside: for sizes that give these 0, 1, 2, ... iterations, until one more makes
 * no difference (loop_sizes.h). Slots, phases and masks are numbers then, and only those iterations in
 * the middle of a long run are left out. A conditional is one access each for all that it contains. */
#ifndef WV_SCHEDULE_LOOP_NEST_H
#define WV_SCHEDULE_LOOP_NEST_H

#include "schedule/proof/loop_pairs.h"

/* Whether there is a loop in the body, other than in a conditional. */
bool loop_is_nest(const Op *loop);

/* Adds findings to the proof of such a loop. */
void loop_check_nest(Prover *p, const MemoryUses *m);

#endif
