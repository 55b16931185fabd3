/* loop_unrolled.c: see loop_unrolled.h. */
#include "schedule/proof/loop_unrolled.h"

#include "ir/region_facts.h"
#include "schedule/proof/loop_entry.h"
#include "schedule/proof/loop_releases.h"

typedef Vec(LoopPair) PairList;

/* ---- before the loop ---- */

/* Two accesses before the loop, other than inside one region, whose slots may be the same. What comes
 * before another loop and is ordered by the barriers in it is proved with that one. */
static bool may_meet(const Op *loop, const LoopAccess *x, const LoopAccess *y) {
  const Region *r = loop->parent;
  const Op *second = op_ancestor_in(y->op, r);
  if (op_ancestor_in(x->op, r) == second || op_is_loop(second)) return false;
  return x->memory != y->memory || x->slots != y->slots || x->ahead == y->ahead;
}

static void check_follows(Prover *p, LoopEntry *e, const LoopAccess *x, const LoopAccess *y,
                          int iteration) {
  if (!loop_conflict(p, x, y) || iteration >= loop_most_of(p, x, y)) return;
  p->proof->pairs++;
  for (int v = 0; v < LOOP_WAVES; v++)
    for (int w = 0; w < LOOP_WAVES; w++) {
      if (loop_needs_no_order(x, v, y, w)) continue;
      if (loop_entry_orders(e, x->ends[v], -1, y->begins[w], iteration)) continue;
      loop_report(p, (LoopPair){x, y, iteration, v != w, .entry = true});
      return;
    }
}

/* A tile that the service waves copy in this iteration may be read before the loop: then the read comes
 * before the next copy to the same slot. */
static int next_conflict(LoopEntry *e, const LoopAccess *x, const LoopAccess *y, int at) {
  if (y->ends[LOOP_SERVICE] < 0 || x->how != TOUCH_READ || x->slots != y->slots) return at;
  for (int w = 0; w < LOOP_COMPUTING; w++)
    if (x->begins[w] >= 0 && !loop_entry_orders(e, y->ends[LOOP_SERVICE], at, x->begins[w], -1))
      return at;
  return at + y->slots;
}

static int iterations_to_check(const LoopGraph *entry, const LoopGraph *body) {
  int most = 0;
  for (int i = 0; i < entry->accesses.n; i++)
    for (int j = 0; j < body->accesses.n; j++) {
      const LoopAccess *y = &body->accesses.at[j];
      int at = loop_first_conflict(&entry->accesses.at[i], y);
      if (y->ends[LOOP_SERVICE] >= 0) at += y->slots;
      if (at > most) most = at;
    }
  return most + 1;
}

static void check_entry(Prover *p) {
  const LoopGraph *entry = &p->proof->entry, *body = &p->proof->graph;
  if (!entry->accesses.n || !body->accesses.n) return;
  int iterations = iterations_to_check(entry, body);
  LoopEntry *e = loop_entry(p->arena, p->d, entry, body, iterations, false);
  for (int i = 0; i < entry->accesses.n; i++) {
    const LoopAccess *x = &entry->accesses.at[i];
    for (int j = i + 1; j < entry->accesses.n; j++)
      if (may_meet(body->loop, x, &entry->accesses.at[j]))
        check_follows(p, e, x, &entry->accesses.at[j], -1);
    for (int j = 0; j < body->accesses.n; j++) {
      const LoopAccess *y = &body->accesses.at[j];
      if (loop_conflict(p, x, y))
        check_follows(p, e, x, y, next_conflict(e, x, y, loop_first_conflict(x, y)));
    }
  }
}

/* ---- the last iterations ---- */

/* Iterations by which a wait is ahead, at most. The barriers of groups that are one apart order the
 * last iteration as they do others: the groups meet once more after the loop. */
static int farthest_ahead(const LoopGraph *g) {
  int most = 0;
  for (int i = 0; !g->lagged && i < g->enforced.n; i++)
    if (-g->enforced.at[i].distance > most) most = -g->enforced.at[i].distance;
  return most;
}

/* The orders of the loop without those of waits that are ahead: they hold to its end. */
static const OrderTable *lasting_orders(Arena *a, const LoopGraph *g) {
  OrderList lasting = {0};
  for (int i = 0; i < g->enforced.n; i++)
    if (g->enforced.at[i].distance >= 0) vec_push(a, &lasting, g->enforced.at[i]);
  return order_table(a, g->events.n, lasting.at, lasting.n);
}

static bool are_ordered(LoopEntry *e, const LoopAccess *x, int v, int at, const LoopAccess *y,
                        int w, int then) {
  return loop_entry_orders(e, x->ends[v], at, y->begins[w], then) ||
         loop_entry_orders(e, y->ends[w], then, x->begins[v], at);
}

