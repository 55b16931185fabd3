/* loop_free.c: see loop_free.h. Distances are between iterations as they were written, whatever the
 * stages of the kernel that is looked at. */
#include "schedule/interval/loop_free.h"

#include <string.h>

#include "ir/ops/access.h"
#include "ir/ops/live.h"
#include "ir/region_facts.h"
#include "ir/schedule/schedule.h"
#include "schedule/interval/interval_place.h"

enum {
  WORK = 30000, /* wrong choices of the search, times the square of events: half a millisecond */
  FAR = 8,      /* an eighth above the bound: the search may find a shorter one */
  CLOSE = 100,  /* a hundredth is good enough where the model is not exact */
  UNIT_WAVE = 2 * UNIT_COUNT /* starts one op at a time */
};

/* A tile in shared memory, and the edge from a read of it to what fills it again. */
typedef struct Refill {
  const Op *alloc;
  int slots; /* at most */
  int edge;
} Refill;

typedef struct Free {
  Arena *arena;
  Kernel *k;
  const LoopTimes *t;
  const FreeLimits *limits;
  int waves;   /* whose events are looked at: one or both */
  int *event;  /* by event of the graph: its number here; -1: it is forgotten */
  int *of;     /* the graph's event, by number */
  int *twin;   /* by number: the same of the other wave */
  int *ahead;  /* by event of the graph: iterations for which its op acts early */
  int n;       /* events, with two more: */
  int origin;  /* the begin of the last stage */
  int barrier; /* one that every iteration needs; -1: none */
  bool fixed;  /* stages are relative to `origin`: something must be in one */
  Vec(Edge) edges;
  int flow;    /* of these, the first ones: values, and what is in flight */
  int forward; /* and tiles that are read; the others limit how early something is */
  Vec(UnitUse) uses;
  Vec(Refill) tiles;
  Vec(HeldValue) values;
} Free;

static const LoopEvent *event_at(const Free *f, int i) { return &f->t->graph.events.at[f->of[i]]; }
static const LoopCost *cost_at(const Free *f, int i) { return &f->t->cost[f->of[i]]; }

/* An op that a wave starts; what is in flight ends in another event. */
static bool is_start(const Free *f, int i) {
  return i < f->origin && event_at(f, i)->kind == LOOP_STARTS;
}
static bool is_first(const Free *f, int i) { return is_start(f, i) && event_at(f, i)->wave == 0; }

static void add_edge(Free *f, int from, int to, int64_t delay, int distance) {
  if (from >= 0 && to >= 0) vec_push(f->arena, &f->edges, ((Edge){from, to, delay, distance}));
}

/* ---- events ---- */

static bool is_order_only(const Op *op) { return op_info[op->kind].flags & OPF_SYNC; }

static void find_twins(Free *f) {
  f->twin = ARENA_ARRAY(f->arena, int, f->n);
  for (int i = 0; i < f->n; i++) {
    f->twin[i] = i;
    for (int j = 0; i < f->origin && j < f->origin; j++) {
      const LoopEvent *x = event_at(f, i), *y = event_at(f, j);
      if (x->op == y->op && x->kind == y->kind && x->wave != y->wave) f->twin[i] = j;
    }
  }
}

/* No waits, and no barrier but one. */
static void number_events(Free *f) {
  const LoopGraph *g = &f->t->graph;
  int all = g->events.n, barrier = -1;
  f->event = ARENA_ARRAY(f->arena, int, all);
  f->of = ARENA_ARRAY(f->arena, int, all + 2);
  f->ahead = ARENA_ARRAY(f->arena, int, all);
  for (int e = 0; e < all; e++) {
    const LoopEvent *x = &g->events.at[e];
    bool counts = x->kind != LOOP_WAITS && x->wave < f->waves && !is_order_only(x->op);
    f->ahead[e] = schedule_ahead(f->k, g->loop, x->op);
    f->event[e] = counts ? f->n : -1;
    if (counts) f->of[f->n++] = e;
    if (x->op->kind == OP_barrier && x->wave == LOOP_WAVES) barrier = e;
  }
  f->origin = f->n++;
  f->barrier = barrier < 0 ? -1 : f->n++;
  if (barrier >= 0) f->of[f->barrier] = barrier;
  find_twins(f);
}

