/* lower_reduce.c: sum, max and min along one dim, in registers and then between lanes.
 *
 *     sum {dim = N} of [4, 192] reg d1/3:1 | lane d1/64:3          add, add: three registers
 *                                                                  shuffle xor 1, 2, ... 32, add
 *
 * All lanes compute the same tree of additions but for the order of operands, so that they get the
 * same bits. What lies past the tile counts as the neutral element; an element that a layout holds
 * more than once along the dim counts once. Sums of narrow floats are kept in f32 and rounded at
 * the end. Parts that other waves hold were brought together by `exchange`. */
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "ir/reductions.h"
#include "lower/lower.h"

typedef struct Reduction {
  Lower *l;
  const Op *op;
  const Layout *from; /* of the operand */
  int dim;            /* in it */
  OpKind combine;
  DType dtype; /* what it is computed in */
} Reduction;

/* ---- what counts ---- */

/* Minus zero changes no sum, not even that of minus zeros. */
Value *lower_neutral(Lower *l, OpKind kind, DType t) {
  const Type *type = type_scalar(l->k->cx, t);
  Padding padding = reduction_info[kind].padding;
  Attr value = {.key = ATTR_value};
  if (dtype_is_float(t)) {
    value.number = padding == PADDING_ZERO ? -0.0 : padding_number(padding, t);
    return emit(l, OP_scalar, NULL, 0, &value, 1, type);
  }
  int64_t n = padding_integer(padding, t);
  bool complement = dtype_by_complement(t, n);
  value.sym = sym_int(l->sym, complement ? ~n : n);
  Value *v = emit(l, OP_scalar, NULL, 0, &value, 1, type);
  return complement ? emit(l, OP_not, &v, 1, NULL, 0, type) : v;
}

static Value *neutral(Reduction *r) { return lower_neutral(r->l, r->op->kind, r->dtype); }

/* Elements that the layout holds twice along the dim are kept in one place only. */
static Value *count_once(Reduction *r, Value *v) {
  Lower *l = r->l;
  DimHolders h = dim_holders(l, r->from, r->dim);
  if (!reduction_accumulates(r->op->kind) || h.kind == HOLDERS_SINGLE) return v;
  if (h.kind == HOLDERS_TANGLED) return NULL;
  Value **parts = ARENA_ARRAY(l->arena, Value *, v->type->n), *none = neutral(r);
  for (int reg = 0; reg < v->type->n; reg++) {
    Value *test = emit_test(l, holder_counts(l, &h, reg));
    parts[reg] = emit_pick(l, v, &reg, 1);
    if (test) parts[reg] = emit_select(l, test, parts[reg], none);
  }
  return emit_join(l, parts, v->type->n);
}

/* ---- registers ---- */

/* Neighbours first: a tree, so that few operations depend on each other. */
static Value *combine_tree(Reduction *r, Value **parts, int n) {
  for (; n > 1; n = (n + 1) / 2)
    for (int i = 0; i < n; i += 2)
      parts[i / 2] = i + 1 < n ? emit_binary(r->l, r->combine, parts[i], parts[i + 1]) : parts[i];
  return parts[0];
}

/* A register's number without its digits along the dim, and those digits alone: which register of
 * the result it belongs to, and as which of its row. */
static void split_register(const Reduction *r, int reg, int *out, int *in_row, int *coord) {
  const Digits *regs = &r->from->part[LAYOUT_REG];
  int outer = 1, row = 1;
  *out = *in_row = *coord = 0;
  for (int i = 0; i < regs->n; reg /= regs->at[i++].radix) {
    Digit g = regs->at[i];
    int digit = reg % g.radix;
    bool along = g.stride && g.dim == r->dim;
    if (along) *in_row += digit * row, row *= g.radix, *coord += digit * g.stride;
    else *out += digit * outer, outer *= g.radix;
  }
}

/* An element of a row that another register holds too; a sum counts one of them by itself. */
static bool is_repeated(const int *coords, int n, int coord) {
  for (int i = 0; i < n; i++)
    if (coords[i] == coord) return true;
  return false;
}

