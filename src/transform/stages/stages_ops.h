/* stages_ops.h: ops of a staged loop as they are in another iteration. */
#ifndef WV_STAGES_OPS_H
#define WV_STAGES_OPS_H

#include "transform/stages/stages_plan.h"

/* Makes `op` act for that iteration, which may not exist. */
void staged_set_iteration(Kernel *k, const StagedLoop *l, Op *op, const Sym *iteration);

/* Iterations are given by the counter that they have: that of iteration number n, and that of the n-th
 * after the one that the loop is in. */
const Sym *staged_iteration(const Kernel *k, const StagedLoop *l, int n);
const Sym *staged_later(const Kernel *k, const StagedLoop *l, int n);
/* The number of an iteration. */
const Sym *staged_number(const Kernel *k, const StagedLoop *l, const Sym *iteration);
/* The number of an iteration or, if it does not exist, of the last one: barriers never reach the phases
 * of later ones. In a loop without iterations it is -1, whose phase is complete from the start. */
const Sym *staged_number_at_most(const Kernel *k, const PassCtx *cx, const StagedLoop *l,
                                 const Sym *iteration);

/* Makes `op` use the slot of the iteration with that number, out of `slots`; with 1 there is no ring to
 * index. */
void staged_set_slot(Kernel *k, Op *op, const Sym *number, int slots);

/* The number by which the copy's slot for an iteration is chosen: those of service waves are counted
 * through all runs of a loop that is inside others. */
const Sym *staged_copy_number(const Kernel *k, const StagedLoop *l, const StagedCopy *c,
                              const Sym *iteration);

/* The attributes of `from` for that iteration, for which `to` acts. */
void staged_take_attrs(Kernel *k, const StagedLoop *l, const Op *from, Op *to,
                       const Sym *iteration);

/* Makes an access do nothing unless that iteration exists. */
void staged_test(Kernel *k, const PassCtx *cx, const StagedLoop *l, Op *op, const Sym *iteration);

/* The copy of the loop that fills this memory, or the first part of it; NULL: none. */
const StagedCopy *staged_copy_to(const StagedLoop *l, const Value *memory);
/* That which `op`, made of it, is. */
const StagedCopy *staged_copy_of(const StagedLoop *l, const Op *op);

/* The first op of the loop that reads what a copy brings, as early as any does: the read or, for a tile
 * that stays in shared memory, what uses it. */
Op *staged_reader(const StagedLoop *l, const StagedCopy *c);

/* Carries another value through the loop, which is replaced: `first` before it, then `next`. */
void staged_carry(Kernel *k, StagedLoop *l, Value *first, Value *next);

#endif
