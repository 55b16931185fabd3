/* tiles_skinny.c: products with few rows or columns, such as a vector times a matrix.
 *
 * A panel that only one block reads is not worth packing. Instead the larger operand is read once,
 * in place, and its layout decides how sums are held. Contiguous along k: tiles_dots.c. If it is
 * the rhs and contiguous along its rows:
 *
 *     for k, 4 at a time {
 *       for columns, a few vectors at a time {
 *         %c = the buffer
 *         %d = wave_mma of these k, one after the other
 *         back to the buffer
 *       }
 *     }
 *
 * (axpy, as BLAS calls it), so that rows of memory are read in long runs, several in parallel. A lhs like
 * that is the rhs of the transposed product (tiles_columns.c). */
#include "lower_tiles/product/tiles_product.h"

#include "ir/dtype.h"
#include "lower_tiles/product/tiles_pack.h"

enum {
  RUN = 4,     /* elements of k that are read together; half as many for one row, twice for many */
  FEW_ROWS = 4 /* up to this many, the traffic of the accumulator is hidden */
};

/* The part of it that consists of whole pieces. */
const Sym *skinny_whole(Tiles *t, const Sym *depth, int piece) {
  SymCtx *sym = t->l.sym;
  const Sym *by = sym_int(sym, piece), *e = sym_mul(sym, by, sym_floordiv(sym, depth, by));
  return emit_sound(&t->l, sym_simplify(sym, emit_facts(&t->l), e));
}

/* ---- whether it is worthwhile ---- */

/* How many of its rows can be needed. */
int skinny_needed_rows(Tiles *t, const PackSource *s) {
  if (!s->end) return s->extent;
  const Sym *left = sym_sub(t->l.sym, s->end, s->row_start);
  SymRange r = sym_range(t->l.sym, emit_facts(&t->l), left);
  return r.hi < 1 ? 1 : r.hi < s->extent ? (int)r.hi : s->extent;
}

bool skinny_is_contiguous(Tiles *t, const PackSource *s, const Sym *dim) {
  const Sym *contiguous = tile_contiguous(t, s->of);
  return contiguous && dim_base(contiguous) == dim_base(dim);
}

/* The operand with fewer rows. */
int skinny_few(Tiles *t, const TiledProduct *p) {
  return skinny_needed_rows(t, &p->source[1]) < skinny_needed_rows(t, &p->source[0]);
}

/* The larger operand is recomputed for every few rows of the other, so it must be cheap. 32-bit
 * integer products are so slow that the instructions for small integers are worth their panels. */
static SkinnyForm possible_form(Tiles *t, const TiledProduct *p) {
  const PackSource *b = &p->source[1], *many = &p->source[!skinny_few(t, p)];
  bool slow = !dtype_is_float(p->dtype) && p->tile.form != DOT_tile;
  if (slow || tile_has_function(t, many->of)) return SKINNY_NOT;
  if (p->old && (tiles_depends(t, p->of.lhs, p->old) || tiles_depends(t, p->of.rhs, p->old)))
    return SKINNY_NOT;
  if (skinny_is_contiguous(t, many, many->k)) return SKINNY_DOTS;
  return many == b && skinny_is_contiguous(t, b, b->row) ? SKINNY_AXPY : SKINNY_NOT;
}

int skinny_lanes(const Tiles *t, DType dtype) {
  return t->l.cx->target->global_access * 8 / dtype_info[dtype].bits;
}

/* The number of elements of k that are read together. */
static int run_of(int64_t rows) { return rows > FEW_ROWS ? 2 * RUN : rows > 1 ? RUN : RUN / 2; }

/* Costs in vector multiplications, of which a machine does two per cycle: packing takes half a
 * cycle per element (a whole one if vectors are short), summing the elements of a vector two; an
 * accumulator in the buffer is read and written for every RUN of k. Operands read in place cannot
 * use instructions for small types. */
static SkinnyForm best_form(Tiles *t, const TiledProduct *p) {
  enum { ADD_UP = 4 };
  SkinnyForm form = possible_form(t, p);
  int64_t m = skinny_needed_rows(t, &p->source[0]), n = skinny_needed_rows(t, &p->source[1]),
          k = p->k, spared;
  int64_t products = m * n * k / skinny_lanes(t, p->dtype), faster = dot_info(p->tile.form)->k;
  int64_t slower = products - products / faster;
  if (form == SKINNY_NOT) return form;
  spared = m <= 2 * p->tile.m ? n * k : 0;
  if (form == SKINNY_AXPY) return spared > slower + 2 * products / run_of(m) ? form : SKINNY_NOT;
  spared += n <= p->tile.n ? m * k : 0;
  return spared > slower + products / 4 + ADD_UP * m * n ? form : SKINNY_NOT;
}

