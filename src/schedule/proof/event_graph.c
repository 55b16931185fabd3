/* event_graph.c: see event_graph.h. What follows an event is a set of bits: that of its successors,
 * joined, each of which is found before; if events wait for each other, until nothing is new. */
#include "schedule/proof/event_graph.h"

#include "base/vec.h"

typedef struct Edge {
  int to, next; /* the next edge from the same event; -1 */
} Edge;

struct EventGraph {
  Arena *arena;
  int n, words;
  int *first; /* edge of an event; -1 */
  Vec(Edge) edges;
  uint64_t *all;   /* the set that event_graph_after_all returned last */
  uint64_t *after; /* words of each event; NULL: not asked yet */
  int *
      low; /* by event: all words before this one are 0: most of what follows has a higher number */
};

EventGraph *event_graph(Arena *a, int events) {
  EventGraph *g = ARENA_NEW(a, EventGraph);
  *g = (EventGraph){.arena = a, .n = events, .words = events / 64 + 1};
  g->first = ARENA_ARRAY(a, int, events + 1);
  for (int i = 0; i < events; i++) g->first[i] = -1;
  return g;
}

void event_graph_add(EventGraph *g, int from, int to) {
  vec_push(g->arena, &g->edges, ((Edge){to, g->first[from]}));
  g->first[from] = g->edges.n - 1;
}

static uint64_t *after(EventGraph *g, int event) {
  return g->after + (size_t)event * (size_t)g->words;
}

/* Adds `to` and what follows it; true if the set grew. */
static bool join(EventGraph *g, int event, int to) {
  uint64_t *own = after(g, event), grown = ~own[to / 64] & UINT64_C(1) << (to % 64);
  const uint64_t *further = after(g, to);
  int low = g->low[to] < to / 64 ? g->low[to] : to / 64;
  own[to / 64] |= grown;
  for (int w = g->low[to]; w < g->words; w++) grown |= further[w] & ~own[w], own[w] |= further[w];
  if (low < g->low[event]) g->low[event] = low;
  return grown != 0;
}

static bool join_all(EventGraph *g, int event) {
  bool grown = false;
  for (int i = g->first[event]; i >= 0; i = g->edges.at[i].next)
    grown |= join(g, event, g->edges.at[i].to);
  return grown;
}

/* The same if what follows its successors is known. Others often follow the next one, and are there then. */
static void join_known(EventGraph *g, int event) {
  int next = INT32_MAX;
  for (int i = g->first[event]; i >= 0; i = g->edges.at[i].next)
    if (g->edges.at[i].to > event && g->edges.at[i].to < next) next = g->edges.at[i].to;
  if (next < INT32_MAX) join(g, event, next);
  for (int i = g->first[event]; i >= 0; i = g->edges.at[i].next)
    if (!event_graph_orders(g, event, g->edges.at[i].to)) join(g, event, g->edges.at[i].to);
}

/* Of an event during the search: its next edge, and whether it was joined. */
typedef struct Visit {
  int edge;
  bool seen, joined;
} Visit;

/* An event is joined after all that follow it. False: one of them also comes before it. */
static bool visit(EventGraph *g, int event, Visit *of, int *stack) {
  bool ordered = true;
  int depth = 0;
  of[event].seen = true, stack[depth++] = event;
  while (depth) {
    Visit *top = &of[stack[depth - 1]];
    if (top->edge < 0) {
      join_known(g, stack[--depth]);
      top->joined = true;
      continue;
    }
    int to = g->edges.at[top->edge].to;
    top->edge = g->edges.at[top->edge].next;
    ordered &= !of[to].seen || of[to].joined;
    if (!of[to].seen) of[to].seen = true, stack[depth++] = to;
  }
  return ordered;
}

static void close_graph(EventGraph *g) {
  g->after = ARENA_ARRAY(g->arena, uint64_t, (size_t)g->n * (size_t)g->words + 1);
  g->all = ARENA_ARRAY(g->arena, uint64_t, g->words);
  g->low = ARENA_ARRAY(g->arena, int, g->n + 1);
  for (int i = 0; i < g->n; i++) g->low[i] = g->words;
  ArenaMark mark = arena_mark(g->arena);
  int *stack = ARENA_ARRAY(g->arena, int, g->n + 1);
  Visit *of = ARENA_ARRAY(g->arena, Visit, g->n + 1);
  bool ordered = true;
  for (int i = 0; i < g->n; i++) of[i].edge = g->first[i];
  for (int i = 0; i < g->n; i++)
    if (!of[i].seen) ordered &= visit(g, i, of, stack);
  for (bool grown = !ordered; grown;) {
    grown = false;
    for (int i = g->n - 1; i >= 0; i--) grown |= join_all(g, i);
  }
  arena_rewind(g->arena, mark);
}

bool event_graph_orders(EventGraph *g, int from, int to) {
  if (!g->after) close_graph(g);
  return event_set_has((EventSet){after(g, from)}, to);
}

EventSet event_graph_after_all(EventGraph *g, int base, const int *events, int n) {
  if (!g->after) close_graph(g);
  for (int w = 0; w < g->words; w++) g->all[w] = UINT64_MAX;
  for (int i = 0; i < n; i++) {
    const uint64_t *further = after(g, base + events[i]);
    for (int w = 0; w < g->words; w++) g->all[w] &= further[w];
  }
  return (EventSet){g->all};
}
