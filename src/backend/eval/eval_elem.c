/* eval_elem.c: constants, elementwise ops, casts and shape changes. All of them can be evaluated on
 * any box; floats are computed in double and rounded once to the dtype, integers wrap. */
#include <math.h>

#include "backend/eval/eval.h"
#include "backend/eval/scalar.h"
#include "ir/ops/inline_ptx.h"

static DType result_dtype(const Op *op) { return op->results[0].type->dtype; }
static Tile *operand(Eval *ev, const Op *op, int i, const Box *box) {
  return tile_at(ev, op->args[i], box);
}

/* ---- values ---- */

/* The `value` attribute of fill and scalar as an element of the result's dtype. */
static bool constant(Eval *ev, const Op *op, double *f, int64_t *i) {
  const Attr *value = op_attr(op, ATTR_value);
  DType t = result_dtype(op);
  int64_t v = 0;
  if (value->sym && !expr_value(ev, value->sym, &v)) return false;
  *f = 0, *i = 0;
  if (dtype_is_float(t))
    *f = value->sym ? dtype_round_int(t, DTYPE_i64, v) : dtype_round(t, value->number);
  else *i = value->sym ? dtype_from_int(t, v) : dtype_truncate(t, value->number);
  return true;
}

Tile *compute_fill(Eval *ev, const Op *op, const Box *box) {
  double f;
  int64_t i;
  if (!constant(ev, op, &f, &i)) return NULL;
  Tile *r = tile_new(ev, result_dtype(op), box);
  EACH_ELEMENT(ev, e, 0, box_count(box)) {
    if (r->f) r->f[e] = f;
    else r->i[e] = i;
  }
  return r;
}

Tile *compute_runs(Eval *ev, const Op *op, const Box *box) {
  const Attr *earlier = op_attr(op, ATTR_earlier);
  int64_t before = 0, trips;
  if (earlier && !expr_value(ev, earlier->sym, &before)) return NULL;
  if (!position_trips(ev, op_attr(op, ATTR_axis)->sym, &trips)) return NULL;
  Tile *r = tile_new(ev, result_dtype(op), box);
  int64_t n = before + ceil_div64(trips, op_step(op));
  if (r && r->f) r->f[0] = dtype_round_int(r->dtype, DTYPE_i64, n);
  else if (r) r->i[0] = dtype_from_int(r->dtype, n);
  return r;
}

Tile *compute_self_index(Eval *ev, const Op *op, const Box *box) {
  Tile *r = tile_new(ev, result_dtype(op), box);
  EACH_ELEMENT(ev, e, 0, box->axis[0].n) {
    int64_t x = box->axis[0].lo + e;
    if (r->f) r->f[e] = dtype_round_int(r->dtype, DTYPE_i64, x);
    else r->i[e] = dtype_from_int(r->dtype, x);
  }
  return r;
}

Tile *compute_exists(Eval *ev, const Op *op, const Box *box) {
  Tile *r = tile_new(ev, result_dtype(op), box);
  Access a = {.op = op, .box = box};
  bool masks = ev->options && ev->options->check_masks && op_has(op, ATTR_mask);
  EACH_ELEMENT(ev, e, 0, box->axis[0].n) {
    r->i[e] = e < axis_count(&box->axis[0]);
    if (masks && !mask_check(ev, &a, &e, NULL, r->i[e])) return NULL;
  }
  return r;
}

Tile *compute_apply(Eval *ev, const Op *op, const Box *box) {
  int *holes = ARENA_ARRAY(ev->arena, int, op->nargs);
  Tile **args = ARENA_ARRAY(ev->arena, Tile *, op->nargs);
  for (int a = 0; a < op->nargs; a++) {
    holes[a] = env_numbered_slot(ev, "$APPLY_EXPR_ARG_", a);
    if (!(args[a] = operand(ev, op, a, box))) return NULL;
  }
  const Sym *expr = op_attr(op, ATTR_expr)->sym;
  ExprRun run;
  if (!expr_open(ev, expr, holes, op->nargs, &run)) return NULL;
  Tile *r = tile_new(ev, result_dtype(op), box);
  for (int64_t e = 0, n = box_count(box); e < n; e++) {
    if (!eval_goes_on(ev, 1)) return NULL;
    for (int a = 0; a < op->nargs; a++) expr_put(&run, a, args[a]->i[e]);
    if (expr_point(&run, &r->i[e])) continue;
    r->i[e] = 0;
    if (box_exists(box, e)) {
      eval_fail(ev, DIAG_E0710, "`%s` is undefined for operand %lld", eval_text(ev, expr),
                (long long)args[0]->i[e]);
      return NULL;
    }
  }
  tile_round(ev, r);
  return r;
}

