/* eval_position.c: the position of a workgroup. Grid, workgroup ids, loop counters and the header's
 * rows give every dimension its position and extent at the op under evaluation (docs/language.md,
 * section 4.8):
 *
 *     position  sum of the workgroup rows and, inside a loop over it, of the tile rows
 *     extent    the tile of the last such row, 1 for a batch dimension, else the whole dimension
 *               (1 where set_symbol made a coordinate of a dimension of vector shape 1)
 *
 * K/32 belongs to K: position and extent are divided exactly, or the kernel is refused. Waves and
 * lanes do not appear: a workgroup is a whole. */
#include "backend/eval/eval.h"

/* No memory has this many elements: any larger distance makes no difference. */
static const int64_t POSITION_FAR = INT64_C(1) << 60;

#define ROW_FAIL(ev, row, ...) ((ev)->at = (row)->at, eval_fail((ev), DIAG_E0706, __VA_ARGS__))

/* ---- sizes of dimensions ---- */

Axis axis_of(const Sym *dim) {
  Axis a = {.dim = dim, .base = dim, .num = 1, .den = 1};
  const Sym *symbol;
  int64_t num, den;
  if (sym_scaled_symbol(dim, &symbol, &num, &den)) a.base = symbol, a.num = num, a.den = den;
  return a;
}

static bool scale_exactly(Eval *ev, const Axis *a, const char *what, int64_t v, int64_t *out) {
  if (v * a->num % a->den)
    return eval_fail(ev, DIAG_E0706, "the %s %lld of `%s` is not an integer in units of `%s`", what,
                     (long long)v, eval_text(ev, a->base), eval_text(ev, a->dim));
  *out = v * a->num / a->den;
  return true;
}

bool position_dim_size(Eval *ev, const Sym *dim, int64_t *out) {
  Axis a = axis_of(dim);
  int64_t n;
  return expr_extent(ev, a.base, &n) && scale_exactly(ev, &a, "size", n, out);
}

/* ---- rows ---- */

static const Sym *named(Eval *ev, const char *prefix, int i, bool nonneg) {
  return sym_symbol(ev->cx->sym, arena_printf(ev->home, "%s%d", prefix, i), nonneg);
}

static const Sym *with_ids(Eval *ev, const Sym *s, const Sym *const ids[EVAL_GRID]) {
  SymBinding to[2 * EVAL_GRID];
  for (int i = 0; i < EVAL_GRID; i++) {
    to[2 * i] = (SymBinding){named(ev, "$WG", i, true), ids[i]};
    to[2 * i + 1] = (SymBinding){named(ev, "$WG", i, false), ids[i]};
  }
  return sym_subst(ev->cx->sym, s, to, 2 * EVAL_GRID);
}

/* An aliased dimension without a size of its own gets the derived one. */
void position_aliases(Eval *ev) {
  EACH_ROW(ev->k, alias, c) {
    const Slot *s = &ev->slots.at[env_slot(ev, sym_name(c->alias.dim))];
    if (!s->has_value && !s->definition)
      env_define(ev, c->alias.dim, ir_alias_of(ev->cx, c, c->alias.of));
  }
}

static bool add_twins(Eval *ev, const Constraint *alias) {
  int own = ev->rows.n;
  for (int i = 0; i < own; i++) {
    DivisionRow twin = ev->rows.at[i];
    int64_t size;
    if (!ir_alias_row(ev->cx, alias, &twin)) continue;
    if (!expr_value(ev, twin.size, &size)) return false;
    if (size) vec_push(ev->home, &ev->rows, twin);
  }
  return true;
}

static bool build_rows(Eval *ev) {
  const Kernel *k = ev->k;
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *c = &k->constraints.at[i];
    if (c->kind == CONSTRAINT_workgroup || c->kind == CONSTRAINT_tile)
      vec_push(ev->home, &ev->rows, kernel_division_row(k, c));
    if (c->kind == CONSTRAINT_grid) ev->explicit_grid = true;
  }
  EACH_ROW(k, alias, c) {
    ev->at = c->at;
    if (!add_twins(ev, c)) return false;
  }
  return true;
}

static bool row_size(Eval *ev, const DivisionRow *r, int64_t *out) {
  if (!expr_value(ev, r->size, out)) return false;
  if (*out > 0) return true;
  return ROW_FAIL(ev, r, "the tile of `%s` is %lld", eval_text(ev, r->dim), (long long)*out);
}

/* The number of tiles into which a row divides its dimension, with the symbols in force now. */
static bool row_count(Eval *ev, const DivisionRow *r, int64_t *out) {
  int64_t extent, size;
  if (r->count) {
    if (!expr_value(ev, r->count, out)) return false;
  } else {
    if (!expr_extent(ev, r->dim, &extent)) return false;
    if (extent <= 0) return *out = 0, true; /* the tile may be 0 as well */
    if (!row_size(ev, r, &size)) return false;
    *out = ceil_div64(extent, size);
  }
  if (*out < 0) *out = 0;
  return true;
}

