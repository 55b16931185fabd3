/* loop_lag.c: see loop_lag.h. */
#include "schedule/groups/loop_lag.h"

#include "ir/region_facts.h"
#include "ir/schedule/turn_ops.h"
#include "schedule/groups/loop_stagger.h"

enum { AHEAD, BEHIND }; /* the waves of the two halves */

/* It is beside a lagged loop, in the region around it. */
static bool is_beside(const Op *op) { return op_is_turn(op, "open") || op_is_turn(op, "close"); }

bool loop_is_lagged(const Distribution *d, const Op *loop) {
  bool joins = false;
  for (const Op *op = loop->body->first; op; op = op->next) {
    if (turn_is_lagged(op) && !is_beside(op)) return true;
    joins |= stagger_joins(op);
  }
  return joins && stagger_opening(d, loop);
}

static void add_order(Arena *a, LoopGraph *g, int from, int to, int distance) {
  vec_push(a, &g->enforced, ((Order){from, to, distance}));
}

/* ---- barriers ---- */

/* A barrier, not only a wait. */
static bool joins(const LoopTurn *x) { return x->leaves[AHEAD] >= 0; }

/* The barrier before one, and whether that is in the iteration before. */
static const LoopTurn *barrier_before(const LoopGraph *g, int j, int *distance) {
  for (*distance = 0;;) {
    if (j-- == 0) j = g->turns.n - 1, ++*distance;
    if (joins(&g->turns.at[j])) return &g->turns.at[j];
  }
}

static void add_meetings(Arena *a, LoopGraph *g) {
  for (int j = 0; j < g->turns.n; j++) {
    int distance;
    const LoopTurn *x = &g->turns.at[j], *y = barrier_before(g, j, &distance);
    if (!joins(x)) continue;
    add_order(a, g, x->event[AHEAD], y->leaves[BEHIND], -distance);
    add_order(a, g, y->event[BEHIND], x->leaves[AHEAD], distance);
  }
}

/* ---- accesses in flight ---- */

static bool waits(const LoopTurn *x) {
  if (x->op->kind == OP_turn) return !op_has(x->op, ATTR_no_ds_wait);
  return !joins(x) || stagger_waits(x->op);
}

/* The first barrier or wait after an op, of those that wait or of all, and whether that is in the next
 * iteration; NULL: there is none. */
static const LoopTurn *next_after(const LoopGraph *g, const Op *op, bool waiting, int *distance) {
  const Op *at = op_ancestor_in(op, g->loop->body);
  for (*distance = 0; *distance < 2; ++*distance)
    for (int j = 0; j < g->turns.n; j++) {
      const LoopTurn *x = &g->turns.at[j];
      if (waiting && !waits(x)) continue;
      if (*distance || (at && op_comes_before(at, x->op))) return x;
    }
  return NULL;
}

static void end_later(Arena *a, LoopGraph *g, LoopAccess *x, int wave, const LoopTurn *wait,
                      int distance) {
  int last = x->ends[wave];
  vec_push(a, &g->events, ((LoopEvent){x->op, LOOP_ENDS, wave}));
  x->ends[wave] = g->events.n - 1;
  x->late = true;
  add_order(a, g, last, x->ends[wave], 0);
  if (wait) add_order(a, g, x->ends[wave], wait->event[wave], distance);
}

/* Other copies are waited for by ops of their own. */
static void add_flights(Arena *a, LoopGraph *g) {
  for (int i = 0; i < g->accesses.n; i++) {
    LoopAccess *x = &g->accesses.at[i];
    int distance;
    if (waits(next_after(g, x->op, false, &distance))) continue;
    const LoopTurn *wait = next_after(g, x->op, true, &distance);
    for (int w = 0; w < LOOP_COMPUTING; w++)
      if (x->ends[w] >= 0 && g->events.at[x->ends[w]].kind != LOOP_ENDS)
        end_later(a, g, x, w, wait, distance);
  }
}

void loop_lag_add(Arena *a, LoopGraph *g) {
  add_meetings(a, g);
  add_flights(a, g);
}

/* ---- before and after the loop ---- */

const LoopTurn *loop_lag_opening(const Distribution *d, const LoopGraph *entry) {
  const LoopTurn *last = entry->turns.n ? &entry->turns.at[entry->turns.n - 1] : NULL;
  if (!last) return NULL;
  bool opens = last->op->kind == OP_turn ? op_is_turn(last->op, "open") && turn_is_lagged(last->op)
                                         : last->op == stagger_opening(d, entry->loop);
  return opens ? last : NULL;
}

/* What the waves of an opening wait for is in its body. */
bool loop_lag_waits(const LoopTurn *x) {
  if (!x->op->body) return waits(x);
  for (const Op *op = x->op->body->first; op; op = op->next)
    if (stagger_drains(op) || (stagger_joins(op) && stagger_waits(op))) return true;
  return false;
}

static const Op *meeting_before(const Op *op) {
  do op = op->prev;
  while (op && !stagger_meets(op));
  return op;
}

static const Op *meeting_after(const Op *op) {
  do op = op->next;
  while (op && !stagger_meets(op));
  return op;
}

static const Op *unopened(const LoopGraph *g) {
  const Op *open = meeting_before(g->loop), *close = meeting_after(g->loop);
  bool both = open && op_is_turn(open, "open") && close && op_is_turn(close, "close");
  return both ? NULL : g->loop;
}

const Op *loop_lag_half_open(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (!turn_is_lagged(op)) continue;
    bool inside = !is_beside(op), opens = op_is_turn(op, "open");
    const Op *other = inside ? NULL : opens ? op->next : op->prev;
    while (other && !(turn_is_lagged(other) && is_beside(other)))
      other = opens ? other->next : other->prev;
    if (inside && !op_is_loop(op->parent->owner)) return op;
    if (!inside && (!other || op_is_turn(other, "open") == opens)) return op;
  }
  return NULL;
}

const Op *loop_lag_unbalanced(const LoopGraph *g) {
  int n = 0, turns = 0;
  if (!g->lagged) return NULL;
  for (int i = 0; i < g->turns.n; i++) {
    const Op *op = g->turns.at[i].op;
    bool takes = op_is_turn(op, "take");
    turns += op->kind == OP_turn;
    if (!takes && !op_is_turn(op, "pass")) continue;
    if (takes != (n++ % 2 == 0)) return op;
  }
  if (n % 2) return g->turns.at[g->turns.n - 1].op;
  return turns ? unopened(g) : NULL;
}