static void check_at(Prover *p, LoopEntry *e, const LoopAccess *x, int at, const LoopAccess *y,
                     int then) {
  int from, every;
  if (!loop_conflict_at(p, x, y, then - at)) return;
  loop_conflicts_of(x, y, &from, &every);
  bool filled = from == then - at && loop_is_filled_by(x, y);
  for (int v = 0; v < LOOP_WAVES; v++)
    for (int w = 0; w < LOOP_WAVES; w++) {
      bool stale = filled && x->ends[v] >= 0 && y->begins[w] >= 0 &&
                   !loop_entry_orders(e, x->ends[v], at, y->begins[w], then);
      if (!stale && (loop_needs_no_order(x, v, y, w) || are_ordered(e, x, v, at, y, w, then)))
        continue;
      loop_report(p, (LoopPair){x, y, then - at, v != w, .stale = stale});
      return;
    }
}

/* A release in time: loop_releases.h. `at` is the iteration of the arrival, -1 before the loop. */
static bool is_in_time(LoopEntry *e, const LoopWait *wait, int waited, const LoopArrival *x,
                       int at) {
  for (int w = 0; w < LOOP_COMPUTING; w++)
    if (!loop_entry_orders(e, wait->event[LOOP_SERVICE], waited, x->event[w], at)) return false;
  return true;
}

static bool is_released_in_time(Prover *p, LoopEntry *e, const LoopWait *wait, int waited, int n) {
  const LoopGraph *g = &p->proof->graph, *entry = &p->proof->entry;
  int by, released, after;
  if (!loop_awaits_slot(p->d, g->loop, wait->op, &by)) return true;
  for (int i = 0; i < entry->arrivals.n; i++) {
    const LoopArrival *x = &entry->arrivals.at[i];
    const Attr *of = op_attr(x->op, ATTR_iteration);
    if (x->op->args[0] != wait->op->args[0] || !of) continue;
    if (!loop_names_iteration(p->d->k, g->loop, of, &released) || released != waited + by) continue;
    if (!is_in_time(e, wait, waited, x, -1)) return false;
  }
  for (int i = 0; i < g->arrivals.n; i++) {
    const LoopArrival *x = &g->arrivals.at[i];
    if (!loop_release_after(p->d, g->loop, wait->op, x->op, &after)) continue;
    int at = waited + after;
    if (at >= 0 && at < n && !is_in_time(e, wait, waited, x, at)) return false;
  }
  return true;
}

/* Pairs that are in order only by waits that are ahead. */
static PairList pairs_to_check(const Prover *p) {
  Prover lasting = *p;
  PairList pairs = {0};
  LoopPair found;
  const LoopGraph *g = &p->proof->graph;
  lasting.table = lasting_orders(p->arena, g);
  for (int i = 0; i < g->accesses.n; i++)
    for (int j = 0; j <= i; j++) {
      const LoopAccess *x = &g->accesses.at[j], *y = &g->accesses.at[i];
      if (loop_conflict(p, x, y) && loop_out_of_order(&lasting, x, y, &found))
        vec_push(p->arena, &pairs, found);
    }
  return pairs;
}

/* Two iterations, the later of which is one of the last. */
static void check_pair_at(Prover *p, LoopEntry *e, const LoopPair *pair, int n, int ahead) {
  for (int at = 0; at < n; at++)
    for (int then = at < n - ahead ? n - ahead : 0; then < n; then++) {
      check_at(p, e, pair->first, at, pair->second, then);
      check_at(p, e, pair->second, at, pair->first, then);
    }
}

static void check_ends_at(Prover *p, const PairList *pairs, int n, int ahead) {
  const LoopGraph *g = &p->proof->graph;
  LoopEntry *e = loop_entry(p->arena, p->d, &p->proof->entry, g, n, true);
  for (int i = 0; i < pairs->n; i++) check_pair_at(p, e, &pairs->at[i], n, ahead);
  for (int i = 0; i < g->waits.n; i++)
    for (int at = 0; at < n && !p->proof->unbalanced; at++)
      if (!is_released_in_time(p, e, &g->waits.at[i], at, n))
        p->proof->unbalanced = g->waits.at[i].op;
}

static void check_ends(Prover *p) {
  const LoopGraph *entry = &p->proof->entry, *g = &p->proof->graph;
  int ahead = farthest_ahead(g), enough = iterations_to_check(entry, g) + 2 * ahead;
  if (!ahead || p->proof->findings.n || p->proof->unbalanced) return;
  PairList pairs = pairs_to_check(p);
  for (int n = 1; n <= enough && n <= p->proof->most_in_all; n++)
    if (!p->proof->findings.n && !p->proof->unbalanced) check_ends_at(p, &pairs, n, ahead);
}

void loop_check_unrolled(Prover *p) {
  check_entry(p);
  check_ends(p);
}
