/* interval_order.h: a loop whose events keep, on each unit, the order that was found. */
#ifndef WV_SCHEDULE_INTERVAL_ORDER_H
#define WV_SCHEDULE_INTERVAL_ORDER_H

#include "schedule/interval/interval.h"

/* Replaces an interval and its starts by the shortest ones with the same order. There are no registers
 * to count, and no twins. */
void interval_tighten(Arena *a, const IntervalProblem *p, Interval *found);

/* The shortest interval from `least` on that is long enough for the edges alone; PATHS_NEVER: none is. */
int64_t interval_for_edges(Arena *a, const IntervalProblem *p, int64_t least);

#endif
