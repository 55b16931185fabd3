/* solve_search.h: the best schedules of a loop.
 *
 * The first trial is what the compiler does by itself, with the given rows as pins: if that is
 * refused, they are the reason. loop_free.h then has a bound that holds for every schedule, and
 * places. Trials of these, of other numbers of stages, and of tiles that run further ahead or less
 * far follow, until one is as short as the bound or the budget is spent. */
#ifndef WV_SOLVE_SEARCH_H
#define WV_SOLVE_SEARCH_H

#include "transform/solve/trial.h"

enum { SOLVE_TRIALS = 6 }; /* the usual budget */

typedef struct Solution {
  Arena *arena;
  Vec(Trial *) trials; /* best first; not two that are the same */
  int64_t first;       /* cycles of the first trial */
  double first_load;   /* its load (trial.h) */
  int64_t bound;       /* no schedule takes fewer, unless other waves make the copies, */
  int64_t served;      /* and then none takes fewer than this; 0: they cannot */
  double gap;          /* the share by which a launch may be shorter with another schedule */
  int tried;
  bool spent; /* the budget ended the search */
} Solution;

/* Looks for `most` schedules, with at most `budget` trials. False after reporting that the given
 * rows cannot be obeyed. If the times of the loop are not known, there is only the first trial. */
bool solve_loop(const SolveLoop *s, int most, int budget, Solution *out);
void solve_forget(Solution *s);

/* The fewest cycles that any schedule may take. */
int64_t solve_bound(const Solution *s);

#endif
