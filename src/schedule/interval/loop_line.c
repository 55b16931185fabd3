/* loop_line.c: see loop_line.h. */
#include "schedule/interval/loop_line.h"

#include "ir/ops/access.h"
#include "schedule/interval/free_graph.h"
#include "schedule/interval/line.h"

enum {
  WORK = 3000,       /* lines that are timed, times their ops: about two milliseconds, */
  WORK_EACH = 70,    /* less this for each op, since it takes time to compile, too; */
  WORK_LEAST = 1800, /* but at least this many; */
  WORK_AGAIN = 400,  /* the same to change what was found */
  MOST_EACH = 60     /* lines for each op */
};

typedef struct Lines {
  const Free *f;
  int *op_of; /* by event; -1: it is not of an op */
  Vec(LineOp) ops;
  Vec(LineNeed) needs;
  Vec(LineTile) tiles;
  Vec(LineRing) rings;
  Vec(const Op *) allocs; /* of the rings, */
  Vec(const Op *) others; /* and of tiles that always have one slot */
  bool placed;            /* rows give places */
} Lines;

/* ---- ops ---- */

static int end_of(const Free *f, const Op *op, int wave) {
  for (int i = 0; i < f->origin; i++) {
    const LoopEvent *e = free_event(f, i);
    if (e->op == op && e->kind == LOOP_ENDS && e->wave == wave) return i;
  }
  return -1;
}

static int64_t issue_of(const Free *f, int event, int wave) {
  bool other = wave || f->limits->served;
  if (event < 0 || (other && free_cost(f, event)->elected)) return 0;
  return free_cost(f, event)->issue;
}

static LineOp op_at(const Free *f, int event) {
  const Op *op = free_event(f, event)->op;
  const LoopCost *cost = free_cost(f, event);
  int other = f->twin[event] != event ? f->twin[event] : -1;
  LineOp o = {.start = {event, other}, .end = {end_of(f, op, 0), end_of(f, op, 1)}};
  o.issue[0] = issue_of(f, event, 0), o.issue[1] = issue_of(f, other, 1);
  o.product = op_is_product(op) && o.end[0] >= 0;
  o.grouped = op->kind == OP_copy && o.end[0] >= 0 && !copy_barriers(op);
  if (o.product || o.grouped || schedule_class(op) == OP_CLASS_store) o.arrives = cost->takes;
  o.last = free_is_last(f, event);
  o.awaits = !op_is_private(op) && op->kind != OP_copy;
  o.follows = !cost->issue;
  o.passes = free_is_passing(f->t->graph.loop, op);
  return o;
}

static void name_event(Lines *x, int event, int op) {
  if (event >= 0) x->op_of[event] = op;
}

static void add_ops(Lines *x) {
  const Free *f = x->f;
  x->op_of = ARENA_ARRAY(f->arena, int, f->n);
  for (int i = 0; i < f->n; i++) x->op_of[i] = -1;
  for (int i = 0; i < f->origin; i++) {
    if (!free_is_first(f, i)) continue;
    LineOp o = op_at(f, i);
    for (int w = 0; w < LINE_WAVES; w++) {
      name_event(x, o.start[w], x->ops.n);
      name_event(x, o.end[w], x->ops.n);
    }
    x->placed |= free_is_placed(f, i);
    vec_push(f->arena, &x->ops, o);
  }
}

static void add_needs(Lines *x) {
  const Free *f = x->f;
  for (int i = 0; i < f->forward; i++) {
    const Edge *e = &f->edges.at[i];
    int from = x->op_of[e->from], to = x->op_of[e->to];
    if (from < 0 || to < 0 || from == to) continue;
    if (free_event(f, e->from)->wave != 0 || free_event(f, e->to)->wave != 0) continue;
    bool brief = schedule_class(free_event(f, e->from)->op) == OP_CLASS_load &&
                 schedule_class(free_event(f, e->to)->op) == OP_CLASS_store;
    vec_push(f->arena, &x->needs,
             ((LineNeed){from, to, e->distance, e->delay, i < f->flow, brief}));
  }
}

