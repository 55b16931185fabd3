/* tiles_kept_panels.c: panels that outlive their workgroup.
 *
 * A thread runs workgroups one after the other, along the first dim of the grid, in the same
 * scratch memory. An operand that does not depend on that dim, such as B of a matmul or the keys of
 * attention, is packed by the first of them and reused by the others:
 *
 *     for K {
 *       if kept[0] != 1 + $WG1 or K >= kept[1] {     whose panels these are; how many tiles of K
 *         pack tile K into its slot
 *         kept[0] = 1 + $WG1; kept[1] = K + 1
 *       }
 *
 * Loops count from 0, so the tiles before the last one packed are present too. If there are more
 * tiles than slots, all remaining ones share the last slot and are packed every time.
 *
 * An operand that does depend on that dim, but not on the second one, such as A, would be packed
 * again for every column of workgroups. If the grid is divided into bands, with all columns of one
 * band before the next band, A is packed once, and B once per band:
 *
 *     band 2:   0 2 4 | 6 8 10        the order of a grid of 4 x 3 workgroups; A of workgroups 0
 *               1 3 5 | 7 9 11        and 1 is reused by 2 to 5
 *
 * Each slot of such an operand has a cell that says what it holds, so that the order of workgroups
 * affects only how often something is packed. A launch computes the band: as many workgroups as
 * there are slots for, so that each thread has one at least; or none, if packing B for each of them
 * would cost more. $WGBANDS is 1 if the workgroups are run in bands. */
#include "ir/dtype.h"
#include "lower_tiles/tiles_region.h"

enum {
  KEPT_SHARE = 3,
  KEPT_OF = 8,    /* fraction of scratch memory for the slots of one operand */
  MOST_CELLS = 64 /* slots of an operand in bands */
};

/* ---- what is the same in consecutive workgroups ---- */

/* The dim of the grid along which consecutive workgroups differ; -1: there is only one
 * workgroup. */
static int fastest_dim(const Tiles *t) {
  for (int i = 0; i < 3; i++)
    if (t->l.d->grid[i] != sym_int(t->l.sym, 1)) return i;
  return -1;
}

bool kept_differs(const Tiles *t, const Sym *e) {
  int fastest = fastest_dim(t);
  return fastest >= 0 && sym_contains(e, ir_numbered_symbol(t->l.k->cx, "$WG", fastest, true));
}

/* The same for all consecutive workgroups along the fastest dim; never 0. */
static const Sym *key_of(Tiles *t, int fastest) {
  SymCtx *sym = t->l.sym;
  const Sym *key = sym_int(sym, 0);
  for (int i = 2; i >= 0; i--) {
    if (i == fastest) continue;
    key = sym_mul(sym, key, t->l.d->grid[i]);
    key = sym_add(sym, key, ir_numbered_symbol(t->l.k->cx, "$WG", i, true));
  }
  key = sym_simplify(sym, emit_facts(&t->l), sym_add(sym, key, sym_int(sym, 1)));
  return emit_sound(&t->l, key);
}

typedef struct Invariance {
  Tiles *t;
  const Sym *counter; /* of the loop in which it is packed; NULL: none */
  const Sym *group;   /* $WGi along the fastest dim */
} Invariance;

static bool is_invariant(const Invariance *s, const Sym *e) {
  if (!e) return true;
  for (int i = 0; i < s->t->l.symbols.n; i++) {
    const Sym *symbol = s->t->l.symbols.at[i].symbol;
    if (symbol != s->counter && sym_contains(e, symbol)) return false;
  }
  return !sym_contains(e, s->group);
}

/* Whether the read's addresses, and which of its elements exist, are steady. */
static bool is_read_invariant(const Invariance *s, const Op *read) {
  const AccessBounds *b = s->t->l.bounds[read->id];
  const Attr *mask = op_attr(read, ATTR_mask);
  bool ok = !b->access.ndynamic && b->access.replaced < 0 && !memory_is_scratch(b->access.memory);
  for (int i = 0; ok && i < b->access.memory->type->rank; i++)
    ok = is_invariant(s, b->coords[i]) && is_invariant(s, b->sizes[i]);
  for (int i = 0; ok && i < mask->n; i++) ok = is_invariant(s, mask->exprs[i]);
  return ok;
}

static bool is_source_invariant(const Invariance *s, const PackSource *from) {
  const Op *read = pack_plain_read(s->t, from->of);
  bool ok = read && s->t->plan.is_inline[read->results[0].id] && is_read_invariant(s, read) &&
            is_invariant(s, from->row_start) && is_invariant(s, from->k_start) &&
            is_invariant(s, from->end) && is_invariant(s, from->k_end);
  for (int i = 0; ok && i < from->others.n; i++) ok = is_invariant(s, from->others.at[i]);
  return ok;
}

static const Sym *group_id(const Tiles *t, int dim) {
  return ir_numbered_symbol(t->l.k->cx, "$WG", dim, true);
}

