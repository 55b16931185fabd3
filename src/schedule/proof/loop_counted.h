/* loop_counted.h: whether the iterations of earlier runs of a loop are those that its attribute `earlier` says, where
 * the loops around it carry their number (persist). */
#ifndef WV_SCHEDULE_LOOP_COUNTED_H
#define WV_SCHEDULE_LOOP_COUNTED_H

#include "ir/ir.h"

/* True without the attribute. */
bool loop_is_counted(Kernel *k, const Op *loop);

#endif
