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
#include "target/target.h"

typedef struct SplitLoop {
  Op *loop;
  const Constraint *tile; /* the row of its axis */
  const Sym *trips;
  int axis; /* of the grid: no row uses it */
} SplitLoop;

/* NULL, and the loop; or why the kernel is left alone: completes "is not divided: ...". */
const char *split_obstacle(const Distribution *d, const Uniformity *u, Arena *scratch,
                           SplitLoop *out);
/* The same before tiles are known, which decide what threads hold. */
const char *split_obstacle_early(const Distribution *d, SplitLoop *out);

/* Whether it is a tile whose partial sums can be kept in memory with all of their bits. */
bool split_has_sum_type(const Value *v);

/* Cycles that the last workgroup of a tile needs to write and add up partial sums of that many bytes each; 0:
 * nothing is known about the machine. */
double split_cycles(const TargetInfo *t, int64_t parts, double bytes);

#endif
