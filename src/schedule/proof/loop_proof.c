/* loop_proof.c: see loop_proof.h.
 *
 *     loop K  at gemm.wave:14
 *       all 12 conflicting pairs of accesses are ordered
 *     loop K  at gemm.wave:14
 *       `copy %a.1` and `read %a.1` of 3 iterations later, by another wave, are not ordered */
#include "schedule/proof/loop_proof.h"

#include <stdlib.h>

#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "ir/schedule/schedule.h"
#include "schedule/groups/loop_turns.h"
#include "schedule/proof/loop_nest.h"
#include "schedule/proof/loop_pairs.h"
#include "schedule/proof/loop_releases.h"
#include "schedule/proof/loop_unrolled.h"

static void check_pair(Prover *p, const LoopAccess *x, const LoopAccess *y) {
  if (!loop_conflict(p, x, y)) return;
  p->proof->pairs++;
  loop_check_pair(p, x, y);
}

/* Service waves fill both, once in each iteration of the loop itself. Only barriers of tiles order these, whatever loops
 * inside do. */
static bool is_served_pair(const LoopAccess *x, const LoopAccess *y) {
  return x->goes_on && y->goes_on;
}

static void check_pairs(Prover *p, bool nest) {
  const LoopGraph *g = &p->proof->graph;
  for (int i = 0; i < g->accesses.n; i++)
    for (int j = 0; j <= i; j++)
      if (!nest || is_served_pair(&g->accesses.at[j], &g->accesses.at[i]))
        check_pair(p, &g->accesses.at[j], &g->accesses.at[i]);
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

static bool serves(const Kernel *k, const LoopGraph *g) {
  for (int i = 0; i < g->copies.n; i++)
    if (op_is_served(k, g->copies.at[i].op)) return true;
  return false;
}

LoopProof loop_prove(Arena *a, const Distribution *d, const MemoryUses *m, const Op *loop) {
  LoopProof proof = {.graph = loop_graph(a, d, m, loop, NULL, NULL),
                     .most = loop_most(d, loop),
                     .most_in_all = loop_most_in_all(d, loop)};
  const LoopGraph *g = &proof.graph;
  bool nest = loop_is_nest(loop); /* what loops inside wait for is proved with them */
  const OrderTable *table = NULL; /* of a nest, only what service waves do is looked up in it */
  if (!nest || g->arrivals.n || serves(d->k, g))
    table = order_table(a, g->events.n, g->enforced.at, g->enforced.n);
  Prover p = {&proof, table, d, loop_overlaps(a, m), m->memories.n, m->memories.at, a};
  if (table) find_deadlock(&p, d->k);
  int n = proof.waiting.n;
  if (!n && table) check_pairs(&p, nest);
  proof.entry = loop_entry_graph(a, d, m, loop);
  proof.unbalanced = loop_unreleased(d, g, &proof.entry);
  if (!proof.unbalanced) proof.unbalanced = loop_turn_unbalanced(d, g);
  if (!proof.unbalanced && !n) proof.unbalanced = loop_released_early(&p);
  if (!n && nest) loop_check_nest(&p, m);
  else if (!n) loop_check_unrolled(&p);
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

/* The barriers of a loop in a conditional order accesses, too, but that is one event here. */
static bool has_hidden_loop(const Op *loop) {
  for (const Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op))
    if (op_is_loop(op) && op->parent->owner->kind == OP_if) return true;
  return false;
}

static bool is_same_pair(const LoopPair *a, const LoopPair *b) {
  return (a->first == b->first && a->second == b->second) ||
         (a->first == b->second && a->second == b->first);
}

/* A pair may be out of order at several distances. */
static int count_unordered(const LoopProof *proof) {
  int n = 0;
  for (int i = 0; i < proof->findings.n; i++) {
    int j = 0;
    while (!is_same_pair(&proof->findings.at[j], &proof->findings.at[i])) j++;
    n += j == i;
  }
  return n;
}

/* What no barrier in a hidden loop can order; NULL: nothing. */
static const LoopPair *find_certain(const LoopProof *proof) {
  for (int i = 0; i < proof->findings.n; i++) {
    const LoopPair *f = &proof->findings.at[i];
    if (is_served_pair(f->first, f->second)) return f;
  }
  return NULL;
}

static void print_findings(StrBuf *out, const Kernel *k, const MemoryUses *m,
                           const LoopProof *proof) {
  int n = proof->findings.n;
  if (n && has_hidden_loop(proof->graph.loop) && !find_certain(proof)) {
    sb_printf(out, "  %d of %d conflicting pairs of accesses are ordered; ",
              proof->pairs - count_unordered(proof), proof->pairs);
    sb_puts(out, "the loops inside may order the others\n");
    return;
  }
  for (int i = 0; i < n; i++) {
    sb_puts(out, "  ");
    describe(out, k, m, &proof->findings.at[i]);
    sb_putc(out, '\n');
  }
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
  print_findings(out, k, m, proof);
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
  const LoopPair *f = find_certain(proof);
  if (!f && proof->findings.n) f = &proof->findings.at[0];
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

/* The row of a loop, or of one inside it: what it leaves in flight, the next iteration may meet. */
static const Constraint *row_inside(const Kernel *k, const TargetInfo *t, const Op *loop) {
  const Constraint *row = row_of(k, t, loop);
  for (const Op *op = loop->body->first; op && !row && op_is_inside(op, loop); op = ir_next(op))
    if (op_is_loop(op)) row = row_of(k, t, op);
  return row;
}

/* Of a loop with hidden loops inside, only what service waves do is known. */
static bool is_in_order(const Kernel *k, const LoopProof *proof) {
  bool hidden = has_hidden_loop(proof->graph.loop);
  if (hidden && !serves(k, &proof->graph)) return true;
  if (hidden) return !find_certain(proof) && !proof->waiting.n && !proof->unbalanced;
  return !proof->findings.n && !proof->waiting.n && !proof->unbalanced;
}

bool loop_proof_check(const Distribution *d, const MemoryUses *m, const TargetInfo *t) {
  bool ok = true;
  for (const Op *op = t ? ir_first(d->k) : NULL; op && ok; op = ir_next(op)) {
    const Constraint *row = op_is_loop(op) ? row_inside(d->k, t, op) : NULL;
    if (!row) continue;
    Arena *a = arena_new();
    LoopProof proof = loop_prove(a, d, m, op);
    ok = is_in_order(d->k, &proof) || fail_loop(d->k, m, row, &proof);
    arena_free(a);
  }
  return ok;
}
