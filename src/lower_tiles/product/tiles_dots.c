/* tiles_dots.c: products with few rows or columns whose larger operand is contiguous along k.
 *
 *     for columns, 2 at a time {
 *       %s = for k carry vecs along k { s[i, j] + a[i, k...] * b[j, k...] }
 *       the elements of each, added up, and the rest of k
 *     }
 *
 * Nothing is packed, unless the few rows have another layout or type. */
#include "lower_tiles/product/tiles_pack.h"
#include "lower_tiles/product/tiles_product.h"

enum { MOST_STREAMS = 2 }; /* rows read at once: 4 and 8 were slower */
typedef struct Dots {
  const TiledProduct *p;
  int width; /* of vectors along k */
  int step;  /* elements of k between tests: one cache line */
  Panels panels[2];
  int few;            /* the operand with few rows */
  const Panels *held; /* that operand, row by row; NULL: it is read in place */
} Dots;

/* Elements along k such that a load has at least 16 bytes and fills one or two registers of
 * sums. */
static void choose_widths(Tiles *t, Dots *x) {
  enum { LEAST_LOAD = 16, LINE = 64 };
  const TiledProduct *p = x->p;
  int lanes = skinny_lanes(t, p->dtype), bytes = tile_bytes(t, p->source[!x->few].of);
  x->width = lanes * bytes < LEAST_LOAD ? 2 * lanes : lanes;
  while (x->width > 1 && x->width > p->k) x->width /= 2;
  x->step = x->width;
  while (x->step * bytes < LINE && 2 * x->step <= p->k) x->step *= 2;
}

/* Rows of the small operand and of the other: half of all registers hold sums. A square block reads
 * least; if elements must be converted, each conversion should serve more rows. */
static void choose_dots(Tiles *t, Dots *x) {
  const TargetInfo *target = t->l.cx->target;
  int lanes = skinny_lanes(t, x->p->dtype),
      registers = target->registers * 4 / target->global_access;
  int each = x->width > lanes ? x->width / lanes : 1, sums = registers / 2 / each;
  int rows[2], few = 1;
  for (int i = 0; i < 2; i++) rows[i] = skinny_needed_rows(t, &x->p->source[i]);
  bool converts = tile_bytes(t, x->p->source[!x->few].of) * 8 < dtype_info[x->p->dtype].bits;
  while ((converts ? 4 : 4 * few) * few <= sums && 2 * few <= rows[x->few]) few *= 2;
  int many = sums / few < MOST_STREAMS ? sums / few : MOST_STREAMS;
  while (many > 1 && many > rows[!x->few]) many /= 2;
  for (int i = 0; i < 2; i++) {
    x->panels[i] = (Panels){.source = x->p->source[i], .rows = i == x->few ? few : many};
    x->panels[i].base = sym_int(t->l.sym, 0);
  }
}

/* The small operand is read again for every few rows of the other: in place, or from a copy made
 * once. */
static bool hold_few(Tiles *t, Dots *x) {
  const PackSource *s = &x->p->source[x->few];
  const Op *read = pack_plain_read(t, s->of);
  bool is_there =
      read && read->results[0].type->dtype == s->dtype && skinny_is_contiguous(t, s, s->k);
  return is_there || (x->held = pack_panels(t, s, 1)) != NULL;
}

/* A point of the operand's other dims and of k, `width` elements along k. */
static Point point_along(Tiles *t, const PackSource *s, const Sym *k, int width) {
  const Sym *at = emit_sound(&t->l, sym_add(t->l.sym, s->k_start, k));
  Point p = pack_point(s->others, s->k, at);
  p.along = width > 1 ? p.n - 1 : -1;
  p.width = width;
  return p;
}

static Value *read_held(Tiles *t, const Panels *from, const Sym *row, const Sym *k, int width) {
  Lower *l = &t->l;
  const Sym *size = sym_int(l->sym, pack_padded(&from->source));
  const Sym *at = sym_add(l->sym, sym_add(l->sym, from->base, sym_mul(l->sym, row, size)), k);
  Value *args[] = {from->memory, emit_address(l, emit_sound(l, at), DTYPE_index)};
  return emit_op(l, OP_load, args, 2, NULL, 0, type_vec(l->k->cx, width, from->source.dtype));
}

/* `width` elements along k of rows [first, first + n) of an operand. */
static bool read_along(Tiles *t, const Dots *x, int operand, const Sym *first, int n, const Sym *k,
                       int width, Value **out) {
  SymCtx *sym = t->l.sym;
  const PackSource *s = &x->p->source[operand];
  Point at = point_along(t, s, k, width);
  pack_grant_rows(t, s);
  if (s->k_end) nest_grant(t, s->k, s->k_end);
  for (int i = 0; i < n; i++) {
    const Sym *row = sym_add(sym, first, sym_int(sym, i));
    Point p = pack_point(at, s->row, pack_row_at(t, s, row));
    bool held = operand == x->few && x->held;
    out[i] = held ? read_held(t, x->held, row, k, width) : pack_source_at(t, s, &p);
    if (!out[i]) return false;
  }
  return true;
}

