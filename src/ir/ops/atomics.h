/* atomics.h: ops that change memory atomically, on whole tiles, and what they become for a lane. */
#ifndef WV_ATOMICS_H
#define WV_ATOMICS_H

#include "ir/ir.h"

/* For an op that changes memory atomically, or `scatter_add`: the mode of a lane's `atomic`, and
 * the op that computes the new value from the old one and the operand; OP_COUNT: the operand
 * replaces it, for "cas" only if the expected value is there. */
typedef struct AtomicMode {
  const char *word;
  OpKind combine;
} AtomicMode;
AtomicMode atomic_mode(OpKind kind);
OpKind atomic_combine(const char *word);

#endif
