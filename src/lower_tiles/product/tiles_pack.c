/* tiles_pack.c: packs operands of products into panels, in the order in which the product reads
 * them.
 *
 *     A of 128 x 64, panels of 8 rows:  16 panels; in each, for every k, 8 adjacent elements
 *
 * Operands that a loop does not change are packed before it. Rows that are contiguous along k are
 * transposed in blocks, in registers. Elements are converted to the type that the product is
 * computed in, exactly: every narrow float is an f32.
 *
 * Inner loops contain no tests if an operand is a plain read: rows that are not needed are copies
 * of the last one that is, and elements along k that are skipped are not packed. */
#include "lower_tiles/product/tiles_pack.h"

enum {
  DISTANCE = 8, /* rows between what is transposed and what is prefetched */
  RUN = 8       /* rows of memory that are read together when panels are cut out of them */
};

/* ---- elements ---- */
Value *pack_source_at(Tiles *t, const PackSource *from, const Point *p) {
  Value *v = tiles_wide_at(t, from->of, p);
  return v ? emit_cast(&t->l, v, from->dtype) : NULL;
}

/* From row `row` of the panel on, for n vecs of `each` elements of k. */
static void store_panel(Tiles *t, const Packing *x, const Sym *k, const Sym *row, Value *const *v,
                        int n, int each) {
  Lower *l = &t->l;
  const Sym *at = sym_mul(l->sym, k, sym_int(l->sym, x->rows));
  at = emit_sound(l, sym_add(l->sym, sym_add(l->sym, x->base, at), row));
  Value *address = emit_address(l, at, DTYPE_index);
  for (int i = 0; i < n; i++) {
    Value *args[] = {v[i], x->to->memory, address};
    Attr imm = {.key = ATTR_imm, .integer = i * each * x->rows};
    emit_op(l, OP_store, args, 3, &imm, i ? 1 : 0, NULL);
  }
}

Point pack_point(Point p, const Sym *dim, const Sym *at) {
  p.dim[p.n] = dim;
  p.at[p.n++] = at;
  return p;
}

const Op *pack_plain_read(const Tiles *t, const Value *v) {
  for (; t->tile[v->id].held == TILE_INLINE; v = v->def->args[0]) {
    if (v->def->kind == OP_read) return v->def;
    if (v->def->kind != OP_cast && v->def->kind != OP_permute) break;
  }
  return NULL;
}

/* Any row may stand in for those that are not needed. */
static bool may_repeat_rows(const Tiles *t, const PackSource *from) {
  return from->end && pack_plain_read(t, from->of);
}

const Sym *pack_row_at(Tiles *t, const PackSource *from, const Sym *row) {
  SymCtx *sym = t->l.sym;
  const Sym *at = sym_add(sym, from->row_start, row);
  if (may_repeat_rows(t, from)) at = sym_min(sym, at, sym_sub(sym, from->end, sym_int(sym, 1)));
  return emit_sound(&t->l, at);
}

const Sym *pack_depth(Tiles *t, const PackSource *from) {
  SymCtx *sym = t->l.sym;
  const Sym *all = sym_int(sym, from->depth);
  if (!from->k_end) return all;
  const Sym *left = sym_min(sym, all, sym_sub(sym, from->k_end, from->k_start));
  left = sym_max(sym, left, sym_int(sym, 0));
  return emit_sound(&t->l, sym_simplify(sym, emit_facts(&t->l), left));
}

void pack_grant_rows(Tiles *t, const PackSource *from) {
  if (may_repeat_rows(t, from)) nest_grant(t, from->row, from->end);
}

/* What holds for every element that is packed now. */
static void grant_source(Tiles *t, const PackSource *from) {
  pack_grant_rows(t, from);
  if (from->k_end) nest_grant(t, from->k, from->k_end);
}

/* ---- rows that are contiguous ---- */

