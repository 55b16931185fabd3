/* solve_groups.h: candidates in which groups of waves do different things: `roles` and `turns` rows. */
#ifndef WV_SOLVE_GROUPS_H
#define WV_SOLVE_GROUPS_H

#include "transform/solve/trial.h"

typedef enum GroupRows { GROUPS_ROLES = 1, GROUPS_TURNS = 2 } GroupRows;

/* Adds the rows that are wanted, for a loop like that of the trial. False: the machine or the loop has
 * no use for one of them, or one is given. */
bool groups_add_rows(const SolveLoop *s, Arena *a, const Trial *like, int wanted, RowList *rows);

#endif
