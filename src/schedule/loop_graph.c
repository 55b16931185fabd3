/* loop_graph.c: see loop_graph.h. What lowering adds is modelled as it is lowered: a wait for
 * products before the next op that needs it (lower_threads.c, end_products), and one for copies that
 * the kernel does not wait for itself before the next synchronisation. */
#include "schedule/loop_graph.h"

#include <string.h>

#include "ir/ops/access.h"
#include "ir/region_facts.h"

/* Something that ends later: a copy or a product. */
typedef struct Flight {
  const Op *op;
  int done[LOOP_WAVES]; /* events; -1: not in this wave */
  int group;            /* groups of copies closed before it in the body; -1: in a region */
} Flight;

typedef struct Wait {
  const Op *op;
  int event[LOOP_WAVES];
} Wait;

typedef struct Build {
  Arena *arena;
  Kernel *k;
  const MemoryUses *m;
  LoopGraph *g;
  const Sym *counter;
  int first[LOOP_WAVES], last[LOOP_WAVES];
  Vec(Flight) copies;   /* that end with a group or a barrier that the kernel waits for */
  Vec(Flight) loose;    /* copies that the next synchronisation waits for */
  Vec(Flight) products; /* in flight */
  Vec(Wait) waits;      /* for groups or phases */
  int pending;          /* products that may still be in flight after the next wait */
  int groups;           /* of copies, closed so far */
  const char *scope;    /* of the barriers that join the workgroup's waves */
  LoopOpFn *counts;     /* other ops that are events, too */
  const void *user;
} Build;

/* ---- events ---- */

static int new_event(Build *b, const Op *op, LoopEventKind kind, int wave) {
  vec_push(b->arena, &b->g->events, ((LoopEvent){op, kind, wave}));
  return b->g->events.n - 1;
}

static void add_order(Build *b, int from, int to, int distance) {
  vec_push(b->arena, &b->g->enforced, ((Order){from, to, distance}));
}

static void add_next(Build *b, int wave, int event) {
  if (b->last[wave] >= 0) add_order(b, b->last[wave], event, 0);
  else b->first[wave] = event;
  b->last[wave] = event;
}

/* The same op in each wave. */
static void add_each(Build *b, const Op *op, LoopEventKind kind) {
  for (int w = 0; w < LOOP_WAVES; w++) add_next(b, w, new_event(b, op, kind, w));
}

static void add_barrier(Build *b, const Op *op) {
  int event = new_event(b, op, LOOP_STARTS, LOOP_WAVES);
  for (int w = 0; w < LOOP_WAVES; w++) add_next(b, w, event);
}

/* An event of each wave follows the end of its own flight, `distance` iterations ago. */
static void await_own(Build *b, const Flight *f, const int *event, int distance) {
  for (int w = 0; w < LOOP_WAVES; w++)
    if (f->done[w] >= 0) add_order(b, f->done[w], event[w], distance);
}

static Flight start_flight(Build *b, const Op *op, bool elected, int group) {
  Flight f = {.op = op, .group = group};
  for (int w = 0; w < LOOP_WAVES; w++) {
    f.done[w] = elected && w ? -1 : new_event(b, op, LOOP_ENDS, w);
    if (f.done[w] >= 0) add_order(b, b->last[w], f.done[w], 0);
  }
  return f;
}

/* ---- iterations ---- */

/* The number that an expression is above the loop's counter. Min(counter + n, last) is what a wait
 * for an iteration that may not exist is for. */
static bool above_counter(const Build *b, const Sym *e, int *by) {
  int64_t n;
  SymCtx *cx = b->k->cx->sym;
  for (int i = 0; e && sym_kind(e) == SYM_min && i < sym_nargs(e); i++)
    if (above_counter(b, sym_arg(cx, e, i), by)) return true;
  const Sym *rest = e ? sym_sub(cx, e, b->counter) : NULL;
  if (!rest || !sym_is_int(rest, &n) || n != (int)n) return false;
  *by = (int)n;
  return true;
}

/* A slot is Mod(counter + ahead, slots). */
static bool split_slot(const Build *b, const Sym *slot, int *ahead, int *slots) {
  int64_t n;
  if (!slot || sym_kind(slot) != SYM_mod || op_step(b->g->loop) != 1) return false;
  if (!sym_is_int(sym_arg(b->k->cx->sym, slot, 1), &n) || n < 2 || n != (int)n) return false;
  *slots = (int)n;
  return above_counter(b, sym_arg(b->k->cx->sym, slot, 0), ahead);
}

