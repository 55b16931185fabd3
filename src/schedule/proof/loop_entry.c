/* loop_entry.c: see loop_entry.h. */
#include "schedule/proof/loop_entry.h"

#include "ir/ops/access.h"
#include "schedule/groups/loop_lag.h"
#include "schedule/proof/event_graph.h"

/* Events before the loop come first, then those of each iteration. */
struct LoopEntry {
  const Distribution *d;
  const LoopGraph *entry, *body;
  int iterations;
  bool ends;
  EventGraph *graph;
};

static int event_at(const LoopEntry *e, int event, int iteration) {
  return iteration < 0 ? event : e->entry->events.n + iteration * e->body->events.n + event;
}

static void add_edge(LoopEntry *e, int from, int to) { event_graph_add(e->graph, from, to); }

/* ---- edges ---- */

static void add_iterations(LoopEntry *e, const Order *o) {
  for (int to = 0; to < e->iterations; to++) {
    int at = to - o->distance;
    if (e->ends && o->distance < 0 && at >= e->iterations) at = e->iterations - 1;
    if (at >= 0 && at < e->iterations)
      add_edge(e, event_at(e, o->from, at), event_at(e, o->to, to));
  }
}

static void add_orders(LoopEntry *e) {
  for (int i = 0; i < e->entry->enforced.n; i++)
    add_edge(e, e->entry->enforced.at[i].from, e->entry->enforced.at[i].to);
  for (int i = 0; i < e->body->enforced.n; i++) add_iterations(e, &e->body->enforced.at[i]);
  for (int w = 0; w < LOOP_WAVES; w++)
    if (e->entry->last[w] >= 0 && e->body->first[w] >= 0)
      add_edge(e, e->entry->last[w], event_at(e, e->body->first[w], 0));
}

/* The second half of the waves passes one barrier before the loop, at which it meets the first half at
 * the first barrier of the loop (loop_lag.h). What either left in flight, other barriers order. */
static void add_opening(LoopEntry *e) {
  const LoopTurn *open = loop_lag_opening(e->d, e->entry);
  if (!open || !e->body->lagged || !e->iterations) return;
  const LoopTurn *first = &e->body->turns.at[0];
  while (first->leaves[0] < 0) first++; /* a wait */
  if (loop_lag_waits(open)) add_edge(e, open->event[1], event_at(e, first->leaves[0], 0));
  if (loop_lag_waits(first)) add_edge(e, event_at(e, first->event[0], 0), open->leaves[1]);
}

/* The first iteration in which the wait covers a group that was closed before the loop; -1: none of
 * those that are looked at. */
static int waited_in(const LoopEntry *e, const LoopWait *wait, const LoopFlight *f) {
  for (int i = 0; i < e->iterations; i++) {
    int closed = e->entry->groups + i * e->body->groups + wait->closed;
    if (f->group < 0 ? !wait->left : f->group + 1 + wait->left <= closed) return i;
  }
  return -1;
}

static void await_groups(LoopEntry *e, const LoopWait *wait) {
  for (int i = 0; i < e->entry->copies.n; i++) {
    const LoopFlight *f = &e->entry->copies.at[i];
    bool other = copy_barriers(f->op) || (wait->silent && f->published);
    int at = other ? -1 : waited_in(e, wait, f);
    for (int w = 0; at >= 0 && w < LOOP_WAVES; w++)
      if (f->done[w] >= 0) add_edge(e, f->done[w], event_at(e, wait->event[w], at));
  }
}

static void await_phases(LoopEntry *e, const LoopWait *wait) {
  int filled;
  for (int i = 0; i < e->entry->copies.n; i++) {
    const LoopFlight *f = &e->entry->copies.at[i];
    const Attr *at = op_attr(f->op, ATTR_iteration);
    int maker = loop_maker(f->done);
    if (copy_barriers(f->op) != wait->op->args[0] || maker < 0 || !at) continue;
    if (!loop_names_iteration(e->d->k, e->body->loop, at, &filled)) continue;
    int in = loop_waits_in(e->d, e->body->loop, wait->op, filled);
    for (int w = 0; in >= 0 && in < e->iterations && w < LOOP_WAVES; w++)
      if (wait->event[w] >= 0) add_edge(e, f->done[maker], event_at(e, wait->event[w], in));
  }
}

/* ---- service waves, which do not wait for what comes before the loop ---- */

/* What is read before the loop is copied by the loop. */
static void await_loop(LoopEntry *e, const LoopWait *wait) {
  for (int i = 0; i < e->body->copies.n; i++) {
    const LoopFlight *f = &e->body->copies.at[i];
    if (f->done[LOOP_SERVICE] < 0 || !wait->phases) continue;
    for (int at = 0; at < e->iterations; at++)
      for (int w = 0; w < LOOP_COMPUTING; w++)
        if (loop_awaits_copy(e->d, e->body->loop, wait->op, f->op, at))
          add_edge(e, event_at(e, f->done[LOOP_SERVICE], at), wait->event[w]);
  }
}

/* Slots that are released before the loop. */
static void await_releases(LoopEntry *e, const LoopWait *wait) {
  int by, released;
  if (!loop_awaits_slot(e->d, e->body->loop, wait->op, &by)) return;
  for (int i = 0; i < e->entry->arrivals.n; i++) {
    const LoopArrival *x = &e->entry->arrivals.at[i];
    const Attr *at = op_attr(x->op, ATTR_iteration);
    if (x->op->args[0] != wait->op->args[0] || !at) continue;
    if (!loop_names_iteration(e->d->k, e->body->loop, at, &released)) continue;
    int in = released + alloc_slots(wait->op->args[0]->def) - by;
    for (int w = 0; in >= 0 && in < e->iterations && w < LOOP_COMPUTING; w++)
      add_edge(e, x->event[w], event_at(e, wait->event[LOOP_SERVICE], in));
  }
}

LoopEntry *loop_entry(Arena *a, const Distribution *d, const LoopGraph *entry,
                      const LoopGraph *body, int iterations, bool ends) {
  LoopEntry *e = ARENA_NEW(a, LoopEntry);
  *e = (LoopEntry){.d = d, .entry = entry, .body = body, .iterations = iterations, .ends = ends};
  e->graph = event_graph(a, entry->events.n + iterations * body->events.n);
  add_orders(e);
  add_opening(e);
  for (int i = 0; i < body->waits.n; i++)
    if (op_is_served(e->d->k, body->waits.at[i].op)) await_releases(e, &body->waits.at[i]);
    else if (body->waits.at[i].phases) await_phases(e, &body->waits.at[i]);
    else await_groups(e, &body->waits.at[i]);
  for (int i = 0; i < entry->waits.n; i++) await_loop(e, &entry->waits.at[i]);
  return e;
}

bool loop_entry_orders(LoopEntry *e, int from, int iteration, int to, int then) {
  return event_graph_orders(e->graph, event_at(e, from, iteration), event_at(e, to, then));
}
