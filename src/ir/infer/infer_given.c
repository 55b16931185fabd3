/* infer_given.c: the rules of ops whose result type the author writes, in whole or in part. */
#include "ir/infer/infer.h"
#include "ir/ops/alloc_layout.h"

static bool need_given(const Infer *in) {
  if (in->given) return true;
  return INFER_FAIL(in, E0316, "`%s` needs a result type", infer_name(in));
}

bool rule_given_tile(Infer *in) {
  if (!need_given(in)) return false;
  if (!type_is_value(in->given))
    return INFER_FAIL(in, E0316, "the result of `%s` is a tile, not %s", infer_name(in),
                      infer_shown(in, in->given));
  return infer_result(in, in->given);
}

bool rule_given_scalar(Infer *in) {
  if (!need_given(in)) return false;
  if (in->given->kind != TYPE_scalar)
    return INFER_FAIL(in, E0316, "the result of `%s` is a scalar, not %s", infer_name(in),
                      infer_shown(in, in->given));
  return infer_result(in, in->given);
}

bool rule_given_mem(Infer *in) {
  if (!need_given(in)) return false;
  if (in->given->kind != TYPE_mem)
    return INFER_FAIL(in, E0316, "the result of `%s` is memory, not %s", infer_name(in),
                      infer_shown(in, in->given));
  const Attr *physical = op_attr(in->op, ATTR_physical);
  if (physical && physical->n != in->given->rank)
    return INFER_FAIL(in, E0304,
                      "allocation of %s has %d physical extents, expected one per dimension",
                      infer_shown(in, in->given), physical->n);
  const char *wrong = alloc_layout_mistake(in->op, in->given);
  if (wrong)
    return INFER_FAIL(in, E0318, "allocation of %s: %s", infer_shown(in, in->given), wrong);
  return infer_result(in, in->given);
}

/* A tile over the op's dimension alone. */
bool rule_self_index(Infer *in) {
  const Sym *dim = op_attr(in->op, ATTR_dim)->sym;
  if (!rule_given_tile(in)) return false;
  bool right = in->op->kind != OP_exists || in->given->dtype == DTYPE_i1;
  if (right && in->given->rank == 1 && in->given->dims[0] == dim) return true;
  return INFER_FAIL(in, E0316, "`%s` of `%s` is a tile%s with that dimension only, not %s",
                    infer_name(in), infer_expr(in, dim), in->op->kind == OP_exists ? " of i1" : "",
                    infer_shown(in, in->given));
}

/* cast and bitcast also accept a bare dtype: the shape follows from the operand. */
bool rule_cast(Infer *in) {
  if (!need_given(in) || !infer_need_value(in, 0)) return false;
  const Type *want = type_with_dtype(in->k->cx, infer_arg(in, 0), in->given->dtype);
  bool shaped = in->given->rank || in->given->kind == TYPE_vec; /* otherwise a bare dtype */
  if (shaped && want != in->given)
    return INFER_FAIL(in, E0316, "`cast` keeps the shape: %s cannot become %s",
                      infer_shown(in, infer_arg(in, 0)), infer_shown(in, in->given));
  return infer_result(in, want);
}

/* What one lane holds is reinterpreted as the same number of bits. */
static bool bitcast_vec(Infer *in) {
  const Type *from = infer_arg(in, 0), *to = in->given;
  int bits = from->n * dtype_info[from->dtype].bits, each = dtype_info[to->dtype].bits;
  int n = to->kind == TYPE_vec || bits % each ? to->n : bits / each;
  if (n * each == bits) return infer_result(in, type_vec(in->k->cx, n, to->dtype));
  return INFER_FAIL(in, E0307, "`bitcast` of %s (%d bits) to %s (%d bits)", infer_shown(in, from),
                    bits, infer_shown(in, to), to->n * each);
}

