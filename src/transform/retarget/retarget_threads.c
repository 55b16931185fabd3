/* retarget_threads.c: see retarget_threads.h. The levels of uniform.h say which threads agree about
 * a value: all that hold an element of it, those of each wave, or none. */
#include "transform/retarget/retarget_threads.h"

#include "anchors/contract.h"
#include "ir/attr.h"
#include "ir/ops/access.h"

typedef struct Marks {
  Kernel *k;
  PassCtx *cx;
  UniformLevel *differs; /* by value id; WORKGROUP: all holders of an element agree */
} Marks;

static UniformLevel worse(UniformLevel a, UniformLevel b) { return a > b ? a : b; }

static bool mark(Marks *m, Value *v, UniformLevel level) {
  if (level <= m->differs[v->id] || !type_is_value(v->type)) return false;
  m->differs[v->id] = level;
  return v->varying = true;
}

static UniformLevel worst_operand(const Marks *m, const Op *op) {
  UniformLevel level = UNIFORM_WORKGROUP;
  for (int i = 0; i < op->nargs; i++) level = worse(level, m->differs[op->args[i]->id]);
  return level;
}

/* Whether threads that hold the same element of `t` reach `op` together. They do if the branch
 * depends on a tile with no other dims, because they hold the same element of that too. */
static UniformLevel parted_around(const Marks *m, const Op *op, const Type *t) {
  UniformLevel level = UNIFORM_WORKGROUP;
  for (const Op *at = op->parent->owner; at; at = at->parent->owner) {
    const Value *condition = op_condition(at);
    bool decided = condition != NULL;
    for (int i = 0; decided && i < condition->type->rank; i++)
      decided = type_has_dim(t, condition->type->dims[i]);
    if (!decided) return worse(level, m->cx->facts.uniform->regions[at->id].level);
    level = worse(level, m->differs[condition->id]);
  }
  return level;
}

typedef struct SymbolQuery {
  const Marks *m;
  UniformLevel level;
} SymbolQuery;

static const Sym *look_for_set(void *user, const Sym *s) {
  SymbolQuery *q = user;
  for (const Op *op = ir_first(q->m->k); op; op = ir_next(op))
    if (op->kind == OP_set_symbol && sym_contains(s, op_attr(op, ATTR_version)->sym))
      q->level = worse(q->level, q->m->differs[op->args[0]->id]);
  return s;
}

/* From symbols that were set to values about which threads disagree. */
static UniformLevel worst_symbol(const Marks *m, const Op *op) {
  SymbolQuery q = {m, UNIFORM_WORKGROUP};
  for (int i = 0; i < op->nattrs; i++) {
    Attr copy = op->attrs[i];
    attr_rewrite(m->k, &copy, look_for_set, &q);
  }
  return q.level;
}

/* Lanes of a wave, or waves, that hold the same element disagree about it: because of thread ids,
 * of their operands, or because each of them did an atomic. */
static UniformLevel parted_by(Marks *m, Op *op) {
  UniformLevel level = contract_parts(m->cx->facts.distribute, op, m->cx->scratch);
  level = worse(level, worse(worst_operand(m, op), worst_symbol(m, op)));
  return op_is_atomic(op) ? worse(level, parted_around(m, op, op->args[0]->type)) : level;
}

static bool mark_region(Marks *m, Op *op) {
  int first = op_carried(op), axis = op->kind == OP_while ? 1 : 0;
  bool changed = false;
  for (int i = 0; i < op->nresults; i++) {
    Value *arg = op->body->args[axis + i];
    UniformLevel yielded = m->differs[op->body->last->args[axis + i]->id];
    changed |= mark(m, arg, m->differs[op->args[first + i]->id]);
    if (op->kind != OP_if) changed |= mark(m, arg, yielded);
    changed |= mark(m, &op->results[i], worse(m->differs[arg->id], yielded));
  }
  return changed;
}

/* Values marked `varying` in the text stay so. */
static void take_marks(Marks *m) {
  for (int i = 0; i < m->k->nvalues; i++) m->differs[i] = UNIFORM_WORKGROUP;
  for (Op *op = ir_first(m->k); op; op = ir_next(op)) {
    for (int i = 0; i < op->nresults; i++)
      if (op->results[i].varying) m->differs[op->results[i].id] = UNIFORM_VARYING;
    for (int i = 0; op->body && i < op->body->nargs; i++)
      if (op->body->args[i]->varying) m->differs[op->body->args[i]->id] = UNIFORM_VARYING;
  }
}

static void mark_varying(Marks *m) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Op *op = ir_first(m->k); op; op = ir_next(op)) {
      if (op->body) changed |= mark_region(m, op);
      UniformLevel level = op->body || !op->nresults ? UNIFORM_WORKGROUP : parted_by(m, op);
      for (int i = 0; !op->body && i < op->nresults; i++)
        changed |= mark(m, &op->results[i], level);
    }
  }
}

/* Threads that disagree about an atomic each do it. */
static void mark_atomics(Marks *m) {
  for (Op *op = ir_first(m->k); op; op = ir_next(op)) {
    if (!op_is_atomic(op) || op_has(op, ATTR_ept)) continue;
    UniformLevel level = parted_by(m, op);
    if (level <= UNIFORM_WORKGROUP) continue;
    const char *each = intern(&m->k->cx->names, level == UNIFORM_WAVE ? "wave" : "thread");
    op_set_attr(m->k, op, (Attr){.key = ATTR_each, .text = each});
  }
}

void retarget_mark_threads(Kernel *k, PassCtx *cx) {
  Marks m = {k, cx, ARENA_ARRAY(cx->scratch, UniformLevel, k->nvalues)};
  take_marks(&m);
  mark_varying(&m);
  mark_atomics(&m);
}
