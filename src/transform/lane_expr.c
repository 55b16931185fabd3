/* lane_expr.c: see lane_expr.h. */
#include "transform/lane_expr.h"

DType lane_expr_dtype(SymCtx *cx, const SymFacts *facts, const Sym *e) {
  SymRange range = sym_range(cx, facts, e);
  return range.lo >= INT32_MIN && range.hi <= INT32_MAX ? DTYPE_i32 : DTYPE_index;
}

const Sym *lane_operand(Kernel *k, int i) {
  return ir_numbered_symbol(k->cx, "$APPLY_EXPR_ARG_", i, false);
}

bool lane_expr_draft(const Op *op, LaneExprDraft *d) {
  if (op->nargs > LANE_OPERANDS) return false;
  d->nargs = op->nargs;
  for (int i = 0; i < op->nargs; i++) d->args[i] = op->args[i];
  return true;
}

const Sym *lane_expr_use(Kernel *k, LaneExprDraft *d, Value *v) {
  int i = 0;
  while (i < d->nargs && d->args[i] != v) i++;
  if (i == LANE_OPERANDS) return NULL;
  d->args[i] = v;
  if (i == d->nargs) d->nargs++;
  return lane_operand(k, i);
}

void lane_expr_set(Kernel *k, Op *op, const LaneExprDraft *d, const Sym *e) {
  if (e == op_attr(op, ATTR_expr)->sym) return;
  op->args = arena_copy(k->arena, d->args, sizeof(Value *) * (size_t)d->nargs);
  op->nargs = d->nargs;
  op_set_attr(k, op, (Attr){.key = ATTR_expr, .sym = e});
}
