/* loop_times.c: see loop_times.h. */
#include "schedule/loop_times.h"

#include "ir/ops/access.h"
#include "ir/ops/live.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/turn_ops.h"
#include "schedule/groups/loop_lag.h"
#include "schedule/groups/loop_turns.h"

enum {
  BUDGET = 150,     /* wrong choices of the search */
  MOST_EVENTS = 160 /* of which it takes a few milliseconds at most */
};

/* Ops that a wave computes one after the other, without waiting for anything else, are one event:
 * that of the first. */
typedef struct Run {
  const Op *head; /* NULL: it takes no time */
  LoopCost cost;  /* of all, in the head's */
} Run;

typedef struct Timing {
  Arena *arena;
  const CostModel *costs;
  bool apart;           /* each op is an event of its own */
  Run *runs;            /* by op id */
  const LoopCost *cost; /* of each event's op */
  LoopGraph g;
  Vec(Edge) edges;
  Vec(UnitUse) uses;
  Vec(HeldValue) values;
} Timing;

/* ---- runs ---- */

static bool is_computed(const Op *op) {
  OpClass class = schedule_class(op);
  return class == OP_CLASS_none || class == OP_CLASS_reduce;
}

/* The op of the loop that computes a value, in this iteration or in the one before; NULL: none. */
static const Op *computes(const Region *body, const Value *v) {
  bool carried = !v->def && v->owner == body && v->index < body->last->nargs;
  const Op *def = carried ? body->last->args[v->index]->def : v->def;
  return def && def->parent == body ? def : NULL;
}

/* An operand is what a copy, an access or a product leaves behind, or a product of the iteration before. */
static bool begins_run(const Timing *t, const Op *op) {
  for (int i = 0; i < op->nargs; i++) {
    const Op *def = computes(op->parent, op->args[i]);
    if (!def) continue;
    bool begins = def->id >= op->id       ? op_is_product(def)
                  : t->runs[def->id].head ? !is_computed(def)
                                          : begins_run(t, def);
    if (begins) return true;
  }
  return false;
}

static void join_run(Run *run, LoopCost more) {
  run->cost.issue += more.issue;
  run->cost.takes = run->cost.issue + more.takes - more.issue;
  for (int u = 0; u < UNIT_COUNT; u++) run->cost.unit[u] += more.unit[u];
}

static void find_runs(Timing *t, const Op *loop) {
  const Op *head = NULL;
  t->runs = ARENA_ARRAY(t->arena, Run, t->costs->d->k->nops + 1);
  for (const Op *op = loop->body->first; op; op = op->next) {
    LoopCost cost = loop_cost(t->costs, op);
    bool idle = !cost.issue && !cost.takes, joins = is_computed(op) && !op->body && !t->apart;
    if (!idle && joins && head && !begins_run(t, op)) {
      t->runs[op->id].head = head;
      join_run(&t->runs[head->id], cost);
    } else if (!idle) {
      t->runs[op->id] = (Run){op, cost};
      head = joins && op->kind != OP_barrier ? op : NULL;
    } else if (!op_is_private(op)) {
      head = NULL;
    }
  }
}

static bool is_head(const void *user, const Op *op) {
  return ((const Timing *)user)->runs[op->id].head == op;
}

/* ---- edges ---- */

static void add_edge(Timing *t, int from, int to, int64_t delay, int distance) {
  vec_push(t->arena, &t->edges, ((Edge){from, to, delay, distance}));
}

/* What is in flight is here when it starts to be executed: its unit may be busy when it is issued. */
static int64_t delay_of(const Timing *t, Order o) {
  const LoopEvent *from = &t->g.events.at[o.from], *to = &t->g.events.at[o.to];
  const LoopCost *cost = &t->cost[o.from];
  if (from->kind == LOOP_ENDS) return cost->takes;
  if (from->kind == LOOP_WAITS) return from->op->kind == OP_mbar_wait ? cost->issue : 0;
  if (to->kind == LOOP_ENDS && to->op == from->op) return 0;
  return cost->elected && from->wave == 1 ? 0 : cost->issue;
}

