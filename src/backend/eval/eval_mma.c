/* eval_mma.c: contraction. acc[.., m, n] + sum over k of lhs[.., m, k] * rhs[.., n, k], where the
 * leading dimensions are acc's batch dimensions. Products and sums are computed with ample
 * precision (double, or 64-bit integers) and the result is rounded once to acc's dtype. With `into`
 * the whole sum goes to the first part; the others stay as they are. */
#include "backend/eval/eval.h"
#include "ir/schedule/op_parts.h"

typedef struct Contraction {
  int64_t batches, m, n, k;
  int64_t terms;          /* along k: where both operands exist */
  int64_t from[3], to[3]; /* of m, n and k: the part that is added */
  Box out;                /* .., m, n */
  bool complete;          /* it is the last part along k */
  const Sym *k_dim;
  Axis k_axis;
  Tile *lhs, *rhs, *acc;
} Contraction;

/* The entry of a type that belongs to a dimension. */
static const Sym *entry_of(const Type *t, const Sym *base) {
  for (int i = 0; i < t->rank; i++)
    if (dim_base(t->dims[i]) == base) return t->dims[i];
  WV_BUG("an operand of mma lacks the dimension of its role");
}

/* The box of an operand: batch dimensions, its own one of the two result dimensions, then k. */
static Box operand_box(const Contraction *c, int own, Axis k) {
  Box b = c->out;
  Axis row = b.axis[own];
  b.rank -= 2;
  b = box_with(&b, row);
  return box_with(&b, k);
}

/* Equal parts of each dimension; all parts together are the whole product. */
static void open_part(const Op *op, Contraction *c) {
  int rank = op->results[0].type->rank, dim[3] = {rank - 2, rank - 1, rank};
  int64_t size[3] = {c->m, c->n, c->k};
  for (int i = 0; i < 3; i++) {
    OpPart p = parts_along(op, dim[i]);
    c->from[i] = size[i] * p.at / p.of;
    c->to[i] = size[i] * (p.at + 1) / p.of;
  }
  c->complete = c->to[2] == c->k;
  if (c->to[2] > c->terms) c->to[2] = c->terms;
}

static bool open_contraction(Eval *ev, const Op *op, Contraction *c) {
  Product p;
  const char *wrong = product_of(ev->k, op, &p);
  if (wrong) return eval_fail(ev, DIAG_E0303, "%s", wrong);
  *c = (Contraction){.batches = 1, .k_dim = p.roles.k};
  if (!position_box(ev, op->results[0].type, &c->out)) return false;
  if (!position_axis(ev, entry_of(p.lhs->type, dim_base(p.roles.k)), &c->k_axis)) return false;
  int m = c->out.rank - 2, n = c->out.rank - 1;
  for (int i = 0; i < m; i++) c->batches *= c->out.axis[i].n;
  c->m = c->out.axis[m].n;
  c->n = c->out.axis[n].n;
  Box left = operand_box(c, m, c->k_axis), right = operand_box(c, n, c->k_axis);
  if (!(c->lhs = tile_at(ev, p.lhs, &left)) || !(c->rhs = tile_at(ev, p.rhs, &right)) ||
      !(c->acc = tile_at(ev, p.acc, &c->out)))
    return false;
  int64_t in_lhs = axis_count(&c->lhs->box.axis[n]), in_rhs = axis_count(&c->rhs->box.axis[n]);
  c->k = c->k_axis.n;
  c->terms = in_lhs < in_rhs ? in_lhs : in_rhs;
  open_part(op, c);
  return true;
}

/* rhs as [k][n], so that the inner loop walks both arrays in order. */
#define DEFINE_PRODUCT(name, T)                                                                    \
  static bool name(Eval *ev, const Contraction *c, const T *lhs, const T *rhs, T *out,             \
                   T *packed) {                                                                    \
    for (int64_t n = 0; n < c->n; n++) {                                                           \
      if (!eval_goes_on(ev, c->terms)) return false;                                               \
      for (int64_t k = 0; k < c->terms; k++) packed[k * c->n + n] = rhs[n * c->k + k];             \
    }                                                                                              \
    for (int64_t m = c->from[0]; m < c->to[0]; m++)                                                \
      for (int64_t k = c->from[2]; k < c->to[2]; k++) {                                            \
        T a = lhs[m * c->k + k];                                                                   \
        const T *restrict row = packed + k * c->n;                                                 \
        T *restrict to = out + m * c->n;                                                           \
        if (!eval_goes_on(ev, c->n)) return false;                                                 \
        for (int64_t n = c->from[1]; n < c->to[1]; n++) to[n] += a * row[n];                       \
      }                                                                                            \
    return true;                                                                                   \
  }
