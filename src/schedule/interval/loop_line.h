/* loop_line.h: a short interval of a loop whose ops may be in any stage and in any order (loop_free.h),
 * found by comparing programs instead of placing events: barriers and waits count (line.h). */
#ifndef WV_SCHEDULE_LOOP_LINE_H
#define WV_SCHEDULE_LOOP_LINE_H

#include "schedule/interval/loop_free.h"

/* Begins with the program of `t`, and ends when an iteration takes `goal` cycles. The cycles are estimated, and there is no bound: it is 0. PATHS_NEVER:
 * rows place something, so that there is less to choose than this search needs. */
FreeTimes loop_line(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits,
                    int64_t goal);

#endif
