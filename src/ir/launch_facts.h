/* launch_facts.h: what holds in every thread of a launch. It does not hold for code that runs at
 * launch: there a grid may be empty. */
#ifndef WV_LAUNCH_FACTS_H
#define WV_LAUNCH_FACTS_H

#include "ir/ir.h"

/* The header's facts about sizes: bound symbols, and assumptions that a launch checks. */
SymFacts *launch_size_facts(Arena *a, const Kernel *k);

/* A version of a symbol (set_symbol) is a number of the type of its value. */
void launch_assume_versions(SymFacts *f, const Kernel *k);

/* Facts about sizes and versions, plus what `launch` says about ids. */
SymFacts *launch_facts(Arena *a, const Kernel *k, const LaunchSpec *launch);

#endif
