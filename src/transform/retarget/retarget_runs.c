/* retarget_runs.c: see retarget_runs.h. */
#include "transform/retarget/retarget_runs.h"

#include "ir/region_facts.h"

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

/* The digit of the fragment that moves by `stride` along `dim`. */
static const Digit *digit_at(const Layout *l, int dim, int stride, bool *lane) {
  for (int p = LAYOUT_REG; p <= LAYOUT_LANE; p++)
    for (int i = 0; i < l->part[p].n; i++)
      if (l->part[p].at[i].dim == dim && l->part[p].at[i].stride == stride)
        return *lane = p == LAYOUT_LANE, &l->part[p].at[i];
  return NULL;
}

/* The digits of the dim, which has `all` elements, in the fragment and its copies; a register digit is
 * split where a run ends. */
static bool find_digits(const Layout *l, int dim, int all, int run, Runs *out) {
  int held = 1, each = l->extent[dim]; /* by a lane, and by the fragment */
  if (all % each) return false;
  for (int stride = 1; stride < all;) {
    bool lane = false;
    const Digit *d = stride < each ? digit_at(l, dim, stride, &lane) : NULL;
    int radix = d ? d->radix : all / each, first = radix;
    if ((!d && stride < each) || all % (stride * radix)) return false;
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
static Digits order_of(const MmaInfo *row, MmaOperand part, int dim, int all, int bits) {
  enum { LOAD_BITS = 128 };
  int run = LOAD_BITS;
  Layout l;
  if (!mma_fragment(row, part, &l)) return (Digits){0};
  while (bits % 2 == 0) bits /= 2, run /= 2;
  for (; run > 1; run /= 2) {
    Runs r = {0};
    if (find_digits(&l, dim, all, run, &r)) return in_runs(&r, run);
  }
  return (Digits){0};
}

Digits retarget_order_in_runs(const MmaInfo *row, int k, int bits) {
  return order_of(row, MMA_A, 1, k, bits);
}

/* ---- converted operands ---- */

/* What an operand was read as, before it was converted to wider elements for this product alone; NULL: it was
 * not. */
static const Value *narrow_read(const Kernel *k, const Value *v) {
  const Value *from = v->def && v->def->kind == OP_cast ? v->def->args[0] : NULL;
  if (!from || !from->def || from->def->kind != OP_read) return NULL;
  if (ir_count_uses(k->body, v) != 1 || ir_count_uses(k->body, from) != 1) return NULL;
  return dtype_info[from->type->dtype].bits < dtype_info[v->type->dtype].bits ? from : NULL;
}

static bool runs_along(const Value *v, const Sym *dim) {
  return v->type->dims[v->type->rank - 1] == dim;
}

/* The operand is computed from the result of another product, whose registers it may be in. */
static bool is_chained(const Value *v) {
  const Op *op = v->def;
  if (!op || (op->kind != OP_permute && !op_is_elementwise(op))) return op && op->kind == OP_mma;
  for (int i = 0; i < op->nargs; i++)
    if (op->args[i]->type->rank == v->type->rank && is_chained(op->args[i])) return true;
  return false;
}

/* The instruction of one wave that computes the product; NULL: there is none. */
static const MmaInfo *row_of_wave(const Machine *m, const Op *op) {
  const Attr *choice = op_attr(op, ATTR_mma);
  const MmaInfo *row = choice && choice->mma->name ? mma_find(choice->mma->name) : NULL;
  return row && op->kind == OP_mma && row->lanes == m->lanes ? row : NULL;
}

static MmaChoice *new_choice(Kernel *k, Op *op) {
  MmaChoice *choice =
      arena_copy(k->arena, op_attr(op, ATTR_mma)->mma, sizeof *op_attr(op, ATTR_mma)->mma);
  op_set_attr(k, op, (Attr){.key = ATTR_mma, .mma = choice});
  return choice;
}

static int bits_of(const Value *v) { return dtype_info[v->type->dtype].bits; }

/* What an operand was read as, if several of its elements are in one of what was read, and are taken out
 * of it element by element; NULL: it was not read so. */
static const Value *packed_read(const Value *v, bool unpacked) {
  const Op *op = v->def;
  if (!op || op->kind == OP_read) return op && unpacked ? v : NULL;
  if (op->kind == OP_bitcast) unpacked |= bits_of(op->args[0]) > bits_of(v);
  else if (!op_is_elementwise(op)) return NULL;
  for (int i = 0; i < op->nargs; i++) {
    const Value *from =
        op->args[i]->type->rank == v->type->rank ? packed_read(op->args[i], unpacked) : NULL;
    if (from) return from;
  }
  return NULL;
}

/* How many bits of memory hold an element of k of operand `v`, if it should be in runs; 0: it should
 * not. If the operand is only converted, the other one must not be read again in each iteration:
 * its own order would suffer. */
static int bits_in_runs(const Kernel *k, const Distribution *d, Op *op, const Product *p, bool rhs,
                        int *all) {
  const Value *v = rhs ? p->rhs : p->lhs, *other = rhs ? p->lhs : p->rhs;
  const Value *narrow = narrow_read(k, v), *from = packed_read(v, false);
  int extent[IR_MAX_RANK];
  if (!distribute_extents(d, op, v->type, extent)) return 0;
  *all = extent[type_base_dim(v->type, p->roles.k)];
  if (narrow && runs_along(narrow, p->roles.k) && region_of_value(other) != op->parent)
    return bits_of(narrow);
  if (!from || dim_base(from->type->dims[from->type->rank - 1]) != dim_base(p->roles.k)) return 0;
  if (!distribute_extents(d, from->def, from->type, extent)) return 0;
  return bits_of(from) * extent[from->type->rank - 1] / *all;
}

void retarget_order_converted(Kernel *k, const Distribution *d, const Machine *m, Op *op) {
  Product p;
  const MmaInfo *row = row_of_wave(m, op);
  if (!row || op_attr(op, ATTR_mma)->mma->order.n || product_of(k, op, &p)) return;
  if (is_chained(p.lhs) || is_chained(p.rhs)) return;
  for (int i = 0; i < 2; i++) {
    int all, bits = bits_in_runs(k, d, op, &p, i == 1, &all);
    if (!bits) continue;
    new_choice(k, op)->order = order_of(row, MMA_A, 1, all, bits);
    return;
  }
}

static bool is_contracted(Kernel *k, const Sym *dim) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    Product p;
    if (op_is_product(op) && !product_of(k, op, &p) && p.roles.k == dim) return true;
  }
  return false;
}

void retarget_order_across(Kernel *k, const Distribution *d, const Machine *m, Arena *a, Op *op) {
  Product p;
  MmaDivision div;
  const MmaInfo *row = row_of_wave(m, op);
  if (!row || product_of(k, op, &p) || !anchor_mma_division(d, m, a, op, &div)) return;
  bool swap = op_attr(op, ATTR_mma)->mma->swap;
  for (int axis = 0; axis < 2; axis++) {
    const Value *from = narrow_read(k, (axis == 0) != swap ? p.lhs : p.rhs);
    const Sym *dim = axis ? div.n : div.m;
    if (!from || !runs_along(from, dim) || is_contracted(k, dim)) continue;
    MmaOperand part = axis ? MMA_B : MMA_A;
    new_choice(k, op)->across[axis] = order_of(row, part, 0, div.tile[axis], bits_of(from));
  }
}
