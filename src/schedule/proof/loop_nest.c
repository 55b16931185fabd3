/* loop_nest.c: see loop_nest.h. */
#include "schedule/proof/loop_nest.h"

#include <stdlib.h>

#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "ir/schedule/op_parts.h"
#include "schedule/proof/event_graph.h"
#include "schedule/proof/loop_sizes.h"

/* ---- parts of a body ---- */

typedef enum Taken { TAKEN_NOT = -2, TAKEN_ANYWHERE = -1 } Taken; /* instead of a slot */

/* The phase of a barrier that copies end, or of which only the parity is known: what a wait is for. */
typedef struct Phase {
  int64_t slot; /* or Taken */
  int64_t number;
} Phase;

/* What the expressions of a part say, if its symbols have these values. */
typedef struct Numbers {
  const Sym **values;
  int64_t *slots;         /* of accesses; or Taken */
  Phase *ended, *awaited; /* by copies and waits */
} Numbers;

/* A loop inside, or the ops between two of them. */
typedef struct Part {
  const Op *loop;      /* or NULL */
  LoopGraph g;         /* of its body, or of the ops; empty if there are loops inside the loop */
  struct Part *inside; /* these */
  int ninside;
  int number;                 /* of its first access, among all */
  int index;                  /* among all parts */
  Vec(const Sym *) symbols;   /* that its expressions mention */
  Vec(const Numbers *) found; /* so far */
  const Value **rings;        /* by copy: the barriers that it ends with; NULL: it has none */
  Vec(int) begins, ends;      /* events of accesses */
  Vec(const Value *) started; /* barriers whose phases are counted from here on */
} Part;

/* Accesses of two parts that conflict, wherever these are executed. */
typedef struct Meeting {
  int first, second;
  bool one_memory;
  bool failed;    /* the pair was reported */
  unsigned waves; /* that need an order: bit v * LOOP_WAVES + w */
} Meeting;

typedef struct Meetings {
  Vec(Meeting) all;
  Vec(int) left; /* that were not met so far */
} Meetings;

typedef Vec(Part) PartList;

/* A part that is executed. */
typedef struct Step {
  const Part *part;
  const Numbers *of;
  int base;         /* its first event */
  int outer;        /* iteration of the loop that is proved; -1: before it */
  int run;          /* each run of a loop has a number, and what is executed between loops */
  int iteration;    /* of the run */
  bool opens, ends; /* one of the first and of the last iterations; others are left out */
  int64_t groups;
  bool *settled; /* by copy: a wait follows it, or it ends with a phase */
} Step;

typedef Vec(Step) Steps;

typedef struct Nest {
  Prover *p;
  const MemoryUses *m;
  Arena *arena; /* for one combination of sizes */
  LoopSizes *sizes;
  Part before;
  PartList parts;
  Vec(const LoopAccess *) accesses; /* of all parts, by number */
  int naccesses, nparts;
  Meetings **meetings; /* by two parts; NULL: not asked yet */
  int reach;           /* iterations that an order or a ring spans, at most */
  int outer;           /* iterations of the loop that is proved, written out at once ... */
  int from;            /* ... from this one on */
  Steps steps;
  Vec(Steps) checked; /* so far */
  int settled;        /* all copies of as many steps are */
  const Op *asked;    /* the op of which is known, with the present sizes, ... */
  bool masked;        /* ... whether its mask leaves nothing */
  int events, runs;
  int64_t groups;
  EventGraph *graph;
} Nest;

bool loop_is_nest(const Op *loop) {
  for (const Op *op = loop->body->first; op; op = op->next)
    if (op_is_loop(op)) return true;
  return false;
}

static void add_symbols(Nest *n, Part *part, const Sym *e) {
  if (!e) return;
  FreeSymbols free = sym_symbols(n->p->arena, e);
  for (int i = 0; i < free.n; i++) {
    int j = 0;
    while (j < part->symbols.n && part->symbols.at[j] != free.at[i]) j++;
    if (j == part->symbols.n) vec_push(n->p->arena, &part->symbols, free.at[i]);
  }
}

