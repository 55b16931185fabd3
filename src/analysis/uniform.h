/* uniform.h: for how many threads a value is one and the same.
 *
 * The level of a value says for whom each of its elements is known to be equal, whoever holds it:
 *
 *     GRID       all threads of a launch: sizes, scalar arguments, constants
 *     WORKGROUP  all threads of a workgroup: workgroup ids, loop counters, tiles of one element
 *     WAVE       the threads of a declared wave: $T1, $T2, reductions each wave makes for itself
 *     VARYING    nobody: tiles of several elements, $T0, what atomics return
 *
 * A tile whose elements are all equal (a fill, arithmetic on fills) has the level of that number. A
 * region has the level of what decides whether, and how often, it runs; what it hands on has no
 * better one. Barriers, matrix instructions, bulk copies, shuffles and pipelined loops need
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

/* A level, and the op and symbol (either may be NULL) that made it no better. */
typedef struct UniformFact {
  UniformLevel level;
  const Op *op;
  const Sym *symbol;
} UniformFact;

typedef struct Uniformity {
  Kernel *k;
  const UniformFact *values;  /* by value id */
  const UniformFact *regions; /* by op id: of the op's body, those around it included */
  const UniformLevel *places; /* by op id: of what a write says about where it goes */
} Uniformity;

/* For whom an expression is the same, as far as it mentions thread ids. */
UniformLevel uniform_by_threads(const Distribution *d, const Sym *s);

/* Where `op` stands: the worst of the regions around it. */
UniformFact uniform_around(const Uniformity *u, const Op *op);

/* Of the threads that hold an element, one may store it: it is sure to come here, holds what the
 * others do, and stores it where they would. */
bool uniform_store(const Uniformity *u, const Op *write);

/* Whether the thread that did an atomic must tell the others that hold the element what it was
 * told; what is only stored, it stores itself. */
bool uniform_answer(const Uniformity *u, const Op *atomic);

/* An error when `op`, which needs `level` around it, does not have it: what varies, and why. */
bool uniform_require(const Uniformity *u, const Op *op, UniformLevel level);

const char *uniform_name(UniformLevel level); /* "the workgroup" */

#endif
