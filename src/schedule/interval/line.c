/* line.c: see line.h. */
#include "schedule/interval/line.h"

#include <string.h>

#include "base/vec.h"

enum {
  WINDOW = 32, /* iterations whose times are remembered: a power of two */
  AHEAD = 4,   /* of these, at least this many come after the last one that has a time */
  MOST_RUNS = 24,
  SAME = 1,      /* iterations that took equally long */
  FIRST = 1,     /* iterations that are not looked at, if times of a similar line are known */
  RARELY = 4,    /* an iteration takes this share longer than those that follow at first, */
  HARDLY = 8,    /* and later */
  FAR = 8,       /* iterations: longer distances are not looked at */
  MOST_AHEAD = 2 /* iterations by which one wave may be ahead of the other */
};

#define UNKNOWN (INT64_MAX / 4)  /* the start of an event that has no time yet */
#define LONG_AGO (INT64_MIN / 4) /* what precedes the loop is there */

/* An edge that ends at an event. */
typedef struct Before {
  const int64_t *times; /* of the event at which it begins */
  int event, distance;
  int64_t delay;
} Before;

/* An event: when it started in each iteration, and what it waits for. */
typedef struct Node {
  int64_t *times; /* [iteration % WINDOW] */
  const Before *before, *before_end;
  const UnitUse *uses, *uses_end;
} Node;

/* The next op of a wave in the order of the line. */
typedef struct Stop {
  const Node *start, *end; /* as in LineOp; NULL: none */
  int lead;
  bool met;     /* a barrier comes before it, */
  bool grouped; /* a wait for groups, */
  int boxed;    /* and this many waits for boxes */
  bool awaits, product;
  int64_t issue, arrives;
} Stop;

typedef struct Wave {
  const Stop *stops, *next;
  int turn; /* iteration */
  bool met; /* it has passed the barrier before the op */
  int64_t clock, stored;
  int64_t flight; /* the end of what has to be awaited, */
  int64_t newest; /* and of the last product, which may remain in flight */
  int64_t due;    /* the next op starts then or later; PATHS_NEVER: not by itself */
} Wave;

struct LineRun {
  Arena *arena;
  const LineProblem *p;
  Node *nodes;    /* by event */
  Before *before; /* in the order of the events at which they end */
  UnitUse *uses;  /* the same for uses */
  int *op_of;     /* by event; -1: it is not of an op of the line */
  int far;        /* the greatest distance of an edge */
  int64_t *free;  /* by unit */
  int nunits;
  const Line *line;
  Stop *stops[LINE_WAVES];
  Wave waves[LINE_WAVES];
};

/* ---- what does not change ---- */

static void find_ops(LineRun *r) {
  const LineProblem *p = r->p;
  for (int i = 0; i < p->p->events; i++) r->op_of[i] = -1;
  for (int i = 0; i < p->nops; i++)
    for (int w = 0; w < LINE_WAVES; w++) {
      if (p->ops[i].start[w] >= 0) r->op_of[p->ops[i].start[w]] = i;
      if (p->ops[i].end[w] >= 0) r->op_of[p->ops[i].end[w]] = i;
    }
}

/* Whether another edge says as much. */
static bool is_implied(const LineRun *r, int number) {
  const Edge *edges = r->p->p->edges, *e = &edges[number];
  for (int i = 0; i < r->p->nedges; i++) {
    const Edge *o = &edges[i];
    if (o->from != e->from || o->to != e->to || o->distance != e->distance) continue;
    if (o->delay > e->delay || (o->delay == e->delay && i < number)) return true;
  }
  return false;
}

static void sort_edges(Arena *a, LineRun *r) {
  const IntervalProblem *p = r->p->p;
  int n = 0;
  bool *implied = ARENA_ARRAY(a, bool, r->p->nedges);
  for (int i = 0; i < r->p->nedges; i++) implied[i] = is_implied(r, i);
  r->before = ARENA_ARRAY(a, Before, r->p->nedges);
  for (int to = 0; to < p->events; to++) {
    r->nodes[to].before = r->before + n;
    for (int i = 0; i < r->p->nedges; i++) {
      const Edge *e = &p->edges[i];
      if (e->to != to || implied[i] || r->op_of[e->from] < 0 || e->distance >= FAR) continue;
      r->before[n++] = (Before){r->nodes[e->from].times, e->from, e->distance, e->delay};
      if (e->distance > r->far) r->far = e->distance;
    }
    r->nodes[to].before_end = r->before + n;
  }
}

