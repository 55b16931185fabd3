/* retarget_scales.c: rewrites products with scales as plain products (retarget_scales.h). */
#include "transform/retarget/retarget_scales.h"

/* `type` NULL: inferred from the operands. */
static Value *insert(Kernel *k, Op *before, OpKind kind, Value *const *args, int nargs,
                     const Type *type) {
  Op *op = ir_op_new(k, kind, before->at, args, nargs);
  bool known = type || ir_infer(k, op, NULL, &type);
  WV_ASSERT(known); /* the rule of `scaled_mma` requires more than this */
  ir_set_results(k, op, &type, 1);
  ir_insert_before(before, op);
  return &op->results[0];
}

static Value *cast_to(Kernel *k, Op *before, Value *v, DType type) {
  if (v->type->dtype == type) return v;
  return insert(k, before, OP_cast, &v, 1, type_with_dtype(k->cx, v->type, type));
}

/* Repeats the scales, one for each element of `like`. */
static Value *repeat_scales(Kernel *k, Op *before, Value *scale, const Type *like, const Sym *dim) {
  const Type *t = scale->type;
  const Sym *dims[IR_MAX_RANK];
  int along = type_base_dim(t, dim);
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i];
  dims[along] = like->dims[type_base_dim(like, dim)];
  if (dims[along] == t->dims[along]) return scale;
  return insert(k, before, OP_repeat, &scale, 1, type_tile(k->cx, dims, t->rank, t->dtype));
}

/* The operand is the second factor: the product then has its dims in its order, if it has them
 * all. */
static Value *scaled_operand(Kernel *k, Op *op, int i, DType type, const Sym *dim) {
  Value *v = cast_to(k, op, op->args[i], type), *scale = cast_to(k, op, op->args[i + 1], type);
  Value *args[] = {repeat_scales(k, op, scale, v->type, dim), v};
  return insert(k, op, OP_mul, args, 2, NULL);
}

void retarget_apply_scales(Kernel *k, Op *op, DType type, const TargetInfo *target) {
  Product p;
  Diags *diags = &k->cx->diags;
  const char *wrong = product_of(k, op, &p);
  WV_ASSERT(!wrong); /* the verifier has checked this */
  diag_add(diags, DIAG_R0611, op->at,
           "%s has no mma of %s and %s with one scale per %d and %d elements: operands are "
           "multiplied by their scales first, as %s",
           target->name, dtype_info[p.lhs->type->dtype].name, dtype_info[p.rhs->type->dtype].name,
           ir_scale_block(k, op, 0), ir_scale_block(k, op, 2), dtype_info[type].name);
  Value **args = ARENA_ARRAY(k->arena, Value *, 3);
  args[0] = scaled_operand(k, op, 0, type, p.roles.k);
  args[1] = scaled_operand(k, op, product_rhs(op), type, p.roles.k);
  args[2] = p.acc;
  op->kind = OP_mma, op->args = args, op->nargs = 3;
  op_drop_attr(op, ATTR_mma);
}
