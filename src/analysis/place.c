/* place.c: does an op, or a symbol, mean something else elsewhere? */
#include "analysis/analysis.h"

static bool is_constant(const Sym *s) { return !s || sym_free_symbols(s, NULL, 0) == 0; }

/* Attributes that hold no expression (or only numbers) mean the same everywhere. */
static bool attr_same_outside(const Attr *a) {
  switch (attr_info[a->key].kind) {
  case ATTR_KIND_INT:
  case ATTR_KIND_FLAG:
  case ATTR_KIND_TEXT:
  case ATTR_KIND_WORD:
  case ATTR_KIND_TEXTS:
  case ATTR_KIND_MMA:
  case ATTR_KIND_COUNTS: return true;
  case ATTR_KIND_NUMBER:
  case ATTR_KIND_EXPR: return is_constant(a->sym);
  case ATTR_KIND_DIM: /* `sum` along a dim of its operand; self_index is excluded by its operands */
  case ATTR_KIND_DIMS: return true;
  case ATTR_KIND_BOUNDS:
  case ATTR_KIND_MAPPING:
  case ATTR_KIND_ITERS: return false;
  }
  return false;
}

bool op_same_outside(const Op *op, const Region *region) {
  const Attr *axis = region->owner ? op_attr(region->owner, ATTR_axis) : NULL;
  if (op->body || op->kind == OP_self_index) return false;
  for (int i = 0; i < op->nattrs; i++)
    if (!attr_same_outside(&op->attrs[i])) return false;
  for (int i = 0; axis && i < op->nresults; i++)
    if (type_has_dim(op->results[i].type, axis->sym)) return false;
  return true;
}

bool symbol_is_set(const Kernel *k, const Sym *symbol) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    const Attr *a = op->kind == OP_set_symbol ? op_attr(op, ATTR_symbol)
                    : op->kind == OP_while    ? op_attr(op, ATTR_axis)
                                              : NULL;
    if (a && a->sym == symbol) return true;
  }
  return false;
}
