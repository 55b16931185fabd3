/* tiles_k_groups.c: panels in which several elements of k are contiguous, as dot products and
 * matrix registers read them.
 *
 *     4 rows, groups of 2:  a0k0 a0k1 a1k0 a1k1 a2k0 a2k1 a3k0 a3k1, then the same of k2 and k3
 *
 * A group is moved as a whole if it is contiguous in memory; if rows are contiguous, vectors of
 * several k are interleaved. What a step of the product reads past the last element of k is
 * zero. */
#include "lower_tiles/product/tiles_pack.h"

enum { LONG = 32 };      /* groups that are moved as a whole */
enum { MOST_ROWS = 64 }; /* of a panel */
/* Offset of (k, row) in the panel; k in whole groups. */
static const Sym *offset_of(Tiles *t, const Packing *x, const Sym *k, const Sym *row) {
  SymCtx *sym = t->l.sym;
  const Sym *at = sym_mul(sym, k, sym_int(sym, x->rows));
  at = sym_add(sym, at, sym_mul(sym, row, sym_int(sym, x->from->k_group)));
  return emit_sound(&t->l, sym_add(sym, x->base, at));
}

/* Stores v[i] at `at` + i * `apart`. */
static void store_all(Tiles *t, const Packing *x, const Sym *at, int apart, Value *const *v,
                      int n) {
  Value *address = emit_address(&t->l, at, DTYPE_index);
  for (int i = 0; i < n; i++) {
    Value *args[] = {v[i], x->to->memory, address};
    Attr imm = {.key = ATTR_imm, .integer = (int64_t)i * apart};
    emit_op(&t->l, OP_store, args, 3, &imm, i ? 1 : 0, NULL);
  }
}

/* ---- rows contiguous along k ---- */

/* Element by element: (k + e, row) for the elements of one vec. */
static void store_elements(Tiles *t, const Packing *x, const Sym *k, const Sym *row, Value *v) {
  SymCtx *sym = t->l.sym;
  const Sym *k_group = sym_int(sym, x->from->k_group);
  for (int e = 0; e < v->type->n; e++) {
    const Sym *at = sym_add(sym, k, sym_int(sym, e)), *in = sym_mod(sym, at, k_group);
    Value *one = emit_pick(&t->l, v, &e, 1);
    store_all(t, x, tiles_sum(t, offset_of(t, x, sym_sub(sym, at, in), row), in), 0, &one, 1);
  }
}

/* Rows in blocks of whole groups: squares of them are transposed, so that groups of one k are
 * adjacent. */
static void store_squares(Tiles *t, const Packing *x, const Sym *k, Value **rows, int groups) {
  int n = x->block_rows, k_group = x->from->k_group;
  Value *square[TURN_MOST];
  for (int first = 0; first < groups; first += n) {
    for (int r = 0; r < n; r++)
      square[r] = emit_range(&t->l, rows[r], first * k_group, n * k_group);
    pack_transpose(t, square, n, k_group);
    const Sym *at = tiles_sum(t, k, sym_int(t->l.sym, (int64_t)first * k_group));
    store_all(t, x, offset_of(t, x, at, x->at_row), x->rows * k_group, square, n);
  }
}

