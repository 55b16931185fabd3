/* interval.h: the shortest interval at which a loop can start iterations, and when each of its
 * events starts.
 *
 * Two events that use one unit may not overlap in any iteration. Their starts, `interval` apart, are
 * in one of two orders and some number k of iterations apart, which is a pair of edges (paths.h):
 *
 *     (a, b, cycles of a, k)  and  (b, a, cycles of b, 1 - k)
 *
 * so that choosing a k for each pair leaves a system of difference constraints. The search chooses
 * the k of the pair with the fewest possibilities first. An interval for which it finds none is
 * proved too short, and the cycles that it ran into say which interval could be long enough. */
#ifndef WV_SCHEDULE_INTERVAL_H
#define WV_SCHEDULE_INTERVAL_H

#include "schedule/interval/pressure.h"

/* `event` occupies `unit` for its first `cycles`. */
typedef struct UnitUse {
  int event, unit;
  int64_t cycles;
} UnitUse;

/* Events at which all waves meet. A wave meets others before it starts an op, or after it has, as its twin
 * does; several of them may be the same barrier, except for those that use the unit of the wave. */
typedef struct IntervalMeetings {
  const bool *at; /* by event: whether it is one */
  const int64_t
      *arrives;   /* by event: cycles from its start until waves can meet after it; 0: its use */
  int64_t cycles; /* from a meeting to what comes after it */
} IntervalMeetings;

typedef struct IntervalProblem {
  int events, nedges, nuses;
  const Edge *edges;
  const UnitUse *uses;
  HeldValues held; /* values: with as many registers as there are */
  long budget;     /* wrong choices, after which it gives up on an interval */
  long total; /* the same for all intervals together, once some interval was found; 0: any number */
  int64_t known; /* an interval that is possible: a few shorter ones are tried; 0: there is none */
  int64_t guess; /* the interval that is tried first; 0: none */
  int close; /* it suffices if the interval is at most 1/close too long; 0: it is the shortest */
  /* Events of two waves that run the same program: `twin` of the first wave's, which use `wave` to
   * start one at a time, are in the same order, as many iterations apart. NULL: there is one wave. */
  const int *twin;
  int wave;
  const IntervalMeetings *meetings; /* for interval_raise, with twins; NULL: none */
} IntervalProblem;

typedef struct Interval {
  int64_t cycles; /* PATHS_NEVER: the edges alone are contradictory */
  int64_t bound;  /* no interval is shorter: == cycles if that is proved */
  int64_t *start; /* of each event; start / cycles is its stage */
  long wrong;     /* choices */
  bool crowded;   /* registers were in the way of a shorter one (interval_place.h) */
} Interval;

/* The bound from the busiest unit and from the cycles of edges alone. */
int64_t interval_bound(Arena *scratch, const IntervalProblem *p);

Interval interval_solve(Arena *a, const IntervalProblem *p);

/* A better bound than `bound`, at most an interval that is known to be possible: to within 1/close of
 * what can be proved with `budget` wrong choices for an interval, and `total` choices in all. */
int64_t interval_raise(Arena *a, const IntervalProblem *p, int64_t bound, int64_t known);

/* The events of a cycle for which a shorter interval would be too short if events on one unit keep
 * the order that was found, in order, and their number; if they all use one unit, that is busy all
 * the time. 0: there is none, since the search ended before the shortest interval was found, or that
 * is 1. `events` has room for all. */
int interval_cycle(Arena *a, const IntervalProblem *p, const Interval *found, int *events);

#endif
