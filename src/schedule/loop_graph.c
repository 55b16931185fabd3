/* loop_graph.c: see loop_graph.h. What lowering adds is modelled as it is lowered: a wait for
 * products before the next op that needs it (lower_threads.c, end_products), and one for copies that
 * the kernel does not wait for itself before the next synchronisation. */
#include "schedule/loop_graph.h"

#include <string.h>

#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "ir/schedule/turn_ops.h"
#include "schedule/groups/loop_lag.h"
#include "schedule/groups/loop_stagger.h"

enum {
  MOST_KNOWN = 64
}; /* iterations of a loop in which a wait may always be for the same phase */

typedef struct Build {
  Arena *arena;
  const Distribution *d;
  Kernel *k;
  const MemoryUses *m;
  LoopGraph *g;
  const Sym *counter, *number; /* that the loop is at: what it steps, and its iteration */
  Runs runs;                   /* of the loop */
  bool once;                   /* what comes before the loop */
  int64_t most;                /* iterations; INT64_MAX: unknown */
  Vec(LoopFlight) loose;       /* copies that the next synchronisation waits for */
  Vec(LoopFlight) products;    /* in flight */
  int pending;                 /* products that may still be in flight after the next wait */
  bool served;                 /* by service waves */
  const char *scope;           /* of the barriers that join the workgroup's waves */
  LoopOpFn *counts;            /* other ops that are events, too */
  const void *user;
} Build;

/* ---- events ---- */

static int new_event(Build *b, const Op *op, LoopEventKind kind, int wave) {
  vec_push(b->arena, &b->g->events, ((LoopEvent){op, kind, wave}));
  return b->g->events.n - 1;
}

/* What runs once has no other iterations. */
static void add_order(Build *b, int from, int to, int distance) {
  if (b->once && distance > 0) return;
  if (b->once) distance = 0;
  vec_push(b->arena, &b->g->enforced, ((Order){from, to, distance}));
}

/* The waves that execute an op. */
static bool acts(const Build *b, const Op *op, int wave) {
  return op_is_served(b->k, op) ? wave == LOOP_SERVICE : wave < LOOP_COMPUTING;
}

static void add_next(Build *b, int wave, int event) {
  if (b->g->last[wave] >= 0) add_order(b, b->g->last[wave], event, 0);
  else b->g->first[wave] = event;
  b->g->last[wave] = event;
}

/* The same op in each wave. */
static void add_each(Build *b, const Op *op, LoopEventKind kind) {
  for (int w = 0; w < LOOP_WAVES; w++)
    if (acts(b, op, w)) add_next(b, w, new_event(b, op, kind, w));
}

/* The last event of each wave that executes an op; -1 for others. */
static void last_events(const Build *b, const Op *op, int *event) {
  for (int w = 0; w < LOOP_WAVES; w++) event[w] = acts(b, op, w) ? b->g->last[w] : -1;
}

static void add_barrier(Build *b, const Op *op) {
  int event = new_event(b, op, LOOP_STARTS, LOOP_WAVES);
  bool all = op->kind == OP_barrier && strcmp(op_attr(op, ATTR_mode)->text, "roles") == 0;
  for (int w = 0; w < (all ? LOOP_WAVES : LOOP_COMPUTING); w++) add_next(b, w, event);
}

/* An event of each wave follows the end of its own flight, `distance` iterations ago. */
static void await_own(Build *b, const LoopFlight *f, const int *event, int distance) {
  for (int w = 0; w < LOOP_WAVES; w++)
    if (f->done[w] >= 0) add_order(b, f->done[w], event[w], distance);
}

static LoopFlight start_flight(Build *b, const Op *op, bool elected, int group) {
  LoopFlight f = {.op = op, .group = group};
  for (int w = 0; w < LOOP_WAVES; w++) {
    bool does = acts(b, op, w) && !(elected && w == 1);
    f.done[w] = does ? new_event(b, op, LOOP_ENDS, w) : -1;
    if (does) add_order(b, b->g->last[w], f.done[w], 0);
  }
  return f;
}

/* ---- iterations ---- */

/* The iterations by which a value of the loop's counter is above that which it has. */
static bool above_counter(const Build *b, const Sym *e, int *by) {
  return e && op_iterations_apart(b->k, b->g->loop, b->counter, e, by);
}

/* The same of the number of an iteration. Min(number + n, last) is what a wait for an iteration that
 * may not exist is for. */
static bool above_number(const Build *b, const Sym *e, int *by) {
  int64_t n;
  SymCtx *cx = b->k->cx->sym;
  for (int i = 0; e && sym_kind(e) == SYM_min && i < sym_nargs(e); i++)
    if (above_number(b, sym_arg(cx, e, i), by)) return true;
  const Sym *rest = e ? sym_sub(cx, e, b->number) : NULL;
  if (!rest || !sym_is_int(rest, &n) || n != (int)n) return false;
  *by = (int)n;
  return true;
}