bool position_trips(Eval *ev, const Sym *axis, int64_t *out) {
  for (int i = 0; i < ev->rows.n; i++) {
    const DivisionRow *r = &ev->rows.at[i];
    if (r->kind == CONSTRAINT_tile && r->dim == axis) return row_count(ev, r, out);
  }
  return eval_fail(ev, DIAG_E0211, "`%s` has no tile", eval_text(ev, axis));
}

bool position_waves(Eval *ev, const Sym *base, int64_t *out) {
  const Constraint *wave = kernel_constraint(ev->k, CONSTRAINT_wave, base);
  *out = 1;
  for (int i = 0; wave && i < ev->rows.n; i++) {
    const DivisionRow *r = &ev->rows.at[i];
    int64_t tile, part;
    if (r->kind != CONSTRAINT_workgroup || r->dim != base) continue;
    if (!row_size(ev, r, &tile) || !expr_value(ev, wave->wave.size, &part)) return false;
    if (part > 0) *out = ceil_div64(tile, part);
  }
  return true;
}

/* ---- the grid ---- */

static bool grid_of_rows(Eval *ev) {
  for (int i = 0; i < EVAL_GRID; i++) ev->counts[i] = 1;
  for (int i = 0; i < ev->rows.n; i++) {
    const DivisionRow *r = &ev->rows.at[i];
    if (r->kind != CONSTRAINT_workgroup || r->secondary) continue;
    ev->at = r->at;
    if (!row_count(ev, r, &ev->counts[r->axis])) return false;
    if (r->axis > 2) ev->folded = true;
  }
  ev->grid[0] = ev->counts[0];
  ev->grid[1] = ev->counts[1];
  ev->grid[2] = ev->counts[2] * ev->counts[3] * ev->counts[4];
  return true;
}

/* A grid of tiles becomes a row of workgroups, each of which loops over tiles. */
static bool limit_grid(Eval *ev) {
  const Constraint *row = kernel_persistent(ev->k);
  if (!row) return true;
  ev->at = row->at;
  if (!expr_value(ev, row->persist.workgroups, &ev->limit)) return false;
  for (int i = 0; i < 3; i++) ev->tiles[i] = ev->grid[i];
  const Constraint *raster = kernel_constraint(ev->k, CONSTRAINT_raster, NULL);
  int64_t each = row->persist.cluster;
  if (raster && each > 1) {
    int64_t *along = &ev->tiles[raster->raster.axis];
    *along = ceil_div64(*along, each) * each;
  }
  int64_t all = ev->tiles[0] * ev->tiles[1] * ev->tiles[2];
  ev->grid[0] = all < ev->limit ? all : ev->limit;
  ev->grid[1] = ev->grid[2] = 1;
  ev->tile_loop = row->persist.loop;
  return true;
}

/* ---- ids ---- */

/* The id along each dimension; dimensions from 2 on share the last id, the last dimension
 * fastest. */
static void unfold(const Eval *ev, const int64_t ids[3], int64_t out[EVAL_GRID]) {
  for (int i = 0; i < EVAL_GRID; i++) out[i] = i < 3 ? ids[i] : 0;
  int64_t rest = ids[2];
  for (int i = EVAL_GRID - 1; ev->folded && i >= 2; i--) {
    out[i] = rest % ev->counts[i];
    rest /= ev->counts[i];
  }
}

/* The same of an id that is an expression. */
static void unfold_expr(Eval *ev, const Sym *ids[EVAL_GRID]) {
  SymCtx *sym = ev->cx->sym;
  const Sym *rest = ids[2];
  for (int i = EVAL_GRID - 1; ev->folded && i >= 2; i--) {
    const Sym *count = sym_int(sym, ev->counts[i] ? ev->counts[i] : 1); /* 0: nothing runs */
    ids[i] = sym_mod(sym, rest, count);
    rest = sym_floordiv(sym, rest, count);
  }
}

/* The ids that rows mention are those of positions: reordered, all at once, and unfolded. Ids inside the values of
 * bound symbols keep their meaning, so these have names of their own. They are expressions, because one that is a
 * fraction is multiplied by a tile before it is rounded. */
static void find_ids(Eval *ev) {
  SymCtx *sym = ev->cx->sym;
  const Sym *tile[EVAL_GRID];
  for (int i = 0; i < EVAL_GRID; i++)
    tile[i] = i < 3 ? named(ev, "$POSITION_WG", i, true) : sym_int(sym, 0);
  for (int i = 0; i < EVAL_GRID; i++) ev->ids[i] = tile[i];
  unfold_expr(ev, tile);
  tile[2] = ev->ids[2]; /* $WG2 is the folded one */
  EACH_ROW(ev->k, reorder, c) ev->ids[c->reorder.axis] = with_ids(ev, c->reorder.id, tile);
  unfold_expr(ev, ev->ids);
  for (int i = 0; i < ev->rows.n; i++) {
    DivisionRow *r = &ev->rows.at[i];
    if (r->start) r->start = with_ids(ev, r->start, ev->ids);
  }
}

