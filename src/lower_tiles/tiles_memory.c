/* tiles_memory.c: ops that change memory, and the author's own allocations.
 *
 * Elements that a write skips along a dim are not computed at all: its loops end there. */
#include "base/failures.h"
#include "lower_tiles/tiles_region.h"

static bool write_at(Tiles *t, const Point *p, void *user) {
  const Op *op = *(const Op **)user;
  Value *v = tiles_wide_at(t, op->args[0], p);
  tiles_prefetch_rows(t, NULL, op->args[0], p);
  return v && access_store(t, op, p, v);
}

static bool box_of_access(Tiles *t, const Op *op, NestBox *b) {
  Tile here = {0};
  const Type *type = op->args[0]->type;
  if (!tile_set_ranges(t, op, type, &here)) return false;
  *b = nest_box(t, type, &here);
  for (int i = 0; i < b->rank; i++) b->end[i] = access_limit(t, op, b->dim[i]);
  return true;
}

/* ---- writes of buffers whose contiguous dim is another one ---- */

/* Blocks are loaded along the buffer's dim, transposed in registers and stored along the other. */
typedef struct Turned {
  const Op *op;
  NestBox along; /* of the dim that is contiguous in memory alone; its width is that of a block */
  int unit;      /* the dim of points that is contiguous in the buffer; -1: one element of it */
  int width;     /* elements of that dim in a block */
} Turned;

static Point moved(Tiles *t, Point p, int dim, int by) {
  p.at[dim] = tiles_sum(t, p.at[dim], sym_int(t->l.sym, by));
  return p;
}

/* p has the elements of the block that one row of memory gets. */
static bool turned_block(Tiles *t, const Point *p, void *user) {
  const Turned *x = user;
  Value *v[TURN_MOST], *out[TURN_MOST];
  for (int r = 0; r < p->width; r++) {
    Point row = moved(t, *p, p->n - 1, r);
    row.along = x->unit;
    row.width = x->width;
    if (!(v[r] = tiles_wide_at(t, x->op->args[0], &row))) return false;
  }
  tiles_turn(t, v, p->width, x->width, out);
  for (int i = 0; i < x->width; i++) {
    Point column = i ? moved(t, *p, x->unit, i) : *p;
    if (!access_store(t, x->op, &column, out[i])) return false;
  }
  return true;
}

/* A few rows of memory are written from end to end, as hardware prefetchers can follow. */
static bool turned_at(Tiles *t, const Point *p, void *user) {
  Turned *x = user;
  NestBox b = x->along;
  Point from = *p;
  b.along = from.n++;
  from.dim[b.along] = b.dim[b.along] = x->along.dim[0];
  b.start[b.along] = x->along.start[0];
  b.extent[b.along] = x->along.extent[0];
  b.end[b.along] = x->along.end[0];
  x->unit = p->along;
  x->width = p->width;
  return nest_along(t, &b, from, turned_block, x);
}

/* Its elements only have to be loaded, from memory or from a buffer. */
static bool is_moved(const Tiles *t, const Value *v) {
  while (t->tile[v->id].held == TILE_INLINE &&
         (v->def->kind == OP_permute || v->def->kind == OP_cast))
    v = v->def->args[0];
  return t->tile[v->id].held == TILE_BUFFER ||
         (t->tile[v->id].held == TILE_INLINE && v->def->kind == OP_read);
}

/* The dim that is contiguous in memory, at least *run elements of it, if it is not that of what is
 * written; else -1. */
static int turned_dim(Tiles *t, const Op *op, const NestBox *b, int *run) {
  enum { FEW = 4 };
  const Value *v = op->args[0];
  if (b->rank < 2 || !is_moved(t, v)) return -1;
  const Sym *unit = tile_contiguous(t, v);
  for (int i = 0; i < b->rank; i++) {
    if (b->extent[i] < FEW) continue;
    *run = access_run(t, op, b->dim[i], b->start[i], b->extent[i], ACCESS_RUN);
    if (*run >= FEW) return dim_base(b->dim[i]) == dim_base(unit) ? -1 : i;
  }
  return -1;
}

static bool write_turned(Tiles *t, const Op *op, const NestBox *all, int dim, int run) {
  const Value *v = op->args[0];
  NestBox b = nest_without(all, dim);
  int most = tiles_turn_width(t);
  Turned x = {.op = op, .along = {.rank = 1, .cheap = true, .width = run < most ? run : most}};
  x.along.dim[0] = all->dim[dim];
  x.along.start[0] = all->start[dim];
  x.along.extent[0] = all->extent[dim];
  x.along.end[0] = all->end[dim];
  for (int i = 0; i < b.rank; i++) b.end[i] = all->end[i + (i >= dim)];
  nest_choose_width(t, &b, tile_contiguous(t, v), v);
  if (b.width > most) b.width = most;
  b.cheap = true;
  return nest_run(t, &b, turned_at, &x);
}