/* Service waves use the memory: its slots are counted through all runs of the loop. */
static bool is_served_memory(const Build *b, const Value *memory) {
  for (const Op *op = b->served ? ir_first(b->k) : NULL; op; op = ir_next(op))
    for (int i = 0; op_is_served(b->k, op) && i < op->nargs; i++)
      if (op->args[i] == memory) return true;
  return false;
}

/* The slot of a ring whose iterations are counted through all runs of the loop: that of the iteration
 * *ahead after this one, or of the last one of all. The text of Mod(6*$ARGT + $ARGK, 4) depends on
 * the numbers in it, so all slots are tried. */
static bool split_number(const Build *b, int slots, const Sym *slot, int *ahead,
                         const Sym **number) {
  SymCtx *cx = b->k->cx->sym;
  bool wraps = sym_kind(slot) == SYM_mod;
  const Sym *x = wraps ? sym_arg(cx, slot, 0) : slot;
  if (wraps && sym_arg(cx, slot, 1) != sym_int(cx, slots)) return false;
  if (!b->runs.all && sym_kind(x) == SYM_add &&
      above_number(b, sym_sub(cx, x, b->runs.before), ahead))
    return *number = x, true;
  for (int i = 0; sym_kind(x) == SYM_min && i < sym_nargs(x); i++)
    if (above_number(b, sym_sub(cx, sym_arg(cx, x, i), b->runs.before), ahead))
      return *number = x, true;
  for (*ahead = 0; *ahead < slots; ++*ahead) {
    const Sym *own = sym_add(cx, b->number, sym_int(cx, *ahead));
    *number = sym_add(cx, b->runs.before, own);
    if (sym_mod(cx, *number, sym_int(cx, slots)) == slot) return true;
  }
  return false;
}

/* A slot is Mod(number, slots). */
static bool split_slot(const Build *b, const Value *memory, const Sym *slot, int *ahead, int *slots,
                       const Sym **number) {
  int64_t n;
  SymCtx *cx = b->k->cx->sym;
  if (!slot) return false;
  if (b->runs.before != sym_int(cx, 0) && is_served_memory(b, memory)) {
    *slots = memory->def ? alloc_slots(memory->def) : 1;
    return b->runs.before && *slots > 1 && split_number(b, *slots, slot, ahead, number);
  }
  if (sym_kind(slot) != SYM_mod || !sym_is_int(sym_arg(cx, slot, 1), &n)) return false;
  if (n < 2 || n != (int)n) return false;
  *slots = (int)n, *number = sym_arg(cx, slot, 0);
  return above_number(b, *number, ahead);
}

/* Mod(number + 3, 3) is Mod(number, 3): which of the iterations of a slot it is says the op. */
static void find_round(const Build *b, const Op *op, int *ahead, int slots) {
  const Attr *at = op_attr(op, ATTR_iteration);
  int named;
  if (at && above_counter(b, at->pairs[0].value, &named) && (named - *ahead) % slots == 0)
    *ahead = named;
}

/* Its mask is false in the iteration with this number, and so in all later ones: they would be for
 * iterations past the last. What threads copy then is zeros. */
static bool is_past_end(const Build *b, const Op *op, int number) {
  const Attr *mask = op_attr(op, ATTR_mask);
  SymCtx *cx = b->k->cx->sym;
  SymBinding at = {b->counter, sym_int(cx, number * op_step(b->g->loop))};
  if (op->kind == OP_mbar_arrive || (op->kind == OP_copy && !copy_barriers(op))) return false;
  for (int i = 0; op_has(op, ATTR_iteration) && mask && i < mask->n; i++)
    if (sym_subst(cx, mask->exprs[i], &at, b->once ? 0 : 1) == sym_bool(cx, false)) return true;
  return false;
}

/* ---- waits ---- */

static void add_wait(Build *b, LoopWait wait) {
  add_each(b, wait.op, wait.added || wait.phases ? LOOP_WAITS : LOOP_STARTS);
  last_events(b, wait.op, wait.event);
  wait.closed = b->g->groups;
  vec_push(b->arena, &b->g->waits, wait);
}

