/* interval_place.c: see interval_place.h. */
#include "schedule/interval/interval_place.h"

enum {
  STEPS = 16,      /* an interval is longer than the one before by this share */
  MOST_TRIES = 24, /* intervals, up to four times the bound */
  FINE_TRIES = 3,  /* halvings between the last that failed and the first that did not */
  RETRIES = 3,     /* of each way, with events first that found no place */
  HASTENED = 12    /* and with values that wait less, if there are not enough registers */
};

/* In which order events are placed, and on which side of their windows: near those whose values they
 * use or near those that use theirs, whichever have more registers, if LIGHT. */
typedef enum Way { TIGHT_EARLY, TIGHT_LATE, FIRST_EARLY, LAST_LATE, TIGHT_LIGHT, WAYS } Way;

typedef struct Window {
  int64_t least, most; /* PATHS_NONE: no limit */
} Window;

typedef struct Placing {
  Arena *arena;
  const IntervalProblem *p;
  Paths *paths; /* of the edges */
  int64_t interval;
  Way way;
  int first;      /* the event that is placed first, at 0 */
  int *urgent;    /* by event: how often it found no place */
  int *gain;      /* by event: registers of what it computes, less those of what it uses */
  Window *window; /* by event: what the edges and the events that are placed allow */
  bool *placed;
  int64_t *start;
  UnitUse *uses;  /* in the order of events, */
  int *first_use; /* by event, and behind the last one */
} Placing;

/* Where an event may start; somewhere within an interval if that does not depend on the others. */
static Window window_of(const Placing *x, int event) {
  Window w = x->window[event];
  if (w.least == PATHS_NONE && w.most == PATHS_NONE) return (Window){0, x->interval - 1};
  if (w.least == PATHS_NONE) w.least = w.most - x->interval + 1;
  if (w.most == PATHS_NONE) w.most = w.least + x->interval - 1;
  return w;
}

/* Since the paths are the longest ones, no window of the others follows from more than one of them. */
static void put(Placing *x, int event, int64_t at) {
  x->placed[event] = true, x->start[event] = at;
  for (int i = 0; i < x->p->events; i++) {
    int64_t after = paths_between(x->paths, event, i), before = paths_between(x->paths, i, event);
    Window *w = &x->window[i];
    if (after != PATHS_NONE && (w->least == PATHS_NONE || at + after > w->least))
      w->least = at + after;
    if (before != PATHS_NONE && (w->most == PATHS_NONE || at - before < w->most))
      w->most = at - before;
  }
}

static bool is_late(const Placing *x, int event) {
  if (x->way == TIGHT_LIGHT) return x->gain[event] > 0;
  return x->way == TIGHT_LATE || x->way == LAST_LATE;
}

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
  if (!is_late(x, use->event))
    return apart < other->cycles ? other->cycles - apart : n - apart + other->cycles;
  return apart > n - use->cycles ? n - use->cycles - apart : -(apart + use->cycles);
}

/* The first shift that any unit needs; 0: all are free. */
static int64_t shift_at(const Placing *x, int event, int64_t at) {
  for (int i = x->first_use[event]; i < x->first_use[event + 1]; i++)
    for (int j = 0; j < x->first_use[x->p->events]; j++) {
      const UnitUse *use = &x->uses[i], *other = &x->uses[j];
      if (other->unit != use->unit || !x->placed[other->event]) continue;
      int64_t by = shift_past(x, use, at, other);
      if (by) return by;
    }
  return 0;
}

/* ---- placing ---- */

static bool place(Placing *x, int event) {
  Window w = window_of(x, event);
  int64_t at = is_late(x, event) ? w.most : w.least, by, from = at;
  while ((by = shift_at(x, event, at)) != 0) {
    at += by;
    if (at < w.least || at > w.most || at - from >= x->interval || from - at >= x->interval)
      return false;
  }
  if (at < w.least || at > w.most) return false;
  put(x, event, at);
  return true;
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
  for (int i = 0; i < x->p->events; i++)
    x->placed[i] = false, x->window[i] = (Window){PATHS_NONE, PATHS_NONE};
  put(x, x->first, 0);
  for (int i = 1; i < x->p->events; i++) {
    int next = next_event(x);
    if (!place(x, next)) return next;
  }
  return -1;
}

static bool is_crowded(const Placing *x) {
  const HeldValues *h = &x->p->held;
  return h->most && pressure_of(x->arena, h, x->start, x->interval) + h->spare > h->most;
}

