/* tiles_scan.c: prefix sums and the largest elements, one element after another along the dim. */
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "tiles/tiles.h"

/* ---- cumsum ---- */

typedef struct Scan {
  const Op *op;
  const Value *out;
  const Sym *dim, *start;
  int extent;
  DType dtype; /* what it is computed in */
} Scan;

static bool scan_at(Tiles *t, const Point *p, void *user) {
  const Scan *s = user;
  Lower *l = &t->l;
  const Tile *tile = &t->tile[s->out->id];
  Value *acc = s->op->nargs > 1 ? tiles_wide_at(t, s->op->args[1], p)
                                : emit_splat(l, emit_number(l, s->dtype, 0), p->width);
  if (!acc) return false;
  acc = emit_cast(l, acc, s->dtype);
  NestLoop loop = loop_open(t, NULL, sym_int(l->sym, s->extent), 0, 1, &acc, 1);
  Point q = *p;
  q.dim[q.n] = s->dim;
  q.at[q.n++] = lower_sound(l, sym_add(l->sym, s->start, loop.counter));
  Value *v = tiles_wide_at(t, s->op->args[0], &q), *sum = acc;
  if (v) {
    sum = emit_binary(l, OP_add, loop_arg(&loop, 0), emit_cast(l, v, s->dtype));
    buffer_store(t, tile->buffer, s->out->type, tile, &q, emit_cast(l, sum, s->out->type->dtype));
  }
  loop_close(t, &loop, &sum);
  return v != NULL;
}

/* The box of the other dims. */
static NestBox without(const NestBox *b, int dim) {
  NestBox rest = *b;
  rest.rank = 0;
  rest.along = -1;
  rest.width = 1;
  for (int i = 0; i < b->rank; i++) {
    if (i == dim) continue;
    rest.dim[rest.rank] = b->dim[i];
    rest.start[rest.rank] = b->start[i];
    rest.extent[rest.rank++] = b->extent[i];
  }
  return rest;
}

/* Vectors along the longest of the other dims that the operand likes. */
bool tiles_scan(Tiles *t, const Op *op) {
  Scan s = {.op = op, .out = &op->results[0]};
  const Value *of = op->args[0];
  DType dtype = of->type->dtype;
  Tile here = {0}, *tile = &t->tile[s.out->id];
  if (!tile_place(t, op, of->type, &here) || !tile_place(t, op, s.out->type, tile)) return false;
  int dim = type_dim(of->type, op_attr(op, ATTR_dim)->sym);
  bool narrow = dtype_is_float(dtype) && dtype_info[dtype].bits < 32;
  NestBox all = nest_box(t, of->type, &here), rest = without(&all, dim);
  s.dtype = narrow ? DTYPE_f32 : dtype;
  s.dim = all.dim[dim];
  s.start = all.start[dim];
  s.extent = all.extent[dim];
  const Sym *along = tile_contiguous(t, of);
  tile->held = TILE_BUFFER;
  tile->buffer = buffer_new(t, s.out->type, tile, along);
  nest_choose_width(t, &rest, along, of);
  return nest_run(t, &rest, scan_at, &s);
}

/* ---- topk ---- */

/* Each round goes over the row and takes the best element that was not taken before. */
typedef struct TopK {
  const Op *op;
  const Sym *dim, *start, *k_dim, *k_start;
  int extent, k;
  Value *taken; /* a truth value for each element of the row */
} TopK;

static Value *compare(Tiles *t, OpKind kind, Value *a, Value *b) {
  Value *args[] = {a, b};
  return emit(&t->l, kind, args, 2, NULL, 0, type_scalar(t->l.k->cx, DTYPE_i1));
}

static Value * not(Tiles * t, Value *v) { return emit(&t->l, OP_not, &v, 1, NULL, 0, v->type); }

static void set_taken(Tiles *t, const TopK *x, Value *at, bool taken) {
  Value *args[] = {emit_number(&t->l, DTYPE_i1, taken), x->taken, at};
  emit(&t->l, OP_store, args, 3, NULL, 0, NULL);
}

/* Larger, and NaN last; of equal ones the first stays. */
static Value *is_better(Tiles *t, Value *v, Value *best) {
  Value *larger = compare(t, OP_gt, v, best);
  if (!dtype_is_float(v->type->dtype)) return larger;
  Value *nan = not(t, compare(t, OP_eq, best, best));
  Value *number = emit_binary(&t->l, OP_and, nan, compare(t, OP_eq, v, v));
  return emit_binary(&t->l, OP_or, larger, number);
}