/* If the number of rows is unknown, rows that do not fill a block are processed one at a time. */
void skinny_choose(Tiles *t, TiledProduct *p) {
  int rows = skinny_needed_rows(t, &p->source[0]);
  TileProduct wanted = {.sum = (unsigned)dtype_mma(p->dtype),
                        .bits = dtype_info[p->dtype].bits,
                        .rows = p->source[0].end && rows > FEW_ROWS ? FEW_ROWS : rows,
                        .columns = p->n};
  p->skinny = best_form(t, p);
  if (p->skinny == SKINNY_NOT) return;
  p->tile = register_tile(t->l.cx->target, &wanted);
  p->operands = p->dtype;
}

/* ---- axpy: the rhs along its rows ---- */

bool skinny_open(Tiles *t, TiledProduct *p) {
  const Tile *out = &t->tile[p->out->id];
  if (p->skinny != SKINNY_AXPY || !(p->fill || p->made)) return true;
  Tile needed = *out;
  needed.extent[p->dim_m] = skinny_needed_rows(t, &p->source[0]);
  p->fill = NULL, p->made = false;
  return buffer_fill(t, p->of.acc, p->out->type, &needed, out->buffer);
}

/* A step of k of n columns from b->column on. */
static Value *read_across(Tiles *t, const TiledProduct *p, const Block *b, const Sym *k) {
  SymCtx *sym = t->l.sym;
  const PackSource *s = &p->source[1];
  Point at = pack_point(s->others, s->k, emit_sound(&t->l, sym_add(sym, s->k_start, k)));
  const Sym *row = b->n > 1 ? emit_sound(&t->l, sym_add(sym, s->row_start, b->column))
                            : pack_row_at(t, s, b->column);
  at = pack_point(at, s->row, row);
  at.along = b->n > 1 ? at.n - 1 : -1;
  at.width = b->n;
  if (s->end) nest_grant(t, s->row, s->end); /* a whole run, or one that is needed */
  if (s->k_end) nest_grant(t, s->k, s->k_end);
  return pack_source_at(t, s, &at);
}

/* Prefetches the next rows: they are short, so hardware prefetchers do not find them. With several
 * rows of the lhs there is enough work to hide the latency. */
static void prefetch_next(Tiles *t, const TiledProduct *p, const Block *b, const Sym *k) {
  SymCtx *sym = t->l.sym;
  const PackSource *s = &p->source[1];
  Point at = pack_point(s->others, s->k, emit_sound(&t->l, sym_add(sym, s->k_start, k)));
  at = pack_point(at, s->row, emit_sound(&t->l, sym_add(sym, s->row_start, b->column)));
  if (b->n > 1) tiles_prefetch(t, s->of, &at);
}

/* A step of k of m rows in a panel of `rows`. */
static Value *read_panel(Tiles *t, const TiledProduct *p, const Block *b, int rows, const Sym *k) {
  Lower *l = &t->l;
  const Sym *at = sym_add(l->sym, b->a_base, sym_mul(l->sym, k, sym_int(l->sym, rows)));
  Value *args[] = {p->a->memory, emit_address(l, emit_sound(l, at), DTYPE_index)};
  return emit_op(l, OP_load, args, 2, NULL, 0, type_vec(l->k->cx, b->m, p->dtype));
}

/* A block of a panel of `rows`, for `run` elements of k from `k` on. */
static bool axpy_block(Tiles *t, const TiledProduct *p, const Block *b, int rows, const Sym *k,
                       int run) {
  Lower *l = &t->l;
  const MmaInfo *form = mma_register_tile(l->arena, DOT_tile, b->m, b->n, 0);
  MmaChoice choice = {.name = intern(&l->k->cx->names, form->name)};
  Attr mma = {.key = ATTR_mma, .mma = &choice};
  Value *offset = product_offset(t, p, b), *acc = product_load(t, p, b, offset);
  for (int i = 0; acc && i < run; i++) {
    const Sym *at = sym_add(l->sym, k, sym_int(l->sym, i));
    Value *right = read_across(t, p, b, at);
    if (run > 1 && b->m == 1) prefetch_next(t, p, b, sym_add(l->sym, at, sym_int(l->sym, run)));
    Value *args[] = {read_panel(t, p, b, rows, at), right, acc};
    acc = right ? emit_op(l, OP_wave_mma, args, 3, &mma, 1, acc->type) : NULL;
  }
  if (acc) product_store(t, p, b, offset, acc);
  return acc != NULL;
}