/* ---- edges ---- */

/* Values, turns of the waves, and what is in flight after it was issued. */
static void add_flow(Free *f) {
  const LoopTimes *t = f->t;
  for (int i = t->graph.enforced.n; i < t->edges.n; i++) {
    const Edge *e = &t->edges.at[i];
    int distance = e->distance + f->ahead[e->to] - f->ahead[e->from];
    add_edge(f, f->event[e->from], f->event[e->to], e->delay, distance);
  }
  for (int i = 0; i < f->origin; i++)
    for (int j = 0; is_start(f, i) && j < f->origin; j++) {
      const LoopEvent *x = event_at(f, i), *y = event_at(f, j);
      if (x->op == y->op && x->wave == y->wave && y->kind == LOOP_ENDS) add_edge(f, i, j, 0, 0);
    }
}

/* A barrier keeps the waves within an iteration of each other. */
static void add_waves(Free *f) {
  for (int i = 0; i < f->origin; i++)
    if (is_start(f, i) && f->twin[i] != i) add_edge(f, i, f->twin[i], 0, 1);
}

/* The registers of a value are those of another iteration's after its last use. */
static void add_registers(Free *f) {
  for (int i = 0; i < f->flow; i++) {
    Edge e = f->edges.at[i];
    const LoopEvent *from = event_at(f, e.from), *to = event_at(f, e.to);
    if (from->wave == to->wave) add_edge(f, e.to, e.from, 0, f->limits->copies - e.distance);
  }
}

/* All values of the first wave, between ops that start one after the other. */
static void add_values(Free *f) {
  const LoopTimes *t = f->t;
  for (int i = 0; i < t->values.n; i++) {
    HeldValue v = t->values.at[i];
    v.distance += f->ahead[v.to] - f->ahead[v.from];
    v.from = f->event[v.from], v.to = f->event[v.to];
    if (v.from >= 0 && v.to >= 0 && cost_at(f, v.from)->issue && cost_at(f, v.to)->issue)
      vec_push(f->arena, &f->values, v);
  }
}

static int64_t barrier_cycles(const Free *f) {
  return f->barrier >= 0 ? cost_at(f, f->barrier)->issue : 0;
}

/* The tile that a copy fills, which may have several slots; NULL: another op does. */
static const Op *ring_of(const Free *f, const LoopAccess *fill, int w) {
  const Op *alloc = f->limits->uses->memories.at[fill->memory]->def;
  bool copied = fill->op->kind == OP_copy || f->ahead[fill->begins[w]] > 0;
  return alloc && alloc->kind == OP_alloc && copied ? alloc : NULL;
}

/* Until an access is over: registers have been stored or their loads issued, or it has ended. */
static int64_t cycles_to_end(const Free *f, int i) {
  return event_at(f, i)->kind == LOOP_ENDS ? cost_at(f, i)->takes : cost_at(f, i)->issue;
}

/* Wave v reads what wave w wrote; boxes signal their arrival. Then, if `again`, w fills the tile
 * again. */
static void add_tile(Free *f, const LoopAccess *fill, int w, const LoopAccess *read, int v,
                     bool again) {
  if (fill->begins[w] < 0 || read->begins[v] < 0) return;
  bool early = f->ahead[fill->begins[w]] != f->ahead[read->begins[v]];
  bool next = !early && !op_comes_before(fill->op, read->op);
  int64_t wait = barrier_cycles(f), arrives = copy_barriers(fill->op) ? 0 : wait;
  const Op *ring = ring_of(f, fill, w);
  int slots = ring ? f->limits->slots(f->limits->user, ring) : 1;
  int filled = f->event[fill->ends[w]], fills = f->event[fill->begins[w]];
  int reads = f->event[read->begins[v]], done = f->event[read->ends[v]];
  if (filled < 0 || fills < 0 || reads < 0 || done < 0) return;
  if (!again) add_edge(f, filled, reads, cost_at(f, filled)->takes + arrives, next);
  else add_edge(f, done, fills, cycles_to_end(f, done) + wait, slots - next);
  if (again && ring) vec_push(f->arena, &f->tiles, ((Refill){ring, slots, f->edges.n - 1}));
}

