/* infer.c: the result types of every op, from its operands and attributes (language.md 4). One
 * function per rule of infer.h; each reports what was found and what was expected. Long because
 * there are many; those of one lane's program are in infer_thread.c. */
#include "ir/infer.h"

#include <string.h>

#include "ir/access.h"
#include "ir/alloc_layout.h"
#include "ir/attr.h"
#include "ir/combine.h"
#include "ir/dtype.h"

#define FAIL INFER_FAIL
#define FAIL_VOID(in, code, ...)                                                                   \
  ((void)diag_add(&(in)->k->cx->diags, DIAG_##code, (in)->op->at, __VA_ARGS__))
#define FAIL_HINT INFER_FAIL_HINT

#define name_of infer_name
#define shown infer_shown
#define arg infer_arg
#define result infer_result
#define need_value infer_need_value
#define need_memory infer_need_memory
#define need_class infer_need_class

static DTypeClass class_of(const Type *t) { return dtype_info[t->dtype].class; }
static bool is_float(const Type *t) { return class_of(t) == DTYPE_FLOAT; }
static bool is_integral(const Type *t) { return class_of(t) != DTYPE_FLOAT; }

bool need_value(const Infer *in, int i) {
  if (type_is_value(arg(in, i))) return true;
  return FAIL_HINT(in, E0310, "read memory first",
                   "operand %d of `%s` is %s, expected a register value", i + 1, name_of(in),
                   shown(in, arg(in, i)));
}

static bool need_values(const Infer *in, int from, int to) {
  for (int i = from; i < to; i++)
    if (!need_value(in, i)) return false;
  return true;
}

bool need_memory(const Infer *in, int i) {
  if (arg(in, i)->kind == TYPE_mem) return true;
  return FAIL(in, E0310, "operand %d of `%s` is %s, expected memory", i + 1, name_of(in),
              shown(in, arg(in, i)));
}

bool need_class(const Infer *in, int i, bool fits, const char *wanted) {
  if (fits) return true;
  return FAIL(in, E0311, "`%s` takes %s, but operand %d is %s", name_of(in), wanted, i + 1,
              shown(in, arg(in, i)));
}

/* ---- shapes ---- */

static bool has_exact_dim(const Type *t, const Sym *dim) {
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] == dim) return true;
  return false;
}

static int common_dims(const Type *a, const Type *b) {
  int n = 0;
  for (int i = 0; i < a->rank; i++) n += has_exact_dim(b, a->dims[i]);
  return n;
}

/* A scalar is covered by anything, a vec by one of its length, a tile by its dimensions. */
static bool covers(const Type *big, const Type *small) {
  if (small->kind == TYPE_vec) return big->kind == TYPE_vec && big->n == small->n;
  return common_dims(small, big) == small->rank;
}

/* All dims of both: those of the larger shape (the second of two equal ones), then the others. */
static const Type *union_shape(const Infer *in, const Type *a, const Type *b) {
  const Type *first = a->rank > b->rank ? a : b, *other = first == a ? b : a;
  const Sym *dims[2 * IR_MAX_RANK];
  int n = 0;
  for (int i = 0; i < first->rank; i++) dims[n++] = first->dims[i];
  for (int i = 0; i < other->rank; i++)
    if (!has_exact_dim(first, other->dims[i])) dims[n++] = other->dims[i];
  const Type *t = type_tile(in->k->cx, dims, n, a->dtype);
  if (!t)
    FAIL_VOID(in, E0319, "`%s` of %s and %s has no valid shape", name_of(in), shown(in, a),
              shown(in, b));
  return t;
}

/* The shape of an elementwise result: missing dims are broadcast, but two shapes must have one in
 * common; of two orders of the same dims the second operand's wins. NULL after reporting. */
static const Type *joined_shape(const Infer *in, const Type *a, const Type *b) {
  if (covers(a, b) && (a->rank > b->rank || a->n > b->n)) return a;
  if (covers(b, a)) return b;
  if (common_dims(a, b)) return union_shape(in, a, b);
  const char *wrong =
      a->n && b->n ? "the numbers of registers differ" : "the shapes have no dimension in common";
  bool known = FAIL_HINT(in, E0302, "broadcast both to a shape that has all the dimensions",
                         "`%s` of %s and %s: %s", name_of(in), shown(in, a), shown(in, b), wrong);
  return known ? a : NULL;
}

