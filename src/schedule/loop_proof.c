/* loop_proof.c: see loop_proof.h.
 *
 *     loop K  at gemm.wave:14
 *       all 12 conflicting pairs of accesses are ordered
 *     loop K  at gemm.wave:14
 *       `copy %a.1` and `read %a.1` of 3 iterations later, by another wave, are not ordered */
#include "schedule/loop_proof.h"

#include <stdlib.h>

#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "ir/schedule/schedule.h"
#include "schedule/loop_entry.h"
#include "schedule/loop_turns.h"

typedef struct Prover {
  LoopProof *proof;
  const OrderTable *table;
  const MemoryUses *m;
  Arena *arena;
} Prover;

/* ---- which iterations of two accesses conflict ---- */

static bool conflict(const Prover *p, const LoopAccess *x, const LoopAccess *y) {
  bool writes = (x->how | y->how) & TOUCH_WRITE, mixed = x->how != y->how;
  if (!writes && !(mixed && (x->how | y->how) & TOUCH_ATOMIC)) return false;
  return memories_overlap(p->m, x->memory, y->memory);
}

/* The iterations between them are `from`, plus or minus multiples of `every`. */
static void conflicts_of(const LoopAccess *x, const LoopAccess *y, int *from, int *every) {
  bool ring = x->memory == y->memory && x->slots == y->slots && x->slots > 1;
  *every = ring ? x->slots : 1;
  *from = ring ? x->ahead - y->ahead : 0;
}

/* Iterations, at most, of which one may have the first access and another the second. */
static int64_t most_of(const Prover *p, const LoopAccess *x, const LoopAccess *y) {
  return x->goes_on || y->goes_on ? p->proof->most_in_all : p->proof->most;
}

/* ---- pairs ---- */

static void report(Prover *p, LoopPair pair) { vec_push(p->arena, &p->proof->findings, pair); }

static bool comes_first(const Prover *p, const LoopAccess *x, const LoopAccess *y) {
  const Region *body = p->proof->graph.loop->body;
  return op_comes_before(op_ancestor_in(x->op, body), op_ancestor_in(y->op, body));
}

/* The number of iterations from x to y, as close to 0 as possible, at which they conflict and
 * neither follows the other. With nothing between them at all, a few iterations stand for all. */
static bool find_gap(const Prover *p, const LoopAccess *x, int v, const LoopAccess *y, int w,
                     int *gap) {
  int after = order_least(p->table, x->ends[v], y->begins[w]);
  int before = order_least(p->table, y->ends[w], x->begins[v]);
  int from, every;
  bool found = false;
  conflicts_of(x, y, &from, &every);
  int last = after == ORDER_NONE ? 4 * every + abs(from) : after - 1;
  int first = before == ORDER_NONE ? -4 * every - abs(from) : 1 - before;
  if (p->proof->graph.lagged) { /* in the order of the program, and in no other one */
    int least = comes_first(p, x, y) ? 0 : 1;
    if (first > least) first = least;
    if (last < least - 1) last = least - 1;
  }
  for (int d = first; d <= last; d++) {
    bool itself = x == y && d == 0; /* its threads divide the elements among themselves */
    if ((d > 0 && y->only_first) || (d < 0 && x->only_first)) continue;
    if (itself || abs(d) >= most_of(p, x, y) || (d - from) % every != 0 ||
        (found && abs(d) >= abs(*gap)))
      continue;
    *gap = d, found = true;
  }
  return found;
}

static bool is_own(const LoopAccess *x, int wave) {
  return x->late || x->begins[wave] == x->ends[wave];
}

/* In one wave only what is in flight can be out of order. An access by name touches the same
 * elements in the same threads in every iteration. */
static bool needs_no_order(const LoopAccess *x, int v, const LoopAccess *y, int w) {
  if (x->begins[v] < 0 || y->begins[w] < 0) return true;
  if (v != w) return x == y && x->by_name;
  return is_own(x, v) && is_own(y, w);
}

static void check_order(Prover *p, const LoopAccess *x, const LoopAccess *y) {
  int gap = 0;
  for (int v = 0; v < LOOP_WAVES; v++)
    for (int w = 0; w < LOOP_WAVES; w++) {
      if (needs_no_order(x, v, y, w) || !find_gap(p, x, v, y, w, &gap)) continue;
      report(p, (LoopPair){.first = x, .second = y, .distance = gap, .other_wave = v != w});
      return;
    }
}

