/* lower_topk.c: the largest elements along a dim, and their indices.
 *
 * One round for each: every lane finds the best of its registers, then the lanes find the best of
 * all by butterflies, and the lane that holds it removes it. Larger is better, then the first along
 * the dim; NaN comes last. A removed element, or one past the tile, is NaN (the least value if the
 * type has none) at an index after all others: nothing ranks lower. There are no more rounds than
 * elements along the dim; the rest of the result is filled.
 *
 * Elements of at most 32 bits have a rank, an i32 in their order. Then a round is three reductions
 * of integers, which some machines do in one instruction each: the largest rank, the first index
 * that has it, and the bits of the value there. Others are compared in pairs with their indices. */
#include <math.h>

#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "lower_threads/lower.h"

/* An element of each row of the result. */
typedef struct Best {
  Value *value, *index;
  Value *rank; /* NULL: the type has none */
} Best;

typedef struct TopK {
  Lower *l;
  const Op *op;
  const Layout *from;  /* of the operand */
  Layout beside;       /* without the dim: one element of each row */
  int dim, regs, rows; /* registers of `from` and of `beside` */
  const int *row;      /* by register of the operand */
  Best *held;          /* by register: what remains there */
  Best nothing;
  bool may_run_out; /* there may be fewer elements than requested */
} TopK;

/* ---- order ---- */

static Value *logic(TopK *t, OpKind kind, Value *a, Value *b) {
  Value *args[] = {a, b};
  const Type *type = type_vec(t->l->k->cx, a->type->n, DTYPE_i1);
  return emit_op(t->l, kind, args, b ? 2 : 1, NULL, 0, type);
}

static bool has_nan(DType t) { return dtype_is_float(t) && isnan(dtype_round(t, NAN)); }

/* Where a ranks before b; indices are equal only for copies of the same element. */
static Value *is_before(TopK *t, Best a, Best b) {
  Value *larger = logic(t, OP_gt, a.value, b.value), *equal = logic(t, OP_eq, a.value, b.value);
  Value *earlier = logic(t, OP_lt, a.index, b.index);
  if (has_nan(a.value->type->dtype)) {
    Value *x = logic(t, OP_eq, a.value, a.value), *y = logic(t, OP_eq, b.value, b.value);
    Value *neither = logic(t, OP_not, logic(t, OP_or, x, y), NULL);
    larger = logic(t, OP_or, larger, logic(t, OP_and, x, logic(t, OP_not, y, NULL)));
    equal = logic(t, OP_or, equal, neither);
  }
  return logic(t, OP_or, larger, logic(t, OP_and, equal, earlier));
}

static Best better(TopK *t, Best a, Best b) {
  Value *first = is_before(t, a, b);
  return (Best){emit_select(t->l, first, a.value, b.value),
                emit_select(t->l, first, a.index, b.index), NULL};
}

/* ---- ranks ---- */

static bool has_rank(DType t) {
  bool ordered =
      dtype_info[t].class == DTYPE_INT || t == DTYPE_f32 || t == DTYPE_f16 || t == DTYPE_bf16;
  return ordered && dtype_info[t].bits <= 32;
}

static Value *i32_number(TopK *t, int64_t v, int n) {
  return emit_splat(t->l, emit_number(t->l, DTYPE_i32, (double)v), n);
}

static Value *recast(TopK *t, Value *v, DType to) {
  return emit_op(t->l, OP_bitcast, &v, 1, NULL, 0, type_vec(t->l->k->cx, v->type->n, to));
}

/* The bits of values as i32, and back; both without loss. */
static Value *bits_of(TopK *t, Value *v) {
  if (!dtype_is_float(v->type->dtype)) return emit_cast(t->l, v, DTYPE_i32);
  return recast(t, emit_cast(t->l, v, DTYPE_f32), DTYPE_i32);
}

static Value *of_bits(TopK *t, Value *bits, DType dtype) {
  if (!dtype_is_float(dtype)) return emit_cast(t->l, bits, dtype);
  return emit_cast(t->l, recast(t, bits, DTYPE_f32), dtype);
}

/* The bits of negative floats have the reverse order. Zeros are equal, and a NaN is as low as what
 * was removed, which is after it. */