static bool same_dtype(const Infer *in, int i, int j) {
  if (arg(in, i)->dtype == arg(in, j)->dtype) return true;
  return FAIL_HINT(in, E0301, "dtypes are never promoted: use `cast` on one of them",
                   "`%s` of %s and %s: the dtypes differ", name_of(in), shown(in, arg(in, i)),
                   shown(in, arg(in, j)));
}

static const Type *typed(const Infer *in, const Type *shape, DType dtype) {
  return shape->kind == TYPE_vec ? type_vec(in->k->cx, shape->n, dtype)
                                 : type_tile(in->k->cx, shape->dims, shape->rank, dtype);
}

static const Type *without_dim(const Infer *in, const Type *t, const Sym *dim) {
  const Sym *dims[IR_MAX_RANK];
  int n = 0;
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] != dim) dims[n++] = t->dims[i];
  return type_tile(in->k->cx, dims, n, t->dtype);
}

/* ---- rules: types written by the author ---- */

static bool need_given(const Infer *in) {
  if (in->given) return true;
  return FAIL(in, E0316, "`%s` needs a result type", name_of(in));
}

static bool rule_given_tile(Infer *in) {
  if (!need_given(in)) return false;
  if (!type_is_value(in->given))
    return FAIL(in, E0316, "`%s` makes a tile, not %s", name_of(in), shown(in, in->given));
  return result(in, in->given);
}

static bool rule_given_scalar(Infer *in) {
  if (!need_given(in)) return false;
  if (in->given->kind != TYPE_scalar)
    return FAIL(in, E0316, "`%s` makes a scalar, not %s", name_of(in), shown(in, in->given));
  return result(in, in->given);
}

static bool rule_given_mem(Infer *in) {
  if (!need_given(in)) return false;
  if (in->given->kind != TYPE_mem)
    return FAIL(in, E0316, "`%s` makes memory, not %s", name_of(in), shown(in, in->given));
  const Attr *physical = op_attr(in->op, ATTR_physical);
  if (physical && physical->n != in->given->rank)
    return FAIL(in, E0304, "allocation of %s has %d physical extents", shown(in, in->given),
                physical->n);
  const char *wrong = alloc_layout_mistake(in->op, in->given);
  if (wrong) return FAIL(in, E0318, "allocation of %s: %s", shown(in, in->given), wrong);
  return result(in, in->given);
}

/* A tile over the op's dimension alone. */
static bool rule_self_index(Infer *in) {
  const Sym *dim = op_attr(in->op, ATTR_dim)->sym;
  if (!rule_given_tile(in)) return false;
  bool right = in->op->kind != OP_exists || in->given->dtype == DTYPE_i1;
  if (right && in->given->rank == 1 && in->given->dims[0] == dim) return true;
  return FAIL(in, E0316, "`%s` of `%s` is a tile%s over it alone, not %s", name_of(in),
              infer_expr(in, dim), in->op->kind == OP_exists ? " of i1" : "", shown(in, in->given));
}

/* cast and bitcast take a bare dtype as well: the shape follows from the operand. */
static bool rule_cast(Infer *in) {
  if (!need_given(in) || !need_value(in, 0)) return false;
  const Type *want = type_with_dtype(in->k->cx, arg(in, 0), in->given->dtype);
  bool shaped = in->given->rank || in->given->kind == TYPE_vec; /* else a bare dtype */
  if (shaped && want != in->given)
    return FAIL(in, E0316, "`cast` keeps the shape: %s cannot become %s", shown(in, arg(in, 0)),
                shown(in, in->given));
  return result(in, want);
}

