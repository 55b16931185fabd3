/* free_graph.h: what every schedule of a loop has to obey, as a problem of interval.h: see loop_free.h. */
#ifndef WV_SCHEDULE_FREE_GRAPH_H
#define WV_SCHEDULE_FREE_GRAPH_H

#include "ir/schedule/schedule.h"
#include "schedule/interval/loop_free.h"

/* A tile in shared memory, and the edge from a read of it to what fills it again. */
typedef struct Refill {
  const Op *alloc;
  int slots; /* at most */
  int edge;
} Refill;

typedef struct Free {
  Arena *arena;
  Kernel *k;
  const LoopTimes *t;
  const FreeLimits *limits;
  int waves;        /* whose events are looked at: one or both */
  int *event;       /* by event of the graph: its number here; -1: it is forgotten */
  int *of;          /* the graph's event, by number */
  int *twin;        /* by number: the same of the other wave */
  int *ahead;       /* by event of the graph: iterations for which its op acts early */
  int n;            /* events, with three more: */
  int origin;       /* the begin of the last stage */
  int barrier;      /* one that every iteration needs; -1: none */
  int second;       /* another one, */
  bool meets_twice; /* if it is needed */
  bool fixed;       /* stages are relative to `origin`: something must be in one */
  Vec(Edge) edges;
  int flow;    /* of these, the first ones: values, and what is in flight */
  int forward; /* and tiles that are read; the others limit how early something is */
  Vec(UnitUse) uses;
  Vec(Refill) tiles;
  Vec(HeldValue) values;
} Free;

/* Of a loop whose times are known, for one wave or both. */
Free free_graph(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits, int waves);

IntervalProblem free_problem(const Free *f);

static inline const LoopEvent *free_event(const Free *f, int i) {
  return &f->t->graph.events.at[f->of[i]];
}
static inline const LoopCost *free_cost(const Free *f, int i) { return &f->t->cost[f->of[i]]; }

/* An op that a wave starts, the first one if is_first; what is in flight ends in another event. */
static inline bool free_is_start(const Free *f, int i) {
  return i < f->origin && free_event(f, i)->kind == LOOP_STARTS;
}
static inline bool free_is_first(const Free *f, int i) {
  return free_is_start(f, i) && free_event(f, i)->wave == 0;
}

/* Whether an op has to be in the last stage, for any reason but a row. */
bool free_is_last(const Free *f, int i);

/* Whether a row gives the place of an op. */
bool free_is_placed(const Free *f, int i);

/* Whether values go through shared memory on their way from wave to wave by this op: it stays with what
 * needs them, and no row places it. */
bool free_is_passing(const Op *loop, const Op *op);

/* The cycles that a barrier takes. */
int64_t free_barrier_cycles(const Free *f);
/* The same of a wait for tiles that signal their arrival; 0: there is none. */
int64_t free_test_cycles(const Free *f);

/* The bytes of a slot of a tile in shared memory. */
int64_t free_slot_bytes(const Op *alloc);

/* The tile that a copy fills, which may have several slots; NULL: another op does. */
const Op *free_ring(const Free *f, const LoopAccess *fill, int wave);

#endif
