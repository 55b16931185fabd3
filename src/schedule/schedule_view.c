/* schedule_view.c: see schedule_view.h. */
#include "schedule/schedule_view.h"

#include <string.h>

#include "ir/ops/access.h"
#include "ir/schedule/turn_ops.h"
#include "schedule/schedule_file.h"
#include "schedule/view_loads.h"

typedef struct Viewing {
  Arena *arena;
  Kernel *k;
  const Op *loop;
  const LoopTimes *t;
  LoopView *out;
  int *box; /* of each event: where its op begins to be executed; -1: none */
  bool *critical;
} Viewing;

/* ---- names ---- */

static bool is_any(const void *user, const Op *op) { return !user || op != NULL; }

static const char *op_name(const Viewing *v, const Op *op) {
  const char *name = schedule_name_of(v->arena, v->k, v->loop, op, is_any, NULL);
  return name ? name : op_info[op->kind].name;
}

/* Ops that a wave computes one after the other are one event. */
static const char *event_name(const Viewing *v, const LoopEvent *e) {
  bool orders = op_info[e->op->kind].flags & OPF_SYNC;
  return orders ? op_info[e->op->kind].name : op_name(v, e->op);
}

static const char *place_of(const Viewing *v, Span at) {
  if (!at.file) return "";
  return arena_printf(v->arena, "%s:%u", sources_name(&v->k->cx->sources, at.file), at.line);
}

/* "i", "i+3" */
static const char *iteration_text(Arena *a, int ahead) {
  return ahead ? arena_printf(a, "i%+d", ahead) : "i";
}

/* ---- lanes ---- */

static void add_lane(Viewing *v, const char *name, const char *doc, int wave) {
  vec_push(v->arena, &v->out->lanes, ((ViewLane){.name = name, .doc = doc, .wave = wave}));
}

static bool is_used(const LoopTimes *t, int unit) {
  for (int i = 0; i < t->uses.n; i++)
    if (t->uses.at[i].unit == unit) return true;
  return false;
}

static bool has_events(const LoopTimes *t, int wave) {
  for (int i = 0; i < t->graph.events.n; i++)
    if (t->graph.events.at[i].wave == wave && t->cost[i].issue) return true;
  return false;
}

/* What the waves issue, then their units, then those that they share. The lane of unit u, or of wave
 * w as 2 * UNIT_COUNT + w, is lane[...]; -1: none. */
static void add_lanes(Viewing *v, int *lane) {
  bool apart = false;
  for (int i = 0; i < 2 * UNIT_COUNT + LOOP_WAVES; i++) lane[i] = -1;
  for (int u = UNIT_COUNT; u < 2 * UNIT_COUNT; u++) apart |= is_used(v->t, u);
  for (int w = 0; w < LOOP_WAVES; w++) {
    if (w && !has_events(v->t, w)) continue;
    lane[2 * UNIT_COUNT + w] = v->out->lanes.n;
    add_lane(v, w == LOOP_SERVICE ? "service" : arena_printf(v->arena, "wave %d", w),
             "what a wave issues", w);
    for (int u = 0; u < UNIT_COUNT; u++) {
      int number = w * UNIT_COUNT + u;
      if (w == LOOP_SERVICE || (w && !apart)) continue;
      if (!is_used(v->t, number) || !unit_info[u].each_simd) continue;
      lane[number] = v->out->lanes.n;
      add_lane(v, unit_info[u].name, unit_info[u].doc, apart ? w : -1);
    }
  }
  for (int u = 0; u < UNIT_COUNT; u++)
    if (lane[u] < 0 && is_used(v->t, u)) {
      lane[u] = v->out->lanes.n;
      add_lane(v, unit_info[u].name, unit_info[u].doc, -1);
    }
}

/* ---- boxes ---- */

static ViewBox new_box(const Viewing *v, int event, ViewKind kind, int lane) {
  const LoopEvent *e = &v->t->graph.events.at[event];
  ViewBox box = {.kind = kind, .lane = lane, .event = event, .name = event_name(v, e)};
  box.place = place_of(v, e->op->at);
  box.ahead = schedule_ahead(v->k, v->loop, e->op);
  box.start = v->t->at[event];
  box.cycles = v->t->cost[event].issue;
  box.ends = box.start + v->t->cost[event].takes;
  box.critical = v->critical[event];
  return box;
}

/* An event that starts as soon as another one allows it, and is not issued itself, only passes on
 * what that one waits for. */
