/* loop_counts.h: how many iterations a loop has, as far as is known when compiling. */
#ifndef WV_SCHEDULE_LOOP_COUNTS_H
#define WV_SCHEDULE_LOOP_COUNTS_H

#include "analysis/distribute.h"

/* At most; INT64_MAX: unknown. The second: of all runs of a loop that is inside others. */
int64_t loop_most(const Distribution *d, const Op *loop);
int64_t loop_most_in_all(const Distribution *d, const Op *loop);

#endif