/* The event at which an op begins to be executed in a wave, or what it left in flight ends; -1: none. */
static int last_event_of(const Timing *t, const Op *op, int wave, bool ends) {
  int found = -1;
  if (t->runs[op->id].head) op = t->runs[op->id].head;
  for (int i = 0; i < t->g.events.n; i++) {
    const LoopEvent *e = &t->g.events.at[i];
    if (e->op != op || e->kind == LOOP_WAITS || e->wave != wave) continue;
    if (found < 0 || (ends && e->kind == LOOP_ENDS)) found = i;
  }
  return found;
}

static int event_of(const Timing *t, const Op *op, int wave) {
  return last_event_of(t, op, wave, true);
}

/* A use of a value by event `to`: as the sum to which a product is added, if `adds`. A sum that is another
 * product's may still be in flight when the product is issued. */
typedef struct ValueUse {
  int to, wave;
  bool adds;
  int start;     /* of the op: `to` may be its end */
  int registers; /* at most, of the values on the way to it */
} ValueUse;

/* Tiles are fetched step by step: a product follows the fetch of its first step, and its last step
 * that of the last. */
static int64_t delay_by_steps(const LoopCost *fetch, const LoopCost *product) {
  int64_t fetched = fetch->unit[UNIT_shared], last = product->unit[UNIT_matrix];
  int64_t first = fetch->takes - fetched + fetched / product->steps;
  int64_t rest = fetch->takes + last / product->steps - last;
  return first > rest ? first : rest;
}

static int64_t delay_of_value(const Timing *t, int from, ValueUse use) {
  const LoopEvent *e = &t->g.events.at[from];
  const LoopCost *made = &t->cost[from], *used = &t->cost[use.to];
  if (use.adds && op_is_product(e->op)) return made->again;
  if (schedule_class(e->op) != OP_CLASS_fetch || !op_is_product(t->g.events.at[use.to].op))
    return made->takes;
  return delay_by_steps(made, used);
}

/* The registers of the value from the start of its op on. */
static void hold(Timing *t, const Value *v, ValueUse use, int distance) {
  int from = last_event_of(t, v->def, 0, false), own = live_registers(v), at = t->values.n;
  if (use.wave != 0 || from < 0 || (from == use.start && !distance)) return;
  HeldValue held = {v->id, from, use.start, distance, own < use.registers ? own : use.registers};
  if (held.registers <= 0) return;
  vec_push(t->arena, &t->values, held);
  for (; at > 0 && t->values.at[at - 1].value > v->id; at--)
    t->values.at[at] = t->values.at[at - 1];
  t->values.at[at] = held;
}

/* It follows the op that computes the value, possibly of an earlier iteration; ops that take no time
 * are followed to their operands. */
static void add_use(Timing *t, const Value *v, ValueUse use, int distance) {
  const Region *body = t->g.loop->body;
  const Op *def = v->def;
  bool carried = !def && v->owner == body && v->index < body->last->nargs;
  if (carried && distance < body->last->nargs) { /* through each of them once at most */
    add_use(t, body->last->args[v->index], use, distance + 1);
    return;
  }
  if (!def || def->parent != body) return;
  int from = event_of(t, def, use.wave);
  if (from == use.to && !distance) return; /* of the same run */
  if (from >= 0) {
    bool chained = use.adds && op_is_product(t->g.events.at[from].op);
    if (use.adds && !chained) use.adds = false, use.to = use.start;
    add_edge(t, from, use.to, delay_of_value(t, from, use), distance);
    hold(t, v, use, distance);
    return;
  }
  if (live_registers(v) && live_registers(v) < use.registers) use.registers = live_registers(v);
  for (int i = 0; i < def->nargs; i++) add_use(t, def->args[i], use, distance);
}

