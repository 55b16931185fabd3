/* chain.h: does the result of one matrix product feed the next without moving?
 *
 * The second product contracts one dim of the first result (attention: P = softmax(S), then P*V).
 * A thread that holds some results of the first instruction can use them as an operand of the
 * second if they lie in the rows the operand wants; *which* K they are hardly matters, because both
 * operands of the second may be permuted along K alike (pi). And both products may be computed
 * transposed (swap), which exchanges their operands and the dims of their results. */
#ifndef WV_CHAIN_H
#define WV_CHAIN_H

#include "target/mma.h"

typedef struct ChainUse {
  const MmaInfo *first, *second;
  bool contracts_m; /* the second contracts the first result's m; else its n */
  bool as_rhs;      /* the first result is the second's rhs; else its lhs */
  int rows, k; /* of the result on one wave (wgmma: four): the dim that stays, the contracted */
} ChainUse;

typedef struct Chain {
  bool found; /* false: a conversion is needed */
  bool swap_first, swap_second;
  bool identity;     /* pi changes nothing */
  const int *pi;     /* [k]: position i along the operand's K is element pi[i] of the program's */
  const int *source; /* for each register of the operand, copies included: one of the result */
  int registers;
} Chain;

/* Prefers pi = identity, then few swaps. */
Chain chain_find(Arena *a, const ChainUse *use);

#endif
