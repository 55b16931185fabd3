/* stages_early.h: computes the product at the start of an iteration one iteration early.
 *
 *     for K carry %acc = %a {              %first = mma %k.0, %q, %zero
 *       %s = mma %k.i, %q, %zero           for K carry %acc = %a, %s = %first {
 *       %p = ... %s ...              =>      %next = mma %k.i+1, %q, %zero
 *       %o = mma %v.i, %p, %acc              %p = ... %s ...
 *       yield %o                             %o = mma %v.i, %p, %acc
 *     }                                      yield %o, %next
 *                                          }
 *
 * Nothing in the loop depends on %next, so it is in flight while %s is being processed. Its tiles
 * must have arrived one iteration before the others. Past the last iteration it multiplies whatever
 * is in memory, and the result is not used. */
#ifndef WV_STAGES_EARLY_H
#define WV_STAGES_EARLY_H

#include "transform/stages/stages_plan.h"

/* The first product of the loop, if it reads both operands from shared memory, depends on nothing
 * that the loop computes, and its result is used in the loop; NULL: there is none. */
Op *early_find(const StagedLoop *l);

/* The op before which the next product begins: the result of the current one has been used by then,
 * so the next may reuse its registers. */
Op *early_point(const StagedLoop *l);

/* Moves l->early one iteration ahead: the next one is computed before `first`, that of iteration 0
 * before the loop, which is replaced. */
void early_make(Kernel *k, StagedLoop *l, Op *first);

#endif