/* What one lane holds is cut anew, into as many bits. */
static bool bitcast_vec(Infer *in) {
  const Type *from = arg(in, 0), *to = in->given;
  int bits = from->n * dtype_info[from->dtype].bits, each = dtype_info[to->dtype].bits;
  int n = to->kind == TYPE_vec || bits % each ? to->n : bits / each;
  if (n * each == bits) return result(in, type_vec(in->k->cx, n, to->dtype));
  return FAIL(in, E0307, "`bitcast` of %s (%d bits) to %s (%d bits)", shown(in, from), bits,
              shown(in, to), to->n * each);
}

static bool rule_bitcast(Infer *in) {
  if (!need_given(in) || !need_value(in, 0)) return false;
  const Type *from = arg(in, 0);
  if (in->k->level == LEVEL_THREAD) return bitcast_vec(in);
  int src = dtype_info[from->dtype].bits, dst = dtype_info[in->given->dtype].bits;
  if (src % dst)
    return FAIL_HINT(in, E0307, "`cast` converts values; `bitcast` only splits elements",
                     "`bitcast` from %s (%d bits) to %s (%d bits): the first must be a multiple",
                     dtype_info[from->dtype].name, src, dtype_info[in->given->dtype].name, dst);
  if (!from->rank && src != dst) return FAIL(in, E0307, "a scalar cannot be split by `bitcast`");
  const Sym *dims[IR_MAX_RANK];
  for (int i = 0; i < from->rank; i++) dims[i] = from->dims[i];
  if (from->rank)
    dims[from->rank - 1] =
        sym_mul(in->k->cx->sym, dims[from->rank - 1], sym_int(in->k->cx->sym, src / dst));
  const Type *want = type_tile(in->k->cx, dims, from->rank, in->given->dtype);
  if (want && in->given->rank && in->given != want)
    return FAIL(in, E0316, "`bitcast` of %s gives %s, not %s", shown(in, from), shown(in, want),
                shown(in, in->given));
  return result(in, want);
}

static bool rule_broadcast(Infer *in) {
  if (!rule_given_tile(in) || !need_value(in, 0)) return false;
  const Type *from = arg(in, 0);
  if (from->dtype != in->given->dtype)
    return FAIL(in, E0301, "`broadcast` keeps the dtype: %s cannot become %s", shown(in, from),
                shown(in, in->given));
  if (!covers(in->given, from))
    return FAIL_HINT(in, E0305, "the target names every dimension of the operand",
                     "`broadcast` of %s to %s: the target lacks a dimension", shown(in, from),
                     shown(in, in->given));
  return true;
}

/* One dimension is counted in finer units. */
static bool rule_repeat(Infer *in) {
  if (!rule_given_tile(in) || !need_value(in, 0)) return false;
  const Type *from = arg(in, 0), *to = in->given;
  int finer = 0, other = from->dtype != to->dtype || from->rank != to->rank;
  for (int i = 0; !other && i < to->rank; i++) {
    if (from->dims[i] == to->dims[i]) continue;
    if (dim_ratio(to->dims[i], from->dims[i])) finer++;
    else other++;
  }
  if (finer == 1 && !other) return true;
  return FAIL_HINT(in, E0306, "from `K/32` to `K`, each element 32 times",
                   "`repeat` of %s to %s: one dimension must be a whole multiple, the others alike",
                   shown(in, from), shown(in, to));
}

static bool rule_squeeze(Infer *in) {
  if (!rule_given_tile(in) || !need_value(in, 0)) return false;
  const Type *from = arg(in, 0);
  if (from->dtype == in->given->dtype && from->rank > in->given->rank && covers(from, in->given))
    return true;
  return FAIL(in, E0306, "`squeeze` of %s to %s: the target has other dimensions", shown(in, from),
              shown(in, in->given));
}

static bool rule_permute(Infer *in) {
  if (!rule_given_tile(in) || !need_value(in, 0)) return false;
  const Type *from = arg(in, 0);
  if (from->dtype == in->given->dtype && from->rank == in->given->rank && covers(in->given, from))
    return true;
  return FAIL_HINT(in, E0306, "list the same dimensions in another order",
                   "`permute` of %s to %s: the target is not a permutation", shown(in, from),
                   shown(in, in->given));
}

