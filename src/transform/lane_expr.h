/* lane_expr.h: ops `expr` of one lane's program: the type of their value, and values in place of parts of
 * their expressions. */
#ifndef WV_LANE_EXPR_H
#define WV_LANE_EXPR_H

#include "ir/ir.h"

enum { LANE_OPERANDS = 16 }; /* that passes give to one op */

/* Of the value of e where `facts` hold: 32 bits if that is sure to be enough. */
DType lane_expr_dtype(SymCtx *cx, const SymFacts *facts, const Sym *e);

/* $APPLY_EXPR_ARG_i */
const Sym *lane_operand(Kernel *k, int i);

/* The operands of an expression that is being rewritten. */
typedef struct LaneExprDraft {
  Value *args[LANE_OPERANDS];
  int nargs;
} LaneExprDraft;

/* Begins with the operands of an op; false: they are too many. */
bool lane_expr_draft(const Op *op, LaneExprDraft *d);

/* The symbol of the operand v, which is added if it is missing; NULL if there is no room for it. */
const Sym *lane_expr_use(Kernel *k, LaneExprDraft *d, Value *v);

/* Gives the op the expression, if that is another one than it has, and the operands of the draft. */
void lane_expr_set(Kernel *k, Op *op, const LaneExprDraft *d, const Sym *e);

#endif
