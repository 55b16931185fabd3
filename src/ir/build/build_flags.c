/* build_flags.c: memory that a loop polls.
 *
 *     while ... { %ready = read %lock {volatile} ... }
 *     write %one, %lock          =>     write %one, %lock {volatile}
 *
 * Authors mark the read that waits, and may forget the write that ends the wait. That write is
 * ordered after the data it announces only if it is volatile too. */
#include "ir/build/build_state.h"

static bool is_in_while(const Op *op) {
  const Op *outer = op->parent->owner;
  while (outer && outer->kind != OP_while) outer = outer->parent->owner;
  return outer != NULL;
}

static void mark_writes(Kernel *k, const Value *memory) {
  for (Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_write && op->args[1] == memory && !op_has(op, ATTR_volatile))
      op_set_attr(k, op, (Attr){.key = ATTR_volatile});
}

void build_flags(Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_read && op_has(op, ATTR_volatile) && is_in_while(op))
      mark_writes(k, op->args[0]);
}
