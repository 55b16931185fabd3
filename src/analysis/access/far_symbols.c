/* far_symbols.c: symbols that may hold any 64-bit number, and arithmetic on them.
 *
 *     %i = read %table
 *     set_symbol S %i
 *     %x = read %a at row 2*S + 1          2*Min(Max(S, -2^59), 2^59) + 1, where S is clamped
 *     for N { %y = read %b }               starts at S: at Max(Min(S, N), -32)
 *
 * A symbol that is set, or that a while loop counts with, is not limited by any size. Where
 * arithmetic on it could overflow 64 bits, it is clamped to the nearest number that does not. A
 * coordinate changed this way is outside every memory, and a test checks for it (in_bounds.c),
 * because clamped numbers may cancel each other. */
#include "analysis/distribute.h"

/* An expression over sizes, ids and counters is no larger than they are. */
static bool is_of_sizes(const FarSymbols *far, const Value *v) {
  const Attr *value = v->def && v->def->kind == OP_scalar ? op_attr(v->def, ATTR_value) : NULL;
  bool known = value && value->sym;
  for (int i = 0; known && i < far->n; i++) known = !sym_contains(value->sym, far->at[i]);
  return known;
}

/* With fewer than 64 bits, sums and products with sizes do not overflow. */
static void add_symbol(FarSymbols *all, Arena *a, const Sym *symbol, const Value *v) {
  if (dtype_info[v->type->dtype].bits == 64) vec_push(a, all, symbol);
}

FarSymbols far_symbols(Kernel *k, Arena *a) {
  FarSymbols all = {0};
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    bool set = op->kind == OP_set_symbol && !is_of_sizes(&all, op->args[0]);
    if (set || op->kind == OP_while)
      add_symbol(&all, a, op_attr(op, ATTR_version)->sym, op->args[0]);
    if (op->kind == OP_while)
      add_symbol(&all, a, ir_loop_counter(k, op_attr(op, ATTR_axis)->sym), op->args[0]);
  }
  return all;
}
