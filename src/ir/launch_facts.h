/* launch_facts.h: what holds in every thread of a launch. Of code that runs at launch it does not:
 * there a grid may be empty. */
#ifndef WV_LAUNCH_FACTS_H
#define WV_LAUNCH_FACTS_H

#include "ir/ir.h"

/* What the header says of sizes: bound symbols, and assumptions that a launch checks. */
SymFacts *size_facts(Arena *a, const Kernel *k);

/* The same, and what `launch` says of ids. */
SymFacts *launch_facts(Arena *a, const Kernel *k, const Constraint *launch);

#endif
