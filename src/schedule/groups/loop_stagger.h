/* loop_stagger.h: barriers that a program lets only some waves of a workgroup pass.
 *
 *     if (floor($T0/64) >= 4) { workgroup_barrier }
 *     for K { ... workgroup_barrier ... shared_barrier ... }
 *     if (floor($T0/64) < 4) { workgroup_barrier }
 *
 * From the first conditional to the second, its waves run one barrier after all others, as if both were
 * `turn open` and `turn close` (loop_lag.h). Any division of the waves will do, if the second condition
 * is the opposite of the first. Between the two there may be loops whose barriers all waves pass. */
#ifndef WV_SCHEDULE_LOOP_STAGGER_H
#define WV_SCHEDULE_LOOP_STAGGER_H

#include "analysis/distribute.h"

/* A barrier of all waves, and whether it also waits for their accesses to shared memory. */
bool stagger_joins(const Op *op);
bool stagger_waits(const Op *op);

/* Waves wait for others there, or in a region of the op. */
bool stagger_meets(const Op *op);

/* A wait for all accesses of a wave to shared memory, without a barrier. */
bool stagger_drains(const Op *op);

/* A conditional of some waves that contains a barrier and nothing else. */
bool stagger_is_partial(const Distribution *d, const Op *op);

/* The conditional since which waves are a barrier apart when they reach the loop; NULL: they are not. */
const Op *stagger_opening(const Distribution *d, const Op *loop);

/* A barrier that not all waves reach equally often, as far as this can be told; NULL: none. */
const Op *stagger_fault(const Distribution *d);

#endif