static void add_values(Timing *t, const Op *op, int event) {
  int wave = t->g.events.at[event].wave;
  for (int i = 0; i < op->nargs; i++) {
    bool adds = op_is_product(op) && i == product_acc(op);
    ValueUse use = {adds ? event_of(t, op, wave) : event, wave, adds, event, INT32_MAX};
    add_use(t, op->args[i], use, 0);
  }
}

/* Of all ops of its run. */
static void add_all_values(Timing *t, int event) {
  const LoopEvent *e = &t->g.events.at[event];
  if (e->kind != LOOP_STARTS || e->wave == LOOP_WAVES || e->op->body) return;
  add_values(t, e->op, event);
  for (const Op *op = e->op->next; op; op = op->next)
    if (t->runs[op->id].head == e->op) add_values(t, op, event);
}

/* A barrier waits until what was stored before it has arrived. */
static void add_arrival(Timing *t, int event) {
  const LoopEvent *e = &t->g.events.at[event], *all = t->g.events.at;
  if (schedule_class(e->op) != OP_CLASS_store || e->kind != LOOP_STARTS) return;
  for (int i = 1; i <= t->g.events.n; i++) {
    int at = (event + i) % t->g.events.n;
    if (all[at].op->kind != OP_barrier || all[at].kind != LOOP_STARTS) continue;
    add_edge(t, event, at, t->cost[event].takes, at > event ? 0 : 1);
    return;
  }
}

/* ---- units ---- */

/* Where a wave's op is executed: units of different SIMDs have numbers of their own. */
static int unit_number(const Timing *t, Unit unit, int wave) {
  bool apart = unit_info[unit].each_simd && !t->costs->one_simd;
  return (int)unit + (apart && wave < LOOP_COMPUTING ? wave * UNIT_COUNT : 0);
}

static bool occupies(const Timing *t, int event) {
  const LoopEvent *e = &t->g.events.at[event];
  if (e->kind == LOOP_WAITS || e->wave == LOOP_WAVES) return false;
  if (t->cost[event].elected && e->wave == 1) return false;
  return event_of(t, e->op, e->wave) == event;
}

static void add_units(Timing *t, int event) {
  for (int u = 0; occupies(t, event) && u < UNIT_COUNT; u++) {
    int64_t cycles = t->cost[event].unit[u];
    int number = unit_number(t, (Unit)u, t->g.events.at[event].wave);
    if (cycles) vec_push(t->arena, &t->uses, ((UnitUse){event, number, cycles}));
  }
}

/* The waves run the same program: the first one goes first. */
static void order_waves(Timing *t) {
  for (int i = 0; i < t->uses.n; i++)
    for (int j = 0; j < t->uses.n; j++) {
      const UnitUse *x = &t->uses.at[i], *y = &t->uses.at[j];
      const LoopEvent *e = &t->g.events.at[x->event], *f = &t->g.events.at[y->event];
      if (x->unit != y->unit || e->op != f->op || e->wave >= f->wave) continue;
      add_edge(t, x->event, y->event, x->cycles, 0);
      add_edge(t, y->event, x->event, y->cycles, 1);
    }
}

/* ---- turns ---- */

/* What a wave issues from an event on until it passes its turn on. */
static int64_t turn_issue(const Timing *t, int event) {
  int64_t sum = 0;
  const LoopEvent *first = &t->g.events.at[event];
  for (int i = event + 1; i < t->g.events.n; i++) {
    const LoopEvent *e = &t->g.events.at[i];
    if (e->wave == first->wave && op_is_turn(e->op, "pass")) break;
    if (e->wave == first->wave && e->kind == LOOP_STARTS) sum += t->cost[i].issue;
  }
  return sum;
}

/* A turn is passed on through a barrier. Groups between the first and the last take it on the way, each
 * as long as these. */
