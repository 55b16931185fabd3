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

/* A loop like `loop`, before it, that runs `rounds` times; its body is empty. */
Op *two_loops_first(Kernel *k, Arena *scratch, Op *loop, const Sym *rounds);

/* Lets `loop` begin at `done`, with what the first loop computed. Wherever it is mentioned, `facts` hold. */
void two_loops_second(Kernel *k, const SymFacts *facts, Op *loop, Op *first, const Sym *done);

#endif
