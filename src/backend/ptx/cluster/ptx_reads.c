/* ptx_reads.c: whether lanes may still be loading from shared memory when their wave arrives at a barrier of another
 * workgroup (ptx_mbar_arrive).
 *
 *     %x = load %ring, %i
 *     %y = cast %x
 *     %n = wgmma %acc, %y, %ring.1, %j
 *     wgmma_wait 0
 *     mbar_arrive %empty {peer = 1}
 *
 * Products that have been waited for have read their registers. So nothing has to wait for a load all of whose
 * elements they are computed from; nor for one from memory that no copy fills which waits for such an arrival. */
#include "backend/ptx/ptx_state.h"
#include "ir/ops/access.h"
#include "ir/region_facts.h"

typedef struct Reads {
  const Ptx *p;
  bool **
      needed; /* by value id: which elements products need, that have been waited for; NULL: none */
  bool *settled; /* by op id: a load for which nothing has to wait */
} Reads;

static bool arrives_elsewhere(const Op *op) {
  return op->kind == OP_mbar_arrive && op_has(op, ATTR_peer);
}

static bool is_load(const Op *op) {
  return (op->kind == OP_ldmatrix || op->kind == OP_load) && memory_is_scratch(op->args[0]);
}

static int elements_of(const Value *v) {
  return v->type->kind == TYPE_vec ? v->type->n : v->type->kind == TYPE_scalar ? 1 : 0;
}

static void need(Reads *r, const Value *v, int element) {
  bool **needed = &r->needed[v->id];
  if (!*needed) *needed = ARENA_ARRAY(r->p->arena, bool, elements_of(v) + 1);
  (*needed)[element] = true;
}

static void need_all(Reads *r, const Value *v) {
  for (int i = 0; i < elements_of(v); i++) need(r, v, i);
}

static bool needs_all(const Reads *r, const Value *v) {
  const bool *needed = r->needed[v->id];
  for (int i = 0; i < elements_of(v); i++)
    if (!needed || !needed[i]) return false;
  return true;
}

/* Element i of n is computed from those at the same place: an operand may have several elements of another type
 * for each, or fewer. */
static void need_operand(Reads *r, const Value *v, int i, int n) {
  int all = elements_of(v);
  if (all && n % all == 0) need(r, v, i / (n / all));
  else if (all && all % n == 0)
    for (int e = 0; e < all / n; e++) need(r, v, i * (all / n) + e);
}

static void need_joined(Reads *r, const Op *op, int i) {
  int arg = 0;
  while (i >= elements_of(op->args[arg])) i -= elements_of(op->args[arg++]);
  need(r, op->args[arg], i);
}

static void pass_on(Reads *r, const Op *op) {
  const Value *v = &op->results[0];
  int n = elements_of(v);
  for (int i = 0; r->needed[v->id] && i < n; i++) {
    if (!r->needed[v->id][i]) continue;
    if (op->kind == OP_pick) need(r, op->args[0], (int)op_attr(op, ATTR_regs)->ints[i]);
    else if (op->kind == OP_join) need_joined(r, op, i);
    else if (op_is_elementwise(op))
      for (int a = 0; a < op->nargs; a++) need_operand(r, op->args[a], i, n);
  }
}

/* The last wait for all products between two ops of a region; NULL: there is none. */
static const Op *last_wait(const Op *first, const Op *end) {
  const Op *wait = NULL;
  for (const Op *op = first; op != end; op = op->next)
    if (op->kind == OP_wgmma_wait && op_attr(op, ATTR_pending)->integer == 0) wait = op;
  return wait;
}

/* No other workgroup is told anything from `first` to `end`. */
static void settle(Reads *r, const Op *first, const Op *end) {
  const Op *wait = last_wait(first, end);
  if (!wait) return;
  for (const Op *op = wait; op != first->prev; op = op->prev) {
    if (op->kind == OP_wgmma) need_all(r, op->args[0]), need_all(r, op->args[1]);
    else if (op->nresults == 1 && op_is_pure(op)) pass_on(r, op);
  }
  for (const Op *op = first; op != wait; op = op->next)
    if (is_load(op)) r->settled[op->id] = needs_all(r, &op->results[0]);
}

static bool has_arrival(const Op *op) {
  for (const Op *in = op; in && (in == op || op_is_inside(in, op)); in = ir_next(in))
    if (arrives_elsewhere(in)) return true;
  return false;
}

static void settle_region(Reads *r, const Region *region) {
  const Op *first = region->first;
  for (const Op *op = first; op; op = op->next) {
    if (op->body) settle_region(r, op->body);
    if (!has_arrival(op)) continue;
    settle(r, first, op);
    first = op->next;
  }
  if (first) settle(r, first, NULL);
}

/* Whether other workgroups may be told something after it. */
static bool is_followed(const Op *load) {
  const Op *outer = op_outermost_loop(load);
  for (const Op *op = outer ? outer : load; op; op = ir_next(op))
    if (arrives_elsewhere(op)) return true;
  return false;
}

/* Whether the copy waits for arrivals of other workgroups, or may: for those on the barrier that is awaited before it. */
static bool awaits_others(const Ptx *p, const Op *copy) {
  const Op *wait = copy;
  while (wait && wait->kind != OP_mbar_wait) wait = wait->prev;
  if (!wait || op_has(copy, ATTR_multicast)) return true;
  for (const Op *op = ir_first(p->k); op; op = ir_next(op))
    if (arrives_elsewhere(op) && op->args[0] == wait->args[0]) return true;
  return false;
}

/* Whether all copies to the memory wait only for threads of their own workgroup. */
static bool is_own(const Ptx *p, const Value *memory) {
  bool filled = false;
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    if (op->kind != OP_tma_load || op->args[0] != memory) continue;
    if (awaits_others(p, op)) return false;
    filled = true;
  }
  return filled;
}

bool ptx_lanes_read(const Ptx *p) {
  Reads r = {.p = p};
  r.needed = ARENA_ARRAY(p->arena, bool *, p->k->nvalues);
  r.settled = ARENA_ARRAY(p->arena, bool, p->k->nops);
  settle_region(&r, p->k->body);
  for (const Op *op = ir_first(p->k); op; op = ir_next(op))
    if (is_load(op) && !r.settled[op->id] && is_followed(op) && !is_own(p, op->args[0]))
      return true;
  return false;
}