/* `width` rows of the panel from `row` on, for one element along k. */
static bool pack_width(Tiles *t, const Packing *x, const Sym *row, int width, const Sym *k) {
  const PackSource *from = x->from;
  Point p = pack_point(from->others, from->k, tiles_sum(t, from->k_start, k));
  const Sym *first = sym_add(t->l.sym, x->first, row);
  p = pack_point(p, from->row,
                 width > 1 ? tiles_sum(t, from->row_start, first) : pack_row_at(t, from, first));
  p.along = width > 1 ? p.n - 1 : -1;
  p.width = width;
  grant_source(t, from);
  if (width > 1 && from->end) nest_grant(t, from->row, from->end); /* a whole panel */
  Value *v = pack_source_at(t, from, &p);
  if (v) store_panel(t, x, k, row, &v, 1, 1);
  return v != NULL;
}

/* Without a loop, what the addresses of each k need is computed once for all panels. */
static bool pack_unrolled(Tiles *t, const Packing *x, const Sym *row, int width,
                          const Sym *k_first) {
  int granted = t->granted.n;
  bool ok = true;
  for (int i = 0; ok && i < RUN; i++)
    ok = pack_width(t, x, row, width, tiles_sum(t, k_first, sym_int(t->l.sym, i)));
  t->granted.n = granted;
  return ok;
}

/* The same for the elements along k of one run. */
static bool pack_run(Tiles *t, const Packing *x, const Sym *row, int width, const Sym *k_first) {
  SymCtx *sym = t->l.sym;
  const PackSource *from = x->from;
  if (x->whole) return pack_unrolled(t, x, row, width, k_first);
  const Sym *stop = sym_add(sym, k_first, sym_int(sym, RUN));
  stop = emit_sound(&t->l, sym_min(sym, stop, pack_depth(t, from)));
  NestLoop loop = loop_open(t, k_first, stop, from->depth, 1, NULL, 0);
  bool ok = pack_width(t, x, row, width, loop.counter);
  loop_close(t, &loop, NULL);
  return ok;
}

/* Rows [from, to) of the panel, `width` at a time. */
static bool pack_pieces(Tiles *t, const Packing *x, const Sym *from, const Sym *to, int width,
                        const Sym *k_first) {
  NestLoop loop = loop_open(t, from, to, x->rows, width, NULL, 0);
  bool ok = pack_run(t, x, loop.counter, width, k_first);
  loop_close(t, &loop, NULL);
  return ok;
}

/* Rows that are read together: all of the panel, or those of one run. */
static int rows_of_piece(const Packing *x) {
  int n = x->in_runs ? x->in_runs : x->rows;
  while (x->rows % n) n /= 2;
  return n;
}

/* All of its rows are needed. */
static bool pack_whole(Tiles *t, const Packing *x, const Sym *k_first) {
  const Sym *zero = sym_int(t->l.sym, 0), *all = sym_int(t->l.sym, x->rows);
  int n = rows_of_piece(x);
  return n == x->rows ? pack_run(t, x, zero, n, k_first) : pack_pieces(t, x, NULL, all, n, k_first);
}

/* Some of its rows are not needed: vectors as far as they are full, then one at a time, to the end
 * of the last vector. The smaller panel at the end is multiplied as a whole. */
static bool pack_cut(Tiles *t, const Packing *x, const Sym *k_first) {
  SymCtx *sym = t->l.sym;
  const PackSource *s = x->from;
  const Sym *all = sym_int(sym, x->rows), *stop = all;
  if (!pack_is_narrow(s, x->rows)) return pack_pieces(t, x, NULL, all, 1, k_first);
  int piece = rows_of_piece(x), together = piece < s->vector ? piece : s->vector;
  const Sym *by = sym_int(sym, together), *vector = sym_int(sym, s->vector);
  const Sym *left = sym_min(sym, all, sym_sub(sym, sym_sub(sym, s->end, s->row_start), x->first));
  const Sym *full = emit_sound(&t->l, sym_mul(sym, by, sym_floordiv(sym, left, by)));
  if (x->rows == x->to->rows)
    stop = emit_sound(&t->l, sym_mul(sym, vector, sym_ceildiv(sym, left, vector)));
  return pack_pieces(t, x, NULL, full, together, k_first) &&
         pack_pieces(t, x, full, stop, 1, k_first);
}