static Invariance invariance_here(Tiles *t, const Sym *counter, int dim) {
  return (Invariance){t, counter, group_id(t, dim)};
}

bool kept_is_invariant(Tiles *t, const Sym *e) {
  Invariance s = invariance_here(t, NULL, fastest_dim(t));
  return is_invariant(&s, e);
}

bool kept_is_read_invariant(Tiles *t, const Op *read) {
  Invariance s = invariance_here(t, NULL, fastest_dim(t));
  return is_read_invariant(&s, read);
}

/* ---- slots ---- */

static int64_t room_of(const Tiles *t) {
  return (int64_t)t->l.cx->target->shared_most * KEPT_SHARE / KEPT_OF;
}

/* One slot per tile of the loop, as many as there is room for. False: not worthwhile. */
static bool choose_slots(const Tiles *t, const PackSource *from, const Op *loop, Kept *out) {
  int64_t bytes = (int64_t)dtype_bytes(from->dtype, pack_elements(from)), trips = 1;
  int64_t room = room_of(t) / bytes;
  bool known = !loop || sym_is_int(op_attr(loop, ATTR_trips)->sym, &trips);
  out->all = known && trips <= room;
  out->slots = (int)(out->all ? trips : room);
  return out->all ? trips > 0 : room > 1;
}

/* ---- bands ---- */

/* Whether a launch knows e. */
static bool is_of_launch(const Tiles *t, const Sym *e) {
  FreeSymbols symbols = sym_symbols(t->l.arena, e);
  for (int i = 0; i < symbols.n; i++)
    if (symbol_is_set(&t->l.hidden, symbols.at[i])) return false;
  return ir_is_of_launch(t->l.k, e);
}

/* The rows of B in all columns of workgroups, of which the last may have fewer. */
static const Sym *rows_of_columns(Tiles *t, const PackSource *from) {
  SymCtx *sym = t->l.sym;
  const Sym *all = sym_mul(sym, t->l.d->grid[1], sym_int(sym, from->beside));
  EACH_ROW(t->l.k, workgroup, c) {
    const Sym *size = c->workgroup.axis == 1 ? distribute_fixed(t->l.d, c->workgroup.dim) : NULL;
    if (all && size && is_of_launch(t, size)) all = sym_min(sym, all, size);
  }
  return all;
}

/* How many bands are worthwhile. A, of `rows` rows, saves all but one of its `columns` packings; B
 * is packed for each band. Counted in rows that a workgroup packs, times the number of workgroups. */
static const Sym *most_bands(Tiles *t, const PackSource *from) {
  SymCtx *sym = t->l.sym;
  const Sym *const *grid = t->l.d->grid, *one = sym_int(sym, 1);
  const Sym *saved =
      sym_mul(sym, sym_mul(sym, grid[0], sym_sub(sym, grid[1], one)), sym_int(sym, from->extent));
  const Sym *more = sym_floordiv(sym, saved, sym_max(sym, rows_of_columns(t, from), one));
  return emit_sound(&t->l, sym_add(sym, more, one));
}

/* As many workgroups as have slots at the same time; 0: none. It is computed at a launch, where
 * facts about the loop do not hold. */
static const Sym *choose_band(Tiles *t, const Sym *trips, int slots) {
  SymCtx *sym = t->l.sym;
  const Sym *all = t->l.d->grid[0];
  const Sym *fit = sym_floordiv(sym, sym_int(sym, slots), trips);
  return emit_sound(&t->l, sym_min(sym, fit, all));
}

/* How many slots of the operand fit, and are of use. */
static int slots_in_bands(const Tiles *t, const PackSource *from, const Sym *trips) {
  int64_t bytes = (int64_t)dtype_bytes(from->dtype, pack_elements(from)), n = room_of(t) / bytes;
  int64_t all;
  if (sym_is_int(sym_mul(t->l.sym, t->l.d->grid[0], trips), &all) && all < n) n = all;
  return n < MOST_CELLS ? (int)n : MOST_CELLS;
}

/* Slots are a ring. Without bands one slot serves all tiles, and stays in the caches near the
 * core. */
static bool plan_band(Tiles *t, const PackSource *from, const Op *loop, Kept *out) {
  SymCtx *sym = t->l.sym;
  const Sym *const *grid = t->l.d->grid, *one = sym_int(sym, 1);
  const Sym *trips = sym_max(sym, loop ? op_attr(loop, ATTR_trips)->sym : one, one);
  out->slots = slots_in_bands(t, from, trips);
  if (out->slots < 2 || !is_of_launch(t, trips)) return false;
  const Sym *slots = sym_int(sym, out->slots);
  const Sym *in_bands = sym_ge(sym, sym_symbol(sym, IN_BANDS, true), one);
  const Sym *number = sym_add(sym, sym_mul(sym, group_id(t, 0), trips), out->tile);
  const Sym *slot = sym_select(sym, in_bands, sym_mod(sym, number, slots), sym_int(sym, 0));
  const Sym *plane = sym_mul(sym, sym_mul(sym, grid[0], trips), group_id(t, 2));
  out->slot = emit_sound(&t->l, sym_simplify(sym, emit_facts(&t->l), slot));
  out->key = emit_sound(&t->l, sym_add(sym, sym_add(sym, number, plane), one));
  out->base = sym_mul(sym, out->slot, sym_int(sym, pack_elements(from)));
  t->band = choose_band(t, trips, out->slots);
  t->bands = most_bands(t, from);
  return true;
}

