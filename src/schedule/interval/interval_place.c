/* interval_place.c: see interval_place.h. */
#include "schedule/interval/interval_place.h"

enum {
  STEPS = 16,      /* an interval is longer than the one before by this share */
  MOST_TRIES = 16, /* intervals; then the search of interval.h takes over */
  FINE_TRIES = 3,  /* halvings between the last that failed and the first that did not */
  RETRIES = 3      /* of each way, with events first that found no place */
};

/* In which order events are placed, and on which side of their windows. */
typedef enum Way { TIGHT_EARLY, TIGHT_LATE, FIRST_EARLY, LAST_LATE, WAYS } Way;

typedef struct Placing {
  const IntervalProblem *p;
  Paths *paths;
  int64_t interval;
  Way way;
  int first;   /* the event that was placed first, at 0 */
  int *urgent; /* by event: how often it found no place */
  bool *placed;
  int64_t *start;
} Placing;

typedef struct Window {
  int64_t least, most;
} Window;

/* Where an event may start; somewhere within an interval if that does not depend on the others. */
static Window window_of(const Placing *x, int event) {
  int64_t after = paths_between(x->paths, x->first, event);
  int64_t before = paths_between(x->paths, event, x->first);
  Window w = {after, before == PATHS_NONE ? PATHS_NONE : -before};
  if (after == PATHS_NONE && before == PATHS_NONE) return (Window){0, x->interval - 1};
  if (after == PATHS_NONE) w.least = w.most - x->interval + 1;
  if (before == PATHS_NONE) w.most = w.least + x->interval - 1;
  return w;
}

static bool is_late(const Placing *x) { return x->way == TIGHT_LATE || x->way == LAST_LATE; }

/* Which of two events is placed first: smaller is. */
static int64_t rank_of(const Placing *x, Window w) {
  if (x->way == FIRST_EARLY) return w.least;
  if (x->way == LAST_LATE) return -w.most;
  return w.most - w.least;
}

static int next_event(const Placing *x) {
  int next = -1;
  int64_t best = 0;
  for (int i = 0; i < x->p->events; i++) {
    if (x->placed[i]) continue;
    int64_t rank = rank_of(x, window_of(x, i));
    bool sooner = next >= 0 && x->urgent[i] != x->urgent[next] ? x->urgent[i] > x->urgent[next]
                                                               : next < 0 || rank < best;
    if (sooner) next = i, best = rank;
  }
  return next;
}

/* ---- units ---- */

/* How much later, or earlier, `use` would have to start for the placed use `other` to be past; 0: they
 * do not meet. */
static int64_t shift_past(const Placing *x, const UnitUse *use, int64_t at, const UnitUse *other) {
  int64_t n = x->interval, apart = at - x->start[other->event];
  apart -= floor_div64(apart, n) * n; /* from the other's start to this one's */
  if (apart >= other->cycles && apart <= n - use->cycles) return 0;
  if (!is_late(x)) return apart < other->cycles ? other->cycles - apart : n - apart + other->cycles;
  return apart > n - use->cycles ? n - use->cycles - apart : -(apart + use->cycles);
}

/* The first shift that any unit needs; 0: all are free. */
static int64_t shift_at(const Placing *x, int event, int64_t at) {
  const IntervalProblem *p = x->p;
  for (int i = 0; i < p->nuses; i++)
    for (int j = 0; p->uses[i].event == event && j < p->nuses; j++) {
      const UnitUse *use = &p->uses[i], *other = &p->uses[j];
      if (other->unit != use->unit || !x->placed[other->event] || !other->cycles || !use->cycles)
        continue;
      int64_t by = shift_past(x, use, at, other);
      if (by) return by;
    }
  return 0;
}

/* ---- placing ---- */

static bool place(Placing *x, int event) {
  Window w = window_of(x, event);
  int64_t at = is_late(x) ? w.most : w.least, by, from = at;
  while ((by = shift_at(x, event, at)) != 0) {
    at += by;
    if (at < w.least || at > w.most || at - from >= x->interval || from - at >= x->interval)
      return false;
  }
  if (at < w.least || at > w.most) return false;
  if (paths_add(x->paths, (Edge){x->first, event, at, 0}) ||
      paths_add(x->paths, (Edge){event, x->first, -at, 0}))
    return false;
  x->start[event] = at;
  return x->placed[event] = true;
}

/* The event that occupies its units longest: the others fit around it. */
static int largest_event(const IntervalProblem *p) {
  int largest = 0;
  int64_t most = -1;
  for (int i = 0; i < p->nuses; i++)
    if (p->uses[i].cycles > most) most = p->uses[i].cycles, largest = p->uses[i].event;
  return largest;
}

/* No event starts before 0. */
static void keep(const Placing *x, Interval *found) {
  int64_t least = 0;
  for (int i = 0; i < x->p->events; i++)
    if (x->start[i] < least) least = x->start[i];
  for (int i = 0; i < x->p->events; i++) found->start[i] = x->start[i] - least;
  found->cycles = x->interval;
}

/* The event that finds no place; -1: all do. */
static int place_all(Placing *x) {
  paths_undo(x->paths, 0);
  for (int i = 0; i < x->p->events; i++) x->placed[i] = false;
  x->placed[x->first] = true, x->start[x->first] = 0;
  for (int i = 1; i < x->p->events; i++) {
    int next = next_event(x);
    if (!place(x, next)) return next;
  }
  return -1;
}

static bool try_way(Placing *x, Way way, Interval *found) {
  x->way = way;
  for (int i = 0; i < x->p->events; i++) x->urgent[i] = 0;
  for (int i = 0; i < RETRIES; i++) {
    int failed = place_all(x);
    if (failed < 0) return keep(x, found), true;
    x->urgent[failed] = i + 1;
  }
  return false;
}

static bool try_interval(Placing *x, int64_t interval, Interval *found) {
  x->interval = interval;
  if (paths_fill(x->paths, interval, x->p->edges, x->p->nedges)) return false;
  for (int way = 0; way < WAYS; way++)
    if (try_way(x, (Way)way, found)) return true;
  return false;
}

Interval interval_place(Arena *a, const IntervalProblem *p) {
  Interval found = {PATHS_NEVER, interval_bound(a, p), ARENA_ARRAY(a, int64_t, p->events), 0};
  Placing x = {.p = p, .paths = paths_new(a, p->events)};
  x.placed = ARENA_ARRAY(a, bool, p->events), x.start = ARENA_ARRAY(a, int64_t, p->events);
  x.urgent = ARENA_ARRAY(a, int, p->events), x.first = largest_event(p);
  int64_t next = found.bound, failed = next - 1;
  if (next == PATHS_NEVER) return found;
  for (int i = 0; i < MOST_TRIES && !try_interval(&x, next, &found); i++)
    failed = next, next += next / STEPS + 1;
  if (found.cycles == PATHS_NEVER) return interval_solve(a, p);
  for (int i = 0; i < FINE_TRIES && found.cycles - failed > 1; i++) {
    int64_t middle = failed + (found.cycles - failed) / 2;
    if (!try_interval(&x, middle, &found)) failed = middle;
  }
  return found;
}
