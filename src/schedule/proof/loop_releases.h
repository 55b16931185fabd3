/* loop_releases.h: the arrivals of computing waves, each of which releases a slot, and the service waves
 * that wait for them. */
#ifndef WV_SCHEDULE_LOOP_RELEASES_H
#define WV_SCHEDULE_LOOP_RELEASES_H

#include "schedule/proof/loop_pairs.h"

/* An op whose barrier has too many arrivals or not enough, or is used before roles part; NULL: there is
 * none. */
const Op *loop_unreleased(const Distribution *d, const LoopGraph *g, const LoopGraph *entry);

/* A wait of service waves for a slot that may be released again before; NULL: there is none. They would
 * miss that phase, so the release of an iteration follows their wait for the slot of that iteration. */
const Op *loop_released_early(const Prover *p);

/* Whether the arrival releases what the service waves wait for. In iteration i it releases the slot for
 * which they wait in iteration i - n. */
bool loop_release_after(const Distribution *d, const Op *loop, const Op *wait, const Op *arrive,
                        int *n);

#endif
