/* stages_common.c: see stages_common.h. */
#include "transform/stages/roles/stages_common.h"

#include "analysis/memory_uses.h"
#include "ir/region_facts.h"

typedef struct Common {
  const Kernel *k;
  const PassCtx *cx;
  bool *is, *not; /* by value id; the second: what a region carries was found not to be */
  bool changed;
} Common;

static bool is_one_element(const Common *c, const Op *op) {
  int extent[IR_MAX_RANK];
  const Type *t = op->results[0].type;
  if (op->results[0].varying) return false;
  if (t->kind != TYPE_tile) return true;
  if (!distribute_extents(c->cx->facts.distribute, op, t, extent)) return false;
  for (int d = 0; d < t->rank; d++)
    if (extent[d] != 1) return false;
  return true;
}

static bool is_read(const Common *c, const Op *op) {
  return op->kind == OP_read && op->nargs == 1 && !op->args[0]->def && !op_has(op, ATTR_volatile) &&
         !memory_is_stored_to(c->cx->facts.memory_uses, op->args[0], NULL);
}

static bool is_computed(const Common *c, const Op *op) {
  bool reads = is_read(c, op);
  if (op->nresults != 1 || op->body || (!reads && !op_is_pure(op))) return false;
  for (int i = 0; !reads && i < op->nargs; i++)
    if (!c->is[op->args[i]->id]) return false;
  return is_one_element(c, op);
}

/* Numbers that a loop carries are, until what they begin with, or what follows them, is found not to be. */
static void assume(Common *c, const Op *op) {
  for (int i = 0; op->kind == OP_for && i < op->nresults; i++) {
    const Value *v = op->body->args[i];
    c->is[v->id] = v->type->kind == TYPE_scalar && !c->not[v->id];
  }
}

static void check(Common *c, const Op *op) {
  int first = op_carried(op);
  for (int i = 0; op->kind == OP_for && i < op->nresults; i++) {
    const Value *v = op->body->args[i];
    bool holds = c->is[op->args[first + i]->id] && c->is[op->body->last->args[i]->id];
    if (!c->is[v->id] || holds) continue;
    c->not[v->id] = c->changed = true;
  }
}

const bool *common_values(const Kernel *k, const PassCtx *cx) {
  Common c = {.k = k, .cx = cx, .changed = true};
  c.is = ARENA_ARRAY(cx->scratch, bool, k->nvalues);
  c.not = ARENA_ARRAY(cx->scratch, bool, k->nvalues);
  for (int i = 0; i < k->body->nargs; i++) c.is[k->body->args[i]->id] = true;
  while (c.changed) {
    c.changed = false;
    for (const Op *op = ir_first(k); op; op = ir_next(op)) {
      if (op->nresults == 1) c.is[op->results[0].id] = is_computed(&c, op);
      assume(&c, op);
    }
    for (const Op *op = ir_first(k); op; op = ir_next(op)) check(&c, op);
  }
  return c.is;
}