/* ---- two operands ---- */

static Tile *divide(Eval *ev, const Op *op, const Tile *a, const Tile *b, const Box *box) {
  Tile *r = tile_new(ev, result_dtype(op), box);
  EACH_ELEMENT(ev, e, 0, box_count(box)) {
    if (b->i[e]) r->i[e] = scalar_ints(op->kind, a->dtype)(a->i[e], b->i[e]);
    else if (box_exists(box, e)) {
      eval_fail(ev, DIAG_E0707, "integer division of %lld by zero", (long long)a->i[e]);
      return NULL;
    }
  }
  tile_round(ev, r);
  return r;
}

Tile *compute_binary(Eval *ev, const Op *op, const Box *box) {
  Tile *a = operand(ev, op, 0, box), *b = a ? operand(ev, op, 1, box) : NULL;
  if (!b) return NULL;
  if (a->i && scalar_fn[op->kind].divides) return divide(ev, op, a, b, box);
  Tile *r = tile_new(ev, result_dtype(op), box);
  FloatFn2 *f = scalar_fn[op->kind].f2;
  IntFn2 *i = scalar_ints(op->kind, a->dtype);
  EACH_ELEMENT(ev, e, 0, box_count(box)) {
    if (r->f) r->f[e] = f(a->f[e], b->f[e]);
    else r->i[e] = i(a->i[e], b->i[e]);
  }
  tile_round(ev, r);
  return r;
}

Tile *compute_compare(Eval *ev, const Op *op, const Box *box) {
  Tile *a = operand(ev, op, 0, box), *b = a ? operand(ev, op, 1, box) : NULL;
  if (!b) return NULL;
  Tile *r = tile_new(ev, DTYPE_i1, box);
  EACH_ELEMENT(ev, e, 0, box_count(box))
    r->i[e] = a->f
                  ? scalar_holds(op->kind, a->f[e] < b->f[e], a->f[e] == b->f[e], a->f[e] > b->f[e])
                  : scalar_holds(op->kind, scalar_less(a->dtype, a->i[e], b->i[e]),
                                 a->i[e] == b->i[e], scalar_less(a->dtype, b->i[e], a->i[e]));
  return r;
}

Tile *compute_select(Eval *ev, const Op *op, const Box *box) {
  Tile *cond = operand(ev, op, 0, box);
  Tile *yes = cond ? operand(ev, op, 1, box) : NULL, *no = yes ? operand(ev, op, 2, box) : NULL;
  if (!no) return NULL;
  Tile *r = tile_new(ev, result_dtype(op), box);
  EACH_ELEMENT(ev, e, 0, box_count(box)) {
    const Tile *from = cond->i[e] ? yes : no;
    if (r->f) r->f[e] = from->f[e];
    else r->i[e] = from->i[e];
  }
  return r;
}

Tile *compute_inline(Eval *ev, const Op *op, const Box *box) {
  if (inline_meaning(op)) return operand(ev, op, op->nargs - 1, box);
  inline_unknown(ev->cx, op, "the evaluator");
  return NULL;
}

/* ---- one operand ---- */

Tile *compute_unary(Eval *ev, const Op *op, const Box *box) {
  Tile *a = operand(ev, op, 0, box);
  if (!a) return NULL;
  Tile *r = tile_new(ev, result_dtype(op), box);
  EACH_ELEMENT(ev, e, 0, box_count(box)) {
    if (r->f) r->f[e] = scalar_fn[op->kind].f1(a->f[e]);
    else
      r->i[e] = op->kind == OP_abs && dtype_is_unsigned(r->dtype) ? a->i[e]
                                                                  : scalar_fn[op->kind].i1(a->i[e]);
  }
  tile_round(ev, r);
  return r;
}

Tile *compute_test(Eval *ev, const Op *op, const Box *box) {
  Tile *a = operand(ev, op, 0, box), *r = a ? tile_new(ev, DTYPE_i1, box) : NULL;
  if (!r) return NULL;
  EACH_ELEMENT(ev, e, 0, box_count(box)) r->i[e] = scalar_fn[op->kind].test(a->f[e]);
  return r;
}

