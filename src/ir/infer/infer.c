/* infer.c: the result types of every op, from its operands and attributes (docs/language.md,
 * sections 6 to 9). infer.def lists the rules, each a function of one of the infer_*.c; this file
 * has those of regions and what all rules share. */
#include "ir/infer/infer.h"

bool infer_need_value(const Infer *in, int i) {
  if (type_is_value(infer_arg(in, i))) return true;
  return INFER_FAIL_HINT(in, E0310, "read memory first",
                         "operand %d of `%s` is %s, expected a register value", i + 1,
                         infer_name(in), infer_shown(in, infer_arg(in, i)));
}

bool infer_need_values(const Infer *in, int from, int to) {
  for (int i = from; i < to; i++)
    if (!infer_need_value(in, i)) return false;
  return true;
}

bool infer_need_memory(const Infer *in, int i) {
  if (infer_arg(in, i)->kind == TYPE_mem) return true;
  return INFER_FAIL(in, E0310, "operand %d of `%s` is %s, expected memory", i + 1, infer_name(in),
                    infer_shown(in, infer_arg(in, i)));
}

bool infer_need_class(const Infer *in, int i, bool fits, const char *wanted) {
  if (fits) return true;
  return INFER_FAIL(in, E0311, "`%s` takes %s, but operand %d is %s", infer_name(in), wanted, i + 1,
                    infer_shown(in, infer_arg(in, i)));
}

/* ---- shapes ---- */
bool infer_has_dim(const Type *t, const Sym *dim) {
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] == dim) return true;
  return false;
}

int infer_common_dims(const Type *a, const Type *b) {
  int n = 0;
  for (int i = 0; i < a->rank; i++) n += infer_has_dim(b, a->dims[i]);
  return n;
}

/* A scalar is covered by anything, a vec by one of its length, a tile by one with its
 * dimensions. */
bool infer_covers(const Type *big, const Type *small) {
  if (small->kind == TYPE_vec) return big->kind == TYPE_vec && big->n == small->n;
  return infer_common_dims(small, big) == small->rank;
}

bool infer_same_dtype(const Infer *in, int i, int j) {
  if (infer_arg(in, i)->dtype == infer_arg(in, j)->dtype) return true;
  return INFER_FAIL_HINT(in, E0301, "dtypes are never promoted: use `cast` on one of them",
                         "`%s` of %s and %s: the dtypes differ", infer_name(in),
                         infer_shown(in, infer_arg(in, i)), infer_shown(in, infer_arg(in, j)));
}

const Type *infer_typed(const Infer *in, const Type *shape, DType dtype) {
  return shape->kind == TYPE_vec ? type_vec(in->k->cx, shape->n, dtype)
                                 : type_tile(in->k->cx, shape->dims, shape->rank, dtype);
}

const Type *infer_without_dim(const Infer *in, const Type *t, const Sym *dim) {
  const Sym *dims[IR_MAX_RANK];
  int n = 0;
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] != dim) dims[n++] = t->dims[i];
  return type_tile(in->k->cx, dims, n, t->dtype);
}

/* ---- regions ---- */

static bool carried_types(Infer *in) {
  int first = op_carried(in->op);
  for (int i = first; i < in->op->nargs; i++) in->out[i - first] = infer_arg(in, i);
  return true;
}

static bool need_integer_scalar(const Infer *in, int i, const char *what) {
  const Type *t = infer_arg(in, i);
  if (type_is_value(t) && infer_is_integral(t) && infer_class(t) != DTYPE_BOOL) return true;
  return INFER_FAIL(in, E0311, "the %s of `%s` is %s, expected an integer", what, infer_name(in),
                    infer_shown(in, t));
}

bool rule_carry(Infer *in) {
  if (op_has(in->op, ATTR_from) && (in->op->nargs < 1 || !need_integer_scalar(in, 0, "start")))
    return false;
  return carried_types(in);
}

bool rule_while(Infer *in) {
  if (!op_has(in->op, ATTR_expr)) return INFER_FAIL(in, E0406, "a while loop needs a condition");
  return need_integer_scalar(in, 0, "start") && carried_types(in);
}

bool rule_if(Infer *in) {
  if (op_has(in->op, ATTR_expr)) return carried_types(in);
  if (in->op->nargs < 1) return INFER_FAIL(in, E0309, "`if` needs a condition");
  return infer_need_value(in, 0) &&
         infer_need_class(in, 0, infer_is_integral(infer_arg(in, 0)), "a boolean (i1)") &&
         carried_types(in);
}

bool rule_no_result(Infer *in) { return in != NULL; }

/* ---- every rule ---- */

static RuleFn *const rules[RULE_COUNT] = {
#define RULE(name, result) [RULE_##name] = rule_##name,
#include "ir/infer/infer.def"
#undef RULE
};

bool ir_check_ept(const Kernel *k, const Op *op) {
  enum { MOST = 1 << 16 };
  const Attr *ept = op_attr(op, ATTR_ept);
  int64_t n;
  if (!ept || !ept->sym || !sym_is_int(ept->sym, &n) || (n > 0 && n <= MOST)) return true;
  Diag *d = diag_add(&k->cx->diags, DIAG_E0318, op->at,
                     "`%s` has %lld elements per thread, expected a number from 1 to %d",
                     op_info[op->kind].name, (long long)n, MOST);
  return diag_hint(&k->cx->diags, d, "omit it to let the compiler choose");
}

bool ir_infer(Kernel *k, const Op *op, const Type *given, const Type **out) {
  Infer in = {k, op, given, out};
  bool tile = given && given->kind == TYPE_tile, vec = given && given->kind == TYPE_vec;
  if (k->level == LEVEL_THREAD ? tile : vec)
    return INFER_FAIL(&in, E0409, "%s is not allowed at %s level", infer_shown(&in, given),
                      tile ? "THREAD" : "TILE");
  return ir_check_ept(k, op) && rules[op_info[op->kind].rule](&in);
}
