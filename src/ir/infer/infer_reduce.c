/* infer_reduce.c: the rules of reductions, scans and top-k. */
#include <string.h>

#include "ir/infer/infer.h"
#include "ir/ops/combine.h"
#include "ir/ops/reductions.h"

/* The dimension along which the op works: `dim`, or the last one. NULL after reporting. */
static const Sym *worked_dim(const Infer *in) {
  const Type *t = infer_arg(in, 0);
  const Attr *a = op_attr(in->op, ATTR_dim);
  if (a && infer_has_dim(t, a->sym)) return a->sym;
  const char *hint = "set `dim` to a dimension of the operand";
  bool known =
      a ? INFER_FAIL_HINT(in, E0308, hint, "`%s` along `%s`, which %s does not have",
                          infer_name(in), infer_expr(in, a->sym), infer_shown(in, t))
        : INFER_FAIL_HINT(in, E0308, hint, "`%s` needs `dim`, the dimension to operate along",
                          infer_name(in));
  return known ? a->sym : NULL;
}

/* A user-defined function requires an initial value, and a number will do for all rows. */
static bool check_init(const Infer *in, const Type *want) {
  bool combines = op_combines(in->op->kind);
  if (in->op->nargs < 2 && combines)
    return INFER_FAIL(in, E0309, "`%s` needs an initial value: the result for an empty dimension",
                      infer_name(in));
  if (in->op->nargs < 2) return true;
  if (!infer_need_value(in, 1)) return false;
  const Type *init = infer_arg(in, 1);
  if (combines && init->kind == TYPE_scalar && init->dtype == want->dtype) return true;
  if (init->dtype == want->dtype && init->rank == want->rank && infer_covers(want, init))
    return true;
  return INFER_FAIL(in, E0317, "the initial value of `%s` is %s, expected %s", infer_name(in),
                    infer_shown(in, init), infer_shown(in, want));
}

static bool check_each(const Infer *in) {
  const Attr *each = op_attr(in->op, ATTR_each);
  bool known = each && (strcmp(each->text, "wave") == 0 || reduction_is_by_thread(in->op));
  if (!each || (known && op_has(in->op, ATTR_into))) return true;
  return INFER_FAIL(in, E0318, "`each` of `%s` must be `wave` or `thread`, with `into`",
                    infer_name(in));
}

/* Parts along a new dimension, the last. Those of waves have no initial value: it is applied when they are
 * combined. */
static bool reduce_into(Infer *in, const Type *want) {
  const Sym *into = op_attr(in->op, ATTR_into)->sym, *dims[IR_MAX_RANK];
  bool may_start = op_combines(in->op->kind) || reduction_is_by_thread(in->op);
  if (in->op->nargs > 1 && !may_start)
    return INFER_FAIL(in, E0317, "`%s` with `into` takes no initial value", infer_name(in));
  if (infer_has_dim(want, into) || want->rank == IR_MAX_RANK)
    return INFER_FAIL(in, E0308, "`%s` of %s cannot produce partial results along `%s`",
                      infer_name(in), infer_shown(in, infer_arg(in, 0)), infer_expr(in, into));
  for (int i = 0; i < want->rank; i++) dims[i] = want->dims[i];
  dims[want->rank] = into;
  const Type *parts = type_tile(in->k->cx, dims, want->rank + 1, want->dtype);
  if (reduction_is_by_thread(in->op) && !check_init(in, parts)) return false;
  return infer_result(in, parts);
}

/* A truth value for each element along `dim`, or for each element. */
static bool check_exists(const Infer *in, int i, const Sym *dim) {
  if (in->op->nargs <= i) return true;
  const Type *t = infer_arg(in, i);
  if (t->kind == TYPE_tile && t->dtype == DTYPE_i1 && infer_has_dim(t, dim) &&
      infer_covers(infer_arg(in, 0), t))
    return true;
  return INFER_FAIL(in, E0311, "the existence mask of `%s` is %s, expected i1 along `%s`",
                    infer_name(in), infer_shown(in, t), infer_expr(in, dim));
}

static bool check_combine(const Infer *in, const Sym *dim) {
  if (!op_combines(in->op->kind)) return true;
  return combine_check(in->k, in->op) && check_exists(in, op_has(in->op, ATTR_into) ? 1 : 2, dim);
}

bool rule_reduce(Infer *in) {
  const Sym *dim = infer_need_value(in, 0) ? worked_dim(in) : NULL;
  if (!dim || !check_combine(in, dim) || !check_each(in)) return false;
  const Type *want = infer_without_dim(in, infer_arg(in, 0), dim);
  if (op_has(in->op, ATTR_into)) return want && reduce_into(in, want);
  return want && check_init(in, want) && infer_result(in, want);
}

bool rule_scan(Infer *in) {
  const Sym *dim = infer_need_value(in, 0) ? worked_dim(in) : NULL;
  return dim && check_combine(in, dim) &&
         check_init(in, infer_without_dim(in, infer_arg(in, 0), dim)) &&
         infer_result(in, infer_arg(in, 0));
}

bool rule_topk(Infer *in) {
  const Sym *dim = infer_need_value(in, 0) ? worked_dim(in) : NULL;
  const Attr *k_dim = op_attr(in->op, ATTR_k_dim);
  if (!dim) return false;
  if (!k_dim) return INFER_FAIL(in, E0318, "`topk` needs `k_dim`, the dimension of its results");
  const Type *t = infer_arg(in, 0);
  const Sym *dims[IR_MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i] == dim ? k_dim->sym : t->dims[i];
  in->out[0] = type_tile(in->k->cx, dims, t->rank, t->dtype);
  in->out[1] = type_tile(in->k->cx, dims, t->rank, DTYPE_i32);
  return in->out[0] && in->out[1];
}