static void add_turns(Timing *t) {
  OrderList tokens = loop_turn_tokens(t->arena, t->costs->d->k, &t->g);
  int64_t barrier = t->costs->latencies->barrier;
  for (int i = 0; i < tokens.n; i++) {
    const LoopEvent *from = &t->g.events.at[tokens.at[i].from];
    int between = from->wave == 0 ? turn_groups(from->op) - 2 : 0;
    int64_t each = between ? turn_issue(t, tokens.at[i].to) + barrier : 0;
    add_edge(t, tokens.at[i].from, tokens.at[i].to, barrier + between * each,
             tokens.at[i].distance);
  }
}

/* ---- the problem ---- */

/* Waves of a SIMD that compute the same ops at the same time share its units: the first is done with
 * each op when the second is. Barriers keep them in lockstep, and without any they drift apart less than
 * would help: measured on the H200, with roles and with turns. */
static bool is_in_step(const Timing *t) {
  return t->costs->one_simd && !loop_is_lagged(t->costs->d, t->g.loop);
}

static void compute_in_step(LoopCost *cost) {
  bool computes = cost->unit[UNIT_vector] || cost->unit[UNIT_special];
  int64_t other = computes ? cost->issue : 0;
  cost->issue += other, cost->takes += other;
}

static const LoopCost *costs_of(Timing *t) {
  LoopCost *cost = ARENA_ARRAY(t->arena, LoopCost, t->g.events.n + 1);
  bool alone = t->costs->machine->waves == 1, in_step = is_in_step(t);
  for (int i = 0; i < t->g.events.n; i++) {
    const LoopEvent *e = &t->g.events.at[i];
    if (!alone || e->wave != 1) cost[i] = t->runs[e->op->id].cost;
    if (e->op->kind == OP_mbar_wait && e->kind == LOOP_WAITS)
      cost[i].issue = cost[i].takes = t->costs->latencies->test;
    if (in_step && e->wave == 0 && is_computed(e->op)) compute_in_step(&cost[i]);
    if (!cost[i].steps) cost[i].steps = 1; /* it costs nothing */
  }
  return cost;
}

static IntervalProblem problem_of(Timing *t) {
  t->cost = costs_of(t);
  for (int i = 0; i < t->g.enforced.n; i++) {
    Order o = t->g.enforced.at[i];
    add_edge(t, o.from, o.to, delay_of(t, o), o.distance);
  }
  for (int i = 0; i < t->g.events.n; i++) {
    add_all_values(t, i);
    add_arrival(t, i);
    add_units(t, i);
  }
  order_waves(t);
  add_turns(t);
  return (IntervalProblem){.events = t->g.events.n,
                           .nedges = t->edges.n,
                           .nuses = t->uses.n,
                           .edges = t->edges.at,
                           .uses = t->uses.at,
                           .budget = BUDGET,
                           .total = BUDGET};
}

int loop_product(const LoopGraph *g, int wave) {
  for (int i = 0; i < g->events.n; i++) {
    const LoopEvent *e = &g->events.at[i];
    if (e->wave == wave && e->kind == LOOP_STARTS && op_is_product(e->op)) return i;
  }
  return -1;
}

/* ---- what was found ---- */

static void add_busy(const Timing *t, LoopTimes *out) {
  for (int i = 0; i < t->uses.n; i++)
    if (t->uses.at[i].unit < UNIT_COUNT)
      out->busy[t->uses.at[i].unit] += (double)t->uses.at[i].cycles / (double)out->cycles;
}

/* The unit that is occupied by each of these events, all the time; -1: none is. */
static int busy_unit(const Timing *t, const LoopTimes *out, const int *cycle, int n) {
  for (int u = 0; u < 2 * UNIT_COUNT; u++) {
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
      for (int j = 0; j < t->uses.n; j++)
        if (t->uses.at[j].event == cycle[i] && t->uses.at[j].unit == u) sum += t->uses.at[j].cycles;
    if (sum >= out->cycles) return u % UNIT_COUNT;
  }
  return -1;
}

