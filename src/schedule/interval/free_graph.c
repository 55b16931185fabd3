/* free_graph.c: see free_graph.h. Distances are between iterations as they were written, whatever the
 * stages of the kernel that is looked at. */
#include "schedule/interval/free_graph.h"

#include "analysis/motion.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/region_facts.h"

enum { UNIT_WAVE = 2 * UNIT_COUNT }; /* starts one op at a time */

void free_add_edge(Free *f, int from, int to, int64_t delay, int distance) {
  if (from >= 0 && to >= 0) vec_push(f->arena, &f->edges, ((Edge){from, to, delay, distance}));
}

/* ---- events ---- */

static bool is_order_only(const Op *op) { return op_info[op->kind].flags & OPF_SYNC; }

/* A wait for tiles that signal their arrival, which takes time; -1: there is none. */
static int test_event(const Free *f) {
  const LoopGraph *g = &f->t->graph;
  for (int e = 0; e < g->events.n; e++)
    if (g->events.at[e].op->kind == OP_mbar_wait && f->t->cost[e].issue) return e;
  return -1;
}

static void find_twins(Free *f) {
  f->twin = ARENA_ARRAY(f->arena, int, f->n);
  for (int i = 0; i < f->n; i++) {
    f->twin[i] = i;
    for (int j = 0; i < f->origin && j < f->origin; j++) {
      const LoopEvent *x = free_event(f, i), *y = free_event(f, j);
      if (x->op == y->op && x->kind == y->kind && x->wave != y->wave) f->twin[i] = j;
    }
  }
}

/* No waits, and no barriers but two. */
static void number_events(Free *f) {
  const LoopGraph *g = &f->t->graph;
  int all = g->events.n, barrier = -1;
  f->event = ARENA_ARRAY(f->arena, int, all);
  f->of = ARENA_ARRAY(f->arena, int, all + 4);
  f->ahead = ARENA_ARRAY(f->arena, int, all);
  const bool *written = f->limits->bounds ? find_written(f->k, f->arena) : NULL;
  for (int e = 0; e < all; e++) {
    const LoopEvent *x = &g->events.at[e];
    bool counts = x->kind != LOOP_WAITS && x->wave < f->waves && !is_order_only(x->op);
    if (written && motion_is_fixed_read(f->k, g->loop, written, x->op)) counts = false;
    f->ahead[e] = schedule_ahead(f->k, g->loop, x->op);
    f->event[e] = counts ? f->n : -1;
    if (counts) f->of[f->n++] = e;
    bool meets = x->op->kind == OP_barrier && x->wave == LOOP_WAVES;
    if (meets && !f->limits->served) barrier = e;
  }
  f->origin = f->n++;
  f->barrier = barrier < 0 ? -1 : f->n++;
  f->second = f->barrier < 0 ? -1 : f->n++;
  if (barrier >= 0) f->of[f->barrier] = f->of[f->second] = barrier;
  int test = f->limits->bounds ? test_event(f) : -1;
  f->test = test < 0 ? -1 : f->n++;
  if (test >= 0) f->of[f->test] = test;
  find_twins(f);
}

/* ---- exchanges ---- */

/* Whether a copy of the loop fills the memory. */
static bool is_copied(const Op *loop, const Value *memory) {
  for (const Op *op = loop->body->first; op; op = op->next)
    if (schedule_fills(op) == memory && schedule_class(op) != OP_CLASS_store) return true;
  return false;
}

bool free_is_passing(const Op *loop, const Op *op) {
  OpClass class = schedule_class(op);
  if (class == OP_CLASS_store) return !is_copied(loop, memory_written(op));
  return class == OP_CLASS_fetch && !is_copied(loop, memory_root(op->args[0]));
}

/* ---- edges ---- */

/* Values, turns of the waves, and what is in flight after it was issued. */
static void add_flow(Free *f) {
  const LoopTimes *t = f->t;
  for (int i = t->graph.enforced.n; i < t->edges.n; i++) {
    const Edge *e = &t->edges.at[i];
    int distance = e->distance + f->ahead[e->to] - f->ahead[e->from];
    free_add_edge(f, f->event[e->from], f->event[e->to], e->delay, distance);
  }
  for (int i = 0; i < f->origin; i++)
    for (int j = 0; free_is_start(f, i) && j < f->origin; j++) {
      const LoopEvent *x = free_event(f, i), *y = free_event(f, j);
      if (x->op == y->op && x->wave == y->wave && y->kind == LOOP_ENDS)
        free_add_edge(f, i, j, 0, 0);
    }
}

