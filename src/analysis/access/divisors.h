/* divisors.h: makes expressions that divide defined everywhere.
 *
 *     Mod(x, W - 2)    =>    Mod(x, Max(1, W - 2))      where W - 2 >= 0: it is a parameter's size
 *
 * Both have the same value where the first is defined, and the second may be computed where the
 * first was not meant to be: before a loop that may not run. */
#ifndef WV_DIVISORS_H
#define WV_DIVISORS_H

#include "analysis/analysis.h"

typedef struct Divisors Divisors;

/* f: facts that hold wherever an expression may be moved to. */
Divisors *divisors_new(Kernel *k, Arena *a, const SymFacts *f);

/* Returns e itself if it cannot fail; NULL: the sign of a divisor is unknown. */
const Sym *divisors_guard(Divisors *d, const Sym *e);

#endif