/* Mod(counter + 3, 3) is Mod(counter, 3): which of the iterations of a slot it is says the op. */
static void find_round(const Build *b, const Op *op, int *ahead, int slots) {
  const Attr *at = op_attr(op, ATTR_iteration);
  int named;
  if (at && above_counter(b, at->pairs[0].value, &named) && (named - *ahead) % slots == 0)
    *ahead = named;
}

/* ---- waits ---- */

static void add_wait(Build *b, const Op *op) {
  add_each(b, op, LOOP_STARTS);
  vec_push(b->arena, &b->waits, ((Wait){op, {b->last[0], b->last[1]}}));
}

/* Groups of one thread end in order; every iteration closes the same number. */
static void await_groups(Build *b, const Wait *wait) {
  int left = (int)op_attr(wait->op, ATTR_pending)->integer, closed = 0;
  for (const Op *op = b->g->loop->body->first; op != wait->op; op = op->next)
    closed += op->kind == OP_async_commit;
  for (int i = 0; i < b->copies.n; i++) {
    const Flight *f = &b->copies.at[i];
    if (copy_barriers(f->op)) continue;
    int behind = f->group + left + 1 - closed;
    if (f->group >= 0 && b->groups) await_own(b, f, wait->event, ceil_div(behind, b->groups));
    if (f->group < 0 && !left)
      await_own(b, f, wait->event, op_comes_before(f->op, wait->op) ? 0 : 1);
  }
}

/* The phase of a barrier of a ring is odd in every second round. */
static bool is_phase(const Build *b, const Op *wait, const Sym *iteration, int slots) {
  SymCtx *cx = b->k->cx->sym;
  const Attr *parity = op_attr(wait, ATTR_parity);
  const Sym *round = sym_floordiv(cx, iteration, sym_int(cx, slots));
  return parity && parity->sym == sym_mod(cx, round, sym_int(cx, 2));
}

/* Both waves wait for the phase that ends with the copies of one iteration. */
static void await_phase(Build *b, const Wait *wait) {
  int waited, slots, ahead;
  const Sym *slot = op_slot(wait->op);
  if (!split_slot(b, slot, &waited, &slots)) return;
  if (!is_phase(b, wait->op, sym_arg(b->k->cx->sym, slot, 0), slots)) return;
  for (int i = 0; i < b->copies.n; i++) {
    const Flight *f = &b->copies.at[i];
    const Attr *at = op_attr(f->op, ATTR_iteration);
    if (copy_barriers(f->op) != wait->op->args[0] || f->done[0] < 0 || !at) continue;
    if (!above_counter(b, at->pairs[0].value, &ahead)) continue;
    for (int w = 0; w < LOOP_WAVES; w++) add_order(b, f->done[0], wait->event[w], ahead - waited);
  }
}

/* Waits refer to copies of earlier iterations, which may come after them in the body. */
static void add_waits(Build *b) {
  for (int i = 0; i < b->waits.n; i++)
    if (b->waits.at[i].op->kind == OP_async_wait) await_groups(b, &b->waits.at[i]);
    else await_phase(b, &b->waits.at[i]);
}

/* ---- products ---- */

/* Waits for the first n products, of `distance` iterations ago. */
static void end_first(Build *b, const Op *op, int n, int distance) {
  if (!n) return;
  add_each(b, op, LOOP_WAITS);
  for (int i = 0; i < n; i++) await_own(b, &b->products.at[i], b->last, distance);
  for (int i = n; i < b->products.n; i++) b->products.at[i - n] = b->products.at[i];
  b->products.n -= n;
}

static void end_products(Build *b, const Op *op) {
  int needed = 0;
  if (op->kind == OP_async_commit || (op->kind == OP_copy && op_has(op, ATTR_iteration))) return;
  if (!op_is_private(op)) {
    end_first(b, op, b->products.n, b->pending);
    return;
  }
  for (int i = 0; i < b->products.n; i++)
    if (op_takes(op, &b->products.at[i].op->results[0])) needed = i + 1;
  end_first(b, op, needed, 0);
}

/* ---- accesses ---- */

/* What a product that stays in flight reads is listed for each earlier iteration, too. */
static bool is_repeated(const Build *b, const Op *op, int memory) {
  for (int i = 0; op_has(op, ATTR_pending) && i < b->g->accesses.n; i++)
    if (b->g->accesses.at[i].op == op && b->g->accesses.at[i].memory == memory) return true;
  return false;
}

static void add_access(Build *b, const MemoryUse *u, const int *begins, const int *ends) {
  LoopAccess x = {.op = u->op, .memory = u->memory, .how = u->how, .by_name = u->by_name};
  if (is_repeated(b, u->op, u->memory)) return;
  for (int w = 0; w < LOOP_WAVES; w++) {
    x.begins[w] = ends[w] < 0 ? -1 : begins[w];
    x.ends[w] = ends[w];
  }
  if (!split_slot(b, u->slot, &x.ahead, &x.slots)) x.ahead = 0, x.slots = 1;
  else find_round(b, u->op, &x.ahead, x.slots);
  vec_push(b->arena, &b->g->accesses, x);
}

