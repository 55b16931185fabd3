/* standing.h: what is known of the symbols where an op stands, and what its tiles hold there.
 *
 *     workgroup M by 64 on 0; tile K by 32        M: 64*$WG0 .. + 64       $WG0 <= ceiling(M/64) -
 * 1 for K { %x = read %a }                      K: 32*$ARGK .. + 32      $ARGK <= ceiling(K/32) - 1
 *
 * A walk over the kernel starts with standing_at_entry, takes standing_after each op, and continues
 * inside of a body with standing_inside. A Standing is a value: copies are cheap, and what a body
 * learns is forgotten at its end. Positions are those of distribute.h. */
#ifndef WV_STANDING_H
#define WV_STANDING_H

#include "analysis/distribute.h"

typedef struct StandingLoop {
  const Sym *counter; /* what positions mention */
  const Sym *value;   /* what it is: of a while loop the version of its axis, which is signed */
  const struct StandingLoop *outer;
} StandingLoop;

typedef struct Standing {
  const Distribution *d;
  const SymFacts *entry; /* what holds all over the kernel */
  const SymFacts *facts; /* and what holds here */
  const StandingLoop *loops;
} Standing;

Standing standing_at_entry(Kernel *k, Arena *a);
Standing standing_after(const Standing *s, const Op *op);  /* behind op, in the same region */
Standing standing_inside(const Standing *s, const Op *op); /* in its body */

/* The coordinates start .. start + size - 1 of a dimension, in its own units (K/32). */
typedef struct DimRange {
  const Sym *start, *size;
} DimRange;

/* Where the tiles of `op` lie, which stands here; false after reporting that they lie nowhere. */
bool standing_range(const Standing *s, const Op *op, const Sym *dim, DimRange *out);

/* The size of a whole dimension with the symbols in force; of K/32 rounded up. NULL: overflow. */
const Sym *standing_extent(const Standing *s, const Op *op, const Sym *dim);
/* The same at entry, where the sizes of buffers are fixed. */
const Sym *standing_entry_extent(const Standing *s, const Sym *dim);

/* Takes Mod(a, b) < b as a fact for every such term of an expression whose b is known to be
 * positive: the symbolic engine looks for it only where b is a number. */
void standing_learn_remainders(SymCtx *cx, SymFacts *f, const Sym *e);

#endif
