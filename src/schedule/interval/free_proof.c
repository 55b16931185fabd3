/* free_proof.c: see free_proof.h. */
#include "schedule/interval/free_proof.h"

#include <string.h>

/* ---- meetings ---- */

static bool is_same(const SharedTile *x, const SharedTile *y) {
  return x->fill == y->fill && x->read == y->read;
}

static bool meets_waves(const SharedTile *x) { return x->slots && !x->signals; }

/* Another event for a barrier. */
static int add_barrier(Free *f) {
  int i = f->n++;
  f->of[i] = f->of[f->barrier], f->twin[i] = i;
  return i;
}

static void make_room(Free *f, int more) {
  int *of = ARENA_ARRAY(f->arena, int, f->n + more),
      *twin = ARENA_ARRAY(f->arena, int, f->n + more);
  memcpy(of, f->of, sizeof(int) * (size_t)f->n);
  memcpy(twin, f->twin, sizeof(int) * (size_t)f->n);
  f->of = of, f->twin = twin;
}

/* ---- lateness ---- */

/* Whether an edge orders events of one iteration. */
static bool is_within(const Edge *e) { return e->distance == 0 && e->delay >= 0; }

/* What precedes an event, and its twin if `both`: by values, units and tiles, or only `within` an iteration. */
static bool *needed_by(const Free *f, int event, bool both, bool within) {
  bool *in = ARENA_ARRAY(f->arena, bool, f->n);
  in[event] = true;
  if (both) in[f->twin[event]] = true;
  for (bool grown = true; grown;) {
    grown = false;
    for (int i = 0; i < f->forward; i++) {
      const Edge *e = &f->edges.at[i];
      if (in[e->to] && !in[e->from] && (!within || is_within(e))) in[e->from] = grown = true;
    }
  }
  return in;
}

/* Barriers between these events, and no others, are as late as these. */
static void add_inner_barriers(const Free *f, bool *in, int edges) {
  for (int b = f->origin + 1; b < f->n; b++) {
    bool inner = true;
    for (int i = 0; inner && i < edges; i++) {
      const Edge *e = &f->edges.at[i];
      inner = (e->from != b || in[e->to]) && (e->to != b || in[e->from]);
    }
    in[b] = inner;
  }
}

/* A group of events, an op of both waves with all that precedes it, and what limits how late they can be. */
typedef struct Late {
  int last; /* the op's event in the first wave */
  int limit; /* the event of an op of the first wave that follows, which limits it as its twin does */
  int barrier; /* this one does, too; -1: none */
  int edges;   /* of the graph, without those that are added for lateness */
} Late;

/* Whether nothing else limits them, but the end of the last stage: if that does, one of them starts in it, so
 * that the last one does. */
static bool is_limited_by(const Free *f, const Late *l) {
  bool *in = needed_by(f, l->last, true, false), *within = needed_by(f, l->last, false, true);
  int last = f->twin[l->last], limit = f->twin[l->limit];
  add_inner_barriers(f, in, l->edges);
  if (in[l->limit] || in[limit]) return false;
  for (int i = 0; i < f->origin; i++)
    if (in[i] && free_is_first(f, i) && !within[i]) return false;
  for (int i = 0; i < l->edges; i++) {
    const Edge *e = &f->edges.at[i];
    bool ends = (e->from == l->last || e->from == last) && is_within(e);
    bool limits = e->to == l->limit || e->to == limit || e->to == l->barrier;
    if (in[e->to] && e->from == f->origin) return false;
    if (in[e->from] && !in[e->to] && !(ends && limits) && e->to != f->origin) return false;
  }
  return true;
}

static bool has_twin(const Free *f, int i) {
  return i >= 0 && free_is_first(f, i) && f->twin[i] != i;
}

