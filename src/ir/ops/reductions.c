/* reductions.c: see reductions.h. */
#include "ir/ops/reductions.h"

#include <string.h>

#define OP_none OP_COUNT

const ReductionInfo reduction_info[OP_COUNT] = {
#define REDUCTION(op, combine, padding) [OP_##op] = {PADDING_##padding, OP_##combine},
#include "ir/ops/reductions.def"
};

bool reduction_is_by_thread(const Op *op) {
  const Attr *each = op_is_reduction(op) ? op_attr(op, ATTR_each) : NULL;
  return each && strcmp(each->text, "thread") == 0;
}

Value *reduction_exists(const Op *op) {
  if (reduction_info[op->kind].padding != PADDING_PREDICATE) return NULL;
  int before = op->kind == OP_reduce && !op_has(op, ATTR_into) ? 2 : 1;
  return op->nargs > before ? op->args[before] : NULL;
}

double padding_number(Padding p, DType t) {
  switch (p) {
  case PADDING_ONE: return 1;
  case PADDING_LOWEST: return dtype_lowest(t);
  case PADDING_HIGHEST: return dtype_highest(t);
  case PADDING_ZERO:
  case PADDING_NONE:
  case PADDING_PREDICATE:
  case PADDING_BEHIND: break;
  }
  return 0;
}

int64_t padding_integer(Padding p, DType t) {
  switch (p) {
  case PADDING_ONE: return 1;
  case PADDING_LOWEST: return dtype_min_int(t);
  case PADDING_HIGHEST: return dtype_max_int(t);
  case PADDING_ZERO:
  case PADDING_NONE:
  case PADDING_PREDICATE:
  case PADDING_BEHIND: break;
  }
  return 0;
}

bool padding_fills(const Op *fill, Padding p) {
  const Attr *value = op_attr(fill, ATTR_value);
  DType t = fill->results[0].type->dtype;
  int64_t n;
  if (dtype_is_float(t) && !value->sym) return value->number == padding_number(p, t);
  if (!value->sym || !sym_is_int(value->sym, &n)) return false;
  return dtype_is_float(t) ? (double)n == padding_number(p, t) : n == padding_integer(p, t);
}
