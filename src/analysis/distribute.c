/* distribute.c: positions from the rows of the header (distribute.h). */
#include "analysis/distribute.h"

#include <string.h>

#include "analysis/analysis.h"
#include "ir/attr.h"
#include "ir/ops/access.h"

#define DIAGS(d) (&(d)->k->cx->diags)

static SymCtx *sym_of(const Distribution *d) { return d->k->cx->sym; }

static const Sym *workgroup_id(const Distribution *d, int i, bool nonneg) {
  static const char *const names[WORKGROUP_DIMS] = {"$WG0", "$WG1", "$WG2", "$WG3", "$WG4"};
  return sym_symbol(sym_of(d), names[i], nonneg);
}

/* ---- symbols at an op ------------------------------------------------------------------------ */

typedef enum Meaning {
  MEAN_VALUE, /* the value of a symbol in expressions */
  MEAN_SIZE   /* its value in the size of a dimension: the axis of a while loop keeps its size even
               * though its value is a position */
} Meaning;

typedef Vec(SymBinding) Names;

static void add_name(const Distribution *d, Names *names, const Sym *from, const Sym *to) {
  for (int i = 0; i < names->n; i++)
    if (names->at[i].from == from) return; /* hidden by a later one */
  vec_push(d->arena, names, ((SymBinding){from, to}));
}

static bool is_while_axis(const Op *op, const Sym *symbol) {
  const Op *owner = op->parent->owner;
  while (owner && owner->kind == OP_if) owner = owner->parent->owner;
  return owner && owner->kind == OP_while && op_attr(owner, ATTR_axis)->sym == symbol;
}

/* The versions opened before the op in its region and in the enclosing ones, latest first. */
static Names versions_at(const Distribution *d, const Op *op, Meaning meaning) {
  Names names = {0};
  for (const Op *at = op; at; at = at->parent->owner) {
    for (const Op *before = at->prev; before; before = before->prev) {
      if (before->kind != OP_set_symbol) continue;
      const Sym *symbol = op_attr(before, ATTR_symbol)->sym;
      if (meaning == MEAN_SIZE && is_while_axis(before, symbol)) continue;
      add_name(d, &names, symbol, op_attr(before, ATTR_version)->sym);
    }
    const Op *owner = at->parent->owner;
    if (owner && owner->kind == OP_while && meaning == MEAN_VALUE)
      add_name(d, &names, op_attr(owner, ATTR_axis)->sym, op_attr(owner, ATTR_version)->sym);
  }
  return names;
}

/* A version hides the binding of its symbol; symbols in a binding are also resolved at the op. */
static const Sym *instantiate(const Distribution *d, const Op *op, const Sym *s, Meaning meaning) {
  if (!op || !d->has_versions) return sym_subst(sym_of(d), s, d->bound, d->nbound);
  ArenaMark mark = arena_mark(d->arena);
  Names names = versions_at(d, op, meaning);
  int versions = names.n;
  for (int i = 0; i < d->nbound; i++) {
    const Sym *to = sym_subst(sym_of(d), d->bound[i].to, names.at, versions);
    add_name(d, &names, d->bound[i].from, to);
  }
  const Sym *result = sym_subst(sym_of(d), s, names.at, names.n);
  arena_rewind(d->arena, mark);
  return result;
}

const Sym *distribute_fixed(const Distribution *d, const Sym *s) {
  return sym_subst(sym_of(d), s, d->bound, d->nfixed);
}

const Sym *distribute_expr(const Distribution *d, const Op *op, const Sym *s) {
  return instantiate(d, op, s, MEAN_VALUE);
}