/* Of all that is evaluated for a step. */
static void add_symbols_of(Nest *n, Part *part, const Op *op) {
  const Attr *mask = op_attr(op, ATTR_mask), *at = op_attr(op, ATTR_iteration);
  const Attr *parity = op_attr(op, ATTR_parity);
  for (int i = 0; mask && i < mask->n; i++) add_symbols(n, part, mask->exprs[i]);
  if (at) add_symbols(n, part, at->pairs[0].value);
  if (parity) add_symbols(n, part, parity->sym);
  add_symbols(n, part, op_slot(op));
}

static void find_rings(Nest *n, Part *part) {
  const LoopGraph *g = &part->g;
  part->rings = ARENA_ARRAY(n->p->arena, const Value *, g->copies.n + 1);
  for (int i = 0; i < g->copies.n; i++) part->rings[i] = copy_barriers(g->copies.at[i].op);
  for (int i = 0; i < g->events.n; i++)
    if (g->events.at[i].op->kind == OP_mbar_init)
      vec_push(n->p->arena, &part->started, g->events.at[i].op->args[0]);
}

static void find_symbols(Nest *n, Part *part) {
  const LoopGraph *g = &part->g;
  for (int i = 0; i < g->copies.n; i++) add_symbols_of(n, part, g->copies.at[i].op);
  for (int i = 0; i < g->waits.n; i++) add_symbols_of(n, part, g->waits.at[i].op);
  for (int i = 0; i < g->accesses.n; i++) {
    add_symbols_of(n, part, g->accesses.at[i].op);
    add_symbols(n, part, g->accesses.at[i].slot);
  }
}

static void add_event(Nest *n, Part *part, int event, bool ends) {
  const int *list = ends ? part->ends.at : part->begins.at;
  int count = ends ? part->ends.n : part->begins.n;
  for (int i = 0; i < count; i++)
    if (list[i] == event) return;
  if (event >= 0 && ends) vec_push(n->p->arena, &part->ends, event);
  if (event >= 0 && !ends) vec_push(n->p->arena, &part->begins, event);
}

static void number_accesses(Nest *n, Part *part) {
  part->number = n->naccesses, part->index = n->nparts++;
  find_symbols(n, part);
  find_rings(n, part);
  for (int i = 0; i < part->g.accesses.n; i++) {
    const LoopAccess *x = &part->g.accesses.at[i];
    for (int w = 0; w < LOOP_WAVES; w++)
      add_event(n, part, x->begins[w], false), add_event(n, part, x->ends[w], true);
    vec_push(n->p->arena, &n->accesses, x);
  }
  n->naccesses = n->accesses.n;
}

static bool mentions(const Nest *n, const Part *part, const Sym *counter) {
  bool counted = part->loop && part->loop->kind == OP_for;
  const Sym *trips = counted ? distribute_trips(n->p->d, part->loop) : NULL;
  if (trips && sym_contains(trips, counter)) return true;
  for (int i = 0; i < part->symbols.n; i++)
    if (part->symbols.at[i] == counter) return true;
  for (int i = 0; i < part->ninside; i++)
    if (mentions(n, &part->inside[i], counter)) return true;
  return false;
}

/* Whether all iterations of a loop are the same, as far as `part`, which is in it, says. */
static bool is_uniform(const Nest *n, const Op *loop, const Part *part) {
  const Attr *axis = op_attr(loop, ATTR_axis);
  return axis && !mentions(n, part, ir_loop_counter(n->p->d->k, axis->sym));
}

/* The loop inside another that only repeats it, if iterations of both are all the same: the other one is as
 * if this had more. NULL: there is none. */
static const Part *repeated(const Nest *n, const Op *loop, const PartList *inside) {
  const Part *found = NULL;
  for (int i = 0; i < inside->n; i++) {
    const Part *part = &inside->at[i];
    if (part->loop && found) return NULL;
    if (part->loop) found = part;
    else if (part->g.events.n) return NULL;
  }
  bool uniform = found->ninside && is_uniform(n, loop, found);
  for (int i = 0; uniform && i < found->ninside; i++)
    uniform = is_uniform(n, found->loop, &found->inside[i]);
  return uniform ? found : NULL;
}

