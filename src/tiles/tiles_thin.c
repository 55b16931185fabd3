/* tiles_thin.c: products with few rows or columns, such as a vector times a matrix.
 *
 * A panel that one block reads is not worth its packing. Then the larger operand is read where it
 * lies, once, and the way it lies says how sums are held:
 *
 *     both along k                             the rhs along its rows
 *     for columns, 2 at a time {               for k, 4 at a time {
 *       %s = for k carry 2 vecs along k {        for columns, a few vectors at a time {
 *         s[j] + a[k...] * b[j, k...]              %c = the buffer
 *       }                                          %d = for these k carry %c { wave_mma }
 *       the elements of each, added up             back to the buffer
 *     }                                          }
 *                                              }
 * On the right rows of memory are read in long pieces, several side by side. */
#include "tiles/tiles_product.h"

#include "ir/dtype.h"
#include "tiles/tiles_pack.h"

enum {
  RUN = 4,      /* of k, that are read side by side; twice that in products of many rows */
  FEW_ROWS = 4, /* where the accumulator's way to its buffer and back is not seen */
  MOST_STREAMS =
      2 /* rows that are read at once: more than that are slower on every machine tried */
};

/* What of it is whole pieces. */
static const Sym *whole_of(Tiles *t, const Sym *depth, int piece) {
  SymCtx *sym = t->l.sym;
  const Sym *by = sym_int(sym, piece), *e = sym_mul(sym, by, sym_floordiv(sym, depth, by));
  return lower_sound(&t->l, sym_simplify(sym, lower_facts(&t->l), e));
}

/* ---- whether it pays ---- */

/* How many of its rows can be needed. */
static int rows_needed(Tiles *t, const PackSource *s) {
  if (!s->end) return s->extent;
  const Sym *left = sym_sub(t->l.sym, s->end, s->row_start);
  SymRange r = sym_range(t->l.sym, lower_facts(&t->l), left);
  return r.hi < 1 ? 1 : r.hi < s->extent ? (int)r.hi : s->extent;
}

static bool lies_along(Tiles *t, const PackSource *s, const Sym *dim) {
  const Sym *contiguous = tile_contiguous(t, s->of);
  return contiguous && dim_base(contiguous) == dim_base(dim);
}

/* Which operand has fewer rows. */
static int few_of(Tiles *t, const Product *p) {
  return rows_needed(t, &p->source[1]) < rows_needed(t, &p->source[0]);
}

/* The larger operand is made anew for every few rows of the other. Products of integers in 32 bits
 * are so slow that those of instructions for small ones are worth their panels. */
static ThinForm possible_form(Tiles *t, const Product *p) {
  const PackSource *b = &p->source[1], *many = &p->source[!few_of(t, p)];
  bool slow = !dtype_is_float(p->dtype) && p->tile.form != DOT_tile;
  if (slow || p->source[0].scale || b->scale || tile_has_function(t, many->of)) return THIN_NOT;
  if (p->old && (tiles_depends(t, p->lhs, p->old) || tiles_depends(t, p->rhs, p->old)))
    return THIN_NOT;
  if (lies_along(t, many, many->k)) return THIN_DOTS;
  return many == b && lies_along(t, b, b->row) ? THIN_ROWS : THIN_NOT;
}

static int lanes_of(const Tiles *t, DType dtype) {
  return t->l.cx->target->global_access * 8 / dtype_info[dtype].bits;
}

/* Elements of k that are read side by side. */
static int run_of(int64_t rows) { return rows > FEW_ROWS ? 2 * RUN : rows > 1 ? RUN : RUN / 2; }

/* In products of vectors, of which a machine does two in a cycle: packing takes half a cycle for an
 * element (a whole one where vectors are short), adding up the elements of a vector two; an
 * accumulator in the buffer is read and written for every RUN of k. What is read in place is not
 * multiplied by instructions of small types. */
