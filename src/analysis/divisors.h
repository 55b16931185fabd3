/* divisors.h: expressions that divide, made to have a value everywhere.
 *
 *     Mod(x, W - 2)      a parameter has a dimension W - 2, so it is not negative: Mod(x, Max(1, W
 * - 2))
 *
 * Where the first has a value the second has the same, and it may be computed where the first was
 * not meant to be: in front of a loop that may not run. */
#ifndef WV_DIVISORS_H
#define WV_DIVISORS_H

#include "analysis/analysis.h"

typedef struct Divisors Divisors;

/* f: facts that hold wherever an expression may be moved to. */
Divisors *divisors_new(Kernel *k, Arena *a, const SymFacts *f);

/* e itself where it cannot fail; NULL: the sign of a divisor is not known. */
const Sym *divisors_guard(Divisors *d, const Sym *e);

#endif