/* What is read was filled before, not only at some other time. */
static void check_filled(Prover *p, const LoopAccess *fill, const LoopAccess *read) {
  int from, every;
  if (fill->op->kind != OP_copy || !(fill->how & TOUCH_WRITE) || read->how != TOUCH_READ) return;
  conflicts_of(fill, read, &from, &every);
  for (int v = 0; every > 1 && from < most_of(p, fill, read) && v < LOOP_WAVES; v++)
    for (int w = 0; w < LOOP_WAVES; w++) {
      if (fill->ends[v] < 0 || read->begins[w] < 0) continue;
      if (order_holds(p->table, (Order){fill->ends[v], read->begins[w], from})) continue;
      report(p, (LoopPair){fill, read, from, v != w, .stale = true});
      return;
    }
}

static void check_pair(Prover *p, const LoopAccess *x, const LoopAccess *y) {
  int findings = p->proof->findings.n;
  if (!conflict(p, x, y)) return;
  p->proof->pairs++;
  check_order(p, x, y);
  if (x == y || p->proof->findings.n > findings) return;
  check_filled(p, x, y);
  check_filled(p, y, x);
}

/* ---- before the loop ---- */

/* The first iteration in which y, of the body, conflicts with x, which comes before the loop. */
static int first_conflict(const LoopAccess *x, const LoopAccess *y) {
  bool ring = x->memory == y->memory && x->slots == y->slots && x->slots > 1;
  int at = ring ? (x->ahead - y->ahead) % x->slots : 0;
  return at < 0 ? at + x->slots : at;
}

/* Two accesses before the loop, other than inside one region, whose slots may be the same. What comes
 * before another loop and is ordered by the barriers in it is proved with that one. */
static bool may_meet(const Op *loop, const LoopAccess *x, const LoopAccess *y) {
  const Region *r = loop->parent;
  const Op *second = op_ancestor_in(y->op, r);
  if (op_ancestor_in(x->op, r) == second || op_is_loop(second)) return false;
  return x->memory != y->memory || x->slots != y->slots || x->ahead == y->ahead;
}

static void check_follows(Prover *p, LoopEntry *e, const LoopAccess *x, const LoopAccess *y,
                          int iteration) {
  if (!conflict(p, x, y) || iteration >= most_of(p, x, y)) return;
  p->proof->pairs++;
  for (int v = 0; v < LOOP_WAVES; v++)
    for (int w = 0; w < LOOP_WAVES; w++) {
      if (needs_no_order(x, v, y, w)) continue;
      if (loop_entry_follows(e, x->ends[v], y->begins[w], iteration)) continue;
      report(p, (LoopPair){x, y, iteration, v != w, .entry = true});
      return;
    }
}

/* A tile that the service waves copy in this iteration may be read before the loop: then the read comes
 * before the next copy to the same slot. */
static int next_conflict(LoopEntry *e, const LoopAccess *x, const LoopAccess *y, int at) {
  if (y->ends[LOOP_SERVICE] < 0 || x->how != TOUCH_READ || x->slots != y->slots) return at;
  for (int w = 0; w < LOOP_COMPUTING; w++)
    if (x->begins[w] >= 0 && !loop_entry_precedes(e, y->ends[LOOP_SERVICE], at, x->begins[w]))
      return at;
  return at + y->slots;
}

static int iterations_to_check(const LoopGraph *entry, const LoopGraph *body) {
  int most = 0;
  for (int i = 0; i < entry->accesses.n; i++)
    for (int j = 0; j < body->accesses.n; j++) {
      const LoopAccess *y = &body->accesses.at[j];
      int at = first_conflict(&entry->accesses.at[i], y);
      if (y->ends[LOOP_SERVICE] >= 0) at += y->slots;
      if (at > most) most = at;
    }
  return most + 1;
}

static void check_entry(Prover *p, const Distribution *d) {
  const LoopGraph *entry = &p->proof->entry, *body = &p->proof->graph;
  if (!entry->accesses.n || !body->accesses.n) return;
  LoopEntry *e = loop_entry(p->arena, d, entry, body, iterations_to_check(entry, body));
  for (int i = 0; i < entry->accesses.n; i++) {
    const LoopAccess *x = &entry->accesses.at[i];
    for (int j = i + 1; j < entry->accesses.n; j++)
      if (may_meet(body->loop, x, &entry->accesses.at[j]))
        check_follows(p, e, x, &entry->accesses.at[j], -1);
    for (int j = 0; j < body->accesses.n; j++) {
      const LoopAccess *y = &body->accesses.at[j];
      if (conflict(p, x, y))
        check_follows(p, e, x, y, next_conflict(e, x, y, first_conflict(x, y)));
    }
  }
}

