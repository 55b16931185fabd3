/* interval.c: see interval.h. */
#include "schedule/interval/interval.h"

#include "base/vec.h"

enum {
  MOST_TIMES = 256, /* the bound: after that, no longer interval is tried */
  FEW_TRIES = 4     /* intervals below one that is known */
};

/* Two events on one unit, and for how long each occupies it. */
typedef struct Pair {
  int a, b;
  int64_t cycles_a, cycles_b;
  bool twins; /* which are in the same order */
} Pair;

typedef struct Search {
  const IntervalProblem *problem;
  Vec(Pair) pairs;
  int open; /* of these: the first ones; the others are settled */
  Paths *paths;
  int64_t interval, next; /* the shortest longer interval that may be possible */
  long wrong, budget;     /* choices, for this interval */
  bool late;              /* tries the latest start of an event first, otherwise the earliest */
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
  for (int64_t needed; (needed = paths_fill(paths, *interval, p->edges, p->nedges));
       *interval = needed)
    if (needed == PATHS_NEVER) return false;
  return true;
}

/* Whether there are not enough registers at an interval at which the edges are possible. */
static bool is_crowded(const IntervalProblem *p, Paths *paths, int64_t interval) {
  return !paths_fill(paths, interval, p->edges, p->nedges) &&
         pressure_exceeds(&p->held, paths, interval);
}

/* An interval, not shorter than `least`, for which registers may suffice. A schedule stays one if it
 * is made longer, so all that are shorter than one that is crowded are so, too. PATHS_NEVER: values
 * need more at the same time, however long it is. */
static int64_t with_registers(const IntervalProblem *p, Paths *paths, int64_t least) {
  int64_t crowded = least, enough = 2 * least;
  if (!is_crowded(p, paths, least)) return least;
  while (is_crowded(p, paths, enough)) {
    if (enough > ((int64_t)1 << 32)) return PATHS_NEVER;
    crowded = enough, enough *= 2;
  }
  while (enough - crowded > 1) {
    int64_t middle = crowded + (enough - crowded) / 2;
    if (is_crowded(p, paths, middle)) crowded = middle;
    else enough = middle;
  }
  return enough;
}

/* Leaves the paths of that interval. */
static int64_t bound_by(const IntervalProblem *p, Paths *paths) {
  int64_t interval = busiest_unit(p);
  if (!settle(p, paths, &interval)) return PATHS_NEVER;
  return p->held.most ? with_registers(p, paths, interval) : interval;
}

int64_t interval_bound(Arena *scratch, const IntervalProblem *p) {
  return bound_by(p, paths_new(scratch, p->events));
}

/* ---- the ways to order a pair ---- */

/* The numbers k of iterations, from `least` to `most`, that may separate a pair. */
typedef struct Choices {
  int64_t least, most;
  bool settled; /* the pair cannot overlap, whatever else is chosen */
} Choices;

static Pair twins_of(const IntervalProblem *p, const Pair *q) {
  if (!q->twins) return *q;
  return (Pair){p->twin[q->a], p->twin[q->b], q->cycles_a, q->cycles_b, false};
}

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

/* The choices that both a pair and its twins have. */
static Choices choices_together(const Search *s, const Pair *q) {
  Choices c = choices_of(s, q);
  Pair other = twins_of(s->problem, q);
  if (!q->twins) return c;
  Choices d = choices_of(s, &other);
  if (d.least > c.least) c.least = d.least;
  if (d.most < c.most) c.most = d.most;
  c.settled &= d.settled && c.least == c.most;
  return c;
}

static Edge forward(const Pair *q, int64_t k) { return (Edge){q->a, q->b, q->cycles_a, (int)k}; }
static Edge backward(const Pair *q, int64_t k) {
  return (Edge){q->b, q->a, q->cycles_b, (int)(1 - k)};
}

static void may_need(Search *s, int64_t interval) {
  if (interval > s->interval && interval < s->next) s->next = interval;
}

static int64_t needed_for(const Search *s, const Pair *q, int64_t k) {
  int64_t a = paths_needed(s->paths, forward(q, k)), b = paths_needed(s->paths, backward(q, k));
  return a > b ? a : b;
}

/* With a longer interval, k may be possible. */
static void consider_later(Search *s, const Pair *q, int64_t k) {
  Pair other = twins_of(s->problem, q);
  int64_t a = needed_for(s, q, k), b = q->twins ? needed_for(s, &other, k) : 0;
  may_need(s, a > b ? a : b);
}

/* ---- the search ---- */

/* A decided pair remains decided until the search backtracks, so it moves behind the others. */
static void set_aside(Search *s, int i) {
  Pair settled = s->pairs.at[i];
  s->pairs.at[i] = s->pairs.at[--s->open];
  s->pairs.at[s->open] = settled;
}

/* The pair with the fewest choices; false: all are settled. */
static bool next_pair(Search *s, Pair *found, Choices *best) {
  bool any = false;
  for (int i = 0; i < s->open; i++) {
    Choices c = choices_together(s, &s->pairs.at[i]);
    if (c.settled) {
      set_aside(s, i--);
      continue;
    }
    if (any && c.most - c.least >= best->most - best->least) continue;
    any = true, *found = s->pairs.at[i], *best = c;
    if (c.most <= c.least) break;
  }
  return any;
}

