/* facts_table.c: tracks which analyses are valid (analysis.h). */
#include "analysis/analysis.h"

void facts_supply(Facts *f, Kernel *k, unsigned needs) {
#define ANALYSIS(name, type, doc)                                                                  \
  if (needs & ~f->valid & FACT_##name) f->name = find_##name(k, f->arena);
#include "analysis/analyses.def"
  f->valid |= needs;
}

void facts_drop(Facts *f, unsigned broken) {
  f->valid &= ~broken;
#define ANALYSIS(name, type, doc)                                                                  \
  if (broken & FACT_##name) f->name = NULL;
#include "analysis/analyses.def"
  if (!f->valid) arena_reset(f->arena);
}
