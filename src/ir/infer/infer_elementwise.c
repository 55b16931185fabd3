/* infer_elementwise.c: the rules of elementwise ops, and the common shape of operands with
 * different dims. */
#include "ir/infer/infer.h"

static const char *why_not_joined(const Sym *const *dims, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++)
      if (dim_base(dims[i]) == dim_base(dims[j]))
        return "a tile has each dimension once, and `K/32` is `K` in larger steps: give that "
               "dimension a name of its own, and read it with a mapping";
  return "a tile has at most 8 dimensions";
}

/* All dims of both: those of the larger shape (of the second if equal), then the others. */
static const Type *union_shape(const Infer *in, const Type *a, const Type *b) {
  const Type *first = a->rank > b->rank ? a : b, *other = first == a ? b : a;
  const Sym *dims[2 * IR_MAX_RANK];
  int n = 0;
  for (int i = 0; i < first->rank; i++) dims[n++] = first->dims[i];
  for (int i = 0; i < other->rank; i++)
    if (!infer_has_dim(first, other->dims[i])) dims[n++] = other->dims[i];
  const Type *t = type_tile(in->k->cx, dims, n, a->dtype);
  if (!t)
    (void)INFER_FAIL_HINT(in, E0319, why_not_joined(dims, n),
                          "`%s` of %s and %s has no valid shape", infer_name(in),
                          infer_shown(in, a), infer_shown(in, b));
  return t;
}

/* The shape of an elementwise result: missing dims are broadcast, but two shapes must have one in
 * common; if both have the same dims in different orders, the second operand's wins. NULL after
 * reporting. */
static const Type *joined_shape(const Infer *in, const Type *a, const Type *b) {
  if (infer_covers(a, b) && (a->rank > b->rank || a->n > b->n)) return a;
  if (infer_covers(b, a)) return b;
  if (infer_common_dims(a, b)) return union_shape(in, a, b);
  const char *wrong =
      a->n && b->n ? "the numbers of registers differ" : "the shapes have no dimension in common";
  bool known = INFER_FAIL_HINT(in, E0302, "broadcast both to a shape that has all the dimensions",
                               "`%s` of %s and %s: %s", infer_name(in), infer_shown(in, a),
                               infer_shown(in, b), wrong);
  return known ? a : NULL;
}

static bool binary(Infer *in, const DType *dtype) {
  if (!infer_need_values(in, 0, 2) || !infer_same_dtype(in, 0, 1)) return false;
  const Type *shape = joined_shape(in, infer_arg(in, 0), infer_arg(in, 1));
  return shape &&
         infer_result(in, infer_typed(in, shape, dtype ? *dtype : infer_arg(in, 0)->dtype));
}

bool rule_binary(Infer *in) { return binary(in, NULL); }

bool rule_binary_int(Infer *in) {
  return infer_need_values(in, 0, 2) &&
         infer_need_class(in, 0, infer_is_integral(infer_arg(in, 0)),
                          "integers or booleans (i1)") &&
         binary(in, NULL);
}

bool rule_binary_float(Infer *in) {
  return infer_need_values(in, 0, 2) &&
         infer_need_class(in, 0, infer_is_float(infer_arg(in, 0)), "floats") && binary(in, NULL);
}

bool rule_shift(Infer *in) {
  if (!infer_need_values(in, 0, 2)) return false;
  bool fits = infer_is_integral(infer_arg(in, 0)) && infer_class(infer_arg(in, 0)) != DTYPE_BOOL;
  return infer_need_class(in, 0, fits, "integers") && binary(in, NULL);
}

bool rule_compare(Infer *in) {
  DType truth = DTYPE_i1;
  return binary(in, &truth);
}

bool rule_unary(Infer *in) {
  return infer_need_value(in, 0) &&
         infer_need_class(in, 0, infer_class(infer_arg(in, 0)) != DTYPE_BOOL, "numbers") &&
         infer_result(in, infer_arg(in, 0));
}

bool rule_unary_int(Infer *in) {
  return infer_need_value(in, 0) &&
         infer_need_class(in, 0, infer_is_integral(infer_arg(in, 0)),
                          "integers or booleans (i1)") &&
         infer_result(in, infer_arg(in, 0));
}

bool rule_unary_float(Infer *in) {
  return infer_need_value(in, 0) &&
         infer_need_class(in, 0, infer_is_float(infer_arg(in, 0)), "floats") &&
         infer_result(in, infer_arg(in, 0));
}

bool rule_test_float(Infer *in) {
  return infer_need_value(in, 0) &&
         infer_need_class(in, 0, infer_is_float(infer_arg(in, 0)), "floats") &&
         infer_result(in, infer_typed(in, infer_arg(in, 0), DTYPE_i1));
}

bool rule_select(Infer *in) {
  if (!infer_need_values(in, 0, 3)) return false;
  if (infer_arg(in, 0)->dtype != DTYPE_i1)
    return INFER_FAIL_HINT(in, E0312, "compare first, or `cast` to i1",
                           "the condition of `select` is %s, expected dtype i1",
                           infer_shown(in, infer_arg(in, 0)));
  if (!infer_same_dtype(in, 1, 2)) return false;
  const Type *shape = joined_shape(in, infer_arg(in, 1), infer_arg(in, 2));
  if (shape) shape = joined_shape(in, infer_arg(in, 0), shape);
  return shape && infer_result(in, infer_typed(in, shape, infer_arg(in, 1)->dtype));
}

bool rule_apply(Infer *in) {
  for (int i = 0; i < in->op->nargs; i++) {
    if (!infer_need_value(in, i) ||
        !infer_need_class(in, i, infer_is_integral(infer_arg(in, i)), "integers or booleans (i1)"))
      return false;
    if (infer_arg(in, i) != infer_arg(in, 0))
      return INFER_FAIL(in, E0301, "the operands of `apply_expr` must have one type, not %s and %s",
                        infer_shown(in, infer_arg(in, 0)), infer_shown(in, infer_arg(in, i)));
  }
  const Attr *e = op_attr(in->op, ATTR_expr);
  if (!e) return INFER_FAIL(in, E0318, "`apply_expr` needs an expression");
  return infer_result(in, sym_is_bool(e->sym) ? infer_typed(in, infer_arg(in, 0), DTYPE_i1)
                                              : infer_arg(in, 0));
}

bool rule_same(Infer *in) { return infer_need_value(in, 0) && infer_result(in, infer_arg(in, 0)); }

bool rule_extract(Infer *in) {
  if (!infer_need_value(in, 0)) return false;
  const Type *t = infer_arg(in, 0);
  return infer_result(in, t->rank > 1 ? infer_without_dim(in, t, t->dims[t->rank - 1]) : t);
}