/* Runs [first, end) along k, each for all panels: memory is read in long runs. */
static bool pack_runs(Tiles *t, Packing *x, const Sym *first, const Sym *end) {
  NestLoop runs = loop_open(t, first, end, x->from->depth, RUN, NULL, 0);
  bool ok = true;
  for (int i = 0; ok && i < 4; i++) {
    PanelRun run;
    bool cut = i % 2;
    if (!panels_open(t, x->to, i / 2, cut ? PANELS_CUT : PANELS_WHOLE, &run)) continue;
    x->rows = run.rows;
    x->base = run.base;
    x->first = run.first;
    ok = cut ? pack_cut(t, x, runs.counter) : pack_whole(t, x, runs.counter);
    panels_close(t, &run);
  }
  loop_close(t, &runs, NULL);
  return ok;
}

/* Whole runs need no loop of their own if addresses are not linear (pack_unrolled). */
static bool pack_rows(Tiles *t, Packing *x) {
  SymCtx *sym = t->l.sym;
  const Sym *depth = pack_depth(t, x->from), *by = sym_int(sym, RUN), *whole = NULL;
  if (x->in_runs) {
    whole = sym_mul(sym, by, sym_floordiv(sym, depth, by));
    whole = emit_sound(&t->l, sym_simplify(sym, emit_facts(&t->l), whole));
    x->whole = true;
    if (!pack_runs(t, x, NULL, whole)) return false;
    x->whole = false;
  }
  return whole == depth || pack_runs(t, x, whole, depth);
}

/* ---- rows contiguous along k ---- */

/* Interleaves units of two vecs, from the lower or upper halves. */
static Value *zip(Tiles *t, Value *a, Value *b, int unit, bool upper) {
  Value *both[] = {a, b};
  int n = a->type->n / unit, *regs = ARENA_ARRAY(t->l.arena, int, a->type->n);
  for (int i = 0; i < n * unit; i++) {
    int at = (upper ? n / 2 : 0) + i / unit / 2 + (i / unit % 2 ? n : 0);
    regs[i] = at * unit + i % unit;
  }
  return emit_pick(&t->l, emit_join(&t->l, both, 2), regs, a->type->n);
}

/* log n rounds of zips. Each rotates the bits of (vec, element): those of vec move to the end. */
void pack_transpose(Tiles *t, Value **v, int n, int unit) {
  for (int round = 1; round < n; round *= 2) {
    Value *next[TURN_MOST];
    for (int i = 0; i < n; i++) next[i] = zip(t, v[i / 2], v[i / 2 + n / 2], unit, i % 2);
    for (int i = 0; i < n; i++) v[i] = next[i];
  }
}

/* `rows` vecs become as many, each with some columns one after the other. */
static bool can_zip(int rows, int width) {
  return is_power_of_two(rows) && rows > 1 && width % rows == 0;
}

void tiles_turn(Tiles *t, Value **v, int rows, int width, Value **out) {
  bool zips = can_zip(rows, width);
  int each = width / rows;
  if (zips) pack_transpose(t, v, rows, 1);
  for (int k = 0; zips && k < width; k++)
    out[k] = emit_range(&t->l, v[k / each], k % each * rows, rows);
  for (int k = 0; !zips && k < width; k++) {
    Value *parts[TURN_MOST];
    for (int r = 0; r < rows; r++) parts[r] = emit_pick(&t->l, v[r], &k, 1);
    out[k] = emit_join(&t->l, parts, rows);
  }
}

int tiles_turn_width(const Tiles *t) {
  int words = t->l.machine.target->global_access / 4;
  return words > TURN_LEAST ? TURN_MOST : TURN_LEAST;
}

/* Rows are short, and there are many streams, so hardware prefetchers do not help. */
static void prefetch_row(Tiles *t, const PackSource *from, Point p, const Sym *row) {
  p = pack_point(p, from->row, tiles_sum(t, from->row_start, row));
  tiles_prefetch(t, from->of, &p);
}

