/* reductions.c: see reductions.h. */
#include "ir/ops/reductions.h"

#define OP_none OP_COUNT

const ReductionInfo reduction_info[OP_COUNT] = {
#define REDUCTION(op, combine, padding) [OP_##op] = {PADDING_##padding, OP_##combine},
#include "ir/ops/reductions.def"
};

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
