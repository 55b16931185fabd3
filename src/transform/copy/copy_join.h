/* copy_join.h: outer dims of a tensor that a box treats as one.
 *
 *     write %r, %y {mapping: [N, P, Q, F] of ($x0, $x1)}
 *         floor($x0/(P*Q)), Mod(floor($x0/Q), P), Mod($x0, Q), $x1
 *
 * The pixels of all images are one dimension, of N*P*Q rows, if there is nothing between them in memory:
 * along it, the coordinate is $x0. */
#ifndef WV_COPY_JOIN_H
#define WV_COPY_JOIN_H

#include "analysis/access/in_bounds.h"

typedef struct CopyJoin {
  int dim;           /* with which all dims before it are one; 0: none are */
  const Sym *coord;  /* along it, over the $x */
  const Sym *extent; /* of all of them */
} CopyJoin;

/* False: they are not one, or not known to be. */
bool copy_join(const Distribution *d, const AccessBounds *b, int dim, CopyJoin *out);

/* The stride along dim m of the tensor, in elements; NULL: unknown. */
const Sym *copy_stride(const Distribution *d, const AccessBounds *b, int m);

#endif
