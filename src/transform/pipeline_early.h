/* pipeline_early.h: the product that begins an iteration is computed one iteration early.
 *
 *     for K carry %acc = %a {              %first = mma %k.0, %q, %zero
 *       %s = mma %k.i, %q, %zero           for K carry %acc = %a, %s = %first {
 *       %p = ... %s ...              =>      %next = mma %k.i+1, %q, %zero
 *       %o = mma %v.i, %p, %acc              %p = ... %s ...
 *       yield %o                             %o = mma %v.i, %p, %acc
 *     }                                      yield %o, %next
 *                                          }
 * Nothing in the loop needs %next: it is under way while %s is worked on. Its tiles must have
 * arrived one iteration before the others. Past the last iteration it multiplies what happens to
 * lie there, and nobody looks at the result. */
#ifndef WV_PIPELINE_EARLY_H
#define WV_PIPELINE_EARLY_H

#include "transform/pipeline_plan.h"

/* The first product of the loop, if it reads both operands from shared memory, needs nothing that
 * the loop computes, and the loop works on its result; NULL: there is none. */
Op *find_early(const StagedLoop *l);

/* In front of it the next product begins: the result of this one has been used by then, so that the
 * next may take its registers. */
Op *early_place(const StagedLoop *l);

/* Moves l->early one iteration ahead: the next one is computed in front of `first`, that of
 * iteration 0 in front of the loop, which is made anew. */
void make_early(Kernel *k, StagedLoop *l, Op *first);

#endif
