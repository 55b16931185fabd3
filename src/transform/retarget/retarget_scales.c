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

/* ---- runs ---- */
typedef struct Runs {
  Digits order;
  bool lane[LAYOUT_DIGITS]; /* the digit counts lanes; otherwise registers */
} Runs;

static bool push(Runs *r, int radix, bool lane) {
  if (radix == 1) return true;
  if (r->order.n == LAYOUT_DIGITS) return false;
  r->lane[r->order.n] = lane;
  r->order.at[r->order.n++] = (Digit){0, radix, 0};
  return true;
}

/* The digit of the fragment that moves by `stride` along k. */
static const Digit *digit_at(const Layout *l, int stride, bool *lane) {
  for (int p = LAYOUT_REG; p <= LAYOUT_LANE; p++)
    for (int i = 0; i < l->part[p].n; i++)
      if (l->part[p].at[i].dim == 1 && l->part[p].at[i].stride == stride)
        return *lane = p == LAYOUT_LANE, &l->part[p].at[i];
  return NULL;
}

/* The digits of k in the fragment and its copies; a register digit is split where a run ends. */
static bool find_digits(const MmaInfo *row, int k, int run, Runs *out) {
  Layout l;
  int held = 1; /* by a lane */
  if (k % row->k || !mma_fragment(row, MMA_A, &l)) return false;
  for (int stride = 1; stride < k;) {
    bool lane = false;
    const Digit *d = stride < row->k ? digit_at(&l, stride, &lane) : NULL;
    int radix = d ? d->radix : k / row->k, first = radix;
    if ((!d && stride < row->k) || k % (stride * radix)) return false;
    if (!lane && held < run && held * radix > run) first = run / held;
    if (radix % first || !push(out, first, lane) || !push(out, radix / first, lane)) return false;
    if (!lane) held *= radix;
    stride *= radix;
  }
  return held % run == 0;
}

/* First the digits within a run, then the lanes, then the other runs. */
static Digits in_runs(Runs *r, int run) {
  int element = 1;
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < r->order.n; i++) {
      Digit *d = &r->order.at[i];
      bool now = round == 0 ? !r->lane[i] && element < run : round == 1 ? r->lane[i] : true;
      if (d->stride || !now) continue;
      d->stride = element;
      element *= d->radix;
    }
  return r->order;
}

/* A run is what whole loads bring: 16 elements of 8 bits, 64 of 6 bits. */
Digits retarget_order_in_runs(const MmaInfo *row, int k, int bits) {
  enum { LOAD_BITS = 128 };
  int run = LOAD_BITS;
  while (bits % 2 == 0) bits /= 2, run /= 2;
  for (; run > 1; run /= 2) {
    Runs r = {0};
    if (find_digits(row, k, run, &r)) return in_runs(&r, run);
  }
  return (Digits){0};
}