/* Groups of one thread end in order; every iteration closes the same number. */
static void await_groups(Build *b, const LoopWait *wait) {
  for (int i = 0; i < b->g->copies.n; i++) {
    const LoopFlight *f = &b->g->copies.at[i];
    if (copy_barriers(f->op) || (wait->silent && f->published)) continue;
    int behind = f->group + wait->left + 1 - wait->closed;
    if (f->group >= 0 && b->g->groups) await_own(b, f, wait->event, ceil_div(behind, b->g->groups));
    if (f->group < 0 && !wait->left)
      await_own(b, f, wait->event, op_comes_before(f->op, wait->op) ? 0 : 1);
  }
}

/* The phase of a barrier of a ring is odd in every second round. */
static bool is_phase(const Build *b, const Op *wait, const Sym *number, int slots) {
  SymCtx *cx = b->k->cx->sym;
  const Attr *parity = op_attr(wait, ATTR_parity);
  const Sym *round = sym_floordiv(cx, number, sym_int(cx, slots));
  return parity && parity->sym == sym_mod(cx, round, sym_int(cx, 2));
}

/* A wait that is always for the same phase; *slot and *parity say which. */
static bool is_constant(const Op *wait, int64_t *slot, int64_t *parity) {
  const Attr *odd = op_attr(wait, ATTR_parity);
  return op_slot(wait) && odd && sym_is_int(op_slot(wait), slot) && sym_is_int(odd->sym, parity);
}

/* Whether that phase may be the one that the copies of an iteration end. */
static bool ends_phase(const Op *wait, int64_t slot, int64_t parity, int64_t iteration) {
  const Op *ring = wait->args[0]->def;
  int slots = ring ? alloc_slots(ring) : 1;
  return iteration % slots == slot && iteration / slots % 2 == parity;
}

/* In a ring of one slot each iteration is a round. */
static bool is_round(const Build *b, const Op *wait, int rounds, int *by) {
  SymCtx *cx = b->k->cx->sym;
  const Op *ring = wait->args[0]->def;
  const Attr *parity = op_attr(wait, ATTR_parity);
  if (!ring || alloc_slots(ring) != 1 || !b->runs.before || !parity) return false;
  for (*by = 0; *by < 2; ++*by) {
    const Sym *number = sym_add(cx, b->number, sym_int(cx, *by + rounds));
    number = sym_add(cx, b->runs.before, number);
    if (parity->sym == sym_mod(cx, number, sym_int(cx, 2))) return true;
  }
  return false;
}

/* The phase that a wait is for ends with the copies of the iteration that is *by above the counter. */
static bool phase_of(const Build *b, const Op *wait, int *by) {
  int slots;
  const Sym *number;
  if (is_round(b, wait, 0, by)) return true;
  return split_slot(b, wait->args[0], op_slot(wait), by, &slots, &number) &&
         is_phase(b, wait, number, slots);
}

/* A copy that is made once before the loop, in each run of what is around both, ends one phase of a barrier of
 * its own. */
static bool awaits_single(const Build *b, const Op *wait, const Op *copy) {
  SymCtx *cx = b->k->cx->sym;
  const Attr *odd = op_attr(wait, ATTR_parity), *at = op_attr(copy, ATTR_iteration);
  if (!b->once || copy_barriers(copy) != wait->args[0] || !odd) return false;
  if (at && at->pairs[0].key == op_attr(b->g->loop, ATTR_axis)->sym) return false;
  int64_t n = wait->args[0]->def ? alloc_slots(wait->args[0]->def) : 1;
  if (n > 1 && op_slot(wait) != op_slot(copy)) return false;
  const Sym *before = runs_of_op(b->d, copy).before, *slots = sym_int(cx, n);
  return before && odd->sym == sym_mod(cx, sym_floordiv(cx, before, slots), sym_int(cx, 2));
}

/* Whether a wait is for the phase that a copy ends, and for that of how many iterations ago. In a
 * short loop it may always be for the last iteration, which one iteration copies. */
static bool awaits(const Build *b, const Op *wait, const Op *copy, int *distance) {
  int waited, ahead;
  int64_t slot, parity;
  const Attr *at = op_attr(copy, ATTR_iteration);
  *distance = 0;
  if (awaits_single(b, wait, copy)) return true;
  if (copy_barriers(copy) != wait->args[0] || !at) return false;
  if (!above_counter(b, at->pairs[0].value, &ahead)) return false;
  if (is_constant(wait, &slot, &parity)) {
    if (b->once || is_past_end(b, copy, 1)) return ends_phase(wait, slot, parity, ahead);
    int64_t last = b->most - 1;
    *distance = ahead - (int)last;
    return last < MOST_KNOWN && last >= ahead && ends_phase(wait, slot, parity, last);
  }
  if (!phase_of(b, wait, &waited) || (b->once && ahead != waited)) return false;
  *distance = ahead - waited;
  return true;
}

int loop_maker(const int *done) {
  for (int w = 0; w < LOOP_WAVES; w++)
    if (done[w] >= 0) return w;
  return -1;
}

