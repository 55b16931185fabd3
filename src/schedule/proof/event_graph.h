/* event_graph.h: events of a program that is written out, and which of them follow which. */
#ifndef WV_SCHEDULE_EVENT_GRAPH_H
#define WV_SCHEDULE_EVENT_GRAPH_H

#include "base/arena.h"

typedef struct EventGraph EventGraph;

EventGraph *event_graph(Arena *a, int events);

void event_graph_add(EventGraph *g, int from, int to);

/* Whether `to` follows `from`. No edges are added after the first question. */
bool event_graph_orders(EventGraph *g, int from, int to);

typedef struct EventSet {
  const uint64_t *words;
} EventSet;

/* The events that follow all of `events`, each `base` and more, until the next call. */
EventSet event_graph_after_all(EventGraph *g, int base, const int *events, int n);

static inline bool event_set_has(EventSet s, int event) {
  return s.words[event / 64] >> (event % 64) & 1;
}

#endif