/* ---- rules: contraction ---- */

/* The vector shape a kernel declares for a dimension; -1: none, or not a number yet. */
static int64_t vector_extent(const Kernel *k, const Sym *dim) {
  const Constraint *hardware = kernel_constraint(k, CONSTRAINT_hardware, NULL);
  const Sym *v = hardware ? pairs_get(hardware->pairs, dim_base(dim)) : NULL;
  int64_t extent;
  return v && sym_is_int(v, &extent) ? extent : -1;
}

static bool is_batch(const Kernel *k, const Sym *dim) { return vector_extent(k, dim) == 0; }

bool ir_one_at_a_time(const Kernel *k, const Sym *dim) {
  const Constraint *tile = kernel_constraint(k, CONSTRAINT_tile, dim_base(dim));
  int64_t extent = vector_extent(k, dim), size;
  if (extent == 0 || extent == 1) return true;
  return tile && (!tile->size || (sym_is_int(tile->size, &size) && size == 1));
}

/* k: in lhs and rhs, not in acc; of several candidates those that are batch dimensions drop out. */
static int contracted(Kernel *k, const Type *lhs, const Type *rhs, const Type *acc, bool skip_batch,
                      const Sym **out) {
  int n = 0;
  for (int i = 0; i < lhs->rank; i++) {
    const Sym *d = dim_base(lhs->dims[i]);
    if (!type_has_dim(rhs, d) || type_has_dim(acc, d) || (skip_batch && is_batch(k, d))) continue;
    *out = d;
    n++;
  }
  return n;
}

const char *ir_mma_roles(Kernel *k, const Type *lhs, const Type *rhs, const Type *acc,
                         MmaRoles *out) {
  if (acc->rank < 2) return "the accumulator needs two dimensions, rows and columns";
  out->m = acc->dims[acc->rank - 2];
  out->n = acc->dims[acc->rank - 1];
  int n = contracted(k, lhs, rhs, acc, false, &out->k);
  if (n > 1) n = contracted(k, lhs, rhs, acc, true, &out->k);
  if (n == 0) return "no dimension is shared by lhs and rhs but not by the accumulator";
  if (n > 1) return "more than one dimension is shared by lhs and rhs but not by the accumulator";
  if (!type_has_dim(lhs, out->m)) return "lhs lacks the rows of the accumulator";
  if (!type_has_dim(rhs, out->n)) return "rhs lacks the columns of the accumulator";
  return NULL;
}

static bool check_roles(const Infer *in, int lhs, int rhs, int acc) {
  MmaRoles roles;
  const char *wrong = ir_mma_roles(in->k, arg(in, lhs), arg(in, rhs), arg(in, acc), &roles);
  if (!wrong) return true;
  return FAIL_HINT(in, E0303, "lhs is [rows, k], rhs is [columns, k], acc is [rows, columns]",
                   "`%s` of %s, %s and %s: %s", name_of(in), shown(in, arg(in, lhs)),
                   shown(in, arg(in, rhs)), shown(in, arg(in, acc)), wrong);
}

static bool small_floats(const Type *a, const Type *b) {
  return is_float(a) && is_float(b) && dtype_info[a->dtype].bits <= 8 &&
         dtype_info[b->dtype].bits <= 8;
}

static bool check_mma_dtypes(const Infer *in, int lhs, int rhs, int acc) {
  const Type *a = arg(in, lhs), *b = arg(in, rhs), *c = arg(in, acc);
  if (a->dtype != b->dtype && !small_floats(a, b)) return same_dtype(in, lhs, rhs);
  bool counts = dtype_is_unsigned(a->dtype) || dtype_is_unsigned(c->dtype);
  if (counts)
    return FAIL_HINT(in, E0301, "`cast` to i8 (or i32)",
                     "`%s` has no products of unsigned integers", name_of(in));
  if (is_float(a) == is_float(c) && class_of(a) != DTYPE_BOOL && class_of(c) != DTYPE_BOOL)
    return true;
  return FAIL(in, E0301, "`%s` cannot add products of %s into %s", name_of(in),
              dtype_info[a->dtype].name, dtype_info[c->dtype].name);
}