/* The cycles for which a value of these starts waits longer for one of its uses than it must. */
static int64_t excess_of(const Placing *x, const HeldValue *v) {
  return x->start[v->to] - x->start[v->from] - paths_between(x->paths, v->from, v->to);
}

/* Allows the value that wastes most half of the time for which it waits; false: none waits. */
static bool hasten(Placing *x) {
  const HeldValues *h = &x->p->held;
  const HeldValue *worst = NULL;
  int64_t most = 0;
  for (int i = 0; i < h->n; i++) {
    const HeldValue *v = &h->at[i];
    if (paths_between(x->paths, v->from, v->to) == PATHS_NONE) continue;
    int64_t waste = excess_of(x, v) * v->registers;
    if (waste > most) most = waste, worst = v;
  }
  if (!worst) return false;
  int64_t wait = x->start[worst->to] - x->start[worst->from] - (excess_of(x, worst) + 1) / 2;
  return !paths_add(x->paths, (Edge){worst->to, worst->from, -wait, 0});
}

static bool try_way(Placing *x, Way way, Interval *found) {
  bool placed = false;
  x->way = way;
  for (int i = 0; i < x->p->events; i++) x->urgent[i] = 0;
  for (int fails = 0, tries = 0; !placed && fails < RETRIES && tries < HASTENED; tries++) {
    int failed = place_all(x);
    placed = failed < 0 && !is_crowded(x);
    if (failed >= 0) x->urgent[failed] = ++fails;
    found->crowded |= failed < 0 && !placed;
    if (failed < 0 && !placed && !hasten(x)) break;
  }
  if (placed) keep(x, found);
  paths_undo(x->paths, 0);
  return placed;
}

static bool try_interval(Placing *x, int64_t interval, Interval *found) {
  x->interval = interval;
  if (paths_fill(x->paths, interval, x->p->edges, x->p->nedges)) return false;
  for (int way = 0; way < WAYS; way++)
    if (try_way(x, (Way)way, found)) return true;
  return false;
}

static void find_gains(Placing *x) {
  const HeldValues *h = &x->p->held;
  for (int i = 0; i < h->n; i++) {
    x->gain[h->at[i].to] -= h->at[i].registers;
    if (!i || h->at[i].value != h->at[i - 1].value) x->gain[h->at[i].from] += h->at[i].registers;
  }
}

static void sort_uses(Arena *a, Placing *x) {
  const IntervalProblem *p = x->p;
  int n = 0;
  x->uses = ARENA_ARRAY(a, UnitUse, p->nuses), x->first_use = ARENA_ARRAY(a, int, p->events + 1);
  for (int event = 0; event < p->events; event++) {
    x->first_use[event] = n;
    for (int i = 0; i < p->nuses; i++)
      if (p->uses[i].event == event && p->uses[i].cycles) x->uses[n++] = p->uses[i];
  }
  x->first_use[p->events] = n;
}

/* Up to the interval that is known, if there is one. */
static bool is_useful(const IntervalProblem *p, int64_t interval) {
  return !p->known || interval < p->known;
}

Interval interval_place(Arena *a, const IntervalProblem *p) {
  Interval found = {.cycles = PATHS_NEVER, .bound = interval_bound(a, p)};
  found.start = ARENA_ARRAY(a, int64_t, p->events);
  Placing x = {.arena = a, .p = p, .paths = paths_new(a, p->events)};
  x.placed = ARENA_ARRAY(a, bool, p->events), x.start = ARENA_ARRAY(a, int64_t, p->events);
  x.urgent = ARENA_ARRAY(a, int, p->events), x.gain = ARENA_ARRAY(a, int, p->events);
  x.window = ARENA_ARRAY(a, Window, p->events), x.first = largest_event(p);
  find_gains(&x);
  sort_uses(a, &x);
  int64_t next = found.bound, failed = next - 1;
  if (next == PATHS_NEVER) return found;
  for (int i = 0; i < MOST_TRIES && is_useful(p, next) && !try_interval(&x, next, &found); i++)
    failed = next, next += next / STEPS + 1;
  bool any = found.cycles != PATHS_NEVER;
  for (int i = 0; any && i < FINE_TRIES && found.cycles - failed > 1; i++) {
    int64_t middle = failed + (found.cycles - failed) / 2;
    if (!try_interval(&x, middle, &found)) failed = middle;
  }
  return found;
}
