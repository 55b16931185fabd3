/* eval_reduce.c: sum, max, min, cumsum and topk along one dimension. Each gets its operand with
 * that dimension last, so that it works on contiguous runs. Elements that a mapping or `bounds`
 * left at 0 count; those past the end of their dimension do not exist. */
#include <math.h>

#include "backend/eval/eval.h"
#include "backend/eval/scalar.h"
#include "ir/ops/reductions.h"

/* A reduction over part of a dimension, one per wave, cannot be expressed on tiles. */
static bool check_scope(Eval *ev, const Op *op, const Sym *dim) {
  int64_t waves;
  if (op_has(op, ATTR_block)) return true;
  if (!position_waves(ev, dim_base(dim), &waves)) return false;
  if (waves <= 1) return true;
  eval_fail(ev, DIAG_E0701,
            "`%s` along `%s`, which %lld waves share, gives each wave its own result",
            op_info[op->kind].name, eval_text(ev, dim), (long long)waves);
  eval_hint(ev, "use `block=True` to combine the waves");
  return false;
}

Tile *reduction_rows(Eval *ev, const Op *op, Box *rest, Axis *along) {
  const Sym *dim = op_attr(op, ATTR_dim)->sym;
  Box box;
  if (!check_scope(ev, op, dim)) return NULL;
  if (!position_axis(ev, dim, along) || !position_box(ev, op->args[0]->type, &box)) return NULL;
  *rest = box_without(&box, dim);
  Box box_of_rows = box_with(rest, *along);
  Tile *rows = tile_at(ev, op->args[0], &box_of_rows);
  if (rows) *along = rows->box.axis[rest->rank];
  return rows;
}

/* ---- sum, prod, max, min ---- */

static double combine_f(OpKind kind, double a, double b) {
  return scalar_fn[reduction_info[kind].combine].f2(a, b);
}

static int64_t combine_i(OpKind kind, DType t, int64_t a, int64_t b) {
  return scalar_ints(reduction_info[kind].combine, t)(a, b);
}

/* Minus zero leaves every sum unchanged, even one of minus zeros. */
static double neutral_f(OpKind kind, DType t) {
  Padding padding = reduction_info[kind].padding;
  return padding == PADDING_ZERO ? -0.0 : padding_number(padding, t);
}

static int64_t neutral_i(OpKind kind, DType t) {
  return padding_integer(reduction_info[kind].padding, t);
}

static void reduce_row(Eval *ev, OpKind kind, const Tile *rows, int64_t row, const Axis *along,
                       Tile *out) {
  int64_t at = row * along->n, n = axis_count(along);
  if (n == 0) {
    if (out->f) out->f[row] = padding_number(reduction_info[kind].padding, out->dtype);
    else out->i[row] = neutral_i(kind, out->dtype);
    return;
  }
  if (out->f) out->f[row] = rows->f[at];
  else out->i[row] = rows->i[at];
  EACH_ELEMENT(ev, i, 1, n) {
    if (out->f) out->f[row] = combine_f(kind, out->f[row], rows->f[at + i]);
    else out->i[row] = combine_i(kind, out->dtype, out->i[row], rows->i[at + i]);
  }
}

/* The whole in the first part, the neutral element in the others. */
static Tile *in_parts(Eval *ev, const Op *op, const Tile *whole) {
  Axis parts;
  if (!position_axis(ev, op_attr(op, ATTR_into)->sym, &parts)) return NULL;
  Box box = box_with(&whole->box, parts);
  Tile *out = tile_new(ev, whole->dtype, &box);
  EACH_ELEMENT(ev, e, 0, box_count(&box)) {
    bool first = e % parts.n == 0;
    if (out->f) out->f[e] = first ? whole->f[e / parts.n] : neutral_f(op->kind, out->dtype);
    else out->i[e] = first ? whole->i[e / parts.n] : neutral_i(op->kind, out->dtype);
  }
  return out;
}

/* out = by op out, element by element. */
static bool combine_with(Eval *ev, OpKind kind, const Tile *by, Tile *out) {
  EACH_ELEMENT(ev, e, 0, box_count(&out->box)) {
    if (out->f) out->f[e] = combine_f(kind, by->f[e], out->f[e]);
    else out->i[e] = combine_i(kind, out->dtype, by->i[e], out->i[e]);
  }
  return !ev->stopped;
}

bool reduce_rows(Eval *ev, const Op *op, Tile **sum) {
  Box rest;
  Axis along;
  Tile *rows = reduction_rows(ev, op, &rest, &along);
  if (!rows) return false;
  Tile *out = tile_new(ev, rows->dtype, &rest), *before = *sum;
  for (int64_t e = 0, n = box_count(&rest); e < n; e++) {
    if (!eval_goes_on(ev, along.n)) return false;
    reduce_row(ev, op->kind, rows, e, &along, out);
  }
  *sum = out;
  return !before || combine_with(ev, op->kind, before, out);
}

