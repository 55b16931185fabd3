/* uses.c: how often each value is an operand. A yield is a use like any other. */
#include "analysis/analysis.h"

const int *find_uses(Kernel *k, const Facts *known) {
  int *uses = ARENA_ARRAY(known->arena, int, k->nvalues);
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    for (int i = 0; i < op->nargs; i++) uses[op->args[i]->id]++;
  return uses;
}