bool rule_bitcast(Infer *in) {
  if (!need_given(in) || !infer_need_value(in, 0)) return false;
  const Type *from = infer_arg(in, 0);
  if (in->k->level == LEVEL_THREAD) return bitcast_vec(in);
  int src = dtype_info[from->dtype].bits, dst = dtype_info[in->given->dtype].bits;
  if (src < dst || (src % dst && dst != 6))
    return INFER_FAIL_HINT(in, E0307, "`cast` converts values; `bitcast` only splits elements",
                           "`bitcast` from %s (%d bits) to %s (%d bits): the source width must be "
                           "a multiple of the target width",
                           dtype_info[from->dtype].name, src, dtype_info[in->given->dtype].name,
                           dst);
  if (!from->rank && src != dst)
    return INFER_FAIL(in, E0307, "a scalar cannot be split by `bitcast`");
  const Sym *dims[IR_MAX_RANK];
  for (int i = 0; i < from->rank; i++) dims[i] = from->dims[i];
  if (from->rank)
    dims[from->rank - 1] =
        sym_mul(in->k->cx->sym, dims[from->rank - 1], sym_rational(in->k->cx->sym, src, dst));
  const Type *want = type_tile(in->k->cx, dims, from->rank, in->given->dtype);
  if (want && in->given->rank && in->given != want)
    return INFER_FAIL(in, E0316, "the result of `bitcast` of %s is %s, not %s",
                      infer_shown(in, from), infer_shown(in, want), infer_shown(in, in->given));
  return infer_result(in, want);
}

bool rule_broadcast(Infer *in) {
  if (!rule_given_tile(in) || !infer_need_value(in, 0)) return false;
  const Type *from = infer_arg(in, 0);
  if (from->dtype != in->given->dtype)
    return INFER_FAIL(in, E0301, "`broadcast` keeps the dtype: %s cannot become %s",
                      infer_shown(in, from), infer_shown(in, in->given));
  if (!infer_covers(in->given, from))
    return INFER_FAIL_HINT(in, E0305, "include every dimension of the operand in the target shape",
                           "`broadcast` of %s to %s: the target lacks a dimension",
                           infer_shown(in, from), infer_shown(in, in->given));
  return true;
}

/* One dimension is counted in finer units. */
bool rule_repeat(Infer *in) {
  if (!rule_given_tile(in) || !infer_need_value(in, 0)) return false;
  const Type *from = infer_arg(in, 0), *to = in->given;
  int finer = 0, other = from->dtype != to->dtype || from->rank != to->rank;
  for (int i = 0; !other && i < to->rank; i++) {
    if (from->dims[i] == to->dims[i]) continue;
    if (dim_ratio(to->dims[i], from->dims[i])) finer++;
    else other++;
  }
  if (finer == 1 && !other) return true;
  return INFER_FAIL_HINT(
      in, E0306, "`repeat` from `K/32` to `K` repeats each element 32 times",
      "`repeat` of %s to %s: one dimension must be an integer multiple, and the others equal",
      infer_shown(in, from), infer_shown(in, to));
}

bool rule_squeeze(Infer *in) {
  if (!rule_given_tile(in) || !infer_need_value(in, 0)) return false;
  const Type *from = infer_arg(in, 0);
  if (from->dtype == in->given->dtype && from->rank > in->given->rank &&
      infer_covers(from, in->given))
    return true;
  return INFER_FAIL(in, E0306, "`squeeze` of %s to %s: the target has different dimensions",
                    infer_shown(in, from), infer_shown(in, in->given));
}

bool rule_permute(Infer *in) {
  if (!rule_given_tile(in) || !infer_need_value(in, 0)) return false;
  const Type *from = infer_arg(in, 0);
  if (from->dtype == in->given->dtype && from->rank == in->given->rank &&
      infer_covers(in->given, from))
    return true;
  return INFER_FAIL_HINT(in, E0306, "list the same dimensions in a different order",
                         "`permute` of %s to %s: the target is not a permutation",
                         infer_shown(in, from), infer_shown(in, in->given));
}