static bool pack_at(Tiles *t, const Point *k, void *user) {
  const Packing *x = user;
  const PackSource *from = x->from;
  SymCtx *sym = t->l.sym;
  Value *rows[TURN_MOST], *out[TURN_MOST];
  const Sym *at = sym_sub(sym, k->at[k->n - 1], from->k_start);
  for (int r = 0; r < x->block_rows; r++) {
    const Sym *row = sym_add(sym, sym_add(sym, x->first, x->at_row), sym_int(sym, r));
    Point p = pack_point(*k, from->row, pack_row_at(t, from, row));
    if (!(rows[r] = pack_source_at(t, from, &p))) return false;
    if (k->width == tiles_turn_width(t) && !x->to->kept)
      prefetch_row(t, from, *k, sym_add(sym, row, sym_int(sym, DISTANCE)));
  }
  if (x->block_rows == x->rows && can_zip(x->rows, k->width)) { /* columns are adjacent, too */
    pack_transpose(t, rows, x->rows, 1);
    store_panel(t, x, at, x->at_row, rows, x->rows, k->width / x->rows);
    return true;
  }
  tiles_turn(t, rows, x->block_rows, k->width, out);
  store_panel(t, x, at, x->at_row, out, k->width, 1);
  return true;
}

/* Up to the point where elements are skipped: blocks, then single elements. */
static bool pack_needed(Tiles *t, Packing *x, Point p, int width) {
  SymCtx *sym = t->l.sym;
  const Sym *depth = pack_depth(t, x->from), *by = sym_int(sym, width);
  const Sym *whole = sym_mul(sym, by, sym_floordiv(sym, depth, by));
  whole = emit_sound(&t->l, sym_simplify(sym, emit_facts(&t->l), whole));
  return pack_vectors(t, x, p, NULL, whole, width, true, pack_at) &&
         (whole == depth || pack_vectors(t, x, p, whole, depth, 1, true, pack_at));
}

/* A block of rows, along all of k. */
static bool pack_row_block(Tiles *t, Packing *x, int block_rows, const Sym *at_row) {
  const PackSource *from = x->from;
  Point p = pack_point(from->others, from->k, from->k_start);
  NestBox b = {.rank = p.n, .along = p.n - 1, .width = tiles_turn_width(t)};
  b.dim[b.along] = from->k;
  b.start[b.along] = from->k_start;
  b.extent[b.along] = from->depth;
  if (b.width > from->depth) b.width = from->depth;
  if (x->run > 1 && b.width > x->run) b.width = x->run;
  b.split = tile_limit(t, from->of, from->k);
  x->block_rows = block_rows;
  x->at_row = at_row;
  if (from->k_end || (x->run > b.width && !b.split)) return pack_needed(t, x, p, b.width);
  int granted = t->granted.n;
  grant_source(t, from);
  bool ok = nest_along(t, &b, p, pack_at, x);
  t->granted.n = granted;
  return ok;
}

/* As many rows as a register has elements, if that is a valid block. */
static int rows_of_block(const Tiles *t, DType dtype) {
  int lanes = t->l.machine.target->global_access * 8 / dtype_info[dtype].bits,
      most = tiles_turn_width(t);
  return lanes < TURN_LEAST / 2 ? TURN_LEAST / 2 : lanes < most ? lanes : most;
}

static bool pack_columns(Tiles *t, Packing *x) {
  SymCtx *sym = t->l.sym;
  int block = rows_of_block(t, x->from->dtype), whole = x->rows / block * block;
  bool ok = true;
  if (whole == block) ok = pack_row_block(t, x, block, sym_int(sym, 0));
  if (whole > block) {
    NestLoop loop = loop_open(t, NULL, sym_int(sym, whole), 0, block, NULL, 0);
    ok = pack_row_block(t, x, block, loop.counter);
    loop_close(t, &loop, NULL);
  }
  return ok && (whole == x->rows || pack_row_block(t, x, x->rows - whole, sym_int(sym, whole)));
}

/* ---- panels ---- */

