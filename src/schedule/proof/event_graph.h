/* event_graph.h: events of a program that is written out, and which of them follow which. */
#ifndef WV_SCHEDULE_EVENT_GRAPH_H
#define WV_SCHEDULE_EVENT_GRAPH_H

#include "base/arena.h"

typedef struct EventGraph EventGraph;

EventGraph *event_graph(Arena *a, int events);

void event_graph_add(EventGraph *g, int from, int to);

/* Whether `to` follows `from`. No edges are added after the first question. */
bool event_graph_orders(EventGraph *g, int from, int to);

#endif
