/* lower_reduce.c: sum, max, min and the like along one dim, in registers and then between lanes.
 *
 *     sum {dim = N} of [4, 192] reg d1/3:1 | lane d1/64:3          add, add: three registers
 *                                                                  shuffle xor 1, 2, ... 32, add
 *
 * All lanes compute the same tree of additions, up to the order of operands, so they get the same
 * bits. Positions past the tile count as the neutral element; an element that a layout holds more
 * than once along the dim counts once. Sums of narrow floats are kept in f32 and rounded at the
 * end. Parts held by other waves were combined by `exchange`.
 *
 * A `reduce` has no neutral element: where some registers may hold no element, each value is
 * accompanied by whether there were any. */
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "ir/ops/combine.h"
#include "ir/ops/reductions.h"
#include "lower_threads/lower.h"

typedef struct Reduction {
  Lower *l;
  const Op *op;
  const Layout *from; /* of the operand */
  int dim;            /* in it */
  OpKind combine;     /* OP_COUNT: the user-defined function */
  bool symmetric;     /* the order of the two operands does not matter */
  DType dtype;        /* the type it is computed in */
} Reduction;

/* The combination of some elements, in each register. A user-defined function has no neutral
 * element: `any` says whether there were elements; NULL: there were. */
typedef struct Part {
  Value *v, *any;
} Part;

/* ---- what counts ---- */

static Value *neutral(Reduction *r) { return emit_neutral(r->l, r->op->kind, r->dtype); }

/* Registers for which the test fails do not count; NULL: it holds for all. */
static Part keep_where(Reduction *r, Part p, int reg, Value *test, Value *none) {
  Part one = {emit_pick(r->l, p.v, &reg, 1), p.any ? emit_pick(r->l, p.any, &reg, 1) : NULL};
  if (test && p.any) one.any = emit_binary(r->l, OP_and, test, one.any);
  else if (test) one.v = emit_select(r->l, test, one.v, none);
  return one;
}

/* Elements that the layout holds twice along the dim are kept in one place only. */
static bool count_once(Reduction *r, Part *p) {
  Lower *l = r->l;
  DimHolders h = holders_of_dim(l, r->from, r->dim);
  if (!reduction_takes_once(r->op->kind) || h.kind == HOLDERS_SINGLE) return true;
  if (h.kind == HOLDERS_TANGLED) return false;
  int n = p->v->type->n;
  Value **parts = ARENA_ARRAY(l->arena, Value *, n), **any = ARENA_ARRAY(l->arena, Value *, n);
  Value *none = p->any ? NULL : neutral(r);
  for (int reg = 0; reg < n; reg++) {
    Part one = keep_where(r, *p, reg, emit_test(l, holder_counts(l, &h, reg)), none);
    parts[reg] = one.v, any[reg] = one.any;
  }
  p->v = emit_join(l, parts, n);
  if (p->any) p->any = emit_join(l, any, n);
  return true;
}

/* Which registers hold elements that exist; NULL: each holds one, and a different one. */
static Value *elements_exist(Reduction *r) {
  Lower *l = r->l;
  const Value *from = r->op->args[0], *exists = reduction_exists(r->op);
  const Type *type = type_with_dtype(l->k->cx, from->type, DTYPE_i1);
  Value *yes = emit_splat(l, emit_number(l, DTYPE_i1, 1), regs_of(from));
  Value *v = exists ? lower_operand(l, exists, type, r->from) : yes;
  v = lane_cover(l, v, r->from, 1u << r->dim, emit_number(l, DTYPE_i1, 0));
  bool single = holders_of_dim(l, r->from, r->dim).kind == HOLDERS_SINGLE;
  return v == yes && single ? NULL : v;
}

/* ---- two parts ---- */

static Part combine(Reduction *r, Part a, Part b) {
  Lower *l = r->l;
  if (r->combine != OP_COUNT) return (Part){emit_binary(l, r->combine, a.v, b.v), NULL};
  Value *v = emit_combine(l, r->op, a.v, b.v);
  if (!a.any) return (Part){v, NULL};
  v = emit_select(l, a.any, emit_select(l, b.any, v, a.v), b.v);
  return (Part){v, emit_binary(l, OP_or, a.any, b.any)};
}

static Part pick(Reduction *r, Part p, const int *regs, int n) {
  return (Part){emit_pick(r->l, p.v, regs, n), p.any ? emit_pick(r->l, p.any, regs, n) : NULL};
}

/* ---- registers ---- */

/* Combines neighbours first: a tree, so that few operations depend on each other. */
static Part combine_tree(Reduction *r, Part *parts, int n) {
  for (; n > 1; n = (n + 1) / 2)
    for (int i = 0; i < n; i += 2)
      parts[i / 2] = i + 1 < n ? combine(r, parts[i], parts[i + 1]) : parts[i];
  return parts[0];
}

/* Splits a register's number into its digits along the dim and the others: which register of the
 * result it belongs to, and its index in the row. */
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

/* An element of a row that another register holds too, which must be counted once. */
static bool is_repeated(const int *coords, int n, int coord) {
  for (int i = 0; i < n; i++)
    if (coords[i] == coord) return true;
  return false;
}