static PartList parts_of(Nest *n, const Op *outer) {
  PartList parts = {0};
  Arena *a = n->p->arena;
  const Op *from = outer->body->first;
  for (const Op *op = from;; op = op->next) {
    if (op && !op_is_loop(op)) continue;
    Part between = {.g = loop_part_graph(a, n->p->d, n->m, outer, from, op)};
    number_accesses(n, &between);
    vec_push(a, &parts, between);
    if (!op) return parts;
    Part loop = {.loop = op};
    if (loop_is_nest(op)) {
      PartList inside = parts_of(n, op);
      const Part *same = repeated(n, op, &inside);
      if (same) loop = *same;
      else loop.inside = inside.at, loop.ninside = inside.n;
    } else loop.g = loop_graph(a, n->p->d, n->m, op, NULL, NULL);
    number_accesses(n, &loop);
    vec_push(a, &parts, loop);
    from = op->next;
  }
}

/* ---- steps ---- */

/* Past the last iteration a copy engine copies nothing; threads write zeros. */
static bool find_masked(const Nest *n, const Op *op) {
  const Attr *mask = op_attr(op, ATTR_mask);
  int64_t holds;
  if (!op_has(op, ATTR_iteration) || (op->kind == OP_copy && !copy_barriers(op))) return false;
  for (int i = 0; mask && i < mask->n; i++)
    if (loop_sizes_eval(n->sizes, mask->exprs[i], &holds) && !holds) return true;
  return false;
}

/* Each access of an op asks. */
static bool is_masked(Nest *n, const Op *op) {
  if (n->asked != op) n->asked = op, n->masked = find_masked(n, op);
  return n->masked;
}

static int64_t slot_of(Nest *n, const LoopAccess *x) {
  const Op *alloc = n->m->memories.at[x->memory]->def;
  int64_t slot;
  if (is_masked(n, x->op)) return TAKEN_NOT;
  if (!alloc || alloc_slots(alloc) < 2 || !x->slot) return TAKEN_ANYWHERE;
  return loop_sizes_eval(n->sizes, x->slot, &slot) ? slot : TAKEN_ANYWHERE;
}

/* The step of the loop that an attribute counts. */
static int64_t step_of(const Op *op, const Attr *iteration) {
  for (const Op *beside = op->parent->owner ? op->parent->owner->body->first : NULL; beside;
       beside = beside->next)
    if (beside->kind == OP_for && op_attr(beside, ATTR_axis)->sym == iteration->pairs[0].key)
      return op_step(beside);
  const Op *loop = op->parent->owner;
  return loop && loop->kind == OP_for ? op_step(loop) : 1;
}

/* In iteration i of a ring of n slots, copies to slot i mod n end the phase i / n of its barrier. */
static Phase phase_ended(Nest *n, const Op *copy) {
  const Attr *at = op_attr(copy, ATTR_iteration);
  const Value *ring = copy_barriers(copy);
  Phase phase = {TAKEN_NOT, 0};
  int64_t number, slot;
  if (!ring || !ring->def || !at || is_masked(n, copy)) return phase;
  int slots = alloc_slots(ring->def);
  if (!loop_sizes_eval(n->sizes, at->pairs[0].value, &number)) return phase;
  number /= step_of(copy, at);
  if (slots > 1 && !loop_sizes_eval(n->sizes, op_slot(copy), &slot)) return phase;
  if (slots > 1 && slot != number % slots) return phase;
  return (Phase){number % slots, number / slots};
}

static Phase phase_awaited(const Nest *n, const LoopWait *wait) {
  const Attr *parity = op_attr(wait->op, ATTR_parity);
  const Sym *slot = wait->phases ? op_slot(wait->op) : NULL;
  Phase phase = {0, 0};
  if (!wait->phases || !parity || !loop_sizes_eval(n->sizes, parity->sym, &phase.number) ||
      (slot && !loop_sizes_eval(n->sizes, slot, &phase.slot)))
    phase.slot = TAKEN_NOT;
  return phase;
}

static bool has_values(const Part *part, const Numbers *x, const Sym *const *values) {
  for (int i = 0; i < part->symbols.n; i++)
    if (x->values[i] != values[i]) return false;
  return true;
}