/* ---- a loop ---- */

/* ---- arrivals of waves that compute ---- */

/* Every iteration that exists has one arrival of each wave: the mask of an op that arrives tests that
 * and nothing else. Those of the run before may be released in the next one. */
static bool is_complete(const Distribution *d, const Op *loop, const Op *op) {
  SymCtx *cx = d->k->cx->sym;
  const Attr *at = op_attr(op, ATTR_iteration), *mask = op_attr(op, ATTR_mask);
  const Sym *before = runs_of(d, loop).before;
  if (!at || !before) return false;
  const Sym *iteration = at->pairs[0].value;
  const Sym *number = sym_floordiv(cx, iteration, sym_int(cx, op_step(loop))),
            *none = sym_int(cx, 0);
  const Sym *begun = sym_le(cx, none, before == none ? iteration : sym_add(cx, before, number));
  const Sym *exists = sym_lt(cx, iteration, distribute_trips(d, loop));
  for (int i = 0; mask && i < mask->n; i++)
    if (mask->exprs[i] != begun && mask->exprs[i] != exists) return false;
  return true;
}

/* The arrivals that end a phase of a barrier; -1: unknown, or phases begin again in another loop. */
static int64_t arrivals_of(const Kernel *k, const Value *ring) {
  int64_t n;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_mbar_init && op->args[0] == ring)
      return !op_outermost_loop(op) && sym_is_int(op_attr(op, ATTR_count)->sym, &n) ? n : -1;
  return -1;
}

/* The arrivals before the loop that release the slot of an iteration. */
static int count_releases(const Kernel *k, const LoopGraph *entry, const Op *op, int iteration) {
  int n = 0, at;
  for (int i = 0; i < entry->arrivals.n; i++) {
    const Op *first = entry->arrivals.at[i].op;
    const Attr *of = op_attr(first, ATTR_iteration);
    if (first->args[0] != op->args[0] || !of) continue;
    n += loop_names_iteration(k, entry->loop, of, &at) && at == iteration;
  }
  return n;
}

/* Tiles that are last read early are released early: those of the first iterations before the loop,
 * each once. */
static bool releases_first(const Distribution *d, const LoopGraph *entry, const Op *op, int early) {
  int n = 0;
  for (int i = 0; i < entry->arrivals.n; i++) {
    const Op *first = entry->arrivals.at[i].op;
    if (first->args[0] != op->args[0]) continue;
    if (!is_complete(d, entry->loop, first)) return false;
    n++;
  }
  for (int i = 0; i < early && n == early; i++)
    if (count_releases(d->k, entry, op, i) != 1) return false;
  return n == early;
}

/* What service waves wait for: each wave that computes arrives once for each iteration. */
static bool is_released(const Distribution *d, const LoopGraph *g, const LoopGraph *entry,
                        const Op *wait) {
  const Op *found = NULL;
  int by;
  for (int i = 0; i < g->arrivals.n; i++) {
    const Op *op = g->arrivals.at[i].op;
    if (op->args[0] != wait->args[0]) continue;
    if (found || !is_complete(d, g->loop, op)) return false;
    found = op;
  }
  if (!found || arrivals_of(d->k, wait->args[0]) != kernel_machine(d->k)->waves) return false;
  const Sym *counter = ir_loop_counter(d->k, op_attr(g->loop, ATTR_axis)->sym);
  const Sym *at = op_attr(found, ATTR_iteration)->pairs[0].value;
  bool again = op_outermost_loop(g->loop) != g->loop;
  return op_iterations_apart(d->k, g->loop, counter, at, &by) && !(again && by > 0) &&
         releases_first(d, entry, found, by < 0 ? 0 : by);
}

/* Service waves that have not yet waited for a slot would miss its phase if it was released again: the
 * release of an iteration follows their wait for the slot of that iteration. */
static bool is_in_time(const Prover *p, const Distribution *d, const LoopGraph *g,
                       const LoopWait *wait) {
  int by, released;
  const Sym *counter = ir_loop_counter(d->k, op_attr(g->loop, ATTR_axis)->sym);
  if (!loop_awaits_slot(d, g->loop, wait->op, &by)) return true;
  for (int i = 0; i < g->arrivals.n; i++) {
    const LoopArrival *x = &g->arrivals.at[i];
    const Attr *at = op_attr(x->op, ATTR_iteration);
    if (x->op->args[0] != wait->op->args[0] || !at) continue;
    if (!op_iterations_apart(d->k, g->loop, counter, at->pairs[0].value, &released)) continue;
    for (int w = 0; w < LOOP_COMPUTING; w++)
      if (!order_holds(p->table, (Order){wait->event[LOOP_SERVICE], x->event[w], by - released}))
        return false;
  }
  return true;
}