static bool touches_memory(const Build *b, const Op *op) {
  for (int i = 0; i < b->m->uses.n; i++)
    if (b->m->uses.at[i].op == op && op->kind != OP_async_wait) return true;
  return false;
}

static void add_accesses(Build *b, const Op *op, const int *begins, const int *ends) {
  for (int i = 0; i < b->m->uses.n; i++)
    if (b->m->uses.at[i].op == op) add_access(b, &b->m->uses.at[i], begins, ends);
}

static void add_copy(Build *b, const Op *op) {
  bool elected = copy_barriers(op) != NULL, own = copy_goes_by(op, "load");
  int begins[LOOP_WAVES] = {b->last[0], b->last[1]};
  if (own) {
    add_accesses(b, op, begins, begins);
    return;
  }
  Flight f = start_flight(b, op, elected, b->groups);
  if (elected || memory_is_ahead(op)) vec_push(b->arena, &b->copies, f);
  else vec_push(b->arena, &b->loose, f);
  add_accesses(b, op, begins, f.done);
}

static void add_touch(Build *b, const Op *op) {
  add_each(b, op, LOOP_STARTS);
  if (op->kind == OP_copy) {
    add_copy(b, op);
  } else if (op_is_product(op)) {
    int begins[LOOP_WAVES] = {b->last[0], b->last[1]};
    Flight f = start_flight(b, op, false, 0);
    const Attr *pending = op_attr(op, ATTR_pending);
    b->pending = pending ? (int)pending->integer : 0;
    vec_push(b->arena, &b->products, f);
    add_accesses(b, op, begins, f.done);
  } else {
    add_accesses(b, op, b->last, b->last);
  }
}

/* All accesses of a region take place between its begin and its end, copies until they are waited
 * for. */
static void add_region(Build *b, const Op *outer) {
  int begins[LOOP_WAVES];
  add_each(b, outer, LOOP_STARTS);
  memcpy(begins, b->last, sizeof begins);
  add_each(b, outer, LOOP_WAITS);
  for (const Op *op = outer->body->first; op && op_is_inside(op, outer); op = ir_next(op)) {
    if (!touches_memory(b, op)) continue;
    bool ahead = op->kind == OP_copy && memory_is_ahead(op);
    Flight f = {.op = outer, .done = {b->last[0], b->last[1]}, .group = -1};
    if (ahead) {
      f = start_flight(b, outer, false, -1);
      vec_push(b->arena, &b->copies, f);
    }
    if (op->kind == OP_copy && copy_barriers(op)) f.done[1] = -1;
    add_accesses(b, op, begins, f.done);
  }
}

/* ---- the body ---- */

static void add_op(Build *b, const Op *op) {
  end_products(b, op);
  if (copy_ends_before(op) && b->loose.n) {
    add_each(b, op, LOOP_WAITS);
    for (int i = 0; i < b->loose.n; i++) await_own(b, &b->loose.at[i], b->last, 0);
    b->loose.n = 0;
  }
  b->groups += op->kind == OP_async_commit;
  if (op->body) add_region(b, op);
  else if (memory_is_ordered_by(op, b->scope)) add_barrier(b, op);
  else if (op->kind == OP_async_wait || op->kind == OP_mbar_wait) add_wait(b, op);
  else if (touches_memory(b, op)) add_touch(b, op);
  else if (b->counts && b->counts(b->user, op)) add_each(b, op, LOOP_STARTS);
}

LoopGraph loop_graph(Arena *a, Kernel *k, const MemoryUses *m, const Op *loop, LoopOpFn *counts,
                     const void *user) {
  LoopGraph g = {.loop = loop};
  Build b = {.arena = a, .k = k, .m = m, .g = &g, .first = {-1, -1}, .last = {-1, -1}};
  b.counts = counts, b.user = user;
  const Attr *axis = op_attr(loop, ATTR_axis);
  const MachineSpec *machine = kernel_machine(k);
  b.scope = machine && machine->waves == 1 ? "wave" : "workgroup";
  b.counter = axis ? ir_loop_counter(k, axis->sym) : sym_int(k->cx->sym, 0);
  for (const Op *op = loop->body->first; op; op = op->next) add_op(&b, op);
  for (int w = 0; w < LOOP_WAVES && b.last[w] >= 0; w++) add_order(&b, b.last[w], b.first[w], 1);
  add_waits(&b);
  return g;
}