/* The registers of a value are those of another iteration's after its last use. */
static void add_registers(Free *f) {
  for (int i = 0; i < f->flow; i++) {
    Edge e = f->edges.at[i];
    const LoopEvent *from = free_event(f, e.from), *to = free_event(f, e.to);
    if (from->wave == to->wave) free_add_edge(f, e.to, e.from, 0, f->limits->copies - e.distance);
  }
}

/* All values of the first wave, between ops that start one after the other. */
static void add_values(Free *f) {
  const LoopTimes *t = f->t;
  for (int i = 0; i < t->values.n; i++) {
    HeldValue v = t->values.at[i];
    v.distance += f->ahead[v.to] - f->ahead[v.from];
    v.from = f->event[v.from], v.to = f->event[v.to];
    if (v.from >= 0 && v.to >= 0 && free_cost(f, v.from)->issue && free_cost(f, v.to)->issue)
      vec_push(f->arena, &f->values, v);
  }
}

int64_t free_barrier_cycles(const Free *f) {
  return f->barrier >= 0 ? free_cost(f, f->barrier)->issue : 0;
}

int64_t free_test_cycles(const Free *f) {
  int test = test_event(f);
  return test < 0 ? 0 : f->t->cost[test].issue;
}

int64_t free_slot_bytes(const Op *alloc) {
  MemLayout slot;
  return alloc->kind == OP_alloc && alloc_slot_layout(alloc, &slot) ? mem_bytes(&slot) : 0;
}

const Op *free_ring(const Free *f, const LoopAccess *fill, int w) {
  const Op *alloc = f->limits->uses->memories.at[fill->memory]->def;
  bool copied = fill->op->kind == OP_copy || f->ahead[fill->begins[w]] > 0;
  return alloc && alloc->kind == OP_alloc && copied ? alloc : NULL;
}

/* The slots that a tile may have; 0: that is not known, since nothing fills it ahead so far. */
static int slots_of(const Free *f, const LoopAccess *fill, int w) {
  const Op *ring = free_ring(f, fill, w);
  if (ring) return f->limits->slots(f->limits->user, ring);
  return is_copied(f->t->graph.loop, f->limits->uses->memories.at[fill->memory]) ? 0 : 1;
}

/* Until an access is over: registers have been stored or their loads issued, or it has ended. */
static int64_t cycles_to_end(const Free *f, int i) {
  return free_event(f, i)->kind == LOOP_ENDS ? free_cost(f, i)->takes : free_cost(f, i)->issue;
}

/* Wave v reads what wave w wrote; boxes signal their arrival. Then, if `again`, w fills the tile
 * again. */
