/* uniform.h: across which threads a value is the same.
 *
 * The level of a value says across which threads each of its elements is known to be equal,
 * whichever thread holds it:
 *
 *     GRID       all threads of a launch: sizes, scalar arguments, constants
 *     WORKGROUP  all threads of a workgroup: workgroup ids, loop counters, tiles of one element
 *     WAVE       the threads of a declared wave: $T1, $T2, reductions within each wave
 *     VARYING    none: tiles of several elements, $T0, results of atomics
 *
 * A tile whose elements are all equal (a fill, arithmetic on fills) has the level of that number. A
 * region has the level of the value that decides whether, and how often, it runs; its results have
 * no better level. Barriers, matrix instructions, bulk copies, shuffles and pipelined loops require
 * WORKGROUP or WAVE around them. */
#ifndef WV_UNIFORM_H
#define WV_UNIFORM_H

#include "analysis/distribute.h"

typedef enum UniformLevel {
  UNIFORM_GRID,
  UNIFORM_WORKGROUP,
  UNIFORM_WAVE,
  UNIFORM_VARYING
} UniformLevel;

/* A level, and the op and symbol (either may be NULL) that keep it from being better. */
typedef struct UniformFact {
  UniformLevel level;
  const Op *op;
  const Sym *symbol;
} UniformFact;

typedef struct Uniformity {
  Kernel *k;
  const UniformFact *values;     /* by value id */
  const UniformFact *regions;    /* by op id: of the op's body, including enclosing regions */
  const UniformLevel *addresses; /* by op id: of the address that a write stores to */
} Uniformity;

/* The level of an expression, judged by the thread ids it mentions. */
UniformLevel uniform_by_threads(const Distribution *d, const Sym *s);

/* The level at `op`: the worst of the regions around it. */
UniformFact uniform_around(const Uniformity *u, const Op *op);

/* Whether any one of the threads that hold an element may store it: it is sure to reach the write,
 * holds the same value as the others, and stores to the same address. */
bool uniform_store(const Uniformity *u, const Op *write);

/* Whether the thread that did an atomic must pass the result on to the others that hold the
 * element. Not if the result is only stored, which that thread does itself. */
bool uniform_answer(const Uniformity *u, const Op *atomic);

/* Reports an error if `op` requires `level` around it and does not have it: what varies, and
 * why. */
bool uniform_require(const Uniformity *u, const Op *op, UniformLevel level);

#endif