static const Op *find_late(const Prover *p, const Distribution *d, const LoopGraph *g) {
  for (int i = 0; i < g->waits.n; i++)
    if (op_is_served(d->k, g->waits.at[i].op) && !is_in_time(p, d, g, &g->waits.at[i]))
      return g->waits.at[i].op;
  return NULL;
}

/* Each copy of an iteration arrives once. */
static bool is_filled(const Kernel *k, const LoopGraph *g, const Value *full) {
  int64_t n = 0;
  for (int i = 0; i < g->copies.n; i++) n += copy_barriers(g->copies.at[i].op) == full;
  return n == arrivals_of(k, full);
}

/* The first op of service waves whose barrier has too many arrivals or not enough; NULL: none has. */
static const Op *find_unbalanced(const Distribution *d, const LoopGraph *g,
                                 const LoopGraph *entry) {
  for (int i = 0; i < g->waits.n; i++) {
    const Op *op = g->waits.at[i].op;
    if (op_is_served(d->k, op) && !is_released(d, g, entry, op)) return op;
  }
  for (int i = 0; i < g->copies.n; i++) {
    const Op *op = g->copies.at[i].op;
    if (op_is_served(d->k, op) && !is_filled(d->k, g, copy_barriers(op))) return op;
  }
  return NULL;
}

/* Ops of the loop each of which waits for the one before, and the first for the last. */
static void find_deadlock(Prover *p, const Kernel *k) {
  const LoopGraph *g = &p->proof->graph;
  int *cycle = ARENA_ARRAY(p->arena, int, g->events.n + 1);
  int n = order_deadlock(p->table, cycle);
  if (!n && g->turns.n) {
    OrderList orders = loop_turn_orders(p->arena, k, g);
    n = order_deadlock(order_table(p->arena, g->events.n, orders.at, orders.n), cycle);
  }
  for (int i = 0; i < n; i++) vec_push(p->arena, &p->proof->waiting, g->events.at[cycle[i]].op);
}

LoopProof loop_prove(Arena *a, const Distribution *d, const MemoryUses *m, const Op *loop) {
  LoopProof proof = {.graph = loop_graph(a, d, m, loop, NULL, NULL),
                     .most = loop_most(d, loop),
                     .most_in_all = loop_most_in_all(d, loop)};
  const LoopGraph *g = &proof.graph;
  Prover p = {&proof, order_table(a, g->events.n, g->enforced.at, g->enforced.n), m, a};
  find_deadlock(&p, d->k);
  int n = proof.waiting.n;
  for (int i = 0; !n && i < g->accesses.n; i++)
    for (int j = 0; j <= i; j++) check_pair(&p, &g->accesses.at[j], &g->accesses.at[i]);
  proof.entry = loop_entry_graph(a, d, m, loop);
  proof.unbalanced = find_unbalanced(d, g, &proof.entry);
  if (!proof.unbalanced) proof.unbalanced = loop_turn_unbalanced(d->k, g);
  if (!proof.unbalanced && !n) proof.unbalanced = find_late(&p, d, g);
  if (!n) check_entry(&p, d);
  return proof;
}

/* ---- text ---- */

static void print_access(StrBuf *out, const Kernel *k, const MemoryUses *m, const LoopAccess *x) {
  sb_printf(out, "`%s %%%s`", op_info[x->op->kind].name, memory_name(k, m->memories.at[x->memory]));
}

static const LoopAccess *earlier(const LoopPair *f) {
  return f->distance < 0 && !f->entry ? f->second : f->first;
}

static void describe(StrBuf *out, const Kernel *k, const MemoryUses *m, const LoopPair *f) {
  const LoopAccess *x = earlier(f), *y = x == f->first ? f->second : f->first;
  int later = abs(f->distance);
  print_access(out, k, m, x);
  sb_puts(out, f->entry ? " before the loop and " : " and ");
  print_access(out, k, m, y);
  if (f->entry && f->distance >= 0) sb_printf(out, " of iteration %d", later);
  else if (later && !f->entry)
    sb_printf(out, " of %d iteration%s later", later, later > 1 ? "s" : "");
  if (f->other_wave) sb_puts(out, ", by another wave,");
  sb_puts(out, f->stale ? " are in the wrong order" : " are not ordered");
}

