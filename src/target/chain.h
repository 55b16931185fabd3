/* chain.h: can the result of one matrix multiplication feed the next without data movement?
 *
 * The second product contracts one dim of the first result (attention: P = softmax(S), then P*V). A
 * thread that holds some results of the first instruction can use them as an operand of the second
 * if they lie in the rows that the operand requires. *Which* K they are hardly matters, because
 * both operands of the second may be permuted along K in the same way (pi). In addition, both
 * products may be computed transposed (swap), which exchanges their operands and the dims of their
 * results. */
#ifndef WV_CHAIN_H
#define WV_CHAIN_H

#include "target/mma.h"

typedef struct ChainUse {
  const MmaInfo *first, *second;
  bool contracts_m; /* the second contracts the first result's m; else its n */
  bool as_rhs;      /* the first result is the second's rhs; else its lhs */
  int rows, k;      /* of the result on one wave (wgmma: four): the dim that remains, the contracted
                * dim */
} ChainUse;

typedef struct Chain {
  bool found; /* false: a conversion is needed */
  bool swap_first, swap_second;
  bool identity;     /* pi changes nothing */
  const int *pi;     /* [k]: position i along the operand's K is element pi[i] of the program's K */
  const int *source; /* for each register of the operand, copies included: a register of the
                      * result */
  int registers;
} Chain;

/* Prefers pi = identity, then fewer swaps. */
Chain chain_find(Arena *a, const ChainUse *use);

#endif
