/* tiles_reduce.c: sum, max and min along one dim.
 *
 *     along the vectors                           across them
 *     for rows {                                  for vectors of columns {
 *       %a = for $i1 step 16 carry %v { v + x }     %a = for rows carry %v { v + x }
 *       the elements of %a, pair by pair            store %a
 *       store one                                 }
 *     }
 *
 * Narrow floats are summed in f32 and rounded at the end. An operand that is kept because it is
 * used again later, and that has not been computed yet, is stored in the same loops. */
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "ir/ops/reductions.h"
#include "lower_tiles/tiles.h"

typedef struct Reduction {
  const Op *op;
  const Value *of, *out;
  NestBox all; /* of the operand; `along` is the dim of vectors */
  int dim;     /* which is reduced */
  OpKind combine;
  DType dtype; /* the type it is computed in */
  Value *one;  /* the result, when it is one element */
  Point row;   /* while it is reduced: the dim is the last of the point */
} Reduction;

static Value *neutral(Tiles *t, const Reduction *r, int width) {
  return emit_splat(&t->l, emit_neutral(&t->l, r->op->kind, r->dtype), width);
}

/* ---- vectors ---- */

/* All elements of a vec, combined in halves so that they stay vectors as long as possible. */
static Value *combine_elements(Tiles *t, OpKind combine, Value *v) {
  Lower *l = &t->l;
  while (v->type->n > 1) {
    int n = v->type->n, half = n / 2;
    Value *sum = emit_binary(l, combine, emit_range(l, v, 0, half), emit_range(l, v, half, half));
    if (n % 2) { /* the odd one joins the first */
      Value *first = emit_range(l, sum, 0, 1), *odd = emit_range(l, v, n - 1, 1);
      Value *parts[] = {emit_binary(l, combine, first, odd), NULL};
      if (half > 1) parts[1] = emit_range(l, sum, 1, half - 1);
      sum = emit_join(l, parts, half > 1 ? 2 : 1);
    }
    v = sum;
  }
  return v;
}

/* The operand at a point, in the dtype of the sum. */
static Value *term_at(Tiles *t, const Reduction *r, const Point *p) {
  Value *v = tiles_wide_at(t, r->of, p);
  tiles_prefetch_rows(t, r->all.along == r->dim ? r->op : NULL, r->of, p);
  if (r->all.along == r->dim) tiles_prefetch_written(t, r->op, p);
  const Tile *of = &t->tile[r->of->id];
  if (v && of->later) buffer_store(t, of->later, r->of->type, of, p, v);
  return v ? emit_cast(&t->l, v, r->dtype) : NULL;
}

/* ---- the result ---- */

/* Combines with the second operand, then stores or keeps the result. */
static bool finish(Tiles *t, Reduction *r, const Point *p, Value *v) {
  Lower *l = &t->l;
  const Tile *tile = &t->tile[r->out->id];
  if (r->op->nargs > 1) {
    Value *init = tiles_wide_at(t, r->op->args[1], p);
    if (!init) return false;
    v = emit_binary(l, r->combine, emit_cast(l, init, r->dtype), v);
  }
  v = emit_cast(l, v, r->out->type->dtype);
  if (tile->held == TILE_BUFFER) buffer_store(t, tile->buffer, r->out->type, tile, p, v);
  else r->one = v;
  return true;
}

/* ---- what exists ---- */

/* How many of the first n elements along the dim come before its end. */
static const Sym *existing(Tiles *t, const Reduction *r, int n) {
  return nest_trips(t, n, r->all.start[r->dim], r->all.end[r->dim]);
}

/* ---- along the vectors ---- */

enum { SHORT_ROW = 4 }; /* vectors */

typedef struct Part {
  const Sym *from, *to; /* relative; from NULL: 0 */
  int width, times;     /* `times` vectors of `width` elements per iteration */
  const Sym *limit;
} Part;

/* Combines `acc` (NULL: nothing yet) with the vectors that begin at `offset`; NULL after
 * reporting. */
static Value *combine_vectors(Tiles *t, Reduction *r, Part part, const Sym *offset, Value *acc) {
  Lower *l = &t->l;
  Point p = r->row;
  int at = p.n - 1, granted = t->granted.n;
  if (part.limit) nest_grant(t, p.dim[at], part.limit);
  p.along = part.width > 1 ? at : -1;
  p.width = part.width;
  const Sym *first = sym_add(l->sym, r->all.start[r->dim], offset);
  for (int i = 0; i < part.times; i++) {
    p.at[at] = emit_sound(l, sym_add(l->sym, first, sym_int(l->sym, i * part.width)));
    Value *v = term_at(t, r, &p);
    if (!v) return NULL;
    acc = acc ? emit_binary(l, r->combine, acc, v) : v;
  }
  t->granted.n = granted;
  return acc;
}

