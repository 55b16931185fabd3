/* loop_order.c: see loop_order.h. Least distances of all pairs by Floyd and Warshall's algorithm. */
#include "schedule/loop_order.h"

struct OrderTable {
  int n;      /* events */
  int *least; /* [from * n + to]: the least distance of a path of at least one edge, or NONE */
  int *via;   /* the event after `from` on that path; NULL unless an event waits for itself */
  int stuck;  /* that event; -1: none */
};

/* No path; nor is what is more than FAR: a distance was added to NONE. */
enum { NONE = INT32_MAX / 2, FAR = NONE / 2 };

int order_least(const OrderTable *t, int from, int to) {
  int least = t->least[from * t->n + to];
  return least > FAR ? ORDER_NONE : least;
}

/* Paths from one event to another and on, without branches. A path from the middle to itself has a positive
 * distance, so that it shortens nothing. */
static void extend(const OrderTable *t, int from, int middle) {
  int *restrict row = t->least + from * t->n, head = row[middle];
  const int *restrict tail = t->least + middle * t->n;
  for (int to = 0; to < t->n; to++) {
    int distance = head + tail[to];
    row[to] = distance < row[to] ? distance : row[to];
  }
}

/* The same, if paths themselves are looked for, too. */
static void extend_known(const OrderTable *t, int from, int middle) {
  int *row = t->least + from * t->n, *via = t->via + from * t->n, head = row[middle];
  const int *tail = t->least + middle * t->n;
  for (int to = 0; to < t->n; to++)
    if (head + tail[to] < row[to]) row[to] = head + tail[to], via[to] = via[middle];
}

/* Stops at the first event that waits for itself: paths through it have no least distance. */
static void connect_through(OrderTable *t, int middle) {
  for (int from = 0; from < t->n && t->stuck < 0; from++) {
    if (order_least(t, from, middle) == ORDER_NONE) continue;
    if (from != middle && t->via) extend_known(t, from, middle);
    else if (from != middle) extend(t, from, middle);
    if (order_least(t, from, from) <= 0) t->stuck = from;
  }
}

static void connect_all(OrderTable *t, const Order *enforced, int n) {
  t->stuck = -1;
  for (int i = 0; i < t->n * t->n; i++) t->least[i] = NONE;
  for (int i = 0; i < n; i++) {
    const Order *o = &enforced[i];
    int at = o->from * t->n + o->to;
    if (o->from == o->to && o->distance <= 0) t->stuck = o->to;
    if (o->distance >= t->least[at]) continue;
    t->least[at] = o->distance;
    if (t->via) t->via[at] = o->to;
  }
  for (int i = 0; i < t->n && t->stuck < 0; i++) connect_through(t, i);
}

/* Paths themselves are only of interest if one of them is a deadlock: then they are found again. */
OrderTable *order_table(Arena *a, int events, const Order *enforced, int n) {
  OrderTable *t = ARENA_NEW(a, OrderTable);
  *t = (OrderTable){.n = events, .least = ARENA_ARRAY(a, int, events *events)};
  connect_all(t, enforced, n);
  if (t->stuck < 0) return t;
  t->via = ARENA_ARRAY(a, int, events *events);
  connect_all(t, enforced, n);
  return t;
}

int order_deadlock(const OrderTable *t, int *cycle) {
  int n = 0, at = t->stuck;
  if (at < 0) return 0;
  do {
    cycle[n++] = at;
    at = t->via[at * t->n + t->stuck];
  } while (at != t->stuck && n < t->n);
  return n;
}

bool order_holds(const OrderTable *t, Order required) {
  int distance = order_least(t, required.from, required.to);
  return distance != ORDER_NONE && distance <= required.distance;
}