/* The same sizes and iterations occur in many combinations. */
static const Numbers *numbers_of(Nest *n, Part *part) {
  Arena *a = n->p->arena;
  const LoopGraph *g = &part->g;
  ArenaMark mark = arena_mark(a);
  const Sym **values = ARENA_ARRAY(a, const Sym *, part->symbols.n + 1);
  for (int i = 0; i < part->symbols.n; i++)
    values[i] = loop_sizes_value(n->sizes, part->symbols.at[i]);
  for (int i = part->found.n - 1; i >= 0; i--) {
    if (!has_values(part, part->found.at[i], values)) continue;
    arena_rewind(a, mark);
    return part->found.at[i];
  }
  Numbers *x = ARENA_NEW(a, Numbers);
  x->values = values;
  x->slots = ARENA_ARRAY(a, int64_t, g->accesses.n + 1);
  x->ended = ARENA_ARRAY(a, Phase, g->copies.n + 1);
  x->awaited = ARENA_ARRAY(a, Phase, g->waits.n + 1);
  n->asked = NULL;
  for (int i = 0; i < g->accesses.n; i++) x->slots[i] = slot_of(n, &g->accesses.at[i]);
  for (int i = 0; i < g->copies.n; i++) x->ended[i] = phase_ended(n, g->copies.at[i].op);
  for (int i = 0; i < g->waits.n; i++) x->awaited[i] = phase_awaited(n, &g->waits.at[i]);
  vec_push(a, &part->found, x);
  return x;
}

static void add_step(Nest *n, Part *part, int outer, int iteration) {
  Step s = {.part = part, .base = n->events, .outer = outer, .run = n->runs};
  s.iteration = iteration, s.opens = s.ends = true, s.groups = n->groups;
  s.of = numbers_of(n, part);
  s.settled = ARENA_ARRAY(n->arena, bool, part->g.copies.n + 1);
  for (int i = 0; i < part->g.copies.n; i++) s.settled[i] = part->rings[i] != NULL;
  n->events += part->g.events.n;
  n->groups += part->g.groups;
  vec_push(n->arena, &n->steps, s);
}

static void add_parts(Nest *n, Part *parts, int nparts, int outer);

/* Iterations in the middle of a long run are left out: what comes before the run is in order with them if
 * it is with the first ones, and they are with what comes after it if the last ones are. */
static void add_loop(Nest *n, Part *part, int outer) {
  int64_t count = loop_sizes_iterations(n->sizes, part->loop);
  int ends = part->inside ? 1 : n->reach + 1, first = n->steps.n;
  bool gap = count > 2 * ends;
  for (int64_t i = 0; i < count; i++) {
    if (gap && i == ends) {
      n->groups += (count - 2 * ends) * part->g.groups;
      i = count - ends;
    }
    loop_sizes_count(n->sizes, part->loop, i);
    if (part->inside) add_parts(n, part->inside, part->ninside, outer);
    else add_step(n, part, outer, (int)i);
    for (; gap && first < n->steps.n; first++)
      if (i < ends) n->steps.at[first].ends = false;
      else n->steps.at[first].opens = false;
  }
  n->runs++;
}

static void add_parts(Nest *n, Part *parts, int nparts, int outer) {
  for (int i = 0; i < nparts; i++) {
    if (parts[i].loop) add_loop(n, &parts[i], outer);
    else add_step(n, &parts[i], outer, 0), n->runs++;
  }
}

static void add_steps(Nest *n) {
  n->steps.n = n->steps.cap = 0, n->steps.at = NULL;
  n->events = n->runs = n->settled = 0, n->groups = 0;
  add_step(n, &n->before, -1, 0), n->runs++;
  for (int i = n->from; i < n->from + n->outer; i++) {
    loop_sizes_count(n->sizes, n->p->proof->graph.loop, i);
    add_parts(n, n->parts.at, n->parts.n, i);
  }
  n->graph = event_graph(n->arena, n->events);
}

/* ---- what the program orders ---- */

static void add_edge(Nest *n, int from, int to) { event_graph_add(n->graph, from, to); }

/* The step of another iteration of the same run; beyond the last one, that one. NULL: there is none. */
static const Step *step_at(const Nest *n, int at, int iteration) {
  const Step *s = &n->steps.at[at];
  if (iteration < 0) return NULL;
  int by = iteration < s->iteration ? -1 : 1;
  for (; at >= 0 && at < n->steps.n && n->steps.at[at].run == s->run; at += by) {
    s = &n->steps.at[at];
    if (s->iteration == iteration) return s;
  }
  return by > 0 ? s : NULL;
}

