/* api_choices.c: the tiles that the pass `choose` compares, through wave.h. */
#include "driver/api/api.h"
#include "target/units/units.h"
#include "transform/choose/choose_search.h"

static void print_candidate(StrBuf *out, const ChooseSearch *s, int number, bool dominated) {
  const Candidate *c = &s->all.at[number];
  const UnitMemory *memory = unit_memory(s->t->name);
  for (int i = 0; i < s->open.n; i++)
    sb_printf(out, "%s%s=%lld", i ? " " : "", sym_name(s->open.at[i].symbol),
              (long long)c->value[i]);
  if (choose_own_parts(s->model, c) > 1) sb_printf(out, " split_k=%lld", (long long)c->parts);
  if (choose_predicts(s->model) && memory) sb_printf(out, " # %.1f us", c->cycles / memory->mhz);
  else if (choose_predicts(s->model)) sb_printf(out, " # %.0f cycles", c->cycles);
  else sb_puts(out, " # not predicted");
  sb_puts(out, dominated ? ", dominated\n" : "\n");
}

/* Those that no other dominates come first. */
static void print_all(StrBuf *out, const ChooseSearch *s, int most) {
  for (int dominated = 0; dominated < 2; dominated++)
    for (int i = 0; i < s->all.n; i++) {
      if (most <= 0 || choose_is_dominated(s, i) != dominated) continue;
      print_candidate(out, s, i, dominated);
      most--;
    }
}

char *wv_choices(wv_kernel *k, const char *target, int most) {
  API_KERNEL_USES(k, NULL);
  if (!api_text(k->cx, target, "target")) return NULL;
  TargetChoice t = target_resolve(&k->k->cx->diags, target);
  if (!t.machine) return NULL;
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  ir_renumber(k->k);
  const Distribution *d = facts_of(k->k, a, FACT_distribute).distribute;
  ChooseTiles open = k->k->level == LEVEL_TILE ? choose_open(d, a) : (ChooseTiles){0};
  ChooseSearch s;
  if (open.n && !open.too_many && choose_search(d, t.machine, &open, a, &s))
    print_all(&out, &s, most);
  char *text = api_given_away(sb_text(&out));
  arena_free(a);
  return text;
}
