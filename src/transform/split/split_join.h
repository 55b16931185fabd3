/* split_join.h: sums over the workgroups that divide a dimension.
 *
 *     workgroup PART by 1 on 2; bind PART = 4
 *     %s = sum %x, %init {dim = PART, grid}      %init + what the four workgroups have in %x
 *
 * In a cluster, each workgroup finishes a part of the tile (split_cluster.c). Otherwise they write what they
 * have to a workspace, and the last one that arrives does all that follows (split_workspace.c). */
#ifndef WV_SPLIT_JOIN_H
#define WV_SPLIT_JOIN_H

#include "transform/pass.h"

typedef struct Join {
  Kernel *k;
  PassCtx *cx;
  const Distribution *d;
  Op **sums;     /* in the body of the kernel */
  Value **parts; /* what a workgroup has, without the dimension */
  int n;
  const Sym *dim; /* which the workgroups divide */
  int axis;       /* of the grid */
  int64_t workgroups;
  const char *hint; /* about what prevents it; NULL: none */
  const Op *culprit;
} Join;

/* Replaces all sums with `grid`. `dim`: which the pass has divided, of a grid whose distribution does not know it;
 * NULL: none. False after reporting. */
bool split_join(Kernel *k, PassCtx *cx, const Sym *dim, int axis, int64_t workgroups);

/* split_differs.c: the first op after the sums that differs between the workgroups; NULL: none. */
const Op *split_differs(const Join *j);

bool split_by_cluster(Join *j); /* split_cluster.c: false if it cannot, and has changed nothing */
/* split_workspace.c: why not; NULL: it can. */
const char *split_workspace_obstacle(const Join *j);
void split_by_workspace(Join *j);

/* Bytes of the tile that a workgroup has of a value at an op; 0: not a number. */
double split_bytes(const Distribution *d, const Op *op, const Type *t);
/* What follows the first of the sums, in order. */
Op *join_rest(const Join *j);

#endif