/* Both waves wait for the phase that ends with the copies of one iteration. */
static void await_phase(Build *b, const LoopWait *wait) {
  int distance;
  for (int i = 0; i < b->g->copies.n; i++) {
    const LoopFlight *f = &b->g->copies.at[i];
    int maker = loop_maker(f->done);
    if (maker < 0 || !awaits(b, wait->op, f->op, &distance)) continue;
    for (int w = 0; w < LOOP_WAVES; w++)
      if (wait->event[w] >= 0) add_order(b, f->done[maker], wait->event[w], distance);
  }
}

/* A slot's first phase, which nothing ends, counts as complete: round r waits for that of r - 1. */
static bool awaits_slot(const Build *b, const Op *wait, int *by) {
  int slots;
  const Sym *number;
  SymCtx *cx = b->k->cx->sym;
  const Attr *parity = op_attr(wait, ATTR_parity);
  if (!op_is_served(b->k, wait)) return false;
  if (is_round(b, wait, 1, by)) return true;
  if (!split_slot(b, wait->args[0], op_slot(wait), by, &slots, &number)) return false;
  const Sym *round = sym_floordiv(cx, number, sym_int(cx, slots));
  const Sym *before = sym_add(cx, round, sym_int(cx, 1));
  return parity && parity->sym == sym_mod(cx, before, sym_int(cx, 2));
}

/* A wait of service waves for the arrivals of those that compute. */
static void await_release(Build *b, const LoopWait *wait) {
  int by, released;
  if (!awaits_slot(b, wait->op, &by)) return;
  for (int i = 0; i < b->g->arrivals.n; i++) {
    const LoopArrival *x = &b->g->arrivals.at[i];
    const Attr *at = op_attr(x->op, ATTR_iteration);
    if (x->op->args[0] != wait->op->args[0] || !at) continue;
    if (!above_counter(b, at->pairs[0].value, &released)) continue;
    int distance = alloc_slots(wait->op->args[0]->def) + released - by;
    for (int w = 0; w < LOOP_COMPUTING; w++)
      add_order(b, x->event[w], wait->event[LOOP_SERVICE], distance);
  }
}

/* Waits refer to copies of earlier iterations, which may come after them in the body. */
static void add_waits(Build *b) {
  for (int i = 0; i < b->g->waits.n; i++)
    if (op_is_served(b->k, b->g->waits.at[i].op)) await_release(b, &b->g->waits.at[i]);
    else if (b->g->waits.at[i].phases) await_phase(b, &b->g->waits.at[i]);
    else await_groups(b, &b->g->waits.at[i]);
}

/* ---- products ---- */

/* Waits for the first n products, of `distance` iterations ago. */
static void end_first(Build *b, const Op *op, int n, int distance) {
  if (!n) return;
  add_each(b, op, LOOP_WAITS);
  for (int i = 0; i < n; i++) await_own(b, &b->products.at[i], b->g->last, distance);
  for (int i = n; i < b->products.n; i++) b->products.at[i - n] = b->products.at[i];
  b->products.n -= n;
}

static void end_products(Build *b, const Op *op) {
  int needed = 0;
  if (op->kind == OP_async_commit || (op->kind == OP_copy && op_has(op, ATTR_iteration))) return;
  if (op->kind == OP_mbar_wait && b->served) return;
  if (!op_is_private(op)) {
    end_first(b, op, b->products.n, b->pending);
    return;
  }
  for (int i = 0; i < b->products.n; i++)
    if (op_awaits_product(op, &b->products.at[i].op->results[0])) needed = i + 1;
  end_first(b, op, needed, 0);
}

/* ---- accesses ---- */

/* What a product that stays in flight reads is listed for each earlier iteration, too. */
static bool is_repeated(const Build *b, const Op *op, int memory) {
  for (int i = 0; op_has(op, ATTR_pending) && i < b->g->accesses.n; i++)
    if (b->g->accesses.at[i].op == op && b->g->accesses.at[i].memory == memory) return true;
  return false;
}

/* The slot of a ring that is accessed before the loop. */
static bool known_slot(const Build *b, const MemoryUse *u, LoopAccess *x) {
  int64_t n;
  const Value *memory = b->m->memories.at[u->memory];
  const Sym *number;
  x->slots = memory->def ? alloc_slots(memory->def) : 1;
  if (x->slots < 2 || !u->slot) return false;
  if (!sym_is_int(u->slot, &n))
    return split_slot(b, memory, u->slot, &x->ahead, &x->slots, &number);
  x->ahead = (int)n;
  return true;
}

