/* paths.c: see paths.h. The matrix of all pairs is kept complete, so an edge that closes a cycle is
 * found by one look, and adding one costs O(events^2). Entries that change are logged for undo. */
#include "schedule/interval/paths.h"

#include "base/vec.h"

/* The longest path from one event to another; of several, one with the least distance, because it
 * needs the longest interval when it becomes part of a cycle. */
typedef struct Path {
  int64_t length; /* delay - distance * interval; PATHS_NONE */
  int distance;
} Path;

typedef struct Change {
  int index;
  Path was;
} Change;

struct Paths {
  Arena *arena;
  int n;
  int64_t interval;
  Path *at; /* at[from * n + to] */
  Vec(Change) changes;
};

Paths *paths_new(Arena *a, int events) {
  Paths *p = ARENA_NEW(a, Paths);
  *p = (Paths){.arena = a, .n = events, .at = ARENA_ARRAY(a, Path, events * events)};
  return p;
}

void paths_clear(Paths *p, int64_t interval) {
  p->interval = interval, p->changes.n = 0;
  for (int i = 0; i < p->n * p->n; i++) p->at[i] = (Path){PATHS_NONE, 0};
  for (int i = 0; i < p->n; i++) p->at[i * p->n + i] = (Path){0, 0};
}

static const Path *path(const Paths *p, int from, int to) { return &p->at[from * p->n + to]; }

int64_t paths_between(const Paths *p, int from, int to) { return path(p, from, to)->length; }

int64_t paths_needed(const Paths *p, Edge e) {
  const Path *back = path(p, e.to, e.from);
  if (back->length == PATHS_NONE) return 0;
  int64_t length = back->length + e.delay - e.distance * p->interval;
  if (length <= 0) return 0;
  int64_t distance = (int64_t)back->distance + e.distance;
  if (distance <= 0) return PATHS_NEVER;
  return p->interval + ceil_div64(length, distance);
}

static bool is_longer(Path a, const Path *b) {
  return a.length > b->length || (a.length == b->length && a.distance < b->distance);
}

static void improve(Paths *p, int from, int to, Path by) {
  Path *at = &p->at[from * p->n + to];
  if (!is_longer(by, at)) return;
  vec_push(p->arena, &p->changes, ((Change){from * p->n + to, *at}));
  *at = by;
}

static Path joined(Path head, Path tail) {
  return (Path){head.length + tail.length, head.distance + tail.distance};
}

/* Only paths that reach the edge's end by it, and lead on from its begin by it, can become longer. */
int64_t paths_add(Paths *p, Edge e) {
  int64_t needed = paths_needed(p, e);
  if (needed) return needed;
  Path edge = {e.delay - e.distance * p->interval, e.distance};
  if (!is_longer(edge, path(p, e.from, e.to))) return 0;
  for (int a = 0; a < p->n; a++) {
    const Path *before = path(p, a, e.from);
    if (before->length == PATHS_NONE) continue;
    Path head = joined(*before, edge);
    if (!is_longer(head, path(p, a, e.to))) continue;
    for (int b = 0; b < p->n; b++) {
      const Path *tail = path(p, e.to, b);
      if (a != b && tail->length != PATHS_NONE) improve(p, a, b, joined(head, *tail));
    }
  }
  return 0;
}

/* The interval that the cycle through an event needs; 0: it is long enough. */
static int64_t needed_at(const Paths *p, int event) {
  const Path *cycle = path(p, event, event);
  if (cycle->length <= 0) return 0;
  if (cycle->distance <= 0) return PATHS_NEVER;
  return p->interval + ceil_div64(cycle->length, cycle->distance);
}

static int64_t close_over(Paths *p, int middle) {
  for (int a = 0; a < p->n; a++) {
    Path head = *path(p, a, middle);
    if (head.length == PATHS_NONE || a == middle) continue;
    for (int b = 0; b < p->n; b++) {
      const Path *tail = path(p, middle, b);
      if (tail->length == PATHS_NONE || b == middle) continue;
      Path by = joined(head, *tail), *at = &p->at[a * p->n + b];
      if (is_longer(by, at)) *at = by;
    }
    int64_t needed = needed_at(p, a);
    if (needed) return needed;
  }
  return 0;
}

int64_t paths_fill(Paths *p, int64_t interval, const Edge *edges, int n) {
  paths_clear(p, interval);
  for (int i = 0; i < n; i++) {
    Path edge = {edges[i].delay - edges[i].distance * interval, edges[i].distance};
    Path *at = &p->at[edges[i].from * p->n + edges[i].to];
    if (is_longer(edge, at)) *at = edge;
  }
  int64_t needed = 0;
  for (int i = 0; i < p->n && !needed; i++) needed = needed_at(p, i);
  for (int i = 0; i < p->n && !needed; i++) needed = close_over(p, i);
  for (int i = 0; i < p->n && !needed; i++) p->at[i * p->n + i] = (Path){0, 0};
  return needed;
}

int paths_mark(const Paths *p) { return p->changes.n; }

void paths_undo(Paths *p, int mark) {
  while (p->changes.n > mark) {
    const Change *c = &p->changes.at[--p->changes.n];
    p->at[c->index] = c->was;
  }
}

void paths_starts(const Paths *p, int64_t *start) {
  for (int to = 0; to < p->n; to++) {
    start[to] = 0;
    for (int from = 0; from < p->n; from++)
      if (path(p, from, to)->length > start[to]) start[to] = path(p, from, to)->length;
  }
}
