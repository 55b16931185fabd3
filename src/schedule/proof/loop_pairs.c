/* loop_pairs.c: see loop_pairs.h. */
#include "schedule/proof/loop_pairs.h"

#include <stdlib.h>

#include "ir/region_facts.h"

void loop_report(Prover *p, LoopPair pair) { vec_push(p->arena, &p->proof->findings, pair); }

const bool *loop_overlaps(Arena *a, const MemoryUses *m) {
  int n = m->memories.n;
  bool *overlap = ARENA_ARRAY(a, bool, n *n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j <= i; j++)
      overlap[i * n + j] = overlap[j * n + i] = memories_overlap(m, i, j);
  return overlap;
}

bool loop_conflict(const Prover *p, const LoopAccess *x, const LoopAccess *y) {
  bool writes = (x->how | y->how) & TOUCH_WRITE, mixed = x->how != y->how;
  if (!writes && !(mixed && (x->how | y->how) & TOUCH_ATOMIC)) return false;
  if (!p->overlap[x->memory * p->nmemories + y->memory]) return false;
  return x->memory != y->memory || parts_overlap(x->part, y->part, p->memory[x->memory]->type);
}

static bool is_one_ring(const LoopAccess *x, const LoopAccess *y) {
  return x->memory == y->memory && x->slots == y->slots && x->slots > 1;
}

void loop_conflicts_of(const LoopAccess *x, const LoopAccess *y, int *from, int *every) {
  bool ring = is_one_ring(x, y);
  *every = ring ? x->slots : 1;
  *from = ring ? x->ahead - y->ahead : 0;
}

bool loop_conflict_at(const Prover *p, const LoopAccess *x, const LoopAccess *y, int d) {
  int from, every;
  loop_conflicts_of(x, y, &from, &every);
  if (x == y && d == 0) return false; /* its threads divide the elements among themselves */
  if ((d > 0 && y->only_first) || (d < 0 && x->only_first)) return false;
  return abs(d) < loop_most_of(p, x, y) && (d - from) % every == 0;
}

int loop_first_conflict(const LoopAccess *x, const LoopAccess *y) {
  int at = is_one_ring(x, y) ? (x->ahead - y->ahead) % x->slots : 0;
  return at < 0 ? at + x->slots : at;
}

int64_t loop_most_of(const Prover *p, const LoopAccess *x, const LoopAccess *y) {
  return x->goes_on || y->goes_on ? p->proof->most_in_all : p->proof->most;
}

static bool is_own(const LoopAccess *x, int wave) {
  return x->late || x->begins[wave] == x->ends[wave];
}

bool loop_needs_no_order(const LoopAccess *x, int v, const LoopAccess *y, int w) {
  if (x->begins[v] < 0 || y->begins[w] < 0) return true;
  if (v != w) return x == y && x->by_name;
  return is_own(x, v) && is_own(y, w);
}

bool loop_is_filled_by(const LoopAccess *fill, const LoopAccess *read) {
  int from, every;
  loop_conflicts_of(fill, read, &from, &every);
  return every > 1 && fill->op->kind == OP_copy && (fill->how & TOUCH_WRITE) &&
         read->how == TOUCH_READ;
}

/* ---- in a loop that goes on ---- */

static bool comes_first(const Prover *p, const LoopAccess *x, const LoopAccess *y) {
  const Region *body = p->proof->graph.loop->body;
  return op_comes_before(op_ancestor_in(x->op, body), op_ancestor_in(y->op, body));
}

/* The number of iterations from x to y, as close to 0 as possible, at which they conflict and
 * neither follows the other. With nothing between them at all, a few iterations stand for all. */
static bool find_gap(const Prover *p, const LoopAccess *x, int v, const LoopAccess *y, int w,
                     int *gap) {
  int after = order_least(p->table, x->ends[v], y->begins[w]);
  int before = order_least(p->table, y->ends[w], x->begins[v]);
  int from, every;
  bool found = false;
  loop_conflicts_of(x, y, &from, &every);
  int last = after == ORDER_NONE ? 4 * every + abs(from) : after - 1;
  int first = before == ORDER_NONE ? -4 * every - abs(from) : 1 - before;
  if (p->proof->graph.lagged) { /* in the order of the program, and in no other one */
    int least = comes_first(p, x, y) ? 0 : 1;
    if (first > least) first = least;
    if (last < least - 1) last = least - 1;
  }
  for (int d = first; d <= last; d++)
    if (loop_conflict_at(p, x, y, d) && (!found || abs(d) < abs(*gap))) *gap = d, found = true;
  return found;
}

/* A pair of two waves that is not in order, for each distance once. */
static int find_unordered(const Prover *p, const LoopAccess *x, const LoopAccess *y,
                          LoopPair *found) {
  int n = 0, gap = 0;
  for (int v = 0; v < LOOP_WAVES; v++)
    for (int w = 0; w < LOOP_WAVES; w++) {
      if (loop_needs_no_order(x, v, y, w) || !find_gap(p, x, v, y, w, &gap)) continue;
      bool known = false;
      for (int i = 0; i < n; i++) known |= found[i].distance == gap;
      if (!known) found[n++] = (LoopPair){x, y, gap, .other_wave = v != w};
    }
  return n;
}

/* What is read was filled before, not only at some other time. */
static bool is_stale(const Prover *p, const LoopAccess *fill, const LoopAccess *read,
                     LoopPair *found) {
  int from, every;
  if (!loop_is_filled_by(fill, read)) return false;
  loop_conflicts_of(fill, read, &from, &every);
  for (int v = 0; from < loop_most_of(p, fill, read) && v < LOOP_WAVES; v++)
    for (int w = 0; w < LOOP_WAVES; w++) {
      if (fill->ends[v] < 0 || read->begins[w] < 0) continue;
      if (order_holds(p->table, (Order){fill->ends[v], read->begins[w], from})) continue;
      *found = (LoopPair){fill, read, from, v != w, .stale = true};
      return true;
    }
  return false;
}

static int find_out_of_order(const Prover *p, const LoopAccess *x, const LoopAccess *y,
                             LoopPair *found) {
  int n = find_unordered(p, x, y, found);
  return n ? n : x != y && (is_stale(p, x, y, found) || is_stale(p, y, x, found));
}

enum { MOST = LOOP_WAVES * LOOP_WAVES };

bool loop_out_of_order(const Prover *p, const LoopAccess *x, const LoopAccess *y, LoopPair *found) {
  LoopPair all[MOST];
  int n = find_out_of_order(p, x, y, all);
  if (n) *found = all[0];
  return n > 0;
}

void loop_check_pair(Prover *p, const LoopAccess *x, const LoopAccess *y) {
  LoopPair all[MOST];
  int n = find_out_of_order(p, x, y, all);
  for (int i = 0; i < n; i++) loop_report(p, all[i]);
}
