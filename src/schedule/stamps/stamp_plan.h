/* stamp_plan.h: where a timeline is measured, and where each time is stored.
 *
 * Every loop with a prediction (loop_times.h) has stamps before the ops of its first wave that are
 * events, and two at the end of its body, which show what a stamp itself takes. A stamp is stored in
 *
 *     element first + (sample * stamps + number) * waves + wave
 *
 * Stamps delay what follows. So a sample is one of several iterations, if the loop has enough of them,
 * and has only the first stamp and those whose turn it is; what is measured is the time since the
 * first.
 *
 * The pass `stamps` inserts them; the reader of the times makes the same plan again. */
#ifndef WV_STAMP_PLAN_H
#define WV_STAMP_PLAN_H

#include "schedule/loop_times.h"

enum {
  STAMP_TRIPS = 96,  /* samples */
  STAMP_WAVES = 16,  /* waves that are measured */
  STAMP_SAMPLES = 3, /* that a stamp should have, if the loop has that many iterations */
  STAMP_APART = 4    /* iterations from a sample to the next, at most */
};

typedef struct StampedLoop {
  Op *loop;
  LoopTimes times;
  Vec(int) events;                 /* that have a stamp, in order */
  int first, trips, stamps, waves; /* trips: samples */
  int turns;                       /* samples until the same stamps are taken again */
  int apart;                       /* iterations from a sample to the next */
} StampedLoop;

typedef Vec(StampedLoop) StampPlan;

/* The turn of a stamp but the first. The last two have the same. */
static inline int stamp_turn(const StampedLoop *l, int stamp) {
  return (stamp < l->stamps - 1 ? stamp - 1 : stamp - 2) % l->turns;
}

/* Of a kernel after `prio`; loops that do not fit in the log are left out. */
StampPlan stamp_plan(Arena *a, const Distribution *d, const Machine *m, const MemoryUses *uses);

/* The element of the first stamp of a sample, in the first wave. */
const Sym *stamp_element(SymCtx *cx, const StampedLoop *l, const Sym *sample);

#endif
