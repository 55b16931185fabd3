/* eval_elem.c: values, elementwise ops, casts and shape changes. All of them can be evaluated on
 * any box; floats are computed in double and rounded once to the dtype, integers wrap. */
#include <math.h>

#include "backend/sim/eval.h"

static DType result_dtype(const Op *op) { return op->results[0].type->dtype; }
static Tile *operand(Eval *ev, const Op *op, int i, const Box *box) {
  return tile_at(ev, op->args[i], box);
}

/* Whether element e lies inside the sizes of its dimensions. Beyond them a tile holds zeros that
 * nobody sees, so an element without a value there is no mistake. */
static bool in_tensor(Eval *ev, const Box *box, int64_t e, bool *out) {
  *out = true;
  for (int i = box->rank - 1; i >= 0; i--) {
    const Axis *a = &box->axis[i];
    int64_t x = a->lo + e % a->n, size;
    e /= a->n;
    if (!place_extent(ev, a->base, &size)) return false;
    *out &= x * a->den < size * a->num;
  }
  return true;
}

/* ---- values ---- */

/* The `value` attribute of fill and scalar as an element of the result's dtype. */
static bool constant(Eval *ev, const Op *op, double *f, int64_t *i) {
  const Attr *value = op_attr(op, ATTR_value);
  DType t = result_dtype(op);
  int64_t v = 0;
  if (value->sym && !expr_value(ev, value->sym, &v)) return false;
  *f = dtype_is_float(t) ? dtype_round(t, value->sym ? (double)v : value->number) : 0;
  *i = dtype_is_float(t) ? 0 : value->sym ? dtype_wrap(t, v) : dtype_truncate(t, value->number);
  return true;
}

Tile *compute_fill(Eval *ev, const Op *op, const Box *box) {
  double f;
  int64_t i;
  if (!constant(ev, op, &f, &i)) return NULL;
  Tile *r = tile_new(ev, result_dtype(op), box);
  for (int64_t e = 0, n = box_count(box); e < n; e++) {
    if (r->f) r->f[e] = f;
    else r->i[e] = i;
  }
  return r;
}

Tile *compute_self_index(Eval *ev, const Op *op, const Box *box) {
  Tile *r = tile_new(ev, result_dtype(op), box);
  for (int64_t e = 0; e < box->axis[0].n; e++) {
    int64_t x = box->axis[0].lo + e;
    if (r->f) r->f[e] = (double)x;
    else r->i[e] = x;
  }
  tile_round(r);
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
    bool visible;
    for (int a = 0; a < op->nargs; a++) expr_put(&run, a, args[a]->i[e]);
    if (expr_point(&run, &r->i[e])) continue;
    r->i[e] = 0;
    if (!in_tensor(ev, box, e, &visible)) return NULL;
    if (visible) {
      eval_fail(ev, DIAG_E0710, "`%s` has no value for the operand %lld", eval_text(ev, expr),
                (long long)args[0]->i[e]);
      return NULL;
    }
  }
  tile_round(r);
  return r;
}

/* ---- two operands ---- */

typedef double FloatFn(double, double);
typedef int64_t IntFn(int64_t, int64_t);

static double f_add(double a, double b) { return a + b; }
static double f_sub(double a, double b) { return a - b; }
static double f_mul(double a, double b) { return a * b; }
static double f_div(double a, double b) { return a / b; }

/* NaN wins; -0 is less than +0. */
static double f_max(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  return a > b ? a : b > a ? b : signbit(a) ? b : a;
}
static double f_min(double a, double b) { return -f_max(-a, -b); }

