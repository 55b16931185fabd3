/* launch_expr.h: what a launch computes from its arguments: sizes, guards, grids, derived
 * arguments.
 *
 * One straight-line program (base/host_steps.h) over the slots of the launch; results share
 * subexpressions. */
#ifndef WV_LAUNCH_EXPR_H
#define WV_LAUNCH_EXPR_H

#include "base/host_steps.h"

enum { LAUNCH_STEPS = 4096, LAUNCH_VALUES = 512 }; /* limits of one program */

typedef struct LaunchExpr {
  const HostStep *step;
  int nsteps;
  const int *result; /* the steps that are results */
  int nresults;
} LaunchExpr;

typedef struct LaunchValue {
  int64_t value;
  bool undefined;
} LaunchValue;

/* Every step refers to earlier ones and to variables below `nvars`, and the sizes fit. */
bool launch_expr_is_sound(const LaunchExpr *e, int nvars);

/* out[nresults]. */
void launch_expr_run(const LaunchExpr *e, const int64_t *vars, LaunchValue *out);

/* The same, computed on demand: among many guards the first mostly holds. Uninitialised beyond what
 * was computed. */
typedef struct LaunchRun {
  const LaunchExpr *expr;
  const int64_t *vars;
  int done; /* steps */
  int64_t value[LAUNCH_STEPS];
  bool undefined[LAUNCH_STEPS];
} LaunchRun;

void launch_expr_open(LaunchRun *r, const LaunchExpr *e, const int64_t *vars);
LaunchValue launch_expr_result(LaunchRun *r, int i);

#endif