static void add_limit(Timing *t, const IntervalProblem *p, const Interval *found, LoopTimes *out) {
  int *cycle = ARENA_ARRAY(t->arena, int, p->events + 1);
  int n = interval_cycle(t->arena, p, found, cycle);
  out->limit = busy_unit(t, out, cycle, n);
  for (int i = 0; i < n; i++) {
    const Op *op = t->g.events.at[cycle[i]].op;
    vec_push(t->arena, &out->critical, cycle[i]);
    const Op *last = out->cycle.n ? out->cycle.at[out->cycle.n - 1] : NULL;
    if (op != last) vec_push(t->arena, &out->cycle, op);
  }
}

static void add_starts(const Timing *t, const Interval *found, LoopTimes *out) {
  for (int i = 0; i < t->g.events.n; i++) {
    int wave = t->g.events.at[i].wave;
    if ((wave != 0 && wave != LOOP_SERVICE) || !occupies(t, i)) continue;
    int at = out->ops.n;
    vec_push(t->arena, &out->ops, NULL);
    vec_push(t->arena, &out->start, 0);
    for (; at > 0 && out->start.at[at - 1] > found->start[i]; at--)
      out->ops.at[at] = out->ops.at[at - 1], out->start.at[at] = out->start.at[at - 1];
    out->ops.at[at] = t->g.events.at[i].op, out->start.at[at] = found->start[i];
  }
}

static void add_graph(const Timing *t, LoopTimes *out) {
  out->graph = t->g, out->cost = t->cost;
  for (int i = 0; i < t->edges.n; i++) vec_push(t->arena, &out->edges, t->edges.at[i]);
  for (int i = 0; i < t->uses.n; i++) vec_push(t->arena, &out->uses, t->uses.at[i]);
  for (int i = 0; i < t->values.n; i++) vec_push(t->arena, &out->values, t->values.at[i]);
  int ops = t->costs->d->k->nops;
  out->head = ARENA_ARRAY(t->arena, const Op *, ops + 1);
  for (int i = 0; i <= ops; i++) out->head[i] = t->runs[i].head;
}

static const char *why_not(const Op *loop) {
  for (const Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op))
    if (op->kind == OP_for || op->kind == OP_while) return "it contains another loop";
  return NULL;
}

/* The events of the loop; false: there is no prediction, and `out` says why. */
static bool find_events(Timing *t, CostModel *costs, const Machine *m, const MemoryUses *uses,
                        const Op *loop, LoopTimes *out) {
  const Distribution *d = costs->d;
  *out = (LoopTimes){.why_not = why_not(loop), .limit = -1};
  if (out->why_not) return false;
  if (!cost_model(t->arena, d, m, costs))
    return out->why_not = "the units of the machine are unknown", false;
  find_runs(t, loop);
  t->g = loop_graph(t->arena, d, uses, loop, is_head, t);
  if (t->g.events.n > MOST_EVENTS && !t->apart) out->why_not = "it has too many ops";
  return !out->why_not;
}

LoopTimes loop_times(Arena *a, const Distribution *d, const Machine *m, const MemoryUses *uses,
                     const Op *loop, int64_t guess) {
  LoopTimes out;
  CostModel costs = {.d = d};
  Timing t = {.arena = a, .costs = &costs};
  if (!find_events(&t, &costs, m, uses, loop, &out)) return out;
  IntervalProblem p = problem_of(&t);
  p.guess = guess;
  Interval found = interval_solve(a, &p);
  if (found.cycles == PATHS_NEVER) return out.why_not = "it waits for itself", out;
  out.cycles = found.cycles, out.bound = found.bound, out.at = found.start;
  add_busy(&t, &out);
  add_limit(&t, &p, &found, &out);
  add_starts(&t, &found, &out);
  add_graph(&t, &out);
  return out;
}

LoopTimes loop_times_apart(Arena *a, const Distribution *d, const Machine *m,
                           const MemoryUses *uses, const Op *loop) {
  LoopTimes out;
  CostModel costs = {.d = d};
  Timing t = {.arena = a, .costs = &costs, .apart = true};
  if (!find_events(&t, &costs, m, uses, loop, &out)) return out;
  problem_of(&t);
  add_graph(&t, &out);
  return out;
}
