/* loop_line.h: a short interval of a loop whose ops may be in any stage and in any order (loop_free.h),
 * found by comparing programs instead of placing events: barriers and waits count (line.h). */
#ifndef WV_SCHEDULE_LOOP_LINE_H
#define WV_SCHEDULE_LOOP_LINE_H

#include "schedule/interval/loop_free.h"

/* Starts from the program of `t` and stops once an iteration takes `goal` cycles. Its cycles are an
 * estimate, and its bound is 0: there is none. PATHS_NEVER: rows place some of the ops, which leaves
 * this search too little to choose. `from` is what was found with other limits, where it continues; NULL:
 * nothing was. */
FreeTimes loop_line(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits, int64_t goal,
                    const FreeTimes *from);

#endif