/* How many of `most` panels, from row `first` on, lack at most `absent` of their rows. */
static const Sym *panels_of(Tiles *t, const PackSource *from, int64_t first, int rows, int most,
                            int absent) {
  SymCtx *sym = t->l.sym;
  const Sym *all = sym_int(sym, most), *zero = sym_int(sym, 0), *by = sym_int(sym, rows);
  if (!from->end || !most) return all;
  const Sym *left = sym_sub(sym, from->end, from->row_start);
  left = sym_sub(sym, left, sym_int(sym, first));
  left = absent == rows - 1 ? sym_ceildiv(sym, left, by)
                            : sym_floordiv(sym, sym_add(sym, left, sym_int(sym, absent)), by);
  left = sym_max(sym, sym_min(sym, left, all), zero);
  return emit_sound(&t->l, sym_simplify(sym, emit_facts(&t->l), left));
}

/* Panels that lack at most this many rows come before those of the part, or are the part. */
static int absent_of(const Panels *p, PanelPart part, int rows) {
  return part == PANELS_NEEDED                          ? rows - 1
         : part == PANELS_WIDE || part == PANELS_NARROW ? p->source.vector - 1
                                                        : 0;
}

bool panels_open(Tiles *t, const Panels *p, bool rest, PanelPart part, PanelRun *out) {
  SymCtx *sym = t->l.sym;
  bool rear = part == PANELS_CUT || part == PANELS_NARROW;
  int full = p->source.extent / p->rows, left = p->source.extent % p->rows;
  int rows = rest ? left : p->rows, most = !rest ? full : left ? 1 : 0;
  int64_t size = (int64_t)p->rows * pack_padded(&p->source),
          start = rest ? (int64_t)full * p->rows : 0, n;
  const Sym *from = NULL, *to = panels_of(t, &p->source, start, rows, most,
                                          rear ? rows - 1 : absent_of(p, part, rows));
  if (rear) from = panels_of(t, &p->source, start, rows, most, absent_of(p, part, rows));
  bool single = !from && sym_is_int(to, &n) && n <= 1;
  if (from == to || (single && n == 0)) return false;
  *out = (PanelRun){.rows = rows, .looping = !single};
  if (out->looping) out->loop = loop_open(t, from, to, most, 1, NULL, 0);
  const Sym *number = out->looping && !rest ? out->loop.counter : sym_int(sym, rest ? full : 0);
  out->first = sym_mul(sym, number, sym_int(sym, p->rows));
  out->base = sym_add(sym, p->base, sym_mul(sym, number, sym_int(sym, size)));
  return true;
}

void panels_close(Tiles *t, PanelRun *r) {
  if (r->looping) loop_close(t, &r->loop, NULL);
}

static bool pack_each(Tiles *t, Packing *x) {
  bool ok = true;
  for (int rest = 0; ok && rest < 2; rest++) {
    PanelRun run;
    if (!panels_open(t, x->to, rest, PANELS_NEEDED, &run)) continue;
    x->rows = run.rows;
    x->base = run.base;
    x->first = run.first;
    ok = x->from->k_group > 1 ? pack_k_groups(t, x, false) : pack_columns(t, x);
    panels_close(t, &run);
  }
  return ok;
}

/* Rows that are contiguous, in groups of several elements of k: no tests if all rows of a panel
 * are needed. */
static bool pack_k_groups_of_rows(Tiles *t, Packing *x) {
  bool ok = true;
  for (int i = 0; ok && i < 4; i++) {
    PanelRun run;
    bool cut = i % 2;
    int granted = t->granted.n;
    if (!panels_open(t, x->to, i / 2, cut ? PANELS_CUT : PANELS_WHOLE, &run)) continue;
    x->rows = run.rows;
    x->base = run.base;
    x->first = run.first;
    if (!cut && x->from->end) nest_grant(t, x->from->row, x->from->end);
    ok = pack_k_groups(t, x, true);
    t->granted.n = granted;
    panels_close(t, &run);
  }
  return ok;
}

/* Whether elements of the same k are contiguous in memory, or at least more of them than of the
 * same row, as pixels of an image are whose channels are far apart. */
