/* stages_order.h: puts the ops of a loop's body in the order that a row lists, and in that of the cycles
 * that rows give them.
 *
 * Ops that rows do not place follow what they need as soon as possible, or, if they are computed early,
 * precede what needs them; otherwise ops keep the order in which they were written. Of ops of one
 * cycle those of earlier iterations come first, so that the next value of a variable may take the
 * registers of the previous one. */
#ifndef WV_STAGES_ORDER_H
#define WV_STAGES_ORDER_H

#include "transform/stages/stages_plan.h"

/* False after reporting an order, or cycles, that contradict a dependence. */
bool order_body(Kernel *k, Arena *a, const MemoryUses *m, StagedLoop *l);

#endif
