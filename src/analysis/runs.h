/* runs.h: the iterations of a loop inside other loops, counted through all of its runs.
 *
 *     for T {                    before: $ARGT*trips
 *       for K { ... }            all:    T's trips * trips
 *     }
 *
 * If a run has more iterations than the one before it, always by the same number, these are the sums
 * of arithmetic series. The attribute `earlier` of a loop says `before`, where a value that the loops carry counts
 * them (persist). Iteration i of a run has the number `before` + i, and no number is left out. */
#ifndef WV_RUNS_H
#define WV_RUNS_H

#include "analysis/distribute.h"

typedef struct Runs {
  const Sym *before; /* iterations of earlier runs; 0 for a loop that is inside no other; NULL: they
                      * cannot be counted */
  const Sym *all;    /* iterations of all runs; NULL: they are counted while the loops run */
  const char *why;   /* they cannot be counted, because it ... */
  const char *hint;  /* what to change */
  const Op *blamed;  /* ... is inside this */
} Runs;

/* Of a `for` that starts at the first iteration. */
Runs runs_of(const Distribution *d, const Op *loop);
/* Of another op, which is one iteration of its own. */
Runs runs_of_op(const Distribution *d, const Op *op);

#endif
