/* split_sums.h: may the iterations of a loop be divided over workgroups?
 *
 *     %r = for K carry %x = %init {       %r = %init + (sum of the iterations of part 0)
 *       %y = mma %a, %b, %x                          + (sum of the iterations of part 1) + ...
 *       yield %y
 *     }
 *
 * Each carried value must be a sum to which an iteration adds something that depends on no carried
 * value; nothing else that iterations do may be observable. What comes before the loop is then done
 * by every part, and what follows it once. */
#ifndef WV_SPLIT_SUMS_H
#define WV_SPLIT_SUMS_H

#include "analysis/uniform.h"

typedef struct SplitLoop {
  Op *loop;
  const Constraint *tile; /* the row of its axis */
  const Sym *trips;
  int axis; /* of the grid: no row uses it */
} SplitLoop;

/* NULL, and the loop; or why the kernel is left alone: completes "is not divided: ...". */
const char *split_obstacle(const Distribution *d, const Uniformity *u, Arena *scratch,
                           SplitLoop *out);

#endif
