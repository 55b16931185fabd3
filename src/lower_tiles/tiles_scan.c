/* tiles_scan.c: prefix sums, and reductions and scans with a user-defined function: one element
 * after the other along the dim, in order. */
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "ir/ops/combine.h"
#include "ir/ops/reductions.h"
#include "lower_tiles/tiles.h"

typedef struct Scan {
  const Op *op;
  const Value *out;
  const Sym *dim, *start, *end; /* end NULL: all of the tile */
  int extent;
  DType dtype; /* the type it is computed in */
  Value *one;  /* the result of a reduction to one element */
} Scan;

/* The value before the first element. */
static Value *first(Tiles *t, const Scan *s, const Point *p) {
  Lower *l = &t->l;
  if (s->op->nargs == 1) return emit_splat(l, emit_number(l, s->dtype, 0), p->width);
  Value *init = tiles_wide_at(t, s->op->args[1], p);
  return init ? emit_cast(l, init, s->dtype) : NULL;
}

/* `acc` combined with the element at a point, if it exists; NULL after reporting. */
static Value *next(Tiles *t, const Scan *s, const Point *p, Value *acc) {
  Lower *l = &t->l;
  const Value *exists = reduction_exists(s->op);
  Value *v = tiles_wide_at(t, s->op->args[0], p), *there = NULL;
  if (v && exists) there = tiles_wide_at(t, exists, p);
  if (!v || (exists && !there)) return NULL;
  if (!op_combines(s->op->kind)) return emit_binary(l, OP_add, acc, emit_cast(l, v, s->dtype));
  v = emit_combine(l, s->op, acc, v);
  return there ? emit_select(l, there, v, acc) : v;
}

static void take_result(Tiles *t, Scan *s, const Point *p, Value *v) {
  const Tile *tile = &t->tile[s->out->id];
  v = emit_cast(&t->l, v, s->out->type->dtype);
  if (tile->held == TILE_BUFFER) buffer_store(t, tile->buffer, s->out->type, tile, p, v);
  else s->one = v;
}

/* ---- where the loops end ---- */

/* A reduction ends with the elements that exist, a scan with those that are used. */
static const Sym *end_of(Tiles *t, const Op *op, const Sym *dim) {
  if (op->kind == OP_reduce) return access_exists_limit(t, reduction_exists(op), dim);
  return tiles_used_below(t, &op->results[0], dim, NULL);
}

static bool scan_at(Tiles *t, const Point *p, void *user) {
  Scan *s = user;
  Lower *l = &t->l;
  bool reduces = s->op->kind == OP_reduce;
  Value *acc = first(t, s, p);
  if (!acc) return false;
  NestLoop loop =
      loop_open(t, NULL, nest_trips(t, s->extent, s->start, s->end), s->extent, 1, &acc, 1);
  if (s->end) nest_grant(t, s->dim, s->end);
  Point q = *p;
  q.dim[q.n] = s->dim;
  q.at[q.n++] = emit_sound(l, sym_add(l->sym, s->start, loop.counter));
  Value *v = next(t, s, &q, loop_arg(&loop, 0)), *sum = v ? v : acc;
  if (v && !reduces) take_result(t, s, &q, v);
  loop_close(t, &loop, &sum);
  if (v && reduces) take_result(t, s, p, loop_result(&loop, 0));
  return v != NULL;
}

/* Vectors run along the longest of the other dims that suits the operand. */
bool tiles_scan(Tiles *t, const Op *op) {
  Scan s = {.op = op, .out = &op->results[0]};
  const Value *of = op->args[0];
  DType dtype = of->type->dtype;
  Tile here = {0}, *tile = &t->tile[s.out->id];
  if (op_has(op, ATTR_into)) return tiles_refuse(t, op, "a partial reduction");
  if (!tile_set_ranges(t, op, of->type, &here) || !tile_set_ranges(t, op, s.out->type, tile))
    return false;
  int dim = type_dim(of->type, op_attr(op, ATTR_dim)->sym);
  bool narrow = dtype_is_float(dtype) && dtype_info[dtype].bits < 32;
  NestBox all = nest_box(t, of->type, &here), rest = nest_without(&all, dim);
  s.dtype = narrow && !op_combines(op->kind) ? DTYPE_f32 : dtype;
  s.dim = all.dim[dim];
  s.start = all.start[dim];
  s.extent = all.extent[dim];
  s.end = end_of(t, op, s.dim);
  if (op->kind != OP_reduce) tile->end[type_dim(s.out->type, s.dim)] = s.end;
  const Sym *along = tile_contiguous(t, of);
  bool single = op->kind == OP_reduce && tile_elements(s.out->type, tile) == 1;
  tile->held = single ? TILE_SCALAR : TILE_BUFFER;
  if (op->kind == OP_reduce && !single) tile_new_buffer(t, s.out);
  else if (!single) tile->buffer = buffer_new(t, s.out->type, tile, along);
  nest_choose_width(t, &rest, along, of);
  if (!nest_run(t, &rest, scan_at, &s)) return false;
  if (single) tile->scalar = s.one;
  return true;
}
