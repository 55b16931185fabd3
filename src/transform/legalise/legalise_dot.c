/* legalise_dot.c: a dot product without a matrix instruction.
 *
 * Each lane multiplies its elements of k, including those of further copies along k, and sums them;
 * then the lanes that share a result add their sums, at distances 1, 2, 4, ... Small floats are
 * multiplied and added in f32, integers in the accumulator's type. */
#include "ir/attr.h"
#include "transform/legalise/legalise_words.h"

typedef struct Dot {
  Expansion *x;
  DType in;    /* the type of the computation */
  int out_vec; /* results of a lane per copy */
  int k_vec, k_mult;
  bool along_m; /* B holds out_vec rows, otherwise A */
  int64_t copies[3];
} Dot;

static Value *make(const Dot *d, OpKind kind, Value *a, Value *b, int n, DType t) {
  Value *args[] = {a, b};
  const Type *type = type_vec(d->x->k->cx, n, t);
  Op *before = d->x->op;
  return &ir_insert(d->x->k, before, kind, before->at, args, b ? 2 : 1, type)->results[0];
}

/* n registers from `first` on, in the type of the computation. */
static Value *part(const Dot *d, Value *v, int first, int n) {
  Kernel *k = d->x->k;
  Value *some = v;
  if (v->type->n != n) {
    int *regs = ARENA_ARRAY(k->arena, int, n);
    for (int i = 0; i < n; i++) regs[i] = first + i;
    some = make(d, OP_pick, v, NULL, n, v->type->dtype);
    op_set_attr(k, some->def, attr_ints(k, ATTR_regs, regs, n));
  }
  return v->type->dtype == d->in ? some : make(d, OP_cast, some, NULL, n, d->in);
}

/* The products for result `o` of copy (m, n), one for each element of k in a lane. */
static Value *products(const Dot *d, int m, int n, int o) {
  Value *a = d->x->op->args[0], *b = d->x->op->args[1], *sum = NULL;
  int ck = (int)d->copies[2], kv = d->k_vec;
  for (int k = 0; k < ck; k++) {
    int at_a = (m * ck + k) * kv * (d->along_m ? 1 : d->out_vec) + (d->along_m ? 0 : o * kv);
    int at_b = (n * ck + k) * kv * (d->along_m ? d->out_vec : 1) + (d->along_m ? o * kv : 0);
    Value *p = make(d, OP_mul, part(d, a, at_a, kv), part(d, b, at_b, kv), kv, d->in);
    sum = sum ? make(d, OP_add, sum, p, kv, d->in) : p;
  }
  return sum;
}

static Value *sum_of_lanes(const Dot *d, Value *v) {
  for (int by = 1; by < d->k_mult; by *= 2) {
    Value *other = make(d, OP_shuffle, v, NULL, v->type->n, d->in);
    op_set_attr(d->x->k, other->def, (Attr){.key = ATTR_mode, .text = "xor"});
    op_set_attr(d->x->k, other->def, (Attr){.key = ATTR_by, .integer = by});
    v = make(d, OP_add, v, other, v->type->n, d->in);
  }
  return v;
}

/* The sum of all registers, from left to right. */
static Value *total(const Dot *d, Value *v) {
  Value *sum = part(d, v, 0, 1);
  for (int i = 1; i < v->type->n; i++) sum = make(d, OP_add, sum, part(d, v, i, 1), 1, d->in);
  return sum;
}

static bool read_dot(Dot *d) {
  const Op *op = d->x->op;
  const MmaChoice *m = op_attr(op, ATTR_mma)->mma;
  const Attr *copies = op_attr(op, ATTR_copies);
  DType acc = op->results[0].type->dtype;
  if (m->name || op->nargs != 3 || (m->k_mult & (m->k_mult - 1))) return false;
  d->out_vec = m->out_vec, d->k_vec = m->k_vec, d->k_mult = m->k_mult, d->along_m = m->along == 'M';
  d->in = dtype_is_float(acc) && dtype_info[acc].bits < 32 ? DTYPE_f32 : acc;
  for (int i = 0; i < 3; i++) d->copies[i] = copies ? copies->ints[i] : 1;
  for (int i = 0; i < 3; i++)
    if (d->copies[i] > IR_MAX_VEC) return false;
  if (d->out_vec > IR_MAX_VEC || d->k_vec > IR_MAX_VEC) return false;
  int64_t each = d->copies[2] * d->k_vec, many = each * d->out_vec;
  return op->args[0]->type->n == d->copies[0] * (d->along_m ? each : many) &&
         op->args[1]->type->n == d->copies[1] * (d->along_m ? many : each) &&
         op->results[0].type->n == d->copies[0] * d->copies[1] * d->out_vec;
}

Value *expand_wave_mma(Expansion *x) {
  Dot d = {.x = x};
  if (!read_dot(&d)) return x->target->vendor == VENDOR_AMD ? legalise_steps(x) : NULL;
  int n = x->op->results[0].type->n, at = 0;
  Value **sums = ARENA_ARRAY(x->k->arena, Value *, n);
  for (int i = 0; i < d.copies[0]; i++)
    for (int j = 0; j < d.copies[1]; j++)
      for (int o = 0; o < d.out_vec; o++) sums[at++] = total(&d, products(&d, i, j, o));
  const Type *type = type_vec(x->k->cx, n, d.in);
  Op *join = ir_insert(x->k, x->op, OP_join, x->op->at, sums, n, type);
  Value *sum = sum_of_lanes(&d, &join->results[0]);
  x->dtype = d.in;
  return result(x, add(x, operand(x, 2), sum));
}
