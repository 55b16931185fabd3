/* solve_rows.h: the rows of candidates. */
#ifndef WV_SOLVE_ROWS_H
#define WV_SOLVE_ROWS_H

#include "schedule/interval/loop_free.h"
#include "transform/solve/trial.h"

/* The rows that the loop has. */
RowList rows_given(const SolveLoop *s, Arena *a);

/* These with that many stages; false: their number is given. */
bool rows_with_depth(const SolveLoop *s, Arena *a, int depth, RowList *out);

/* The rows that place the ops of a trial's loop, which are as many more iterations ahead as `deeper`
 * says if they copy tiles. */
RowList rows_placed(const SolveLoop *s, Arena *a, const Trial *t, const FreeTimes *free,
                    int deeper);

/* Limits of the search where no row gives a value. */
typedef struct RowsRoom {
  int slots, copies; /* of tiles in shared memory, and of values in registers */
  bool early;        /* also what computes may be in an earlier stage */
  int spare;         /* registers that are left for what the search does not know */
} RowsRoom;

/* What the given rows pin, for the loop of a trial that obeys them. */
FreeLimits rows_limits(const SolveLoop *s, const Trial *t, RowsRoom room);

bool rows_equal(const RowList *a, const RowList *b);

#endif