static void add_memory(Free *f, bool again) {
  const LoopGraph *g = &f->t->graph;
  for (int i = 0; i < g->accesses.n; i++)
    for (int j = 0; j < g->accesses.n; j++) {
      const LoopAccess *x = &g->accesses.at[i], *y = &g->accesses.at[j];
      if (x->memory != y->memory || x->op == y->op) continue;
      if (x->how == TOUCH_READ || y->how != TOUCH_READ) continue;
      for (int w = 0; w < LOOP_WAVES * LOOP_WAVES; w++)
        add_tile(f, x, w / LOOP_WAVES, y, w % LOOP_WAVES, again);
    }
}

/* ---- stages ---- */

static bool stays(const Op *op) {
  const Value *written = memory_written(op);
  if (op->body) return true;
  return !op_is_private(op) && (!written || !memory_is_scratch(written));
}

static bool place_of(const Free *f, int i, Place *at) {
  *at = (Place){0, 0};
  return is_start(f, i) && f->limits->is_placed(f->limits->user, event_at(f, i)->op, at);
}

/* The only slot of a tile that a copy fills is free after its reads in the last stage. */
static bool reads_only_slot(const Free *f, int i) {
  const Op *op = event_at(f, i)->op;
  for (int j = 0; op->kind == OP_read && j < f->tiles.n; j++)
    if (op->args[0] == &f->tiles.at[j].alloc->results[0] && f->tiles.at[j].slots == 1) return true;
  return false;
}

static bool computes(const Op *op) {
  OpClass class = schedule_class(op);
  return class == OP_CLASS_none || class == OP_CLASS_mma || class == OP_CLASS_reduce;
}

static bool is_in_last(const Free *f, int i) {
  const Op *op = is_start(f, i) ? event_at(f, i)->op : NULL;
  return op && (stays(op) || reads_only_slot(f, i) || (!f->limits->early && computes(op)));
}

static void add_stages(Free *f) {
  Place at;
  for (int i = 0; i < f->origin; i++) {
    if (!place_of(f, i, &at) && !is_in_last(f, i)) continue;
    f->fixed = true;
    add_edge(f, f->origin, i, 0, at.stage);
    add_edge(f, i, f->origin, 1, 1 - at.stage);
  }
  for (int i = 0; f->fixed && i < f->origin; i++)
    if (is_first(f, i)) add_edge(f, i, f->origin, 1, 1);
}

/* Ops that rows place are in the order of their cycles. */
static void add_cycles(Free *f) {
  Place first, second;
  for (int i = 0; i < f->origin; i++)
    for (int j = 0; place_of(f, i, &first) && j < f->origin; j++)
      if (place_of(f, j, &second) && first.cycle < second.cycle &&
          event_at(f, i)->wave == event_at(f, j)->wave)
        add_edge(f, i, j, cost_at(f, i)->issue, second.stage - first.stage);
}

/* ---- units ---- */

/* Of a wave's op, and of the other wave's if that is not looked at: it follows closely. */
static int64_t cycles_on(const Free *f, const UnitUse *use) {
  const LoopEvent *all = f->t->graph.events.at;
  int64_t sum = use->cycles;
  for (int i = 0; f->waves == 1 && i < f->t->uses.n; i++) {
    const UnitUse *x = &f->t->uses.at[i];
    if (x->unit == use->unit && x->event != use->event && all[x->event].op == all[use->event].op)
      sum += x->cycles;
  }
  return sum;
}

static void add_units(Free *f) {
  for (int i = 0; i < f->t->uses.n; i++) {
    UnitUse use = f->t->uses.at[i];
    use.cycles = cycles_on(f, &use);
    use.event = f->event[use.event];
    if (use.event >= 0) vec_push(f->arena, &f->uses, use);
  }
  for (int i = 0; i < f->n; i++) {
    if (!is_first(f, i) && i != f->barrier) continue;
    UnitUse use = {i, UNIT_WAVE, cost_at(f, i)->issue};
    if (use.cycles) vec_push(f->arena, &f->uses, use);
  }
}