static void sort_uses(Arena *a, LineRun *r) {
  const IntervalProblem *p = r->p->p;
  int n = 0;
  r->uses = ARENA_ARRAY(a, UnitUse, p->nuses);
  for (int event = 0; event < p->events; event++) {
    r->nodes[event].uses = r->uses + n;
    for (int i = 0; i < p->nuses; i++) {
      if (p->uses[i].unit >= r->nunits) r->nunits = p->uses[i].unit + 1;
      if (p->uses[i].event == event && p->uses[i].unit != p->wave) r->uses[n++] = p->uses[i];
    }
    r->nodes[event].uses_end = r->uses + n;
  }
}

LineRun *line_run_new(Arena *a, const LineProblem *p) {
  LineRun *r = ARENA_NEW(a, LineRun);
  int events = p->p->events;
  *r = (LineRun){.arena = a, .p = p};
  r->op_of = ARENA_ARRAY(a, int, events);
  r->nodes = ARENA_ARRAY(a, Node, events);
  int64_t *times = ARENA_ARRAY(a, int64_t, events * WINDOW);
  for (int i = 0; i < events; i++) r->nodes[i].times = times + i * WINDOW;
  find_ops(r);
  sort_edges(a, r);
  sort_uses(a, r);
  r->free = ARENA_ARRAY(a, int64_t, r->nunits);
  for (int w = 0; w < LINE_WAVES; w++) r->stops[w] = ARENA_ARRAY(a, Stop, p->nops);
  return r;
}

const LineProblem *line_problem(const LineRun *r) { return r->p; }

Line line_new(Arena *a, const LineProblem *p) {
  return (Line){.order = ARENA_ARRAY(a, int, p->nops),
                .place = ARENA_ARRAY(a, int, p->nops),
                .lead = ARENA_ARRAY(a, int, p->nops),
                .slots = ARENA_ARRAY(a, int, p->nrings + 1),
                .met = ARENA_ARRAY(a, bool, p->nops),
                .wait = ARENA_ARRAY(a, int, p->ntiles + 1),
                .whose = ARENA_ARRAY(a, int, p->ntiles + 1),
                .cycles = PATHS_NEVER,
                .start = ARENA_ARRAY(a, int64_t, p->p->events),
                .stall = ARENA_ARRAY(a, int64_t, p->nops),
                .blocker = ARENA_ARRAY(a, int, p->nops)};
}

void line_copy(const LineProblem *p, Line *to, const Line *from) {
  size_t ints = sizeof(int) * (size_t)p->nops;
  memcpy(to->order, from->order, ints);
  memcpy(to->place, from->place, ints);
  memcpy(to->lead, from->lead, ints);
  memcpy(to->slots, from->slots, sizeof(int) * (size_t)p->nrings);
  memcpy(to->met, from->met, sizeof(bool) * (size_t)p->nops);
  memcpy(to->wait, from->wait, sizeof(int) * (size_t)p->ntiles);
  memcpy(to->whose, from->whose, sizeof(int) * (size_t)p->ntiles);
  memcpy(to->start, from->start, sizeof(int64_t) * (size_t)p->p->events);
  memcpy(to->stall, from->stall, sizeof(int64_t) * (size_t)p->nops);
  memcpy(to->blocker, from->blocker, ints);
  to->cycles = from->cycles, to->registers = from->registers, to->slack = from->slack;
  to->closed = from->closed;
}

/* ---- running ---- */

static inline int slot_of(int i) { return i & (WINDOW - 1); }

static int64_t time_of(const LineRun *r, int event, int i) {
  return r->nodes[event].times[slot_of(i)];
}

/* When an event of iteration i may start at the earliest; UNKNOWN or more: it must wait for something that
 * has no time yet. */
static inline int64_t ready_at(const LineRun *r, const Node *n, int i) {
  int64_t at = 0;
  for (const Before *e = n->before; e < n->before_end; e++) {
    int64_t ready = e->times[slot_of(i - e->distance)] + e->delay;
    at = ready > at ? ready : at;
  }
  for (const UnitUse *u = n->uses; u < n->uses_end; u++)
    if (r->free[u->unit] > at) at = r->free[u->unit];
  return at;
}

static inline void occur(LineRun *r, const Node *n, int i, int64_t at) {
  n->times[slot_of(i)] = at, n->times[slot_of(i + AHEAD)] = UNKNOWN;
  for (const UnitUse *u = n->uses; u < n->uses_end; u++) r->free[u->unit] = at + u->cycles;
}