/* Service waves use the memory in this region. */
static bool is_served_in(const Build *b, const Op *outer, const Value *memory) {
  for (const Op *op = outer; op && op_is_inside(op, outer); op = ir_next(op))
    for (int i = 0; op_is_served(b->k, op) && i < op->nargs; i++)
      if (op->args[i] == memory) return true;
  return false;
}

/* The access is in a loop inside this one that fills the memory, and is proved for all of its runs at once. */
static bool is_proved_inside(const Build *b, const Op *op, const Value *memory) {
  if (b->once || !b->served) return false;
  for (const Op *r = op->parent->owner; r && r != b->g->loop; r = r->parent->owner)
    if (op_is_loop(r) && is_served_in(b, r, memory)) return true;
  return false;
}

static void add_access(Build *b, const MemoryUse *u, const int *begins, const int *ends) {
  LoopAccess x = {.op = u->op, .memory = u->memory, .how = u->how, .by_name = u->by_name};
  x.slot = u->slot, x.part = u->part;
  if (is_repeated(b, u->op, u->memory)) return;
  for (int w = 0; w < LOOP_WAVES; w++) {
    x.begins[w] = ends[w] < 0 ? -1 : begins[w];
    x.ends[w] = ends[w];
  }
  const Value *memory = b->m->memories.at[u->memory];
  const Sym *number;
  if (is_proved_inside(b, u->op, memory)) return;
  x.goes_on = is_served_memory(b, memory);
  bool ring =
      b->once ? known_slot(b, u, &x) : split_slot(b, memory, u->slot, &x.ahead, &x.slots, &number);
  if (!ring) x.ahead = 0, x.slots = 1;
  else if (!b->once) find_round(b, u->op, &x.ahead, x.slots);
  x.only_first = !b->once && is_past_end(b, u->op, 1);
  vec_push(b->arena, &b->g->accesses, x);
}

static bool touches_memory(const Build *b, const Op *op) {
  for (int i = 0; i < b->m->uses.n; i++)
    if (b->m->uses.at[i].op == op && op->kind != OP_async_wait) return true;
  return false;
}

static void add_accesses(Build *b, const Op *op, const int *begins, const int *ends) {
  if (is_past_end(b, op, 0)) return;
  for (int i = 0; i < b->m->uses.n; i++)
    if (b->m->uses.at[i].op == op) add_access(b, &b->m->uses.at[i], begins, ends);
}

/* Whether a product reads what the copy fills from shared memory. */
static bool feeds_product(const Build *b, const Op *copy) {
  const Value *filled = copy->args[1];
  for (int i = 0; i < b->m->uses.n; i++) {
    const MemoryUse *u = &b->m->uses.at[i];
    if (op_is_product(u->op) && b->m->memories.at[u->memory] == filled) return true;
  }
  return false;
}

static void add_copy(Build *b, const Op *op) {
  bool elected = copy_barriers(op) != NULL, own = copy_goes_by(op, "load");
  int begins[LOOP_WAVES];
  last_events(b, op, begins);
  if (own) {
    add_accesses(b, op, begins, begins);
    return;
  }
  LoopFlight f = start_flight(b, op, elected, b->g->groups);
  f.published = feeds_product(b, op);
  if (elected || memory_is_ahead(op)) vec_push(b->arena, &b->g->copies, f);
  else vec_push(b->arena, &b->loose, f);
  add_accesses(b, op, begins, f.done);
}

static void add_touch(Build *b, const Op *op) {
  add_each(b, op, LOOP_STARTS);
  if (op->kind == OP_copy) {
    add_copy(b, op);
  } else if (op_is_product(op)) {
    int begins[LOOP_WAVES];
    last_events(b, op, begins);
    LoopFlight f = start_flight(b, op, false, 0);
    const Attr *pending = op_attr(op, ATTR_pending);
    b->pending = pending ? (int)pending->integer : 0;
    vec_push(b->arena, &b->products, f);
    vec_push(b->arena, &b->g->products, f);
    add_accesses(b, op, begins, f.done);
  } else {
    LoopArrival x = {.op = op};
    last_events(b, op, x.event);
    if (op->kind == OP_mbar_arrive) vec_push(b->arena, &b->g->arrivals, x);
    if (op->kind == OP_mbar_init || op->kind == OP_mbar_inval) x.event[1] = -1; /* elected */
    add_accesses(b, op, b->g->last, x.event);
  }
}

/* Accesses of a region up to one of its barriers, or after the last one. */
typedef struct Section {
  const Op *barrier; /* where they end; NULL: with the region */
  int begins[LOOP_WAVES], joined[LOOP_WAVES];
} Section;

typedef Vec(Section) Sections;