static bool rule_mma(Infer *in) {
  return need_values(in, 0, 3) && check_roles(in, 0, 1, 2) && check_mma_dtypes(in, 0, 1, 2) &&
         result(in, arg(in, 2));
}

int ir_scale_block(Kernel *k, const Op *op, int operand) {
  MmaRoles roles;
  const Type *t = op->args[operand]->type, *s = op->args[operand + 1]->type;
  if (ir_mma_roles(k, op->args[0]->type, op->args[2]->type, op->args[4]->type, &roles)) return 0;
  int fine = type_base_dim(t, roles.k), coarse = type_base_dim(s, roles.k);
  return fine < 0 || coarse < 0 ? 0 : dim_ratio(t->dims[fine], s->dims[coarse]);
}

/* A product of two floats of 8 bits is exact in the types that machines compute in. */
static bool check_scale(const Infer *in, int operand) {
  const Type *t = arg(in, operand), *s = arg(in, operand + 1);
  if (!small_floats(t, s))
    return FAIL_HINT(in, E0301, "`bitcast` bytes to what they hold, or multiply and use `mma`",
                     "`%s` of %s with scales %s: both must be floats of at most 8 bits",
                     name_of(in), shown(in, t), shown(in, s));
  if (ir_scale_block(in->k, in->op, operand)) return true;
  return FAIL_HINT(in, E0303, "for one scale per 32 elements along `K`, the scales have `K/32`",
                   "`%s` of %s with scales %s: the elements of k do not fall into whole blocks",
                   name_of(in), shown(in, t), shown(in, s));
}

static bool rule_scaled_mma(Infer *in) {
  return need_values(in, 0, 5) && check_roles(in, 0, 2, 4) && check_roles(in, 1, 3, 4) &&
         check_scale(in, 0) && check_scale(in, 2) && check_mma_dtypes(in, 0, 2, 4) &&
         result(in, arg(in, 4));
}

/* ---- rules: elementwise ---- */

static bool binary(Infer *in, const DType *dtype) {
  if (!need_values(in, 0, 2) || !same_dtype(in, 0, 1)) return false;
  const Type *shape = joined_shape(in, arg(in, 0), arg(in, 1));
  return shape && result(in, typed(in, shape, dtype ? *dtype : arg(in, 0)->dtype));
}

static bool rule_binary(Infer *in) { return binary(in, NULL); }

static bool rule_binary_int(Infer *in) {
  return need_values(in, 0, 2) &&
         need_class(in, 0, is_integral(arg(in, 0)), "integers or truth values") && binary(in, NULL);
}

static bool rule_binary_float(Infer *in) {
  return need_values(in, 0, 2) && need_class(in, 0, is_float(arg(in, 0)), "floats") &&
         binary(in, NULL);
}

static bool rule_shift(Infer *in) {
  if (!need_values(in, 0, 2)) return false;
  bool fits = is_integral(arg(in, 0)) && class_of(arg(in, 0)) != DTYPE_BOOL;
  return need_class(in, 0, fits, "integers") && binary(in, NULL);
}

static bool rule_compare(Infer *in) {
  DType truth = DTYPE_i1;
  return binary(in, &truth);
}

static bool rule_unary(Infer *in) {
  return need_value(in, 0) && need_class(in, 0, class_of(arg(in, 0)) != DTYPE_BOOL, "numbers") &&
         result(in, arg(in, 0));
}

static bool rule_unary_int(Infer *in) {
  return need_value(in, 0) &&
         need_class(in, 0, is_integral(arg(in, 0)), "integers or truth values") &&
         result(in, arg(in, 0));
}

static bool rule_unary_float(Infer *in) {
  return need_value(in, 0) && need_class(in, 0, is_float(arg(in, 0)), "floats") &&
         result(in, arg(in, 0));
}

static bool rule_test_float(Infer *in) {
  return need_value(in, 0) && need_class(in, 0, is_float(arg(in, 0)), "floats") &&
         result(in, typed(in, arg(in, 0), DTYPE_i1));
}