/* Whether consecutive workgroups along the second dim can share an operand. One band serves one
 * operand. */
static bool has_columns(const Tiles *t) {
  return !t->band && fastest_dim(t) == 0 && t->l.d->grid[1] != sym_int(t->l.sym, 1);
}

/* ---- plans ---- */

bool kept_plan(Tiles *t, const PackSource *from, const LowerScope *home, Kept *out) {
  SymCtx *sym = t->l.sym;
  int fastest = fastest_dim(t);
  const Op *loop = home->region->owner;
  *out = (Kept){0};
  if (!t->keeps || fastest < 0) return false;
  if (loop && (loop->kind != OP_for || op_has(loop, ATTR_from) || op_has(loop, ATTR_step)))
    return false;
  Invariance s = invariance_here(t, NULL, fastest);
  if (loop) s.counter = ir_loop_counter(t->l.k, op_attr(loop, ATTR_axis)->sym);
  out->tile = loop ? s.counter : sym_int(sym, 0);
  if (!is_source_invariant(&s, from)) {
    s.group = group_id(t, 1);
    return has_columns(t) && is_source_invariant(&s, from) && plan_band(t, from, loop, out);
  }
  if (!choose_slots(t, from, loop, out)) return false;
  out->key = key_of(t, fastest);
  const Sym *slot = out->tile;
  if (!out->all) slot = sym_min(sym, slot, sym_int(sym, out->slots - 1));
  out->base = sym_mul(sym, slot, sym_int(sym, pack_elements(from)));
  return true;
}

bool kept_plan_once(Tiles *t, DType dtype, int64_t elements, Kept *out) {
  int fastest = fastest_dim(t);
  const Sym *zero = sym_int(t->l.sym, 0);
  if (!t->keeps || fastest < 0 || (int64_t)dtype_bytes(dtype, elements) > room_of(t)) return false;
  *out = (Kept){.key = key_of(t, fastest), .tile = zero, .base = zero, .slots = 1, .all = true};
  return true;
}

/* ---- emission ---- */

static Value *cell(Tiles *t, const Kept *k, const Sym *number, const Sym *store) {
  Lower *l = &t->l;
  Value *v = store ? emit_expr(l, store, DTYPE_i64) : NULL, *at = emit_expr(l, number, DTYPE_index);
  Value *to[] = {v, k->cells, at}, *from[] = {k->cells, at};
  if (store) return emit_op(l, OP_store, to, 3, NULL, 0, NULL);
  return emit_op(l, OP_load, from, 2, NULL, 0, type_scalar(l->k->cx, DTYPE_i64));
}

/* Whether the slot, or all slots, hold something else, or nothing yet. */
static Value *is_needed(Tiles *t, const Kept *k) {
  Lower *l = &t->l;
  const Sym *zero = sym_int(l->sym, 0), *one = sym_int(l->sym, 1), *done = emit_arg(l, 1);
  const Sym *test = sym_ne(l->sym, emit_arg(l, 0), k->key);
  Value *args[] = {cell(t, k, k->slot ? k->slot : zero, NULL), NULL};
  if (k->slot) return emit_expr_of(l, test, DTYPE_i1, args, 1);
  args[1] = cell(t, k, one, NULL);
  if (!k->all) done = sym_min(l->sym, done, sym_int(l->sym, k->slots - 1));
  test = sym_or(l->sym, test, sym_ge(l->sym, k->tile, done));
  return emit_expr_of(l, test, DTYPE_i1, args, 2);
}

/* The code that follows runs only if it has not run before for these workgroups and this tile. */
void kept_open(Tiles *t, Kept *k) {
  Lower *l = &t->l;
  k->cells = scratch_new(t, DTYPE_i64, k->slot ? k->slots : 2, true);
  op_set_attr(l->k, k->cells->def, (Attr){.key = ATTR_kept});
  Value *needed = is_needed(t, k);
  k->op = ir_op_new(l->k, OP_if, l->at, &needed, 1);
  tiles_insert(t, k->op);
  k->saved = tiles_open_scope(t, ir_region_new(l->k, k->op), emit_facts(l));
}

void kept_close(Tiles *t, Kept *k) {
  SymCtx *sym = t->l.sym;
  const Sym *one = sym_int(sym, 1);
  cell(t, k, k->slot ? k->slot : sym_int(sym, 0), k->key);
  if (!k->slot) cell(t, k, one, sym_add(sym, k->tile, one));
  emit_op(&t->l, OP_yield, NULL, 0, NULL, 0, NULL);
  tiles_close_scope(t, k->saved);
}