static const Sym *size_of(const Distribution *d, const Op *op, const Sym *base) {
  return instantiate(d, op, base, MEAN_SIZE);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Ids that a row mentions itself are those of positions; ids inside the values of bound symbols
 * keep their meaning. */
static const Sym *position_expr(const Distribution *d, const Sym *s) {
  if (!s) return NULL;
  SymBinding to[2 * WORKGROUP_DIMS];
  for (int i = 0; i < WORKGROUP_DIMS; i++) {
    to[2 * i] = (SymBinding){workgroup_id(d, i, true), d->id[i]};
    to[2 * i + 1] = (SymBinding){workgroup_id(d, i, false), d->id[i]};
  }
  return sym_subst(sym_of(d), s, to, 2 * WORKGROUP_DIMS);
}

static void add_rows(Distribution *d, Arena *a) {
  for (int i = 0; i < d->k->constraints.n; i++) {
    const Constraint *c = &d->k->constraints.at[i];
    if (c->kind == CONSTRAINT_grid) d->explicit_grid = true;
    if (c->kind != CONSTRAINT_workgroup && c->kind != CONSTRAINT_tile) continue;
    vec_push(a, &d->rows, kernel_division_row(d->k, c));
  }
}

static void add_twins(Distribution *d, Arena *a, const Constraint *alias) {
  int own = d->rows.n;
  for (int i = 0; i < own; i++) {
    DivisionRow twin = d->rows.at[i];
    int64_t size;
    if (!ir_alias_row(d->k->cx, alias, &twin)) continue;
    const Sym *value = instantiate(d, NULL, twin.size, MEAN_VALUE);
    if (!value || !sym_is_int(value, &size) || size) vec_push(a, &d->rows, twin);
  }
}

/* Symbols that keep their value come first. */
static void add_bindings(Distribution *d, Arena *a) {
  SymBinding *all = ARENA_ARRAY(a, SymBinding, d->k->constraints.n);
  int n = kernel_bindings(d->k, all);
  SetSymbols given = set_symbols(d->k, a);
  d->has_versions = given.n > 0;
  d->bound = ARENA_ARRAY(a, SymBinding, d->k->constraints.n + 2 * WORKGROUP_DIMS);
  if (!sym_resolve_bindings(sym_of(d), all, n)) n = 0, sym_take_error(sym_of(d)); /* a cycle */
  for (int set = 0; set < 2; set++) {
    for (int i = 0; i < n; i++)
      if (symbol_is_set(&given, all[i].from) == set) d->bound[d->nbound++] = all[i];
    if (!set) d->nfixed = d->nbound;
  }
}

static const Sym *row_count(const Distribution *d, const Op *op, const DivisionRow *r) {
  SymCtx *sym = sym_of(d);
  const Sym *tiles =
      r->count ? instantiate(d, op, r->count, MEAN_VALUE)
               : sym_ceildiv(sym, size_of(d, op, r->dim), instantiate(d, op, r->size, MEAN_VALUE));
  tiles = access_kept(sym, tiles, d->far.at, d->far.n);
  return sym_simplify(sym, d->facts, sym_max(sym, tiles, sym_int(sym, 0)));
}

/* ---- the grid -------------------------------------------------------------------------------- */

static const Sym *product3(const Distribution *d, const Sym *a, const Sym *b, const Sym *c) {
  return sym_mul(sym_of(d), a, sym_mul(sym_of(d), b, c));
}

static const Sym *positive(const Distribution *d, const Sym *count) {
  int64_t n;
  return sym_is_int(count, &n) && n == 0 ? sym_int(sym_of(d), 1) : count; /* no workgroup exists */
}

/* A grid of tiles becomes a row of workgroups, at most as many as the row says. Workgroups of a
 * cluster compute neighbours, so there are as many tiles for each of them. */
static void limit_grid(Distribution *d, const Constraint *row) {
  SymCtx *sym = sym_of(d);
  const Constraint *raster = kernel_constraint(d->k, CONSTRAINT_raster, NULL);
  const Sym *most = instantiate(d, NULL, row->persist.workgroups, MEAN_VALUE);
  if (raster && row->persist.cluster > 1) {
    const Sym *each = sym_int(sym, row->persist.cluster), **along = &d->tiles[raster->raster.axis];
    *along = sym_mul(sym, each, sym_ceildiv(sym, *along, each));
  }
  d->grid[0] = sym_min(sym, product3(d, d->tiles[0], d->tiles[1], d->tiles[2]), most);
  d->grid[1] = d->grid[2] = sym_int(sym, 1);
}

static void find_grid(Distribution *d) {
  for (int i = 0; i < WORKGROUP_DIMS; i++) d->count[i] = sym_int(sym_of(d), 1);
  for (int i = 0; i < d->rows.n; i++) {
    const DivisionRow *r = &d->rows.at[i];
    if (r->kind == CONSTRAINT_workgroup && !r->secondary) d->count[r->axis] = row_count(d, NULL, r);
  }
  d->grid[0] = d->count[0];
  d->grid[1] = d->count[1];
  d->grid[2] = product3(d, d->count[2], d->count[3], d->count[4]);
  const Constraint *grid = kernel_constraint(d->k, CONSTRAINT_grid, NULL);
  for (int i = 0; i < 3; i++) d->tiles[i] = d->grid[i];
  if (kernel_persistent(d->k)) limit_grid(d, kernel_persistent(d->k));
  const MachineSpec *machine = kernel_machine(d->k);
  if (machine && machine->cluster > 1) d->grid[CLUSTER_AXIS] = sym_int(sym_of(d), machine->cluster);
  if (!grid) return;
  d->grid[0] = instantiate(d, NULL, grid->grid.workgroups, MEAN_VALUE);
  d->grid[1] = d->grid[2] = sym_int(sym_of(d), 1);
}

static bool is_folded(const Distribution *d) {
  for (int i = 0; i < d->rows.n; i++) {
    const DivisionRow *r = &d->rows.at[i];
    if (r->kind == CONSTRAINT_workgroup && !r->secondary && r->axis > 2) return true;
  }
  return false;
}

/* The ids of dimensions 2, 3, ... folded into one, the last dimension fastest. */
static void unfold(const Distribution *d, const Sym *folded, const Sym **out) {
  for (int i = WORKGROUP_DIMS - 1; i >= 2; i--) {
    const Sym *count = positive(d, d->count[i]);
    out[i - 2] = sym_mod(sym_of(d), folded, count);
    folded = sym_floordiv(sym_of(d), folded, count);
  }
}

/* The ids of a tile, by its number in the order of the kernel's `raster` row: groups of rows along
 * one dimension, of which the last may be smaller, and each row along the other. All divisors are numbers
 * or known at launch, as constants for divisions by them then are. */
static void find_raster_ids(const Distribution *d, const Constraint *raster, const Sym *tile,
                            const Sym *out[3]) {
  SymCtx *sym = sym_of(d);
  int along = raster->raster.axis;
  const Sym *one = sym_int(sym, 1), *rows = sym_int(sym, raster->raster.rows);
  const Sym *length = sym_max(sym, d->tiles[along], one); /* divisors are known to be positive */
  const Sym *across = sym_max(sym, d->tiles[1 - along], one), *group = sym_mul(sym, rows, across);
  const Sym *plane = sym_mul(sym, length, across), *zero = sym_int(sym, 0);
  out[2] = sym_floordiv(sym, tile, plane);
  if (d->tiles[2] == one) out[2] = zero;
  else tile = sym_mod(sym, tile, plane);
  const Sym *first = sym_mul(sym, rows, sym_floordiv(sym, tile, group));
  const Sym *inside = sym_mod(sym, tile, group);
  const Sym *row = sym_mod(sym, inside, rows), *column = sym_floordiv(sym, inside, rows);
  if (!sym_divides(sym, d->facts, raster->raster.rows, length)) {
    const Sym *is_whole = sym_le(sym, sym_add(sym, first, rows), length);
    const Sym *rest = sym_max(sym, sym_mod(sym, length, rows), one);
    row = sym_select(sym, is_whole, row, sym_mod(sym, inside, rest));
    column = sym_select(sym, is_whole, column, sym_floordiv(sym, inside, rest));
  }
  out[along] = sym_add(sym, first, row);
  out[1 - along] = column;
}

/* The place of a number along a dimension whose tiles are taken from both ends in turns. */
static const Sym *from_ends(SymCtx *sym, const Sym *number, const Sym *count) {
  const Sym *one = sym_int(sym, 1), *two = sym_int(sym, 2);
  const Sym *half = sym_floordiv(sym, number, two), *last = sym_sub(sym, count, one);
  const Sym *zero = sym_int(sym, 0), *is_even = sym_eq(sym, sym_mod(sym, number, two), zero);
  const Sym *other = sym_max(sym, sym_sub(sym, last, half), zero); /* known not to be negative */
  return sym_select(sym, is_even, half, other);
}

/* The number of the tile that a workgroup computes in iteration i of the loop over tiles: $WG0 + i * workgroups, or
 * that of one of two neighbours. */
static const Sym *tile_number(const Distribution *d, const Constraint *row) {
  SymCtx *sym = sym_of(d);
  const Sym *most = instantiate(d, NULL, row->persist.workgroups, MEAN_VALUE);
  const Sym *i = ir_loop_counter(d->k, row->persist.loop), *id = workgroup_id(d, 0, true);
  if (!row->persist.pairs) return sym_add(sym, id, sym_mul(sym, most, i));
  const Sym *two = sym_int(sym, 2);
  const Sym *pair = sym_add(sym, id, sym_mul(sym, most, sym_floordiv(sym, i, two)));
  const Sym *number = sym_add(sym, sym_mul(sym, two, pair), sym_mod(sym, i, two));
  return sym_max(sym, number, sym_int(sym, 0)); /* known not to be negative */
}

const Sym *distribute_tile_count(const Distribution *d, const Constraint *row, const Sym *tiles,
                                 const Sym *first) {
  SymCtx *sym = sym_of(d);
  const Sym *most = instantiate(d, NULL, row->persist.workgroups, MEAN_VALUE);
  if (!row->persist.pairs) return sym_ceildiv(sym, sym_sub(sym, tiles, first), most);
  const Sym *two = sym_int(sym, 2), *round = sym_mul(sym, two, most);
  const Sym *rest = sym_sub(sym, tiles, sym_mul(sym, two, first));
  const Sym *whole = sym_mul(sym, two, sym_floordiv(sym, rest, round));
  return sym_add(sym, whole, sym_min(sym, sym_mod(sym, rest, round), two));
}

/* Without a `raster` row, the first dimension of the grid is fastest. */
static void find_tile_ids(const Distribution *d, const Constraint *row, const Sym *out[3]) {
  SymCtx *sym = sym_of(d);
  const Constraint *raster = kernel_constraint(d->k, CONSTRAINT_raster, NULL);
  const Sym *tile = tile_number(d, row);
  if (raster) {
    find_raster_ids(d, raster, tile, out);
    return;
  }
  for (int i = 0; i < 3; i++) {
    const Sym *count = positive(d, d->tiles[i]);
    out[i] = sym_mod(sym, tile, count);
    tile = sym_floordiv(sym, tile, count);
    if (!i && row->persist.pairs) out[i] = from_ends(sym, out[i], count);
  }
}

void distribute_tile_ids(const Distribution *d, const Sym *out[WORKGROUP_DIMS]) {
  const Sym *apart[WORKGROUP_DIMS - 2];
  const Constraint *row = kernel_persistent(d->k);
  Distribution limited = *d;
  limit_grid(&limited, row);
  find_tile_ids(&limited, row, out);
  unfold(d, out[2], apart);
  for (int i = 3; i < WORKGROUP_DIMS; i++) out[i] = apart[i - 2];
}

/* Reordering replaces all ids at once; then $WG2 is split. */
static void find_ids(Distribution *d) {
  SymCtx *sym = sym_of(d);
  const Constraint *row = kernel_persistent(d->k);
  for (int i = 0; i < WORKGROUP_DIMS; i++)
    d->id[i] = i < 3 ? workgroup_id(d, i, true) : sym_int(sym, 0);
  if (row) find_tile_ids(d, row, d->id);
  SymBinding tile[3] = {{workgroup_id(d, 0, true), d->id[0]},
                        {workgroup_id(d, 1, true), d->id[1]},
                        {workgroup_id(d, 2, true), d->id[2]}};
  EACH_ROW(d->k, reorder, c) {
    const Sym *id = instantiate(d, NULL, c->reorder.id, MEAN_VALUE);
    d->id[c->reorder.axis] = sym_subst(sym, id, tile, 3);
  }
  if (is_folded(d)) unfold(d, d->id[2], &d->id[2]);
}

/* In expressions, $WG3 and $WG4 are the ids without reordering: like $WG0, they identify a
 * workgroup of the launch. */
static void bind_folded_ids(Distribution *d) {
  const Sym *zero = sym_int(sym_of(d), 0), *own[WORKGROUP_DIMS - 2] = {zero, zero, zero};
  SymBinding to[2 * (WORKGROUP_DIMS - 3)];
  int n = 0;
  if (is_folded(d)) unfold(d, workgroup_id(d, 2, true), own);
  for (int i = 3; i < WORKGROUP_DIMS; i++)
    for (int nonneg = 0; nonneg < 2; nonneg++)
      to[n++] = (SymBinding){workgroup_id(d, i, nonneg), own[i - 2]};
  for (int i = 0; i < d->nbound; i++) d->bound[i].to = sym_subst(sym_of(d), d->bound[i].to, to, n);
  memmove(d->bound + n, d->bound, (size_t)d->nbound * sizeof *d->bound);
  memcpy(d->bound, to, sizeof to);
  d->nfixed += n;
  d->nbound += n;
}

/* ---- waves and threads ----------------------------------------------------------------------- */

const Sym *distribute_waves(const Distribution *d, const Sym *dim) {
  SymCtx *sym = sym_of(d);
  const Constraint *wave = kernel_constraint(d->k, CONSTRAINT_wave, dim_base(dim));
  const Constraint *tile = wave ? kernel_wave_tile(d->k, dim_base(dim)) : NULL;
  if (!tile || !tile->divided.size) return sym_int(sym, 1);
  return sym_ceildiv(sym, instantiate(d, NULL, tile->divided.size, MEAN_VALUE),
                     instantiate(d, NULL, wave->wave.size, MEAN_VALUE));
}

const Sym *distribute_waves_apart(const Distribution *d, const Sym *dim) {
  const Constraint *tile = kernel_wave_tile(d->k, dim_base(dim));
  bool loop = tile && tile->kind == CONSTRAINT_tile;
  return loop ? sym_int(sym_of(d), 1) : distribute_waves(d, dim);
}

/* The row that divides a dimension, or the one it is an alias of, over waves; NULL: none. */
static const Constraint *wave_row(const Distribution *d, const Sym *dim, int *axis) {
  const Constraint *alias = kernel_constraint(d->k, CONSTRAINT_alias, dim);
  const Sym *divided = alias ? alias->alias.of : dim;
  const Constraint *group = kernel_constraint(d->k, CONSTRAINT_workgroup, divided);
  const Constraint *wave = kernel_constraint(d->k, CONSTRAINT_wave, divided);
  if (!group || !wave || group->workgroup.axis > 2) return NULL;
  *axis = group->workgroup.axis;
  return wave;
}

const Sym *distribute_wave_part(const Distribution *d, const Sym *dim) {
  const Constraint *alias = kernel_constraint(d->k, CONSTRAINT_alias, dim);
  int axis;
  const Constraint *wave = wave_row(d, dim, &axis);
  if (!wave) return NULL;
  const Sym *part = alias ? ir_alias_of(d->k->cx, alias, wave->wave.size) : wave->wave.size;
  return instantiate(d, NULL, part, MEAN_VALUE);
}

const Sym *distribute_wave_offset(const Distribution *d, const Sym *dim) {
  SymCtx *sym = sym_of(d);
  int axis;
  if (!wave_row(d, dim, &axis)) return sym_int(sym, 0);
  const HardwareSpec *hardware = kernel_hardware(d->k);
  const Sym *id = ir_numbered_symbol(d->k->cx, "$T", axis, true);
  if (axis == 0) id = sym_floordiv(sym, id, sym_int(sym, hardware ? hardware->threads : 1));
  return sym_mul(sym, id, distribute_wave_part(d, dim));
}

/* What the wave rows say about a workgroup dimension; NULL: nothing. */
static const Sym *waves_along(const Distribution *d, int axis) {
  const Sym *waves = NULL;
  EACH_ROW(d->k, wave, c)
    if (kernel_wave_axis(d->k, c->wave.dim) == axis) waves = distribute_waves(d, c->wave.dim);
  return waves;
}

/* The threads of a wave are along dimension 0; service waves extend dimension 1. */
static void find_threads(Distribution *d) {
  SymCtx *sym = sym_of(d);
  const HardwareSpec *hardware = kernel_hardware(d->k);
  for (int i = 0; i < 3; i++) {
    const Sym *given = hardware ? hardware->waves[i] : NULL, *derived = waves_along(d, i);
    d->waves[i] = given     ? instantiate(d, NULL, given, MEAN_VALUE)
                  : derived ? derived
                            : sym_int(sym, 1);
    d->threads[i] = d->waves[i];
  }
  if (!hardware) return;
  d->threads[0] = sym_mul(sym, d->waves[0], sym_int(sym, hardware->threads));
  d->threads[1] = sym_add(sym, d->waves[1], sym_int(sym, hardware->service_waves));
}

const Distribution *find_distribute(Kernel *k, const Facts *known) {
  Arena *a = known->arena;
  Distribution *d = ARENA_NEW(a, Distribution);
  *d = (Distribution){.k = k, .arena = a, .facts = known->header};
  add_bindings(d, a);
  d->far = far_symbols(k, a);
  add_rows(d, a);
  for (int i = 0; i < k->constraints.n; i++)
    if (k->constraints.at[i].kind == CONSTRAINT_alias) add_twins(d, a, &k->constraints.at[i]);
  find_grid(d);
  find_ids(d);
  bind_folded_ids(d);
  for (int i = 0; i < d->rows.n; i++) d->rows.at[i].start = position_expr(d, d->rows.at[i].start);
  find_threads(d);
  return d;
}

/* ---- positions ------------------------------------------------------------------------------- */

static const Op *loop_over(const Op *op, const Sym *axis) {
  for (const Op *at = op->parent->owner; at; at = at->parent->owner)
    if ((at->kind == OP_for || at->kind == OP_while) && op_attr(at, ATTR_axis)->sym == axis)
      return at;
  return NULL;
}

/* The iteration of a loop over `axis` that the op acts for; NULL: there is no such loop. */
static const Sym *counter_at(const Distribution *d, const Op *op, const Sym *axis) {
  const Attr *at = op_attr(op, ATTR_iteration);
  const Sym *given = at ? pairs_get((SymPairs){at->pairs, at->n}, axis) : NULL;
  if (given) return instantiate(d, op, given, MEAN_VALUE);
  return loop_over(op, axis) ? ir_loop_counter(d->k, axis) : NULL;
}

const Sym *distribute_trips_over(const Distribution *d, const Op *op, const Sym *axis) {
  for (int i = 0; i < d->rows.n; i++)
    if (d->rows.at[i].kind == CONSTRAINT_tile && d->rows.at[i].dim == axis)
      return row_count(d, op, &d->rows.at[i]);
  return NULL;
}

const Sym *distribute_trips(const Distribution *d, const Op *loop) {
  return distribute_trips_over(d, loop, op_attr(loop, ATTR_axis)->sym);
}

const Sym *distribute_runs(const Distribution *d, const Op *op) {
  const Attr *earlier = op_attr(op, ATTR_earlier);
  const Sym *times = op_iterations(d->k, op, distribute_trips(d, op));
  return earlier ? sym_add(d->k->cx->sym, earlier->sym, times) : times;
}

static const Sym *vector_shape(const Distribution *d, const Sym *base) {
  const HardwareSpec *hardware = kernel_hardware(d->k);
  const Constraint *alias = kernel_constraint(d->k, CONSTRAINT_alias, base);
  const Sym *shape = hardware ? pairs_get(hardware->vector, base) : NULL;
  if (!shape && hardware && alias) {
    const Sym *of = pairs_get(hardware->vector, alias->alias.of);
    shape = of ? ir_alias_of(d->k->cx, alias, of) : NULL;
  }
  return shape ? instantiate(d, NULL, shape, MEAN_VALUE) : NULL;
}

static bool has_vector_shape(const Distribution *d, const Sym *base, int64_t wanted) {
  const Sym *shape = vector_shape(d, base);
  int64_t v;
  return shape && sym_is_int(shape, &v) && v == wanted;
}

static bool is_batch(const Distribution *d, const Sym *base) {
  return has_vector_shape(d, base, 0);
}

/* Whether a dimension that no row divides has become a coordinate: its symbol was set before the
 * op, and its vector shape is 1. Gathers name such dimensions in their mappings. */
static bool is_coordinate(const Distribution *d, const Op *op, const Sym *base) {
  return op && size_of(d, op, base) != size_of(d, NULL, base) && has_vector_shape(d, base, 1);
}

static const Sym *whole_part(SymCtx *sym, const Sym *s) {
  return !s || sym_is_integer(s) ? s : sym_floor(sym, s);
}

/* What one row adds to the position of its dimension; NULL: it does not apply here. */
static const Sym *row_start(const Distribution *d, const Op *op, const DivisionRow *r,
                            const Sym *size) {
  SymCtx *sym = sym_of(d);
  const Sym *start = r->start ? instantiate(d, op, r->start, MEAN_VALUE) : NULL;
  if (r->kind == CONSTRAINT_workgroup) {
    if (d->explicit_grid) return sym_int(sym, 0);
    return whole_part(sym, start ? start : sym_mul(sym, d->id[r->axis], size));
  }
  const Sym *counter = counter_at(d, op, r->loop);
  if (!counter) return NULL;
  const Sym *moved = sym_mul(sym, counter, size);
  return start ? sym_add(sym, whole_part(sym, start), moved) : moved;
}

static bool fail_fraction(const Distribution *d, const Op *op, const Sym *dim, const char *what,
                          const Sym *value) {
  Arena *a = DIAGS(d)->arena;
  Diag *r = diag_add(DIAGS(d), DIAG_E0605, op->at,
                     "the %s `%s` of `%s` is not known to be a multiple of the divisor in `%s`",
                     what, sym_text(a, value), sym_text(a, dim_base(dim)), sym_text(a, dim));
  return diag_hint(DIAGS(d), r, "choose tiles that are multiples, or state it with `assume`");
}

/* Converts `value` of the base dimension to units of dim. `what` must divide exactly; NULL: a size,
 * which is checked when the arguments are known. */
static bool scale(const Distribution *d, const Op *op, const Sym *dim, const char *what,
                  const Sym *value, const Sym **out) {
  SymCtx *sym = sym_of(d);
  const Sym *symbol;
  int64_t num = 1, den = 1;
  if (!sym_scaled_symbol(dim, &symbol, &num, &den)) num = den = 1;
  *out = sym_mul(sym, value, sym_rational(sym, num, den));
  if (!*out || sym_is_integer(*out)) return true;
  if (what && !sym_divides(sym, d->facts, den, value))
    return fail_fraction(d, op, dim, what, value);
  *out = sym_floor(sym, *out);
  return true;
}

static bool fail_overflow(const Distribution *d, const Op *op) {
  return diag_fail(DIAGS(d), DIAG_E0105, op->at, "%s", sym_take_error(sym_of(d)));
}

/* Start and extent of a whole dimension; extent NULL: nothing divides it here. */
static void base_range(const Distribution *d, const Op *op, const Sym *base, const Sym **start,
                       const Sym **extent) {
  SymCtx *sym = sym_of(d);
  *start = sym_int(sym, 0);
  *extent = NULL;
  for (int i = 0; i < d->rows.n; i++) {
    const DivisionRow *r = &d->rows.at[i];
    if (r->dim != base) continue;
    const Sym *size = instantiate(d, op, r->size, MEAN_VALUE);
    const Sym *at = row_start(d, op, r, size);
    if (!at) continue;
    *start = sym_add(sym, *start, at);
    *extent = size;
  }
}

/* Whether a dimension follows another's workgroup id, one coordinate at a time. The id may exceed
 * its size; a mapping brings it back in range (heads that share keys). */
static bool rides(const Distribution *d, const Sym *base) {
  bool found = false;
  for (int i = 0; i < d->rows.n; i++) {
    const DivisionRow *r = &d->rows.at[i];
    if (r->dim != base) continue;
    const Sym *size = instantiate(d, NULL, r->size, MEAN_VALUE);
    int64_t n;
    if (!r->secondary || !size || !sym_is_int(size, &n) || n != 1) return false;
    found = true;
  }
  return found && !kernel_constraint(d->k, CONSTRAINT_alias, base);
}

/* Clamps a position that may be any number: past the end is past the end, however far. */
static const Sym *nearest(const Distribution *d, const Sym *start, const Sym *extent,
                          const Sym *whole) {
  SymCtx *sym = sym_of(d);
  const Sym *near = access_kept(sym, start, d->far.at, d->far.n);
  if (near == start || !near || !extent) return start;
  return sym_max(sym, sym_min(sym, near, whole), sym_neg(sym, extent));
}

/* The tile of a dimension that no row divides. A tile has at least one element, even if it is only
 * padding. */
static const Sym *uncut(const Distribution *d, const Sym *whole) {
  int64_t n;
  return whole && sym_is_int(whole, &n) && n == 0 ? sym_int(sym_of(d), 1) : whole;
}

bool distribute_dim(const Distribution *d, const Op *op, const Sym *dim, TileRange *out) {
  const Sym *base = dim_base(dim), *start, *extent, *whole = size_of(d, op, base);
  base_range(d, op, base, &start, &extent);
  if (!extent && is_coordinate(d, op, base)) whole = sym_int(sym_of(d), 1);
  start = nearest(d, start, extent, whole);
  if (rides(d, base)) whole = sym_add(sym_of(d), start, extent);
  *out = (TileRange){.batch = is_batch(d, base)};
  bool ok = scale(d, op, dim, "position", start, &out->start) &&
            scale(d, op, dim, NULL, whole, &out->size);
  if (ok && out->batch) out->extent = sym_int(sym_of(d), 1);
  else if (ok)
    ok = scale(d, op, dim, extent ? "tile" : NULL, extent ? extent : whole, &out->extent);
  if (ok && !extent) out->extent = uncut(d, out->extent);
  if (ok && out->start && out->size && out->extent) return true;
  return ok && fail_overflow(d, op);
}

const Sym *distribute_reach(const Distribution *d, const Op *op, const Sym *dim) {
  const Sym *base = dim_base(dim), *start, *extent;
  if (is_batch(d, base)) return sym_int(sym_of(d), 1);
  base_range(d, op, base, &start, &extent);
  if (extent) return extent;
  return is_coordinate(d, op, base) ? sym_int(sym_of(d), 1) : uncut(d, size_of(d, op, base));
}

bool distribute_is_one(const Distribution *d, const Op *op, const Sym *dim) {
  const Sym *base = dim_base(dim), *start, *extent;
  if (is_batch(d, base)) return true;
  base_range(d, op, base, &start, &extent);
  if (!extent && is_coordinate(d, op, base)) return true;
  int64_t n;
  if (!extent) extent = size_of(d, op, base);
  return dim == base && extent && sym_is_int(extent, &n) && n == 1;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool fail_symbolic(const Distribution *d, const Op *op, const Sym *dim, const Sym *extent) {
  Arena *a = DIAGS(d)->arena;
  const Sym *symbol = NULL;
  sym_free_symbols(extent, &symbol, 1);
  if (symbol && strchr(sym_name(symbol), '.')) { /* a version */
    Diag *r = diag_add(DIAGS(d), DIAG_E0606, op->at,
                       "the tile of `%s` has a size that `set_symbol` sets, not a number",
                       sym_text(a, dim));
    return diag_hint(DIAGS(d), r, "divide `%s` with a workgroup or tiling constraint",
                     sym_text(a, dim_base(dim)));
  }
  Diag *r = diag_add(DIAGS(d), DIAG_E0606, op->at, "the tile of `%s` is `%s`, not a number",
                     sym_text(a, dim), sym_text(a, extent));
  if (symbol && sym_text(a, symbol) && symbol == dim_base(dim))
    diag_hint(DIAGS(d), r, "bind `%s`, or divide it with a workgroup or tiling constraint",
              sym_name(symbol));
  else if (symbol) diag_hint(DIAGS(d), r, "`%s` needs a value at compile time", sym_name(symbol));
  return false;
}

static bool fail_large(const Distribution *d, const Op *op, const Type *t) {
  Arena *a = DIAGS(d)->arena;
  Diag *r = diag_add(DIAGS(d), DIAG_E0606, op->at,
                     "a %s of a workgroup has more than 2^30 elements", type_text(a, d->k->cx, t));
  return diag_hint(DIAGS(d), r, "make the tiles of its dimensions smaller");
}

enum { MOST = 1 << 20, MOST_IN_ALL = 1 << 30 }; /* elements of a tile: along a dimension, at all */

static bool fail_extent(const Distribution *d, const Op *op, const Sym *dim, int64_t n) {
  const char *name = sym_text(DIAGS(d)->arena, dim);
  Diag *r = diag_add(DIAGS(d), DIAG_E0606, op->at, "the tile of `%s` has %lld elements%s", name,
                     (long long)n, n > MOST ? ", at most 1048576 are possible" : "");
  if (n > MOST)
    diag_hint(DIAGS(d), r, "divide `%s` with a tiling constraint, and loop over it", name);
  return false;
}

bool distribute_extents(const Distribution *d, const Op *op, const Type *t, int *extent) {
  int64_t all = 1;
  for (int i = 0; i < t->rank; i++) {
    TileRange range;
    int64_t n;
    if (!distribute_dim(d, op, t->dims[i], &range)) return false;
    if (!sym_is_int(range.extent, &n)) return fail_symbolic(d, op, t->dims[i], range.extent);
    if (n < 1 || n > MOST) return fail_extent(d, op, t->dims[i], n);
    extent[i] = (int)n;
    all *= n;
    if (all > MOST_IN_ALL) return fail_large(d, op, t);
  }
  return true;
}

bool distribute_value(const Distribution *d, const Value *v, int *extent) {
  const Op *at = v->def ? v->def : v->owner->first;
  return !at || distribute_extents(d, at, v->type, extent);
}

static bool option_is(const Distribution *d, ConstraintKind kind, int64_t value) {
  const Constraint *row = kernel_constraint(d->k, kind, NULL);
  int64_t n;
  return row && sym_is_int(distribute_expr(d, NULL, row->option.allowed), &n) && n == value;
}

bool distribute_is_off(const Distribution *d, ConstraintKind kind) { return option_is(d, kind, 0); }
bool distribute_is_on(const Distribution *d, ConstraintKind kind) { return option_is(d, kind, 1); }
