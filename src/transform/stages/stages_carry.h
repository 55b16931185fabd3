/* stages_carry.h: computes ops of a loop as many iterations early as they have leads.
 *
 *     for K carry %acc = %a {              %x0 = read %s {iteration = {K: 0}, slot = 0}
 *       %x = read %s                       for K carry %acc = %a, %x = %x0 {
 *       %n = mma %x, %y, %acc       =>       %n = mma %x, %y, %acc
 *       yield %n                             %x1 = read %s {iteration = {K: $ARGK + 1}, ...}
 *     }                                      yield %n, %x1
 *                                          }
 *
 * A value that is computed n iterations before it is used is carried through n variables of the
 * loop. Those of the first iterations are computed before the loop. Ops act also for iterations past
 * the last one: they read nothing from arguments there, and their results are not used.
 *
 * What the coordinates of copies are computed from is early, too, and is there before the copies that
 * come before the loop. */
#ifndef WV_STAGES_CARRY_H
#define WV_STAGES_CARRY_H

#include "transform/stages/stages_plan.h"

/* Moves reads that have leads, and that are the same in each iteration, before the loop: they would be
 * masked by the iteration that they are for, and so be made in each. */
void carry_fixed(Kernel *k, const PassCtx *cx, StagedLoop *l);

typedef struct Carry Carry;

/* Before the first copies of the loop are made: computes their coordinates. NULL: no op is early. */
Carry *carry_open(Kernel *k, const PassCtx *cx, StagedLoop *l);

/* A value that the coordinates of a copy are computed from, for one of the first iterations. */
Value *carry_first(const Carry *c, Value *v, int iteration);

/* Computes ops of the loop, which is replaced, as early as their leads say, and finds the `coords` of its
 * copies. What the copies before the loop bring has arrived, and their rings have their slots. */
void carry_leads(Carry *c);

#endif
