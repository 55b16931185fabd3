/* loop_times.h: how long an iteration of a loop takes, and what limits it.
 *
 * The events and orders are those of loop_graph.h, of a kernel after `sync`, with times (loop_cost.h):
 * an op starts when the wave has issued the ones before it, a wait ends when what it waits for has
 * ended, a value can be used some cycles after the op that computes it started. Ops of both waves
 * compete for units. The shortest interval at which iterations can follow each other is the solution
 * (interval.h): what the machine would do at its best. A workgroup is alone on its compute unit. */
#ifndef WV_SCHEDULE_LOOP_TIMES_H
#define WV_SCHEDULE_LOOP_TIMES_H

#include "schedule/interval/interval.h"
#include "schedule/loop_cost.h"

typedef struct LoopTimes {
  const char *why_not;     /* nothing is predicted; NULL: something is */
  int64_t cycles, bound;   /* of an iteration; no schedule takes less than the bound */
  double busy[UNIT_COUNT]; /* the share of an interval for which each unit is occupied */
  int limit;               /* the Unit that is always busy; -1: a cycle of ops limits it */
  Vec(const Op *) cycle;   /* these, in order */
  Vec(const Op *) ops;     /* of the first wave that take time, in the order in which they start */
  Vec(int64_t) start;      /* of each */
  /* All that was computed, for pictures and for loop_free.h. */
  LoopGraph graph;
  const int64_t *at;    /* the start of each event */
  const LoopCost *cost; /* of each event's op, with the ops that run on after it */
  Vec(Edge) edges;
  Vec(UnitUse) uses;     /* units of the second wave's own SIMD: UNIT_COUNT + unit */
  Vec(int) critical;     /* events of `cycle` */
  Vec(HeldValue) values; /* in registers of the first wave, from start to start */
  const Op **head;       /* by op id: the op of whose event it is a part; NULL: it takes no time */
} LoopTimes;

/* guess: the cycles that it may take, which are then found sooner; 0: none. */
LoopTimes loop_times(Arena *a, const Distribution *d, const Machine *m, const MemoryUses *uses,
                     const Op *loop, int64_t guess);

/* The event at which a wave issues the first product of an iteration; -1: it does not. */
int loop_product(const LoopGraph *g, int wave);

/* What loop_free.h needs for bounds, without times: each op that takes time is an event of its own, since
 * another schedule may divide what a wave computes without waiting. */
LoopTimes loop_times_apart(Arena *a, const Distribution *d, const Machine *m,
                           const MemoryUses *uses, const Op *loop);

#endif
