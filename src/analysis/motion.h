/* motion.h: what may move in one lane's program, where symbols mean one thing each: an expression
 * is tied to a region only by symbols that get their value in it (counters, versions). */
#ifndef WV_MOTION_H
#define WV_MOTION_H

#include "analysis/analysis.h"

/* A division by what may be 0: it is not computed where it was not meant to be. f may be NULL. */
bool expr_may_fail(SymCtx *cx, const SymFacts *f, const Sym *e);

/* The same of an op without effects. */
bool op_may_fail(Kernel *k, const SymFacts *f, const Op *op);

/* Symbols that get their value in a region: its counter, and versions. */
typedef struct RegionSymbols {
  Vec(const Sym *) at;
} RegionSymbols;
RegionSymbols *region_symbols(Kernel *k, Arena *a, const Region *r);

bool expr_is_tied(const Sym *e, const RegionSymbols *symbols); /* e mentions one of them */

/* An attribute of the op, which is in a THREAD kernel, mentions one of them. Operands are not
 * looked at. */
bool op_is_tied(const Op *op, const RegionSymbols *symbols);

/* Which memories some op writes, by the id of their root (memory_root). */
const bool *find_written(Kernel *k, Arena *a);

/* A load of what nobody writes, and that nobody watches: it gives the same at any time. */
bool is_steady_load(const Op *op, const bool *written);

#endif
