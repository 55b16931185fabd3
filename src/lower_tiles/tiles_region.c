/* tiles_region.c: loops and conditionals, and the values they carry.
 *
 * Single elements are carried in registers. A carried tile has one buffer, which the body reads as
 * its argument; what the body yields is written there at its end, unless it was computed in place.
 * A buffer that is not needed afterwards is reused instead of copied. */
#include "lower_tiles/tiles_region.h"
#include "ir/attr.h"
#include "ir/region_facts.h"

/* ---- scopes ---- */

SavedScope tiles_open_scope(Tiles *t, Region *region, const SymFacts *facts) {
  Lower *l = &t->l;
  SavedScope saved = {l->scope, l->scope->open};
  LowerScope *s = ARENA_NEW(l->arena, LowerScope);
  *s = (LowerScope){.region = region, .facts = facts, .outer = l->scope};
  l->scope->open = region->owner;
  l->scope = s;
  return saved;
}

void tiles_close_scope(Tiles *t, SavedScope saved) {
  Lower *l = &t->l;
  while (l->symbols.n && l->symbols.at[l->symbols.n - 1].scope == l->scope) l->symbols.n--;
  int n = 0;
  for (int i = 0; i < t->panels.n; i++)
    if (t->panels.at[i]->scope != l->scope) t->panels.at[n++] = t->panels.at[i];
  t->panels.n = n;
  l->scope = saved.outer;
  l->scope->open = saved.open;
}

void tiles_define(Tiles *t, const Sym *symbol) {
  vec_push(t->l.arena, &t->l.symbols, ((LowerSymbol){symbol, t->l.scope}));
}

void tiles_insert(Tiles *t, Op *op) {
  LowerScope *s = t->l.scope;
  if (s->open) ir_insert_before(s->open, op);
  else ir_append(s->region, op);
}

/* ---- what is carried ---- */

typedef struct Carried {
  const Value *init, *arg, *result, *yield;
  Tile tile; /* as the body sees it */
  int reg;   /* index of the carried register; -1: a buffer */
} Carried;

typedef struct Carrying {
  Tiles *t;
  const Op *op;
  Carried *at;
  int n, nregs, axis; /* axis: 1 for a while loop, whose position is its first argument */
} Carrying;

static bool is_taken(const Carrying *c, const TileBuffer *b) {
  for (int i = 0; i < c->n; i++)
    if (c->at[i].tile.buffer == b) return true;
  return false;
}

static bool same_extents(const Type *type, const Tile *a, const Tile *b) {
  for (int i = 0; i < type->rank; i++)
    if (a->extent[i] != b->extent[i]) return false;
  return true;
}

/* The buffer of a value that has no other use. */
static const TileBuffer *take_over(const Carrying *c, const Carried *x) {
  const Tile *init = &c->t->tile[x->init->id];
  int uses = 0;
  for (int i = 0; i < c->op->nargs; i++) uses += tiles_depends(c->t, c->op->args[i], x->init);
  bool own = init->held == TILE_BUFFER && region_of_value(x->init) == c->op->parent && uses == 1;
  if (!own || is_taken(c, init->buffer) || tiles_used_later(c->t, c->op, x->init)) return NULL;
  return same_extents(x->init->type, init, &x->tile) ? init->buffer : NULL;
}

/* The contiguous dim of the buffer, as a product needs it that computes what is yielded; NULL: the
 * last. */
static const Sym *last_dim(const Carrying *c, const Carried *x, const Tile *tile) {
  const Op *op = x->yield->def;
  bool inside = op && op->parent == c->op->body;
  const Sym *columns = inside ? product_columns(c->t, op, tile->extent) : NULL;
  return columns ? x->arg->type->dims[type_base_dim(x->arg->type, columns)] : NULL;
}

/* The buffer is filled before the region, with the position of the tile as it is known there:
 * inside, more may be known about it (`if ($WG0 < 1)`), but only where the region runs. */
static bool open_buffer(Carrying *c, Carried *x) {
  Tiles *t = c->t;
  const Attr *axis = op_attr(c->op, ATTR_axis);
  Tile outside = {0};
  if (!tile_set_ranges(t, c->op, x->arg->type, &outside)) return false;
  bool along = axis && type_has_dim(x->arg->type, axis->sym);
  if (along || !same_extents(x->arg->type, &outside, &x->tile))
    return tiles_refuse(t, c->op, "a loop-carried tile along the loop's own axis");
  x->tile.held = TILE_BUFFER;
  x->tile.buffer = take_over(c, x);
  if (x->tile.buffer) return true;
  x->tile.buffer = buffer_new(t, x->arg->type, &outside, last_dim(c, x, &outside));
  bool deferred;
  if (!straight_defer(t, c->op, (int)(x - c->at), &outside, x->tile.buffer, &deferred))
    return false;
  if (deferred) return true;
  return buffer_fill(t, x->init, x->arg->type, &outside, x->tile.buffer);
}

