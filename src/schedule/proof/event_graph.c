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

/* True if the set grew. */
static bool join(EventGraph *g, int event) {
  uint64_t *own = after(g, event), grown = 0;
  for (int i = g->first[event]; i >= 0; i = g->edges.at[i].next) {
    int to = g->edges.at[i].to;
    const uint64_t *further = after(g, to);
    int low = g->low[to] < to / 64 ? g->low[to] : to / 64;
    for (int w = g->low[to]; w < g->words; w++) grown |= further[w] & ~own[w], own[w] |= further[w];
    if (low < g->low[event]) g->low[event] = low;
    grown |= ~own[to / 64] & UINT64_C(1) << (to % 64);
    own[to / 64] |= UINT64_C(1) << (to % 64);
  }
  return grown != 0;
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
      join(g, stack[--depth]);
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
    for (int i = g->n - 1; i >= 0; i--) grown |= join(g, i);
  }
  arena_rewind(g->arena, mark);
}

bool event_graph_orders(EventGraph *g, int from, int to) {
  if (!g->after) close_graph(g);
  return after(g, from)[to / 64] >> (to % 64) & 1;
}