static bool passes_on(const Viewing *v, int event) {
  const LoopEvent *e = &v->t->graph.events.at[event];
  return e->kind != LOOP_ENDS && (!v->t->cost[event].issue || e->op->kind == OP_barrier);
}

enum { MOST_STEPS = 8 }; /* from a wait to its reason */

typedef struct Asked {
  int before;    /* the event before it in the wave: that one has been issued */
  int64_t slack; /* cycles by which the reason may be earlier: starts are whole numbers */
  int distance;  /* of the event from the iteration in which the reason is told */
  int steps;
} Asked;

/* The last edge to an event, other than that from the op before it; NULL: there is none. */
static const Edge *last_edge(const LoopTimes *t, int event, const Asked *q) {
  const Edge *last = NULL;
  int64_t latest = t->at[event] - q->slack;
  for (int i = 0; i < t->edges.n; i++) {
    const Edge *e = &t->edges.at[i];
    bool only_next = e->from == q->before && e->delay <= t->cost[e->from].issue;
    int64_t at = t->at[e->from] + e->delay - e->distance * t->cycles;
    if (e->to == event && !only_next && e->from != event && at >= latest) last = e, latest = at + 1;
  }
  return last;
}

static bool is_turn(const Viewing *v, int event) {
  return v->t->graph.events.at[event].op->kind == OP_turn;
}

/* What an event waits for: "x.copy of iteration i", "its turn"; NULL: a busy unit. */
static const char *reason_of(const Viewing *v, int event, Asked q) {
  const Edge *e = q.steps < MOST_STEPS ? last_edge(v->t, event, &q) : NULL;
  if (!e) return NULL;
  const LoopEvent *from = &v->t->graph.events.at[e->from];
  Asked next = {-1, q.slack, q.distance + e->distance, q.steps + 1};
  if (is_turn(v, e->from) && is_turn(v, event) && !q.steps) return "its turn";
  if (passes_on(v, e->from)) return reason_of(v, e->from, next);
  int ahead = schedule_ahead(v->k, v->loop, from->op) - next.distance;
  return arena_printf(v->arena, "%s of iteration %s", event_name(v, from),
                      iteration_text(v->arena, ahead));
}

/* The unit that an op occupies longest is busy with another one. */
static const char *unit_reason(const Viewing *v, int event) {
  const LoopCost *cost = &v->t->cost[event];
  int most = 0;
  for (int u = 1; u < UNIT_COUNT; u++)
    if (cost->unit[u] > cost->unit[most]) most = u;
  return cost->unit[most] ? arena_printf(v->arena, "the %s", unit_info[most].doc) : "other waves";
}

/* Events that take no time are skipped: the wave stands at the last of them. */
static const char *wait_reason(const Viewing *v, int event, int wave, Asked q) {
  const LoopGraph *g = &v->t->graph;
  const char *reason = reason_of(v, event, q);
  int last = event;
  for (int i = event + 1; i < g->events.n && !reason; i++) {
    const LoopEvent *e = &g->events.at[i];
    if (e->kind == LOOP_ENDS || (e->wave != wave && e->wave != LOOP_WAVES)) continue;
    if (v->t->at[i] != v->t->at[event]) break;
    q.before = last;
    reason = reason_of(v, i, q);
    last = i;
  }
  return reason ? reason : unit_reason(v, event);
}

/* The time between two events of a wave in which it issues nothing. */
static void add_wait(Viewing *v, int lane, int event, int before, int64_t from, int64_t to) {
  if (to <= from) return;
  ViewBox box = new_box(v, event, VIEW_WAITS, lane);
  box.start = from, box.cycles = to - from, box.ends = to;
  Asked q = {.before = before, .slack = (to - from) / 8};
  box.why = wait_reason(v, event, v->out->lanes.at[lane].wave, q);
  vec_push(v->arena, &v->out->boxes, box);
}

static int64_t issued(const Viewing *v, int event, int wave) {
  const LoopEvent *e = &v->t->graph.events.at[event];
  const LoopCost *cost = &v->t->cost[event];
  bool none = e->kind != LOOP_STARTS || (cost->elected && wave == 1);
  return none ? 0 : cost->issue;
}