static bool pack_at(Tiles *t, const Point *k, void *user) {
  const Packing *x = user;
  const PackSource *from = x->from;
  SymCtx *sym = t->l.sym;
  Value *rows[TURN_MOST];
  const Sym *at = sym_sub(sym, k->at[k->n - 1], from->k_start);
  int groups = k->width / from->k_group;
  for (int r = 0; r < x->block_rows; r++) {
    const Sym *row = sym_add(sym, sym_add(sym, x->first, x->at_row), sym_int(sym, r));
    Point p = pack_point(*k, from->row, pack_row_at(t, from, row));
    if (!(rows[r] = pack_source_at(t, from, &p))) return false;
  }
  bool whole = k->width % from->k_group == 0;
  if (whole && groups > 1 && groups % x->block_rows == 0) {
    store_squares(t, x, at, rows, groups);
    return true;
  }
  for (int r = 0; r < x->block_rows; r++) {
    const Sym *row = sym_add(sym, x->at_row, sym_int(sym, r));
    for (int s = 0; whole && s < groups; s++) {
      Value *one = emit_range(&t->l, rows[r], s * from->k_group, from->k_group);
      const Sym *first = tiles_sum(t, at, sym_int(sym, (int64_t)s * from->k_group));
      store_all(t, x, offset_of(t, x, first, row), 0, &one, 1);
    }
    if (!whole) store_elements(t, x, at, row, rows[r]);
  }
  return true;
}

/* The largest divisor of k that is whole squares, whole groups, or single elements; of a run, as far
 * as possible. */
static int width_along(const Tiles *t, const Packing *x, int block) {
  const PackSource *from = x->from;
  int width = from->k_group * tiles_turn_width(t);
  if (from->k_group >= LONG) width = from->k_group;
  while (x->run > 1 && width > x->run && width > from->k_group) width /= 2;
  while (width > from->k_group && (from->depth % width || (width / from->k_group) % block))
    width /= 2;
  return from->depth % width ? 1 : width;
}

static const Sym *whole_of(Tiles *t, const Sym *e, int by, bool up) {
  SymCtx *sym = t->l.sym;
  const Sym *n = sym_int(sym, by);
  e = sym_mul(sym, n, up ? sym_ceildiv(sym, e, n) : sym_floordiv(sym, e, n));
  return emit_sound(&t->l, sym_simplify(sym, emit_facts(&t->l), e));
}

/* The end is determined when it is packed; otherwise the whole tile is packed. */
static bool ends_early(const PackSource *from) {
  return from->k_end && from->depth % from->step == 0;
}

/* Up to the point where elements are skipped: vectors without tests, then with tests to the end of
 * the step; skipped elements are 0. */
static bool pack_needed(Tiles *t, Packing *x, Point p, int width) {
  const PackSource *from = x->from;
  const Sym *depth = pack_depth(t, from), *whole = whole_of(t, depth, width, false);
  const Sym *bounds[] = {NULL, whole, whole_of(t, depth, from->step, true)};
  bool ok = true;
  for (int i = 0; ok && i < 2; i++)
    ok = bounds[i] == bounds[i + 1] ||
         pack_vectors(t, x, p, bounds[i], bounds[i + 1], width, i == 0, pack_at);
  return ok;
}

static bool pack_row_block(Tiles *t, Packing *x, int block_rows, const Sym *at_row) {
  const PackSource *from = x->from;
  Point p = pack_point(from->others, from->k, from->k_start);
  NestBox b = {.rank = p.n, .along = p.n - 1, .width = width_along(t, x, block_rows)};
  b.dim[b.along] = from->k;
  b.start[b.along] = from->k_start;
  b.extent[b.along] = from->depth;
  b.split = tile_limit(t, from->of, from->k);
  x->block_rows = block_rows;
  x->at_row = at_row;
  if (ends_early(from) && b.width > 1) return pack_needed(t, x, p, b.width);
  if (!from->k_end && !b.split && x->run > b.width)
    return pack_vectors(t, x, p, NULL, sym_int(t->l.sym, from->depth), b.width, true, pack_at);
  int granted = t->granted.n;
  pack_grant_rows(t, from);
  bool ok = nest_along(t, &b, p, pack_at, x);
  t->granted.n = granted;
  return ok;
}

/* As many rows as a register has groups, if that is a valid block. */
static int rows_of_block(const Tiles *t, const PackSource *from) {
  int bytes = from->k_group * dtype_info[from->dtype].bits / 8;
  int groups = t->l.machine.target->global_access / bytes;
  int most = tiles_turn_width(t);
  return groups < 1 ? 1 : groups < most ? groups : most;
}