static bool is_at_barrier(const Wave *w) { return w->next->met && !w->met; }

/* What it leaves in flight waits only for what has a time already. */
static bool can_end(const Stop *op, int i) {
  for (const Before *e = op->end->before; e < op->end->before_end; e++)
    if (e->times[slot_of(i - e->distance)] == UNKNOWN &&
        (!op->start || e->times != op->start->times))
      return false;
  return true;
}

/* Waits for boxes before the next op: products of the wave end, too. */
static int64_t boxes_at(const LineRun *r, const Wave *w) {
  int64_t at = 0;
  for (int i = 0; i < r->p->ntiles; i++) {
    const LineTile *t = &r->p->tiles[i];
    if (!t->signals || r->line->wait[i] != w->next - w->stops) continue;
    int turn = w->turn + r->line->whose[i], event = r->p->ops[t->fill].end[0];
    if (at < w->flight) at = w->flight;
    if (event < 0) continue;
    int64_t time = time_of(r, event, turn);
    if (time == UNKNOWN) return PATHS_NEVER;
    if (time + t->arrives > at) at = time + t->arrives;
  }
  return at;
}

/* The wait for copies before the first op. */
static int64_t groups_at(const LineRun *r, const Wave *w) {
  int64_t at = 0;
  for (int i = 0; i < r->p->nops; i++) {
    const LineOp *op = &r->p->ops[i];
    int before = w->turn - r->line->slack - (r->line->place[i] > r->line->closed);
    int end = op->end[w - r->waves], turn = before + r->line->lead[i];
    if (!op->grouped || end < 0) continue;
    int64_t time = time_of(r, end, turn);
    if (time != UNKNOWN && time + op->arrives > at) at = time + op->arrives;
  }
  return at;
}

/* When the next op of a wave may start; PATHS_NEVER: not before another wave continues. */
static int64_t next_at(const LineRun *r, const Wave *w, const Wave *other) {
  const Stop *op = w->next;
  int i = w->turn + op->lead;
  if (is_at_barrier(w) || w->turn > other->turn + MOST_AHEAD) return PATHS_NEVER;
  int64_t at = op->start ? ready_at(r, op->start, i) : 0;
  if (at >= UNKNOWN || (op->end && !can_end(op, i))) return PATHS_NEVER;
  int64_t boxes = op->boxed ? boxes_at(r, w) : 0, groups = op->grouped ? groups_at(r, w) : 0;
  if (boxes == PATHS_NEVER) return boxes;
  if (boxes < w->clock) boxes = w->clock;
  if (op->boxed) boxes += op->boxed * r->p->test;
  if (at < boxes) at = boxes;
  if (at < groups) at = groups;
  if (at < w->clock) at = w->clock;
  return op->awaits && at < w->flight ? w->flight : at;
}

static void advance(const LineRun *r, Wave *w) {
  w->met = false;
  if (++w->next < w->stops + r->p->nops) return;
  if (!r->p->stays && w->flight > w->clock) w->clock = w->flight;
  w->next = w->stops, w->turn++;
}

/* One product alone is awaited an iteration later. */
static void fly(const LineRun *r, Wave *w, int64_t end) {
  int64_t now = r->p->stays ? w->newest : end;
  if (now > w->flight) w->flight = now;
  w->newest = end;
}

static void issue(LineRun *r, Wave *w, int64_t at) {
  const Stop *op = w->next;
  int i = w->turn + op->lead;
  if (op->awaits) w->flight = 0;
  if (op->start) occur(r, op->start, i, at);
  if (op->end) {
    int64_t end = ready_at(r, op->end, i);
    if (end < at) end = at;
    occur(r, op->end, i, end);
    if (op->product) fly(r, w, end + op->arrives);
  } else if (op->arrives && at + op->arrives > w->stored) {
    w->stored = at + op->arrives;
  }
  w->clock = at + op->issue;
  advance(r, w);
}

/* Both waves are at the barrier. */
static void meet(LineRun *r) {
  int64_t at = 0;
  for (Wave *w = r->waves; w < r->waves + r->p->waves; w++) {
    if (w->clock > at) at = w->clock;
    if (w->flight > at) at = w->flight;
    if (w->stored > at) at = w->stored;
  }
  for (Wave *w = r->waves; w < r->waves + r->p->waves; w++) {
    w->clock = at + r->p->barrier;
    w->flight = w->stored = 0, w->met = true;
  }
}

/* The wave that can continue first; NULL: none can. `due` is never too late, so that only the wave that may
 * be first is looked at. */
