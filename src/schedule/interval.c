/* interval.c: see interval.h. */
#include "schedule/interval.h"

#include "base/vec.h"

/* Two events on one unit, and for how long each occupies it. */
typedef struct Pair {
  int a, b;
  int64_t cycles_a, cycles_b;
} Pair;

typedef struct Search {
  const IntervalProblem *problem;
  Vec(Pair) pairs;
  Paths *paths;
  int64_t interval, next; /* the shortest longer interval that may be possible */
  long wrong, budget;     /* choices, for this interval */
} Search;

typedef enum Outcome { IMPOSSIBLE, POSSIBLE, UNDECIDED } Outcome;

/* ---- bounds ---- */

static int64_t busiest_unit(const IntervalProblem *p) {
  int64_t most = 1;
  for (int i = 0; i < p->nuses; i++) {
    int64_t sum = 0;
    for (int j = 0; j < p->nuses; j++)
      if (p->uses[j].unit == p->uses[i].unit) sum += p->uses[j].cycles;
    if (sum > most) most = sum;
  }
  return most;
}

/* The paths of the edges alone, at *interval or the next longer one that is possible. */
static bool settle(const IntervalProblem *p, Paths *paths, int64_t *interval) {
  int added = 0;
  paths_clear(paths, *interval);
  while (added < p->nedges) {
    int64_t needed = paths_add(paths, p->edges[added++]);
    if (needed == PATHS_NEVER) return false;
    if (!needed) continue;
    *interval = needed, added = 0;
    paths_clear(paths, needed);
  }
  return true;
}

int64_t interval_bound(Arena *scratch, const IntervalProblem *p) {
  int64_t interval = busiest_unit(p);
  return settle(p, paths_new(scratch, p->events), &interval) ? interval : PATHS_NEVER;
}

/* ---- the ways to order a pair ---- */

/* The numbers k of iterations, from `least` to `most`, that may separate a pair. */
typedef struct Choices {
  int64_t least, most;
  bool settled; /* the pair cannot overlap, whatever else is chosen */
} Choices;

/* If only one event follows from the other, everything that follows from the later one can be
 * moved by whole iterations: one k whose window is not cut off is as good as all smaller ones. */
static Choices choices_of(const Search *s, const Pair *q) {
  int64_t n = s->interval, lo = paths_between(s->paths, q->a, q->b),
          hi = paths_between(s->paths, q->b, q->a);
  Choices c = {0, 0, false};
  if (hi != PATHS_NONE) hi = -hi;
  if (lo != PATHS_NONE) c.most = floor_div64(n - q->cycles_b - lo, n);
  if (hi != PATHS_NONE) c.least = ceil_div64(q->cycles_a - hi, n);
  if (lo != PATHS_NONE && hi == PATHS_NONE) c.least = floor_div64(q->cycles_a - lo, n);
  if (lo == PATHS_NONE && hi != PATHS_NONE) c.most = ceil_div64(n - q->cycles_b - hi, n);
  c.settled = lo != PATHS_NONE && hi != PATHS_NONE && c.least == c.most &&
              lo >= q->cycles_a - c.least * n && hi <= n - q->cycles_b - c.least * n;
  return c;
}

static Edge forward(const Pair *q, int64_t k) { return (Edge){q->a, q->b, q->cycles_a, (int)k}; }
static Edge backward(const Pair *q, int64_t k) {
  return (Edge){q->b, q->a, q->cycles_b, (int)(1 - k)};
}

static void may_need(Search *s, int64_t interval) {
  if (interval > s->interval && interval < s->next) s->next = interval;
}

/* With a longer interval, k may be possible. */
static void consider_later(Search *s, const Pair *q, int64_t k) {
  int64_t a = paths_needed(s->paths, forward(q, k)), b = paths_needed(s->paths, backward(q, k));
  may_need(s, a > b ? a : b);
}

/* ---- the search ---- */

/* The pair with the fewest choices; NULL: all are settled. */
static const Pair *next_pair(const Search *s, Choices *best) {
  const Pair *found = NULL;
  for (int i = 0; i < s->pairs.n; i++) {
    Choices c = choices_of(s, &s->pairs.at[i]);
    if (c.settled || (found && c.most - c.least >= best->most - best->least)) continue;
    found = &s->pairs.at[i], *best = c;
    if (c.most <= c.least) break;
  }
  return found;
}

static bool separate(Search *s, const Pair *q, int64_t k) {
  int64_t needed = paths_add(s->paths, forward(q, k));
  if (!needed) needed = paths_add(s->paths, backward(q, k));
  may_need(s, needed);
  return !needed;
}

/* The numbers k next to the possible ones, or between the limits if none is possible. */
static void consider_others(Search *s, const Pair *q, const Choices *c) {
  int64_t first = c->most < c->least ? c->most : c->least - 1;
  int64_t last = c->most < c->least ? c->least : c->most + 1;
  for (int64_t k = first; k <= last; k++)
    if (k < c->least || k > c->most) consider_later(s, q, k);
}