static IntervalProblem problem_of(Free *f) {
  add_flow(f);
  f->flow = f->edges.n;
  add_memory(f, false);
  f->forward = f->edges.n;
  add_registers(f);
  add_values(f);
  add_waves(f);
  add_memory(f, true);
  add_stages(f);
  add_cycles(f);
  add_units(f);
  return (IntervalProblem){
      .events = f->n,
      .nedges = f->edges.n,
      .nuses = f->uses.n,
      .edges = f->edges.at,
      .uses = f->uses.at,
      .held = {f->values.at, f->values.n, f->limits->registers, f->limits->spare},
      .budget = WORK / (f->n * f->n) / 16 + 1,
      .total = WORK / (f->n * f->n) + 1,
      .close = f->waves == 1 ? CLOSE : 0,
      .twin = f->twin,
      .wave = UNIT_WAVE};
}

/* ---- whole iterations ----
 *
 * The units that an event takes are as free some whole iterations later, so every event can be as late
 * as the others allow: tiles and values then wait as briefly as possible. */

/* Whether another op of its iteration needs what it does. */
static bool is_needed(const Free *f, int i) {
  for (int j = 0; j < f->forward; j++) {
    const Edge *e = &f->edges.at[j];
    if (e->from == i && e->distance == 0 && e->to != f->twin[i]) return true;
  }
  return false;
}

static int64_t slack_of(const Edge *e, const Interval *found) {
  return found->start[e->to] + e->distance * found->cycles - e->delay - found->start[e->from];
}

/* The iterations by which an event can be later. */
static int64_t delay_of(const Free *f, const Interval *found, int i) {
  int64_t least = INT32_MAX;
  for (int j = 0; j < f->forward; j++) {
    const Edge *e = &f->edges.at[j];
    if (e->from != i || e->to == i || e->to == f->twin[i]) continue;
    int64_t by = floor_div64(slack_of(e, found), found->cycles);
    if (by < least) least = by;
  }
  return least;
}

/* With the other wave's. */
static bool move_late(const Free *f, Interval *found, int i) {
  int other = f->twin[i];
  int64_t own = delay_of(f, found, i), by = delay_of(f, found, other);
  if (own < by) by = own;
  if (by <= 0 || by == INT32_MAX) return false;
  found->start[i] += by * found->cycles;
  if (other != i) found->start[other] += by * found->cycles;
  return true;
}

static bool is_valid(const Free *f, const Interval *found) {
  for (int i = 0; i < f->edges.n; i++)
    if (slack_of(&f->edges.at[i], found) < 0) return false;
  return true;
}

/* Stages that rows give may be in the way: then everything stays where it is. */
static void move_all_late(const Free *f, Interval *found) {
  size_t bytes = sizeof(int64_t) * (size_t)f->n;
  int64_t *before = arena_copy(f->arena, found->start, bytes);
  bool moved = true;
  for (int round = 0; moved && round < f->n; round++) {
    moved = false;
    for (int i = f->origin - 1; i >= 0; i--)
      if (is_needed(f, i)) moved |= move_late(f, found, i);
  }
  if (!is_valid(f, found)) memcpy(found->start, before, bytes);
}

/* ---- places ---- */

typedef struct Phase {
  int64_t begin; /* of an iteration of the loop */
  int last;      /* stage */
  int64_t cost;
} Phase;

static int stage_at(const Interval *found, int64_t begin, int i) {
  return (int)floor_div64(found->start[i] - begin, found->cycles);
}

static int result_registers(const Op *op) {
  return op->nresults && op->results[0].layout ? live_registers(&op->results[0]) : 0;
}

/* Registers that carry values from one iteration of the loop to the next; INT32_MAX: a tile would
 * wait in them for too long. */