/* The last barrier that each execution of the region reaches, and all waves at once; NULL: none. */
static const Op *last_barrier(const Build *b, const Op *outer) {
  const Op *last = NULL;
  if (op_is_loop(outer) && loop_is_lagged(b->d, outer)) return NULL;
  for (const Op *op = outer->body->first; op; op = op->next)
    if (memory_is_ordered_by(op, b->scope)) last = op;
  return last;
}

/* A barrier of a region is two events. What ends at it ends with the first, which follows nothing that
 * comes before the region: that may not be executed at all. What comes after it in the region follows
 * the second, too, which follows what comes before the region, and which nothing else follows. */
static void end_section(Build *b, Sections *all, const Op *outer, const Op *barrier, int *entered) {
  Section *s = &all->at[all->n - 1], next = *s;
  int before = *entered, joined = new_event(b, barrier, LOOP_STARTS, LOOP_WAVES);
  s->barrier = barrier;
  if (s->joined[0] >= 0) add_order(b, s->joined[0], joined, 0);
  s->joined[0] = s->joined[1] = next.joined[0] = joined;
  vec_push(b->arena, all, next);
  if (op_is_loop(outer)) return; /* its next iteration comes after this barrier, too */
  *entered = new_event(b, outer, LOOP_ENDS, LOOP_WAVES);
  if (before >= 0) add_order(b, before, *entered, 0);
  for (int w = 0; w < LOOP_COMPUTING; w++) {
    int *begins = &all->at[all->n - 1].begins[w];
    if (*begins < 0) continue;
    if (before < 0) add_order(b, *begins, *entered, 0);
    *begins = new_event(b, outer, LOOP_ENDS, w);
    add_order(b, *entered, *begins, 0);
    add_order(b, joined, *begins, 0);
  }
}

/* Loops execute their barriers again and again, so only the last one counts. Where ops are timed, a
 * conditional is one op. */
static Sections sections_of(Build *b, const Op *outer, const Section *whole) {
  Sections all = {0};
  int entered = -1;
  const Op *last = last_barrier(b, outer);
  vec_push(b->arena, &all, *whole);
  for (const Op *op = last ? outer->body->first : NULL; op; op = op == last ? NULL : op->next) {
    bool counts = !op_is_loop(outer) && !b->counts && memory_is_ordered_by(op, b->scope);
    if (op == last || counts) end_section(b, &all, outer, op, &entered);
  }
  for (int w = 0; last && w < LOOP_COMPUTING; w++)
    add_order(b, all.at[all.n - 2].joined[w], b->g->last[w], 0);
  return all;
}

static const Section *section_of(const Sections *all, const Op *outer, const Op *op) {
  const Op *at = op_ancestor_in(op, outer->body);
  int i = 0;
  while (all->at[i].barrier && !op_comes_before(at, all->at[i].barrier)) i++;
  return &all->at[i];
}

/* Waits of a loop for copies that were issued before it. A copy of an iteration that does not take
 * place copies nothing, so each of the others ends before the loop does: before its last barrier,
 * `joined`, if the wait does. */
static void end_awaited(Build *b, const Op *loop, const Op *barrier, const int *joined) {
  int filled;
  for (const Op *op = loop->body->first; op; op = op->next) {
    const int *by = barrier && op_comes_before(op, barrier) ? joined : b->g->last;
    for (int i = 0; op->kind == OP_mbar_wait && i < b->g->copies.n; i++) {
      const LoopFlight *f = &b->g->copies.at[i];
      const Attr *at = op_attr(f->op, ATTR_iteration);
      int maker = loop_maker(f->done);
      if (copy_barriers(f->op) != op->args[0] || maker < 0 || !at) continue;
      if (!loop_names_iteration(b->k, loop, at, &filled)) continue;
      int in = loop_waits_in(b->d, loop, op, filled);
      for (int w = 0; w < LOOP_COMPUTING && in >= 0 && in <= filled; w++)
        add_order(b, f->done[maker], by[w], 0);
    }
  }
}

/* Lowering has threads wait at a barrier for what they copy, unless the kernel itself waits for that. */
static bool ends_at_barriers(const Op *op) {
  if (op->kind != OP_copy) return !op_is_product(op);
  return copy_goes_by(op, "load") || (copy_is_awaited(op) && !memory_is_ahead(op));
}

/* All accesses of a region take place between its begin and its end, copies until they are waited
 * for. Where a barrier precedes, they end with it in all waves. Copies of service waves have been
 * awaited by each of the others when it is at the end. */