bool position_setup(Eval *ev) {
  if (!build_rows(ev)) return false;
  for (int i = 0; i < 3; i++) env_set(ev, env_numbered_slot(ev, "$DD", i), 0);
  for (int i = 0; i < EVAL_GRID; i++) ev->wg_slot[i] = env_numbered_slot(ev, "$WG", i);
  for (int i = 0; i < 3; i++) ev->position_slot[i] = env_numbered_slot(ev, "$POSITION_WG", i);
  if (!grid_of_rows(ev)) return false;
  find_ids(ev);
  if (!limit_grid(ev)) return false;
  const Constraint *grid = kernel_constraint(ev->k, CONSTRAINT_grid, NULL);
  if (!grid) return true;
  ev->at = grid->at;
  ev->grid[1] = ev->grid[2] = 1;
  return expr_value(ev, grid->grid.workgroups, &ev->grid[0]);
}

/* Expressions see the ids of the launch: $WG2 is the folded one, $WG3 and $WG4 are not. */
static void set_ids(Eval *ev, const int64_t raw[3]) {
  int64_t own[EVAL_GRID];
  unfold(ev, raw, own);
  for (int i = 0; i < EVAL_GRID; i++) env_set(ev, ev->wg_slot[i], i < 3 ? raw[i] : own[i]);
}

/* Positions see the tile's. */
static void set_position(Eval *ev, const int64_t raw[3]) {
  for (int i = 0; i < 3; i++) env_set(ev, ev->position_slot[i], raw[i]);
}

void position_enter_group(Eval *ev, int64_t x, int64_t y, int64_t z) {
  const int64_t raw[3] = {x, y, z};
  set_ids(ev, raw);
  ev->first_tile = x;
  set_position(ev, raw);
}

/* Which tile a workgroup computes in its n-th turn: with `pairs`, two neighbours in turns. */
static int64_t tile_number(const Eval *ev, int64_t turn) {
  if (!kernel_persistent(ev->k)->persist.pairs) return ev->first_tile + turn * ev->limit;
  return 2 * (ev->first_tile + turn / 2 * ev->limit) + turn % 2;
}

/* The ids of a tile, by its number in the order of the `raster` row (distribute.c). Every second one of a pair is as far
 * from the end of the first dimension as the first is from its start. */
static void find_tile(const Eval *ev, int64_t tile, int64_t out[3]) {
  const Constraint *row = kernel_constraint(ev->k, CONSTRAINT_raster, NULL);
  for (int i = 0; !row && i < 3; i++) out[i] = tile % ev->tiles[i], tile /= ev->tiles[i];
  if (!row && kernel_persistent(ev->k)->persist.pairs)
    out[0] = out[0] % 2 ? ev->tiles[0] - 1 - out[0] / 2 : out[0] / 2;
  if (!row) return;
  int along = row->raster.axis;
  int64_t length = ev->tiles[along], across = ev->tiles[1 - along], rows = row->raster.rows;
  out[2] = tile / (length * across);
  tile %= length * across;
  int64_t first = tile / (rows * across) * rows, inside = tile % (rows * across);
  int64_t height = length - first < rows ? length - first : rows;
  out[along] = first + inside % height;
  out[1 - along] = inside / height;
}

void position_enter_tile(Eval *ev, int64_t turn) {
  int64_t raw[3];
  find_tile(ev, tile_number(ev, turn), raw);
  set_position(ev, raw);
}

/* ---- positions ---- */

static const Loop *loop_over(const Eval *ev, const Sym *axis) {
  const Loop *l = ev->loops;
  while (l && l->axis != axis) l = l->outer;
  return l;
}

/* The vector shape of a dimension; -1: none was given. */
static bool vector_shape(Eval *ev, const Sym *base, int64_t *out) {
  const HardwareSpec *hardware = kernel_hardware(ev->k);
  const Constraint *alias = kernel_constraint(ev->k, CONSTRAINT_alias, base);
  const Sym *of = alias ? alias->alias.of : base;
  *out = -1;
  for (int i = 0; hardware && i < hardware->vector.n; i++) {
    const SymPair *p = &hardware->vector.at[i];
    if (p->key != base && p->key != of) continue;
    const Sym *shape = p->key == base ? p->value : ir_alias_of(ev->cx, alias, p->value);
    if (!expr_value(ev, shape, out)) return false;
    if (p->key == base) break;
  }
  return true;
}