static void add_wave(Viewing *v, int wave, int lane) {
  const LoopGraph *g = &v->t->graph;
  int first = -1, before = -1;
  int64_t end = 0, sum = 0;
  for (int i = 0; i < g->events.n; i++) {
    const LoopEvent *e = &g->events.at[i];
    if (e->kind == LOOP_ENDS || (e->wave != wave && e->wave != LOOP_WAVES)) continue;
    if (first < 0) first = i;
    else add_wait(v, lane, i, before, end, v->t->at[i]);
    int64_t cycles = issued(v, i, wave);
    ViewBox box = new_box(v, i, e->wave == LOOP_WAVES ? VIEW_BARRIER : VIEW_ISSUES, lane);
    box.cycles = cycles;
    if (v->box[i] < 0 && cycles) v->box[i] = v->out->boxes.n;
    if (cycles) vec_push(v->arena, &v->out->boxes, box);
    before = i, sum += cycles;
    end = v->t->at[i] + cycles;
  }
  if (first >= 0) add_wait(v, lane, first, before, end, v->t->at[first] + v->t->cycles);
  v->out->lanes.at[lane].busy = (double)sum / (double)v->t->cycles;
}

static void add_units(Viewing *v, const int *lane) {
  for (int i = 0; i < v->t->uses.n; i++) {
    const UnitUse *u = &v->t->uses.at[i];
    if (lane[u->unit] < 0) continue;
    ViewBox box = new_box(v, u->event, VIEW_RUNS, lane[u->unit]);
    box.cycles = u->cycles;
    if (v->t->graph.events.at[u->event].kind == LOOP_ENDS) v->box[u->event] = v->out->boxes.n;
    vec_push(v->arena, &v->out->boxes, box);
    v->out->lanes.at[box.lane].busy += (double)u->cycles / (double)v->t->cycles;
    v->out->lanes.at[box.lane].limits = v->t->limit == (int)(u->unit % UNIT_COUNT);
  }
}

/* ---- turns ---- */

/* The event of the wave that passes on the turn which this one takes; -1: this one takes none. A wave that
 * waits at a barrier of all has its turn when it leaves that one, until it arrives at the next. */
static int end_of_turn(const Viewing *v, int event) {
  const LoopGraph *g = &v->t->graph;
  int wave = g->events.at[event].wave;
  LoopEventKind begins = g->lagged ? LOOP_WAITS : LOOP_STARTS;
  if (!op_is_turn(g->events.at[event].op, "take") || g->events.at[event].kind != begins) return -1;
  for (int i = event + 1; i < g->events.n; i++)
    if (g->events.at[i].wave == wave && op_is_turn(g->events.at[i].op, "pass")) return i;
  return -1;
}

/* When the turn that an event takes was passed on to its wave: before it takes it, or then. */
static int64_t begin_of_turn(const LoopTimes *t, int take) {
  for (int i = 0; i < t->edges.n && !t->graph.lagged; i++) {
    const Edge *e = &t->edges.at[i];
    bool token = e->to == take && t->graph.events.at[e->from].op->kind == OP_turn &&
                 t->graph.events.at[e->from].wave != t->graph.events.at[take].wave;
    if (token) return t->at[e->from] + e->delay - e->distance * t->cycles;
  }
  return t->at[take];
}

/* What the wave issues first and last in its turn has a box: tokens come and leave there. */
static void find_ends(Viewing *v, int take, int pass) {
  const LoopGraph *g = &v->t->graph;
  for (int i = take + 1; i < pass; i++) {
    bool issued = g->events.at[i].wave == g->events.at[take].wave && v->box[i] >= 0 &&
                  v->out->boxes.at[v->box[i]].kind == VIEW_ISSUES;
    if (issued && v->box[take] < 0) v->box[take] = v->box[i];
    if (issued) v->box[pass] = v->box[i];
  }
}

/* One lane for all waves: it is the turn of one at a time, until that one passes it on. */
static void add_turns(Viewing *v) {
  const LoopGraph *g = &v->t->graph;
  int lane = v->out->lanes.n;
  if (g->turns.n) add_lane(v, "turns", "whose turn it is: two waves stand for all groups", -1);
  for (int i = 0; i < g->events.n; i++) {
    int end = end_of_turn(v, i);
    if (end < 0) continue;
    find_ends(v, i, end);
    ViewBox box = new_box(v, i, VIEW_TURN, lane);
    box.name = arena_printf(v->arena, "wave %d", g->events.at[i].wave);
    box.start = begin_of_turn(v->t, i), box.ends = v->t->at[end];
    box.cycles = box.ends - box.start;
    if (box.cycles <= 0) continue;
    vec_push(v->arena, &v->out->boxes, box);
    v->out->lanes.at[lane].busy += (double)box.cycles / (double)v->t->cycles;
  }
}