static ThinForm best_form(Tiles *t, const Product *p) {
  enum { ADD_UP = 4 };
  ThinForm form = possible_form(t, p);
  int64_t m = rows_needed(t, &p->source[0]), n = rows_needed(t, &p->source[1]), k = p->k, spared;
  int64_t products = m * n * k / lanes_of(t, p->dtype), faster = dot_info(p->tile.form)->k;
  int64_t slower = products - products / faster;
  if (form == THIN_NOT) return form;
  spared = m <= 2 * p->tile.m ? n * k : 0;
  if (form == THIN_ROWS) return spared > slower + 2 * products / run_of(m) ? form : THIN_NOT;
  spared += n <= p->tile.n ? m * k : 0;
  return spared > slower + products / 4 + ADD_UP * m * n ? form : THIN_NOT;
}

/* Where it is not known how many rows there are, those that do not fill a block go one by one. */
void thin_choose(Tiles *t, Product *p) {
  int rows = rows_needed(t, &p->source[0]);
  TileProduct wanted = {.sum = (unsigned)dtype_mma(p->dtype),
                        .bits = dtype_info[p->dtype].bits,
                        .rows = p->source[0].end && rows > FEW_ROWS ? FEW_ROWS : rows,
                        .columns = p->n};
  p->thin = best_form(t, p);
  if (p->thin == THIN_NOT) return;
  p->tile = register_tile(t->l.cx->target, &wanted);
  p->operands = p->dtype;
}

/* ---- both along k ---- */

typedef struct Dots {
  const Product *p;
  int width; /* of vectors along k */
  int step;  /* elements of k between tests: as many as lie in a line of a cache */
  Panels side[2];
  int few;            /* which of both has few rows */
  const Panels *held; /* that one, row by row; NULL: it is read where it lies */
} Dots;

/* So many elements along k that a load is no less than 16 bytes, of two registers of sums. */
static void choose_widths(Tiles *t, Dots *x) {
  enum { LEAST_LOAD = 16, LINE = 64 };
  const Product *p = x->p;
  int lanes = lanes_of(t, p->dtype), bytes = tile_bytes(t, p->source[!x->few].of);
  x->width = lanes * bytes < LEAST_LOAD ? 2 * lanes : lanes;
  while (x->width > 1 && x->width > p->k) x->width /= 2;
  x->step = x->width;
  while (x->step * bytes < LINE && 2 * x->step <= p->k) x->step *= 2;
}

/* Rows of the one with few, and of the other: half of all registers are sums. A square reads least;
 * where elements must be converted, that is done for more rows. */
static void choose_dots(Tiles *t, Dots *x) {
  const TargetInfo *target = t->l.cx->target;
  int lanes = lanes_of(t, x->p->dtype), registers = target->registers * 4 / target->global_access;
  int each = x->width > lanes ? x->width / lanes : 1, sums = registers / 2 / each;
  int rows[2], few = 1;
  for (int i = 0; i < 2; i++) rows[i] = rows_needed(t, &x->p->source[i]);
  bool converts = tile_bytes(t, x->p->source[!x->few].of) * 8 < dtype_info[x->p->dtype].bits;
  while ((converts ? 4 : 4 * few) * few <= sums && 2 * few <= rows[x->few]) few *= 2;
  int many = sums / few < MOST_STREAMS ? sums / few : MOST_STREAMS;
  while (many > 1 && many > rows[!x->few]) many /= 2;
  for (int i = 0; i < 2; i++) {
    x->side[i] = (Panels){.source = x->p->source[i], .rows = i == x->few ? few : many};
    x->side[i].base = sym_int(t->l.sym, 0);
  }
}

/* The operand with few rows is read for every few of the other: as it is, or made once. */
static bool hold_few(Tiles *t, Dots *x) {
  const PackSource *s = &x->p->source[x->few];
  const Op *read = pack_plain_read(t, s->of);
  bool is_there = read && read->results[0].type->dtype == s->dtype && lies_along(t, s, s->k);
  return is_there || (x->held = pack_panels(t, s, 1)) != NULL;
}

