/* tiles_pack.c: operands of products as panels, in the order in which the product reads them.
 *
 *     A of 128 x 64, panels of 8 rows:  16 panels; in each, for every k, 8 elements side by side
 *
 * What does not change in a loop is packed in front of it. Rows that lie along k in memory are
 * transposed in blocks, in registers. Elements become those the product computes in, exactly: every
 * narrow float is an f32. */
#include "ir/dtype.h"
#include "tiles/tiles.h"

enum {
  BLOCK = 8
}; /* rows and elements of k that are transposed together; 16 of k were no faster */

typedef struct Packing {
  const Panels *to;
  const PackSource *from;
  const Sym *base;   /* offset of the panel */
  const Sym *first;  /* its first row, relative */
  int rows, group;   /* of the panel; of the block */
  const Sym *at_row; /* of the block, in the panel */
} Packing;

/* ---- elements ---- */

/* The operand, times its scale, at a point. */
static Value *source_at(Tiles *t, const PackSource *from, const Point *p) {
  Lower *l = &t->l;
  Value *v = tiles_wide_at(t, from->of, p);
  v = v ? emit_cast(l, v, from->dtype) : NULL;
  if (!v || !from->scale) return v;
  Point q = *p;
  for (int i = 0; i < q.n; i++) {
    if (dim_base(q.dim[i]) != dim_base(from->k)) continue;
    q.at[i] = sym_floordiv(l->sym, q.at[i], sym_int(l->sym, from->per_scale));
    q.at[i] = lower_sound(l, sym_simplify(l->sym, lower_facts(l), q.at[i]));
    if (q.along == i) q.along = -1, q.width = 1; /* vectors lie inside of what shares a scale */
  }
  Value *scale = tiles_at(t, from->scale, &q);
  if (!scale) return NULL;
  scale = emit_cast(l, scale, from->dtype);
  return emit_binary(l, OP_mul, v,
                     emit_splat(l, scale, scale->type->n < v->type->n ? v->type->n : 1));
}

/* From row `row` of the panel on, for n elements of k. */
static void store_panel(Tiles *t, const Packing *x, const Sym *k, const Sym *row, Value *const *v,
                        int n) {
  Lower *l = &t->l;
  const Sym *at = sym_mul(l->sym, k, sym_int(l->sym, x->rows));
  at = lower_sound(l, sym_add(l->sym, sym_add(l->sym, x->base, at), row));
  Value *address = emit_address(l, at, DTYPE_index);
  for (int i = 0; i < n; i++) {
    Value *args[] = {v[i], x->to->memory, address};
    Attr imm = {.key = ATTR_imm, .integer = i * x->rows};
    emit(l, OP_store, args, 3, &imm, i ? 1 : 0, NULL);
  }
}

static Point with(Point p, const Sym *dim, const Sym *at) {
  p.dim[p.n] = dim;
  p.at[p.n++] = at;
  return p;
}

static const Sym *sum(Tiles *t, const Sym *a, const Sym *b) {
  return lower_sound(&t->l, sym_add(t->l.sym, a, b));
}

/* ---- rows that are contiguous ---- */

static bool pack_rows(Tiles *t, Packing *x) {
  Lower *l = &t->l;
  const PackSource *from = x->from;
  NestLoop loop = loop_open(t, NULL, sym_int(l->sym, from->depth), 0, 1, NULL, 0);
  Point p = with(from->others, from->k, sum(t, from->k_start, loop.counter));
  p = with(p, from->row, sum(t, from->row_start, x->first));
  p.along = x->rows > 1 ? p.n - 1 : -1;
  p.width = x->rows;
  Value *v = source_at(t, from, &p);
  if (v) store_panel(t, x, loop.counter, sym_int(l->sym, 0), &v, 1);
  loop_close(t, &loop, NULL);
  return v != NULL;
}

/* ---- rows that lie along k ---- */

/* Elements of two vecs in turn, from the lower or upper halves. */
static Value *zip(Tiles *t, Value *a, Value *b, bool upper) {
  Value *both[] = {a, b};
  int n = a->type->n, regs[BLOCK];
  for (int i = 0; i < n; i++) regs[i] = (upper ? n / 2 : 0) + i / 2 + (i % 2 ? n : 0);
  return emit_pick(&t->l, emit_join(&t->l, both, 2), regs, n);
}