/* ---- links ---- */

/* The last box of the wave before a wait ends; an event without a box of its own. */
static int box_of(const Viewing *v, int event) {
  const LoopEvent *e = &v->t->graph.events.at[event];
  if (v->box[event] >= 0) return v->box[event];
  for (int i = 0; i < v->out->boxes.n; i++) {
    const ViewBox *b = &v->out->boxes.at[i];
    bool here = v->out->lanes.at[b->lane].wave == e->wave || e->wave == LOOP_WAVES;
    if (b->kind == VIEW_WAITS && b->event == event && here) return i;
  }
  return -1;
}

/* From what ends later to what waits for it. */
static void add_waits(Viewing *v) {
  const LoopTimes *t = v->t;
  for (int i = 0; i < t->edges.n; i++) {
    const Edge *e = &t->edges.at[i];
    const LoopEvent *from = &t->graph.events.at[e->from];
    int a = box_of(v, e->from), b = box_of(v, e->to);
    bool token = is_turn(v, e->from) && is_turn(v, e->to) && a != b;
    if ((from->kind != LOOP_ENDS && !token) || a < 0 || b < 0) continue;
    int64_t leaves = t->at[e->from] + e->delay, arrives = t->at[e->to] + e->distance * t->cycles;
    if (arrives - leaves >= t->cycles) continue; /* it was there long before */
    vec_push(v->arena, &v->out->links, ((ViewLink){a, b, leaves, arrives, false}));
  }
}

/* The cycles between two events of the cycle that limits the loop; those that follow each other on a
 * unit have no edge. */
static int64_t delay_between(const LoopTimes *t, int from, int to) {
  int64_t apart = t->at[to] - t->at[from];
  for (int i = 0; i < t->edges.n; i++) {
    const Edge *e = &t->edges.at[i];
    if (e->from == from && e->to == to && e->delay == apart + e->distance * t->cycles)
      return e->delay;
  }
  apart -= floor_div64(apart, t->cycles) * t->cycles;
  return apart || from != to ? apart : t->cycles;
}

static void add_cycle(Viewing *v) {
  const LoopTimes *t = v->t;
  for (int i = 0; i < t->critical.n && t->limit < 0; i++) {
    int from = t->critical.at[i], to = t->critical.at[(i + 1) % t->critical.n];
    int a = box_of(v, from), b = box_of(v, to);
    int64_t leaves = t->at[from], arrives = leaves + delay_between(t, from, to);
    if (a >= 0 && b >= 0 && a != b)
      vec_push(v->arena, &v->out->links, ((ViewLink){a, b, leaves, arrives, true}));
  }
}

/* ---- rings ---- */

static const char *ring_name(const Viewing *v, const Op *fill) {
  return schedule_plain_name(v->arena, op_name(v, fill));
}

static int64_t span_end(const LoopTimes *t, int event) {
  return t->at[event] + t->cost[event].takes;
}

/* Widens the times of a ring by one access of a wave. */
static void include_access(const Viewing *v, const LoopAccess *x, int wave, ViewRing *r) {
  const LoopTimes *t = v->t;
  int ahead = x->slots > 1 ? x->ahead : schedule_ahead(v->k, v->loop, x->op);
  int64_t by = (int64_t)ahead * t->cycles;
  if (x->begins[wave] < 0 || x->ends[wave] < 0) return;
  int64_t begins = t->at[x->begins[wave]] - by, ends = span_end(t, x->ends[wave]) - by;
  bool fills = x->how & TOUCH_WRITE;
  if (fills && begins < r->fill) r->fill = begins;
  if (fills && ahead > r->ahead) r->ahead = ahead;
  if (fills && ends > r->ready) r->ready = ends;
  if (ends > r->free) r->free = ends;
}

static void add_ring(Viewing *v, const MemoryUses *uses, int memory) {
  const LoopGraph *g = &v->t->graph;
  const Op *alloc = uses->memories.at[memory]->def;
  ViewRing r = {.fill = INT64_MAX, .ready = INT64_MIN, .free = INT64_MIN};
  for (int i = 0; i < g->accesses.n; i++) {
    const LoopAccess *x = &g->accesses.at[i];
    OpClass class = schedule_class(x->op);
    if (x->memory != memory) continue; /* also if the loop is too short to fill it again */
    if (class == OP_CLASS_copy || class == OP_CLASS_store) r.name = ring_name(v, x->op);
    for (int w = 0; w < LOOP_WAVES; w++) include_access(v, x, w, &r);
  }
  if (!alloc || alloc->kind != OP_alloc || !r.name || r.fill == INT64_MAX) return;
  r.slots = alloc_slots(alloc);
  r.bytes = alloc_bytes(alloc) / r.slots;
  vec_push(v->arena, &v->out->rings, r);
}