/* Combines *acc (NULL: nothing yet) with elements [from, to) of the row. */
static bool add_part(Tiles *t, Reduction *r, Part part, Value **acc) {
  int64_t first = 0, n;
  int step = part.width * part.times;
  bool known = (!part.from || sym_is_int(part.from, &first)) && sym_is_int(part.to, &n);
  if (known && n <= first) return true;
  if (known && n - first == step) {
    *acc = combine_vectors(t, r, part, sym_int(t->l.sym, first), *acc);
    return *acc != NULL;
  }
  if (!*acc) *acc = neutral(t, r, part.width);
  NestLoop loop = loop_open(t, part.from, part.to, r->all.extent[r->dim], step, acc, 1);
  Value *next = combine_vectors(t, r, part, loop.counter, loop_arg(&loop, 0));
  loop_close(t, &loop, next ? &next : acc);
  *acc = loop_result(&loop, 0);
  return next != NULL;
}

/* How many vectors below the limit are combined per iteration. A short row that is entirely below
 * it takes one iteration: the end of a loop of two or three is mispredicted on some CPUs, depending
 * on the address of the code. */
static int times_below(Tiles *t, const Reduction *r) {
  int extent = r->all.extent[r->dim], times = extent / r->all.width;
  bool is_short = times <= SHORT_ROW && extent % r->all.width == 0;
  return is_short && !tile_has_function(t, r->of) ? times : 1;
}

/* Vectors below the limit of an access, the others, and the rest. */
static bool reduce_row(Tiles *t, const Point *p, void *user) {
  Reduction *r = user;
  SymCtx *sym = t->l.sym;
  NestBox below = r->all;
  int width = below.width, extent = below.extent[r->dim], rest = extent % width;
  const Sym *all = sym_int(sym, extent), *whole = sym_int(sym, extent - rest);
  const Sym *limit = below.split, *full = whole;
  Value *sum = NULL, *others = NULL;
  int times = limit ? times_below(t, r) : 1;
  below.width *= times;
  if (limit) full = nest_below(t, &below, r->dim, limit);
  r->row = *p;
  r->row.dim[r->row.n++] = r->all.dim[r->dim];
  if (!add_part(t, r, (Part){NULL, full, width, times, limit}, &sum) ||
      !add_part(t, r, (Part){full, existing(t, r, extent - rest), width, 1, NULL}, &sum) ||
      !add_part(t, r, (Part){whole, all, rest, 1, NULL}, &others))
    return false;
  sum = sum ? combine_elements(t, r->combine, sum) : neutral(t, r, 1); /* none exist */
  if (rest) sum = emit_binary(&t->l, r->combine, sum, combine_elements(t, r->combine, others));
  return finish(t, r, p, sum);
}

/* ---- across the vectors ---- */

static bool reduce_across(Tiles *t, const Point *p, void *user) {
  Reduction *r = user;
  Lower *l = &t->l;
  Value *acc = neutral(t, r, p->width);
  Point q = *p;
  q.dim[q.n] = r->all.dim[r->dim];
  NestLoop loop =
      loop_open(t, NULL, existing(t, r, r->all.extent[r->dim]), r->all.extent[r->dim], 1, &acc, 1);
  if (r->all.end[r->dim]) nest_grant(t, r->all.dim[r->dim], r->all.end[r->dim]);
  q.at[q.n] = emit_sound(l, sym_add(l->sym, r->all.start[r->dim], loop.counter));
  q.n++;
  Value *v = term_at(t, r, &q);
  Value *next = v ? emit_binary(l, r->combine, loop_arg(&loop, 0), v) : acc;
  loop_close(t, &loop, &next);
  return v && finish(t, r, p, loop_result(&loop, 0));
}

/* ---- operands that are kept ---- */

static bool asks_for(const Tiles *t, const Op *op, const Value *v) {
  for (int i = 0; i < op->nargs; i++)
    if (tiles_depends(t, op->args[i], v)) return true;
  return false;
}