/* As many vecs as elements of each, a power of two: log n rounds of zips. */
static void transpose_square(Tiles *t, Value **v, int n) {
  for (int round = 1; round < n; round *= 2) {
    Value *next[BLOCK];
    for (int i = 0; i < n; i++) next[i] = zip(t, v[i / 2], v[i / 2 + n / 2], i % 2);
    for (int i = 0; i < n; i++) v[i] = next[i];
  }
}

/* `rows` vecs of `width` become `width` vecs of `rows`: square by square where that is possible. */
static void transpose(Tiles *t, Value **v, int rows, int width, Value **out) {
  bool square = is_power_of_two(rows) && rows > 1 && width % rows == 0;
  for (int k = 0; square && k < width; k += rows) {
    for (int r = 0; r < rows; r++) out[k + r] = emit_range(&t->l, v[r], k, rows);
    transpose_square(t, out + k, rows);
  }
  for (int k = 0; !square && k < width; k++) {
    Value *parts[BLOCK];
    for (int r = 0; r < rows; r++) parts[r] = emit_pick(&t->l, v[r], &k, 1);
    out[k] = emit_join(&t->l, parts, rows);
  }
}

static bool pack_block(Tiles *t, const Point *k, void *user) {
  const Packing *x = user;
  const PackSource *from = x->from;
  SymCtx *sym = t->l.sym;
  Value *rows[BLOCK], *out[BLOCK];
  const Sym *at = sym_sub(sym, k->at[k->n - 1], from->k_start);
  for (int r = 0; r < x->group; r++) {
    const Sym *row = sym_add(sym, sym_add(sym, x->first, x->at_row), sym_int(sym, r));
    Point p = with(*k, from->row, sum(t, from->row_start, row));
    if (!(rows[r] = source_at(t, from, &p))) return false;
  }
  transpose(t, rows, x->group, k->width, out);
  store_panel(t, x, at, x->at_row, out, k->width);
  return true;
}

/* A block of rows, along all of k. */
static bool pack_group(Tiles *t, Packing *x, int group, const Sym *at_row) {
  const PackSource *from = x->from;
  Point p = with(from->others, from->k, from->k_start);
  NestBox b = {.rank = p.n, .along = p.n - 1, .width = BLOCK};
  b.dim[b.along] = from->k;
  b.start[b.along] = from->k_start;
  b.extent[b.along] = from->depth;
  if (b.width > from->depth) b.width = from->depth;
  b.split = tile_limit(t, from->of, from->k);
  x->group = group;
  x->at_row = at_row;
  return nest_along(t, &b, p, pack_block, x);
}

/* As many rows as a register has elements, where that is a block. */
static int rows_of_block(const Tiles *t, DType dtype) {
  int lanes = t->l.machine.target->global_access * 8 / dtype_info[dtype].bits;
  return lanes < BLOCK / 2 ? BLOCK / 2 : lanes < BLOCK ? lanes : BLOCK;
}

static bool pack_columns(Tiles *t, Packing *x) {
  SymCtx *sym = t->l.sym;
  int block = rows_of_block(t, x->from->dtype), whole = x->rows / block * block;
  bool ok = true;
  if (whole == block) ok = pack_group(t, x, block, sym_int(sym, 0));
  if (whole > block) {
    NestLoop loop = loop_open(t, NULL, sym_int(sym, whole), 0, block, NULL, 0);
    ok = pack_group(t, x, block, loop.counter);
    loop_close(t, &loop, NULL);
  }
  return ok && (whole == x->rows || pack_group(t, x, x->rows - whole, sym_int(sym, whole)));
}

/* ---- panels ---- */

static const Sym *panels_of(Tiles *t, const PackSource *from, int rows, int first, int most) {
  SymCtx *sym = t->l.sym;
  const Sym *all = sym_int(sym, most), *zero = sym_int(sym, 0);
  if (!from->end) return all;
  const Sym *left = sym_sub(sym, from->end, from->row_start);
  left = sym_sub(sym, left, sym_int(sym, (int64_t)first * rows));
  left = sym_ceildiv(sym, left, sym_int(sym, rows));
  left = sym_max(sym, sym_min(sym, left, all), zero);
  return lower_sound(&t->l, sym_simplify(sym, lower_facts(&t->l), left));
}

