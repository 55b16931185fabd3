/* lower_stamp.c: the time at which a wave of the first workgroup reaches a place. Its first lane stores
 * it; that nothing waits for the store is the point. */
#include "lower_threads/lower.h"

/* The same in all iterations of a loop, so that it is computed before it. */
static Value *is_first(Lower *l) {
  const Sym *zero = sym_int(l->sym, 0);
  Value *test = emit_test(l, sym_eq(l->sym, l->lane, zero));
  for (int i = 0; i < 3; i++) {
    const Sym *group = ir_numbered_symbol(l->k->cx, "$WG", i, true);
    test = emit_both(l, test, emit_test(l, sym_eq(l->sym, group, zero)));
  }
  return test;
}

bool lower_stamp(Lower *l, const Op *op) {
  const Attr *mask = op_attr(op, ATTR_mask);
  const Sym *at = sym_add(l->sym, op_attr(op, ATTR_expr)->sym, l->wave);
  Value *test = is_first(l);
  for (int i = 0; mask && i < mask->n; i++) test = emit_both(l, test, emit_test(l, mask->exprs[i]));
  Value *offset = emit_expr(l, emit_sound(l, at), DTYPE_i32);
  Value *now = emit_op(l, OP_clock, NULL, 0, NULL, 0, type_scalar(l->k->cx, DTYPE_i64));
  Value *args[] = {now, l->value[op->args[0]->id], offset, test};
  const Attr *imm = op_attr(op, ATTR_imm);
  emit_op(l, OP_store, args, test ? 4 : 3, imm, imm != NULL, NULL);
  return true;
}