static int64_t within(int64_t v, int64_t most) { return v > most ? most : v < -most ? -most : v; }

static int64_t position_of(int64_t start, int64_t counter, int64_t size) {
  return within(within(start, POSITION_FAR) + within(counter, POSITION_FAR / size) * size,
                POSITION_FAR);
}

static const Sym *start_of_group(Eval *ev, const DivisionRow *r) {
  return r->start ? r->start : sym_mul(ev->cx->sym, ev->ids[r->axis], r->size);
}

/* What one row adds to the position of its dimension; *applies: it also sets the extent. */
static bool row_position(Eval *ev, const DivisionRow *r, bool *applies, int64_t *position,
                         int64_t *size) {
  const Loop *loop = r->kind == CONSTRAINT_tile ? loop_over(ev, r->loop) : NULL;
  *applies = r->kind == CONSTRAINT_workgroup || loop;
  *position = 0;
  if (!*applies) return true;
  if (!row_size(ev, r, size)) return false;
  int64_t first = 0;
  const Sym *start = r->start;
  if (!loop) start = ev->explicit_grid ? NULL : start_of_group(ev, r);
  if (start && !expr_value(ev, expr_kept(ev, start), &first)) return false;
  *position = loop ? position_of(first, loop->counter, *size) : first;
  return true;
}

/* Whether a dimension that no row divides has become a coordinate: its symbol was set, and its
 * vector shape is 1. */
static bool is_coordinate(Eval *ev, const Sym *base, int64_t shape) {
  return shape == 1 && sym_name(base) && ev->slots.at[env_slot(ev, sym_name(base))].was_set;
}

/* Whether the size of a dimension is unknown so far but some set_symbol gives it. Until then it has
 * no elements: a constant made there gets them where it is used. */
static bool is_set_later(Eval *ev, const Sym *base) {
  if (expr_is_known(ev, base)) return false;
  for (const Op *op = ir_first(ev->k); op; op = ir_next(op))
    if (op->kind == OP_set_symbol && op_attr(op, ATTR_symbol)->sym == base) return true;
  return false;
}

static bool position_base(Eval *ev, const Sym *base, Axis *out, int64_t *n) {
  bool cut = false, rides = !kernel_constraint(ev->k, CONSTRAINT_alias, base);
  out->lo = 0;
  for (int i = 0; i < ev->rows.n; i++) {
    const DivisionRow *r = &ev->rows.at[i];
    bool applies;
    int64_t position;
    if (r->dim != base) continue;
    if (!row_position(ev, r, &applies, &position, n)) return false;
    out->lo = position_of(out->lo, position, 1);
    cut |= applies;
    rides &= r->secondary && *n == 1; /* it follows the id of another dimension, which may go
                                       * further */
  }
  int64_t shape;
  if (!vector_shape(ev, base, &shape)) return false;
  out->batch = shape == 0;
  out->coordinate = cut ? rides : is_coordinate(ev, base, shape);
  if (out->batch || out->coordinate) return *n = 1, true;
  if (!cut && is_set_later(ev, base)) return *n = 0, true;
  if (!cut && !expr_extent(ev, base, n)) return false;
  if (*n < 0) *n = 0; /* a size that came from memory */
  return true;
}

/* A dimension of unknown size ends with its tile. */
bool position_end(Eval *ev, Axis *a) {
  int64_t size;
  a->end = INT64_MAX;
  if (a->coordinate || !expr_is_known(ev, a->base)) return true;
  if (!expr_extent(ev, a->base, &size)) return false;
  a->end = ceil_div64(size * a->num, a->den);
  return true;
}

bool position_axis(Eval *ev, const Sym *dim, Axis *out) {
  Axis a = axis_of(dim);
  int64_t n;
  if (!position_base(ev, a.base, &a, &n)) return false;
  if (!scale_exactly(ev, &a, "position", a.lo, &a.lo)) return false;
  a.n = n;
  if (!a.batch && !scale_exactly(ev, &a, "extent", n, &a.n)) return false;
  if (!position_end(ev, &a)) return false;
  *out = a;
  return true;
}

static bool fail_large(Eval *ev, const Type *t) {
  eval_fail(ev, DIAG_E0706, "a %s of a workgroup has more than 2^28 elements",
            type_text(ev->cx->diags.arena, ev->cx, t));
  eval_hint(ev, "make the tiles of its dimensions smaller");
  return false;
}

bool position_box(Eval *ev, const Type *t, Box *out) {
  int64_t all = 1;
  out->rank = t->rank;
  for (int i = 0; i < t->rank; i++) {
    if (!position_axis(ev, t->dims[i], &out->axis[i])) return false;
    int64_t n = out->axis[i].n;
    if (n > 0 && all > TILE_MOST / n) return fail_large(ev, t);
    all *= n;
  }
  return true;
}