Tile *compute_softsign(Eval *ev, const Op *op, const Box *box) {
  Tile *a = operand(ev, op, 0, box);
  const Attr *given = op_attr(op, ATTR_cap);
  int64_t v;
  if (!a || (given && given->sym && !expr_value(ev, given->sym, &v))) return NULL;
  double cap = scalar_softsign_cap(op, &v);
  Tile *r = tile_new(ev, result_dtype(op), box);
  EACH_ELEMENT(ev, e, 0, box_count(box)) r->f[e] = scalar_softsign(a->f[e], cap);
  tile_round(ev, r);
  return r;
}

/* ---- types and shapes ---- */

Tile *compute_cast(Eval *ev, const Op *op, const Box *box) {
  Tile *a = operand(ev, op, 0, box);
  return a ? tile_convert(ev, a, result_dtype(op)) : NULL;
}

static uint64_t element_bits(const Tile *t, int64_t e) {
  return t->f ? dtype_encode(t->dtype, t->f[e]) : dtype_int_bits(t->dtype, t->i[e]);
}

/* `bits` bits from bit `at` of a row of elements that begins with element `first`. */
static uint64_t row_bits(const Tile *t, int64_t first, int64_t at, int bits) {
  int each = dtype_info[t->dtype].bits, shift = (int)(at % each);
  uint64_t part = element_bits(t, first + at / each) >> shift;
  if (shift + bits > each) part |= element_bits(t, first + at / each + 1) << (each - shift);
  return part;
}

/* The rows of the last dimension are strings of bits, low end first. */
Tile *compute_bitcast(Eval *ev, const Op *op, const Box *box) {
  const Type *from = op->args[0]->type;
  DType t = result_dtype(op);
  int bits = dtype_info[t].bits, each = dtype_info[from->dtype].bits, last = box->rank - 1;
  Box source = *box;
  if (last >= 0) {
    const Axis *x = &box->axis[last];
    Axis a = axis_of(from->dims[last]);
    a.lo = x->lo * bits / each;
    a.n = x->n ? ((x->lo + x->n) * bits - 1) / each - a.lo + 1 : 0;
    source.axis[last] = a;
  }
  Tile *a = operand(ev, op, 0, &source), *r = a ? tile_new(ev, t, box) : NULL;
  if (!r) return NULL;
  int64_t n = last < 0 ? 1 : box->axis[last].n, held = last < 0 ? 1 : source.axis[last].n;
  int64_t skip = last < 0 ? 0 : box->axis[last].lo * bits - source.axis[last].lo * each;
  EACH_ELEMENT(ev, e, 0, box_count(box)) {
    uint64_t part = row_bits(a, e / n * held, e % n * bits + skip, bits);
    if (r->f)
      r->f[e] = dtype_decode(t, part & (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1));
    else r->i[e] = dtype_wrap(t, (int64_t)part);
  }
  return r;
}

/* broadcast and permute: the operand on the result's box. */
Tile *compute_view(Eval *ev, const Op *op, const Box *box) { return operand(ev, op, 0, box); }

/* Element x along the finer dimension is element x / ratio of the operand. */
Tile *compute_repeat(Eval *ev, const Op *op, const Box *box) {
  const Type *from = op->args[0]->type, *to = op->results[0].type;
  int dim = type_repeated(from, to), ratio = dim_ratio(to->dims[dim], from->dims[dim]);
  const Axis *x = &box->axis[dim];
  Box source = *box;
  Axis a = axis_of(from->dims[dim]);
  a.lo = floor_div64(x->lo, ratio);
  a.n = x->n ? floor_div64(x->lo + x->n - 1, ratio) - a.lo + 1 : 0;
  source.axis[dim] = a;
  Tile *t = operand(ev, op, 0, &source), *r = t ? tile_new(ev, t->dtype, box) : NULL;
  int64_t inner = 1;
  for (int i = dim + 1; i < box->rank; i++) inner *= box->axis[i].n;
  EACH_ELEMENT(ev, e, 0, r ? box_count(box) : 0) {
    int64_t row = e / inner / x->n, at = floor_div64(x->lo + e / inner % x->n, ratio) - a.lo;
    int64_t of = (row * a.n + at) * inner + e % inner;
    if (r->f) r->f[e] = t->f[of];
    else r->i[e] = t->i[of];
  }
  return r;
}