static Wave *next_wave(LineRun *r) {
  for (;;) {
    bool second = r->p->waves > 1 && r->waves[1].due < r->waves[0].due;
    Wave *w = &r->waves[second];
    const Wave *other = r->p->waves > 1 ? &r->waves[!second] : w;
    if (w->due == PATHS_NEVER) return NULL;
    w->due = next_at(r, w, other);
    if (w->due != PATHS_NEVER && w->due <= other->due) return w;
  }
}

/* Others may have waited for what happened. */
static void wake(LineRun *r) {
  for (Wave *w = r->waves; w < r->waves + r->p->waves; w++)
    if (w->due == PATHS_NEVER) w->due = w->clock;
}

static bool are_at_barrier(const LineRun *r) {
  for (const Wave *w = r->waves; w < r->waves + r->p->waves; w++)
    if (!is_at_barrier(w)) return false;
  return true;
}

static bool step(LineRun *r) {
  Wave *w = next_wave(r);
  if (w) {
    issue(r, w, w->due);
    w->due = w->clock;
  } else if (are_at_barrier(r)) {
    meet(r);
  } else {
    return false;
  }
  return wake(r), true;
}

/* Tiles of as many slots, for the same iteration, are awaited together. */
static bool is_first_wait(const LineProblem *p, const Line *line, int tile) {
  for (int i = 0; i < tile; i++)
    if (p->tiles[i].signals && line->wait[i] == line->wait[tile] &&
        line->whose[i] == line->whose[tile] &&
        line->slots[p->tiles[i].ring] == line->slots[p->tiles[tile].ring])
      return false;
  return true;
}

static void find_stops(const LineRun *r, const Line *line, int wave) {
  const LineProblem *p = r->p;
  for (int i = 0; i < p->nops; i++) {
    const LineOp *op = &p->ops[line->order[i]];
    r->stops[wave][i] = (Stop){.start = op->start[wave] < 0 ? NULL : &r->nodes[op->start[wave]],
                               .end = op->end[wave] < 0 ? NULL : &r->nodes[op->end[wave]],
                               .lead = line->lead[line->order[i]],
                               .met = line->met[i],
                               .grouped = p->groups && i == 0,
                               .awaits = op->awaits,
                               .product = op->product,
                               .issue = op->issue[wave],
                               .arrives = op->arrives};
  }
  for (int i = 0; p->boxes && i < p->ntiles; i++)
    if (p->tiles[i].signals && is_first_wait(p, line, i)) r->stops[wave][line->wait[i]].boxed++;
}

/* The first iterations before the loop that are looked at. */
static int oldest_of(const LineRun *r, const Line *line) {
  int most = 0;
  for (int i = 0; i < r->p->nops; i++)
    if (line->lead[i] > most) most = line->lead[i];
  return most + r->far + MOST_AHEAD < WINDOW - AHEAD ? most + r->far + MOST_AHEAD : WINDOW - AHEAD;
}

/* Without what precedes the first iteration. */
static void begin(LineRun *r, const Line *line) {
  const LineProblem *p = r->p;
  r->line = line;
  for (int i = 0; i < r->nunits; i++) r->free[i] = 0;
  for (int event = 0; event < p->p->events; event++) {
    int lead = r->op_of[event] < 0 ? 0 : line->lead[r->op_of[event]];
    for (int i = lead; i < lead + AHEAD; i++) r->nodes[event].times[slot_of(i)] = UNKNOWN;
  }
  for (int w = 0; w < p->waves; w++) {
    find_stops(r, line, w);
    r->waves[w] = (Wave){.stops = r->stops[w], .next = r->stops[w]};
  }
}

/* ---- what precedes the first iteration ----
 *
 * A line that differs little from one whose times are known soon takes as long in each iteration if it
 * begins with these times. */

/* When the first op of a wave starts in the first iteration of a line. */
static int64_t begin_of(const LineProblem *p, const Line *line, int wave) {
  int op = line->order[0], event = p->ops[op].start[wave];
  if (event < 0) event = p->ops[op].start[0];
  return line->start[event] + line->lead[op] * line->cycles;
}

/* As in the other line; what that has not issued yet was issued just before. */
static void keep_before(LineRun *r, const Line *from, int event, int oldest) {
  int op = r->op_of[event], lead = r->line->lead[op];
  int64_t first = from->start[r->p->ops[op].start[0]] - begin_of(r->p, from, 0);
  for (int i = lead - oldest; i < lead; i++) {
    int64_t late = i >= from->lead[op] ? first + i * from->cycles : 0;
    r->nodes[event].times[slot_of(i)] =
        from->start[event] + i * from->cycles - (late > 0 ? late : 0);
  }
}