static void add_region(Build *b, const Op *outer) {
  int ends[LOOP_WAVES];
  Section whole = {.joined = {-1, -1, -1}};
  add_each(b, outer, LOOP_STARTS);
  last_events(b, outer, whole.begins);
  add_each(b, outer, LOOP_WAITS);
  last_events(b, outer, ends);
  Sections all = sections_of(b, outer, &whole);
  if (b->once && outer->kind == OP_for) end_awaited(b, outer, all.at[0].barrier, all.at[0].joined);
  for (const Op *op = outer->body->first; op && op_is_inside(op, outer); op = ir_next(op)) {
    if (!touches_memory(b, op)) continue;
    bool ahead = op->kind == OP_copy && memory_is_ahead(op);
    const Section *section = section_of(&all, outer, op);
    LoopFlight f = {.op = outer, .group = -1};
    memcpy(f.done, section->barrier && ends_at_barriers(op) ? section->joined : ends, sizeof ends);
    if (ahead) {
      f = start_flight(b, outer, false, -1);
      vec_push(b->arena, &b->g->copies, f);
    }
    if (op->kind == OP_copy && copy_barriers(op) && !op_is_served(b->k, op)) f.done[1] = -1;
    add_accesses(b, op, section->begins, f.done);
  }
}

/* ---- the body ---- */

/* A barrier object is accessed from the begin of a wait to its end. */
static void add_phase_wait(Build *b, const Op *op) {
  int begins[LOOP_WAVES], ends[LOOP_WAVES];
  add_each(b, op, LOOP_STARTS);
  last_events(b, op, begins);
  add_wait(b, (LoopWait){.op = op, .phases = true});
  last_events(b, op, ends);
  add_accesses(b, op, begins, ends);
}

/* After a wait that lowering adds, no group is left. */
static void add_group_wait(Build *b, const Op *op, bool none_left) {
  int left = none_left ? 0 : (int)op_attr(op, ATTR_pending)->integer;
  add_wait(b, (LoopWait){.op = op, .left = left});
}

/* The wait for copies that the kernel does not wait for itself. */
static void end_loose(Build *b, const Op *op) {
  if (!b->loose.n) return;
  LoopWait wait = {.op = op, .added = true, .silent = true};
  for (int i = 0; i < b->loose.n; i++) wait.silent &= !b->loose.at[i].published;
  add_wait(b, wait);
  for (int i = 0; i < b->loose.n; i++) await_own(b, &b->loose.at[i], b->g->last, 0);
  b->loose.n = 0;
}

/* Waits that are part of lowering the op. */
static void end_flights(Build *b, const Op *op) {
  end_products(b, op);
  if (copy_ends_before(op)) end_loose(b, op);
}

/* What lowering waits for at the end of a region. */
static void end_region(Build *b, const Op *last) {
  if (!last || op_is_served(b->k, last)) return;
  end_first(b, last, b->products.n, b->pending);
  end_loose(b, last);
}

static void add_turn(Build *b, const Op *op) {
  LoopTurn x = {.op = op};
  add_each(b, op, LOOP_STARTS);
  last_events(b, op, x.event);
  vec_push(b->arena, &b->g->turns, x);
}

/* A barrier that the two waves pass at different times. Before the loop only the second one does; beside
 * a loop inside this one it is part of that. */
static void add_lagged(Build *b, const Op *op) {
  LoopTurn x = {.op = op, .event = {-1, -1, -1}, .leaves = {-1, -1, -1}};
  if (!b->once && !b->g->lagged) return;
  for (int w = b->once ? 1 : 0; w < LOOP_COMPUTING; w++) {
    x.event[w] = new_event(b, op, LOOP_STARTS, w);
    x.leaves[w] = new_event(b, op, LOOP_WAITS, w);
    add_next(b, w, x.event[w]);
    add_next(b, w, x.leaves[w]);
  }
  vec_push(b->arena, &b->g->turns, x);
}

/* A wait for accesses to shared memory that leaves them to the next barrier. */
static void add_drain(Build *b, const Op *op) {
  LoopTurn x = {.op = op, .leaves = {-1, -1, -1}};
  add_each(b, op, LOOP_STARTS);
  last_events(b, op, x.event);
  vec_push(b->arena, &b->g->turns, x);
}

static bool is_barrier(const Build *b, const Op *op) { return memory_is_ordered_by(op, b->scope); }

static bool is_lagged(const Build *b, const Op *op) {
  if (b->g->lagged && stagger_joins(op)) return true;
  return turn_is_lagged(op) || stagger_is_partial(b->d, op);
}

