/* sym_narrow.c: narrows 64-bit operations of which only the low half is needed.
 *
 *     o + p : i32, operands of unknown range      33-bit sum, truncated   =>   one 32-bit addition
 *
 * The low bits of a sum, product or select follow from the low bits of its operands; those of a
 * quotient, a comparison or a right shift do not. */
#include "sym/sym.h"

/* Bit i: operand i (a, b, c) need be no wider than the result. */
static unsigned narrow_operands(const SymCode *code, const SymOp *op) {
  switch (op->kind) {
  case SYM_OP_add:
  case SYM_OP_sub:
  case SYM_OP_mul:
  case SYM_OP_and:
  case SYM_OP_or:
  case SYM_OP_xor: return 1u | 2u;
  case SYM_OP_shl: return code->ops[op->b].kind == SYM_OP_const && code->ops[op->b].value < 32;
  case SYM_OP_select: return 2u | 4u;
  default: return 0;
  }
}

static int operands_of(SymOpKind kind) {
  switch (kind) {
  case SYM_OP_const:
  case SYM_OP_symbol:
  case SYM_OP_launch:
  case SYM_OP_magic:
  case SYM_OP_shift: return 0;
  case SYM_OP_divmagic:
  case SYM_OP_select: return 3;
  default: return 2;
  }
}

void sym_narrow(Arena *scratch, SymCode *code) {
  ArenaMark mark = arena_mark(scratch);
  bool *whole = ARENA_ARRAY(scratch, bool, code->nops); /* more than the low bits are needed */
  for (int i = code->nops - 1; i >= 0; i--) {
    SymOp *op = &code->ops[i];
    unsigned narrow = whole[i] ? 0 : narrow_operands(code, op);
    const int at[] = {op->a, op->b, op->c};
    if (narrow) op->bits = 32;
    for (int j = 0; j < operands_of(op->kind); j++)
      if (!(narrow >> j & 1)) whole[at[j]] = true;
  }
  arena_rewind(scratch, mark);
}