/* carried: best value, where it stands, and whether there is one. */
static bool best_of_row(Tiles *t, const TopK *x, const Point *row, Value **best) {
  Lower *l = &t->l;
  DType dtype = x->op->args[0]->type->dtype;
  Value *first[] = {emit_number(l, dtype, 0), emit_number(l, DTYPE_index, 0),
                    emit_number(l, DTYPE_i1, 0)};
  NestLoop loop = loop_open(t, NULL, sym_int(l->sym, x->extent), 0, 1, first, 3);
  Point p = *row;
  p.dim[p.n] = x->dim;
  p.at[p.n++] = lower_sound(l, sym_add(l->sym, x->start, loop.counter));
  Value *v = tiles_at(t, x->op->args[0], &p), *at = emit_expr(l, loop.counter, DTYPE_index);
  Value *place[] = {x->taken, at}, *next[3] = {first[0], first[1], first[2]};
  if (v) {
    Value *taken = emit(l, OP_load, place, 2, NULL, 0, type_scalar(l->k->cx, DTYPE_i1));
    Value *none = not(t, loop_arg(&loop, 2)), *better = is_better(t, v, loop_arg(&loop, 0));
    Value *take = emit_binary(l, OP_and, not(t, taken), emit_binary(l, OP_or, none, better));
    next[0] = emit_select(l, take, v, loop_arg(&loop, 0));
    next[1] = emit_select(l, take, at, loop_arg(&loop, 1));
    next[2] = emit_binary(l, OP_or, take, loop_arg(&loop, 2));
  }
  loop_close(t, &loop, next);
  for (int i = 0; i < 2; i++) best[i] = loop_result(&loop, i);
  return v != NULL;
}

static void store_result(Tiles *t, const Value *out, const Point *p, Value *v) {
  const Tile *tile = &t->tile[out->id];
  buffer_store(t, tile->buffer, out->type, tile, p, v);
}

static bool topk_row(Tiles *t, const Point *p, void *user) {
  const TopK *x = user;
  Lower *l = &t->l;
  NestLoop clear = loop_open(t, NULL, sym_int(l->sym, x->extent), 0, 1, NULL, 0);
  set_taken(t, x, emit_expr(l, clear.counter, DTYPE_index), false);
  loop_close(t, &clear, NULL);
  NestLoop rounds = loop_open(t, NULL, sym_int(l->sym, x->k), 0, 1, NULL, 0);
  Value *best[2];
  bool ok = best_of_row(t, x, p, best);
  if (ok) {
    Point q = *p;
    q.dim[q.n] = x->k_dim;
    q.at[q.n++] = lower_sound(l, sym_add(l->sym, x->k_start, rounds.counter));
    set_taken(t, x, best[1], true);
    const Sym *where = sym_add(l->sym, x->start, emit_arg(l, 0));
    store_result(t, &x->op->results[0], &q, best[0]);
    store_result(t, &x->op->results[1], &q, emit_expr_of(l, where, DTYPE_i32, &best[1], 1));
  }
  loop_close(t, &rounds, NULL);
  return ok;
}

bool tiles_topk(Tiles *t, const Op *op) {
  const Value *of = op->args[0];
  const Type *out = op->results[0].type;
  Tile here = {0};
  if (!tile_place(t, op, of->type, &here)) return false;
  for (int i = 0; i < 2; i++) {
    if (!tile_place(t, op, op->results[i].type, &t->tile[op->results[i].id])) return false;
    tile_new_buffer(t, &op->results[i]);
  }
  const Tile *found = &t->tile[op->results[0].id];
  int dim = type_dim(of->type, op_attr(op, ATTR_dim)->sym);
  int k_dim = type_dim(out, op_attr(op, ATTR_k_dim)->sym);
  NestBox all = nest_box(t, of->type, &here), rest = without(&all, dim);
  TopK x = {.op = op, .dim = all.dim[dim], .start = all.start[dim], .extent = all.extent[dim]};
  x.k_dim = out->dims[k_dim];
  x.k_start = found->start[k_dim];
  x.k = found->extent[k_dim];
  if (x.k > x.extent) return tiles_refuse(t, op, "more elements than there are along the dim");
  x.taken = scratch_new(t, DTYPE_i1, x.extent, false);
  return nest_run(t, &rest, topk_row, &x);
}