bool reduce_can_store(const Tiles *t, const Value *v) {
  for (const Op *op = v->def->next; op && !op->body; op = op->next) {
    if (op->nresults && t->plan.is_inline[op->results[0].id]) continue;
    if (!asks_for(t, op, v)) continue;
    return op_is_reduction(op) && reduction_info[op->kind].combine < OP_COUNT && !op_is_scan(op) &&
           op->args[0] == v && !op_has(op, ATTR_into) &&
           (op->nargs == 1 || !tiles_depends(t, op->args[1], v));
  }
  return false;
}

static void close_operand(Tiles *t, const Value *of) {
  Tile *tile = &t->tile[of->id];
  if (!tile->later) return;
  tile->held = TILE_BUFFER;
  tile->buffer = tile->later;
  tile->later = NULL;
}

/* ---- the op ---- */

enum { CHAINS = 4 }; /* independent sums: an addition takes several cycles */
enum {
  ACROSS_BYTES = 256
}; /* bytes of a row that are read at once: the next row is on another
                              * page */

static void widen(Reduction *r, int dim, int bytes, int most) {
  int *width = &r->all.width;
  while (*width * bytes < most && *width * 4 <= r->all.extent[dim]) *width *= 2;
}

/* The vector length of the operand that suits its loops. */
static void choose_width(Tiles *t, Reduction *r) {
  int access = t->l.machine.target->global_access, bytes = tile_bytes(t, r->of);
  int along = r->all.along;
  if (along < 0) return;
  r->all.split = tile_limit(t, r->of, r->all.dim[along]);
  if (tile_has_function(t, r->of)) return;
  if (along == r->dim) widen(r, along, bytes, CHAINS * access);
  else if (!r->all.split) widen(r, along, bytes, ACROSS_BYTES); /* long masks are a lot of code */
}

/* The dims that remain. */
static NestBox box_of_result(Tiles *t, const Reduction *r) {
  NestBox b = nest_box(t, r->out->type, &t->tile[r->out->id]);
  if (r->all.along < 0 || r->all.along == r->dim) return b;
  for (int i = 0; i < b.rank; i++)
    if (dim_base(b.dim[i]) == dim_base(r->all.dim[r->all.along])) b.along = i;
  b.width = b.along < 0 ? 1 : r->all.width;
  b.split = b.along < 0 ? NULL : r->all.split;
  return b;
}

/* Elements from which on the operand holds neutral elements are left out, unless it is stored in the
 * same loops and used there later. */
static void end_with_row(Tiles *t, Reduction *r) {
  const Sym *dim = r->all.dim[r->dim], *end = access_kept_limit(t, r->of, dim);
  Tile *of = &t->tile[r->of->id];
  if (!end && reduction_info[r->op->kind].padding == PADDING_ZERO)
    end = access_zeros_from(t, r->of, dim);
  if (of->later && end && tiles_used_below(t, r->of, dim, r->op) != end) end = NULL;
  if (of->later) of->end[r->dim] = end;
  r->all.end[r->dim] = end;
}

bool tiles_reduce(Tiles *t, const Op *op) {
  Reduction r = {.op = op,
                 .of = op->args[0],
                 .out = &op->results[0],
                 .combine = reduction_info[op->kind].combine};
  Tile here = {0}, *tile = &t->tile[r.out->id];
  DType dtype = r.of->type->dtype;
  bool narrow = dtype_is_float(dtype) && dtype_info[dtype].bits < 32;
  if (op_has(op, ATTR_into)) return tiles_refuse(t, op, "a partial reduction");
  r.dtype = narrow && reduction_accumulates(op->kind) ? DTYPE_f32 : dtype;
  if (!tile_set_ranges(t, op, r.of->type, &here) || !tile_set_ranges(t, op, r.out->type, tile))
    return false;
  r.all = nest_box(t, r.of->type, &here);
  r.dim = type_dim(r.of->type, op_attr(op, ATTR_dim)->sym);
  nest_choose_width(t, &r.all, tile_contiguous(t, r.of), r.of);
  bool single = tile_elements(r.out->type, tile) == 1;
  if (single) r.all.along = r.dim, nest_choose_width(t, &r.all, r.all.dim[r.dim], r.of);
  else tile_new_buffer(t, r.out);
  choose_width(t, &r);
  end_with_row(t, &r);
  NestBox b = box_of_result(t, &r);
  if (!nest_run(t, &b, r.all.along == r.dim ? reduce_row : reduce_across, &r)) return false;
  if (single) tile->held = TILE_SCALAR, tile->scalar = r.one;
  close_operand(t, r.of);
  return true;
}
