/* loop_counted.c: see loop_counted.h. */
#include "schedule/proof/loop_counted.h"

static const Op *setter_of(const Kernel *k, const Sym *version) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_set_symbol && op_attr(op, ATTR_version)->sym == version) return op;
  return NULL;
}

/* Which of the values that a loop carries; -1: none. */
static int carried_as(const Op *loop, const Value *v) {
  for (int i = 0; i < loop->body->nargs; i++)
    if (loop->body->args[i] == v) return i;
  return -1;
}

static bool is_zero(Kernel *k, const Op *op) {
  return op && op->kind == OP_scalar && op_attr(op, ATTR_value)->sym == sym_int(k->cx->sym, 0);
}

/* Whether an op gives the number that the next run of the loop counts from. */
static bool counts_on(const Op *op, const Op *loop) {
  const Attr *from = op && op->kind == OP_runs ? op_attr(op, ATTR_earlier) : NULL;
  return from && from->sym == op_attr(loop, ATTR_earlier)->sym && op_step(op) == op_step(loop) &&
         op_attr(op, ATTR_axis)->sym == op_attr(loop, ATTR_axis)->sym;
}

bool loop_is_counted(Kernel *k, const Op *loop) {
  const Attr *earlier = op_attr(loop, ATTR_earlier);
  if (!earlier) return true;
  const Op *set = setter_of(k, earlier->sym), *around = set ? set->parent->owner : NULL;
  if (!around || around->kind != OP_for || !op_is_inside(loop, around)) return false;
  int at = carried_as(around, set->args[0]);
  if (at < 0) return false;
  return is_zero(k, around->args[op_carried(around) + at]->def) &&
         counts_on(around->body->last->args[at]->def, loop);
}
