/* loop_order.c: see loop_order.h. Least distances of all pairs by Floyd and Warshall's algorithm. */
#include "schedule/loop_order.h"

struct OrderTable {
  int n;
  int *
      least; /* least[from * n + to]: the least distance of a path with at least one edge, or NONE */
  int *via;  /* the event after `from` on that path */
  int stuck; /* an event that waits for itself; -1: none */
};

/* No path; nor is what is more than FAR: a distance was added to NONE. */
enum { NONE = INT32_MAX / 2, FAR = NONE / 2 };

int order_least(const OrderTable *t, int from, int to) {
  int least = t->least[from * t->n + to];
  return least > FAR ? ORDER_NONE : least;
}

static void shorten(OrderTable *t, int from, int to, int distance, int via) {
  if (distance >= t->least[from * t->n + to]) return;
  t->least[from * t->n + to] = distance;
  t->via[from * t->n + to] = via;
}

/* Paths from one event to another and on: without branches, many of them at once. A path from the middle
 * to itself has a positive distance, so that it shortens nothing. */
static void extend(OrderTable *t, int from, int middle) {
  int *restrict row = t->least + from * t->n, *restrict via = t->via + from * t->n;
  const int *restrict tail = t->least + middle * t->n;
  int head = row[middle], by = via[middle];
  for (int to = 0; to < t->n; to++) {
    int distance = head + tail[to];
    bool less = distance < row[to];
    row[to] = less ? distance : row[to];
    via[to] = less ? by : via[to];
  }
}

/* Stops at the first event that waits for itself: paths through it have no least distance. */
static void connect_through(OrderTable *t, int middle) {
  for (int from = 0; from < t->n && t->stuck < 0; from++) {
    if (order_least(t, from, middle) == ORDER_NONE) continue;
    if (from != middle) extend(t, from, middle);
    if (order_least(t, from, from) <= 0) t->stuck = from;
  }
}

OrderTable *order_table(Arena *a, int events, const Order *enforced, int n) {
  OrderTable *t = ARENA_NEW(a, OrderTable);
  *t = (OrderTable){events, ARENA_ARRAY(a, int, events *events),
                    ARENA_ARRAY(a, int, events *events), -1};
  for (int i = 0; i < events * events; i++) t->least[i] = NONE;
  for (int i = 0; i < n; i++) {
    shorten(t, enforced[i].from, enforced[i].to, enforced[i].distance, enforced[i].to);
    if (enforced[i].from == enforced[i].to && enforced[i].distance <= 0) t->stuck = enforced[i].to;
  }
  for (int i = 0; i < events && t->stuck < 0; i++) connect_through(t, i);
  return t;
}

int order_path(const OrderTable *t, int from, int to, int *path) {
  int n = 0, at = from;
  do {
    path[n++] = at;
    at = t->via[at * t->n + to];
  } while (at != to && n < t->n);
  path[n++] = to;
  return n;
}

int order_deadlock(const OrderTable *t, int *cycle) {
  if (t->stuck < 0) return 0;
  return order_path(t, t->stuck, t->stuck, cycle) - 1; /* its first event is its last */
}

bool order_holds(const OrderTable *t, Order required) {
  int distance = order_least(t, required.from, required.to);
  return distance != ORDER_NONE && distance <= required.distance;
}