static void print_loop(StrBuf *out, const Kernel *k, const MemoryUses *m, const LoopProof *proof) {
  Arena *a = arena_new();
  const Op *loop = proof->graph.loop;
  sb_printf(out, "loop %s", sym_text(a, op_attr(loop, ATTR_axis)->sym));
  if (loop->at.file && loop->at.line)
    sb_printf(out, "  at %s:%u", sources_name(&k->cx->sources, loop->at.file), loop->at.line);
  sb_putc(out, '\n');
  if (proof->waiting.n) sb_puts(out, "  waits for itself\n");
  else if (proof->unbalanced)
    sb_puts(out, "  waits for a barrier that has too many arrivals, or not enough\n");
  else if (!proof->findings.n)
    sb_printf(out, "  all %d conflicting pairs of accesses are ordered\n", proof->pairs);
  for (int i = 0; i < proof->findings.n; i++) {
    sb_puts(out, "  ");
    describe(out, k, m, &proof->findings.at[i]);
    sb_putc(out, '\n');
  }
  arena_free(a);
}

void loop_proof_print(StrBuf *out, const Distribution *d, const MemoryUses *m) {
  for (const Op *op = ir_first(d->k); op; op = ir_next(op)) {
    if (!op->body || op->kind == OP_if) continue;
    Arena *a = arena_new();
    LoopProof proof = loop_prove(a, d, m, op);
    if (proof.pairs || proof.waiting.n || proof.unbalanced) print_loop(out, d->k, m, &proof);
    arena_free(a);
  }
}

/* ---- loops with a schedule ---- */

/* The row that schedules a loop on this machine; NULL: none does. */
static const Constraint *row_of(const Kernel *k, const TargetInfo *t, const Op *loop) {
  for (int i = 0; loop->kind == OP_for && i < k->constraints.n; i++) {
    const Constraint *row = &k->constraints.at[i];
    if (!schedule_is_row(row) || !schedule_is_for(row, t)) continue;
    if (schedule_is_called(loop, row->scheduled.loop)) return row;
  }
  return NULL;
}

static void note_accesses(Diags *diags, Diag *d, const LoopPair *f) {
  const LoopAccess *x = earlier(f), *y = x == f->first ? f->second : f->first;
  int later = abs(f->distance);
  diag_note(diags, d, x->op->at, "%s", f->entry ? "this, before the loop" : "this, in iteration i");
  if (f->entry && f->distance < 0) diag_note(diags, d, y->op->at, "and this");
  else if (f->entry) diag_note(diags, d, y->op->at, "and this, in iteration %d", later);
  else if (later) diag_note(diags, d, y->op->at, "and this, in iteration i + %d", later);
  else diag_note(diags, d, y->op->at, "and this, in the same iteration");
}

static bool fail_loop(Kernel *k, const MemoryUses *m, const Constraint *row,
                      const LoopProof *proof) {
  Diags *diags = &k->cx->diags;
  const LoopPair *f = proof->findings.n ? &proof->findings.at[0] : NULL;
  StrBuf text = {.arena = diags->arena};
  if (f) describe(&text, k, m, f);
  else if (proof->unbalanced)
    sb_puts(&text, "waves wait for a barrier that has too many arrivals, or not enough");
  else sb_puts(&text, "an op of the loop waits for itself");
  Diag *d = diag_add(diags, DIAG_E0621, row->at, "%s", sb_text(&text));
  if (f) note_accesses(diags, d, f);
  if (!f && proof->unbalanced) diag_note(diags, d, proof->unbalanced->at, "the barrier of this op");
  for (int i = 0; i < proof->waiting.n; i++)
    diag_note(diags, d, proof->waiting.at[i]->at, "it waits for this");
  return false;
}

/* The barriers of a loop inside order accesses, too, but a region is one event here. */
static bool has_loop(const Op *loop) {
  for (const Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op))
    if (op_is_loop(op)) return true;
  return false;
}

bool loop_proof_check(const Distribution *d, const MemoryUses *m, const TargetInfo *t) {
  bool ok = true;
  for (const Op *op = t ? ir_first(d->k) : NULL; op && ok; op = ir_next(op)) {
    const Constraint *row = op->body ? row_of(d->k, t, op) : NULL;
    if (!row || has_loop(op)) continue;
    Arena *a = arena_new();
    LoopProof proof = loop_prove(a, d, m, op);
    ok = (!proof.findings.n && !proof.waiting.n && !proof.unbalanced) ||
         fail_loop(d->k, m, row, &proof);
    arena_free(a);
  }
  return ok;
}