static void add_tile(Free *f, const LoopAccess *fill, int w, const LoopAccess *read, int v,
                     bool again) {
  if (fill->begins[w] < 0 || read->begins[v] < 0) return;
  bool early = f->ahead[fill->begins[w]] != f->ahead[read->begins[v]];
  bool next = !early && !op_comes_before(fill->op, read->op);
  int64_t wait = free_barrier_cycles(f), arrives = copy_barriers(fill->op) ? 0 : wait;
  const Op *ring = free_ring(f, fill, w);
  int slots = slots_of(f, fill, w);
  int filled = f->event[fill->ends[w]], fills = f->event[fill->begins[w]];
  int reads = f->event[read->begins[v]], done = f->event[read->ends[v]];
  if (filled < 0 || fills < 0 || reads < 0 || done < 0) return;
  if (!again) free_add_edge(f, filled, reads, free_cost(f, filled)->takes + arrives, next);
  else if (slots) free_add_edge(f, done, fills, cycles_to_end(f, done) + wait, slots - next);
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

/* ---- barriers ---- */

bool free_shared(const Free *f, int pair, SharedTile *out) {
  const LoopGraph *g = &f->t->graph;
  const LoopAccess *x = &g->accesses.at[pair / g->accesses.n],
                   *y = &g->accesses.at[pair % g->accesses.n];
  if (x->memory != y->memory || x->op == y->op) return false;
  if (x->how == TOUCH_READ || y->how != TOUCH_READ) return false;
  if (x->begins[0] < 0 || y->begins[0] < 0) return false;
  bool early = f->ahead[x->begins[0]] != f->ahead[y->begins[0]];
  *out = (SharedTile){.fill = x,
                      .read = y,
                      .ring = free_ring(f, x, 0),
                      .slots = slots_of(f, x, 0),
                      .signals = copy_barriers(x->op) != NULL,
                      .next = !early && !op_comes_before(x->op, y->op)};
  return true;
}

int free_pairs(const Free *f) { return f->t->graph.accesses.n * f->t->graph.accesses.n; }

bool free_least_shared(const Free *f, SharedTile *out) {
  SharedTile x;
  bool any = false;
  for (int i = 0; i < free_pairs(f); i++)
    if (free_shared(f, i, &x) && x.slots && (!any || x.slots < out->slots)) any = true, *out = x;
  return any;
}

void free_add_meetings(Free *f, const SharedTile *x, int emptied, int filled) {
  int64_t wait = free_barrier_cycles(f);
  for (int w = 0; w < f->waves; w++) {
    if (x->fill->begins[w] < 0 || x->read->begins[w] < 0) continue;
    int fills = f->event[x->fill->begins[w]], arrives = f->event[x->fill->ends[w]];
    int reads = f->event[x->read->begins[w]], done = f->event[x->read->ends[w]];
    if (fills < 0 || arrives < 0 || reads < 0 || done < 0) continue;
    free_add_edge(f, done, emptied, cycles_to_end(f, done), 0);
    free_add_edge(f, emptied, fills, wait, x->slots - x->next);
    free_add_edge(f, arrives, filled, free_cost(f, arrives)->takes, 0);
    free_add_edge(f, filled, reads, wait, x->next);
  }
}

/* Of the tile with the fewest slots. If it has one, the barriers before and after its reads are two, unless a
 * signal says that it is filled. */
static void add_barriers(Free *f) {
  SharedTile x = {0};
  if (f->barrier < 0 || !free_least_shared(f, &x) || x.slots > FREE_FEW_SLOTS) return;
  f->meets_twice = x.slots == 1 && !x.signals;
  free_add_meetings(f, &x, f->barrier, f->meets_twice ? f->second : -1);
}

/* ---- waves that meet ----
 *
 * From one barrier to the next, the wave that is first issues all that comes before an op, the other one
 * the op and all that comes after it. So it takes as long as all of that, and the time from the op of the
 * one to that of the other: its lag. */

int64_t free_lag(const Free *f, int i) {
  int64_t lag = 0;
  for (int j = 0; i >= 0 && j < f->flow; j++) {
    const Edge *e = &f->edges.at[j];
    if (e->from == i && e->to == f->twin[i] && !e->distance && e->delay > lag) lag = e->delay;
  }
  return lag;
}

/* A tile with one slot is filled and read between different barriers. */
static int64_t lag_of_tile(const Free *f, const SharedTile *x) {
  int64_t fill = free_lag(f, f->event[x->fill->begins[0]]);
  int64_t read = free_lag(f, f->event[x->read->begins[0]]);
  return fill < read ? fill : read;
}

/* Whether shared memory has room for two slots of all tiles that may have more than one. */
static bool has_room_for_two(const Free *f) {
  int64_t bytes = 0;
  const Kernel *k = f->k;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    bool ring = false;
    SharedTile x;
    for (int i = 0; op->kind == OP_alloc && !ring && i < free_pairs(f); i++)
      ring = free_shared(f, i, &x) && x.ring == op;
    if (ring) bytes += 2 * free_slot_bytes(op);
  }
  return bytes <= f->limits->room;
}

/* The lag of the ops between two other barriers than those between which the op with the greatest lag is.
 * If not all tiles can have two slots, some has one, and each of them is as good. */
static int64_t lag_apart(Free *f) {
  int64_t most = 0, least = INT64_MAX;
  SharedTile x;
  bool signals = false;
  for (int i = 0; i < free_pairs(f); i++) {
    if (!free_shared(f, i, &x)) continue;
    int64_t lag = lag_of_tile(f, &x);
    if (x.slots == 1 && !x.signals && lag > most) most = lag;
    if (x.ring && lag < least) least = lag;
    signals |= x.signals || !x.slots;
  }
  if (signals || has_room_for_two(f)) return most;
  f->meets_twice = true;
  return least > most ? least : most;
}

/* Whether every iteration has this barrier. */
static bool is_met(const Free *f, int i) {
  return f->barrier >= 0 && (i == f->barrier || (i == f->second && f->meets_twice));
}

/* Each wave then waits for a tile at least once in an iteration. */
static bool has_signals(const Free *f) {
  SharedTile x;
  for (int i = 0; i < free_pairs(f); i++)
    if (free_shared(f, i, &x) && x.signals) return true;
  return false;
}

