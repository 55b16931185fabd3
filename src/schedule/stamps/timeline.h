/* timeline.h: what a launch measured of its loops (stamp_plan.h), beside what was predicted. Plain
 * numbers and texts.
 *
 * A wave reaches an op when it has issued the one before it; the time until it reaches the next one is
 * what the op takes, with all that it waits for. Times are medians over iterations and waves, without
 * what a stamp itself takes. */
#ifndef WV_TIMELINE_H
#define WV_TIMELINE_H

#include "schedule/schedule_view.h"

typedef struct TimedOp {
  const char *name, *place;
  int ahead;
  int64_t reached,
      takes; /* predicted: cycles from the start of the iteration, and until the next op */
  double measured_at, measured; /* the same, measured */
} TimedOp;

typedef struct LoopTimeline {
  const char *name, *place;
  int64_t cycles;        /* of an iteration, predicted */
  double measured;       /* from one iteration to the next; 0: fewer than two were recorded */
  double plain;          /* the same without what its stamps take, if all iterations have some */
  double stamp;          /* what one takes */
  double stamps;         /* of an iteration, on average */
  int iterations, waves; /* that have stamps */
  Vec(TimedOp) ops;
} LoopTimeline;

typedef struct Timeline {
  const char *kernel, *target;
  const char *unit;        /* of what was measured: "cycles", or "instructions" without a clock */
  Vec(LoopTimeline) loops; /* that ran */
} Timeline;

/* `stamps` are the elements of the hidden output. */
Timeline timeline_of(Arena *a, const ScheduledKernel *s, const int64_t *stamps, int64_t n);

/* Instructions cannot be compared with cycles. */
bool timeline_is_comparable(const Timeline *t);

/* Measured by predicted; 0: nothing was predicted. */
static inline double timeline_ratio(double measured, int64_t predicted) {
  return predicted > 0 ? measured / (double)predicted : 0;
}

#endif
