/* tiles_kept_values.c: values that are the same in all workgroups.
 *
 * A thread runs workgroups one after the other (tiles_kept_panels.c). A value that costs more than
 * a load and is the same in all of them, such as f16 weights converted to f32, or the angles of a
 * position, is computed by the first and reused by the others:
 *
 *     if kept[0] != 1 + $WG1 {
 *       for $i0 step 16 with {trips = 4096} { store cast(load %weight), %buffer }
 *       kept[0] = 1 + $WG1
 *     } */
#include "lower_tiles/tiles.h"

enum { LEAST_COST = 3 }; /* minimum worth keeping: a load, and a conversion of two instructions */

static bool is_invariant(Tiles *t, const Value *v);

static bool are_operands_invariant(Tiles *t, const Op *op) {
  for (int i = 0; i < op->nargs; i++)
    if (!is_invariant(t, op->args[i])) return false;
  return true;
}

static bool is_op_invariant(Tiles *t, const Op *op) {
  const Attr *value = op_attr(op, ATTR_value), *expr = op_attr(op, ATTR_expr);
  if (op->kind == OP_read) return kept_is_read_invariant(t, op);
  if (value && value->sym && !kept_is_invariant(t, value->sym)) return false;
  if (expr && !kept_is_invariant(t, expr->sym)) return false;
  return !op->body && op_is_pure(op) && are_operands_invariant(t, op);
}

/* Everything it is computed from is recomputed where it is used, or is kept itself. */
static bool is_invariant(Tiles *t, const Value *v) {
  const Tile *tile = &t->tile[v->id];
  if (v->type->kind != TYPE_tile) return !v->def && v->owner == t->l.tiles;
  for (int i = 0; i < v->type->rank; i++)
    if (!kept_is_invariant(t, tile->start[i])) return false;
  if (tile->held == TILE_BUFFER) return t->plan.is_kept[v->id];
  return tile->held == TILE_INLINE && v->def && is_op_invariant(t, v->def);
}

/* It has a user other than inline values of the same shape, which would be kept instead. */
static bool is_wanted(const Tiles *t, const Value *v) {
  for (const Op *op = ir_first(t->l.k); op; op = ir_next(op)) {
    bool same = op->nresults == 1 && t->plan.is_inline[op->results[0].id] &&
                op->results[0].type->kind == TYPE_tile &&
                op->results[0].type->rank == v->type->rank;
    if (!same && op_takes(op, v)) return true;
  }
  return false;
}

bool kept_is_worthwhile(Tiles *t, const Value *v) {
  Kept kept;
  int64_t elements = tile_elements(v->type, &t->tile[v->id]);
  return t->plan.cost[v->id] >= LEAST_COST && is_wanted(t, v) &&
         kept_plan_once(t, v->type->dtype, elements, &kept) && is_invariant(t, v);
}

bool kept_compute(Tiles *t, const Value *v) {
  Tile *tile = &t->tile[v->id];
  const TileBuffer *b = buffer_new_kept(t, v->type, tile, tile_contiguous(t, v));
  Kept kept;
  kept_plan_once(t, v->type->dtype, tile_elements(v->type, tile), &kept);
  kept_open(t, &kept);
  bool ok = buffer_fill(t, v, v->type, tile, b);
  kept_close(t, &kept);
  tile->held = TILE_BUFFER;
  tile->buffer = b;
  t->plan.is_inline[v->id] = false;
  t->plan.is_kept[v->id] = true;
  return ok;
}
