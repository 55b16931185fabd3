/* line_greedy.c: lines to begin with: two iterations that overlap: see line.h.
 *
 * An iteration is divided in two: what is early runs an iteration ahead of what is late. Of the ops whose
 * operands are there, a wave then issues the one that can start first, again and again. Barriers and
 * waits are not looked at: timing the line tells what they cost. */
#include "base/vec.h"
#include "schedule/interval/line.h"

enum { WORTH = 8 }; /* an eighth */

typedef struct Greedy {
  const LineProblem *p;
  int64_t *early;  /* by op: when it could start if nothing else ran, */
  int64_t *height; /* and how long what follows takes */
  int64_t *units;  /* [op * nunits + unit]: cycles of both waves */
  int nunits;
  int64_t *begun; /* by op: when it starts; PATHS_NEVER: it is not issued */
  int64_t *free;  /* by unit */
  int64_t clock;
} Greedy;

static void add_use(Greedy *g, int op, const UnitUse *use) {
  g->units[op * g->nunits + use->unit] += use->cycles;
}

static void find_units(Arena *a, Greedy *g) {
  const IntervalProblem *p = g->p->p;
  for (int i = 0; i < p->nuses; i++)
    if (p->uses[i].unit >= g->nunits) g->nunits = p->uses[i].unit + 1;
  g->units = ARENA_ARRAY(a, int64_t, g->p->nops * g->nunits + 1);
  g->free = ARENA_ARRAY(a, int64_t, g->nunits + 1);
  for (int i = 0; i < p->nuses; i++)
    for (int op = 0; op < g->p->nops && p->uses[i].unit != p->wave; op++)
      for (int w = 0; w < LINE_WAVES; w++) {
        const LineOp *o = &g->p->ops[op];
        if (p->uses[i].event == o->start[w] || p->uses[i].event == o->end[w])
          add_use(g, op, &p->uses[i]);
      }
}

/* Within an iteration; needs are followed until nothing is later. */
static void find_times(Greedy *g) {
  const LineProblem *p = g->p;
  bool later = true;
  for (int round = 0; later && round <= p->nops; round++) {
    later = false;
    for (int i = 0; i < p->nneeds; i++) {
      const LineNeed *n = &p->needs[i];
      if (n->distance) continue;
      int64_t early = g->early[n->from] + n->delay, height = g->height[n->to] + n->delay;
      if (early > g->early[n->to]) g->early[n->to] = early, later = true;
      if (height > g->height[n->from]) g->height[n->from] = height, later = true;
    }
  }
}

static Greedy greedy_new(Arena *a, const LineProblem *p) {
  Greedy g = {.p = p};
  g.early = ARENA_ARRAY(a, int64_t, p->nops), g.height = ARENA_ARRAY(a, int64_t, p->nops);
  g.begun = ARENA_ARRAY(a, int64_t, p->nops);
  find_units(a, &g);
  for (int i = 0; i < p->nops; i++) g.height[i] = p->ops[i].issue[0];
  find_times(&g);
  return g;
}

/* ---- the order ---- */

/* When an op can start; PATHS_NEVER: something that it needs is not issued. */
static int64_t ready_at(const Greedy *g, const Line *line, int op) {
  int64_t at = g->clock;
  for (int i = 0; i < g->p->nneeds; i++) {
    const LineNeed *n = &g->p->needs[i];
    if (n->to != op || n->distance + line->lead[n->from] - line->lead[op] != 0) continue;
    if (g->begun[n->from] == PATHS_NEVER) return PATHS_NEVER;
    if (g->begun[n->from] + n->delay > at) at = g->begun[n->from] + n->delay;
  }
  if (g->p->ops[op].end[0] >= 0) return at;
  for (int u = 0; u < g->nunits; u++)
    if (g->units[op * g->nunits + u] && g->free[u] > at) at = g->free[u];
  return at;
}

static void issue(Greedy *g, int op, int64_t at) {
  int64_t begun = at;
  for (int u = 0; u < g->nunits; u++)
    if (g->units[op * g->nunits + u] && g->free[u] > begun) begun = g->free[u];
  for (int u = 0; u < g->nunits; u++)
    if (g->units[op * g->nunits + u]) g->free[u] = begun + g->units[op * g->nunits + u];
  g->begun[op] = begun, g->clock = at + g->p->ops[op].issue[0];
}

/* Of those that can start first, the one after which most remains. */
static int next_op(const Greedy *g, const Line *line, int64_t *at) {
  int best = -1;
  for (int op = 0; op < g->p->nops; op++) {
    if (g->begun[op] != PATHS_NEVER) continue;
    int64_t ready = ready_at(g, line, op);
    if (ready == PATHS_NEVER) continue;
    bool first = best < 0 || ready < *at || (ready == *at && g->height[op] > g->height[best]);
    if (first) best = op, *at = ready;
  }
  return best;
}

/* False: ops wait for each other. */
static bool find_order(Greedy *g, Line *line) {
  g->clock = 0;
  for (int u = 0; u < g->nunits; u++) g->free[u] = 0;
  for (int op = 0; op < g->p->nops; op++) g->begun[op] = PATHS_NEVER;
  for (int i = 0; i < g->p->nops; i++) {
    int64_t at = 0;
    int op = next_op(g, line, &at);
    if (op < 0) return false;
    issue(g, op, at);
    line->order[i] = op, line->place[op] = i;
  }
  return true;
}

/* ---- all divisions ---- */

/* What starts before the time runs an iteration ahead, with what it needs. */
static bool divide(const Greedy *g, const Line *known, int64_t before, Line *line) {
  const LineProblem *p = g->p;
  line_copy(p, line, known);
  for (int op = 0; op < p->nops; op++)
    if (!known->lead[op] && !p->ops[op].last && g->early[op] < before) line->lead[op] = 1;
  return line_repair(p, line, false);
}

static int64_t next_time(const Greedy *g, int64_t after) {
  int64_t next = PATHS_NEVER;
  for (int op = 0; op < g->p->nops; op++)
    if (g->early[op] > after && g->early[op] < next) next = g->early[op];
  return next;
}

static bool is_same(const LineProblem *p, const Line *a, const Line *b) {
  for (int i = 0; i < p->nops; i++)
    if (a->order[i] != b->order[i] || a->lead[i] != b->lead[i]) return false;
  return true;
}

/* Whether it is so much better that what is near the known line matters no more. */
static bool is_worth(const LineProblem *p, const Line *next, const Line *known) {
  return next->cycles < known->cycles - known->cycles / WORTH && line_is_better(p, next, known);
}

int line_begin(Arena *a, LineRun *r, Line *line, int64_t goal) {
  const LineProblem *p = line_problem(r);
  Greedy g = greedy_new(a, p);
  Line known = line_new(a, p), next = line_new(a, p), last = line_new(a, p);
  int timed = 0;
  line_copy(p, &known, line);
  for (int64_t at = -1; at != PATHS_NEVER && !line_is_good(p, line, goal); at = next_time(&g, at)) {
    if (!divide(&g, &known, at + 1, &next) || !find_order(&g, &next)) continue;
    if (!line_arrange(p, &next) || is_same(p, &next, &last)) continue;
    line_copy(p, &last, &next);
    line_time(r, &next, line->cycles);
    timed++;
    if (!is_worth(p, &next, &known) || !line_is_better(p, &next, line)) continue;
    line_copy(p, line, &next);
  }
  return timed;
}
