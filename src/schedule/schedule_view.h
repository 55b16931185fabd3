/* schedule_view.h: what pictures of a schedule show: plain numbers and texts, without IR.
 *
 * Times are cycles from the first op of an iteration of the loop as it runs, in its steady state.
 * There, an op acts for the iteration that is `ahead` later: the copy of tile i + 3, while tile i is
 * multiplied. An iteration takes `cycles`, so that what starts at `start` starts again `cycles`
 * later; it may end in a later iteration. */
#ifndef WV_SCHEDULE_VIEW_H
#define WV_SCHEDULE_VIEW_H

#include "base/vec.h"

/* One row of the picture: what a wave issues, or a unit executes. */
typedef struct ViewLane {
  const char *name; /* "wave 0", "matrix", "copy" */
  const char *doc;
  int wave;    /* that it belongs to; -1: all */
  double busy; /* the share of an iteration; of a wave: in which it issues */
  bool limits; /* it is always busy: nothing else limits the loop */
} ViewLane;

typedef enum ViewKind {
  VIEW_ISSUES,  /* a wave issues an op */
  VIEW_RUNS,    /* a unit executes it */
  VIEW_BARRIER, /* all waves meet */
  VIEW_WAITS,   /* a wave cannot continue */
  VIEW_TURN     /* it is a wave's turn */
} ViewKind;

typedef struct ViewBox {
  ViewKind kind;
  int lane, event;
  const char *name, *place; /* "x.copy"; "gemm.wave:12", or "" */
  const char *why;          /* of a wait: "x.copy of iteration i"; otherwise NULL */
  int ahead;
  int64_t start, cycles;
  int64_t ends; /* when its result is there */
  bool critical;
} ViewBox;

/* What box `to` follows: the end of `from` in the iteration that is `distance` earlier. */
typedef struct ViewLink {
  int from, to; /* boxes */
  int64_t leaves, arrives;
  bool critical; /* on the cycle that limits the loop */
} ViewLink;

/* Tiles of a memory: that of iteration 0 is filled, complete and free again at these times, that of
 * iteration j `j * cycles` later, in slot j mod `slots`. */
typedef struct ViewRing {
  const char *name; /* "x" */
  int slots, ahead;
  int64_t bytes; /* of a slot */
  int64_t fill, ready, free;
} ViewRing;

/* An amount from `at` until the next step, or the end of the iteration. */
typedef struct ViewStep {
  int64_t at, amount;
} ViewStep;

typedef struct ViewCurve {
  Vec(ViewStep) steps; /* the first is at 0 */
  int64_t peak, most;  /* that there can be; 0: unknown */
} ViewCurve;

typedef struct LoopView {
  const char *name, *place;
  const char *why_not; /* nothing is predicted, and the rest is empty; NULL: something is */
  const char *limit;   /* "the port of shared memory", "x.load, x.store" */
  int stages;
  int64_t cycles, bound;
  Vec(ViewLane) lanes;
  Vec(ViewBox) boxes;
  Vec(ViewLink) links;
  Vec(ViewRing) rings;
  ViewCurve shared, registers; /* bytes of tiles in shared memory; registers of tiles, of a lane */
} LoopView;

typedef struct ScheduleView {
  const char *kernel, *target, *doc; /* doc: of the target */
  const char *rows;                  /* the text of schedule_file.h */
  Vec(LoopView) loops;
} ScheduleView;

typedef struct ScheduledKernel ScheduledKernel;
ScheduleView schedule_view(Arena *a, const ScheduledKernel *s);

#endif