/* One register for each of the result's, whose layout is the operand's without the dim. */
static Part combine_registers(Reduction *r, Part p) {
  Lower *l = r->l;
  Layout beside = layout_drop(r->from, r->dim);
  int regs = p.v->type->n, m = layout_size(&beside, LAYOUT_REG), row = regs / m, n = 0;
  int *table = ARENA_ARRAY(l->arena, int, regs), *coords = ARENA_ARRAY(l->arena, int, row);
  Part *parts = ARENA_ARRAY(l->arena, Part, row);
  for (int reg = 0; reg < regs; reg++) {
    int out, in_row, coord;
    split_register(r, reg, &out, &in_row, &coord);
    table[in_row * m + out] = reg;
    coords[in_row] = coord;
  }
  for (int j = 0; j < row; j++)
    if (reduction_takes_once(r->op->kind) || !is_repeated(coords, j, coords[j]))
      parts[n++] = pick(r, p, table + (size_t)j * (size_t)m, m);
  return combine_tree(r, parts, n);
}

/* ---- lanes ---- */

/* Every lane reads all of them, in the same order. */
static Part gather_lanes(Reduction *r, Part p, int number, int weight, int radix) {
  Lower *l = r->l;
  const Sym *digit = lane_digit(l, r->from, LAYOUT_LANE, number);
  const Sym *first = sym_sub(l->sym, l->lane, sym_mul(l->sym, digit, sym_int(l->sym, weight)));
  Part *parts = ARENA_ARRAY(l->arena, Part, radix);
  for (int i = 0; i < radix; i++) {
    const Sym *lane = sym_add(l->sym, first, sym_int(l->sym, i * weight));
    parts[i] = (Part){emit_shuffle_idx(l, p.v, lane), NULL};
    if (p.any) parts[i].any = emit_shuffle_idx(l, p.any, lane);
  }
  return combine_tree(r, parts, radix);
}

/* Combines with the lane whose number differs in one bit. Both compute the same: the value of the
 * lane with the smaller number comes first. */
static Part combine_pair(Reduction *r, Part mine, const Sym *digit, int bit, int flip) {
  Lower *l = r->l;
  Part other = {emit_shuffle(l, mine.v, flip), NULL};
  if (mine.any) other.any = emit_shuffle(l, mine.any, flip);
  if (r->symmetric) return combine(r, mine, other);
  const Sym *half =
      sym_mod(l->sym, sym_floordiv(l->sym, digit, sym_int(l->sym, bit)), sym_int(l->sym, 2));
  Value *low = emit_test(l, sym_eq(l->sym, half, sym_int(l->sym, 0)));
  Part a = {emit_select(l, low, mine.v, other.v), NULL};
  Part b = {emit_select(l, low, other.v, mine.v), NULL};
  if (mine.any) a.any = emit_select(l, low, mine.any, other.any);
  if (mine.any) b.any = emit_select(l, low, other.any, mine.any);
  return combine(r, a, b);
}

static Part combine_lanes(Reduction *r, Part p) {
  const Digits *lanes = &r->from->part[LAYOUT_LANE];
  for (int i = 0, weight = 1; i < lanes->n; weight *= lanes->at[i++].radix) {
    int radix = lanes->at[i].radix;
    if (!lanes->at[i].stride || lanes->at[i].dim != r->dim) continue;
    const Sym *digit = lane_digit(r->l, r->from, LAYOUT_LANE, i);
    if (!is_power_of_two(weight) || !is_power_of_two(radix))
      p = gather_lanes(r, p, i, weight, radix);
    else
      for (int bit = 1; bit < radix; bit *= 2) p = combine_pair(r, p, digit, bit, weight * bit);
  }
  return p;
}

/* ---- the op ---- */

static bool lies_on_waves(const Reduction *r) {
  const Digits *waves = &r->from->part[LAYOUT_WAVE];
  for (int i = 0; i < waves->n; i++)
    if (waves->at[i].stride && waves->at[i].dim == r->dim) return true;
  return false;
}

static Value *with_init(Reduction *r, Part p) {
  Lower *l = r->l;
  const Value *out = &r->op->results[0];
  Value *init = emit_cast(l, lower_operand(l, r->op->args[1], out->type, out->layout), r->dtype);
  Value *v = combine(r, (Part){init, NULL}, (Part){p.v, NULL}).v;
  return p.any ? emit_select(l, p.any, v, init) : v;
}

bool lower_reduce(Lower *l, const Op *op) {
  const Value *from = op->args[0], *out = &op->results[0];
  Reduction r = {
      .l = l, .op = op, .from = from->layout, .combine = reduction_info[op->kind].combine};
  DType dtype = from->type->dtype;
  bool narrow = dtype_is_float(dtype) && dtype_info[dtype].bits < 32;
  r.symmetric = !op_combines(op->kind) || combine_is_symmetric(l->arena, op);
  r.dim = type_dim(from->type, op_attr(op, ATTR_dim)->sym);
  r.dtype = narrow && reduction_accumulates(op->kind) ? DTYPE_f32 : dtype;
  bool parts = op_has(op, ATTR_into) || (l->machine.observable && !op_has(op, ATTR_block));
  if (lies_on_waves(&r) && !parts) return emit_refuse(l, op, "a dim shared by several waves");
  Part p = {emit_cast(l, l->value[from->id], r.dtype), NULL};
  if (op_combines(op->kind)) p.any = elements_exist(&r);
  else p.v = lane_cover(l, p.v, r.from, 1u << r.dim, neutral(&r));
  if (!count_once(&r, &p)) return emit_refuse(l, op, "a layout that replicates elements");
  p = combine_registers(&r, p);
  if (!reduction_is_by_thread(op)) p = combine_lanes(&r, p);
  bool starts = !op_has(op, ATTR_into) || reduction_is_by_thread(op);
  Value *v = op->nargs > 1 && starts ? with_init(&r, p) : p.v;
  v = emit_cast(l, v, dtype);
  if (!v->name) v->name = out->name;
  l->value[out->id] = v;
  return true;
}