static bool rule_select(Infer *in) {
  if (!need_values(in, 0, 3)) return false;
  if (arg(in, 0)->dtype != DTYPE_i1)
    return FAIL_HINT(in, E0312, "compare first, or `cast` to i1",
                     "the condition of `select` is %s, expected dtype i1", shown(in, arg(in, 0)));
  if (!same_dtype(in, 1, 2)) return false;
  const Type *shape = joined_shape(in, arg(in, 1), arg(in, 2));
  if (shape) shape = joined_shape(in, arg(in, 0), shape);
  return shape && result(in, typed(in, shape, arg(in, 1)->dtype));
}

static bool rule_apply(Infer *in) {
  for (int i = 0; i < in->op->nargs; i++) {
    if (!need_value(in, i) ||
        !need_class(in, i, is_integral(arg(in, i)), "integers or truth values"))
      return false;
    if (arg(in, i) != arg(in, 0))
      return FAIL(in, E0301, "the operands of `apply_expr` must have one type, not %s and %s",
                  shown(in, arg(in, 0)), shown(in, arg(in, i)));
  }
  const Attr *e = op_attr(in->op, ATTR_expr);
  if (!e) return FAIL(in, E0318, "`apply_expr` needs an expression");
  return result(in, sym_is_bool(e->sym) ? typed(in, arg(in, 0), DTYPE_i1) : arg(in, 0));
}

static bool rule_same(Infer *in) { return need_value(in, 0) && result(in, arg(in, 0)); }

static bool rule_extract(Infer *in) {
  if (!need_value(in, 0)) return false;
  const Type *t = arg(in, 0);
  return result(in, t->rank > 1 ? without_dim(in, t, t->dims[t->rank - 1]) : t);
}

/* ---- rules: reductions ---- */

/* The dimension worked along: `dim`, or the last one. NULL after reporting. */
static const Sym *worked_dim(const Infer *in) {
  const Type *t = arg(in, 0);
  const Attr *a = op_attr(in->op, ATTR_dim);
  if (a && has_exact_dim(t, a->sym)) return a->sym;
  const char *hint = "give `dim` a dimension of the operand";
  bool known =
      a ? FAIL_HINT(in, E0308, hint, "`%s` along `%s`, which %s does not have", name_of(in),
                    infer_expr(in, a->sym), shown(in, t))
        : FAIL_HINT(in, E0308, hint, "`%s` needs the dimension to work along", name_of(in));
  return known ? a->sym : NULL;
}

/* With a function of the author there is one always, and a number will do for all rows. */
static bool check_init(const Infer *in, const Type *want) {
  bool combines = op_combines(in->op->kind);
  if (in->op->nargs < 2 && combines)
    return FAIL(in, E0309, "`%s` needs an initial value: the result where no element exists",
                name_of(in));
  if (in->op->nargs < 2) return true;
  if (!need_value(in, 1)) return false;
  const Type *init = arg(in, 1);
  if (combines && init->kind == TYPE_scalar && init->dtype == want->dtype) return true;
  if (init->dtype == want->dtype && init->rank == want->rank && covers(want, init)) return true;
  return FAIL(in, E0317, "the initial value of `%s` is %s, expected %s", name_of(in),
              shown(in, init), shown(in, want));
}

/* Parts along a new dimension, the last. What they are combined with comes when they are. */
static bool reduce_into(Infer *in, const Type *want) {
  const Sym *into = op_attr(in->op, ATTR_into)->sym, *dims[IR_MAX_RANK];
  if (in->op->nargs > 1 && !op_combines(in->op->kind))
    return FAIL(in, E0317, "`%s` into parts takes no initial value", name_of(in));
  if (has_exact_dim(want, into) || want->rank == IR_MAX_RANK)
    return FAIL(in, E0308, "`%s` of %s cannot have parts along `%s`", name_of(in),
                shown(in, arg(in, 0)), infer_expr(in, into));
  for (int i = 0; i < want->rank; i++) dims[i] = want->dims[i];
  dims[want->rank] = into;
  return result(in, type_tile(in->k->cx, dims, want->rank + 1, want->dtype));
}

