/* infer_mma.c: the rules of matmuls, and which dimensions are rows, columns and k. */
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/infer/infer.h"

/* The vector shape a kernel declares for a dimension; -1: none, or not a number yet. */
static int64_t vector_extent(const Kernel *k, const Sym *dim) {
  const HardwareSpec *hardware = kernel_hardware(k);
  const Sym *v = hardware ? pairs_get(hardware->vector, dim_base(dim)) : NULL;
  int64_t extent;
  return v && sym_is_int(v, &extent) ? extent : -1;
}

static bool is_batch(const Kernel *k, const Sym *dim) { return vector_extent(k, dim) == 0; }

bool ir_one_at_a_time(const Kernel *k, const Sym *dim) {
  const Constraint *tile = kernel_constraint(k, CONSTRAINT_tile, dim_base(dim));
  int64_t extent = vector_extent(k, dim), size;
  if (extent == 0 || extent == 1) return true;
  return tile && (!tile->tile.size || (sym_is_int(tile->tile.size, &size) && size == 1));
}

/* k: in lhs and rhs, not in acc; among several candidates, batch dimensions are dropped. */
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

bool op_is_product(const Op *op) { return op->kind == OP_mma || op->kind == OP_scaled_mma; }

const char *product_of(Kernel *k, const Op *op, Product *out) {
  int rhs = product_rhs(op);
  bool scaled = op->kind == OP_scaled_mma;
  *out = (Product){.lhs = op->args[0], .rhs = op->args[rhs], .acc = op->args[product_acc(op)]};
  if (scaled) out->lhs_scale = op->args[1], out->rhs_scale = op->args[rhs + 1];
  return ir_mma_roles(k, out->lhs->type, out->rhs->type, out->acc->type, &out->roles);
}

static bool check_roles(const Infer *in, int lhs, int rhs, int acc) {
  MmaRoles roles;
  const char *wrong =
      ir_mma_roles(in->k, infer_arg(in, lhs), infer_arg(in, rhs), infer_arg(in, acc), &roles);
  if (!wrong) return true;
  return INFER_FAIL_HINT(in, E0303, "lhs is [rows, k], rhs is [columns, k], acc is [rows, columns]",
                         "`%s` of %s, %s and %s: %s", infer_name(in),
                         infer_shown(in, infer_arg(in, lhs)), infer_shown(in, infer_arg(in, rhs)),
                         infer_shown(in, infer_arg(in, acc)), wrong);
}

static bool small_floats(const Type *a, const Type *b) {
  return infer_is_float(a) && infer_is_float(b) && dtype_info[a->dtype].bits <= 8 &&
         dtype_info[b->dtype].bits <= 8;
}

static bool check_mma_dtypes(const Infer *in, int lhs, int rhs, int acc) {
  const Type *a = infer_arg(in, lhs), *b = infer_arg(in, rhs), *c = infer_arg(in, acc);
  if (a->dtype != b->dtype && !small_floats(a, b)) return infer_same_dtype(in, lhs, rhs);
  bool counts = dtype_is_unsigned(a->dtype) || dtype_is_unsigned(c->dtype);
  if (counts)
    return INFER_FAIL_HINT(in, E0301, "`cast` to i8 (or i32)",
                           "`%s` does not support unsigned integers", infer_name(in));
  if (infer_is_float(a) == infer_is_float(c) && infer_class(a) != DTYPE_BOOL &&
      infer_class(c) != DTYPE_BOOL)
    return true;
  return INFER_FAIL(in, E0301, "`%s` cannot accumulate products of %s in %s", infer_name(in),
                    dtype_info[a->dtype].name, dtype_info[c->dtype].name);
}

static bool check_parts(const Infer *in) {
  const Attr *into = op_attr(in->op, ATTR_into);
  const Type *acc = infer_arg(in, 2);
  if (!into || (acc->rank > 2 && acc->dims[0] == into->sym)) return true;
  return INFER_FAIL(in, E0308, "`%s` in parts adds them to %s, whose first dimension is not `%s`",
                    infer_name(in), infer_shown(in, acc), infer_expr(in, into->sym));
}

bool rule_mma(Infer *in) {
  return infer_need_values(in, 0, 3) && check_roles(in, 0, 1, 2) && check_mma_dtypes(in, 0, 1, 2) &&
         check_parts(in) && infer_result(in, infer_arg(in, 2));
}

int ir_scale_block(Kernel *k, const Op *op, int operand) {
  Product p;
  const Type *t = op->args[operand]->type, *s = op->args[operand + 1]->type;
  if (product_of(k, op, &p)) return 0;
  int fine = type_base_dim(t, p.roles.k), coarse = type_base_dim(s, p.roles.k);
  return fine < 0 || coarse < 0 ? 0 : dim_ratio(t->dims[fine], s->dims[coarse]);
}

/* A product of two 8-bit floats is exact in the types that machines compute in. */
static bool check_scale(const Infer *in, int operand) {
  const Type *t = infer_arg(in, operand), *s = infer_arg(in, operand + 1);
  if (!small_floats(t, s))
    return INFER_FAIL_HINT(
        in, E0301, "`bitcast` bytes to the type they hold, or multiply by the scales and use `mma`",
        "`%s` of %s with scales %s: both must be floats of at most 8 bits", infer_name(in),
        infer_shown(in, t), infer_shown(in, s));
  if (ir_scale_block(in->k, in->op, operand)) return true;
  return INFER_FAIL_HINT(
      in, E0303, "for one scale per 32 elements along `K`, give the scales the dimension `K/32`",
      "`%s` of %s with scales %s: the scales do not divide the elements of k into equal blocks",
      infer_name(in), infer_shown(in, t), infer_shown(in, s));
}

bool rule_scaled_mma(Infer *in) {
  return infer_need_values(in, 0, 5) && check_roles(in, 0, 2, 4) && check_roles(in, 1, 3, 4) &&
         check_scale(in, 0) && check_scale(in, 2) && check_mma_dtypes(in, 0, 2, 4) &&
         infer_result(in, infer_arg(in, 4));
}
