/* line.c: see line.h. */
#include "schedule/interval/line.h"

#include <string.h>

#include "base/vec.h"

enum {
  WINDOW = 16, /* iterations whose times are remembered */
  MOST_RUNS = 24,
  SAME = 2,      /* iterations that took equally long */
  MOST_AHEAD = 2 /* iterations by which one wave may be ahead of the other */
};

/* An edge that ends at an event. */
typedef struct Before {
  int event, op, distance; /* op: of the event */
  int64_t delay;
} Before;

struct LineRun {
  const LineProblem *p;
  Before *before; /* in the order of the events at which they end, */
  int *first;     /* by event, and one past the last */
  int *op_of;     /* by event; -1: it is not of an op of the line */
  UnitUse *uses;  /* the same for uses */
  int *first_use;
  int64_t *time; /* [event * WINDOW + iteration % WINDOW] */
  int *stamp;    /* the same: which iteration */
  int64_t *free; /* by unit */
  int nunits;
  const Line *line;
  /* By wave: */
  int64_t clock[LINE_WAVES], stored[LINE_WAVES];
  int64_t flight[LINE_WAVES];           /* the end of what has to be awaited, */
  int64_t newest[LINE_WAVES];           /* and of the last product, which may remain in flight */
  int turn[LINE_WAVES], at[LINE_WAVES]; /* iteration, number in the order */
  bool met[LINE_WAVES];                 /* it has passed the barrier before the op */
  int64_t due[LINE_WAVES]; /* the next op starts then or later; PATHS_NEVER: not by itself */
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

static void sort_edges(Arena *a, LineRun *r) {
  const IntervalProblem *p = r->p->p;
  int n = 0;
  r->before = ARENA_ARRAY(a, Before, r->p->nedges), r->first = ARENA_ARRAY(a, int, p->events + 1);
  for (int to = 0; to < p->events; to++) {
    r->first[to] = n;
    for (int i = 0; i < r->p->nedges; i++) {
      const Edge *e = &p->edges[i];
      if (e->to != to || r->op_of[e->from] < 0 || e->distance >= WINDOW / 2) continue;
      r->before[n++] = (Before){e->from, r->op_of[e->from], e->distance, e->delay};
    }
  }
  r->first[p->events] = n;
}

static void sort_uses(Arena *a, LineRun *r) {
  const IntervalProblem *p = r->p->p;
  int n = 0;
  r->uses = ARENA_ARRAY(a, UnitUse, p->nuses), r->first_use = ARENA_ARRAY(a, int, p->events + 1);
  for (int event = 0; event < p->events; event++) {
    r->first_use[event] = n;
    for (int i = 0; i < p->nuses; i++) {
      if (p->uses[i].unit >= r->nunits) r->nunits = p->uses[i].unit + 1;
      if (p->uses[i].event == event && p->uses[i].unit != p->wave) r->uses[n++] = p->uses[i];
    }
  }
  r->first_use[p->events] = n;
}

LineRun *line_run_new(Arena *a, const LineProblem *p) {
  LineRun *r = ARENA_NEW(a, LineRun);
  int events = p->p->events;
  *r = (LineRun){.p = p};
  r->op_of = ARENA_ARRAY(a, int, events);
  find_ops(r);
  sort_edges(a, r);
  sort_uses(a, r);
  r->time = ARENA_ARRAY(a, int64_t, events * WINDOW);
  r->stamp = ARENA_ARRAY(a, int, events *WINDOW);
  r->free = ARENA_ARRAY(a, int64_t, r->nunits);
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
}

/* ---- running ---- */

/* When an event of iteration i may start at the earliest; PATHS_NEVER: it must wait for something that
 * has no time yet. What precedes the loop is there. */
static int64_t ready_at(const LineRun *r, int event, int i) {
  int64_t at = 0;
  for (int b = r->first[event]; b < r->first[event + 1]; b++) {
    const Before *e = &r->before[b];
    int turn = i - e->distance, slot = e->event * WINDOW + turn % WINDOW;
    if (turn < r->line->lead[e->op]) continue;
    if (r->stamp[slot] != turn) return PATHS_NEVER;
    if (r->time[slot] + e->delay > at) at = r->time[slot] + e->delay;
  }
  for (int u = r->first_use[event]; u < r->first_use[event + 1]; u++)
    if (r->free[r->uses[u].unit] > at) at = r->free[r->uses[u].unit];
  return at;
}

static void occur(LineRun *r, int event, int i, int64_t at) {
  int slot = event * WINDOW + i % WINDOW;
  r->time[slot] = at, r->stamp[slot] = i;
  for (int u = r->first_use[event]; u < r->first_use[event + 1]; u++)
    r->free[r->uses[u].unit] = at + r->uses[u].cycles;
}

static const LineOp *next_op(const LineRun *r, int w) {
  return &r->p->ops[r->line->order[r->at[w]]];
}

static bool is_at_barrier(const LineRun *r, int w) { return r->line->met[r->at[w]] && !r->met[w]; }

/* What it leaves in flight waits only for what has a time already. */
static bool can_end(const LineRun *r, const LineOp *op, int w, int i) {
  for (int b = r->first[op->end[w]]; b < r->first[op->end[w] + 1]; b++) {
    const Before *e = &r->before[b];
    int turn = i - e->distance;
    if (e->event == op->start[w] || turn < r->line->lead[e->op]) continue;
    if (r->stamp[e->event * WINDOW + turn % WINDOW] != turn) return false;
  }
  return true;
}

/* Waits for boxes before the next op: products of the wave end, too. */
static int64_t boxes_at(const LineRun *r, int w) {
  int64_t at = 0;
  for (int i = 0; i < r->p->ntiles; i++) {
    const LineTile *t = &r->p->tiles[i];
    if (!t->signals || r->line->wait[i] != r->at[w]) continue;
    int turn = r->turn[w] + r->line->whose[i], event = r->p->ops[t->fill].end[0];
    int slot = event * WINDOW + turn % WINDOW;
    if (at < r->flight[w]) at = r->flight[w];
    if (event < 0 || turn < r->line->lead[t->fill]) continue;
    if (r->stamp[slot] != turn) return PATHS_NEVER;
    if (r->time[slot] + t->arrives > at) at = r->time[slot] + t->arrives;
  }
  return at;
}

/* The wait for copies before the first op. */
static int64_t groups_at(const LineRun *r, int w) {
  int64_t at = 0;
  int before = r->turn[w] - r->line->slack;
  for (int i = 0; before >= 0 && r->at[w] == 0 && i < r->p->nops; i++) {
    const LineOp *op = &r->p->ops[i];
    if (!op->grouped || op->end[w] < 0) continue;
    int turn = before + r->line->lead[i], slot = op->end[w] * WINDOW + turn % WINDOW;
    if (r->stamp[slot] == turn && r->time[slot] + op->arrives > at)
      at = r->time[slot] + op->arrives;
  }
  return at;
}

/* When the next op of a wave may start; PATHS_NEVER: not before another wave went on. */
static int64_t next_at(const LineRun *r, int w) {
  const LineOp *op = next_op(r, w);
  int i = r->turn[w] + r->line->lead[r->line->order[r->at[w]]];
  if (is_at_barrier(r, w)) return PATHS_NEVER;
  if (r->p->waves > 1 && r->turn[w] > r->turn[1 - w] + MOST_AHEAD) return PATHS_NEVER;
  int64_t at = op->start[w] < 0 ? 0 : ready_at(r, op->start[w], i);
  if (at == PATHS_NEVER || (op->end[w] >= 0 && !can_end(r, op, w, i))) return PATHS_NEVER;
  int64_t boxes = r->p->boxes ? boxes_at(r, w) : 0;
  if (boxes == PATHS_NEVER) return boxes;
  if (at < boxes) at = boxes;
  int64_t groups = r->p->groups ? groups_at(r, w) : 0;
  if (at < groups) at = groups;
  if (at < r->clock[w]) at = r->clock[w];
  return op->awaits && at < r->flight[w] ? r->flight[w] : at;
}

static void advance(LineRun *r, int w) {
  r->met[w] = false;
  if (++r->at[w] < r->p->nops) return;
  if (!r->p->stays && r->flight[w] > r->clock[w]) r->clock[w] = r->flight[w];
  r->at[w] = 0, r->turn[w]++;
}

/* One product alone is awaited an iteration later. */
static void fly(LineRun *r, int w, int64_t end) {
  int64_t now = r->p->stays ? r->newest[w] : end;
  if (now > r->flight[w]) r->flight[w] = now;
  r->newest[w] = end;
}

static void issue(LineRun *r, int w, int64_t at) {
  const LineOp *op = next_op(r, w);
  int i = r->turn[w] + r->line->lead[r->line->order[r->at[w]]];
  if (op->awaits) r->flight[w] = 0;
  if (op->start[w] >= 0) occur(r, op->start[w], i, at);
  if (op->end[w] >= 0) {
    int64_t end = ready_at(r, op->end[w], i);
    if (end < at) end = at;
    occur(r, op->end[w], i, end);
    if (op->product) fly(r, w, end + op->arrives);
  } else if (op->arrives && at + op->arrives > r->stored[w]) {
    r->stored[w] = at + op->arrives;
  }
  r->clock[w] = at + op->issue[w];
  advance(r, w);
}

/* Both waves are at the barrier. */
static void meet(LineRun *r) {
  int64_t at = 0;
  for (int w = 0; w < r->p->waves; w++) {
    if (r->clock[w] > at) at = r->clock[w];
    if (r->flight[w] > at) at = r->flight[w];
    if (r->stored[w] > at) at = r->stored[w];
  }
  for (int w = 0; w < r->p->waves; w++) {
    r->clock[w] = at + r->p->barrier;
    r->flight[w] = r->stored[w] = 0, r->met[w] = true;
  }
}

/* The wave that can go on first; -1: none can. `due` is never too late, so that only the wave that may
 * be first is looked at. */
static int next_wave(LineRun *r) {
  for (;;) {
    int w = r->p->waves > 1 && r->due[1] < r->due[0] ? 1 : 0, other = 1 - w;
    if (r->due[w] == PATHS_NEVER) return -1;
    int64_t at = next_at(r, w);
    r->due[w] = at;
    if (at != PATHS_NEVER && (r->p->waves == 1 || at <= r->due[other])) return w;
  }
}

/* Others may have waited for what happened. */
static void wake(LineRun *r) {
  for (int w = 0; w < r->p->waves; w++)
    if (r->due[w] == PATHS_NEVER) r->due[w] = r->clock[w];
}

static bool are_at_barrier(const LineRun *r) {
  for (int w = 0; w < r->p->waves; w++)
    if (!is_at_barrier(r, w)) return false;
  return true;
}

static bool step(LineRun *r) {
  int w = next_wave(r);
  if (w >= 0) {
    issue(r, w, r->due[w]);
    r->due[w] = r->clock[w];
  } else if (are_at_barrier(r)) {
    meet(r);
  } else {
    return false;
  }
  return wake(r), true;
}

static void begin(LineRun *r, const Line *line) {
  const LineProblem *p = r->p;
  r->line = line;
  for (int i = 0; i < p->p->events * WINDOW; i++) r->stamp[i] = -1;
  for (int i = 0; i < r->nunits; i++) r->free[i] = 0;
  for (int w = 0; w < LINE_WAVES; w++) {
    r->clock[w] = r->flight[w] = r->newest[w] = r->stored[w] = 0;
    r->due[w] = r->turn[w] = r->at[w] = 0, r->met[w] = false;
  }
}

/* Starts of the last iteration, as if each were that of iteration 0. */
static void keep_starts(const LineRun *r, Line *line, int turn) {
  for (int e = 0; e < r->p->p->events; e++) {
    int op = r->op_of[e], i = op < 0 ? 0 : turn + line->lead[op];
    line->start[e] = op < 0 ? 0 : r->time[e * WINDOW + i % WINDOW] - i * line->cycles;
  }
}

/* The op whose result was the last to be there when an event of iteration i started. */
static int blocker_of(const LineRun *r, int event, int i) {
  int64_t at = r->time[event * WINDOW + i % WINDOW];
  for (int b = r->first[event]; b < r->first[event + 1]; b++) {
    const Before *e = &r->before[b];
    int turn = i - e->distance, slot = e->event * WINDOW + turn % WINDOW;
    if (turn >= r->line->lead[e->op] && r->time[slot] + e->delay == at) return e->op;
  }
  return -1;
}

/* What the first wave waits for in the last iteration. */
static void keep_stalls(const LineRun *r, Line *line, int turn) {
  int64_t clock = -1;
  for (int n = 0; n < r->p->nops; n++) {
    int op = line->order[n], event = r->p->ops[op].start[0], i = turn + line->lead[op];
    int64_t at = r->time[event * WINDOW + i % WINDOW];
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

void line_time(LineRun *r, Line *line, int64_t most) {
  int64_t ends[MOST_RUNS + 1] = {0};
  int same = 0, turn = 0, first = settled_after(r->p, line);
  begin(r, line);
  line->cycles = PATHS_NEVER;
  while (turn < MOST_RUNS && same < SAME) {
    if (!step(r)) return;
    if (r->turn[0] <= turn || r->turn[r->p->waves - 1] <= turn) continue;
    turn++;
    ends[turn] = r->clock[r->clock[1] > r->clock[0]];
    if (turn <= first) continue;
    if (ends[turn] - ends[first] > (turn - first + 1) * most) return; /* no need to know more */
    bool again = ends[turn] - ends[turn - 1] == ends[turn - 1] - ends[turn - 2];
    same = again ? same + 1 : 0;
  }
  int over = same >= SAME ? 1 : MOST_RUNS / 3;
  line->cycles = ceil_div64(ends[turn] - ends[turn - over], over);
  if (line->cycles < 1) line->cycles = 1;
  keep_starts(r, line, turn - 1);
  keep_stalls(r, line, turn - 1);
  line->registers = pressure_of(&r->p->p->held, line->start, line->cycles);
}