static void add_own_orders(Nest *n, int at) {
  const Step *s = &n->steps.at[at];
  for (int i = 0; i < s->part->g.enforced.n; i++) {
    const Order *o = &s->part->g.enforced.at[i];
    const Step *from = o->distance ? step_at(n, at, s->iteration - o->distance) : s;
    if (from) add_edge(n, from->base + o->from, s->base + o->to);
  }
}

/* Program order, from one step to the next. At the end of a loop, waves wait for its products. */
static void link_steps(Nest *n) {
  int last[LOOP_WAVES] = {-1, -1, -1};
  for (int at = 0; at < n->steps.n; at++) {
    const Step *s = &n->steps.at[at];
    for (int w = 0; w < LOOP_WAVES; w++) {
      if (s->part->g.first[w] < 0) continue;
      int first = s->base + s->part->g.first[w];
      if (last[w] >= 0) add_edge(n, last[w], first);
      last[w] = s->base + s->part->g.last[w];
    }
  }
}

/* The first event of a wave after the run of a step; -1: there is none. */
static int first_after(const Nest *n, int at, int wave) {
  int run = n->steps.at[at].run;
  for (int i = at + 1; i < n->steps.n; i++) {
    const Step *s = &n->steps.at[i];
    if (s->run > run && s->part->g.first[wave] >= 0) return s->base + s->part->g.first[wave];
  }
  return -1;
}

static void end_products(Nest *n, int at) {
  const Step *s = &n->steps.at[at];
  for (int i = 0; s->part->loop && i < s->part->g.products.n; i++)
    for (int w = 0; w < LOOP_WAVES; w++) {
      int done = s->part->g.products.at[i].done[w];
      int next = done < 0 ? -1 : first_after(n, at, w);
      if (next >= 0) add_edge(n, s->base + done, next);
    }
}

/* Groups of one thread end in order. */
static bool covers(const Step *s, const LoopWait *wait, const Step *before, const LoopFlight *f) {
  if (wait->silent && f->published) return false;
  if (f->group < 0) return !wait->left;
  return before->groups + f->group + 1 + wait->left <= s->groups + wait->closed;
}

/* The wait follows what is not settled yet: later waits of a wave follow this one. */
static bool settle(Nest *n, const Step *s, const LoopWait *wait, const Step *before) {
  bool all = true;
  for (int j = 0; j < before->part->g.copies.n; j++) {
    const LoopFlight *f = &before->part->g.copies.at[j];
    if (before->settled[j]) continue;
    before->settled[j] = covers(s, wait, before, f);
    all &= before->settled[j];
    for (int w = 0; w < LOOP_WAVES && before->settled[j]; w++)
      if (f->done[w] >= 0) add_edge(n, before->base + f->done[w], s->base + wait->event[w]);
  }
  return all;
}

static void await_groups(Nest *n, int at, const LoopWait *wait) {
  bool all = true;
  for (int i = n->settled; i < at; i++) {
    all &= settle(n, &n->steps.at[at], wait, &n->steps.at[i]);
    if (all) n->settled = i + 1;
  }
}

/* The step since which the phases of a barrier are counted; -1: they are not counted inside the loop. */
static int counted_since(const Nest *n, int at, const Value *ring) {
  for (; at >= 0 && n->steps.at[at].outer >= 0; at--) {
    const Part *part = n->steps.at[at].part;
    for (int i = 0; i < part->started.n; i++)
      if (part->started.at[i] == ring) return at;
  }
  return -1;
}