bool panels_open(Tiles *t, const Panels *p, bool rest, PanelRun *out) {
  SymCtx *sym = t->l.sym;
  int full = p->source.extent / p->rows, left = p->source.extent % p->rows;
  int64_t size = (int64_t)p->rows * p->source.depth, n;
  const Sym *runs = rest ? panels_of(t, &p->source, p->rows, full, left ? 1 : 0)
                         : panels_of(t, &p->source, p->rows, 0, full);
  *out = (PanelRun){.rows = rest ? left : p->rows, .looping = !sym_is_int(runs, &n) || n > 1};
  if (!out->looping && n == 0) return false;
  if (out->looping) out->loop = loop_open(t, NULL, runs, rest ? 1 : full, 1, NULL, 0);
  const Sym *number = out->looping && !rest ? out->loop.counter : sym_int(sym, rest ? full : 0);
  out->first = sym_mul(sym, number, sym_int(sym, p->rows));
  out->base = sym_mul(sym, number, sym_int(sym, size));
  return true;
}

void panels_close(Tiles *t, PanelRun *r) {
  if (r->looping) loop_close(t, &r->loop, NULL);
}

static bool pack_panel(Tiles *t, Packing *x, bool along_rows) {
  return along_rows ? pack_rows(t, x) : pack_columns(t, x);
}

static bool pack_all(Tiles *t, const PackSource *from, const Panels *to) {
  Packing x = {.to = to, .from = from};
  const Sym *contiguous = tile_contiguous(t, from->of);
  bool along_rows = contiguous && dim_base(contiguous) == dim_base(from->row), ok = true;
  nest_open(t);
  for (int rest = 0; ok && rest < 2; rest++) {
    PanelRun run;
    if (!panels_open(t, to, rest, &run)) continue;
    x.rows = run.rows;
    x.base = run.base;
    x.first = run.first;
    ok = pack_panel(t, &x, along_rows);
    panels_close(t, &run);
  }
  nest_close(t);
  return ok;
}

/* ---- in front of loops ---- */

static bool same_source(const PackSource *a, const PackSource *b) {
  bool same = a->of == b->of && a->scale == b->scale && a->row == b->row && a->k == b->k &&
              a->extent == b->extent && a->depth == b->depth && a->dtype == b->dtype &&
              a->row_start == b->row_start && a->k_start == b->k_start && a->end == b->end &&
              a->others.n == b->others.n;
  for (int i = 0; same && i < a->others.n; i++) same = a->others.at[i] == b->others.at[i];
  return same;
}

/* The scope of the values it is made of, and its coordinates have a value there. */
static LowerScope *home_of(const Tiles *t, const PackSource *from) {
  const LowerScope *made = t->tile[from->of->id].scope;
  const LowerScope *scale = from->scale ? t->tile[from->scale->id].scope : made;
  const Sym *e = sym_add(t->l.sym, from->row_start, from->k_start);
  for (int i = 0; i < from->others.n; i++) e = sym_add(t->l.sym, e, from->others.at[i]);
  LowerScope *home = t->l.scope;
  for (; home != made && home != scale && home->outer; home = home->outer)
    for (int i = 0; i < t->l.symbols.n; i++)
      if (t->l.symbols.at[i].scope == home && (!e || sym_contains(e, t->l.symbols.at[i].symbol)))
        return home;
  return home;
}

const Panels *pack_panels(Tiles *t, const PackSource *from, int rows) {
  LowerScope *here = t->l.scope, *home = home_of(t, from);
  NestLevel *level = t->level;
  for (int i = 0; i < t->panels.n; i++)
    if (t->panels.at[i]->rows == rows && same_source(&t->panels.at[i]->source, from))
      return t->panels.at[i];
  Panels *p = ARENA_NEW(t->l.arena, Panels);
  *p = (Panels){.source = *from, .rows = rows, .scope = home};
  p->memory = scratch_new(t, from->dtype, (int64_t)from->extent * from->depth, home != here);
  t->l.scope = home;
  if (home != here) t->level = NULL;
  bool ok = pack_all(t, from, p);
  t->l.scope = here;
  t->level = level;
  if (home != here) vec_push(t->l.arena, &t->panels, p);
  return ok ? p : NULL;
}