/* Unsigned arithmetic wraps; the least integer divided by -1 is itself. */
static int64_t i_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t i_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static int64_t i_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t i_div(int64_t a, int64_t b) { return b == -1 ? i_sub(0, a) : a / b; }
static int64_t i_mod(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
static int64_t i_floordiv(int64_t a, int64_t b) {
  return i_div(a, b) - (i_mod(a, b) != 0 && (a < 0) != (b < 0));
}
static int64_t i_and(int64_t a, int64_t b) { return a & b; }
static int64_t i_or(int64_t a, int64_t b) { return a | b; }
static int64_t i_max(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t i_min(int64_t a, int64_t b) { return a < b ? a : b; }

static const struct {
  FloatFn *f;
  IntFn *i;
  bool divides; /* integers: refuses a zero divisor */
} binary_fn[OP_COUNT] = {
    [OP_add] = {f_add, i_add, false},     [OP_sub] = {f_sub, i_sub, false},
    [OP_mul] = {f_mul, i_mul, false},     [OP_div] = {f_div, i_div, true},
    [OP_mod] = {fmod, i_mod, true},       [OP_floordiv] = {NULL, i_floordiv, true},
    [OP_and] = {NULL, i_and, false},      [OP_or] = {NULL, i_or, false},
    [OP_maximum] = {f_max, i_max, false}, [OP_minimum] = {f_min, i_min, false},
    [OP_atan2] = {atan2, NULL, false},    [OP_powf] = {pow, NULL, false},
    [OP_remf] = {fmod, NULL, false},
};

static Tile *divide(Eval *ev, const Op *op, const Tile *a, const Tile *b, const Box *box) {
  Tile *r = tile_new(ev, result_dtype(op), box);
  for (int64_t e = 0, n = box_count(box); e < n; e++) {
    bool visible = false;
    if (b->i[e]) r->i[e] = binary_fn[op->kind].i(a->i[e], b->i[e]);
    else if (!in_tensor(ev, box, e, &visible)) return NULL;
    if (visible) {
      eval_fail(ev, DIAG_E0707, "integer division of %lld by zero", (long long)a->i[e]);
      return NULL;
    }
  }
  tile_round(r);
  return r;
}

Tile *compute_binary(Eval *ev, const Op *op, const Box *box) {
  Tile *a = operand(ev, op, 0, box), *b = a ? operand(ev, op, 1, box) : NULL;
  if (!b) return NULL;
  if (a->i && binary_fn[op->kind].divides) return divide(ev, op, a, b, box);
  Tile *r = tile_new(ev, result_dtype(op), box);
  FloatFn *f = binary_fn[op->kind].f;
  IntFn *i = binary_fn[op->kind].i;
  for (int64_t e = 0, n = box_count(box); e < n; e++) {
    if (r->f) r->f[e] = f(a->f[e], b->f[e]);
    else r->i[e] = i(a->i[e], b->i[e]);
  }
  tile_round(r);
  return r;
}

/* Every comparison is ordered: false, also for !=, when an operand is NaN. */
static bool holds(OpKind kind, bool less, bool equal, bool greater) {
  switch (kind) {
  case OP_eq: return equal;
  case OP_ne: return less || greater;
  case OP_lt: return less;
  case OP_le: return less || equal;
  case OP_gt: return greater;
  case OP_ge: return greater || equal;
  default: WV_BUG("not a comparison");
  }
}

Tile *compute_compare(Eval *ev, const Op *op, const Box *box) {
  Tile *a = operand(ev, op, 0, box), *b = a ? operand(ev, op, 1, box) : NULL;
  if (!b) return NULL;
  Tile *r = tile_new(ev, DTYPE_i1, box);
  for (int64_t e = 0, n = box_count(box); e < n; e++)
    r->i[e] = a->f ? holds(op->kind, a->f[e]<b->f[e], a->f[e] == b->f[e], a->f[e]> b->f[e])
                   : holds(op->kind, a->i[e]<b->i[e], a->i[e] == b->i[e], a->i[e]> b->i[e]);
  return r;
}

Tile *compute_select(Eval *ev, const Op *op, const Box *box) {
  Tile *cond = operand(ev, op, 0, box);
  Tile *yes = cond ? operand(ev, op, 1, box) : NULL, *no = yes ? operand(ev, op, 2, box) : NULL;
  if (!no) return NULL;
  Tile *r = tile_new(ev, result_dtype(op), box);
  for (int64_t e = 0, n = box_count(box); e < n; e++) {
    const Tile *from = cond->i[e] ? yes : no;
    if (r->f) r->f[e] = from->f[e];
    else r->i[e] = from->i[e];
  }
  return r;
}

/* ---- one operand ---- */

static const double log2_e = 1.4426950408889634;

static double f_neg(double a) { return -a; }
static double f_rsqrt(double a) { return 1 / sqrt(a); }
static double f_reciprocal(double a) { return 1 / a; }
static double f_tanh_approx(double a) {
  double q = exp2(-2 * log2_e * fabs(a));
  return copysign((1 - q) / (1 + q), a);
}
static int64_t i_neg(int64_t a) { return i_sub(0, a); }
static int64_t i_not(int64_t a) { return ~a; } /* wrapping makes it the opposite truth value */
static int64_t i_abs(int64_t a) { return a < 0 ? i_neg(a) : a; }

static const struct {
  double (*f)(double);
  int64_t (*i)(int64_t);
} unary_fn[OP_COUNT] = {
    [OP_neg] = {f_neg, i_neg},
    [OP_not] = {NULL, i_not},
    [OP_abs] = {fabs, i_abs},
    [OP_exp] = {exp, NULL},
    [OP_exp2] = {exp2, NULL},
    [OP_log2] = {log2, NULL},
    [OP_log10] = {log10, NULL},
    [OP_sqrt] = {sqrt, NULL},
    [OP_rsqrt] = {f_rsqrt, NULL},
    [OP_cbrt] = {cbrt, NULL},
    [OP_reciprocal] = {f_reciprocal, NULL},
    [OP_sin] = {sin, NULL},
    [OP_cos] = {cos, NULL},
    [OP_sinh] = {sinh, NULL},
    [OP_tanh] = {tanh, NULL},
    [OP_tanh_approx] = {f_tanh_approx, NULL},
    [OP_round] = {round, NULL},
    [OP_roundeven] = {nearbyint, NULL},
};

Tile *compute_unary(Eval *ev, const Op *op, const Box *box) {
  Tile *a = operand(ev, op, 0, box);
  if (!a) return NULL;
  Tile *r = tile_new(ev, result_dtype(op), box);
  for (int64_t e = 0, n = box_count(box); e < n; e++) {
    if (r->f) r->f[e] = unary_fn[op->kind].f(a->f[e]);
    else r->i[e] = unary_fn[op->kind].i(a->i[e]);
  }
  tile_round(r);
  return r;
}

Tile *compute_softsign(Eval *ev, const Op *op, const Box *box) {
  Tile *a = operand(ev, op, 0, box);
  const Attr *given = op_attr(op, ATTR_cap), *head = op_attr(op, ATTR_head);
  double cap = 30;
  int64_t v;
  if (!a || (given && given->sym && !expr_value(ev, given->sym, &v))) return NULL;
  if (given) cap = given->sym ? (double)v : given->number;
  if (head) cap *= 1 / sqrt((double)head->integer);
  Tile *r = tile_new(ev, result_dtype(op), box);
  for (int64_t e = 0, n = box_count(box); e < n; e++) r->f[e] = a->f[e] / (1 + fabs(a->f[e]) / cap);
  tile_round(r);
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

/* Element x along the last dimension is part x mod ratio, low end first, of source x / ratio. */
Tile *compute_bitcast(Eval *ev, const Op *op, const Box *box) {
  const Type *from = op->args[0]->type;
  DType t = result_dtype(op);
  int bits = dtype_info[t].bits, ratio = dtype_info[from->dtype].bits / bits, last = box->rank - 1;
  Box source = *box;
  if (last >= 0) {
    const Axis *x = &box->axis[last];
    Axis a = axis_of(from->dims[last]);
    a.lo = x->lo / ratio;
    a.n = x->n ? (x->lo + x->n - 1) / ratio - a.lo + 1 : 0;
    source.axis[last] = a;
  }
  Tile *a = operand(ev, op, 0, &source), *r = a ? tile_new(ev, t, box) : NULL;
  if (!r) return NULL;
  int64_t n = last < 0 ? 1 : box->axis[last].n, held = last < 0 ? 1 : source.axis[last].n;
  int64_t skip = last < 0 ? 0 : box->axis[last].lo - source.axis[last].lo * ratio;
  for (int64_t e = 0, total = box_count(box); e < total; e++) {
    int64_t x = e % n + skip;
    uint64_t part = element_bits(a, e / n * held + x / ratio) >> (x % ratio * bits);
    if (r->f)
      r->f[e] = dtype_decode(t, part & (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1));
    else r->i[e] = dtype_wrap(t, (int64_t)part);
  }
  return r;
}

/* broadcast and permute: the operand on the result's box. */
Tile *compute_view(Eval *ev, const Op *op, const Box *box) { return operand(ev, op, 0, box); }