/* A point of the operand's other dims and of k, `width` elements along k. */
static Point point_along(Tiles *t, const PackSource *s, const Sym *k, int width) {
  const Sym *at = lower_sound(&t->l, sym_add(t->l.sym, s->k_start, k));
  Point p = pack_point(s->others, s->k, at);
  p.along = width > 1 ? p.n - 1 : -1;
  p.width = width;
  return p;
}

static Value *read_held(Tiles *t, const Panels *from, const Sym *row, const Sym *k, int width) {
  Lower *l = &t->l;
  const Sym *size = sym_int(l->sym, pack_padded(&from->source));
  const Sym *at = sym_add(l->sym, sym_add(l->sym, from->base, sym_mul(l->sym, row, size)), k);
  Value *args[] = {from->memory, emit_address(l, lower_sound(l, at), DTYPE_index)};
  return emit(l, OP_load, args, 2, NULL, 0, type_vec(l->k->cx, width, from->source.dtype));
}

/* `width` elements along k of rows [first, first + n) of an operand. */
static bool read_along(Tiles *t, const Dots *x, int side, const Sym *first, int n, const Sym *k,
                       int width, Value **out) {
  SymCtx *sym = t->l.sym;
  const PackSource *s = &x->p->source[side];
  Point at = point_along(t, s, k, width);
  pack_grant_rows(t, s);
  if (s->k_end) grant(t, s->k, s->k_end);
  for (int i = 0; i < n; i++) {
    const Sym *row = sym_add(sym, first, sym_int(sym, i));
    Point p = pack_point(at, s->row, pack_row_at(t, s, row));
    bool held = side == x->few && x->held;
    out[i] = held ? read_held(t, x->held, row, k, width) : pack_source_at(t, s, &p);
    if (!out[i]) return false;
  }
  return true;
}

/* The rows behind those, which come next: they are short, and no machine finds out by itself. */
static void ask_ahead(Tiles *t, const PackSource *s, const Sym *first, int n, const Sym *k) {
  SymCtx *sym = t->l.sym;
  for (int i = 0; i < n; i++) {
    const Sym *row = sym_add(sym, s->row_start, sym_add(sym, first, sym_int(sym, n + i)));
    Point p = pack_point(point_along(t, s, k, 1), s->row, lower_sound(&t->l, row));
    tiles_prefetch(t, s->of, &p);
  }
}

/* The elements of vecs of a power of two, added up: neighbours, until one is left of each. */
static Value *add_up(Tiles *t, Value *const *v, int n) {
  Lower *l = &t->l;
  Value *all = emit_join(l, v, n);
  while (all->type->n > n) {
    int half = all->type->n / 2, *even = ARENA_ARRAY(l->arena, int, half);
    int *odd = ARENA_ARRAY(l->arena, int, half);
    for (int i = 0; i < half; i++) even[i] = 2 * i, odd[i] = 2 * i + 1;
    all = emit_binary(l, OP_add, emit_pick(l, all, even, half), emit_pick(l, all, odd, half));
  }
  return all;
}

/* One vector along k of each row and column: products are added to sums. */
static bool add_products(Tiles *t, const Dots *x, const Block *b, const Sym *k, Value **sum) {
  Lower *l = &t->l;
  Value **row = ARENA_ARRAY(l->arena, Value *, b->m);
  Value **column = ARENA_ARRAY(l->arena, Value *, b->n);
  if (!read_along(t, x, 0, b->row, b->m, k, x->width, row) ||
      !read_along(t, x, 1, b->column, b->n, k, x->width, column))
    return false;
  for (int i = 0; i < b->m * b->n; i++)
    sum[i] =
        emit_binary(l, OP_add, sum[i], emit_binary(l, OP_mul, row[i / b->n], column[i % b->n]));
  return true;
}