/* One register for each of the result's, which lie as the operand's do without the dim. */
static Value *combine_registers(Reduction *r, Value *v) {
  Lower *l = r->l;
  Layout beside = layout_drop(r->from, r->dim);
  int regs = v->type->n, m = layout_size(&beside, LAYOUT_REG), row = regs / m, n = 0;
  int *table = ARENA_ARRAY(l->arena, int, regs), *coords = ARENA_ARRAY(l->arena, int, row);
  Value **parts = ARENA_ARRAY(l->arena, Value *, row);
  for (int reg = 0; reg < regs; reg++) {
    int out, in_row, coord;
    split_register(r, reg, &out, &in_row, &coord);
    table[in_row * m + out] = reg;
    coords[in_row] = coord;
  }
  for (int j = 0; j < row; j++)
    if (reduction_accumulates(r->op->kind) || !is_repeated(coords, j, coords[j]))
      parts[n++] = emit_pick(l, v, table + (size_t)j * (size_t)m, m);
  return combine_tree(r, parts, n);
}

/* ---- lanes ---- */

/* Every lane reads all of them, in one order. */
static Value *gather_lanes(Reduction *r, Value *v, int number, int weight, int radix) {
  Lower *l = r->l;
  const Sym *digit = lane_digit(l, r->from, LAYOUT_LANE, number);
  const Sym *first = sym_sub(l->sym, l->lane, sym_mul(l->sym, digit, sym_int(l->sym, weight)));
  Value **parts = ARENA_ARRAY(l->arena, Value *, radix);
  for (int i = 0; i < radix; i++)
    parts[i] = emit_shuffle_idx(l, v, sym_add(l->sym, first, sym_int(l->sym, i * weight)));
  return combine_tree(r, parts, radix);
}

static Value *combine_lanes(Reduction *r, Value *v) {
  const Digits *lanes = &r->from->part[LAYOUT_LANE];
  for (int i = 0, weight = 1; i < lanes->n; weight *= lanes->at[i++].radix) {
    int radix = lanes->at[i].radix;
    if (!lanes->at[i].stride || lanes->at[i].dim != r->dim) continue;
    if (!is_power_of_two(weight) || !is_power_of_two(radix))
      v = gather_lanes(r, v, i, weight, radix);
    else
      for (int bit = 1; bit < radix; bit *= 2)
        v = emit_binary(r->l, r->combine, v, emit_shuffle(r->l, v, weight * bit));
  }
  return v;
}

/* ---- the op ---- */

static bool lies_on_waves(const Reduction *r) {
  const Digits *waves = &r->from->part[LAYOUT_WAVE];
  for (int i = 0; i < waves->n; i++)
    if (waves->at[i].stride && waves->at[i].dim == r->dim) return true;
  return false;
}

bool lower_reduce(Lower *l, const Op *op) {
  const Value *from = op->args[0], *out = &op->results[0];
  Reduction r = {
      .l = l, .op = op, .from = from->layout, .combine = reduction_info[op->kind].combine};
  DType dtype = from->type->dtype;
  bool narrow = dtype_is_float(dtype) && dtype_info[dtype].bits < 32;
  r.dim = type_dim(from->type, op_attr(op, ATTR_dim)->sym);
  r.dtype = narrow && reduction_accumulates(op->kind) ? DTYPE_f32 : dtype;
  bool parts = op_has(op, ATTR_into) || (l->machine.observable && !op_has(op, ATTR_block));
  if (lies_on_waves(&r) && !parts) return lower_refuse(l, op, "a dim that several waves hold");
  Value *v = emit_cast(l, l->value[from->id], r.dtype);
  v = lane_cover(l, v, r.from, 1u << r.dim, neutral(&r));
  v = count_once(&r, v);
  if (!v) return lower_refuse(l, op, "a layout that holds elements several times");
  v = combine_lanes(&r, combine_registers(&r, v));
  if (op->nargs > 1) {
    Value *init = lower_operand(l, op->args[1], out->type, out->layout);
    v = emit_binary(l, r.combine, emit_cast(l, init, r.dtype), v);
  }
  v = emit_cast(l, v, dtype);
  if (!v->name) v->name = out->name;
  l->value[out->id] = v;
  return true;
}
