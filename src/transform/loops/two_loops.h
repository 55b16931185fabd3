/* two_loops.h: a loop of one lane's program becomes two, of which the second runs what is left.
 *
 *     %r = for K with {trips = T} carry %acc = %z { ... }
 *
 *     %m = for K with {trips = R} carry %acc = %z { ... }           two_loops_first
 *     %s = expr D                                                   two_loops_second
 *     %r = for K from %s with {trips = T} carry %acc = %m { ... } */
#ifndef WV_TWO_LOOPS_H
#define WV_TWO_LOOPS_H

#include "ir/ir.h"

/* What a pass does with a loop that begins at 0, at which `around` holds. */
typedef void TwoLoopsFn(void *user, const SymFacts *around, Op *loop);

/* For each such loop, inner ones first. `entry` holds throughout the kernel. Ops may be inserted before the loop. */
void two_loops_search(Kernel *k, Arena *scratch, const SymFacts *entry, TwoLoopsFn *fn, void *user);

/* Whether the loop counts by 1 and has wgmma directly in its body. */
bool two_loops_multiply(const Op *loop);

/* A loop like `loop`, before it, that runs `rounds` times; its body is empty. */
Op *two_loops_first(Kernel *k, Arena *scratch, Op *loop, const Sym *rounds);

/* Lets `loop` begin at `done`, with what the first loop computed. `around` holds at both loops. */
void two_loops_second(Kernel *k, const SymFacts *around, Op *loop, Op *first, const Sym *done);

/* Both, with a copy of the body in the first loop, which is returned. */
Op *two_loops_divide(Kernel *k, Arena *scratch, const SymFacts *around, Op *loop, const Sym *rounds);

#endif