static Value *rank_of(TopK *t, Value *v) {
  Lower *l = t->l;
  Value *bits = bits_of(t, v);
  if (!dtype_is_float(v->type->dtype)) return bits;
  int n = v->type->n;
  Value *zero = emit_splat(l, emit_number(l, v->type->dtype, 0), n);
  Value *sign = emit_binary(l, OP_shr, bits, i32_number(t, 31, n));
  Value *flip = emit_binary(l, OP_and, sign, i32_number(t, INT32_MAX, n));
  Value *rank = emit_binary(l, OP_xor, bits, flip);
  rank = emit_select(l, logic(t, OP_eq, v, zero), i32_number(t, 0, n), rank);
  if (!has_nan(v->type->dtype)) return rank;
  return emit_select(l, logic(t, OP_eq, v, v), rank, i32_number(t, INT32_MIN, n));
}

/* ---- one round ---- */

/* What each row has in its register number `number`. */
static Best register_of_rows(TopK *t, int number) {
  Lower *l = t->l;
  Value **part[3];
  for (int i = 0; i < 3; i++) part[i] = ARENA_ARRAY(l->arena, Value *, t->rows);
  for (int o = 0; o < t->rows; o++) {
    int r = 0;
    for (int before = number; t->row[r] != o || before-- > 0;) r++;
    part[0][o] = t->held[r].value;
    part[1][o] = t->held[r].index;
    part[2][o] = t->held[r].rank;
  }
  Value *rank = part[2][0] ? emit_join(l, part[2], t->rows) : NULL;
  return (Best){emit_join(l, part[0], t->rows), emit_join(l, part[1], t->rows), rank};
}

static Best best_of_registers(TopK *t) {
  Best so_far = register_of_rows(t, 0);
  for (int i = 1; i < t->regs / t->rows; i++) so_far = better(t, register_of_rows(t, i), so_far);
  return so_far;
}

static Best of_lane(TopK *t, Best b, const Sym *lane) {
  return (Best){emit_shuffle_idx(t->l, b.value, lane), emit_shuffle_idx(t->l, b.index, lane), NULL};
}

/* The lanes of this digit in turn, beginning with the next: each sees all, and all agree. */
static Best best_around(TopK *t, Best b, int number, int weight, int radix) {
  Lower *l = t->l;
  const Sym *digit = lane_digit(l, t->from, LAYOUT_LANE, number), *first;
  first = sym_sub(l->sym, l->lane, sym_mul(l->sym, digit, sym_int(l->sym, weight)));
  Best all = of_lane(t, b, first);
  for (int i = 1; i < radix; i++)
    all = better(t, of_lane(t, b, sym_add(l->sym, first, sym_int(l->sym, i * weight))), all);
  return all;
}

static Best best_of_lanes(TopK *t, Best b) {
  const Digits *lanes = &t->from->part[LAYOUT_LANE];
  for (int i = 0, weight = 1; i < lanes->n; weight *= lanes->at[i++].radix) {
    int radix = lanes->at[i].radix;
    if (!lanes->at[i].stride || lanes->at[i].dim != t->dim) continue;
    if (!is_power_of_two(weight) || !is_power_of_two(radix)) {
      b = best_around(t, b, i, weight, radix);
      continue;
    }
    for (int bit = 1; bit < radix; bit *= 2) {
      int flip = weight * bit;
      Best other = {emit_shuffle(t->l, b.value, flip), emit_shuffle(t->l, b.index, flip), NULL};
      b = better(t, other, b);
    }
  }
  return b;
}

/* The lanes of this digit in turn, as in best_around. */
static Value *reduce_around(TopK *t, OpKind kind, Value *v, int number, int weight, int radix) {
  Lower *l = t->l;
  const Sym *digit = lane_digit(l, t->from, LAYOUT_LANE, number), *first;
  first = sym_sub(l->sym, l->lane, sym_mul(l->sym, digit, sym_int(l->sym, weight)));
  Value *all = emit_shuffle_idx(l, v, first);
  for (int i = 1; i < radix; i++) {
    const Sym *lane = sym_add(l->sym, first, sym_int(l->sym, i * weight));
    all = emit_binary(l, kind, all, emit_shuffle_idx(l, v, lane));
  }
  return all;
}

static Value *reduce_lanes(TopK *t, OpKind kind, Value *v) {
  const Digits *lanes = &t->from->part[LAYOUT_LANE];
  for (int i = 0, weight = 1; i < lanes->n; weight *= lanes->at[i++].radix) {
    int radix = lanes->at[i].radix;
    if (!lanes->at[i].stride || lanes->at[i].dim != t->dim) continue;
    if (!is_power_of_two(weight) || !is_power_of_two(radix)) {
      v = reduce_around(t, kind, v, i, weight, radix);
      continue;
    }
    for (int bit = 1; bit < radix; bit *= 2)
      v = emit_binary(t->l, kind, v, emit_shuffle(t->l, v, weight * bit));
  }
  return v;
}

