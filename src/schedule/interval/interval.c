/* interval.c: see interval.h. */
#include "schedule/interval/interval.h"

#include "base/vec.h"
#include "schedule/interval/interval_order.h"

enum {
  MOST_TIMES = 256,  /* the bound: after that, no longer interval is tried */
  FEW_TRIES = 4,     /* intervals below one that is known */
  STEPS = 64,        /* an interval that is too short is made longer by this share, then by more */
  MOST_FAR = 4096,   /* iterations */
  FINE = 512,        /* the share of an interval by which bounds from registers may be too short */
  LONGEST = 1 << 28, /* cycles: longer intervals are not looked at (paths.c) */
  ENOUGH = 50,       /* a bound that is lower by this share of an interval is good, */
  FIRST_STEP = 64    /* and goes up by this share at first */
};

/* Two events on one unit, and for how long each occupies it. */
typedef struct Pair {
  int a, b;
  int64_t cycles_a, cycles_b;
  bool twins; /* which are in the same order */
} Pair;

/* The edges and values of a problem, with other numbers for its events: of those between which paths are
 * looked at first. The paths of the others need not be kept up to date. */
typedef struct Net {
  int *number; /* by event */
  int first;   /* as many paths are kept */
  Edge *edges;
  int nedges;
  HeldValues held;
  Paths *paths;
} Net;