/* Copies that end the phase which a wait is for: the last one of its parity before it. */
static void await_phase(Nest *n, int at, int wait) {
  const Step *s = &n->steps.at[at];
  const LoopWait *x = &s->part->g.waits.at[wait];
  Phase phase = s->of->awaited[wait];
  int64_t last = -1;
  int since = phase.slot == TAKEN_NOT ? -1 : counted_since(n, at, x->op->args[0]);
  for (int pass = 0; since >= 0 && pass < 2; pass++)
    for (int i = since; i <= at; i++) {
      const Step *from = &n->steps.at[i];
      for (int j = 0; j < from->part->g.copies.n; j++) {
        if (from->part->rings[j] != x->op->args[0]) continue;
        if (from->of->ended[j].slot != phase.slot || from->of->ended[j].number % 2 != phase.number)
          continue;
        const LoopFlight *f = &from->part->g.copies.at[j];
        int maker = loop_maker(f->done);
        if (maker < 0) continue;
        if (i == at && !op_comes_before(f->op, x->op)) continue;
        if (!pass && from->of->ended[j].number > last) last = from->of->ended[j].number;
        for (int w = 0; pass && from->of->ended[j].number == last && w < LOOP_WAVES; w++)
          if (x->event[w] >= 0) add_edge(n, from->base + f->done[maker], s->base + x->event[w]);
      }
    }
}

/* What halves of the waves leave in flight (loop_lag.h) ends at the first barrier after the loop. */
static void end_late(Nest *n, int at) {
  const Step *s = &n->steps.at[at];
  if (!s->part->g.lagged) return;
  for (int i = at + 1; i < n->steps.n; i++) {
    const Step *later = &n->steps.at[i];
    for (int e = 0; later->run != s->run && e < later->part->g.events.n; e++) {
      const LoopEvent *event = &later->part->g.events.at[e];
      if (event->op->kind != OP_barrier || event->wave != LOOP_WAVES) continue;
      for (int j = 0; j < s->part->g.accesses.n; j++)
        for (int w = 0; w < LOOP_COMPUTING && s->part->g.accesses.at[j].late; w++)
          if (s->part->g.accesses.at[j].ends[w] >= 0)
            add_edge(n, s->base + s->part->g.accesses.at[j].ends[w], later->base + e);
      return;
    }
  }
}

static void add_orders(Nest *n) {
  link_steps(n);
  for (int at = 0; at < n->steps.n; at++) {
    const LoopGraph *g = &n->steps.at[at].part->g;
    add_own_orders(n, at);
    end_products(n, at);
    end_late(n, at);
    for (int i = 0; i < g->waits.n; i++) {
      if (op_is_served(n->p->d->k, g->waits.at[i].op)) continue;
      if (g->waits.at[i].phases) await_phase(n, at, i);
      else await_groups(n, at, &g->waits.at[i]);
    }
  }
}

/* ---- pairs ---- */

/* Threads copy the same elements wherever a kernel copies to a memory in the same way. */
static bool copies_alike(const LoopAccess *x, const LoopAccess *y) {
  const Op *a = x->op, *b = y->op;
  if (a->kind != OP_copy || b->kind != OP_copy || a->nargs != b->nargs) return false;
  for (int i = 0; i < a->nargs; i++)
    if (a->args[i] != b->args[i]) return false;
  return parts_equal(a, b) && op_attr(a, ATTR_mode)->text == op_attr(b, ATTR_mode)->text;
}

static bool slots_meet(const Meeting *m, int64_t a, int64_t b) {
  if (a == TAKEN_NOT || b == TAKEN_NOT) return false;
  return !m->one_memory || a == TAKEN_ANYWHERE || b == TAKEN_ANYWHERE || a == b;
}

static bool needs_order(const LoopAccess *x, int v, const LoopAccess *y, int w) {
  return !loop_needs_no_order(x, v, y, w) && !(v != w && copies_alike(x, y));
}

/* Where service waves copy, nothing may be left to prove. */
static bool is_order_needed(const Nest *n) {
  for (int i = 0; i < n->naccesses * n->naccesses; i++) {
    const LoopAccess *x = n->accesses.at[i / n->naccesses], *y = n->accesses.at[i % n->naccesses];
    if (!loop_conflict(n->p, x, y) || (x->goes_on && y->goes_on)) continue;
    for (int v = 0; v < LOOP_WAVES; v++)
      for (int w = 0; w < LOOP_WAVES; w++)
        if (needs_order(x, v, y, w)) return true;
  }
  return false;
}