/* Prefetches the rows that come next: they are short, so hardware prefetchers do not find them. */
static void prefetch_next(Tiles *t, const PackSource *s, const Sym *first, int n, const Sym *k) {
  SymCtx *sym = t->l.sym;
  for (int i = 0; i < n; i++) {
    const Sym *row = sym_add(sym, s->row_start, sym_add(sym, first, sym_int(sym, n + i)));
    Point p = pack_point(point_along(t, s, k, 1), s->row, emit_sound(&t->l, row));
    tiles_prefetch(t, s->of, &p);
  }
}

/* Sums the elements of a power of two of vecs: adds neighbours until one element of each is
 * left. */
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
  if (x->few == 0) prefetch_next(t, &x->panels[1].source, b->column, b->n, loop.counter);
  else prefetch_next(t, &x->panels[0].source, b->row, b->m, loop.counter);
  loop_close(t, &loop, sum);
  for (int i = 0; i < n; i++) sum[i] = loop_result(&loop, i);
  return ok ? add_up(t, sum, n) : NULL;
}

/* The rest of k, one element at a time. */
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
  Value *next = ok ? emit_op(l, OP_wave_mma, args, 3, &mma, 1, sum->type) : sum;
  loop_close(t, &loop, &next);
  return ok ? loop_result(&loop, 0) : NULL;
}

static bool dots_block(Tiles *t, const Dots *x, const Block *b) {
  const Sym *depth = pack_depth(t, &x->p->source[0]), *whole = skinny_whole(t, depth, x->step);
  Value *offset = product_offset(t, x->p, b), *sum = sum_vectors(t, x, b, whole);
  Value *acc = sum ? product_load(t, x->p, b, offset) : NULL;
  if (!acc) return false;
  sum = emit_binary(&t->l, OP_add, acc, sum);
  if (whole != depth) sum = sum_rest(t, x, b, whole, depth, sum);
  if (sum) product_store(t, x->p, b, offset, sum);
  return sum != NULL;
}

/* A block of `rows` of the small operand, next to a run of the other. */
static bool dots_rows(Tiles *t, const Dots *x, const PanelRun *many, const Sym *first, int rows) {
  Block b = {.m = rows, .n = many->rows, .row = first, .column = many->first};
  if (x->few == 1) b = (Block){.m = many->rows, .n = rows, .row = many->first, .column = first};
  return dots_block(t, x, &b);
}

/* Some of these rows are not needed: the others, one at a time. */
static bool dots_cut(Tiles *t, const Dots *x, const PanelRun *many, const PanelRun *few) {
  SymCtx *sym = t->l.sym;
  const PackSource *s = &x->panels[x->few].source;
  const Sym *left = sym_sub(sym, sym_sub(sym, s->end, s->row_start), few->first);
  left = emit_sound(&t->l, sym_min(sym, left, sym_int(sym, few->rows)));
  NestLoop loop = loop_open(t, NULL, left, few->rows, 1, NULL, 0);
  bool ok = dots_rows(t, x, many, sym_add(sym, few->first, loop.counter), 1);
  loop_close(t, &loop, NULL);
  return ok;
}

/* All blocks next to a run of the larger operand, which is in the L1 cache by then. */
static bool dots_all_few(Tiles *t, const Dots *x, const PanelRun *many) {
  bool ok = true;
  for (int i = 0; ok && i < 4; i++) {
    PanelRun few;
    bool cut = i % 2;
    if (!panels_open(t, &x->panels[x->few], i / 2, cut ? PANELS_CUT : PANELS_WHOLE, &few)) continue;
    ok = cut && few.rows > 1 ? dots_cut(t, x, many, &few)
                             : dots_rows(t, x, many, few.first, few.rows);
    panels_close(t, &few);
  }
  return ok;
}

bool dots_multiply(Tiles *t, const TiledProduct *p) {
  Dots x = {.p = p, .few = skinny_few(t, p)};
  choose_widths(t, &x);
  choose_dots(t, &x);
  bool ok = hold_few(t, &x);
  nest_open(t);
  for (int rest = 0; ok && rest < 2; rest++) {
    PanelRun many;
    if (!panels_open(t, &x.panels[!x.few], rest, PANELS_NEEDED, &many)) continue;
    ok = dots_all_few(t, &x, &many);
    panels_close(t, &many);
  }
  nest_close(t);
  return ok;
}