static bool is_along_rows(Tiles *t, const PackSource *from, int *in_runs) {
  const Sym *contiguous = tile_contiguous(t, from->of);
  const Op *read = pack_plain_read(t, from->of);
  *in_runs = 0;
  if (contiguous && dim_base(contiguous) == dim_base(from->row)) return true;
  if (!read || access_contiguous(t, read)) return false;
  int rows = access_run(t, read, from->row, from->row_start, from->extent, ACCESS_RUN),
      along_k = pack_run_along_k(t, from);
  if (along_k == 1 || rows > along_k) *in_runs = rows;
  return *in_runs > 0;
}

static bool pack_all(Tiles *t, const PackSource *from, const Panels *to) {
  Packing x = {.to = to, .from = from};
  bool along_rows = is_along_rows(t, from, &x.in_runs);
  x.run = along_rows ? 1 : pack_run_along_k(t, from);
  nest_open(t);
  bool ok = !along_rows          ? pack_each(t, &x)
            : from->k_group == 1 ? pack_rows(t, &x)
                                 : pack_k_groups_of_rows(t, &x);
  nest_close(t);
  return ok;
}

/* ---- before loops ---- */

static bool same_source(const PackSource *a, const PackSource *b) {
  bool same = a->of == b->of && a->row == b->row && a->k == b->k && a->extent == b->extent &&
              a->depth == b->depth && a->dtype == b->dtype && a->k_group == b->k_group &&
              a->step == b->step && a->tied == b->tied && a->row_start == b->row_start &&
              a->k_start == b->k_start && a->end == b->end && a->k_end == b->k_end &&
              a->others.n == b->others.n;
  for (int i = 0; same && i < a->others.n; i++) same = a->others.at[i] == b->others.at[i];
  return same;
}

/* The outermost scope in which its values and its coordinates are available. */
static LowerScope *home_of(const Tiles *t, const PackSource *from) {
  const LowerScope *made = t->tile[from->of->id].scope;
  const Sym *e = sym_add(t->l.sym, from->row_start, from->k_start);
  if (from->k_end) e = sym_add(t->l.sym, e, from->k_end);
  for (int i = 0; i < from->others.n; i++) e = sym_add(t->l.sym, e, from->others.at[i]);
  LowerScope *home = t->l.scope;
  for (; home != made && home->outer; home = home->outer)
    for (int i = 0; i < t->l.symbols.n; i++)
      if (t->l.symbols.at[i].scope == home && (!e || sym_contains(e, t->l.symbols.at[i].symbol)))
        return home;
  return home;
}

bool pack_is_hoisted(const Tiles *t, const PackSource *from) {
  return home_of(t, from) != t->l.scope;
}

/* At t->l.scope: always, or unless it was done before. */
static bool pack_once(Tiles *t, Panels *p, Kept *kept) {
  if (!kept) return pack_all(t, &p->source, p);
  kept_open(t, kept);
  bool ok = pack_all(t, &p->source, p);
  kept_close(t, kept);
  return ok;
}

const Panels *pack_panels(Tiles *t, const PackSource *from, int rows) {
  LowerScope *here = t->l.scope, *home = from->tied ? here : home_of(t, from);
  NestLevel *level = t->level;
  GrantedList granted = t->granted;
  for (int i = 0; i < t->panels.n; i++)
    if (t->panels.at[i]->rows == rows && same_source(&t->panels.at[i]->source, from))
      return t->panels.at[i];
  Panels *p = ARENA_NEW(t->l.arena, Panels);
  Kept kept;
  bool keeps = kept_plan(t, from, home, &kept), elsewhere = home != here;
  *p = (Panels){.source = *from, .rows = rows, .scope = home, .kept = keeps};
  p->base = keeps ? kept.base : sym_int(t->l.sym, 0);
  p->memory = scratch_new(t, from->dtype, pack_elements(from) * (keeps ? kept.slots : 1),
                          elsewhere || keeps);
  t->l.scope = home;
  if (elsewhere || keeps) t->level = NULL, t->granted = (GrantedList){0};
  bool ok = pack_once(t, p, keeps ? &kept : NULL);
  t->l.scope = here;
  t->level = level;
  t->granted = granted;
  if (elsewhere) vec_push(t->l.arena, &t->panels, p);
  return ok ? p : NULL;
}
