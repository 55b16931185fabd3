/* loop_turns.c: see loop_turns.h. */
#include "schedule/groups/loop_turns.h"

#include "ir/region_facts.h"
#include "ir/schedule/turn_ops.h"
#include "schedule/groups/loop_lag.h"
#include "schedule/groups/loop_stagger.h"

static bool same_turns(const Op *a, const Op *b) {
  return a->kind == OP_turn && b->kind == OP_turn && !turn_is_lagged(a) &&
         op_attr(a, ATTR_bar)->integer == op_attr(b, ATTR_bar)->integer;
}

/* The only op of this mode for the same turns; NULL: there is none, or there are several. A copy of the
 * loop that is executed instead of this one has the same barriers. */
static const Op *only_turn(const Kernel *k, const Op *like, const char *mode) {
  const Op *found = NULL;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (!same_turns(op, like) || !op_is_turn(op, mode) || op_excludes(k, op, like)) continue;
    if (found) return NULL;
    found = op;
  }
  return found;
}

/* There is a turn to take before the loop begins. */
static bool is_opened(const Kernel *k, const Op *turn) {
  const Op *open = only_turn(k, turn, "open");
  const Op *loop = open ? op_ancestor_in(turn, open->parent) : NULL;
  return loop && op_comes_before(open, loop);
}

static bool is_closed(const Kernel *k, const Op *turn) {
  const Op *open = only_turn(k, turn, "open"), *close = only_turn(k, turn, "close");
  const Op *loop = close ? op_ancestor_in(turn, close->parent) : NULL;
  return loop && open && open->parent == close->parent && op_comes_before(loop, close);
}

/* Between a turn and what opens it there may only be loops: how often they run is known to all. */
static bool is_elsewhere(const Kernel *k, const LoopGraph *g, const Op *turn) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (same_turns(op, turn) && op->parent != g->loop->body && !op_is_turn(op, "open") &&
        !op_is_turn(op, "close") && !op_excludes(k, op, turn))
      return true;
  return false;
}

/* A turn that is opened and never closed, or the other way round. */
static const Op *half_open(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    bool ends = op_is_turn(op, "open") || op_is_turn(op, "close");
    if (turn_is_lagged(op)) continue;
    if (ends && (!only_turn(k, op, "open") || !only_turn(k, op, "close"))) return op;
  }
  return NULL;
}

const Op *loop_turn_unbalanced(const Distribution *d, const LoopGraph *g) {
  const Kernel *k = d->k;
  const Op *lagged = g->lagged ? loop_lag_unbalanced(g) : NULL;
  if (!lagged) lagged = loop_lag_half_open(k);
  if (!lagged) lagged = stagger_fault(d);
  if (g->lagged || lagged) return lagged;
  for (int i = 0; i < g->turns.n; i++) {
    const Op *op = g->turns.at[i].op;
    int before = 0;
    for (int j = 0; j < i; j++) before += same_turns(g->turns.at[j].op, op);
    int all = before;
    for (int j = i; j < g->turns.n; j++) all += same_turns(g->turns.at[j].op, op);
    if (!op_is_turn(op, before % 2 ? "pass" : "take") || all % 2) return op;
    if (!is_opened(k, op) || !is_closed(k, op) || is_elsewhere(k, g, op)) return op;
  }
  return half_open(k);
}

/* The turn event of this mode that comes last before number i, in the same iteration or else in the
 * one before; -1: there is none. */
static int turn_before(const LoopGraph *g, int i, const char *mode, int *distance) {
  const Op *op = g->turns.at[i].op;
  *distance = 0;
  for (int n = 0, j = i; n < g->turns.n; n++) {
    if (j-- == 0) j = g->turns.n - 1, *distance = 1;
    if (same_turns(g->turns.at[j].op, op) && op_is_turn(g->turns.at[j].op, mode)) return j;
  }
  return -1;
}

/* The pass that answers a take of the last group: as many of the first group's come before it. */
static int same_pass(const LoopGraph *g, int i) {
  for (int j = i; j < g->turns.n; j++)
    if (same_turns(g->turns.at[j].op, g->turns.at[i].op) && op_is_turn(g->turns.at[j].op, "pass"))
      return j;
  return -1;
}

OrderList loop_turn_orders(Arena *a, const Kernel *k, const LoopGraph *g) {
  OrderList orders = loop_turn_tokens(a, k, g);
  for (int i = 0; i < g->enforced.n; i++) vec_push(a, &orders, g->enforced.at[i]);
  return orders;
}

OrderList loop_turn_tokens(Arena *a, const Kernel *k, const LoopGraph *g) {
  OrderList orders = {0};
  int distance;
  for (int i = 0; i < g->turns.n; i++) {
    const LoopTurn *take = &g->turns.at[i];
    if (g->lagged || !op_is_turn(take->op, "take")) continue;
    int first = same_pass(g, i), last = turn_before(g, i, "pass", &distance);
    if (first < 0 || last < 0) continue; /* unbalanced */
    if (!is_opened(k, take->op)) distance = 0;
    vec_push(a, &orders, ((Order){g->turns.at[first].event[0], take->event[1], 0}));
    vec_push(a, &orders, ((Order){g->turns.at[last].event[1], take->event[0], distance}));
  }
  return orders;
}