static bool pack_along_k(Tiles *t, Packing *x) {
  SymCtx *sym = t->l.sym;
  int block = rows_of_block(t, x->from), whole = x->rows / block * block;
  bool ok = true;
  if (whole) {
    NestLoop loop = loop_open(t, NULL, sym_int(sym, whole), 0, block, NULL, 0);
    ok = pack_row_block(t, x, block, loop.counter);
    loop_close(t, &loop, NULL);
  }
  for (int r = whole; ok && r < x->rows; r++) ok = pack_row_block(t, x, 1, sym_int(sym, r));
  return ok;
}

/* ---- rows that are contiguous ---- */

/* All rows of the panel at one k: contiguous, or in runs. */
static Value *read_row(Tiles *t, const Packing *x, const Point *k) {
  Value *runs[MOST_ROWS];
  int n = x->in_runs ? x->in_runs : x->rows;
  while (x->rows % n) n /= 2;
  WV_ASSERT(x->rows / n <= MOST_ROWS);
  for (int i = 0; i < x->rows / n; i++) {
    const Sym *row = sym_add(t->l.sym, x->first, sym_int(t->l.sym, (int64_t)i * n));
    Point p = pack_point(*k, x->from->row, tiles_sum(t, x->from->row_start, row));
    p.along = n > 1 ? p.n - 1 : -1;
    p.width = n;
    if (!(runs[i] = pack_source_at(t, x->from, &p))) return NULL;
  }
  return emit_join(&t->l, runs, x->rows / n);
}

/* Vecs of the panel's rows, for n elements of k from k on; zeros past the last one. */
static bool read_rows(Tiles *t, const Packing *x, const Sym *k, int n, Value **out) {
  const PackSource *from = x->from;
  for (int i = 0; i < n; i++) {
    const Sym *at = sym_add(t->l.sym, k, sym_int(t->l.sym, i));
    Point p = pack_point(from->others, from->k, tiles_sum(t, from->k_start, at));
    if (!(out[i] = read_row(t, x, &p))) return false;
  }
  return true;
}

static Value *zeros(Tiles *t, DType dtype, int n) {
  return emit_splat(&t->l, emit_number(&t->l, dtype, 0), n);
}

/* One group of each row, interleaved; `n` of its elements exist. */
static bool pack_interleaved(Tiles *t, const Packing *x, const Sym *k, int n) {
  Value *v[TURN_LEAST];
  int k_group = x->from->k_group, *regs = ARENA_ARRAY(t->l.arena, int, x->rows *k_group);
  if (!read_rows(t, x, k, n, v)) return false;
  for (int i = n; i < k_group; i++) v[i] = zeros(t, x->from->dtype, x->rows);
  for (int r = 0; r < x->rows; r++)
    for (int i = 0; i < k_group; i++) regs[r * k_group + i] = i * x->rows + r;
  Value *all = emit_pick(&t->l, emit_join(&t->l, v, k_group), regs, x->rows * k_group);
  store_all(t, x, offset_of(t, x, k, sym_int(t->l.sym, 0)), 0, &all, 1);
  return true;
}

/* A part of a long group, n elements of k from `in` on: transposed in squares of rows. */
static bool pack_part(Tiles *t, const Packing *x, const Sym *k, const Sym *in, int n) {
  SymCtx *sym = t->l.sym;
  Value *v[TURN_LEAST], *square[TURN_LEAST];
  int k_group = x->from->k_group, block = n == TURN_LEAST ? n : 1;
  if (!read_rows(t, x, tiles_sum(t, k, in), n, v)) return false;
  const Sym *at = tiles_sum(t, offset_of(t, x, k, sym_int(sym, 0)), in);
  int r = 0;
  for (; block > 1 && r + block <= x->rows; r += block) {
    for (int i = 0; i < block; i++) square[i] = emit_range(&t->l, v[i], r, block);
    pack_transpose(t, square, block, 1);
    store_all(t, x, tiles_sum(t, at, sym_int(sym, (int64_t)r * k_group)), k_group, square, block);
  }
  for (; r < x->rows; r++)
    for (int i = 0; i < n; i++) {
      Value *one = emit_pick(&t->l, v[i], &r, 1);
      store_all(t, x, tiles_sum(t, at, sym_int(sym, (int64_t)r * k_group + i)), 0, &one, 1);
    }
  return true;
}