/* `inside`: the Standing in the body. */
static bool open_one(Carrying *c, Carried *x, const Standing *inside) {
  Tiles *t = c->t;
  Standing here = t->l.standing;
  const Op *first = c->op->body->first;
  x->reg = -1;
  if (x->arg->type->kind == TYPE_mem) return tiles_refuse(t, c->op, "loop-carried memory");
  t->l.standing = *inside;
  bool known = tile_set_ranges(t, first, x->arg->type, &x->tile);
  t->l.standing = here;
  if (!known) return false;
  if (tile_elements(x->arg->type, &x->tile) != 1) return open_buffer(c, x);
  if (tile_elements(x->init->type, &t->tile[x->init->id]) != 1)
    return tiles_refuse(t, c->op, "one element of a larger loop-carried tile");
  x->reg = c->nregs++;
  x->tile.held = TILE_SCALAR;
  return true;
}

static bool open_carried(Carrying *c, const Standing *inside) {
  const Op *op = c->op;
  int first = op_carried(op);
  c->axis = op->kind == OP_while ? 1 : 0;
  c->n = op->nargs - first;
  c->at = ARENA_ARRAY(c->t->l.arena, Carried, c->n + 1);
  for (int i = 0; i < c->n; i++) {
    c->at[i] = (Carried){.init = op->args[first + i],
                         .arg = op->body->args[c->axis + i],
                         .result = &op->results[i],
                         .yield = op->body->last->args[c->axis + i]};
    if (!open_one(c, &c->at[i], inside)) return false;
  }
  return true;
}

/* ---- the op ---- */

/* `$GET_ITER_ARG_i` in a condition counts the values that the author carries; only registers
 * remain. */
static const Sym *renumber_args(Carrying *c, const Sym *e) {
  Context *cx = c->t->l.k->cx;
  SymBinding *to = ARENA_ARRAY(c->t->l.arena, SymBinding, 2 * c->n);
  int n = 0;
  for (int i = 0; i < c->n; i++)
    for (int nonneg = 0; nonneg < 2; nonneg++) {
      const Sym *from = ir_numbered_symbol(cx, WV_ITER_ARG, i, nonneg);
      if (!sym_contains(e, from)) continue;
      if (c->at[i].reg < 0) c->t->l.refused = "a condition on a tile with several elements";
      else to[n++] = (SymBinding){from, ir_numbered_symbol(cx, WV_ITER_ARG, c->at[i].reg, nonneg)};
    }
  return n ? sym_subst(cx->sym, e, to, n) : e;
}

/* Whether the one element of a tile exists at the loop. */
static const Sym *one_exists(Carrying *c, const Type *t) {
  Lower *l = &c->t->l;
  const Sym *all = sym_bool(l->sym, true);
  DimRange here;
  for (int d = 0; t->kind == TYPE_tile && d < t->rank; d++) {
    if (!standing_range(&l->standing, c->op, t->dims[d], &here)) return all;
    const Sym *end = standing_extent(&l->standing, c->op, t->dims[d]);
    if (end) all = sym_and(l->sym, all, sym_lt(l->sym, here.start, end));
  }
  const Sym *simple = all ? sym_simplify(l->sym, emit_facts(l), all) : NULL;
  return simple ? simple : (sym_take_error(l->sym), sym_bool(l->sym, true));
}

/* The condition of a while loop tests what exists. */
static const Sym *tested_condition(Carrying *c, const Sym *e) {
  const Sym *tested = e;
  for (int i = 0; c->op->kind == OP_while && i < c->n; i++)
    if (sym_contains(e, ir_iter_arg(c->t->l.k->cx, i)))
      tested = sym_and(c->t->l.sym, one_exists(c, c->at[i].init->type), tested);
  return tested;
}

static void copy_attrs(Carrying *c, Op *to) {
  Lower *l = &c->t->l;
  for (int i = 0; i < c->op->nattrs; i++) {
    Attr a = attr_copy(l->k, &c->op->attrs[i]);
    if (a.key == ATTR_expr)
      a.sym = emit_at_entry(
          l, renumber_args(c, tested_condition(c, distribute_expr(l->d, c->op, a.sym))));
    op_set_attr(l->k, to, a);
  }
  if (c->op->kind != OP_for) return;
  op_drop_attr(to, ATTR_earlier), op_drop_attr(to, ATTR_until);
  const Sym *trips = emit_at_entry(l, distribute_trips(l->d, c->op));
  op_set_attr(l->k, to, (Attr){.key = ATTR_trips, .sym = trips});
}

static Op *make_op(Carrying *c) {
  Lower *l = &c->t->l;
  int first = op_carried(c->op), n = 0;
  Value **args = ARENA_ARRAY(l->arena, Value *, c->op->nargs + 1);
  const Type **types = ARENA_ARRAY(l->arena, const Type *, c->n + 1);
  for (int i = 0; i < first; i++)
    if (!(args[n++] = tiles_scalar(c->t, c->op->args[i]))) return NULL;
  for (int i = 0; i < c->n; i++) {
    if (c->at[i].reg < 0) continue;
    if (!(args[n] = tiles_scalar(c->t, c->at[i].init))) return NULL;
    types[c->at[i].reg] = args[n++]->type;
  }
  Op *made = ir_op_new(l->k, c->op->kind, c->op->at, args, n);
  copy_attrs(c, made);
  tiles_insert(c->t, made);
  ir_set_results(l->k, made, types, c->nregs);
  return made;
}

