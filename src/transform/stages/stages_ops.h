/* stages_ops.h: ops of a staged loop as they are in another iteration. */
#ifndef WV_STAGES_OPS_H
#define WV_STAGES_OPS_H

#include "transform/stages/stages_plan.h"

/* Makes `op` act for that iteration, which may not exist. */
void staged_set_iteration(Kernel *k, const StagedLoop *l, Op *op, const Sym *iteration);

/* Makes `op` use the slot of that iteration, out of `slots`; with 1 there is no ring to index. */
void staged_set_slot(Kernel *k, Op *op, const Sym *iteration, int slots);

/* The attributes of `from` for that iteration, for which `to` acts. */
void staged_take_attrs(Kernel *k, const StagedLoop *l, const Op *from, Op *to,
                       const Sym *iteration);

/* Makes an access do nothing unless that iteration exists. */
void staged_test(Kernel *k, const PassCtx *cx, const StagedLoop *l, Op *op, const Sym *iteration);

/* The copy of the loop that fills this memory; NULL: none. */
const StagedCopy *staged_copy_to(const StagedLoop *l, const Value *memory);

/* Carries another value through the loop, which is replaced: `first` before it, then `next`. */
void staged_carry(Kernel *k, StagedLoop *l, Value *first, Value *next);

#endif