static bool pack_parts(Tiles *t, const Packing *x, const Sym *k, int n) {
  SymCtx *sym = t->l.sym;
  int whole = n / TURN_LEAST * TURN_LEAST;
  bool ok = true;
  if (whole) {
    NestLoop loop = loop_open(t, NULL, sym_int(sym, whole), 0, TURN_LEAST, NULL, 0);
    ok = pack_part(t, x, k, loop.counter, TURN_LEAST);
    loop_close(t, &loop, NULL);
  }
  return ok && (whole == n || pack_part(t, x, k, sym_int(sym, whole), n - whole));
}

static bool pack_k_group(Tiles *t, const Packing *x, const Sym *k, int n) {
  return x->from->k_group > TURN_LEAST ? pack_parts(t, x, k, n) : pack_interleaved(t, x, k, n);
}

/* Whole groups without tests along k; then with tests to the end of the step. */
static bool pack_needed_groups(Tiles *t, const Packing *x) {
  const PackSource *from = x->from;
  const Sym *depth = pack_depth(t, from), *whole = whole_of(t, depth, from->k_group, false);
  const Sym *bounds[] = {NULL, whole, whole_of(t, depth, from->step, true)};
  bool ok = true;
  for (int i = 0; ok && i < 2; i++) {
    if (bounds[i] == bounds[i + 1]) continue;
    NestLoop loop =
        loop_open(t, bounds[i], bounds[i + 1], pack_padded(from), from->k_group, NULL, 0);
    if (i == 0) nest_grant(t, from->k, from->k_end);
    ok = pack_k_group(t, x, loop.counter, from->k_group);
    loop_close(t, &loop, NULL);
  }
  return ok;
}

static bool pack_along_rows(Tiles *t, Packing *x) {
  SymCtx *sym = t->l.sym;
  if (ends_early(x->from)) return pack_needed_groups(t, x);
  int k_group = x->from->k_group, depth = x->from->depth, whole = depth / k_group * k_group;
  bool ok = true;
  if (whole) {
    NestLoop loop = loop_open(t, NULL, sym_int(sym, whole), 0, k_group, NULL, 0);
    ok = pack_k_group(t, x, loop.counter, k_group);
    loop_close(t, &loop, NULL);
  }
  return ok && (whole == depth || pack_k_group(t, x, sym_int(sym, whole), depth - whole));
}

/* ---- the end of k ---- */

/* Zeros from the last incomplete group to the end of the last step; its elements are stored
 * later. */
static void clear_end(Tiles *t, const Packing *x) {
  SymCtx *sym = t->l.sym;
  const PackSource *from = x->from;
  int whole = from->depth / from->k_group * from->k_group, left = pack_padded(from) - whole;
  if (pack_padded(from) == from->depth) return;
  Value *none = zeros(t, from->dtype, x->rows);
  NestLoop loop = loop_open(t, NULL, sym_int(sym, left), 0, 1, NULL, 0);
  const Sym *at = sym_mul(sym, loop.counter, sym_int(sym, x->rows));
  at = tiles_sum(t, offset_of(t, x, sym_int(sym, whole), sym_int(sym, 0)), at);
  store_all(t, x, at, 0, &none, 1);
  loop_close(t, &loop, NULL);
}

bool pack_k_groups(Tiles *t, Packing *x, bool along_rows) {
  clear_end(t, x);
  return along_rows ? pack_along_rows(t, x) : pack_along_k(t, x);
}
