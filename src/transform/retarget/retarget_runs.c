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

void retarget_order_converted(Kernel *k, const Distribution *d, const TargetInfo *target, Op *op) {
  Product p;
  int extent[IR_MAX_RANK];
  const MmaChoice *choice = op_attr(op, ATTR_mma) ? op_attr(op, ATTR_mma)->mma : NULL;
  const MmaInfo *row = choice && choice->name ? mma_find(choice->name) : NULL;
  if (!row || row->lanes != target->lanes || choice->order.n) return;
  if (op->kind != OP_mma || product_of(k, op, &p) || is_chained(p.lhs) || is_chained(p.rhs)) return;
  for (int i = 0; i < 2; i++) {
    const Value *v = i ? p.rhs : p.lhs, *other = i ? p.lhs : p.rhs, *from = narrow_read(k, v);
    if (!from || !runs_along(from, p.roles.k) || region_of_value(other) == op->parent) continue;
    if (!distribute_extents(d, op, v->type, extent)) continue;
    MmaChoice *ordered = ARENA_NEW(k->arena, MmaChoice);
    *ordered = *choice;
    ordered->order = retarget_order_in_runs(row, extent[type_base_dim(v->type, p.roles.k)],
                                            dtype_info[from->type->dtype].bits);
    op_set_attr(k, op, (Attr){.key = ATTR_mma, .mma = ordered});
    return;
  }
}
