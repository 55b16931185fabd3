/* standing.h: what is known about symbols at an op, and which range of elements its tiles hold.
 *
 *     workgroup M by 64 on 0; tile K by 32     M: 64*$WG0 .. + 64      $WG0 <= ceiling(M/64) - 1
 *     for K { %x = read %a }                   K: 32*$ARGK .. + 32     $ARGK <= ceiling(K/32) - 1
 *
 * A walk over the kernel starts with a copy of the analysis `standing`, applies standing_after for
 * each op, and continues inside a body with standing_inside. A Standing is a value: copies are
 * cheap, and what is learned in a body is dropped at its end. Positions are those of
 * distribute.h. */
#ifndef WV_STANDING_H
#define WV_STANDING_H

#include "analysis/distribute.h"

typedef struct StandingLoop {
  const Sym *counter; /* the symbol in positions */
  const Sym *value;   /* its value: for a while loop the version of its axis, which is signed */
  const struct StandingLoop *outer;
} StandingLoop;

typedef struct Standing {
  const Distribution *d;
  const SymFacts *entry; /* what holds throughout the kernel */
  const SymFacts *facts; /* what also holds here */
  const StandingLoop *loops;
} Standing;

Standing standing_after(const Standing *s, const Op *op);  /* after op, in the same region */
Standing standing_inside(const Standing *s, const Op *op); /* in the body of op */

/* The coordinates start .. start + size - 1 of a dimension, in its own units (K/32). */
typedef struct DimRange {
  const Sym *start, *size;
} DimRange;

/* Where the tiles of `op` lie, for an op at this point; false after reporting that they have no
 * position. */
bool standing_range(const Standing *s, const Op *op, const Sym *dim, DimRange *out);

/* The size of a whole dimension with the symbols in force; for K/32, rounded up. NULL: overflow. */
const Sym *standing_extent(const Standing *s, const Op *op, const Sym *dim);
/* The same at kernel entry, where the sizes of buffers are fixed. */
const Sym *standing_entry_extent(const Standing *s, const Sym *dim);

/* Adds the fact Mod(a, b) < b for every such term of an expression whose b is known to be positive:
 * the symbolic engine does this only when b is a number. */
void standing_learn_remainders(SymCtx *cx, SymFacts *f, const Sym *e);

#endif