/* A truth value for each element along `dim`, or for each element. */
static bool check_exists(const Infer *in, int i, const Sym *dim) {
  if (in->op->nargs <= i) return true;
  const Type *t = arg(in, i);
  if (t->kind == TYPE_tile && t->dtype == DTYPE_i1 && has_exact_dim(t, dim) &&
      covers(arg(in, 0), t))
    return true;
  return FAIL(in, E0311,
              "`%s` is told by %s which elements exist, expected truth values along `%s`",
              name_of(in), shown(in, t), infer_expr(in, dim));
}

static bool check_combine(const Infer *in, const Sym *dim) {
  if (!op_combines(in->op->kind)) return true;
  return combine_check(in->k, in->op) && check_exists(in, op_has(in->op, ATTR_into) ? 1 : 2, dim);
}

static bool rule_reduce(Infer *in) {
  const Sym *dim = need_value(in, 0) ? worked_dim(in) : NULL;
  if (!dim || !check_combine(in, dim)) return false;
  const Type *want = without_dim(in, arg(in, 0), dim);
  if (op_has(in->op, ATTR_into)) return want && reduce_into(in, want);
  return want && check_init(in, want) && result(in, want);
}

static bool rule_scan(Infer *in) {
  const Sym *dim = need_value(in, 0) ? worked_dim(in) : NULL;
  return dim && check_combine(in, dim) && check_init(in, without_dim(in, arg(in, 0), dim)) &&
         result(in, arg(in, 0));
}

static bool rule_topk(Infer *in) {
  const Sym *dim = need_value(in, 0) ? worked_dim(in) : NULL;
  const Attr *k_dim = op_attr(in->op, ATTR_k_dim);
  if (!dim) return false;
  if (!k_dim) return FAIL(in, E0318, "`topk` needs the dimension of its results");
  const Type *t = arg(in, 0);
  const Sym *dims[IR_MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i] == dim ? k_dim->sym : t->dims[i];
  in->out[0] = type_tile(in->k->cx, dims, t->rank, t->dtype);
  in->out[1] = type_tile(in->k->cx, dims, t->rank, DTYPE_i32);
  return in->out[0] && in->out[1];
}

/* ---- rules: regions ---- */

static bool carried_types(Infer *in) {
  int first = op_carried(in->op);
  for (int i = first; i < in->op->nargs; i++) in->out[i - first] = arg(in, i);
  return true;
}

static bool need_integer_scalar(const Infer *in, int i, const char *what) {
  const Type *t = arg(in, i);
  if (type_is_value(t) && is_integral(t) && class_of(t) != DTYPE_BOOL) return true;
  return FAIL(in, E0311, "the %s of `%s` is %s, expected an integer", what, name_of(in),
              shown(in, t));
}

static bool rule_carry(Infer *in) {
  if (op_has(in->op, ATTR_from) && (in->op->nargs < 1 || !need_integer_scalar(in, 0, "start")))
    return false;
  return carried_types(in);
}

static bool rule_while(Infer *in) {
  if (!op_has(in->op, ATTR_expr)) return FAIL(in, E0406, "a while loop needs a condition");
  return need_integer_scalar(in, 0, "start") && carried_types(in);
}

static bool rule_if(Infer *in) {
  if (op_has(in->op, ATTR_expr)) return carried_types(in);
  if (in->op->nargs < 1) return FAIL(in, E0309, "`if` needs a condition");
  return need_value(in, 0) && need_class(in, 0, is_integral(arg(in, 0)), "a truth value") &&
         carried_types(in);
}

static bool rule_no_result(Infer *in) { return in != NULL; }

