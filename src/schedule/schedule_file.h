/* schedule_file.h: the schedule of every loop of a kernel, as the rows that would pin it.
 *
 *     Initiation Interval: 3
 *     Number of Stages: 3
 *     schedule K on sm_80 interval 3 depth 3 drain masked hash x61c3ab63bd6a1e2d
 *     ring K x slots 3 on sm_80
 *     at K 2.0 x.fetch y.fetch on sm_80
 *     at K 0.1 x.copy y.copy on sm_80
 *     at K 2.2 n.mma on sm_80
 *     # predicted: 276 cycles per iteration
 *     # busy: matrix 93 %, shared 62 %, copy 70 %
 *     # limited by x.fetch, n.mma
 *
 * It is read from the kernel itself, whether rows or the compiler decided: the iteration that an op
 * of the loop acts for is its stage, and its turn among the others is its cycle; ops of one kind that
 * follow each other share a cycle. Only ops with a name in the kernel as it was written are listed. */
#ifndef WV_SCHEDULE_FILE_H
#define WV_SCHEDULE_FILE_H

#include "ir/schedule/schedule.h"
#include "schedule/loop_times.h"
#include "schedule/schedule_view.h"

struct ScheduledKernel {
  const Kernel *written; /* as its author wrote it */
  Kernel *k;             /* after `sync`; on machines without lanes, before it is lowered */
  const TargetInfo *target;
  /* For predictions; NULL: there are none. */
  const Distribution *d;
  const Machine *machine;
  const MemoryUses *uses;
};

void schedule_print(StrBuf *out, const ScheduledKernel *s);

#endif
