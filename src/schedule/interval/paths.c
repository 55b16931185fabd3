/* paths.c: see paths.h. The matrix of all pairs is kept complete, so an edge that closes a cycle is
 * found by one look, and adding one costs O(events^2). Rows that change are saved for undo.
 *
 * Of several longest paths, one with the least distance counts, because it needs the longest interval
 * when it becomes part of a cycle. So a path is one number, its length in units of ONE minus its
 * distance: comparing two compares both, and adding two joins them. It is a whole number, as a `double`:
 * every machine has instructions for the greater of several of these, but not of integers of 64 bits. */
#include "schedule/interval/paths.h"

#include <string.h>

#include "base/vec.h"

#define ONE ((int64_t)1 << 20) /* distances are smaller than half of it, lengths than 2^33 */
#define NONE (-0x1p61)         /* no path, */
#define LEAST (-0x1p60)        /* nor is what is less than this: paths were added to NONE */

typedef struct SavedRow {
  int row;
  double *was;
} SavedRow;

struct Paths {
  Arena *arena;
  int most, n;       /* events: there is room for, there are */
  int stride, width; /* of rows: from one to the next, in use */
  int64_t interval;
  double *at;          /* at[from * stride + to] */
  Vec(SavedRow) saved; /* of these, the first `nsaved` are in use */
  int nsaved;
};

enum { BLOCK = 4 }; /* numbers that are compared at once: rows are filled up with NONE */

Paths *paths_new(Arena *a, int events) {
  Paths *p = ARENA_NEW(a, Paths);
  int stride = (events + BLOCK - 1) / BLOCK * BLOCK;
  *p = (Paths){.arena = a, .most = events, .n = events, .stride = stride, .width = stride};
  p->at = ARENA_ARRAY(a, double, events *stride);
  return p;
}

void paths_clear(Paths *p, int64_t interval) {
  p->interval = interval, p->nsaved = 0, p->n = p->most, p->width = p->stride;
  for (int i = 0; i < p->n * p->stride; i++) p->at[i] = NONE;
  for (int i = 0; i < p->n; i++) p->at[i * p->stride + i] = 0;
}

static double *row_of(const Paths *p, int from) { return p->at + from * p->stride; }
static bool is_path(double path) { return path > LEAST; }
static int64_t length_of(double path) { return floor_div64((int64_t)path + ONE / 2, ONE); }
static int64_t distance_of(double path) { return length_of(path) * ONE - (int64_t)path; }

static double path_along(const Paths *p, Edge e) {
  return (double)((e.delay - e.distance * p->interval) * ONE - e.distance);
}

int64_t paths_between(const Paths *p, int from, int to) {
  double path = row_of(p, from)[to];
  return is_path(path) ? length_of(path) : PATHS_NONE;
}

/* The interval that a cycle needs; 0: it is long enough. */
static int64_t needed_by(const Paths *p, double cycle) {
  int64_t length = length_of(cycle), distance = distance_of(cycle);
  if (length <= 0) return 0;
  return distance <= 0 ? PATHS_NEVER : p->interval + ceil_div64(length, distance);
}

int64_t paths_needed(const Paths *p, Edge e) {
  double back = row_of(p, e.to)[e.from];
  return is_path(back) ? needed_by(p, back + path_along(p, e)) : 0;
}

/* Replaces the paths of a row by those that begin with `head` and go on like `tails`, where these are
 * longer. */
static void lengthen(const Paths *p, double *restrict row, double head,
                     const double *restrict tails) {
  for (int i = 0; i < p->width; i += BLOCK)
    for (int j = i; j < i + BLOCK; j++) {
      double by = head + tails[j];
      row[j] = by > row[j] ? by : row[j];
    }
}

static void save_row(Paths *p, int row) {
  size_t bytes = sizeof(double) * (size_t)p->width;
  if (p->nsaved == p->saved.n)
    vec_push(p->arena, &p->saved, ((SavedRow){0, ARENA_ARRAY(p->arena, double, p->stride)}));
  SavedRow *to = &p->saved.at[p->nsaved++];
  to->row = row;
  memcpy(to->was, row_of(p, row), bytes);
}

/* Only paths that reach the edge's end by it, and lead on from its begin by it, can become longer. The
 * row of its end is not among them: that would be a cycle. */
int64_t paths_add(Paths *p, Edge e) {
  int64_t needed = paths_needed(p, e);
  if (needed) return needed;
  double edge = path_along(p, e);
  if (edge <= row_of(p, e.from)[e.to]) return 0;
  for (int a = 0; a < p->n; a++) {
    double *row = row_of(p, a), head = row[e.from] + edge;
    if (!is_path(row[e.from]) || head <= row[e.to] || a == e.to) continue;
    save_row(p, a);
    lengthen(p, row, head, row_of(p, e.to));
    row[a] = 0;
  }
  return 0;
}

/* Paths by way of an event. What is beyond the width of a row belongs to events that are gone. */
static int64_t close_over(Paths *p, int middle) {
  const double *tails = row_of(p, middle);
  for (int a = 0; a < p->n; a++) {
    double *row = row_of(p, a);
    if (a == middle || !is_path(row[middle])) continue;
    lengthen(p, row, row[middle], tails);
    int64_t needed = needed_by(p, row[a]);
    if (needed) return needed;
  }
  return 0;
}

int64_t paths_fill_first(Paths *p, int64_t interval, const Edge *edges, int n, int first) {
  paths_clear(p, interval);
  for (int i = 0; i < n; i++) {
    double edge = path_along(p, edges[i]), *at = &row_of(p, edges[i].from)[edges[i].to];
    if (edge > *at) *at = edge;
  }
  int64_t needed = 0;
  for (int i = 0; i < p->n && !needed; i++) needed = needed_by(p, row_of(p, i)[i]);
  for (int i = p->n - 1; i >= first && !needed; i--) {
    needed = close_over(p, i);
    p->n = i; /* no other path needs it */
  }
  p->n = first, p->width = (first + BLOCK - 1) / BLOCK * BLOCK;
  for (int i = 0; i < p->n && !needed; i++) needed = close_over(p, i);
  for (int i = 0; i < p->n && !needed; i++) row_of(p, i)[i] = 0;
  return needed;
}

int64_t paths_fill(Paths *p, int64_t interval, const Edge *edges, int n) {
  return paths_fill_first(p, interval, edges, n, p->most);
}

int paths_mark(const Paths *p) { return p->nsaved; }

void paths_undo(Paths *p, int mark) {
  while (p->nsaved > mark) {
    const SavedRow *s = &p->saved.at[--p->nsaved];
    memcpy(row_of(p, s->row), s->was, sizeof(double) * (size_t)p->width);
  }
}