/* The last store is less than an iteration before the barrier, and that before the first read. */
static void add_late_store(Free *f, const SharedTile *x, int barrier, int edges) {
  int store = f->event[x->fill->begins[0]], read = f->event[x->read->begins[0]];
  if (!has_twin(f, store) || !has_twin(f, read) || x->next) return;
  if (x->fill->ends[0] != x->fill->begins[0] || !free_lag(f, store) || !free_lag(f, read)) return;
  if (!is_limited_by(f, &(Late){store, read, barrier, edges})) return;
  free_add_edge(f, read, barrier, 1 - free_barrier_cycles(f), 1);
  free_add_edge(f, barrier, f->twin[store], 1 - free_cost(f, store)->takes, 1);
}

/* The most cycles of edges at this distance; -1: there are none. */
static int64_t delay_between(const Free *f, int from, int to, int distance, int edges) {
  int64_t most = -1;
  for (int i = 0; i < edges; i++) {
    const Edge *e = &f->edges.at[i];
    bool is = e->from == from && e->to == to && e->distance == distance;
    if (is && e->delay > most) most = e->delay;
  }
  return most;
}

/* In one of the waves, a tile is fetched less than an iteration before it could be at the latest. In the first
 * one it is so within the cycles by which the waves can be apart. The same of loads makes proofs longer. */
static void add_late_fetch(Free *f, Edge e, int edges) {
  int from = e.from, to = e.to;
  if (schedule_class(free_event(f, from)->op) != OP_CLASS_fetch) return;
  if (!is_within(&e) || !has_twin(f, from) || !has_twin(f, to)) return;
  int64_t delay = delay_between(f, from, to, 0, f->forward);
  if (delay != delay_between(f, f->twin[from], f->twin[to], 0, f->forward)) return;
  int64_t near = delay_between(f, f->twin[from], from, 1, edges);
  int64_t other = delay_between(f, f->twin[to], to, 1, edges);
  if (near > other) near = other;
  if (near < 0 || !is_limited_by(f, &(Late){from, to, -1, edges})) return;
  free_add_edge(f, to, from, 1 - delay + near + free_lag(f, to), 2);
}

/* ---- the graph ---- */

/* The event for the barrier before the reads of a tile. That of the tile with the fewest slots is there, or is
 * the one that every iteration has. */
static int add_tile(Free *f, const SharedTile *x, bool least) {
  bool few = x->slots <= FREE_FEW_SLOTS;
  if (least && f->meets_twice) return f->second;
  int filled = least && !few ? f->barrier : add_barrier(f);
  int emptied = !least && few ? add_barrier(f) : -1;
  free_add_meetings(f, x, emptied, filled);
  return filled;
}

static void add_arrivals(Free *f, int barriers) {
  IntervalMeetings *m = ARENA_NEW(f->arena, IntervalMeetings);
  bool *at = ARENA_ARRAY(f->arena, bool, f->n);
  int64_t *arrives = ARENA_ARRAY(f->arena, int64_t, f->n);
  for (int i = 0; i < f->origin; i++)
    if (schedule_class(free_event(f, i)->op) == OP_CLASS_store) arrives[i] = free_cost(f, i)->takes;
  at[f->barrier] = true, at[f->second] = f->meets_twice;
  for (int i = barriers; i < f->n; i++) at[i] = true;
  *m = (IntervalMeetings){at, arrives, free_barrier_cycles(f)};
  f->meetings = m;
}

void free_prove(Free *f) {
  int barriers = f->n;
  SharedTile least, x;
  if (f->barrier < 0 || f->waves < 2 || !free_least_shared(f, &least)) return;
  make_room(f, 2 * free_pairs(f));
  int *filled = ARENA_ARRAY(f->arena, int, free_pairs(f));
  for (int p = 0; p < free_pairs(f); p++) {
    bool meets = free_shared(f, p, &x) && meets_waves(&x);
    filled[p] = meets ? add_tile(f, &x, is_same(&x, &least)) : -1;
  }
  int edges = f->edges.n;
  for (int p = 0; p < free_pairs(f); p++)
    if (filled[p] >= 0 && free_shared(f, p, &x)) add_late_store(f, &x, filled[p], edges);
  for (int i = 0; i < f->flow; i++) add_late_fetch(f, f->edges.at[i], edges);
  add_arrivals(f, barriers);
}