/* The loop inside is proved for all runs of what goes on. */
static void add_meeting(Nest *n, Meetings *list, const Part *p, int i, const Part *q, int j) {
  const LoopAccess *x = &p->g.accesses.at[i], *y = &q->g.accesses.at[j];
  Meeting m = {.first = i, .second = j, .one_memory = x->memory == y->memory};
  if (!loop_conflict(n->p, x, y) || (x->goes_on && y->goes_on)) return;
  for (int v = 0; v < LOOP_WAVES; v++)
    for (int w = 0; w < LOOP_WAVES; w++)
      if (needs_order(x, v, y, w)) m.waves |= 1u << (v * LOOP_WAVES + w);
  vec_push(n->p->arena, &list->left, list->all.n);
  vec_push(n->p->arena, &list->all, m);
}

static Meetings *meetings_of(Nest *n, const Part *p, const Part *q) {
  Meetings **list = &n->meetings[p->index * n->nparts + q->index];
  if (*list) return *list;
  *list = ARENA_NEW(n->p->arena, Meetings);
  for (int i = 0; i < p->g.accesses.n; i++)
    for (int j = 0; j < q->g.accesses.n; j++) add_meeting(n, *list, p, i, q, j);
  return *list;
}

static void check_order(Nest *n, const Step *s, const Step *t, Meeting *m) {
  const LoopAccess *x = &s->part->g.accesses.at[m->first], *y = &t->part->g.accesses.at[m->second];
  for (unsigned left = m->waves; left; left &= left - 1) {
    int waves = lowest_bit(left), v = waves / LOOP_WAVES, w = waves % LOOP_WAVES;
    if (event_graph_orders(n->graph, s->base + x->ends[v], t->base + y->begins[w])) continue;
    int apart = s->outer < 0 ? t->outer : t->outer - s->outer;
    loop_report(n->p, (LoopPair){x, y, apart, v != w, .entry = s->outer < 0});
    m->failed = true;
    return;
  }
}

/* Runs of the loops inside are proved with what comes before them in the same iteration. */
static bool is_proved_inside(const Nest *n, const Step *s, const Step *t) {
  return s->outer == t->outer && t->part != &n->parts.at[n->parts.n - 1];
}

static bool do_meet(const Step *s, const Step *t, const Meeting *m) {
  const LoopAccess *own = s->part->g.accesses.at;
  if (s == t && (m->first >= m->second || own[m->first].op == own[m->second].op)) return false;
  return slots_meet(m, s->of->slots[m->first], t->of->slots[m->second]);
}

/* Counts those that meet for the first time. */
static void count_meetings(Nest *n, const Step *s, const Step *t, Meetings *list) {
  for (int i = list->left.n - 1; i >= 0; i--) {
    if (!do_meet(s, t, &list->all.at[list->left.at[i]])) continue;
    list->left.at[i] = list->left.at[--list->left.n];
    n->p->proof->pairs++;
  }
}

/* Whether all accesses of a step follow what these events follow. */
static bool begins_in(const Step *t, EventSet after) {
  for (int i = 0; i < t->part->begins.n; i++)
    if (!event_set_has(after, t->base + t->part->begins.at[i])) return false;
  return true;
}

/* `after`: what follows all accesses of the first step. */
static void check_steps(Nest *n, const Step *s, const Step *t, EventSet after) {
  if (t->outer < 0 || !t->opens || is_proved_inside(n, s, t)) return;
  Meetings *list = meetings_of(n, s->part, t->part);
  count_meetings(n, s, t, list);
  if (begins_in(t, after)) return;
  for (int i = 0; i < list->all.n; i++) {
    Meeting *m = &list->all.at[i];
    if (!m->failed && do_meet(s, t, m)) check_order(n, s, t, m);
  }
}

static void check_from(Nest *n, int i) {
  const Step *s = &n->steps.at[i];
  if (!s->ends || !s->part->g.accesses.n) return;
  EventSet after = event_graph_after_all(n->graph, s->base, s->part->ends.at, s->part->ends.n);
  for (int j = i; j < n->steps.n; j++) check_steps(n, s, &n->steps.at[j], after);
}

static bool is_same_step(const Step *a, const Step *b) {
  return a->part == b->part && a->of == b->of && a->outer == b->outer && a->run == b->run &&
         a->iteration == b->iteration && a->groups == b->groups && a->opens == b->opens &&
         a->ends == b->ends;
}

