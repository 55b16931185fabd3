/* tiles_topk.c: the largest elements along a dim, and their indices.
 *
 *     for $i0 with {trips = k} {
 *       %v, %at = for $i1 step 16 carry ... { in each lane the best element not taken before }
 *       the best of the lanes; it is taken
 *     }
 *
 * Larger is better, NaN is worse than any number, and the first of equal elements is better. */
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "ir/ops/reductions.h"
#include "lower_tiles/tiles.h"

typedef struct TopK {
  const Op *op;
  const Sym *dim, *start, *end, *k_dim, *k_start; /* end NULL: all of the tile */
  int extent, k, width;
  Value *taken; /* for each element of the row: 1, or 0 */
} TopK;

/* Elements, or vecs of them, and their indices in the row; -1: none. */
typedef struct Best {
  Value *value, *at;
} Best;

/* ---- which is better ---- */

static Value *compare(Tiles *t, OpKind kind, Value *a, Value *b) {
  Value *args[] = {a, b};
  return emit_op(&t->l, kind, args, 2, NULL, 0, type_vec(t->l.k->cx, a->type->n, DTYPE_i1));
}

static Value * not(Tiles * t, Value *v) { return emit_op(&t->l, OP_not, &v, 1, NULL, 0, v->type); }

static Value *is_better(Tiles *t, Value *v, Value *than) {
  Value *larger = compare(t, OP_gt, v, than);
  if (!dtype_is_float(v->type->dtype)) return larger;
  Value *nan = not(t, compare(t, OP_eq, than, than));
  Value *number = emit_binary(&t->l, OP_and, nan, compare(t, OP_eq, v, v));
  return emit_binary(&t->l, OP_or, larger, number);
}

static Value *number_vec(Tiles *t, int v, int n) {
  return emit_splat(&t->l, emit_number(&t->l, DTYPE_i32, v), n);
}

static Best select_best(Tiles *t, Value *cond, Best yes, Best no) {
  return (Best){emit_select(&t->l, cond, yes.value, no.value),
                emit_select(&t->l, cond, yes.at, no.at)};
}

/* The better of two, lane by lane, in whichever order they come. */
static Best better_of(Tiles *t, Best a, Best b) {
  Lower *l = &t->l;
  Value *zero = number_vec(t, 0, a.at->type->n);
  Value *first =
      emit_binary(l, OP_and, not(t, is_better(t, a.value, b.value)), compare(t, OP_lt, b.at, a.at));
  Value *wins = emit_binary(l, OP_or, is_better(t, b.value, a.value), first);
  wins = emit_binary(l, OP_or, wins, compare(t, OP_lt, a.at, zero));
  return select_best(t, emit_binary(l, OP_and, wins, compare(t, OP_ge, b.at, zero)), b, a);
}

static Best part_of(Tiles *t, Best b, int first, int n) {
  return (Best){emit_range(&t->l, b.value, first, n), emit_range(&t->l, b.at, first, n)};
}

/* The best of all lanes. */
static Best best_lane(Tiles *t, Best b) {
  while (b.at->type->n > 1) {
    int n = b.at->type->n, half = n / 2;
    Best joined = better_of(t, part_of(t, b, 0, half), part_of(t, b, half, half));
    if (n % 2) return better_of(t, best_lane(t, joined), part_of(t, b, n - 1, 1));
    b = joined;
  }
  return b;
}

/* ---- a round ---- */

/* Per lane, the best so far or, if it is better and not taken, the element of the vec at `at`,
 * which comes after the best so far. */
static bool look_at(Tiles *t, const TopK *x, Point p, const Sym *at, int width, Best *best) {
  Lower *l = &t->l;
  p.dim[p.n] = x->dim;
  p.at[p.n] = emit_sound(l, sym_add(l->sym, x->start, at));
  p.along = width > 1 ? p.n : -1;
  p.width = width;
  p.n++;
  Value *v = tiles_wide_at(t, x->op->args[0], &p);
  if (!v) return false;
  Value *address[] = {x->taken, emit_address(l, emit_sound(l, at), DTYPE_index)};
  Value *taken = emit_op(l, OP_load, address, 2, NULL, 0, type_vec(l->k->cx, width, DTYPE_i32));
  Value *number = emit_splat(l, emit_expr(l, at, DTYPE_i32), width > 1 ? width : 1);
  if (width > 1) number = emit_binary(l, OP_add, number, tile_iota(t, width, DTYPE_i32));
  Value *zero = number_vec(t, 0, width);
  Value *wins =
      emit_binary(l, OP_or, is_better(t, v, best->value), compare(t, OP_lt, best->at, zero));
  wins = emit_binary(l, OP_and, wins, compare(t, OP_eq, taken, zero));
  if (x->op->nargs > 1) {
    Value *exists = tiles_wide_at(t, x->op->args[1], &p);
    if (!exists) return false;
    wins = emit_binary(l, OP_and, wins, exists);
  }
  *best = select_best(t, wins, (Best){v, number}, *best);
  return true;
}

