/* choose_search.h: all legal tiles of a kernel, the best first. */
#ifndef WV_CHOOSE_SEARCH_H
#define WV_CHOOSE_SEARCH_H

#include "transform/choose/choose_model.h"

typedef struct ChooseSearch {
  Kernel *k;
  const TargetInfo *t;
  Arena *arena;
  ChooseTiles open;
  ChooseModel *model; /* NULL: sizes depend on what no model can know */
  Vec(Candidate) all; /* by estimated time */
  Refusal refusal;    /* the last one, if there is no candidate */
} ChooseSearch;

/* False: some symbol has no value to consider. */
bool choose_search(const Distribution *d, const TargetInfo *t, const ChooseTiles *open, Arena *a,
                   ChooseSearch *out);

/* Of the candidates, the one that the model finds best after lowering a few; -1: none compiles. */
typedef struct Chosen {
  Candidate best;  /* predicted after lowering */
  Candidate other; /* the best of the others, or the same */
  bool has_other;
  int lowered;
  const char *why; /* the last one that does not compile; NULL: all did */
} Chosen;
bool choose_best(ChooseSearch *s, Chosen *out);

/* Whether another candidate is at least as good in time, bytes, registers and shared memory. */
bool choose_is_dominated(const ChooseSearch *s, int number);

/* "BLOCK_M = 128, BLOCK_N = 256", and ", split_k = 4" where the search chose that. */
const char *choose_text(Arena *a, const ChooseSearch *s, const Candidate *c, const char *quote);

#endif
