/* loop_counted.h: whether the iterations of earlier runs of a loop are those that its attribute `earlier` says, where
 * the loops around it carry their number (persist). */
#ifndef WV_SCHEDULE_LOOP_COUNTED_H
#define WV_SCHEDULE_LOOP_COUNTED_H

#include "analysis/distribute.h"

/* True without the attribute. Sums of different forms are the same if they are so for many sizes. */
bool loop_is_counted(const Distribution *d, const Op *loop);

#endif
