/* tiles_scan.c: prefix sums, one element after another along the dim. */
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "tiles/tiles.h"

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

/* Vectors along the longest of the other dims that the operand likes. */
bool tiles_scan(Tiles *t, const Op *op) {
  Scan s = {.op = op, .out = &op->results[0]};
  const Value *of = op->args[0];
  DType dtype = of->type->dtype;
  Tile here = {0}, *tile = &t->tile[s.out->id];
  if (!tile_place(t, op, of->type, &here) || !tile_place(t, op, s.out->type, tile)) return false;
  int dim = type_dim(of->type, op_attr(op, ATTR_dim)->sym);
  bool narrow = dtype_is_float(dtype) && dtype_info[dtype].bits < 32;
  NestBox all = nest_box(t, of->type, &here), rest = nest_without(&all, dim);
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