static RuleFn *const rules[RULE_COUNT] = {
    [RULE_GIVEN_TILE] = rule_given_tile,
    [RULE_GIVEN_SCALAR] = rule_given_scalar,
    [RULE_GIVEN_MEM] = rule_given_mem,
    [RULE_SELF_INDEX] = rule_self_index,
    [RULE_APPLY] = rule_apply,
    [RULE_NO_RESULT] = rule_no_result,
    [RULE_READ] = rule_read,
    [RULE_INSIDE] = rule_inside,
    [RULE_WRITE] = rule_write,
    [RULE_LOG] = rule_log,
    [RULE_ATOMIC] = rule_atomic,
    [RULE_SCATTER] = rule_scatter,
    [RULE_REPORT] = rule_report,
    [RULE_COPY] = rule_copy,
    [RULE_MMA] = rule_mma,
    [RULE_SCALED_MMA] = rule_scaled_mma,
    [RULE_BINARY] = rule_binary,
    [RULE_BINARY_INT] = rule_binary_int,
    [RULE_BINARY_FLOAT] = rule_binary_float,
    [RULE_SHIFT] = rule_shift,
    [RULE_COMPARE] = rule_compare,
    [RULE_UNARY] = rule_unary,
    [RULE_UNARY_INT] = rule_unary_int,
    [RULE_UNARY_FLOAT] = rule_unary_float,
    [RULE_TEST_FLOAT] = rule_test_float,
    [RULE_SELECT] = rule_select,
    [RULE_CAST] = rule_cast,
    [RULE_BITCAST] = rule_bitcast,
    [RULE_BROADCAST] = rule_broadcast,
    [RULE_REPEAT] = rule_repeat,
    [RULE_PERMUTE] = rule_permute,
    [RULE_SQUEEZE] = rule_squeeze,
    [RULE_INLINE] = rule_inline,
    [RULE_EXTRACT] = rule_extract,
    [RULE_SAME] = rule_same,
    [RULE_REDUCE] = rule_reduce,
    [RULE_SCAN] = rule_scan,
    [RULE_TOPK] = rule_topk,
    [RULE_CARRY] = rule_carry,
    [RULE_WHILE] = rule_while,
    [RULE_IF] = rule_if,
    [RULE_LANE_EXPR] = rule_lane_expr,
    [RULE_SPLAT] = rule_splat,
    [RULE_JOIN] = rule_join,
    [RULE_PICK] = rule_pick,
    [RULE_SHUFFLE] = rule_shuffle,
    [RULE_SHUFFLE_IDX] = rule_shuffle_idx,
    [RULE_LOAD] = rule_load,
    [RULE_STORE] = rule_store,
    [RULE_LOAD_ROWS] = rule_load_rows,
    [RULE_STORE_ROWS] = rule_store_rows,
    [RULE_PREFETCH] = rule_prefetch,
    [RULE_LDMATRIX] = rule_ldmatrix,
    [RULE_STMATRIX] = rule_stmatrix,
    [RULE_LANE_ATOMIC] = rule_lane_atomic,
    [RULE_WAVE_MMA] = rule_wave_mma,
    [RULE_BARRIER] = rule_barrier,
    [RULE_WAVE_REGISTERS] = rule_wave_registers,
    [RULE_MBAR] = rule_mbar,
    [RULE_COPY_ASYNC] = rule_copy_async,
    [RULE_TMA_LOAD] = rule_tma_load,
    [RULE_TMA_STORE] = rule_tma_store,
    [RULE_WGMMA] = rule_wgmma,
};

static bool check_ept(const Infer *in) {
  const Attr *ept = op_attr(in->op, ATTR_ept);
  int64_t n;
  if (!ept || !ept->sym || !sym_is_int(ept->sym, &n) || n > 0) return true;
  return FAIL_HINT(in, E0318, "leave it out: the compiler chooses",
                   "`%s` with %lld elements per thread", name_of(in), (long long)n);
}

bool ir_infer(Kernel *k, const Op *op, const Type *given, const Type **out) {
  Infer in = {k, op, given, out};
  bool tile = given && given->kind == TYPE_tile, vec = given && given->kind == TYPE_vec;
  if (k->level == LEVEL_THREAD ? tile : vec)
    return FAIL(&in, E0409, "%s cannot stand at %s level", shown(&in, given),
                tile ? "THREAD" : "TILE");
  return check_ept(&in) && rules[op_info[op->kind].rule](&in);
}
