/* stamp_plan.h: where a timeline is measured, and where each time is stored.
 *
 * Every loop with a prediction (loop_times.h) has stamps before the ops of its first wave that are
 * events, and two at the end of its body, which show what a stamp itself takes. A stamp is stored in
 *
 *     element first + (iteration * stamps + number) * waves + wave
 *
 * The pass `stamps` inserts them; whoever reads the times makes the same plan again. */
#ifndef WV_STAMP_PLAN_H
#define WV_STAMP_PLAN_H

#include "schedule/loop_times.h"

enum {
  STAMP_TRIPS = 24, /* iterations that are measured */
  STAMP_WAVES = 16  /* waves that are */
};

typedef struct StampedLoop {
  Op *loop;
  LoopTimes times;
  Vec(int) events; /* that have a stamp, in order */
  int first, trips, stamps, waves;
} StampedLoop;

typedef Vec(StampedLoop) StampPlan;

/* Of a kernel after `prio`; loops that do not fit in the log are left out. */
StampPlan stamp_plan(Arena *a, const Distribution *d, const Machine *m, const MemoryUses *uses);

/* The element of the first stamp of an iteration, in the first wave. */
const Sym *stamp_element(SymCtx *cx, const StampedLoop *l, const Sym *iteration);

#endif
