/* stamp_plan.h: where a timeline is measured, and where each time is stored.
 *
 * Every loop with a prediction (loop_times.h) has stamps before the ops of its first wave that are
 * events, and two at the end of its body, which show what a stamp itself takes. A stamp is stored in
 *
 *     element first + (iteration * stamps + number) * waves + wave
 *
 * Stamps delay each other. So the others take turns, an iteration has only the first one and those of
 * its turn, and what is measured is the time since the first.
 *
 * The pass `stamps` inserts them; whoever reads the times makes the same plan again. */
#ifndef WV_STAMP_PLAN_H
#define WV_STAMP_PLAN_H

#include "schedule/loop_times.h"

enum {
  STAMP_TRIPS = 96, /* iterations that are measured */
  STAMP_WAVES = 16, /* waves that are */
  STAMP_SAMPLES = 3 /* iterations that a stamp should have, if the loop has so many */
};

typedef struct StampedLoop {
  Op *loop;
  LoopTimes times;
  Vec(int) events; /* that have a stamp, in order */
  int first, trips, stamps, waves;
  int turns; /* iterations until the same stamps are taken again */
} StampedLoop;

typedef Vec(StampedLoop) StampPlan;

/* The turn of a stamp but the first. The last two have the same. */
static inline int stamp_turn(const StampedLoop *l, int stamp) {
  return (stamp < l->stamps - 1 ? stamp - 1 : stamp - 2) % l->turns;
}

/* Of a kernel after `prio`; loops that do not fit in the log are left out. */
StampPlan stamp_plan(Arena *a, const Distribution *d, const Machine *m, const MemoryUses *uses);

/* The element of the first stamp of an iteration, in the first wave. */
const Sym *stamp_element(SymCtx *cx, const StampedLoop *l, const Sym *iteration);

#endif