static bool put_apart(Search *s, const Pair *q, int64_t k) {
  int64_t needed = paths_add(s->paths, forward(q, k));
  if (!needed) needed = paths_add(s->paths, backward(q, k));
  may_need(s, needed);
  return !needed;
}

static bool separate(Search *s, const Pair *q, int64_t k) {
  Pair other = twins_of(s->problem, q);
  if (!put_apart(s, q, k) || (q->twins && !put_apart(s, &other, k))) return false;
  if (!pressure_exceeds(&s->problem->held, s->paths, s->interval)) return true;
  may_need(s, s->interval + 1);
  return false;
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
  Pair q;
  if (!next_pair(s, &q, &c)) return POSSIBLE;
  int open = s->open;
  consider_others(s, &q, &c);
  for (int64_t i = 0; i <= c.most - c.least; i++) {
    int mark = paths_mark(s->paths);
    Outcome found = separate(s, &q, s->late ? c.least + i : c.most - i) ? search(s) : IMPOSSIBLE;
    if (found != IMPOSSIBLE) return found;
    if (++s->wrong > s->budget) return UNDECIDED;
    paths_undo(s->paths, mark);
    s->open = open;
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
        vec_push(a, &s->pairs,
                 ((Pair){x->event, y->event, x->cycles, y->cycles, p->twin && x->unit == p->wave}));
    }
}

/* Decides s->interval or, if the edges alone need a longer one, that one. */
static Outcome decide_by(Search *s, Interval *found, bool late) {
  s->next = PATHS_NEVER, s->wrong = 0, s->late = late, s->open = s->pairs.n;
  if (!settle(s->problem, s->paths, &s->interval)) return IMPOSSIBLE;
  bool crowded = pressure_exceeds(&s->problem->held, s->paths, s->interval);
  if (crowded) s->next = s->interval + 1;
  Outcome outcome = crowded ? IMPOSSIBLE : search(s);
  found->wrong += s->wrong;
  if (outcome == POSSIBLE && s->interval < found->cycles) {
    found->cycles = s->interval;
    paths_starts(s->paths, found->start);
  }
  return outcome;
}

/* What one order of choices misses within the budget, the other often finds at once. */
static Outcome decide(Search *s, Interval *found) {
  Outcome outcome = decide_by(s, found, false);
  if (outcome == UNDECIDED) outcome = decide_by(s, found, true);
  if (outcome == IMPOSSIBLE && s->next > found->bound) found->bound = s->next;
  return outcome;
}

/* Tries longer and longer intervals until one is possible. Every longer one is possible, too. If
 * much longer ones are not found either, the budget grows, so that the search ends. Returns the
 * shortest interval for which it is not known that there is nothing. */
static int64_t find_some(Search *s, Interval *found) {
  int64_t least = s->interval, first = s->interval, step = 0;
  for (;;) {
    Outcome outcome = decide(s, found);
    if (outcome == POSSIBLE || found->bound == PATHS_NEVER) return least;
    if (s->interval > MOST_TIMES * first) return least; /* there are not enough registers */
    least = outcome == IMPOSSIBLE ? s->next : s->interval + 1;
    if (outcome == UNDECIDED && s->interval > 2 * first) s->budget += s->budget + 1;
    step = step ? 2 * step : s->interval / 64 + 1;
    s->interval = s->interval + step > least ? s->interval + step : least;
  }
}

/* Tries intervals between one at which nothing was found and one that is possible. */
static void shorten(Search *s, Interval *found, int64_t least) {
  const IntervalProblem *p = s->problem;
  s->budget = p->budget;
  while (least < found->cycles && (!p->total || found->wrong < p->total)) {
    if ((found->cycles - least) * p->close > 0 && (found->cycles - least) * p->close < least)
      return;
    int64_t middle = s->interval = least + (found->cycles - least) / 2;
    Outcome outcome = decide(s, found);
    if (outcome != POSSIBLE) least = outcome == IMPOSSIBLE ? s->next : middle + 1;
  }
}

/* A few intervals that are shorter than one that is known to be possible, the shortest one first. */
static void try_below(Search *s, Interval *found, int64_t known) {
  int64_t least = s->interval;
  for (int i = 0; i < FEW_TRIES && least < known; i++) {
    if (i) s->interval = least + (known - least) / 2;
    int64_t at = s->interval;
    Outcome outcome = decide(s, found);
    if (outcome == POSSIBLE) known = found->cycles;
    else least = outcome == IMPOSSIBLE ? s->next : at + 1;
  }
}

Interval interval_solve(Arena *a, const IntervalProblem *p) {
  Interval found = {.cycles = PATHS_NEVER, .start = ARENA_ARRAY(a, int64_t, p->events)};
  Search s = {.problem = p, .interval = busiest_unit(p), .budget = p->budget};
  find_pairs(a, &s);
  s.paths = paths_new(a, p->events);
  found.bound = s.interval = bound_by(p, s.paths);
  if (found.bound == PATHS_NEVER) return found;
  if (p->known) {
    try_below(&s, &found, p->known);
  } else {
    int64_t least = find_some(&s, &found);
    if (found.cycles != PATHS_NEVER) shorten(&s, &found, least);
  }
  if (found.bound > found.cycles) found.bound = found.cycles;
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
