/* loop_lag.c: see loop_lag.h. */
#include "schedule/loop_lag.h"

#include "ir/region_facts.h"
#include "ir/schedule/turn_ops.h"

enum { AHEAD, BEHIND }; /* the waves of the two halves */

/* It is beside a lagged loop, in the region around it. */
static bool is_beside(const Op *op) { return op_is_turn(op, "open") || op_is_turn(op, "close"); }

bool loop_is_lagged(const Op *loop) {
  for (const Op *op = loop->body->first; op; op = op->next)
    if (turn_is_lagged(op) && !is_beside(op)) return true;
  return false;
}

static void add_order(Arena *a, LoopGraph *g, int from, int to, int distance) {
  vec_push(a, &g->enforced, ((Order){from, to, distance}));
}

/* ---- barriers ---- */

static void add_meetings(Arena *a, LoopGraph *g) {
  for (int j = 0; j < g->turns.n; j++) {
    const LoopTurn *x = &g->turns.at[j], *y = &g->turns.at[j ? j - 1 : g->turns.n - 1];
    int distance = j ? 0 : 1;
    add_order(a, g, x->event[AHEAD], y->leaves[BEHIND], -distance);
    add_order(a, g, y->event[BEHIND], x->leaves[AHEAD], distance);
  }
}

/* ---- accesses in flight ---- */

static bool waits(const LoopTurn *x) { return !op_has(x->op, ATTR_no_ds_wait); }

/* The number of the first barrier after an op, and whether that is in the next iteration. */
static int barrier_after(const LoopGraph *g, const Op *op, int *distance) {
  const Op *at = op_ancestor_in(op, g->loop->body);
  *distance = 0;
  for (int j = 0; j < g->turns.n; j++)
    if (at && op_comes_before(at, g->turns.at[j].op)) return j;
  *distance = 1;
  return 0;
}

/* The same for the first one that waits; -1: none does. */
static int wait_after(const LoopGraph *g, const Op *op, int *distance) {
  int first = barrier_after(g, op, distance);
  for (int n = 0, j = first; n < g->turns.n; n++, j++) {
    if (j == g->turns.n) j = 0, ++*distance;
    if (waits(&g->turns.at[j])) return j;
  }
  return -1;
}

static void end_later(Arena *a, LoopGraph *g, LoopAccess *x, int wave, int wait, int distance) {
  int last = x->ends[wave];
  vec_push(a, &g->events, ((LoopEvent){x->op, LOOP_ENDS, wave}));
  x->ends[wave] = g->events.n - 1;
  x->late = true;
  add_order(a, g, last, x->ends[wave], 0);
  if (wait >= 0) add_order(a, g, x->ends[wave], g->turns.at[wait].event[wave], distance);
}

/* Other copies are waited for by ops of their own. */
static void add_flights(Arena *a, LoopGraph *g) {
  for (int i = 0; i < g->accesses.n; i++) {
    LoopAccess *x = &g->accesses.at[i];
    int distance, first = barrier_after(g, x->op, &distance);
    if (waits(&g->turns.at[first])) continue;
    int wait = wait_after(g, x->op, &distance);
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

const LoopTurn *loop_lag_opening(const LoopGraph *entry) {
  const LoopTurn *last = entry->turns.n ? &entry->turns.at[entry->turns.n - 1] : NULL;
  return last && op_is_turn(last->op, "open") && turn_is_lagged(last->op) ? last : NULL;
}

/* A wave may meet others there, or the op contains such an op. */
static bool is_meeting(const Op *op) {
  for (const Op *in = op; in && op_is_inside(in, op); in = ir_next(in))
    if (turn_is_lagged(in) || memory_is_ordered_by(in, "workgroup") ||
        in->kind == OP_workgroup_barrier)
      return true;
  return false;
}

static const Op *meeting_before(const Op *op) {
  do op = op->prev;
  while (op && !is_meeting(op));
  return op;
}

static const Op *meeting_after(const Op *op) {
  do op = op->next;
  while (op && !is_meeting(op));
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
  int n = 0;
  if (!g->lagged) return NULL;
  for (int i = 0; i < g->turns.n; i++) {
    const Op *op = g->turns.at[i].op;
    bool takes = op_is_turn(op, "take");
    if (!takes && !op_is_turn(op, "pass")) continue;
    if (takes != (n++ % 2 == 0)) return op;
  }
  if (n % 2) return g->turns.at[g->turns.n - 1].op;
  return unopened(g);
}