static Outcome search(Search *s) {
  Choices c;
  const Pair *q = next_pair(s, &c);
  if (!q) return POSSIBLE;
  consider_others(s, q, &c);
  for (int64_t k = c.most; k >= c.least; k--) { /* the earliest start of b first */
    int mark = paths_mark(s->paths);
    Outcome found = separate(s, q, k) ? search(s) : IMPOSSIBLE;
    if (found != IMPOSSIBLE) return found;
    if (++s->wrong > s->budget) return UNDECIDED;
    paths_undo(s->paths, mark);
  }
  return IMPOSSIBLE;
}

/* ---- all intervals ---- */

static void find_pairs(Arena *a, Search *s) {
  const IntervalProblem *p = s->problem;
  for (int i = 0; i < p->nuses; i++)
    for (int j = i + 1; j < p->nuses; j++) {
      const UnitUse *x = &p->uses[i], *y = &p->uses[j];
      if (x->unit == y->unit && x->event != y->event && x->cycles && y->cycles)
        vec_push(a, &s->pairs, ((Pair){x->event, y->event, x->cycles, y->cycles}));
    }
}

/* Decides s->interval or, if the edges alone need a longer one, that one. */
static Outcome decide(Search *s, Interval *found) {
  s->next = PATHS_NEVER, s->wrong = 0;
  if (!settle(s->problem, s->paths, &s->interval)) return IMPOSSIBLE;
  Outcome outcome = search(s);
  found->wrong += s->wrong;
  if (outcome == POSSIBLE && s->interval < found->cycles) {
    found->cycles = s->interval;
    paths_starts(s->paths, found->start);
  }
  return outcome;
}

/* Tries intervals between one that is proved too short and one that is possible. */
static void shorten(Search *s, Interval *found) {
  int64_t least = found->bound;
  s->budget = s->problem->budget;
  while (least < found->cycles) {
    int64_t middle = s->interval = least + (found->cycles - least) / 2;
    decide(s, found);
    if (found->cycles > middle) least = middle + 1;
  }
}

/* The budget grows while nothing is found, so that the search ends. */
Interval interval_solve(Arena *a, const IntervalProblem *p) {
  Interval found = {PATHS_NEVER, 0, ARENA_ARRAY(a, int64_t, p->events), 0};
  Search s = {.problem = p, .interval = busiest_unit(p), .budget = p->budget};
  bool proved = true;
  find_pairs(a, &s);
  s.paths = paths_new(a, p->events);
  while (found.cycles == PATHS_NEVER && s.interval != PATHS_NEVER) {
    Outcome outcome = decide(&s, &found);
    if (proved) found.bound = s.interval;
    if (outcome == IMPOSSIBLE) s.interval = s.next;
    if (outcome != UNDECIDED) continue;
    s.interval += s.interval / 32 + 1, s.budget += s.budget + 1;
    proved = false;
  }
  if (found.cycles == PATHS_NEVER) found.bound = PATHS_NEVER;
  else if (!proved) shorten(&s, &found);
  return found;
}

/* ---- what limits it ---- */

/* The edges, and those by which the starts order events on one unit. */
typedef Vec(Edge) EdgeList;

static EdgeList ordered_edges(Arena *a, const IntervalProblem *p, const Interval *found) {
  Search s = {.problem = p};
  EdgeList all = {0};
  for (int i = 0; i < p->nedges; i++) vec_push(a, &all, p->edges[i]);
  find_pairs(a, &s);
  for (int i = 0; i < s.pairs.n; i++) {
    const Pair *q = &s.pairs.at[i];
    int64_t apart = found->start[q->b] - found->start[q->a];
    int64_t k = -floor_div64(apart, found->cycles);
    vec_push(a, &all, forward(q, k));
    vec_push(a, &all, backward(q, k));
  }
  for (int i = 0; i < p->nuses; i++) /* an event that occupies its unit all the time */
    vec_push(a, &all, ((Edge){p->uses[i].event, p->uses[i].event, p->uses[i].cycles, 1}));
  return all;
}

/* Lengthens paths by an edge each; the last event whose path became longer, or -1. */
static int lengthen(const EdgeList *edges, int64_t interval, int64_t *length, int *by) {
  int last = -1;
  for (int i = 0; i < edges->n; i++) {
    const Edge *e = &edges->at[i];
    int64_t to = length[e->from] + e->delay - e->distance * interval;
    if (to > length[e->to]) length[e->to] = to, by[e->to] = i, last = e->to;
  }
  return last;
}

int interval_cycle(Arena *a, const IntervalProblem *p, const Interval *found, int *events) {
  EdgeList edges = ordered_edges(a, p, found);
  int64_t *length = ARENA_ARRAY(a, int64_t, p->events + 1);
  int *by = ARENA_ARRAY(a, int, p->events + 1), at = -1, n = 0;
  for (int i = 0; i <= p->events; i++)
    if ((at = lengthen(&edges, found->cycles - 1, length, by)) < 0) return 0;
  for (int i = 0; i < p->events; i++) at = edges.at[by[at]].from; /* now it is on the cycle */
  for (int first = at; !n || at != first; at = edges.at[by[at]].from) events[n++] = at;
  for (int i = 0; i < n / 2; i++) {
    int other = events[i];
    events[i] = events[n - 1 - i], events[n - 1 - i] = other;
  }
  return n;
}