/* Sums over whole steps of k, up to `to`. */
static Value *sum_vectors(Tiles *t, const Dots *x, const Block *b, const Sym *to) {
  Lower *l = &t->l;
  int n = b->m * b->n;
  Value **sum = ARENA_ARRAY(l->arena, Value *, n);
  for (int i = 0; i < n; i++) sum[i] = emit_splat(l, emit_number(l, x->p->dtype, 0), x->width);
  NestLoop loop = loop_open(t, NULL, to, x->p->k, x->step, sum, n);
  for (int i = 0; i < n; i++) sum[i] = loop_arg(&loop, i);
  bool ok = true;
  for (int i = 0; ok && i < x->step; i += x->width)
    ok = add_products(t, x, b, sym_add(l->sym, loop.counter, sym_int(l->sym, i)), sum);
  if (x->few == 0) ask_ahead(t, &x->side[1].source, b->column, b->n, loop.counter);
  else ask_ahead(t, &x->side[0].source, b->row, b->m, loop.counter);
  loop_close(t, &loop, sum);
  for (int i = 0; i < n; i++) sum[i] = loop_result(&loop, i);
  return ok ? add_up(t, sum, n) : NULL;
}

/* What is left of k, one element after the other. */
static Value *sum_rest(Tiles *t, const Dots *x, const Block *b, const Sym *from, const Sym *to,
                       Value *sum) {
  Lower *l = &t->l;
  const MmaInfo *form = mma_register_tile(l->arena, DOT_tile, b->m, b->n, 0);
  MmaChoice choice = {.name = intern(&l->k->cx->names, form->name)};
  Attr mma = {.key = ATTR_mma, .mma = &choice};
  Value **row = ARENA_ARRAY(l->arena, Value *, b->m),
        **column = ARENA_ARRAY(l->arena, Value *, b->n);
  NestLoop loop = loop_open(t, from, to, x->p->k, 1, &sum, 1);
  bool ok = read_along(t, x, 0, b->row, b->m, loop.counter, 1, row) &&
            read_along(t, x, 1, b->column, b->n, loop.counter, 1, column);
  Value *args[] = {ok ? emit_join(l, row, b->m) : NULL, ok ? emit_join(l, column, b->n) : NULL,
                   loop_arg(&loop, 0)};
  Value *next = ok ? emit(l, OP_wave_mma, args, 3, &mma, 1, sum->type) : sum;
  loop_close(t, &loop, &next);
  return ok ? loop_result(&loop, 0) : NULL;
}

static bool dots_block(Tiles *t, const Dots *x, const Block *b) {
  const Sym *depth = pack_depth(t, &x->p->source[0]), *whole = whole_of(t, depth, x->step);
  Value *offset = product_offset(t, x->p, b), *sum = sum_vectors(t, x, b, whole);
  Value *acc = sum ? product_load(t, x->p, b, offset) : NULL;
  if (!acc) return false;
  sum = emit_binary(&t->l, OP_add, acc, sum);
  if (whole != depth) sum = sum_rest(t, x, b, whole, depth, sum);
  if (sum) product_store(t, x->p, b, offset, sum);
  return sum != NULL;
}

/* A block of `rows` of the one with few, beside a run of the other. */
static bool dots_beside(Tiles *t, const Dots *x, const PanelRun *many, const Sym *first, int rows) {
  Block b = {rows, many->rows, first, many->first, NULL, NULL};
  if (x->few == 1) b = (Block){many->rows, rows, many->first, first, NULL, NULL};
  return dots_block(t, x, &b);
}

/* Of these rows some are not needed: the others one after the other. */
static bool dots_cut(Tiles *t, const Dots *x, const PanelRun *many, const PanelRun *few) {
  SymCtx *sym = t->l.sym;
  const PackSource *s = &x->side[x->few].source;
  const Sym *left = sym_sub(sym, sym_sub(sym, s->end, s->row_start), few->first);
  left = lower_sound(&t->l, sym_min(sym, left, sym_int(sym, few->rows)));
  NestLoop loop = loop_open(t, NULL, left, few->rows, 1, NULL, 0);
  bool ok = dots_beside(t, x, many, sym_add(sym, few->first, loop.counter), 1);
  loop_close(t, &loop, NULL);
  return ok;
}

