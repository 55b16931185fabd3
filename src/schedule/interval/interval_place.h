/* interval_place.h: a short interval, found quickly, without proof.
 *
 * At an interval, events are placed one after the other: the one that can move least next, as early or
 * as late as the others leave its units free. The longest paths (paths.h) know at each step where an
 * event may still start. If an event finds no place, everything is placed again, beginning with it;
 * if that does not help, in another order, and then at a longer interval. */
#ifndef WV_SCHEDULE_INTERVAL_PLACE_H
#define WV_SCHEDULE_INTERVAL_PLACE_H

#include "schedule/interval/interval.h"

/* The bound is that of interval_bound. Twins are not considered. */
Interval interval_place(Arena *a, const IntervalProblem *p);

#endif
