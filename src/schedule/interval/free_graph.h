/* free_graph.h: what every schedule of a loop has to obey, as a problem of interval.h: see loop_free.h. */
#ifndef WV_SCHEDULE_FREE_GRAPH_H
#define WV_SCHEDULE_FREE_GRAPH_H

#include "ir/schedule/schedule.h"
#include "schedule/interval/loop_free.h"

/* With more slots, there are too many iterations for a barrier after the reads. */
enum { FREE_FEW_SLOTS = 2 };

/* A tile in shared memory, and the edge from a read of it to what fills it again. */
typedef struct Refill {
  const Op *alloc;
  int slots; /* at most */
  int edge;
} Refill;

/* A tile that is filled and read by waves of which some wait for others at barriers. */
typedef struct SharedTile {
  const LoopAccess *fill, *read;
  const Op *ring; /* NULL: it always has as many slots */
  int slots;      /* at most; 0: unknown */
  bool signals;   /* that it was filled: for that no barrier is needed */
  bool next;      /* what is filled is read in the next iteration */
} SharedTile;

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
  int n;            /* events, with a few more: */
  int origin;       /* the begin of the last stage */
  int barrier;      /* one that every iteration needs; -1: none */
  int second;       /* another one, */
  bool meets_twice; /* if it is needed */
  int test;         /* the wait for tiles that signal, for bounds; -1: none */
  bool fixed;       /* stages are relative to `origin`: something must be in one */
  Vec(Edge) edges;
  int flow;    /* of these, the first ones: values, and what is in flight */
  int forward; /* and tiles that are read; the others limit how early something is */
  Vec(UnitUse) uses;
  const IntervalMeetings
      *meetings; /* for proofs (free_proof.h); NULL: barriers are not looked at */
  Vec(Refill) tiles;
  Vec(HeldValue) values;
} Free;

/* Of a loop whose times are known, for one wave or both. */
Free free_graph(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits, int waves);

IntervalProblem free_problem(const Free *f);

/* Nothing if one of the events is not looked at: -1. */
void free_add_edge(Free *f, int from, int to, int64_t delay, int distance);

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

/* By number, from 0 to the square of all accesses: whether two accesses of the loop fill and read a tile. */
bool free_shared(const Free *f, int pair, SharedTile *out);
int free_pairs(const Free *f);
/* The tile with the fewest slots; false: there is none. */
bool free_least_shared(const Free *f, SharedTile *out);

/* All waves meet at event `emptied` after they have read a slot and before one of them fills it again, and at
 * `filled` before they read what was filled; -1: no event stands for that. */
void free_add_meetings(Free *f, const SharedTile *x, int emptied, int filled);

/* The cycles by which the second wave is later at an event, because both need a unit; 0: it need not be. */
int64_t free_lag(const Free *f, int i);

/* The cycles that a barrier takes. */
int64_t free_barrier_cycles(const Free *f);
/* The same of a wait for tiles that signal their arrival; 0: there is none. */
int64_t free_test_cycles(const Free *f);

/* The bytes of a slot of a tile in shared memory. */
int64_t free_slot_bytes(const Op *alloc);

/* The tile that a copy fills, which may have several slots; NULL: another op does. */
const Op *free_ring(const Free *f, const LoopAccess *fill, int wave);

#endif
