/* loop_releases.c: see loop_releases.h. */
#include "schedule/proof/loop_releases.h"

#include "analysis/runs.h"
#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "schedule/proof/loop_counted.h"

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
  return op_iterations_apart(d->k, g->loop, counter, at, &by) &&
         releases_first(d, entry, found, by < 0 ? 0 : by);
}

/* Each copy of an iteration arrives once. */
static bool is_filled(const Kernel *k, const LoopGraph *g, const Value *full) {
  int64_t n = 0;
  for (int i = 0; i < g->copies.n; i++) n += copy_barriers(g->copies.at[i].op) == full;
  return n == arrivals_of(k, full);
}

/* ---- before roles part ---- */

/* Barriers are initialised there by all waves, service waves included: nobody may use one yet. */
static const Op *used_by_all(const Kernel *k) {
  const Op *parting = op_parting(k->body);
  for (const Op *op = parting ? k->body->first : NULL; op != parting; op = op->next)
    if (op->kind == OP_turn || op->kind == OP_mbar_wait || op->kind == OP_mbar_arrive) return op;
  return NULL;
}

/* ---- all ---- */

const Op *loop_unreleased(const Distribution *d, const LoopGraph *g, const LoopGraph *entry) {
  for (int i = 0; i < g->waits.n; i++) {
    const Op *op = g->waits.at[i].op;
    if (op_is_served(d->k, op) && !is_released(d, g, entry, op)) return op;
  }
  for (int i = 0; i < g->copies.n; i++) {
    const Op *op = g->copies.at[i].op;
    if (op_is_served(d->k, op) && !is_filled(d->k, g, copy_barriers(op))) return op;
    if (op_is_served(d->k, op) && !loop_is_counted(d->k, g->loop)) return g->loop;
  }
  return used_by_all(d->k);
}

/* ---- releases that come too early ---- */

bool loop_release_after(const Distribution *d, const Op *loop, const Op *wait, const Op *arrive,
                        int *n) {
  int by, released;
  const Sym *counter = ir_loop_counter(d->k, op_attr(loop, ATTR_axis)->sym);
  const Attr *at = op_attr(arrive, ATTR_iteration);
  if (wait->kind != OP_mbar_wait || arrive->args[0] != wait->args[0] || !at) return false;
  if (!loop_awaits_slot(d, loop, wait, &by)) return false;
  if (!op_iterations_apart(d->k, loop, counter, at->pairs[0].value, &released)) return false;
  *n = by - released;
  return true;
}

/* The wait of service waves for the slot of an iteration comes before its release. */
static bool is_in_time(const Prover *p, const LoopWait *wait, const LoopArrival *x) {
  int n;
  if (!loop_release_after(p->d, p->proof->graph.loop, wait->op, x->op, &n)) return true;
  for (int w = 0; w < LOOP_COMPUTING; w++)
    if (!order_holds(p->table, (Order){wait->event[LOOP_SERVICE], x->event[w], n})) return false;
  return true;
}

const Op *loop_released_early(const Prover *p) {
  const LoopGraph *g = &p->proof->graph;
  for (int i = 0; i < g->waits.n; i++)
    for (int j = 0; j < g->arrivals.n; j++)
      if (!is_in_time(p, &g->waits.at[i], &g->arrivals.at[j])) return g->waits.at[i].op;
  return NULL;
}
