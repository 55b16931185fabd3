/* licm: hoists loop-invariant pure ops out of loops.
 *
 *     %r = for K carry %acc = %z {            %s = mul %a, %a
 *       %s = mul %a, %a                =>     %r = for K carry %acc = %z {
 *       ...                                     ...
 *
 * Inner loops are processed first, so that an op can leave several. Nothing leaves a conditional,
 * where it is computed only when needed. For the same reason an op that may fail (a division by 0)
 * stays, unless its divisor's sign is known and 1 can replace 0 (divisors.h). A load leaves a loop
 * only if the loop is sure to run, and only in one lane's program, if that memory is never written.
 * Reads of tiles stay. A memory that a loop or conditional passes on unchanged is replaced by the
 * one outside; `dce` then removes it from the carried values. */
#include "analysis/access/divisors.h"
#include "analysis/motion.h"
#include "ir/region_facts.h"
#include "transform/pass.h"

typedef struct Licm {
  Kernel *k;
  PassCtx *cx;
  const bool *written; /* by id of a memory's root; NULL: loads do not move */
  Divisors *divisors;  /* in one lane's program */
} Licm;

/* A loop whose ops may move before it. */
typedef struct Loop {
  Region *body;
  const RegionSymbols *symbols; /* in one lane's program; NULL: in a tile kernel */
  bool runs;                    /* at least once */
} Loop;

static bool surely_runs(const Licm *m, const Op *loop) {
  const Attr *trips = op_attr(loop, ATTR_trips);
  SymCtx *sym = m->k->cx->sym;
  if (loop->kind != OP_for || !trips || op_has(loop, ATTR_from)) return false;
  return sym_proves(sym, m->cx->facts.header, sym_ge(sym, trips->sym, sym_int(sym, 1)));
}

static bool may_leave(const Licm *m, const Loop *loop, const Op *op) {
  if (m->divisors && op->kind == OP_expr)
    return divisors_guard(m->divisors, op_attr(op, ATTR_expr)->sym) != NULL;
  if (op_is_pure(op)) return !op_may_fail(m->k, m->cx->facts.header, op);
  return m->written && loop->runs && motion_is_invariant_load(op, m->written);
}

static bool is_invariant(const Licm *m, const Loop *loop, const Op *op) {
  if (loop->symbols ? op_is_tied(op, loop->symbols) : !op_same_outside(m->k, op, loop->body))
    return false;
  for (int i = 0; i < op->nargs; i++)
    if (region_of_value(op->args[i]) == loop->body) return false;
  return may_leave(m, loop, op);
}

static void guard(Licm *m, Op *op) {
  const Sym *e = divisors_guard(m->divisors, op_attr(op, ATTR_expr)->sym);
  op_set_attr(m->k, op, (Attr){.key = ATTR_expr, .sym = e});
}

static void empty_loop(Licm *m, Region *r) {
  Loop loop = {.body = r};
  if (m->k->level == LEVEL_THREAD) {
    loop.symbols = region_symbols(m->k, m->cx->scratch, r);
    loop.runs = surely_runs(m, r->owner);
  }
  for (Op *op = r->first, *next; op; op = next) {
    next = op->next;
    if (!is_invariant(m, &loop, op)) continue;
    if (m->divisors && op->kind == OP_expr) guard(m, op);
    ir_remove(op);
    ir_insert_before(r->owner, op);
  }
}

/* A memory that is the same in every iteration is replaced by the one outside. */
static void free_memories(Kernel *k, Op *op) {
  for (int i = 0; op->kind != OP_while && i < op->nresults; i++) {
    Value *outside = op->args[op_carried(op) + i], *inside = op->body->args[i];
    const Value *next = op->body->last->args[i];
    if (outside->type->kind != TYPE_mem || (next != inside && next != outside)) continue;
    ir_replace_uses(k, inside, outside);
    ir_replace_uses(k, &op->results[i], outside);
  }
}

static void hoist(Licm *m, Region *r) {
  for (Op *op = r->first; op; op = op->next) {
    if (!op->body) continue;
    hoist(m, op->body);
    free_memories(m->k, op);
  }
  if (op_is_loop(r->owner)) empty_loop(m, r);
}

bool pass_licm(Kernel *k, PassCtx *cx) {
  Licm m = {.k = k, .cx = cx};
  if (k->level == LEVEL_THREAD) {
    m.written = find_written(k, cx->scratch);
    m.divisors = divisors_new(k, cx->scratch, cx->facts.header);
  }
  hoist(&m, k->body);
  return true;
}