static Best nothing(Tiles *t, const TopK *x, int width) {
  Value *least = emit_neutral(&t->l, OP_max, x->op->args[0]->type->dtype);
  return (Best){emit_splat(&t->l, least, width), number_vec(t, -1, width)};
}

/* Whole vectors, then the rest. */
static bool best_of_row(Tiles *t, const TopK *x, const Point *row, Best *out) {
  SymCtx *sym = t->l.sym;
  int whole = x->extent / x->width * x->width, rest = x->extent - whole;
  Best none = nothing(t, x, x->width), last;
  Value *carried[] = {none.value, none.at};
  NestLoop loop =
      loop_open(t, NULL, nest_trips(t, whole, x->start, x->end), x->extent, x->width, carried, 2);
  Best best = {loop_arg(&loop, 0), loop_arg(&loop, 1)};
  bool ok = look_at(t, x, *row, loop.counter, x->width, &best);
  loop_close(t, &loop, (Value *[]){best.value, best.at});
  *out = best_lane(t, (Best){loop_result(&loop, 0), loop_result(&loop, 1)});
  if (!ok || !rest) return ok;
  last = nothing(t, x, rest);
  ok = look_at(t, x, *row, sym_int(sym, whole), rest, &last);
  if (ok) *out = better_of(t, *out, best_lane(t, last));
  return ok;
}

/* ---- the row ---- */

static void set_taken(Tiles *t, const TopK *x, Value *at, Value *v) {
  Value *args[] = {v, x->taken, at};
  emit_op(&t->l, OP_store, args, 3, NULL, 0, NULL);
}

static bool clear_at(Tiles *t, const Point *p, void *user) {
  const TopK *x = user;
  set_taken(t, x, emit_address(&t->l, p->at[0], DTYPE_index), number_vec(t, 0, p->width));
  return true;
}

static void store_result(Tiles *t, const Value *out, const Point *p, Value *v) {
  const Tile *tile = &t->tile[out->id];
  buffer_store(t, tile->buffer, out->type, tile, p, v);
}

static bool topk_row(Tiles *t, const Point *p, void *user) {
  TopK *x = user;
  Lower *l = &t->l;
  NestBox all = {.rank = 1, .along = 0, .width = x->width, .extent = {x->extent}};
  all.dim[0] = x->dim;
  all.start[0] = sym_int(l->sym, 0);
  nest_run(t, &all, clear_at, x);
  NestLoop rounds = loop_open(t, NULL, sym_int(l->sym, x->k), 0, 1, NULL, 0);
  Best best;
  bool ok = best_of_row(t, x, p, &best);
  if (ok) {
    Point q = *p;
    Value *at = emit_cast(l, best.at, DTYPE_index), *none[] = {best.at, number_vec(t, 0, 1)};
    Value *nowhere = emit_op(l, OP_lt, none, 2, NULL, 0, type_scalar(l->k->cx, DTYPE_i1));
    Value *last = emit_number(l, DTYPE_index, x->extent); /* never looked at */
    q.dim[q.n] = x->k_dim;
    q.at[q.n++] = emit_sound(l, sym_add(l->sym, x->k_start, rounds.counter));
    set_taken(t, x, emit_select(l, nowhere, last, at), emit_number(l, DTYPE_i32, 1));
    const Sym *where = sym_add(l->sym, x->start, emit_arg(l, 0));
    Value *index = emit_expr_of(l, where, DTYPE_i32, &at, 1);
    store_result(t, &x->op->results[0], &q, best.value);
    store_result(t, &x->op->results[1], &q, emit_select(l, nowhere, best.at, index));
  }
  loop_close(t, &rounds, NULL);
  return ok;
}

bool tiles_topk(Tiles *t, const Op *op) {
  const Value *of = op->args[0];
  const Type *out = op->results[0].type;
  Tile here = {0};
  if (!tile_set_ranges(t, op, of->type, &here)) return false;
  for (int i = 0; i < 2; i++) {
    if (!tile_set_ranges(t, op, op->results[i].type, &t->tile[op->results[i].id])) return false;
    tile_new_buffer(t, &op->results[i]);
  }
  const Tile *found = &t->tile[op->results[0].id];
  int dim = type_dim(of->type, op_attr(op, ATTR_dim)->sym);
  int k_dim = type_dim(out, op_attr(op, ATTR_k_dim)->sym);
  NestBox all = nest_box(t, of->type, &here), rest = nest_without(&all, dim);
  TopK x = {.op = op, .dim = all.dim[dim], .start = all.start[dim], .extent = all.extent[dim]};
  x.end = access_exists_limit(t, reduction_exists(op), x.dim);
  x.k_dim = out->dims[k_dim];
  x.k_start = found->start[k_dim];
  x.k = found->extent[k_dim];
  nest_choose_width(t, &all, x.dim, of);
  x.width = all.width;
  x.taken = scratch_new(t, DTYPE_i32, x.extent + 1, false);
  return nest_run(t, &rest, topk_row, &x);
}
