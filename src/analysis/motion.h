/* motion.h: which ops may move in one lane's program. There each symbol has a single meaning, so an
 * expression is tied to a region only by symbols that get their value in it (counters,
 * versions). */
#ifndef WV_MOTION_H
#define WV_MOTION_H

#include "analysis/analysis.h"

/* Whether e may divide by 0, so that it must not be computed where it was not before. f may be
 * NULL. */
bool expr_may_fail(SymCtx *cx, const SymFacts *f, const Sym *e);

/* The same for an op without effects. */
bool op_may_fail(Kernel *k, const SymFacts *f, const Op *op);

/* Symbols that get their value in a region: its counter, and versions. */
typedef struct RegionSymbols {
  Vec(const Sym *) at;
} RegionSymbols;
RegionSymbols *region_symbols(Kernel *k, Arena *a, const Region *r);

bool expr_is_tied(const Sym *e, const RegionSymbols *symbols); /* e mentions one of them */

/* Attributes of this kind mention no symbols. */
bool motion_is_plain(AttrKind kind);

/* Whether an attribute of the op, which is in a THREAD kernel, mentions one of them. Operands are
 * not considered. */
bool op_is_tied(const Op *op, const RegionSymbols *symbols);

/* Which memories are written, by the id of their root (memory_root). */
const bool *find_written(Kernel *k, Arena *a);

/* A load, not volatile, from an argument that is never written: it always gives the same value. */
bool motion_is_invariant_load(const Op *op, const bool *written);

/* The same of a read in a kernel of tiles that is the same in each iteration of its loop: it may be made
 * before the loop. */
bool motion_is_fixed_read(Kernel *k, const Op *loop, const bool *written, const Op *op);

#endif