static Phase phase_at(const Free *f, const Interval *found, int64_t begin) {
  Phase p = {begin, INT32_MIN, 0};
  for (int i = 0; i < f->origin; i++)
    if (is_first(f, i) && stage_at(found, begin, i) > p.last) p.last = stage_at(found, begin, i);
  for (int i = 0; i < f->edges.n; i++) {
    const Edge *e = &f->edges.at[i];
    if (e->from >= f->origin || e->to >= f->origin || !is_first(f, e->to)) continue;
    const Op *op = event_at(f, e->from)->op, *user = event_at(f, e->to)->op;
    if (op == user || !result_registers(op) || !op_takes(user, &op->results[0])) continue;
    int kept = stage_at(found, begin, e->to) - stage_at(found, begin, e->from);
    p.cost += (int64_t)kept * result_registers(op);
    if (schedule_class(user) == OP_CLASS_store && kept > 1) p.cost = INT32_MAX;
  }
  return p;
}

static Phase best_phase(const Free *f, const Interval *found) {
  Phase best = phase_at(f, found, found->start[f->origin]);
  for (int i = 0; !f->fixed && i < f->origin; i++) {
    if (!is_first(f, i)) continue;
    Phase p = phase_at(f, found, found->start[i]);
    if (i == 0 || p.cost < best.cost) best = p;
  }
  return best;
}

static void add_place(const Free *f, FreePlace p, FreeTimes *out) {
  int at = out->places.n;
  vec_push(f->arena, &out->places, p);
  for (; at > 0 && out->places.at[at - 1].at > p.at; at--)
    out->places.at[at] = out->places.at[at - 1];
  out->places.at[at] = p;
}

static void find_places(const Free *f, const Interval *found, FreeTimes *out) {
  Phase phase = best_phase(f, found);
  for (int i = 0; i < f->origin; i++) {
    int stage = stage_at(found, phase.begin, i);
    if (!is_first(f, i) || !cost_at(f, i)->issue) continue;
    add_place(f,
              (FreePlace){event_at(f, i)->op, phase.last - stage,
                          found->start[i] - phase.begin - stage * found->cycles},
              out);
  }
}

static void add_ring(const Free *f, const Op *alloc, int slots, FreeTimes *out) {
  for (int i = 0; i < out->rings.n; i++) {
    if (out->rings.at[i].alloc != alloc) continue;
    if (slots > out->rings.at[i].slots) out->rings.at[i].slots = slots;
    return;
  }
  vec_push(f->arena, &out->rings, ((FreeRing){alloc, slots}));
}

/* From the edges by which tiles are filled again. */
static void find_rings(const Free *f, const Interval *found, FreeTimes *out) {
  for (int i = 0; i < f->tiles.n; i++) {
    const Edge *e = &f->edges.at[f->tiles.at[i].edge];
    int64_t after = found->start[e->from] + e->delay - found->start[e->to];
    add_ring(f, f->tiles.at[i].alloc, (int)ceil_div64(after, found->cycles), out);
  }
}

/* ---- the loop ---- */

int64_t loop_free_bound(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits) {
  Free f = {.arena = a, .k = k, .t = t, .limits = limits, .waves = 1};
  number_events(&f);
  IntervalProblem p = problem_of(&f);
  return interval_bound(a, &p);
}

/* If the other wave is only assumed to follow closely, the bound is that of units and cycles. */
FreeTimes loop_free(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits, int waves) {
  Free f = {.arena = a, .k = k, .t = t, .limits = limits, .waves = waves};
  FreeTimes out = {0};
  number_events(&f);
  out.events = f.n;
  IntervalProblem p = problem_of(&f);
  if (waves == 1) p.known = t->cycles;
  Interval found = waves == 1 ? interval_place(a, &p) : interval_solve(a, &p);
  if (waves == 1 && found.crowded && found.cycles - found.bound > found.bound / FAR) {
    p.held.most -= p.held.spare;
    if (found.cycles < p.known) p.known = found.cycles;
    Interval other = interval_solve(a, &p);
    other.bound = found.bound; /* the other wave does not always follow closely */
    if (other.cycles < found.cycles) found = other;
  }
  out.cycles = found.cycles, out.bound = found.bound;
  if (found.cycles == PATHS_NEVER) return out;
  move_all_late(&f, &found);
  out.registers = (int)pressure_of(&p.held, found.start, found.cycles);
  find_places(&f, &found, &out);
  find_rings(&f, &found, &out);
  return out;
}
