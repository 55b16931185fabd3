/* interval_order.c: see interval_order.h. In a given order there is nothing left to choose: edges say it
 * all, and the shortest interval is the greatest that a cycle of them needs. */
#include "schedule/interval/interval_order.h"

enum { ROUNDS = 4 }; /* after which a cycle is looked for: most are found soon */

typedef struct EdgeList {
  const Edge *at;
  int n;
} EdgeList;

/* From the start of an event to the next start of another one, in whichever iteration. */
static int64_t until_next(const Interval *found, int from, int to) {
  int64_t apart = found->start[to] - found->start[from];
  return apart - floor_div64(apart, found->cycles) * found->cycles;
}

/* The next use of the same unit, or this one if it is the only one. */
static const UnitUse *next_use(const IntervalProblem *p, const Interval *found,
                               const UnitUse *use) {
  const UnitUse *next = use;
  int64_t least = INT64_MAX;
  for (int i = 0; i < p->nuses; i++) {
    const UnitUse *other = &p->uses[i];
    if (other->unit != use->unit || other->event == use->event || !other->cycles) continue;
    int64_t apart = until_next(found, use->event, other->event);
    if (apart < least) least = apart, next = other;
  }
  return next;
}

/* The edges, and those by which the starts order events on one unit: each before the one that follows. */
static EdgeList ordered_edges(Arena *a, const IntervalProblem *p, const Interval *found) {
  Edge *all = ARENA_ARRAY(a, Edge, p->nedges + p->nuses);
  int n = p->nedges;
  for (int i = 0; i < p->nedges; i++) all[i] = p->edges[i];
  for (int i = 0; i < p->nuses; i++) {
    const UnitUse *use = &p->uses[i];
    if (!use->cycles) continue;
    int from = use->event, to = next_use(p, found, use)->event;
    int64_t k = -floor_div64(found->start[to] - found->start[from], found->cycles);
    all[n++] = (Edge){from, to, use->cycles, from == to ? 1 : (int)k};
  }
  return (EdgeList){all, n};
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

/* An event of a cycle of the edges by which paths became longer, which needs a longer interval; -1: there is
 * none so far. `seen` is room for all events. */
static int find_cycle(const IntervalProblem *p, const EdgeList *edges, const int *by, int *seen) {
  for (int i = 0; i < p->events; i++) seen[i] = -1;
  for (int i = 0; i < p->events; i++) {
    int at = i;
    for (; at >= 0 && seen[at] < 0; at = by[at] < 0 ? -1 : edges->at[by[at]].from) seen[at] = i;
    if (at >= 0 && seen[at] == i) return at;
  }
  return -1;
}

/* An event of a cycle that needs a longer interval; -1: none does, and `length` are starts. `by` has the
 * edges of the cycle, by the event at which each ends. `seen`: room to look for a cycle after every few
 * rounds; NULL: after all of them. */
static int long_cycle(const IntervalProblem *p, const EdgeList *edges, int64_t interval,
                      int64_t *length, int *by, int *seen) {
  int at = -1;
  for (int i = 0; i < p->events; i++) length[i] = 0, by[i] = -1;
  for (int i = 0; i <= p->events; i++) {
    if ((at = lengthen(edges, interval, length, by)) < 0) return -1;
    int cycle = seen && i % ROUNDS == ROUNDS - 1 ? find_cycle(p, edges, by, seen) : -1;
    if (cycle >= 0) return cycle;
  }
  for (int i = 0; i < p->events; i++) at = edges->at[by[at]].from; /* now it is on the cycle */
  return at;
}

/* The interval that a cycle needs; PATHS_NEVER: none is long enough. */
static int64_t needed_by(const EdgeList *edges, const int *by, int first) {
  int64_t delay = 0, distance = 0;
  int at = first;
  do {
    const Edge *e = &edges->at[by[at]];
    delay += e->delay, distance += e->distance, at = e->from;
  } while (at != first);
  return distance > 0 ? ceil_div64(delay, distance) : PATHS_NEVER;
}

/* The shortest interval from `least` on that is long enough for all cycles, or `most` if that is
 * shorter. */
static int64_t long_enough(Arena *a, const IntervalProblem *p, const EdgeList *edges, int64_t least,
                           int64_t most, int64_t *length) {
  int *by = ARENA_ARRAY(a, int, p->events), *seen = ARENA_ARRAY(a, int, p->events), at;
  while (least < most && (at = long_cycle(p, edges, least, length, by, seen)) >= 0)
    least = needed_by(edges, by, at);
  return least < most ? least : most;
}

int64_t interval_for_edges(Arena *a, const IntervalProblem *p, int64_t least) {
  EdgeList edges = {p->edges, p->nedges};
  return long_enough(a, p, &edges, least, PATHS_NEVER, ARENA_ARRAY(a, int64_t, p->events));
}

void interval_tighten(Arena *a, const IntervalProblem *p, Interval *found) {
  EdgeList edges = ordered_edges(a, p, found);
  int64_t *length = ARENA_ARRAY(a, int64_t, p->events);
  int64_t cycles = long_enough(a, p, &edges, found->bound, found->cycles, length);
  if (cycles >= found->cycles) return;
  found->cycles = cycles;
  for (int i = 0; i < p->events; i++) found->start[i] = length[i];
}

int interval_cycle(Arena *a, const IntervalProblem *p, const Interval *found, int *events) {
  EdgeList edges = ordered_edges(a, p, found);
  int64_t *length = ARENA_ARRAY(a, int64_t, p->events + 1);
  int *by = ARENA_ARRAY(a, int, p->events + 1), n = 0;
  int first = long_cycle(p, &edges, found->cycles - 1, length, by, NULL);
  if (first < 0) return 0;
  for (int at = first; !n || at != first; at = edges.at[by[at]].from) events[n++] = at;
  for (int i = 0; i < n / 2; i++) {
    int other = events[i];
    events[i] = events[n - 1 - i], events[n - 1 - i] = other;
  }
  return n;
}
