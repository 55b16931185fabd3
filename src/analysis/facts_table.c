/* facts_table.c: computes analyses in the order of their table, and tracks which are valid
 * (analysis.h). */
#include "analysis/analysis.h"

static const unsigned needs_of[] = {
#define ANALYSIS(name, type, needs, doc) needs,
#include "analysis/analyses.def"
};

/* A row needs only earlier rows, so one walk from the last to the first finds everything. */
static unsigned with_needs(unsigned set) {
  for (int i = ANALYSIS_COUNT - 1; i >= 0; i--)
    if (set >> i & 1) {
      WV_ASSERT(needs_of[i] < 1u << i);
      set |= needs_of[i];
    }
  return set;
}

static unsigned with_dependants(unsigned set) {
  for (int i = 0; i < ANALYSIS_COUNT; i++)
    if (needs_of[i] & set) set |= 1u << i;
  return set;
}

static void clear(Facts *f, unsigned set) {
  f->valid &= ~set;
#define ANALYSIS(name, type, needs, doc)                                                           \
  if (set & FACT_##name) f->name = NULL;
#include "analysis/analyses.def"
}

void facts_supply(Facts *f, Kernel *k, unsigned needs) {
  unsigned missing = with_needs(needs) & ~f->valid;
#define ANALYSIS(name, type, needs, doc)                                                           \
  if (missing & FACT_##name) f->name = find_##name(k, f);
#include "analysis/analyses.def"
  f->valid |= missing;
}

Facts facts_of(Kernel *k, Arena *a, unsigned needs) {
  Facts f = {.arena = a};
  facts_supply(&f, k, needs);
  return f;
}

void facts_drop(Facts *f, unsigned broken) {
  clear(f, with_dependants(broken));
  if (!f->valid) arena_reset(f->arena);
}

Facts facts_only(const Facts *f, unsigned needs) {
  Facts only = *f;
  clear(&only, ~needs);
  return only;
}
