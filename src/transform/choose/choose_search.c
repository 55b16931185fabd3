/* choose_search.c: see choose_search.h. */
#include "transform/choose/choose_search.h"

#include <stdlib.h>

#include "transform/choose/choose_trial.h"

enum {
  MOST_CANDIDATES = 4096,
  MOST_LOWERED = 8,  /* that compile */
  MOST_FAILED = 8,   /* that do not, once one has */
  MOST_ATTEMPTS = 64 /* until one does */
};
#define SMALL 0.995 /* predictions are not exact: the first of two is kept */

/* ---- all ---- */

/* Leaves out every second value of the longest list until all combinations can be tried. */
static void thin_out(ChooseTiles *open) {
  for (;;) {
    double all = 1;
    ChooseTile *longest = &open->at[0];
    for (int i = 0; i < open->n; i++) {
      all *= open->at[i].n;
      if (open->at[i].n > longest->n) longest = &open->at[i];
    }
    if (all <= MOST_CANDIDATES || longest->n < 2) return;
    int n = 0;
    for (int i = (longest->n - 1) % 2; i < longest->n; i += 2)
      longest->value[n++] = longest->value[i];
    longest->n = n;
  }
}

/* With one workgroup for each tile, and with several where that is shorter. */
static void try_parts(ChooseSearch *s, const int64_t *value) {
  Candidate whole, c;
  Refusal why;
  if (!choose_estimate(s->model, value, 1, NULL, &whole, &s->refusal)) return;
  vec_push(s->arena, &s->all, whole);
  for (int64_t parts = 2; parts <= CHOOSE_PARTS; parts *= 2)
    if (choose_may_split(s->model, &whole, parts) &&
        choose_estimate(s->model, value, parts, NULL, &c, &why) && c.rank < whole.rank)
      vec_push(s->arena, &s->all, c);
}

static void try_values(ChooseSearch *s, int64_t *value, int symbol) {
  if (symbol == s->open.n) {
    try_parts(s, value);
    return;
  }
  for (int i = 0; i < s->open.at[symbol].n; i++) {
    value[symbol] = s->open.at[symbol].value[i];
    try_values(s, value, symbol + 1);
  }
}

/* The shortest time, then the fewest bytes, then those that leave the most room, then the larger tiles. */
static int compare(const void *x, const void *y) {
  const Candidate *a = x, *b = y;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  if (a->moved != b->moved) return a->moved < b->moved ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
  if (a->held != b->held) return a->held < b->held ? -1 : 1;
  for (int i = 0; i < CHOOSE_SYMBOLS; i++)
    if (a->value[i] != b->value[i]) return a->value[i] > b->value[i] ? -1 : 1;
  return 0;
}

bool choose_search(const Distribution *d, const TargetInfo *t, const ChooseTiles *open, Arena *a,
                   ChooseSearch *out) {
  int64_t value[CHOOSE_SYMBOLS] = {0};
  *out = (ChooseSearch){.k = d->k, .t = t, .arena = a, .open = *open};
  choose_fill(d, t, a, &out->open);
  for (int i = 0; i < out->open.n; i++)
    if (out->open.at[i].why) return false;
  thin_out(&out->open);
  out->model = choose_model(d, t, &out->open, a);
  if (!out->model) return true;
  try_values(out, value, 0);
  if (out->all.n) qsort(out->all.at, (size_t)out->all.n, sizeof *out->all.at, compare);
  return true;
}

/* ---- the best ---- */

static void keep(Chosen *out, const Candidate *c) {
  bool better = !out->lowered++ || c->rank < out->best.rank * SMALL;
  if (better && out->lowered > 1) out->other = out->best, out->has_other = true;
  if (better) out->best = *c;
  else if (!out->has_other || c->rank < out->other.rank) out->other = *c, out->has_other = true;
}

typedef Vec(const Candidate *) Failures;

/* Whether one with smaller tiles needs too many registers. */
static bool is_larger(const ChooseSearch *s, const Candidate *c, const Failures *full) {
  for (int i = 0; i < full->n; i++) {
    bool larger = true;
    for (int j = 0; j < s->open.n; j++) larger &= c->value[j] >= full->at[i]->value[j];
    larger &= c->parts == full->at[i]->parts;
    if (larger) return true;
  }
  return false;
}

static void try_candidates(ChooseSearch *s, bool wide, Chosen *out) {
  Failures full = {0};
  int attempts = 0, failed = 0, enough = choose_predicts(s->model) ? MOST_LOWERED : 1;
  for (int i = 0; i < s->all.n && out->lowered < enough && attempts < MOST_ATTEMPTS; i++) {
    Candidate *c = &s->all.at[i], now;
    ChooseFound found;
    Refusal why;
    if (out->lowered && (failed == MOST_FAILED || c->rank > out->best.rank)) break;
    if (is_larger(s, c, &full)) continue;
    attempts++;
    if (!choose_lower(s->k, s->t, s->model, &s->open, c->value, choose_own_parts(s->model, c), wide,
                      &found, &out->why)) {
      if (found.full) vec_push(s->arena, &full, c);
      failed++;
      continue;
    }
    if (!out->lowered) failed = 0;
    if (choose_estimate(s->model, c->value, c->parts, found.known ? &found : NULL, &now, &why))
      keep(out, &now);
  }
}

/* Where all spill registers: the one with the fewest. */
static void take_least(ChooseSearch *s, Chosen *out) {
  ChooseFound found;
  for (int i = 0; i < s->all.n; i++) {
    Candidate *c = &s->all.at[i];
    if (out->lowered && c->held >= out->best.held) continue;
    bool fits = choose_lower(s->k, s->t, s->model, &s->open, c->value,
                             choose_own_parts(s->model, c), false, &found, &out->why);
    if (fits || found.full) out->best = *c, out->lowered = 1;
  }
}

/* Estimates are optimistic: what is estimated to take longer than the best prediction is not tried. */
bool choose_best(ChooseSearch *s, Chosen *out) {
  *out = (Chosen){0};
  try_candidates(s, true, out);
  if (!out->lowered) try_candidates(s, false, out);
  if (!out->lowered) take_least(s, out);
  return out->lowered > 0;
}

bool choose_is_dominated(const ChooseSearch *s, int number) {
  const Candidate *c = &s->all.at[number];
  for (int i = 0; i < s->all.n; i++) {
    const Candidate *o = &s->all.at[i];
    bool as_good = o->cycles <= c->cycles && o->moved <= c->moved && o->held <= c->held &&
                   o->bytes <= c->bytes;
    bool better =
        o->cycles < c->cycles || o->moved < c->moved || o->held < c->held || o->bytes < c->bytes;
    if (as_good && better) return true;
  }
  return false;
}

const char *choose_text(Arena *a, const ChooseSearch *s, const Candidate *c, const char *quote) {
  StrBuf out = {.arena = a};
  for (int i = 0; i < s->open.n; i++)
    sb_printf(&out, "%s%s%s%s = %lld", i ? ", " : "", quote, sym_name(s->open.at[i].symbol), quote,
              (long long)c->value[i]);
  if (choose_own_parts(s->model, c) > 1)
    sb_printf(&out, ", %ssplit_k%s = %lld", quote, quote, (long long)c->parts);
  return sb_text(&out);
}