/* All blocks beside a run of the larger operand, which is in the first cache then. */
static bool dots_all_few(Tiles *t, const Dots *x, const PanelRun *many) {
  bool ok = true;
  for (int i = 0; ok && i < 4; i++) {
    PanelRun few;
    bool cut = i % 2;
    if (!panels_open(t, &x->side[x->few], i / 2, cut ? PANELS_CUT : PANELS_WHOLE, &few)) continue;
    ok = cut && few.rows > 1 ? dots_cut(t, x, many, &few)
                             : dots_beside(t, x, many, few.first, few.rows);
    panels_close(t, &few);
  }
  return ok;
}

static bool multiply_dots(Tiles *t, const Product *p) {
  Dots x = {.p = p, .few = few_of(t, p)};
  choose_widths(t, &x);
  choose_dots(t, &x);
  bool ok = hold_few(t, &x);
  nest_open(t);
  for (int rest = 0; ok && rest < 2; rest++) {
    PanelRun many;
    if (!panels_open(t, &x.side[!x.few], rest, PANELS_NEEDED, &many)) continue;
    ok = dots_all_few(t, &x, &many);
    panels_close(t, &many);
  }
  nest_close(t);
  return ok;
}

/* ---- the rhs along its rows ---- */

bool thin_open(Tiles *t, Product *p) {
  const Tile *out = &t->tile[p->out->id];
  if (p->thin != THIN_ROWS || !(p->fill || p->made)) return true;
  Tile needed = *out;
  needed.extent[p->dim_m] = rows_needed(t, &p->source[0]);
  p->fill = NULL, p->made = false;
  return buffer_fill(t, p->acc, p->out->type, &needed, out->buffer);
}

/* A step of k of n columns from b->column on. */
static Value *read_across(Tiles *t, const Product *p, const Block *b, const Sym *k) {
  SymCtx *sym = t->l.sym;
  const PackSource *s = &p->source[1];
  Point at = pack_point(s->others, s->k, lower_sound(&t->l, sym_add(sym, s->k_start, k)));
  const Sym *row = b->n > 1 ? lower_sound(&t->l, sym_add(sym, s->row_start, b->column))
                            : pack_row_at(t, s, b->column);
  at = pack_point(at, s->row, row);
  at.along = b->n > 1 ? at.n - 1 : -1;
  at.width = b->n;
  if (s->end) grant(t, s->row, s->end); /* a whole run, or one that is needed */
  if (s->k_end) grant(t, s->k, s->k_end);
  return pack_source_at(t, s, &at);
}

/* A step of k of m rows in a panel of `rows`. */
static Value *read_panel(Tiles *t, const Product *p, const Block *b, int rows, const Sym *k) {
  Lower *l = &t->l;
  const Sym *at = sym_add(l->sym, b->a_base, sym_mul(l->sym, k, sym_int(l->sym, rows)));
  Value *args[] = {p->a->memory, emit_address(l, lower_sound(l, at), DTYPE_index)};
  return emit(l, OP_load, args, 2, NULL, 0, type_vec(l->k->cx, b->m, p->dtype));
}

/* A block of a panel of `rows`, for `run` elements of k from `k` on. */
static bool rows_block(Tiles *t, const Product *p, const Block *b, int rows, const Sym *k,
                       int run) {
  Lower *l = &t->l;
  const MmaInfo *form = mma_register_tile(l->arena, DOT_tile, b->m, b->n, 0);
  MmaChoice choice = {.name = intern(&l->k->cx->names, form->name)};
  Attr mma = {.key = ATTR_mma, .mma = &choice};
  Value *offset = product_offset(t, p, b), *acc = product_load(t, p, b, offset);
  for (int i = 0; acc && i < run; i++) {
    const Sym *at = sym_add(l->sym, k, sym_int(l->sym, i));
    Value *right = read_across(t, p, b, at);
    Value *args[] = {read_panel(t, p, b, rows, at), right, acc};
    acc = right ? emit(l, OP_wave_mma, args, 3, &mma, 1, acc->type) : NULL;
  }
  if (acc) product_store(t, p, b, offset, acc);
  return acc != NULL;
}