/* ---- loops ---- */

/* From the first op of the body around the loop. */
static int first_critical(const Viewing *v) {
  const LoopTimes *t = v->t;
  int first = 0;
  for (int i = 1; i < t->critical.n; i++)
    if (t->graph.events.at[t->critical.at[i]].op->id <
        t->graph.events.at[t->critical.at[first]].op->id)
      first = i;
  return first;
}

/* "x.copy (898 cycles), barrier": long delays are what would have to become shorter. */
static const char *limit_text(Viewing *v) {
  const LoopTimes *t = v->t;
  StrBuf text = {.arena = v->arena};
  const char *last = "";
  if (t->limit >= 0) return arena_printf(v->arena, "the %s", unit_info[t->limit].doc);
  int first = first_critical(v), n = t->critical.n;
  for (int i = 0; i < n; i++) {
    int event = t->critical.at[(first + i) % n], next = t->critical.at[(first + i + 1) % n];
    int64_t delay = delay_between(t, event, next);
    const char *name = event_name(v, &t->graph.events.at[event]);
    if (t->graph.events.at[event].op->kind == OP_yield) continue;
    if (strcmp(name, last) != 0) sb_printf(&text, "%s%s", text.n ? ", " : "", name);
    if (4 * delay >= t->cycles) sb_printf(&text, " (%lld cycles)", (long long)delay);
    last = name;
  }
  return sb_text(&text);
}

static int stages_of(const Viewing *v) {
  int most = 0;
  for (int i = 0; i < v->out->boxes.n; i++)
    if (v->out->boxes.at[i].ahead > most) most = v->out->boxes.at[i].ahead;
  return most + 1;
}

static void view_loop(Viewing *v, const ScheduledKernel *s) {
  const LoopTimes *t = v->t;
  int lane[2 * UNIT_COUNT + LOOP_WAVES], n = t->graph.events.n;
  v->box = ARENA_ARRAY(v->arena, int, n + 1);
  v->critical = ARENA_ARRAY(v->arena, bool, n + 1);
  for (int i = 0; i < n; i++) v->box[i] = -1;
  for (int i = 0; i < t->critical.n && t->limit < 0; i++) v->critical[t->critical.at[i]] = true;
  v->out->cycles = t->cycles, v->out->bound = t->bound;
  add_lanes(v, lane);
  for (int w = 0; w < LOOP_WAVES; w++)
    if (lane[2 * UNIT_COUNT + w] >= 0) add_wave(v, w, lane[2 * UNIT_COUNT + w]);
  add_units(v, lane);
  add_turns(v);
  add_waits(v);
  add_cycle(v);
  for (int i = 0; i < s->uses->memories.n; i++) add_ring(v, s->uses, i);
  v->out->stages = stages_of(v);
  v->out->limit = limit_text(v);
  view_shared(v->arena, v->out, s->target->shared_most);
  view_registers(v->arena, t, v->out, s->target->registers);
}

ScheduleView schedule_view(Arena *a, const ScheduledKernel *s) {
  ScheduleView out = {.kernel = s->k->name, .target = s->target->name, .doc = s->target->doc};
  StrBuf rows = {.arena = a};
  schedule_print(&rows, s);
  out.rows = sb_text(&rows);
  for (const Op *loop = NULL; (loop = schedule_next_loop(s->k, loop, NULL));) {
    const char *name = schedule_loop_name(a, loop);
    if (schedule_next_loop(s->k, NULL, name) != loop) continue; /* a copy without masks */
    LoopView view = {.name = name, .stages = 1, .limit = ""};
    LoopTimes t = {.why_not = "the machine has no lanes"};
    if (s->uses) t = loop_times(a, s->d, s->machine, s->uses, loop, 0);
    Viewing v = {.arena = a, .k = s->k, .loop = loop, .t = &t, .out = &view};
    view.place = place_of(&v, loop->at);
    view.why_not = t.why_not;
    if (!t.why_not) view_loop(&v, s);
    vec_push(a, &out.loops, view);
  }
  return out;
}