static SavedScope open_body(Carrying *c, Op *made, const SymFacts *facts) {
  Tiles *t = c->t;
  Lower *l = &t->l;
  Region *body = ir_region_new(l->k, made);
  SavedScope saved = tiles_open_scope(t, body, facts);
  if (c->axis) {
    const Value *position = c->op->body->args[0];
    Value *v = ir_add_arg(l->k, body, position->type, position->name);
    t->tile[position->id] = (Tile){.held = TILE_SCALAR, .scalar = v, .scope = l->scope};
  }
  for (int i = 0; i < c->n; i++) {
    Carried *x = &c->at[i];
    if (x->reg >= 0)
      x->tile.scalar = ir_add_arg(l->k, body, made->results[x->reg].type, x->arg->name);
    x->tile.scope = l->scope;
    t->tile[x->arg->id] = x->tile;
  }
  const Attr *loop = op_attr(c->op, ATTR_axis), *version = op_attr(c->op, ATTR_version);
  if (loop) tiles_define(t, ir_loop_counter(l->k, loop->sym));
  if (version) tiles_define(t, version->sym);
  return saved;
}

/* ---- yields ---- */

/* The value still needs other buffers of the body's arguments, or its own at other positions. */
static bool must_wait(const Carrying *c, int i) {
  const Carried *x = &c->at[i];
  for (int j = 0; j < c->n; j++) {
    const Carried *y = &c->at[j];
    if (y->reg >= 0) continue;
    const Tile *yielded = &c->t->tile[x->yield->id];
    if (j != i && (tiles_depends(c->t, x->yield, y->arg) || yielded->buffer == y->tile.buffer))
      return true;
  }
  return tiles_depends_elsewhere(c->t, x->yield, x->arg);
}

/* Writes the yields to the buffers, those that depend on others through buffers of their own. */
static bool hand_on_tiles(Carrying *c) {
  Tiles *t = c->t;
  const TileBuffer **waiting = ARENA_ARRAY(t->l.arena, const TileBuffer *, c->n + 1);
  for (int i = 0; i < c->n; i++) {
    Carried *x = &c->at[i];
    if (x->reg >= 0 || !must_wait(c, i)) continue;
    waiting[i] = buffer_new(t, x->arg->type, &x->tile, NULL);
    if (!buffer_fill(t, x->yield, x->arg->type, &x->tile, waiting[i])) return false;
  }
  for (int i = 0; i < c->n; i++) {
    Carried *x = &c->at[i];
    Tile *from = &t->tile[x->yield->id];
    if (x->reg >= 0 || (from->held == TILE_BUFFER && from->buffer == x->tile.buffer)) continue;
    Tile kept = *from;
    if (waiting[i]) *from = x->tile, from->buffer = waiting[i];
    bool ok = buffer_fill(t, x->yield, x->arg->type, &x->tile, x->tile.buffer);
    *from = kept;
    if (!ok) return false;
  }
  return true;
}

static bool lower_yield(Carrying *c) {
  Lower *l = &c->t->l;
  const Op *yield = c->op->body->last;
  Value **args = ARENA_ARRAY(l->arena, Value *, yield->nargs + 1);
  l->at = yield->at;
  if (c->axis && !(args[0] = tiles_scalar(c->t, yield->args[0]))) return false;
  for (int i = 0; i < c->n; i++)
    if (c->at[i].reg >= 0 && !(args[c->axis + c->at[i].reg] = tiles_scalar(c->t, c->at[i].yield)))
      return false;
  if (!hand_on_tiles(c)) return false;
  emit_op(l, OP_yield, args, c->axis + c->nregs, NULL, 0, NULL);
  return true;
}

static bool set_results(Carrying *c, Op *made) {
  Tiles *t = c->t;
  for (int i = 0; i < c->n; i++) {
    const Carried *x = &c->at[i];
    Tile *tile = &t->tile[x->result->id];
    if (!tile_set_ranges(t, c->op, x->result->type, tile)) return false;
    tile->held = x->tile.held;
    tile->buffer = x->tile.buffer;
    if (x->reg < 0) continue;
    tile->scalar = &made->results[x->reg];
    tile->scalar->name = x->result->name;
  }
  return true;
}

bool tiles_region_op(Tiles *t, const Op *op) {
  Lower *l = &t->l;
  Standing outside = l->standing, inside = standing_inside(&outside, op);
  Carrying c = {.t = t, .op = op};
  if (!open_carried(&c, &inside)) return false;
  Op *made = make_op(&c);
  if (!made) return false;
  int64_t top = t->top;
  l->standing = inside;
  SavedScope saved = open_body(&c, made, inside.facts);
  bool ok = tiles_lower_region(t, op->body) && lower_yield(&c);
  tiles_close_scope(t, saved);
  l->standing = outside;
  t->top = top;
  return ok && set_results(&c, made);
}