static void begin_first(LineRun *r, const Line *line) {
  int oldest = oldest_of(r, line);
  begin(r, line);
  for (int event = 0; event < r->p->p->events; event++) {
    int lead = r->op_of[event] < 0 ? 0 : line->lead[r->op_of[event]];
    for (int i = lead - oldest; i < lead; i++) r->nodes[event].times[slot_of(i)] = LONG_AGO;
  }
}

static void begin_from(LineRun *r, const Line *line, const Line *from) {
  const LineProblem *p = r->p;
  int oldest = oldest_of(r, line);
  begin(r, line);
  for (int event = 0; event < p->p->events; event++)
    if (r->op_of[event] >= 0) keep_before(r, from, event, oldest);
  for (int w = 0; w < p->waves; w++) r->waves[w].clock = r->waves[w].due = begin_of(p, from, w);
}

/* Starts of the last iteration, as if each were that of iteration 0. */
static void keep_starts(const LineRun *r, Line *line, int turn) {
  for (int e = 0; e < r->p->p->events; e++) {
    int op = r->op_of[e], i = op < 0 ? 0 : turn + line->lead[op];
    line->start[e] = op < 0 ? 0 : time_of(r, e, i) - i * line->cycles;
  }
}

/* The op whose result was the last to be there when an event of iteration i started. */
static int blocker_of(const LineRun *r, int event, int i) {
  int64_t at = time_of(r, event, i);
  const Node *n = &r->nodes[event];
  for (const Before *e = n->before; e < n->before_end; e++)
    if (e->times[slot_of(i - e->distance)] + e->delay == at) return r->op_of[e->event];
  return -1;
}

/* What the first wave waits for in the last iteration. */
static void keep_stalls(const LineRun *r, Line *line, int turn) {
  int64_t clock = -1;
  for (int n = 0; n < r->p->nops; n++) {
    int op = line->order[n], event = r->p->ops[op].start[0], i = turn + line->lead[op];
    int64_t at = time_of(r, event, i);
    line->stall[op] = clock >= 0 && at > clock ? at - clock : 0;
    line->blocker[op] = line->stall[op] ? blocker_of(r, event, i) : -1;
    clock = at + r->p->ops[op].issue[0];
  }
}

/* After the first iterations, in which ops have no others to wait for. */
static int settled_after(const LineProblem *p, const Line *line) {
  int most = 0;
  for (int i = 0; i < p->nops; i++)
    if (line->lead[i] > most) most = line->lead[i];
  return most + 2;
}

/* Runs iterations until they take equally long; those up to `first` are not looked at. */
static void run(LineRun *r, Line *line, int first, int64_t most) {
  int64_t ends[MOST_RUNS + 1] = {r->waves[0].clock};
  int same = 0, turn = 0;
  line->cycles = PATHS_NEVER;
  while (turn < MOST_RUNS && same < SAME) {
    if (!step(r)) return;
    const Wave *one = &r->waves[0], *other = &r->waves[r->p->waves - 1];
    if (one->turn <= turn || other->turn <= turn) continue;
    turn++;
    ends[turn] = one->clock > other->clock ? one->clock : other->clock;
    int64_t took = ends[turn] - ends[turn - 1];
    if (turn > 1 && took > most + most / (turn > first ? HARDLY : RARELY)) return;
    if (turn <= first) continue;
    if (ends[turn] - ends[first] > (turn - first + 1) * most) return;
    same = turn > first + 1 && took == ends[turn - 1] - ends[turn - 2] ? same + 1 : 0;
    if (same && took > most) return; /* no need to know more */
  }
  int over = same >= SAME ? 1 : MOST_RUNS / 3;
  line->cycles = ceil_div64(ends[turn] - ends[turn - over], over);
  if (line->cycles < 1) line->cycles = 1;
  keep_starts(r, line, turn - 1);
  keep_stalls(r, line, turn - 1);
  line->registers = pressure_of(r->arena, &r->p->p->held, line->start, line->cycles);
}

void line_time(LineRun *r, Line *line, int64_t most) {
  begin_first(r, line);
  run(r, line, settled_after(r->p, line), most);
}

void line_time_from(LineRun *r, Line *line, const Line *from, int64_t most) {
  begin_from(r, line, from);
  run(r, line, FIRST, most);
}