static Best best_by_rank(TopK *t) {
  Lower *l = t->l;
  int each = t->regs / t->rows;
  Value *rank = register_of_rows(t, 0).rank, *index = NULL, *bits = NULL;
  for (int i = 1; i < each; i++)
    rank = emit_binary(l, OP_maximum, rank, register_of_rows(t, i).rank);
  rank = reduce_lanes(t, OP_maximum, rank);
  for (int i = 0; i < each; i++) {
    Best b = register_of_rows(t, i);
    Value *none = emit_splat(l, t->nothing.index, t->rows);
    Value *mine = emit_select(l, logic(t, OP_eq, b.rank, rank), b.index, none);
    index = index ? emit_binary(l, OP_minimum, index, mine) : mine;
  }
  index = reduce_lanes(t, OP_minimum, index);
  for (int i = 0; i < each; i++) {
    Best b = register_of_rows(t, i);
    Value *here = logic(t, OP_eq, b.index, index), *none = i32_number(t, 0, t->rows);
    Value *mine = emit_select(l, here, bits_of(t, b.value), none);
    bits = bits ? emit_binary(l, OP_or, bits, mine) : mine;
  }
  bits = reduce_lanes(t, OP_or, bits);
  return (Best){of_bits(t, bits, t->op->args[0]->type->dtype), index, rank};
}

static void take_out(TopK *t, Best b) {
  for (int r = 0; r < t->regs; r++) {
    Best *h = &t->held[r];
    Value *gone = logic(t, OP_eq, h->index, emit_pick(t->l, b.index, &t->row[r], 1));
    h->value = emit_select(t->l, gone, t->nothing.value, h->value);
    h->index = emit_select(t->l, gone, t->nothing.index, h->index);
    if (h->rank) h->rank = emit_select(t->l, gone, t->nothing.rank, h->rank);
  }
}

/* ---- the op ---- */

static Best make_nothing(TopK *t, DType dtype) {
  Lower *l = t->l;
  Attr value = {.key = ATTR_value, .number = has_nan(dtype) ? NAN : 0};
  bool complement = !dtype_is_float(dtype) && dtype_min_int(dtype) == INT64_MIN;
  if (dtype_is_float(dtype) && !has_nan(dtype)) value.number = dtype_lowest(dtype);
  if (!dtype_is_float(dtype))
    value.sym = sym_int(l->sym, complement ? dtype_max_int(dtype) : dtype_min_int(dtype));
  const Type *type = type_scalar(l->k->cx, dtype);
  Value *v = emit_op(l, OP_scalar, NULL, 0, &value, 1, type);
  if (complement) v = emit_op(l, OP_not, &v, 1, NULL, 0, type);
  Value *rank = has_rank(dtype) ? emit_number(l, DTYPE_i32, INT32_MIN) : NULL;
  return (Best){v, emit_number(l, DTYPE_i32, INT32_MAX), rank};
}

/* The register of `beside` that a register belongs to: its number without its digits along the
 * dim. */
static int row_of(const TopK *t, int reg) {
  const Digits *regs = &t->from->part[LAYOUT_REG];
  int row = 0;
  for (int i = 0, weight = 1; i < regs->n; reg /= regs->at[i++].radix) {
    if (regs->at[i].stride && regs->at[i].dim == t->dim) continue;
    row += reg % regs->at[i].radix * weight;
    weight *= regs->at[i].radix;
  }
  return row;
}

static Value *both(TopK *t, Value *a, Value *b) { return a ? logic(t, OP_and, a, b) : b; }

/* The value of each register, and its index along the dim. */
static bool open_registers(TopK *t) {
  Lower *l = t->l;
  const Value *from = t->op->args[0];
  const Type *truth = type_with_dtype(l->k->cx, from->type, DTYPE_i1);
  Value *v = l->value[from->id], *exists = NULL;
  if (t->op->nargs > 1) exists = lower_operand(l, t->op->args[1], truth, t->from);
  DimRange here;
  if (!standing_range(&l->standing, t->op, from->type->dims[t->dim], &here)) return false;
  const Sym *base = sym_add(l->sym, here.start, lane_coord(l, t->from, t->dim));
  int *row = ARENA_ARRAY(l->arena, int, t->regs), coord[LAYOUT_DIMS];
  t->held = ARENA_ARRAY(l->arena, Best, t->regs);
  for (int r = 0; r < t->regs; r++) {
    layout_at(t->from, r, 0, 0, coord);
    row[r] = row_of(t, r);
    const Sym *index = sym_add(l->sym, base, sym_int(l->sym, coord[t->dim]));
    const Sym *inside = lane_is_inside(l, t->from, r, 1u << t->dim);
    Value *test = inside ? emit_test(l, inside) : NULL;
    if (exists) test = both(t, test, emit_pick(l, exists, &r, 1));
    Best b = {emit_pick(l, v, &r, 1), emit_expr(l, emit_cheaper(l, index), DTYPE_i32), NULL};
    if (test) b.value = emit_select(l, test, b.value, t->nothing.value);
    if (test) b.index = emit_select(l, test, b.index, t->nothing.index);
    if (t->nothing.rank) b.rank = rank_of(t, b.value);
    t->held[r] = b;
  }
  t->row = row;
  return true;
}