/* ---- tiles ---- */

static int ring_number(Lines *x, const Op *alloc) {
  const Free *f = x->f;
  for (int i = 0; i < x->allocs.n; i++)
    if (x->allocs.at[i] == alloc) return i;
  vec_push(f->arena, &x->allocs, alloc);
  vec_push(f->arena, &x->rings,
           ((LineRing){free_slot_bytes(alloc), f->limits->slots(f->limits->user, alloc)}));
  return x->allocs.n - 1;
}

static void add_other(Lines *x, const LoopAccess *fill) {
  const Op *alloc = x->f->limits->uses->memories.at[fill->memory]->def;
  for (int i = 0; i < x->others.n; i++)
    if (x->others.at[i] == alloc) return;
  if (alloc) vec_push(x->f->arena, &x->others, alloc);
}

static int64_t bytes_left(const Lines *x) {
  int64_t bytes = x->f->limits->bytes;
  for (int i = 0; i < x->others.n; i++) bytes -= free_slot_bytes(x->others.at[i]);
  return bytes;
}

static int op_of_access(const Lines *x, const LoopAccess *at) {
  int event = at->begins[0] < 0 ? -1 : x->f->event[at->begins[0]];
  return event < 0 ? -1 : x->op_of[event];
}

static void add_tile(Lines *x, const LoopAccess *fill, const LoopAccess *read) {
  int filled = op_of_access(x, fill), reads = op_of_access(x, read);
  if (filled < 0 || reads < 0) return;
  const Op *alloc = free_ring(x->f, fill, 0);
  bool signals = copy_barriers(fill->op) != NULL;
  int64_t arrives = free_cost(x->f, x->ops.at[filled].start[0])->takes;
  if (!alloc) add_other(x, fill);
  vec_push(x->f->arena, &x->tiles,
           ((LineTile){filled, reads, alloc ? ring_number(x, alloc) : -1, signals, arrives,
                       schedule_class(fill->op) == OP_CLASS_store}));
}

static void add_tiles(Lines *x) {
  const LoopGraph *g = &x->f->t->graph;
  for (int i = 0; i < g->accesses.n; i++)
    for (int j = 0; j < g->accesses.n; j++) {
      const LoopAccess *fill = &g->accesses.at[i], *read = &g->accesses.at[j];
      if (fill->memory == read->memory && fill->op != read->op && fill->how != TOUCH_READ &&
          read->how == TOUCH_READ)
        add_tile(x, fill, read);
    }
}

/* ---- the problem ---- */

static LineProblem problem_of(const Lines *x, const IntervalProblem *p) {
  const Free *f = x->f;
  int products = 0, waves = 1;
  bool boxes = false, groups = false;
  for (int i = 0; i < x->ops.n; i++) {
    products += x->ops.at[i].product;
    if (x->ops.at[i].issue[1]) waves = LINE_WAVES;
    groups |= x->ops.at[i].grouped;
  }
  for (int i = 0; i < x->tiles.n; i++) boxes |= x->tiles.at[i].signals;
  return (LineProblem){.p = p,
                       .nedges = f->forward,
                       .ops = x->ops.at,
                       .needs = x->needs.at,
                       .tiles = x->tiles.at,
                       .rings = x->rings.at,
                       .nops = x->ops.n,
                       .nneeds = x->needs.n,
                       .ntiles = x->tiles.n,
                       .nrings = x->rings.n,
                       .bytes = bytes_left(x),
                       .barrier = free_barrier_cycles(f),
                       .test = free_test_cycles(f),
                       .waves = waves,
                       .depth = f->limits->depth,
                       .copies = f->limits->copies,
                       .boxes = boxes,
                       .groups = groups,
                       .served = f->limits->served,
                       .stays = products == 1};
}

