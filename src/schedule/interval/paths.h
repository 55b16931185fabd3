/* paths.h: longest paths between the events of a loop that starts an iteration every `interval`
 * cycles.
 *
 * An edge says: in iteration i + distance, event `to` starts at least `delay` cycles after event
 * `from` started in iteration i. Since iterations are `interval` cycles apart, that is
 *
 *     start[to] - start[from] >= delay - distance * interval
 *
 * A value produced and consumed in one iteration is an edge of distance 0, one carried to the next
 * iteration an edge of distance 1, and a ring of n slots an edge of distance n from the last read of
 * a slot to the copy that fills it again. A cycle of edges is possible only if the interval is at
 * least the sum of its delays divided by the sum of its distances. */
#ifndef WV_SCHEDULE_PATHS_H
#define WV_SCHEDULE_PATHS_H

#include "base/arena.h"

typedef struct Edge {
  int from, to;
  int64_t delay;
  int distance; /* in iterations */
} Edge;

#define PATHS_NONE INT64_MIN  /* there is no path */
#define PATHS_NEVER INT64_MAX /* no interval is long enough */

typedef struct Paths Paths;

Paths *paths_new(Arena *a, int events);

/* Removes all edges. */
void paths_clear(Paths *p, int64_t interval);

/* Replaces all edges by these, at once. Returns 0, or an interval that some cycle of them needs, which
 * is longer; then the paths are not known. */
int64_t paths_fill(Paths *p, int64_t interval, const Edge *edges, int n);

/* The same, but keeps paths between the first events only, which takes less time: from then on there are
 * no others. */
int64_t paths_fill_first(Paths *p, int64_t interval, const Edge *edges, int n, int first);

/* Returns 0. If the edge closes a cycle that the interval is too short for, returns the shortest
 * interval that is long enough for this cycle, and changes nothing. */
int64_t paths_add(Paths *p, Edge e);

/* The interval that paths_add would return; 0: the edge fits. */
int64_t paths_needed(const Paths *p, Edge e);

/* The least difference between the starts of two events; PATHS_NONE. */
int64_t paths_between(const Paths *p, int from, int to);

/* Removes the edges that were added after paths_mark returned `mark`. */
int paths_mark(const Paths *p);
void paths_undo(Paths *p, int mark);

#endif
