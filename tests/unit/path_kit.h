/* path_kit.h: every path through a small kernel, for tests of passes that reason about order. */
#ifndef WV_PATH_KIT_H
#define WV_PATH_KIT_H

#include "unit/tile_kit.h"

enum { MAX_EVENTS = 256, MAX_CHOICES = 64, MAX_PATHS = 40000 };

/* One run: the choices of every loop and conditional, in the order in which they are reached. */
typedef struct Path {
  const Op *events[MAX_EVENTS];
  int nevents;
  int choice[MAX_CHOICES], limit[MAX_CHOICES], nchoices;
  bool too_long;
} Path;

static inline int choose(Path *p, int *at, int limit) {
  if (*at >= MAX_CHOICES) return p->too_long = true, 0;
  if (*at >= p->nchoices) p->choice[p->nchoices++] = 0;
  p->limit[*at] = limit;
  return p->choice[(*at)++];
}

static inline void run(Path *p, const Region *r, int *at) {
  for (const Op *op = r->first; op; op = op->next) {
    if (p->nevents == MAX_EVENTS) p->too_long = true;
    if (p->too_long) return;
    if (!op->body) p->events[p->nevents++] = op;
    else
      for (int n = choose(p, at, op->kind == OP_if ? 2 : 3); n > 0; n--) run(p, op->body, at);
  }
}

/* The next combination of choices; false after the last. */
static inline bool next_path(Path *p) {
  while (p->nchoices && p->choice[p->nchoices - 1] + 1 == p->limit[p->nchoices - 1]) p->nchoices--;
  if (p->nchoices) p->choice[p->nchoices - 1]++;
  return p->nchoices > 0;
}

/* Calls `judge` on every path. 1: it was always true; 0: it was false once; -1: there are too many.
 */
typedef bool PathJudge(const Path *p, const void *user);

static inline int every_path(const Kernel *k, PathJudge *judge, const void *user) {
  Path p = {0};
  for (int n = 0; n < MAX_PATHS; n++) {
    int at = 0;
    p.nevents = 0;
    run(&p, k->body, &at);
    if (p.too_long) return -1;
    if (!judge(&p, user)) return 0;
    if (!next_path(&p)) return 1;
  }
  return -1;
}

/* ---- random programs ---- */

typedef struct Random {
  uint64_t seed;
} Random;

static inline int pick(Random *r, int n) {
  r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((r->seed >> 33) % (uint64_t)n);
}

/* ---- random programs ---- */

/* One op without a body, at random. */
typedef void Writer(StrBuf *out, Random *r, int *names);

/* Up to `most` ops, loops and conditionals. All `kinds` are equally frequent; the last three are
 * loops and conditionals. */
static inline void write_region(StrBuf *out, Random *r, Writer *leaf, int most, int kinds,
                                int depth, int *names) {
  enum { NESTED = 3, DEEPEST = 3 }; /* the last kinds; two of them loops */
  for (int n = 1 + pick(r, most); n > 0; n--) {
    int kind = pick(r, depth < DEEPEST ? kinds : kinds - NESTED);
    if (kind < kinds - NESTED) {
      leaf(out, r, names);
      continue;
    }
    if (kind < kinds - 1) sb_printf(out, "for %c {\n", "KLI"[depth]);
    else sb_printf(out, "if (M > %d) {\n", (*names)++);
    write_region(out, r, leaf, most, kinds, depth + 1, names);
    sb_puts(out, "}\n");
  }
}

#endif
