/* loop_unrolled.h: pairs of accesses whose order depends on where a loop begins or ends.
 *
 * What comes before the loop is ordered with its first iterations. And in the last iterations a wait
 * for a later one is for the last one, so orders that hold while the loop goes on need not hold there:
 * loops of one, two, ... iterations are looked at whole, until one more makes no difference. */
#ifndef WV_SCHEDULE_LOOP_UNROLLED_H
#define WV_SCHEDULE_LOOP_UNROLLED_H

#include "schedule/proof/loop_pairs.h"

/* Adds findings to the proof. */
void loop_check_unrolled(Prover *p);

#endif
