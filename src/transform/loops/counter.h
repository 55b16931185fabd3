/* counter.h: replaces the counter of a loop in one lane's program by an expression. */
#ifndef WV_COUNTER_H
#define WV_COUNTER_H

#include "ir/ir.h"

typedef struct CounterSwap {
  Kernel *k;
  const Sym *symbol;
  SymBinding to[2];      /* the symbol that cannot be negative, and the one that can */
  const SymFacts *facts; /* what is known where it is put in; NULL: nothing is simplified */
} CounterSwap;

/* e with a value for the counter; NULL: it has no value then. */
const Sym *counter_put(Kernel *k, const Sym *counter, const Sym *e, const Sym *value);

CounterSwap counter_swap(Kernel *k, const Op *loop, const Sym *to);

/* In every attribute of an op and of what is nested in it. False: an expression would have no value,
 * such as one that divides by 0; without `keep` nothing is changed, and this is all that it tells. */
bool counter_replace(CounterSwap *c, Op *op, bool keep);

#endif
