/* emit_report.c: one failure (base/failures.h): an atomic counts it, and its old value is the index
 * of the row that it may fill. */
#include "base/failures.h"
#include "emit/emit.h"

static void put_word(Lower *l, Value *memory, Value *offset, int64_t imm, Value *mask, Value *v) {
  Value *args[] = {v, memory, offset, mask};
  Attr by = {.key = ATTR_imm, .integer = imm};
  emit_op(l, OP_store, args, mask ? 4 : 3, &by, imm != 0, NULL);
}

void emit_report(Lower *l, const Reported *r, Value *const *words, int n) {
  Value *args[] = {emit_number(l, DTYPE_i64, 1), r->memory, r->offset, r->failed};
  Attr attrs[] = {{.key = ATTR_mode, .text = intern(&l->k->cx->names, "add")},
                  {.key = ATTR_imm, .integer = r->imm}};
  int nattrs = r->imm ? 2 : 1;
  Value *count = emit_op(l, OP_atomic, args, r->failed ? 4 : 3, attrs, nattrs, args[0]->type);
  if (r->failed) count = emit_select(l, r->failed, count, emit_number(l, DTYPE_i64, 0));
  Value *left[] = {count, emit_number(l, DTYPE_i64, FAILURE_ROWS - 1)};
  Value *mask = emit_op(l, OP_lt, left, 2, NULL, 0, type_scalar(l->k->cx, DTYPE_i1));
  if (r->failed) mask = emit_binary(l, OP_and, mask, r->failed);
  Value *row = emit_binary(l, OP_mul, count, emit_number(l, DTYPE_i64, FAILURE_COLUMNS));
  row = emit_binary(l, OP_add, r->offset, emit_cast(l, row, r->offset->type->dtype));
  for (int i = 0; i < n; i++)
    put_word(l, r->memory, row, r->imm + FAILURE_COLUMNS + i, mask, words[i]);
}