DEFINE_PRODUCT(product_f, double)
DEFINE_PRODUCT(product_i, uint64_t) /* unsigned: wraps */

static bool contract_batch(Eval *ev, const Contraction *c, int64_t b, Tile *out) {
  int64_t at = b * c->m * c->n, left = b * c->m * c->k, right = b * c->n * c->k;
  void *packed = ARENA_ARRAY(ev->arena, uint64_t, c->n * c->k);
  if (out->f) return product_f(ev, c, c->lhs->f + left, c->rhs->f + right, out->f + at, packed);
  return product_i(ev, c, (const uint64_t *)c->lhs->i + left, (const uint64_t *)c->rhs->i + right,
                   (uint64_t *)out->i + at, packed);
}

/* The sums that are complete: other parts along k still add to the rest. */
static void round_sums(Eval *ev, const Contraction *c, Tile *out) {
  bool whole = c->from[0] == 0 && c->to[0] == c->m && c->from[1] == 0 && c->to[1] == c->n;
  if (!c->complete) return;
  if (whole) tile_round(ev, out);
  EACH_ELEMENT(ev, e, 0, whole ? 0 : box_count(&c->out)) {
    int64_t m = e / c->n % c->m, n = e % c->n;
    bool mine = m >= c->from[0] && m < c->to[0] && n >= c->from[1] && n < c->to[1];
    if (mine && out->f) out->f[e] = dtype_round(out->dtype, out->f[e]);
    else if (mine) out->i[e] = dtype_wrap(out->dtype, out->i[e]);
  }
}

static bool contract(Eval *ev, const Op *op, const Contraction *c) {
  Tile *out = tile_new(ev, c->acc->dtype, &c->out);
  EACH_ELEMENT(ev, e, 0, box_count(&c->out)) {
    if (out->f) out->f[e] = c->acc->f[e];
    else out->i[e] = c->acc->i[e];
  }
  int64_t parts = op_has(op, ATTR_into) ? c->out.axis[0].n : 1;
  for (int64_t b = 0; b < c->batches / parts; b++)
    if (!contract_batch(ev, c, b, out)) return false;
  round_sums(ev, c, out);
  ev->values[op->results[0].id].tile = out;
  return true;
}

bool run_mma(Eval *ev, Op *op) {
  Contraction c;
  return open_contraction(ev, op, &c) && contract(ev, op, &c);
}

/* ---- scales ---- */

/* An operand times its scales, looked up by the coordinate along k. */
static Tile *scaled(Eval *ev, const Contraction *c, Tile *t, int own, const Op *op, int operand) {
  int block = ir_scale_block(ev->k, op, operand);
  const Type *type = op->args[operand + 1]->type;
  Axis groups = axis_of(entry_of(type, dim_base(c->k_dim)));
  groups.lo = floor_div64(c->k_axis.lo, block);
  groups.n = c->k ? floor_div64(c->k_axis.lo + c->k - 1, block) - groups.lo + 1 : 0;
  Box box = operand_box(c, own, groups);
  Tile *s = tile_at(ev, op->args[operand + 1], &box);
  if (!s) return NULL;
  Tile *r = tile_new(ev, DTYPE_f64, &t->box);
  EACH_ELEMENT(ev, e, 0, box_count(&t->box)) {
    int64_t row = e / c->k, x = c->k_axis.lo + e % c->k;
    r->f[e] = t->f[e] * s->f[row * groups.n + floor_div64(x, block) - groups.lo];
  }
  return r;
}

bool run_scaled_mma(Eval *ev, Op *op) {
  Contraction c;
  if (!open_contraction(ev, op, &c)) return false;
  int m = c.out.rank - 2, n = c.out.rank - 1;
  return (c.lhs = scaled(ev, &c, c.lhs, m, op, 0)) && (c.rhs = scaled(ev, &c, c.rhs, n, op, 2)) &&
         contract(ev, op, &c);
}