typedef struct Search {
  const IntervalProblem *problem;
  Arena *arena;
  Vec(Pair) pairs;
  int open; /* of these: the first ones; the others are settled */
  Net net;
  Paths *paths;           /* of the net */
  Paths *whole;           /* for tighten */
  double inverse;         /* of the interval */
  int64_t interval, next; /* the shortest longer interval that may be possible */
  long wrong, budget;     /* choices, for this interval */
  long steps, most_steps; /* choices, right or wrong; 0: any number */
  bool loose;             /* a number of iterations was chosen where any is possible: near, */
  int64_t far;            /* or so far away that no path excludes it; 0: near */
  bool held;              /* there may be too few registers for the values */
  bool proves;            /* that there is nothing: otherwise it looks for something */
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

/* Marks the events of values, and of units if `choices` are made; where waves are twins, all. */
static bool is_looked_at(const IntervalProblem *p, int event, bool choices) {
  bool is = choices && p->twin;
  for (int i = 0; choices && !is && i < p->nuses; i++) is = p->uses[i].event == event;
  for (int i = 0; p->held.most && !is && i < p->held.n; i++)
    is = p->held.at[i].from == event || p->held.at[i].to == event;
  return is;
}

static Net net_of(Arena *a, const IntervalProblem *p, bool choices) {
  Net net = {.nedges = p->nedges, .held = p->held, .paths = paths_new(a, p->events)};
  net.number = ARENA_ARRAY(a, int, p->events), net.edges = ARENA_ARRAY(a, Edge, p->nedges);
  HeldValue *held = ARENA_ARRAY(a, HeldValue, p->held.n);
  int last = p->events;
  for (int i = 0; i < p->events; i++)
    net.number[i] = is_looked_at(p, i, choices) ? net.first++ : --last;
  for (int i = 0; i < p->nedges; i++) {
    net.edges[i] = p->edges[i];
    net.edges[i].from = net.number[p->edges[i].from], net.edges[i].to = net.number[p->edges[i].to];
  }
  for (int i = 0; i < p->held.n; i++) {
    held[i] = p->held.at[i];
    held[i].from = net.number[held[i].from], held[i].to = net.number[held[i].to];
  }
  net.held.at = held;
  return net;
}

/* Finds the paths of the edges alone; returns what paths_fill does. */
static int64_t fill(const Net *net, int64_t interval) {
  return paths_fill_first(net->paths, interval, net->edges, net->nedges, net->first);
}

/* The same at *interval or the next longer one that is possible. */
static bool settle(const Net *net, int64_t *interval) {
  for (int64_t needed; (needed = fill(net, *interval)); *interval = needed)
    if (needed == PATHS_NEVER) return false;
  return true;
}

/* Whether there are not enough registers at an interval at which the edges are possible. */
static bool is_crowded(const Net *net, int64_t interval) {
  return !fill(net, interval) && pressure_exceeds(&net->held, net->paths, interval);
}

/* An interval, not shorter than `least`, for which registers may suffice, to within a small share of it. A
 * schedule stays one if it is made longer, so all that are shorter than one that is crowded are so, too.
 * PATHS_NEVER: values need more at the same time, however long it is. */
static int64_t with_registers(const Net *net, int64_t least) {
  int64_t crowded = least, enough = 2 * least;
  if (!is_crowded(net, least)) return least;
  while (is_crowded(net, enough)) {
    if (enough > LONGEST) return PATHS_NEVER;
    crowded = enough, enough *= 2;
  }
  while (enough - crowded > 1 + crowded / FINE) {
    int64_t middle = crowded + (enough - crowded) / 2;
    if (is_crowded(net, middle)) crowded = middle;
    else enough = middle;
  }
  return crowded + 1;
}

static int64_t bound_by(Arena *a, const IntervalProblem *p, const Net *net) {
  int64_t interval = interval_for_edges(a, p, busiest_unit(p));
  return p->held.most && interval != PATHS_NEVER ? with_registers(net, interval) : interval;
}

int64_t interval_bound(Arena *scratch, const IntervalProblem *p) {
  Net net = net_of(scratch, p, false);
  return bound_by(scratch, p, &net);
}

/* ---- the ways to order a pair ---- */

/* The numbers k of iterations, from `least` to `most`, that may separate a pair. */
typedef struct Choices {
  int64_t least, most;
  bool has_least, has_most; /* otherwise it is the first number whose window no path cuts off */
  bool settled;             /* the pair cannot overlap, whatever else is chosen */
} Choices;

static Pair twins_of(const IntervalProblem *p, const Pair *q) {
  if (!q->twins) return *q;
  return (Pair){p->twin[q->a], p->twin[q->b], q->cycles_a, q->cycles_b, false};
}

/* floor_div64 by the interval, for most numbers without a division. */
static inline int64_t floor_by(const Search *s, int64_t a) {
  int64_t n = s->interval, whole = (int64_t)((double)a * s->inverse - (a < 0)),
          rest = a - whole * n;
  return rest >= 0 && rest < n ? whole : floor_div64(a, n);
}

static Choices choices_of(const Search *s, const Pair *q) {
  int64_t n = s->interval, lo = paths_between(s->paths, q->a, q->b),
          hi = paths_between(s->paths, q->b, q->a);
  Choices c = {.has_least = hi != PATHS_NONE, .has_most = lo != PATHS_NONE};
  if (c.has_least) hi = -hi;
  if (c.has_most) c.most = floor_by(s, n - q->cycles_b - lo);
  if (c.has_least) c.least = -floor_by(s, hi - q->cycles_a);
  if (c.has_most && !c.has_least) c.least = floor_by(s, q->cycles_a - lo);
  if (!c.has_most && c.has_least) c.most = -floor_by(s, hi + q->cycles_b - n);
  c.settled = c.has_most && c.has_least && c.least == c.most && lo >= q->cycles_a - c.least * n &&
              hi <= n - q->cycles_b - c.least * n;
  return c;
}

/* A limit of one of them is one of both. */
static Choices choices_of_both(Choices c, Choices d) {
  Choices both = {.has_least = c.has_least || d.has_least, .has_most = c.has_most || d.has_most};
  int64_t low = c.least < d.least ? c.least : d.least, high = c.most > d.most ? c.most : d.most;
  both.least = !both.has_least              ? low
               : c.has_least && d.has_least ? c.least + d.least - low
               : c.has_least                ? c.least
                                            : d.least;
  both.most = !both.has_most             ? high
              : c.has_most && d.has_most ? c.most + d.most - high
              : c.has_most               ? c.most
                                         : d.most;
  both.settled = c.settled && d.settled && both.least == both.most;
  return both;
}

/* The choices that both a pair and its twins have. If an event does not follow from the other, everything
 * that follows from the one can be later by whole iterations. One number is then as good as all; the
 * nearest one makes short schedules, but paths between other events may exclude it, so that it proves
 * nothing. A far one does. */
static Choices choices_together(Search *s, const Pair *q) {
  Choices c = choices_of(s, q);
  Pair other = twins_of(s->problem, q);
  if (q->twins) c = choices_of_both(c, choices_of(s, &other));
  if (c.has_least && c.has_most) return c;
  s->loose = true;
  if (s->far && c.has_most) c.least = c.most = c.least - s->far;
  else if (s->far) c.least = c.most = c.most + s->far;
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

/* What takes longest decides most. In a proof all orders are refuted, so it is what decides most in either. */
static int64_t weight_of(const Search *s, const Pair *q) {
  if (!s->proves) return q->cycles_a + q->cycles_b;
  return q->cycles_a < q->cycles_b ? q->cycles_a : q->cycles_b;
}

/* The pair with the fewest choices, of these the one that decides most; false: all are settled. */
static bool next_pair(Search *s, Pair *found, Choices *best) {
  bool any = false;
  for (int i = 0; i < s->open; i++) {
    Choices c = choices_together(s, &s->pairs.at[i]);
    if (c.settled) {
      set_aside(s, i--);
      continue;
    }
    int64_t more = any ? (c.most - c.least) - (best->most - best->least) : -1;
    bool decides = any && weight_of(s, &s->pairs.at[i]) > weight_of(s, found);
    if (more > 0 || (more == 0 && !decides)) continue;
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
  s->steps++;
  Pair other = twins_of(s->problem, q);
  if (!put_apart(s, q, k) || (q->twins && !put_apart(s, &other, k))) return false;
  if (!s->held || !pressure_exceeds(&s->net.held, s->paths, s->interval)) return true;
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

static bool is_spent(const Search *s) { return s->most_steps && s->steps > s->most_steps; }

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
    if (++s->wrong > s->budget || is_spent(s)) return UNDECIDED;
    paths_undo(s->paths, mark);
    s->open = open;
  }
  return IMPOSSIBLE;
}

/* ---- all intervals ---- */

static int number_of(const Search *s, int event) { return s->net.number[event]; }

/* For how long an event keeps the unit from another one, which may be a meeting. */
static int64_t kept_from(const IntervalProblem *p, const UnitUse *use, int other) {
  bool meets = p->meetings && use->unit == p->wave && p->meetings->at[other];
  int64_t arrives = meets ? p->meetings->arrives[use->event] : 0;
  return arrives > use->cycles ? arrives : use->cycles;
}

static bool uses_any(const IntervalProblem *p, int event) {
  for (int i = 0; i < p->nuses; i++)
    if (p->uses[i].event == event) return true;
  return false;
}

/* Ops of a wave, and meetings that may be the same as others. */
static void find_meetings(Arena *a, Search *s) {
  const IntervalProblem *p = s->problem;
  for (int i = 0; p->meetings && i < p->events; i++)
    for (int j = 0; p->meetings->at[i] && !uses_any(p, i) && j < p->nuses; j++) {
      const UnitUse *use = &p->uses[j];
      if (use->unit != p->wave || !use->cycles || p->meetings->at[use->event]) continue;
      vec_push(a, &s->pairs,
               ((Pair){number_of(s, use->event), number_of(s, i), kept_from(p, use, i),
                       p->meetings->cycles, true}));
    }
}

static void find_pairs(Arena *a, Search *s) {
  const IntervalProblem *p = s->problem;
  for (int i = 0; i < p->nuses; i++)
    for (int j = i + 1; j < p->nuses; j++) {
      const UnitUse *x = &p->uses[i], *y = &p->uses[j];
      if (x->unit == y->unit && x->event != y->event && x->cycles && y->cycles)
        vec_push(a, &s->pairs,
                 ((Pair){number_of(s, x->event), number_of(s, y->event), kept_from(p, x, y->event),
                         kept_from(p, y, x->event), p->twin && x->unit == p->wave}));
    }
  find_meetings(a, s);
}

static Search search_of(Arena *a, const IntervalProblem *p) {
  Search s = {.problem = p, .arena = a, .budget = p->budget, .net = net_of(a, p, true)};
  find_pairs(a, &s);
  s.paths = s.net.paths;
  return s;
}

/* Iterations within which all events can start. */
static int64_t far_of(const IntervalProblem *p, int64_t interval) {
  int64_t sum = interval;
  for (int i = 0; i < p->nedges; i++)
    sum += (p->edges[i].delay > 0 ? p->edges[i].delay : 0) + p->edges[i].distance * interval;
  for (int i = 0; i < p->nuses; i++) sum += 2 * p->uses[i].cycles;
  sum = sum / interval + 1;
  return sum < MOST_FAR ? sum : MOST_FAR;
}

/* What was not found near is not there if it is not found far away either. */
static Outcome search_far(Search *s) {
  paths_undo(s->paths, 0);
  s->open = s->pairs.n, s->far = far_of(s->problem, s->interval);
  return search(s);
}

/* The earliest starts of events for which paths are kept, and those of the others, which follow: as long as
 * an edge makes one later. */
static void find_starts(const Search *s, int64_t *start) {
  const IntervalProblem *p = s->problem;
  bool later = true;
  for (int i = 0; i < p->events; i++) start[i] = 0;
  while (later) {
    later = false;
    for (int i = 0; i < p->nedges; i++) {
      const Edge *e = &p->edges[i];
      int64_t to = start[e->from] + e->delay - e->distance * s->interval;
      if (to > start[e->to]) start[e->to] = to, later = true;
    }
    for (int i = 0; i < p->events; i++)
      for (int j = 0; s->net.number[i] < s->net.first && j < p->events; j++) {
        if (s->net.number[j] >= s->net.first) continue;
        int64_t by = paths_between(s->paths, s->net.number[i], s->net.number[j]);
        if (by != PATHS_NONE && start[i] + by > start[j]) start[j] = start[i] + by, later = true;
      }
  }
}

/* Decides s->interval or, if the edges alone need a longer one, that one. */
static Outcome decide_by(Search *s, Interval *found, bool late) {
  s->next = PATHS_NEVER, s->wrong = 0, s->late = late, s->open = s->pairs.n;
  if (!settle(&s->net, &s->interval)) return IMPOSSIBLE;
  s->inverse = 1 / (double)s->interval;
  bool crowded = pressure_exceeds(&s->net.held, s->paths, s->interval);
  if (crowded) s->next = s->interval + 1;
  s->held = pressure_may_exceed(&s->net.held, s->paths, s->interval);
  s->loose = false, s->far = 0;
  Outcome outcome = crowded ? IMPOSSIBLE : search(s);
  if (outcome == IMPOSSIBLE && s->loose) outcome = search_far(s);
  found->wrong += s->wrong;
  if (outcome == POSSIBLE && s->interval < found->cycles) {
    found->cycles = s->interval;
    find_starts(s, found->start);
  }
  return outcome;
}

/* What one order of choices misses within the budget, the other often finds at once. */
static Outcome decide(Search *s, Interval *found) {
  Outcome outcome = decide_by(s, found, false);
  if (outcome == UNDECIDED) outcome = decide_by(s, found, true);
  if (outcome == POSSIBLE && !s->problem->held.most && !s->problem->twin)
    interval_tighten(s->arena, s->problem, found);
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
    step = step ? 2 * step : s->interval / STEPS + 1;
    s->interval = s->interval + step > least ? s->interval + step : least;
  }
}

/* Tries intervals between one at which nothing was found and one that is possible. The one that was found
 * last is often the shortest. */
static void shorten(Search *s, Interval *found, int64_t least) {
  const IntervalProblem *p = s->problem;
  bool last = !p->held.most && !p->twin;
  s->budget = p->budget;
  while (least < found->cycles && (!p->total || found->wrong < p->total)) {
    if ((found->cycles - least) * p->close > 0 && (found->cycles - least) * p->close < least)
      return;
    int64_t at = s->interval = last ? found->cycles - 1 : least + (found->cycles - least) / 2;
    Outcome outcome = decide(s, found);
    if (outcome == IMPOSSIBLE) least = s->next;
    else if (outcome == UNDECIDED && !last) least = at + 1;
    last = !last && outcome != UNDECIDED && !p->held.most && !p->twin;
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

/* Returns the shortest interval for which it is not known that there is nothing. */
static int64_t try_guess(Search *s, Interval *found, int64_t guess) {
  int64_t least = s->interval;
  s->interval = guess;
  return decide(s, found) == IMPOSSIBLE ? s->next : least;
}

Interval interval_solve(Arena *a, const IntervalProblem *p) {
  Interval found = {.cycles = PATHS_NEVER, .start = ARENA_ARRAY(a, int64_t, p->events)};
  Search s = search_of(a, p);
  found.bound = s.interval = bound_by(a, p, &s.net);
  if (found.bound == PATHS_NEVER) return found;
  if (p->known) {
    try_below(&s, &found, p->known);
  } else {
    int64_t least = found.bound;
    if (p->guess > least) least = try_guess(&s, &found, p->guess);
    s.interval = least;
    if (found.cycles == PATHS_NEVER) least = find_some(&s, &found);
    if (found.cycles != PATHS_NEVER) shorten(&s, &found, least);
  }
  if (found.bound > found.cycles) found.bound = found.cycles;
  return found;
}

/* ---- proofs ---- */

/* Whether there is nothing at an interval, with that many choices; then the bound is higher. */
static bool refutes(Search *s, Interval *found, int64_t at, long steps, int64_t *bound) {
  s->interval = at, s->most_steps = s->steps + steps;
  if (decide_by(s, found, false) != IMPOSSIBLE) return false;
  *bound = s->next > at ? s->next : at + 1;
  return true;
}

/* The longest interval that is worth it comes first. If that takes too long, the bound goes up in steps, since
 * the shorter an interval, the sooner it is refuted. They become smaller where it takes too long. */
int64_t interval_raise(Arena *a, const IntervalProblem *p, int64_t bound, int64_t known) {
  Interval found = {.cycles = known, .start = ARENA_ARRAY(a, int64_t, p->events)};
  Search s = search_of(a, p);
  int64_t by = known / FIRST_STEP + 1, enough = known - known / ENOUGH;
  s.budget = p->total, s.proves = true;
  if (bound < enough && refutes(&s, &found, enough, p->total / 4 * 3, &bound))
    refutes(&s, &found, known - 1, p->total / 4, &bound), by = 0;
  while (bound < known && by * p->close > known && s.steps < p->total) {
    int64_t at = bound + by <= known ? bound + by - 1 : known - 1;
    if (refutes(&s, &found, at, (p->total - s.steps) / 3 + 1, &bound)) by *= 2;
    else by = by > 1 ? (by + 3) / 4 : 0;
  }
  return bound < known ? bound : known;
}