/* Rows of a panel that is cut, one by one. */
static bool rows_single(Tiles *t, const Product *p, const PanelRun *rows, Block b, const Sym *k,
                        int run) {
  SymCtx *sym = t->l.sym;
  const PackSource *s = &p->source[0];
  const Sym *left = sym_sub(sym, sym_sub(sym, s->end, s->row_start), rows->first);
  left = lower_sound(&t->l, sym_min(sym, left, sym_int(sym, rows->rows)));
  NestLoop loop = loop_open(t, NULL, left, rows->rows, 1, NULL, 0);
  b.m = 1;
  b.row = sym_add(sym, b.row, loop.counter);
  b.a_base = sym_add(sym, b.a_base, loop.counter);
  bool ok = rows_block(t, p, &b, rows->rows, k, run);
  loop_close(t, &loop, NULL);
  return ok;
}

static bool rows_beside(Tiles *t, const Product *p, const Sym *column, int n, const Sym *k,
                        int run) {
  bool ok = true;
  for (int i = 0; ok && i < 4; i++) {
    PanelRun rows;
    bool cut = i % 2;
    if (!panels_open(t, p->a, i / 2, cut ? PANELS_CUT : PANELS_WHOLE, &rows)) continue;
    Block b = {rows.rows, n, rows.first, column, rows.base, NULL};
    ok = cut && rows.rows > 1 ? rows_single(t, p, &rows, b, k, run)
                              : rows_block(t, p, &b, rows.rows, k, run);
    panels_close(t, &rows);
  }
  return ok;
}

static bool rows_cut(Tiles *t, const Product *p, const PanelRun *cut, const Sym *k, int run) {
  SymCtx *sym = t->l.sym;
  const PackSource *s = &p->source[1];
  const Sym *left = sym_sub(sym, sym_sub(sym, s->end, s->row_start), cut->first);
  left = lower_sound(&t->l, sym_min(sym, left, sym_int(sym, cut->rows)));
  NestLoop loop = loop_open(t, NULL, left, cut->rows, 1, NULL, 0);
  bool ok = rows_beside(t, p, sym_add(sym, cut->first, loop.counter), 1, k, run);
  loop_close(t, &loop, NULL);
  return ok;
}

/* Elements [from, to) of k, a run at a time. */
static bool rows_runs(Tiles *t, const Product *p, const Sym *from, const Sym *to, int run) {
  Panels b = {.source = p->source[1], .rows = p->tile.n, .base = sym_int(t->l.sym, 0)};
  bool ok = true;
  NestLoop runs = loop_open(t, from, to, p->k, run, NULL, 0);
  for (int i = 0; ok && i < 4; i++) {
    PanelRun columns;
    bool cut = i % 2;
    if (!panels_open(t, &b, i / 2, cut ? PANELS_CUT : PANELS_WHOLE, &columns)) continue;
    nest_open(t); /* what is read only if there is such a run must not be read in front of it */
    ok = cut ? rows_cut(t, p, &columns, runs.counter, run)
             : rows_beside(t, p, columns.first, columns.rows, runs.counter, run);
    nest_close(t);
    panels_close(t, &columns);
  }
  loop_close(t, &runs, NULL);
  return ok;
}

static bool multiply_rows(Tiles *t, Product *p) {
  int run = run_of(p->source[0].end ? FEW_ROWS : rows_needed(t, &p->source[0]));
  const Sym *depth = pack_depth(t, &p->source[1]), *whole = whole_of(t, depth, run);
  if (!(p->a = pack_panels(t, &p->source[0], p->tile.m))) return false;
  nest_open(t);
  bool ok =
      rows_runs(t, p, NULL, whole, run) && (whole == depth || rows_runs(t, p, whole, depth, 1));
  nest_close(t);
  return ok;
}

bool thin_multiply(Tiles *t, Product *p) {
  return p->thin == THIN_DOTS ? multiply_dots(t, p) : multiply_rows(t, p);
}