/* Rings of the known program may have more slots than are tried: copies are then less far ahead. */
static void limit_slots(const LineProblem *p, Line *line) {
  for (int i = 0; i < p->ntiles; i++) {
    const LineTile *t = &p->tiles[i];
    int most = t->ring < 0 ? INT32_MAX : p->rings[t->ring].most - (line->lead[t->read] == 0);
    if (line->lead[t->fill] > most && most >= line->lead[t->read]) line->lead[t->fill] = most;
  }
}

/* The program that is known. */
static Line known_line(const Lines *x, const LineProblem *p) {
  Line line = line_new(x->f->arena, p);
  for (int i = 0; i < p->nops; i++) {
    line.order[i] = line.place[i] = i;
    line.lead[i] = x->f->ahead[x->f->of[p->ops[i].start[0]]];
  }
  return line;
}

static int op_placed(const Lines *x, const LineProblem *p, const FreePlace *at) {
  for (int i = 0; i < p->nops; i++)
    if (free_event(x->f, p->ops[i].start[0])->op == at->op) return i;
  return -1;
}

/* A program that was found before; ops that take no time follow others. */
static void found_line(const Lines *x, const LineProblem *p, const FreeTimes *from, Line *line) {
  int n = 0;
  for (int i = 0; i < p->nops; i++) line->place[i] = -1;
  for (int i = 0; i < from->places.n; i++) {
    int op = op_placed(x, p, &from->places.at[i]);
    if (op < 0) continue;
    line->order[n] = op, line->place[op] = n++;
    line->lead[op] = from->places.at[i].lead;
  }
  for (int i = 0; i < p->nops; i++)
    if (line->place[i] < 0) line->order[n] = i, line->place[i] = n++;
}

static void find_times(const Lines *x, const LineProblem *p, const Line *line, FreeTimes *out) {
  Arena *a = x->f->arena;
  out->cycles = line->cycles, out->registers = (int)line->registers, out->passing = true;
  for (int i = 0; i < p->nops; i++) {
    int event = p->ops[line->order[i]].start[0];
    if (!free_cost(x->f, event)->issue) continue;
    vec_push(a, &out->places,
             ((FreePlace){free_event(x->f, event)->op, line->lead[line->order[i]], i}));
  }
  for (int i = 0; i < p->nrings; i++)
    vec_push(a, &out->rings, ((FreeRing){x->allocs.at[i], line->slots[i]}));
}

/* The lines that are timed. */
static int steps_for(int nops, bool again) {
  int work = WORK - WORK_EACH * nops > WORK_LEAST ? WORK - WORK_EACH * nops : WORK_LEAST;
  int steps = (again ? WORK_AGAIN : work) / nops + 1;
  return steps < MOST_EACH * nops ? steps : MOST_EACH * nops;
}

FreeTimes loop_line(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits, int64_t goal,
                    const FreeTimes *from) {
  Free f = free_graph(a, k, t, limits, LINE_WAVES);
  FreeTimes out = {.cycles = PATHS_NEVER};
  Lines x = {.f = &f};
  add_ops(&x);
  add_needs(&x);
  add_tiles(&x);
  IntervalProblem interval = free_problem(&f);
  LineProblem p = problem_of(&x, &interval);
  if (x.placed || !p.nops) return out;
  LineRun *run = line_run_new(a, &p);
  Line line = known_line(&x, &p);
  if (from) found_line(&x, &p, from, &line);
  if (!from && !line_arrange(&p, &line)) limit_slots(&p, &line);
  if (!line_arrange(&p, &line)) return out;
  line_time(run, &line, PATHS_NEVER / 64);
  int steps = steps_for(p.nops, from != NULL) - (from ? 0 : line_begin(a, run, &line, goal));
  line_improve(a, run, &line, goal, steps);
  find_times(&x, &p, &line, &out);
  return out;
}