static void add_op(Build *b, const Op *op) {
  bool loose = b->loose.n > 0;
  if (!op_is_served(b->k, op)) end_flights(b, op);
  b->g->groups += op->kind == OP_async_commit;
  if (is_lagged(b, op)) add_lagged(b, op);
  else if (op->body) add_region(b, op);
  else if (b->g->lagged && stagger_drains(op)) add_drain(b, op);
  else if (is_barrier(b, op)) add_barrier(b, op);
  else if (op->kind == OP_async_wait) add_group_wait(b, op, loose);
  else if (op->kind == OP_mbar_wait) add_phase_wait(b, op);
  else if (op->kind == OP_turn) add_turn(b, op);
  else if (touches_memory(b, op)) add_touch(b, op);
  else if (b->counts && b->counts(b->user, op)) add_each(b, op, LOOP_STARTS);
}

static Build new_build(Arena *a, const Distribution *d, const MemoryUses *m, const Op *loop,
                       LoopGraph *g) {
  Kernel *k = d->k;
  Build b = {.arena = a, .d = d, .k = k, .m = m, .g = g};
  const Attr *axis = op_attr(loop, ATTR_axis);
  const MachineSpec *machine = kernel_machine(k);
  *g = (LoopGraph){.loop = loop, .first = {-1, -1, -1}, .last = {-1, -1, -1}};
  b.served = machine && machine->service;
  b.scope = machine && machine->waves == 1 ? "wave" : "workgroup";
  if (loop->kind == OP_for) b.runs = runs_of(d, loop);
  b.counter = axis ? ir_loop_counter(k, axis->sym) : sym_int(k->cx->sym, 0);
  b.number = sym_floordiv(k->cx->sym, b.counter, sym_int(k->cx->sym, op_step(loop)));
  return b;
}

LoopGraph loop_graph(Arena *a, const Distribution *d, const MemoryUses *m, const Op *loop,
                     LoopOpFn *counts, const void *user) {
  LoopGraph g;
  Build b = new_build(a, d, m, loop, &g);
  b.most = loop_most(d, loop);
  b.counts = counts, b.user = user;
  g.lagged = loop_is_lagged(d, loop);
  for (const Op *op = loop->body->first; op; op = op->next) add_op(&b, op);
  end_region(&b, loop->body->last);
  for (int w = 0; w < LOOP_WAVES; w++)
    if (g.last[w] >= 0) add_order(&b, g.last[w], g.first[w], 1);
  add_waits(&b);
  if (g.lagged) loop_lag_add(a, &g);
  return g;
}

LoopGraph loop_entry_graph(Arena *a, const Distribution *d, const MemoryUses *m, const Op *loop) {
  LoopGraph g;
  Build b = new_build(a, d, m, loop, &g);
  b.once = true, b.counter = b.number = sym_int(d->k->cx->sym, 0);
  for (const Op *op = loop->parent->first; op != loop; op = op->next) add_op(&b, op);
  end_flights(&b, loop);
  add_waits(&b);
  return g;
}

LoopGraph loop_part_graph(Arena *a, const Distribution *d, const MemoryUses *m, const Op *loop,
                          const Op *first, const Op *end) {
  LoopGraph g;
  Build b = new_build(a, d, m, loop, &g);
  b.once = true;
  for (const Op *op = first; op != end; op = op->next) add_op(&b, op);
  if (end) end_flights(&b, end);
  else end_region(&b, loop->body->last);
  add_waits(&b);
  return g;
}

bool loop_names_iteration(const Kernel *k, const Op *loop, const Attr *at, int *number) {
  return op_iterations_apart(k, loop, sym_int(k->cx->sym, 0), at->pairs[0].value, number);
}

/* In a short loop the wait may always be for its last iteration. */
int loop_waits_in(const Distribution *d, const Op *loop, const Op *wait, int64_t filled) {
  LoopGraph g;
  int by;
  int64_t slot, parity;
  Build b = new_build(NULL, d, NULL, loop, &g);
  if (is_constant(wait, &slot, &parity)) return ends_phase(wait, slot, parity, filled) ? 0 : -1;
  return phase_of(&b, wait, &by) && filled >= by ? (int)filled - by : -1;
}

bool loop_awaits_slot(const Distribution *d, const Op *loop, const Op *wait, int *by) {
  LoopGraph g;
  Build b = new_build(NULL, d, NULL, loop, &g);
  return awaits_slot(&b, wait, by);
}

bool loop_awaits_copy(const Distribution *d, const Op *loop, const Op *wait, const Op *copy,
                      int iteration) {
  LoopGraph g;
  int by;
  int64_t slot, parity;
  if (copy_barriers(copy) != wait->args[0]) return false;
  if (is_constant(wait, &slot, &parity)) return ends_phase(wait, slot, parity, iteration);
  Build b = new_build(NULL, d, NULL, loop, &g);
  b.once = true, b.counter = b.number = sym_int(d->k->cx->sym, 0);
  return phase_of(&b, wait, &by) && by == iteration;
}