/* What a wave issues in an iteration. One wave issues what an elected thread does, so that it is not
 * counted where both are looked at. */
static int64_t issued_by(const Free *f, int i) {
  if (i == f->test) return has_signals(f) ? free_cost(f, i)->issue : 0;
  if (!free_is_first(f, i) && !is_met(f, i)) return 0;
  return f->waves > 1 && free_cost(f, i)->elected ? 0 : free_cost(f, i)->issue;
}

/* The same of the wave that takes less time for it. */
static int64_t least_issued(const Free *f, int i) {
  int64_t own = issued_by(f, i), other = f->twin[i] != i ? free_cost(f, f->twin[i])->issue : own;
  return own < other ? own : other;
}

/* So the waves are within an iteration of each other, and closer by all that a wave issues: some of it one
 * wave, the rest the other. */
static void add_waves(Free *f) {
  if (f->limits->served) return;
  int64_t all = f->barrier >= 0 && f->waves > 1 ? lag_apart(f) : 0;
  for (int i = 0; f->barrier >= 0 && i < f->n; i++) all += least_issued(f, i);
  for (int i = 0; i < f->origin; i++)
    if (free_is_start(f, i) && f->twin[i] != i) {
      bool issued = issued_by(f, i) || issued_by(f, f->twin[i]);
      free_add_edge(f, i, f->twin[i], issued ? all : 0, 1);
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
  return free_is_start(f, i) && f->limits->is_placed(f->limits->user, free_event(f, i)->op, at);
}

bool free_is_placed(const Free *f, int i) {
  Place at;
  return place_of(f, i, &at);
}

/* The only slot of a tile that a copy fills is free after its reads in the last stage. */
static bool reads_only_slot(const Free *f, int i) {
  const Op *op = free_event(f, i)->op;
  for (int j = 0; op->kind == OP_read && j < f->tiles.n; j++)
    if (op->args[0] == &f->tiles.at[j].alloc->results[0] && f->tiles.at[j].slots == 1) return true;
  return false;
}

static bool computes(const Op *op) {
  OpClass class = schedule_class(op);
  return class == OP_CLASS_none || class == OP_CLASS_mma || class == OP_CLASS_reduce;
}

bool free_is_last(const Free *f, int i) {
  const Op *op = free_is_start(f, i) ? free_event(f, i)->op : NULL;
  return op && (stays(op) || reads_only_slot(f, i) || (!f->limits->early && computes(op)));
}

static void add_stages(Free *f) {
  Place at;
  for (int i = 0; i < f->origin; i++) {
    if (!place_of(f, i, &at) && !free_is_last(f, i)) continue;
    f->fixed = true;
    free_add_edge(f, f->origin, i, 0, at.stage);
    free_add_edge(f, i, f->origin, 1, 1 - at.stage);
  }
  for (int i = 0; f->fixed && i < f->origin; i++)
    if (free_is_first(f, i)) free_add_edge(f, i, f->origin, 1, 1);
}

/* Ops that rows place are in the order of their cycles. */
static void add_cycles(Free *f) {
  Place first, second;
  for (int i = 0; i < f->origin; i++)
    for (int j = 0; place_of(f, i, &first) && j < f->origin; j++)
      if (place_of(f, j, &second) && first.cycle < second.cycle &&
          free_event(f, i)->wave == free_event(f, j)->wave)
        free_add_edge(f, i, j, free_cost(f, i)->issue, second.stage - first.stage);
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
    UnitUse use = {i, UNIT_WAVE, issued_by(f, i)};
    if (use.cycles) vec_push(f->arena, &f->uses, use);
  }
}

/* ---- the problem ---- */

Free free_graph(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits, int waves) {
  Free f = {.arena = a, .k = k, .t = t, .limits = limits, .waves = waves};
  number_events(&f);
  add_flow(&f);
  f.flow = f.edges.n;
  add_memory(&f, false);
  f.forward = f.edges.n;
  add_registers(&f);
  add_values(&f);
  add_memory(&f, true);
  add_barriers(&f);
  add_waves(&f);
  add_stages(&f);
  add_cycles(&f);
  add_units(&f);
  return f;
}

IntervalProblem free_problem(const Free *f) {
  return (IntervalProblem){
      .events = f->n,
      .nedges = f->edges.n,
      .nuses = f->uses.n,
      .edges = f->edges.at,
      .uses = f->uses.at,
      .held = {f->values.at, f->values.n, f->limits->registers, f->limits->spare},
      .twin = f->twin,
      .wave = UNIT_WAVE,
      .meetings = f->meetings};
}
