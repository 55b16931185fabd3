/* line.h: how long an iteration takes if the waves issue their ops in a given order.
 *
 * A line is a program without its waits: the order in which a wave issues the ops of an iteration, and
 * the stage of each. What `sync` and lowering add follows from it: barriers between accesses of
 * different waves to one slot, and waits for matmuls that are in flight. A few iterations of two waves
 * are then run, op by op, as soon as operands, units and the other wave allow it. That takes
 * microseconds, so that many lines can be compared before one becomes a program; what it answers is
 * an estimate, which loop_times.h then replaces. */
#ifndef WV_SCHEDULE_LINE_H
#define WV_SCHEDULE_LINE_H

#include "schedule/interval/interval.h"

enum { LINE_WAVES = 2 };

typedef struct LineOp {
  int start[LINE_WAVES]; /* its event in each wave, */
  int end[LINE_WAVES];   /* and the one with which what is in flight ends; -1: none */
  int64_t issue[LINE_WAVES];
  int64_t arrives; /* cycles until what it stores, copies or computes is there; 0: no op waits */
  bool last;       /* only in the last stage */
  bool grouped;    /* a copy that each wave waits for at the begin of an iteration */
  bool product;    /* it may be in flight after it was issued, */
  bool awaits;     /* this one waits for those of its wave, */
  bool follows;    /* nothing places it: it comes right after what it needs */
  bool passes;     /* values to other waves: it is in the stage of what needs them */
} LineOp;

/* An op fills a tile, another one reads it. */
typedef struct LineTile {
  int fill, read;
  int ring;        /* a number, from 0; -1: there is one slot, and no other */
  bool signals;    /* the read waits for its arrival: no barrier is needed */
  int64_t arrives; /* if it signals: cycles from the end of the copy */
  bool stored;     /* by stores: a slot may be filled again in the same iteration as it is read */
} LineTile;

typedef struct LineRing {
  int64_t bytes; /* of a slot */
  int most;      /* slots */
} LineRing;

/* Op `to` needs what op `from` did `distance` iterations before. */
typedef struct LineNeed {
  int from, to, distance;
  int64_t delay; /* cycles until it is there */
  bool held;     /* in registers, */
  bool brief;    /* for one stage at most: a tile on its way to shared memory */
} LineNeed;

typedef struct LineProblem {
  const IntervalProblem *p; /* events of both waves, edges and units */
  int nedges;               /* of these, the first ones order events; the others are limits */
  const LineOp *ops;        /* in the order of the program that is known */
  const LineNeed *needs;
  int nneeds;
  const LineTile *tiles;
  const LineRing *rings;
  int nops, ntiles, nrings;
  int64_t bytes;   /* of all slots, at most */
  int64_t barrier; /* cycles, */
  int64_t test;    /* and of a wait for tiles that signal, once they are there */
  int waves;       /* 1 or 2 */
  int depth;       /* stages, at most */
  int copies;      /* iterations whose values may be in registers at the same time */
  bool boxes;      /* some tiles signal their arrival, */
  bool groups;     /* some copies are grouped */
  bool served;     /* other waves make the copies: these meet at no barrier */
  bool stays;      /* the only product remains in flight when the next iteration begins */
} LineProblem;

typedef struct Line {
  int *order;     /* ops, as they are issued */
  int *place;     /* the same by op: its number in the order */
  int *lead;      /* by op: stages from it to the last one */
  int *slots;     /* by ring */
  bool *met;      /* by number in the order: a barrier comes before it */
  int *wait;      /* by tile that signals its arrival: before which number waves wait for it, */
  int *whose;     /* and of how many iterations later it is */
  int slack;      /* copies that are grouped are awaited so many iterations later, */
  int closed;     /* and those after this number in the order one more */
  int64_t cycles; /* PATHS_NEVER: it waits for itself, or is not allowed */
  int64_t registers;
  int64_t *start; /* by event */
  int64_t *stall; /* by op: cycles for which the first wave waits before it, */
  int *blocker;   /* and the op whose result it waits for; -1: a unit, a barrier or nothing */
} Line;

typedef struct LineRun LineRun;

LineRun *line_run_new(Arena *a, const LineProblem *p);
const LineProblem *line_problem(const LineRun *r);
Line line_new(Arena *a, const LineProblem *p);
void line_copy(const LineProblem *p, Line *to, const Line *from);

/* Whether every op comes after what it needs, in the stages that there may be; moves ops that nothing
 * places, and finds slots and barriers. */
bool line_arrange(const LineProblem *p, Line *line);

/* Finds cycles, starts and registers of a line that is arranged; PATHS_NEVER also if it takes more than
 * `most` cycles. */
void line_time(LineRun *r, Line *line, int64_t most);
/* The same, sooner: an estimate, if the times of a similar line are known. */
void line_time_from(LineRun *r, Line *line, const Line *from, int64_t most);

/* Adds stages to what is needed (or, if `later`, takes them from what needs it) until every op comes after
 * what it needs; false: there are too many or too few. */
bool line_repair(const LineProblem *p, Line *line, bool later);

/* Whether a line is better than another one, or as good; whether it is good enough. */
bool line_is_better(const LineProblem *p, const Line *a, const Line *b);
bool line_is_good(const LineProblem *p, const Line *line, int64_t goal);

/* Replaces a line that is timed by a better one in which two iterations overlap; returns how many were
 * timed. */
int line_begin(Arena *a, LineRun *r, Line *line, int64_t goal);

/* Improves a line until it takes no more than `goal`: as many others are timed as `steps` says. The same
 * steps are taken each time. */
void line_improve(Arena *a, LineRun *r, Line *line, int64_t goal, int steps);

#endif
