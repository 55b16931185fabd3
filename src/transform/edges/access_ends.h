/* access_ends.h: the least and the greatest value of a position over the elements of an access and the
 * iterations of the loops around it. */
#ifndef WV_ACCESS_ENDS_H
#define WV_ACCESS_ENDS_H

#include "analysis/analysis.h"
#include "ir/ops/access.h"

/* The symbols that positions count with: $e of the tile, and the counters of enclosing loops; with
 * the last value of each. */
typedef struct AccessEnds {
  Kernel *k;
  const Facts *facts; /* distribute and header */
  const Sym *symbol[IR_MAX_RANK + 16], *last[IR_MAX_RANK + 16];
  int n;
} AccessEnds;

/* False: a dimension of the tile has no position. */
bool access_ends(Kernel *k, const Facts *facts, const MemAccess *a, AccessEnds *out);

/* NULL: e is not linear in the counters. */
const Sym *access_least(const AccessEnds *c, const Sym *e);
const Sym *access_greatest(const AccessEnds *c, const Sym *e);

#endif
