/* atomics.h: ops that change memory atomically, of whole tiles, and what they are for a lane. */
#ifndef WV_ATOMICS_H
#define WV_ATOMICS_H

#include "ir/ir.h"

/* Of an op that changes memory atomically, or `scatter_add`: the word of a lane's `atomic`, and the
 * op that makes the new value of the old one and the operand; OP_COUNT: the operand takes its
 * place, of "cas" only where what is expected stands there. */
typedef struct AtomicMode {
  const char *word;
  OpKind combine;
} AtomicMode;
AtomicMode atomic_mode(OpKind kind);
OpKind atomic_combine(const char *word);

#endif