bool reduce_finish(Eval *ev, const Op *op, Tile *sum) {
  if (op_has(op, ATTR_into)) sum = in_parts(ev, op, sum);
  if (!sum) return false;
  Tile *init = op->nargs > 1 ? tile_at(ev, op->args[1], &sum->box) : NULL;
  if (op->nargs > 1 && (!init || !combine_with(ev, op->kind, init, sum))) return false;
  tile_round(ev, sum);
  ev->values[op->results[0].id].tile = sum;
  return true;
}

bool run_reduce(Eval *ev, Op *op) {
  Tile *sum = NULL;
  return reduce_rows(ev, op, &sum) && reduce_finish(ev, op, sum);
}

/* ---- cumsum ---- */

bool run_cumsum(Eval *ev, Op *op) {
  Box rest, box;
  Axis along;
  Tile *rows = reduction_rows(ev, op, &rest, &along);
  Tile *init = rows && op->nargs > 1 ? tile_at(ev, op->args[1], &rest) : NULL;
  if (!rows || (op->nargs > 1 && !init)) return false;
  if (!position_box(ev, op->results[0].type, &box)) return false;
  Tile *sums = tile_new(ev, rows->dtype, &rows->box);
  for (int64_t e = 0, n = box_count(&rest); e < n; e++) {
    if (!eval_goes_on(ev, along.n)) return false;
    double f = init && init->f ? init->f[e] : 0;
    uint64_t i = init && init->i ? (uint64_t)init->i[e] : 0;
    EACH_ELEMENT(ev, at, e * along.n, (e + 1) * along.n) {
      if (sums->f) sums->f[at] = f += rows->f[at];
      else sums->i[at] = (int64_t)(i += (uint64_t)rows->i[at]);
    }
  }
  tile_round(ev, sums);
  ev->values[op->results[0].id].tile = tile_on(ev, sums, &box);
  return true;
}

/* ---- topk ---- */

/* Whether element a of a row ranks before the best so far: larger first, NaN last. Elements are
 * tried in order, so the first of equal ones wins. */
static bool is_better(const Tile *rows, int64_t a, int64_t best) {
  if (rows->i) return scalar_less(rows->dtype, rows->i[best], rows->i[a]);
  return rows->f[a] > rows->f[best] || (isnan(rows->f[best]) && !isnan(rows->f[a]));
}

/* A requested element that does not exist is the least value, at index -1. */
static void pick_nothing(Tile *values, Tile *where, int64_t at) {
  if (values->f) values->f[at] = neutral_f(OP_max, values->dtype);
  else values->i[at] = neutral_i(OP_max, values->dtype);
  where->i[at] = -1;
}

static bool pick_row(Eval *ev, const Tile *rows, int64_t row, const Axis *along, int64_t k,
                     bool *taken, Tile *values, Tile *where) {
  int64_t n = axis_count(along);
  for (int64_t i = 0; i < n; i++) taken[i] = false;
  for (int64_t j = 0; j < k; j++) {
    int64_t best = -1, first = row * along->n;
    if (!eval_goes_on(ev, n + 1)) return false;
    EACH_ELEMENT(ev, i, 0, n)
      if (!taken[i] && (best < 0 || is_better(rows, first + i, first + best))) best = i;
    if (best < 0) {
      pick_nothing(values, where, row * k + j);
      continue;
    }
    taken[best] = true;
    if (values->f) values->f[row * k + j] = rows->f[first + best];
    else values->i[row * k + j] = rows->i[first + best];
    where->i[row * k + j] = dtype_wrap(where->dtype, along->lo + best);
  }
  return true;
}

bool run_topk(Eval *ev, Op *op) {
  Box rest, box;
  Axis along, found;
  Tile *rows = reduction_rows(ev, op, &rest, &along);
  if (!rows || !position_axis(ev, op_attr(op, ATTR_k_dim)->sym, &found) ||
      !position_box(ev, op->results[0].type, &box))
    return false;
  Box picked = box_with(&rest, found);
  Tile *values = tile_new(ev, rows->dtype, &picked), *where = tile_new(ev, DTYPE_i32, &picked);
  bool *taken = ARENA_ARRAY(ev->arena, bool, along.n);
  for (int64_t e = 0, n = box_count(&rest); e < n; e++)
    if (!pick_row(ev, rows, e, &along, found.n, taken, values, where)) return false;
  ev->values[op->results[0].id].tile = tile_on(ev, values, &box);
  ev->values[op->results[1].id].tile = tile_on(ev, where, &box);
  return true;
}
