/* loop_proof.c: see loop_proof.h.
 *
 *     loop K  at gemm.wave:14
 *       all 12 conflicting pairs of accesses are ordered
 *     loop K  at gemm.wave:14
 *       `copy %a.1` and `read %a.1` of 3 iterations later, by another wave, are not ordered */
#include "schedule/loop_proof.h"

#include <stdlib.h>

#include "ir/ops/access.h"

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

/* ---- pairs ---- */

static void report(Prover *p, LoopPair pair) { vec_push(p->arena, &p->proof->findings, pair); }

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
  for (int d = first; d <= last; d++) {
    bool itself = x == y && d == 0; /* its threads divide the elements among themselves */
    if (itself || abs(d) >= p->proof->most || (d - from) % every != 0 ||
        (found && abs(d) >= abs(*gap)))
      continue;
    *gap = d, found = true;
  }
  return found;
}

/* In one wave only what is in flight can be out of order. An access by name touches the same
 * elements in the same threads in every iteration. */
static bool needs_no_order(const LoopAccess *x, int v, const LoopAccess *y, int w) {
  if (x->begins[v] < 0 || y->begins[w] < 0) return true;
  if (v != w) return x == y && x->by_name;
  return x->begins[v] == x->ends[v] && y->begins[w] == y->ends[w];
}

static void check_order(Prover *p, const LoopAccess *x, const LoopAccess *y) {
  int gap;
  for (int v = 0; v < LOOP_WAVES; v++)
    for (int w = 0; w < LOOP_WAVES; w++) {
      if (needs_no_order(x, v, y, w) || !find_gap(p, x, v, y, w, &gap)) continue;
      report(p, (LoopPair){x, y, gap, v != w, false});
      return;
    }
}

/* What is read was filled before, not only at some other time. */
static void check_filled(Prover *p, const LoopAccess *fill, const LoopAccess *read) {
  int from, every;
  if (fill->op->kind != OP_copy || !(fill->how & TOUCH_WRITE) || read->how != TOUCH_READ) return;
  conflicts_of(fill, read, &from, &every);
  for (int v = 0; every > 1 && from < p->proof->most && v < LOOP_WAVES; v++)
    for (int w = 0; w < LOOP_WAVES; w++) {
      if (fill->ends[v] < 0 || read->begins[w] < 0) continue;
      if (order_holds(p->table, (Order){fill->ends[v], read->begins[w], from})) continue;
      report(p, (LoopPair){fill, read, from, v != w, true});
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

static int64_t most_iterations(const Distribution *d, const Op *loop) {
  const Sym *trips = loop->kind == OP_for ? distribute_trips(d, loop) : NULL;
  int64_t most = trips ? sym_range(d->k->cx->sym, d->facts, trips).hi : INT64_MAX;
  return most == INT64_MAX ? most : ceil_div64(most, op_step(loop));
}

LoopProof loop_prove(Arena *a, const Distribution *d, const MemoryUses *m, const Op *loop) {
  LoopProof proof = {.graph = loop_graph(a, d->k, m, loop, NULL, NULL),
                     .most = most_iterations(d, loop)};
  const LoopGraph *g = &proof.graph;
  Prover p = {&proof, order_table(a, g->events.n, g->enforced.at, g->enforced.n), m, a};
  int *cycle = ARENA_ARRAY(a, int, g->events.n + 1), n = order_deadlock(p.table, cycle);
  for (int i = 0; i < n; i++) vec_push(a, &proof.waiting, g->events.at[cycle[i]].op);
  for (int i = 0; !n && i < g->accesses.n; i++)
    for (int j = 0; j <= i; j++) check_pair(&p, &g->accesses.at[j], &g->accesses.at[i]);
  return proof;
}

/* ---- text ---- */

static void print_access(StrBuf *out, const Kernel *k, const MemoryUses *m, const LoopAccess *x) {
  sb_printf(out, "`%s %%%s`", op_info[x->op->kind].name, memory_name(k, m->memories.at[x->memory]));
}

static void print_finding(StrBuf *out, const Kernel *k, const MemoryUses *m, const LoopPair *f) {
  const LoopAccess *x = f->distance < 0 ? f->second : f->first;
  const LoopAccess *y = f->distance < 0 ? f->first : f->second;
  int later = abs(f->distance);
  sb_puts(out, "  ");
  print_access(out, k, m, x);
  sb_puts(out, " and ");
  print_access(out, k, m, y);
  if (later) sb_printf(out, " of %d iteration%s later", later, later > 1 ? "s" : "");
  if (f->other_wave) sb_puts(out, ", by another wave,");
  sb_puts(out, f->stale ? " are in the wrong order\n" : " are not ordered\n");
}

static void print_loop(StrBuf *out, const Kernel *k, const MemoryUses *m, const LoopProof *proof) {
  Arena *a = arena_new();
  const Op *loop = proof->graph.loop;
  sb_printf(out, "loop %s", sym_text(a, op_attr(loop, ATTR_axis)->sym));
  if (loop->at.file && loop->at.line)
    sb_printf(out, "  at %s:%u", sources_name(&k->cx->sources, loop->at.file), loop->at.line);
  sb_putc(out, '\n');
  if (proof->waiting.n) sb_puts(out, "  waits for itself\n");
  else if (!proof->findings.n)
    sb_printf(out, "  all %d conflicting pairs of accesses are ordered\n", proof->pairs);
  for (int i = 0; i < proof->findings.n; i++) print_finding(out, k, m, &proof->findings.at[i]);
  arena_free(a);
}

void loop_proof_print(StrBuf *out, const Distribution *d, const MemoryUses *m) {
  for (const Op *op = ir_first(d->k); op; op = ir_next(op)) {
    if (!op->body || op->kind == OP_if) continue;
    Arena *a = arena_new();
    LoopProof proof = loop_prove(a, d, m, op);
    if (proof.pairs || proof.waiting.n) print_loop(out, d->k, m, &proof);
    arena_free(a);
  }
}
