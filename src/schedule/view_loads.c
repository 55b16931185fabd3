/* view_loads.c: see view_loads.h. */
#include "schedule/view_loads.h"

#include "ir/dtype.h"
#include "ir/schedule/schedule.h"

/* Something that takes up room from one time to another, and again in every iteration. */
typedef struct Load {
  int64_t from, to, amount;
} Load;

typedef Vec(Load) Loads;

/* ---- curves ---- */

/* How many of its iterations are in progress at a time. */
static int64_t times_at(const Load *l, int64_t at, int64_t interval) {
  return floor_div64(l->to - 1 - at, interval) - ceil_div64(l->from - at, interval) + 1;
}

static int64_t amount_at(const Loads *all, int64_t at, int64_t interval) {
  int64_t sum = 0;
  for (int i = 0; i < all->n; i++) {
    int64_t times = times_at(&all->at[i], at, interval);
    if (times > 0) sum += times * all->at[i].amount;
  }
  return sum;
}

static int64_t modulo(int64_t at, int64_t interval) {
  return at - floor_div64(at, interval) * interval;
}

/* The first time after `at` at which anything begins or ends. */
static int64_t next_change(const Loads *all, int64_t at, int64_t interval) {
  int64_t next = interval;
  for (int i = 0; i < all->n; i++) {
    int64_t from = modulo(all->at[i].from, interval), to = modulo(all->at[i].to, interval);
    if (from > at && from < next) next = from;
    if (to > at && to < next) next = to;
  }
  return next;
}

static ViewCurve curve_of(Arena *a, const Loads *all, int64_t interval, int64_t most) {
  ViewCurve c = {.most = most};
  for (int64_t at = 0; at < interval; at = next_change(all, at, interval)) {
    int64_t amount = amount_at(all, at, interval);
    if (amount > c.peak) c.peak = amount;
    if (!c.steps.n || c.steps.at[c.steps.n - 1].amount != amount)
      vec_push(a, &c.steps, ((ViewStep){at, amount}));
  }
  return c;
}

void view_shared(Arena *a, LoopView *view, int64_t most) {
  Loads all = {0};
  for (int i = 0; i < view->rings.n; i++) {
    const ViewRing *r = &view->rings.at[i];
    vec_push(a, &all, ((Load){r->fill, r->free, r->bytes}));
  }
  view->shared = curve_of(a, &all, view->cycles, most);
}

/* ---- registers ---- */

typedef struct Living {
  const LoopTimes *t;
  const Op *loop;
  int depth; /* of values that are carried on and on */
} Living;

/* The first event of an op in the first wave; -1: it has none. */
static int event_of(const LoopTimes *t, const Op *op, LoopEventKind kind) {
  for (int i = 0; i < t->graph.events.n; i++) {
    const LoopEvent *e = &t->graph.events.at[i];
    if (e->op == op && e->wave == 0 && e->kind == kind) return i;
  }
  return -1;
}

/* The ops of a run are assumed to take equally long. */
static int64_t begins(const LoopTimes *t, const Op *op) {
  const Op *head = t->head[op->id];
  int event = head ? event_of(t, head, LOOP_STARTS) : -1, before = 0, all = 0;
  for (const Op *o = head; o && event >= 0; o = o->next) {
    all += t->head[o->id] == head;
    before += t->head[o->id] == head && o->id < op->id;
  }
  return event < 0 ? 0 : t->at[event] + t->cost[event].issue * before / (all ? all : 1);
}

/* What is computed replaces its operands, element by element. What is in flight reads them until it
 * ends. */
static int64_t ends(const LoopTimes *t, const Op *op) {
  int flight = event_of(t, op, LOOP_ENDS), event = event_of(t, op, LOOP_STARTS);
  OpClass class = schedule_class(op);
  if (class == OP_CLASS_none || class == OP_CLASS_reduce || event < 0) return begins(t, op);
  if (flight >= 0) return t->at[flight] + t->cost[flight].takes;
  return t->at[event] + t->cost[event].issue;
}

static int64_t last_use(Living *l, const Value *v);

/* Carried to the next iteration. */
static int64_t carried_use(Living *l, const Op *yield, int i) {
  const Region *body = l->loop->body;
  if (i >= body->nargs || l->depth > body->nargs) return INT64_MIN;
  l->depth++;
  int64_t last = last_use(l, body->args[i]);
  l->depth--;
  return last == INT64_MIN ? begins(l->t, yield) : last + l->t->cycles;
}

/* Ops that take no time only give names to elements: their results are used instead. */
static int64_t use_by(Living *l, const Op *op, const Value *v) {
  int64_t last = INT64_MIN;
  bool adds = op_is_product(op) && op->args[product_acc(op)] == v;
  if (op->kind != OP_yield && l->t->head[op->id]) return adds ? begins(l->t, op) : ends(l->t, op);
  for (int i = 0; op->kind != OP_yield && i < op->nresults; i++) {
    int64_t at = last_use(l, &op->results[i]);
    if (at > last) last = at;
  }
  for (int i = 0; op->kind == OP_yield && i < op->nargs; i++) {
    int64_t at = op->args[i] == v ? carried_use(l, op, i) : INT64_MIN;
    if (at > last) last = at;
  }
  return last;
}

static int64_t last_use(Living *l, const Value *v) {
  int64_t last = INT64_MIN;
  for (const Op *op = l->loop->body->first; op; op = op->next) {
    int64_t at = op_takes(op, v) ? use_by(l, op, v) : INT64_MIN;
    if (at > last) last = at;
  }
  return last;
}

static int64_t registers_of(const Value *v) {
  if (!v->layout) return 0;
  int64_t bits = (int64_t)layout_size(v->layout, LAYOUT_REG) * dtype_info[v->type->dtype].bits;
  return (bits + 31) / 32;
}

/* What the loop does not change, but uses, is there all the time. */
static void add_invariants(Arena *a, Living *l, Loads *all) {
  for (const Op *op = l->loop->parent->first; op && op != l->loop; op = op->next)
    for (int i = 0; i < op->nresults; i++) {
      int64_t n = registers_of(&op->results[i]);
      if (n && last_use(l, &op->results[i]) != INT64_MIN)
        vec_push(a, all, ((Load){0, l->t->cycles, n}));
    }
}

void view_registers(Arena *a, const LoopTimes *t, LoopView *view, int64_t most) {
  Living l = {t, t->graph.loop, 0};
  Loads all = {0};
  for (const Op *op = l.loop->body->first; op; op = op->next)
    for (int i = 0; i < op->nresults; i++) {
      int64_t n = registers_of(&op->results[i]), from = begins(t, op);
      int64_t to = n && t->head[op->id] ? last_use(&l, &op->results[i]) : INT64_MIN;
      if (to > from) vec_push(a, &all, ((Load){from, to, n}));
    }
  add_invariants(a, &l, &all);
  view->registers = curve_of(a, &all, t->cycles, most);
}