/* Rows of a partly needed panel, one at a time. */
static bool axpy_single_rows(Tiles *t, const TiledProduct *p, const PanelRun *rows, Block b,
                             const Sym *k, int run) {
  SymCtx *sym = t->l.sym;
  const PackSource *s = &p->source[0];
  const Sym *left = sym_sub(sym, sym_sub(sym, s->end, s->row_start), rows->first);
  left = emit_sound(&t->l, sym_min(sym, left, sym_int(sym, rows->rows)));
  NestLoop loop = loop_open(t, NULL, left, rows->rows, 1, NULL, 0);
  b.m = 1;
  b.row = sym_add(sym, b.row, loop.counter);
  b.a_base = sym_add(sym, b.a_base, loop.counter);
  bool ok = axpy_block(t, p, &b, rows->rows, k, run);
  loop_close(t, &loop, NULL);
  return ok;
}

static bool axpy_columns(Tiles *t, const TiledProduct *p, const Sym *column, int n, const Sym *k,
                         int run) {
  bool ok = true;
  for (int i = 0; ok && i < 4; i++) {
    PanelRun rows;
    bool cut = i % 2;
    if (!panels_open(t, p->a, i / 2, cut ? PANELS_CUT : PANELS_WHOLE, &rows)) continue;
    Block b = {.m = rows.rows, .n = n, .row = rows.first, .column = column, .a_base = rows.base};
    ok = cut && rows.rows > 1 ? axpy_single_rows(t, p, &rows, b, k, run)
                              : axpy_block(t, p, &b, rows.rows, k, run);
    panels_close(t, &rows);
  }
  return ok;
}

static bool axpy_cut(Tiles *t, const TiledProduct *p, const PanelRun *cut, const Sym *k, int run) {
  SymCtx *sym = t->l.sym;
  const PackSource *s = &p->source[1];
  const Sym *left = sym_sub(sym, sym_sub(sym, s->end, s->row_start), cut->first);
  left = emit_sound(&t->l, sym_min(sym, left, sym_int(sym, cut->rows)));
  NestLoop loop = loop_open(t, NULL, left, cut->rows, 1, NULL, 0);
  bool ok = axpy_columns(t, p, sym_add(sym, cut->first, loop.counter), 1, k, run);
  loop_close(t, &loop, NULL);
  return ok;
}

/* Elements [from, to) of k, a run at a time. */
static bool axpy_runs(Tiles *t, const TiledProduct *p, const Sym *from, const Sym *to, int run) {
  Panels b = {.source = p->source[1], .rows = p->tile.n, .base = sym_int(t->l.sym, 0)};
  bool ok = true;
  NestLoop runs = loop_open(t, from, to, p->k, run, NULL, 0);
  for (int i = 0; ok && i < 4; i++) {
    PanelRun columns;
    bool cut = i % 2;
    if (!panels_open(t, &b, i / 2, cut ? PANELS_CUT : PANELS_WHOLE, &columns)) continue;
    nest_open(t); /* what is read only in such a run must not be hoisted before it */
    ok = cut ? axpy_cut(t, p, &columns, runs.counter, run)
             : axpy_columns(t, p, columns.first, columns.rows, runs.counter, run);
    nest_close(t);
    panels_close(t, &columns);
  }
  loop_close(t, &runs, NULL);
  return ok;
}

static bool axpy_multiply(Tiles *t, TiledProduct *p) {
  int run = run_of(p->source[0].end ? FEW_ROWS : skinny_needed_rows(t, &p->source[0]));
  while (run > p->k) run /= 2;
  const Sym *depth = pack_depth(t, &p->source[1]), *whole = skinny_whole(t, depth, run);
  if (!(p->a = pack_panels(t, &p->source[0], p->tile.m))) return false;
  nest_open(t);
  bool ok =
      axpy_runs(t, p, NULL, whole, run) && (whole == depth || axpy_runs(t, p, whole, depth, 1));
  nest_close(t);
  return ok;
}

bool skinny_multiply(Tiles *t, TiledProduct *p) {
  return p->skinny == SKINNY_DOTS ? dots_multiply(t, p) : axpy_multiply(t, p);
}