/* Whether the same was written out for other sizes, or nothing is. */
static bool is_checked(Nest *n) {
  for (int i = 0; i < n->checked.n; i++) {
    const Steps *c = &n->checked.at[i];
    int same = 0;
    while (c->n == n->steps.n && same < c->n && is_same_step(&c->at[same], &n->steps.at[same]))
      same++;
    if (same == n->steps.n) return true;
  }
  Steps copy = n->steps;
  copy.at = arena_copy(n->p->arena, n->steps.at, sizeof *copy.at * (size_t)copy.n);
  vec_push(n->p->arena, &n->checked, copy);
  return !n->events;
}

static void check_sizes(Nest *n) {
  add_steps(n);
  if (is_checked(n)) return;
  add_orders(n);
  for (int i = 0; i < n->steps.n; i++) check_from(n, i);
}

/* ---- how much is written out ---- */

static void reach_of(Nest *n, const Part *part) {
  const LoopGraph *g = &part->g;
  for (int i = 0; i < part->ninside; i++) reach_of(n, &part->inside[i]);
  for (int i = 0; i < g->enforced.n; i++)
    if (abs(g->enforced.at[i].distance) > n->reach) n->reach = abs(g->enforced.at[i].distance);
}

static int most_slots(const Nest *n) {
  int most = 1;
  for (int i = 0; i < n->m->memories.n; i++) {
    const Op *alloc = n->m->memories.at[i]->def;
    if (alloc && alloc_slots(alloc) > most) most = alloc_slots(alloc);
  }
  return most;
}

/* Slots depend on the counter of the loop that is proved: it has rings of its own. */
static bool has_rings(const Nest *n, const Part *parts, int nparts, const Sym *counter) {
  for (int i = 0; i < nparts; i++) {
    const LoopGraph *g = &parts[i].g;
    for (int j = 0; j < g->accesses.n; j++) {
      const LoopAccess *x = &g->accesses.at[j];
      if (x->slot && !x->goes_on && sym_contains(x->slot, counter)) return true;
    }
    if (has_rings(n, parts[i].inside, parts[i].ninside, counter)) return true;
  }
  return false;
}

/* Loops inside do not run equally often. */
static bool runs_differ(const Nest *n, const Op *outer, const Sym *counter) {
  for (const Op *op = outer->body->first; op && op_is_inside(op, outer); op = ir_next(op)) {
    const Sym *trips = op->kind == OP_for ? distribute_trips(n->p->d, op) : NULL;
    if (trips && sym_contains(trips, counter)) return true;
  }
  return false;
}

/* Two iterations, unless the loop has rings of its own; and the first two, unless others are different. */
static void check_iterations(Nest *n) {
  const Op *outer = n->p->proof->graph.loop;
  const Attr *axis = op_attr(outer, ATTR_axis);
  const Sym *counter = axis ? ir_loop_counter(n->p->d->k, axis->sym) : NULL;
  bool rings = counter && has_rings(n, n->parts.at, n->parts.n, counter);
  int more = counter && !rings && runs_differ(n, outer, counter) ? n->reach : 0;
  n->outer = rings ? n->reach + 1 : 2;
  if (n->p->proof->most < n->outer) n->outer = (int)n->p->proof->most;
  for (n->from = 0; n->from <= more; n->from++) {
    ArenaMark mark = arena_mark(n->arena);
    if (n->from && n->from + n->outer > n->p->proof->most) return;
    check_sizes(n);
    arena_rewind(n->arena, mark);
  }
}

void loop_check_nest(Prover *p, const MemoryUses *m) {
  Nest n = {.p = p, .m = m};
  const Op *outer = p->proof->graph.loop;
  n.before.g = p->proof->entry;
  number_accesses(&n, &n.before);
  n.parts = parts_of(&n, outer);
  if (!is_order_needed(&n)) return;
  for (int i = 0; i < n.parts.n; i++) reach_of(&n, &n.parts.at[i]);
  n.reach += most_slots(&n);
  n.meetings = ARENA_ARRAY(p->arena, Meetings *, n.nparts * n.nparts);
  n.arena = arena_new();
  n.sizes = loop_sizes(p->arena, p->d, outer, n.reach);
  while (loop_sizes_next(n.sizes)) check_iterations(&n);
  arena_free(n.arena);
}