/* The registers of a result: row by row as `beside`, one round after the other along its own
 * dim. */
static Value *arrange(TopK *t, const Value *out, Value *const *rounds, int n, int k_dim) {
  Lower *l = t->l;
  Value *all = emit_join(l, rounds, n);
  int m = layout_size(out->layout, LAYOUT_REG), coord[LAYOUT_DIMS], rest[LAYOUT_DIMS] = {0};
  int *regs = ARENA_ARRAY(l->arena, int, m);
  RegisterIndex *index = register_index(l, &t->beside, ALL_DIMS);
  for (int r = 0; r < m; r++) {
    layout_at(out->layout, r, 0, 0, coord);
    for (int d = 0; d < out->layout->dims; d++)
      if (d != k_dim) rest[d < k_dim ? d : d - 1] = coord[d];
    regs[r] = coord[k_dim] * t->rows + register_at(index, rest);
  }
  return emit_pick(l, all, regs, m);
}

/* Where nothing was left: the least value at -1. */
static Best missing(TopK *t) {
  Lower *l = t->l;
  DType dtype = t->op->args[0]->type->dtype;
  return (Best){emit_splat(l, emit_neutral(l, OP_max, dtype), t->rows),
                emit_splat(l, emit_number(l, DTYPE_i32, -1), t->rows), NULL};
}

static Best found(TopK *t, Best b) {
  Lower *l = t->l;
  if (!t->may_run_out) return b;
  Value *none = logic(t, OP_eq, b.index, emit_splat(l, t->nothing.index, t->rows));
  Best rest = missing(t);
  return (Best){emit_select(l, none, rest.value, b.value),
                emit_select(l, none, rest.index, b.index), NULL};
}

/* All rounds are in the program, and each visits every register. */
static bool check_rounds(TopK *t, int rounds) {
  enum { MOST = 1 << 14 }; /* some 360,000 ops */
  if ((int64_t)rounds * t->regs <= MOST) return true;
  Diags *diags = &t->l->k->cx->diags;
  Diag *d = diag_add(diags, DIAG_E0616, t->op->at,
                     "each thread would search its %d elements %d times: more than %d steps",
                     t->regs, rounds, MOST);
  return diag_hint(diags, d, "take fewer elements, or make the tile smaller");
}

bool lower_topk(Lower *l, const Op *op) {
  const Value *from = op->args[0], *out = op->results;
  TopK t = {.l = l, .op = op, .from = from->layout};
  t.dim = type_dim(from->type, op_attr(op, ATTR_dim)->sym);
  int k_dim = type_dim(out->type, op_attr(op, ATTR_k_dim)->sym), n = out->layout->extent[k_dim];
  int most = t.from->extent[t.dim], rounds = n < most ? n : most;
  t.may_run_out = op->nargs > 1 || n > most;
  t.beside = layout_drop(t.from, t.dim);
  t.regs = layout_size(t.from, LAYOUT_REG);
  t.rows = layout_size(&t.beside, LAYOUT_REG);
  t.nothing = make_nothing(&t, from->type->dtype);
  if (!check_rounds(&t, rounds) || !open_registers(&t)) return false;
  Value **values = ARENA_ARRAY(l->arena, Value *, n), **indices = ARENA_ARRAY(l->arena, Value *, n);
  for (int i = 0; i < rounds; i++) {
    Best b = t.nothing.rank ? best_by_rank(&t) : best_of_lanes(&t, best_of_registers(&t));
    if (i < rounds - 1) take_out(&t, b);
    b = found(&t, b);
    values[i] = b.value;
    indices[i] = b.index;
  }
  Best rest = rounds < n ? missing(&t) : (Best){0};
  for (int i = rounds; i < n; i++) values[i] = rest.value, indices[i] = rest.index;
  l->value[out[0].id] = arrange(&t, &out[0], values, n, k_dim);
  l->value[out[1].id] = arrange(&t, &out[1], indices, n, k_dim);
  return true;
}