static bool write_all(Tiles *t, const Op *op) {
  NestBox b;
  if (!box_of_access(t, op, &b)) return false;
  const Value *v = op->args[0];
  int run, turned = turned_dim(t, op, &b, &run);
  if (turned >= 0) return write_turned(t, op, &b, turned, run);
  nest_choose_width(t, &b, access_contiguous(t, op), v);
  if (b.along < 0) nest_choose_width(t, &b, tile_contiguous(t, v), v);
  b.cheap = t->tile[v->id].held == TILE_BUFFER;
  return nest_run(t, &b, write_at, &op);
}

bool tiles_write(Tiles *t, const Op *op) {
  const Straight *s = straight_of(t, op);
  return s ? straight_finish(t, s, write_all) : write_all(t, op);
}

/* ---- atomics ---- */
typedef struct Atomics {
  const Op *op;
  const Value *result; /* NULL: it is not used */
  Value *old;
} Atomics;

static bool atomic_at(Tiles *t, const Point *p, void *user) {
  Atomics *x = user;
  bool expects = x->op->kind == OP_atomic_compare_exchange;
  Value *v = tiles_at(t, x->op->args[0], p);
  Value *expected = v && expects ? tiles_at(t, x->op->args[2], p) : NULL;
  if (!v || (expects && !expected)) return false;
  if (expects) v = emit_join(&t->l, (Value *[]){v, expected}, 2);
  if (!access_atomic(t, x->op, p, v, &x->old)) return false;
  const Tile *tile = x->result ? &t->tile[x->result->id] : NULL;
  if (tile && tile->held == TILE_BUFFER)
    buffer_store(t, tile->buffer, x->result->type, tile, p, x->old);
  return true;
}

/* Results are also needed for elements that are not acted on, so no loop may end early. */
bool tiles_atomic(Tiles *t, const Op *op) {
  Atomics x = {.op = op};
  NestBox b;
  if (!box_of_access(t, op, &b)) return false;
  if (op->nresults && value_is_used(t->l.k, &op->results[0])) x.result = &op->results[0];
  Tile *tile = x.result ? &t->tile[x.result->id] : NULL;
  for (int i = 0; x.result && i < b.rank; i++) b.end[i] = NULL;
  if (tile && !tile_set_ranges(t, op, x.result->type, tile)) return false;
  bool single = tile && tile_elements(x.result->type, tile) == 1;
  if (tile && !single) tile_new_buffer(t, x.result);
  if (!nest_run(t, &b, atomic_at, &x)) return false;
  if (single) tile->held = TILE_SCALAR, tile->scalar = x.old;
  return true;
}

/* ---- reports ---- */

/* The description of a failure is computed only when there is one. */
static bool report_at(Tiles *t, const Point *p, void *user) {
  const Op *op = *(const Op **)user;
  Lower *l = &t->l;
  Value *holds = tiles_at(t, op->args[0], p), *words[FAILURE_COLUMNS];
  Reported r;
  if (!holds || !access_report(t, op, p, holds, &r)) return false;
  Op *open = ir_op_new(l->k, OP_if, l->at, &r.failed, 1);
  tiles_insert(t, open);
  SavedScope saved = tiles_open_scope(t, ir_region_new(l->k, open), l->scope->facts);
  bool ok = true;
  r.failed = NULL;
  for (int i = 2; ok && i < op->nargs; i++)
    ok = (words[i - 2] = tiles_at(t, op->args[i], p)) != NULL;
  if (ok) emit_report(l, &r, words, op->nargs - 2);
  emit_op(l, OP_yield, NULL, 0, NULL, 0, NULL);
  tiles_close_scope(t, saved);
  return ok;
}

bool tiles_report(Tiles *t, const Op *op) {
  NestBox b;
  return box_of_access(t, op, &b) && nest_run(t, &b, report_at, &op);
}

/* ---- allocations ---- */

/* As large as the tile it holds; a ring has the slot as an additional dim. */
bool tiles_alloc(Tiles *t, const Op *op) {
  Lower *l = &t->l;
  const Type *type = op->results[0].type;
  int extent[IR_MAX_RANK], slots = alloc_slots(op), n = 0;
  const Sym *dims[IR_MAX_RANK + 1];
  Attr memory;
  MemLayout m;
  if (!alloc_extent(l->k, op, 0) && !distribute_extents(l->d, op, type, extent)) return false;
  if (slots > 1) dims[n++] = sym_int(l->sym, slots);
  for (int i = 0; i < type->rank; i++) {
    const Sym *given = alloc_extent(l->k, op, i);
    dims[n++] = given ? distribute_expr(l->d, op, given) : sym_int(l->sym, extent[i]);
  }
  bool laid_out = (slots > 1 || op_has(op, ATTR_memory)) && alloc_layout(op, &m);
  if (laid_out) memory = (Attr){.key = ATTR_memory, .memory = &m};
  const Type *made = type_mem(l->k->cx, dims, n, type->dtype, l->k->cx->shared_space, NULL);
  Value *v = made ? emit_op(l, OP_alloc, NULL, 0, &memory, laid_out, made) : NULL;
  int64_t bytes = v ? alloc_bytes(v->def) : -1;
  if (bytes < 0) return tiles_refuse(t, op, "an allocation of unknown size");
  v->name = op->results[0].name;
  l->value[op->results[0].id] = v;
  scratch_reserve(t, v->def, bytes, true);
  return true;
}
