/* view_loads.h: how much of the shared memory and of the registers is used at each time. */
#ifndef WV_SCHEDULE_VIEW_LOADS_H
#define WV_SCHEDULE_VIEW_LOADS_H

#include "schedule/loop_times.h"
#include "schedule/schedule_view.h"

/* Of the tiles of all rings: from the start of a copy until the last read has ended. */
void view_shared(Arena *a, LoopView *view, int64_t most);

/* Of the values that are tiles, in a lane of the first wave: from the op that computes one until it is
 * last used. What a sum is added to and the new sum are in the same registers. */
void view_registers(Arena *a, const LoopTimes *t, LoopView *view, int64_t most);

#endif
