/* tiles_value.c: the elements of a value at a point.
 *
 * A value already computed at the same point is reused. A value is computed in the outermost loop
 * of the nest whose counters its coordinates mention: a row's scale is computed before the loop
 * along the row. */
#include "ir/dtype.h"
#include "ir/ops/inline_ptx.h"
#include "lower_tiles/tiles.h"

/* ---- points ---- */
const Sym *point_get(const Point *p, const Sym *dim) {
  for (int i = 0; i < p->n; i++)
    if (dim_base(p->dim[i]) == dim_base(dim)) return p->at[i];
  return NULL;
}

Point tile_origin(const Tiles *t, const Value *v) {
  Point p = {.along = -1, .width = 1};
  if (v->type->kind != TYPE_tile) return p;
  p.n = v->type->rank;
  for (int i = 0; i < p.n; i++) {
    p.dim[i] = v->type->dims[i];
    p.at[i] = t->tile[v->id].start[i];
  }
  return p;
}

/* ---- positions of tiles ---- */

bool tile_has_size(const Tiles *t, const Op *op, const Type *type) {
  for (int i = 0; type->kind == TYPE_tile && i < type->rank; i++) {
    TileRange range;
    int64_t n;
    if (!distribute_dim(t->l.d, op, type->dims[i], &range)) return true; /* which was reported */
    if (!sym_is_int(range.extent, &n)) return false;
  }
  return true;
}

bool tile_set_ranges(Tiles *t, const Op *op, const Type *type, Tile *out) {
  out->scope = t->l.scope;
  if (type->kind != TYPE_tile) return true;
  if (!distribute_extents(t->l.d, op, type, out->extent)) return false;
  for (int i = 0; i < type->rank; i++) {
    DimRange here;
    if (!standing_range(&t->l.standing, op, type->dims[i], &here)) return false;
    out->start[i] = here.start;
  }
  return true;
}

static bool has_symbol_of(const Tiles *t, const LowerScope *scope, const Sym *e) {
  for (int i = 0; e && i < t->l.symbols.n; i++)
    if (t->l.symbols.at[i].scope == scope && sym_contains(e, t->l.symbols.at[i].symbol))
      return true;
  return false;
}

/* It cannot leave this scope. */
static bool is_tied(const Tiles *t, const Op *op, const LowerScope *scope) {
  for (int i = 0; i < op->nargs; i++)
    if (t->tile[op->args[i]->id].scope == scope) return true;
  if (op->kind != OP_read && op->kind != OP_inside) return false;
  const AccessBounds *b = t->l.bounds[op->id];
  for (int i = 0; i < b->access.memory->type->rank; i++)
    if (!b->coords[i] || has_symbol_of(t, scope, b->coords[i]) ||
        has_symbol_of(t, scope, b->sizes[i]))
      return true;
  return false;
}

LowerScope *tile_home(const Tiles *t, const Op *op) {
  LowerScope *s = t->l.scope;
  if (op->kind == OP_apply_expr || op->kind == OP_fill || op->kind == OP_exists)
    return s; /* any symbol may occur in them */
  while (s->outer && s->region->owner->kind != OP_if && !is_tied(t, op, s)) s = s->outer;
  return s;
}

int64_t tile_elements(const Type *type, const Tile *tile) {
  int64_t n = 1;
  for (int i = 0; type->kind == TYPE_tile && i < type->rank; i++) n *= tile->extent[i];
  return n;
}

/* ---- ops at a point ---- */

typedef struct Asked {
  Tiles *t;
  const Value *v;
  Point p;    /* the coordinates of v's own dims */
  bool again; /* although it is held: for other coordinates */
} Asked;

static Value *refuse(Tiles *t, const Op *op, const char *what) {
  tiles_refuse(t, op, what);
  return NULL;
}

static Value *wide(Tiles *t, Value *v, int width) {
  return v && v->type->n < width ? emit_splat(&t->l, v, width) : v;
}

Value *tiles_wide_at(Tiles *t, const Value *v, const Point *p) {
  return wide(t, tiles_at(t, v, p), p->width);
}

static const Sym *plain_expr(Asked *a, const Op *op, const Sym *e) {
  return emit_sound(&a->t->l, distribute_expr(a->t->l.d, op, e));
}

static Value *fill_at(Asked *a) {
  const Op *op = a->v->def;
  Lower *l = &a->t->l;
  Attr value = {.key = ATTR_value};
  if (op->kind == OP_runs) value.sym = distribute_runs(l->d, op);
  else value = *op_attr(op, ATTR_value);
  if (value.sym) value.sym = emit_at_entry(l, plain_expr(a, op, value.sym));
  return emit_op(l, OP_scalar, NULL, 0, &value, 1, type_scalar(l->k->cx, a->v->type->dtype));
}

static Value *index_at(Asked *a) {
  Lower *l = &a->t->l;
  DType to = a->v->type->dtype, dtype = dtype_is_float(to) ? DTYPE_index : to;
  Value *first = emit_expr(l, a->p.at[0], dtype);
  if (a->p.along < 0) return emit_cast(l, first, to);
  Value *iota = tile_iota(a->t, a->p.width, dtype);
  return emit_cast(l, emit_binary(l, OP_add, emit_splat(l, first, a->p.width), iota), to);
}

/* The operands at the point, all as wide as the widest. */
static int operands_at(Asked *a, const Op *op, Value **args) {
  int width = 1;
  for (int i = 0; i < op->nargs; i++) {
    if (!(args[i] = tiles_at(a->t, op->args[i], &a->p))) return 0;
    if (args[i]->type->n > width) width = args[i]->type->n;
  }
  for (int i = 0; i < op->nargs; i++) args[i] = wide(a->t, args[i], width);
  return width;
}

static Value *apply_at(Asked *a) {
  const Op *op = a->v->def;
  Lower *l = &a->t->l;
  Value *args[16];
  if (op->nargs > (int)WV_LEN(args)) return refuse(a->t, op, "more than 16 operands");
  int width = operands_at(a, op, args);
  const Sym *e = plain_expr(a, op, op_attr(op, ATTR_expr)->sym);
  if (width == 0) return NULL;
  if (width == 1) return emit_expr_of(l, e, a->v->type->dtype, args, op->nargs);
  VectorSymbols s = {.width = width};
  for (int i = 0; i < op->nargs; i++) {
    for (int nonneg = 0; nonneg < 2; nonneg++) {
      const Sym *arg = ir_numbered_symbol(l->k->cx, "$APPLY_EXPR_ARG_", i, nonneg);
      if (!sym_contains(e, arg)) continue;
      if (s.n == (int)WV_LEN(s.symbol)) return refuse(a->t, op, "more than 16 operands");
      s.symbol[s.n] = arg;
      s.vec[s.n++] = args[i];
    }
  }
  return tiles_vector_expr(a->t, e, &s, a->v->type->dtype);
}

static Value *elementwise_at(Asked *a) {
  const Op *op = a->v->def;
  Value *args[3];
  if (op->nargs > (int)WV_LEN(args)) return refuse(a->t, op, "more than 3 operands");
  int width = operands_at(a, op, args);
  if (!width) return NULL;
  const Type *type = type_vec(a->t->l.k->cx, width, a->v->type->dtype);
  return emit_op(&a->t->l, op->kind, args, op->nargs, op->attrs, op->nattrs, type);
}

/* If the surrounding loops end at the existing elements, existence need not be tested. */
static Value *select_at(Asked *a) {
  const Op *op = a->v->def, *by = op->args[0]->def;
  if (by && by->kind == OP_exists && !access_is_tested(a->t, by))
    return tiles_at(a->t, op->args[1], &a->p);
  return elementwise_at(a);
}

Value *tiles_one_by_one(Tiles *t, const Point *p, Value *(*at)(const void *user, const Point *),
                        const void *user) {
  Lower *l = &t->l;
  Value **parts = ARENA_ARRAY(l->arena, Value *, p->width);
  for (int i = 0; i < p->width; i++) {
    Point one = *p;
    one.along = -1, one.width = 1;
    one.at[p->along] = emit_sound(l, sym_add(l->sym, p->at[p->along], sym_int(l->sym, i)));
    if (!(parts[i] = at(user, &one))) return NULL;
  }
  return emit_join(l, parts, p->width);
}

/* One element for a vector that lies within a block. */
static Value *repeat_at(const void *user, const Point *p) {
  const Asked *a = user;
  Lower *l = &a->t->l;
  const Value *from = a->v->def->args[0];
  int dim = type_repeated(from->type, a->v->type);
  int ratio = dim_ratio(a->v->type->dims[dim], from->type->dims[dim]);
  if (p->along == dim && p->width > 1 &&
      (ratio % p->width || !sym_divides(l->sym, emit_facts(l), p->width, p->at[dim])))
    return tiles_one_by_one(a->t, p, repeat_at, a);
  Point q = *p;
  if (q.along == dim) q.along = -1, q.width = 1;
  q.dim[dim] = from->type->dims[dim];
  q.at[dim] = sym_floordiv(l->sym, p->at[dim], sym_int(l->sym, ratio));
  q.at[dim] = emit_sound(l, sym_simplify(l->sym, emit_facts(l), q.at[dim]));
  return tiles_at(a->t, from, &q);
}

/* CPUs execute the meaning given for PTX instructions. */
static Value *meaning_at(Asked *a) {
  const Op *op = a->v->def;
  const Value *meaning = inline_meaning(op);
  if (meaning) return tiles_at(a->t, meaning, &a->p);
  inline_unknown(a->t->l.k->cx, op, "a CPU");
  return NULL;
}

static bool same_size(const Op *op) {
  return dtype_info[op->args[0]->type->dtype].bits == dtype_info[op->results[0].type->dtype].bits;
}

static Value *make_at(Asked *a) {
  const Op *op = a->v->def;
  switch (op->kind) {
  case OP_fill:
  case OP_runs:
  case OP_scalar: return fill_at(a);
  case OP_self_index: return index_at(a);
  case OP_inside:
  case OP_exists: return access_exists(a->t, op, &a->p);
  case OP_select: return select_at(a);
  case OP_inline_ptx: return meaning_at(a);
  case OP_apply_expr: return apply_at(a);
  case OP_read: return access_load(a->t, op, &a->p);
  case OP_broadcast:
  case OP_permute:
  case OP_squeeze:
  case OP_convert: return tiles_at(a->t, op->args[0], &a->p);
  case OP_repeat: return repeat_at(a, &a->p);
  case OP_bitcast:
    if (same_size(a->v->def)) return elementwise_at(a);
    return bitcast_at(a->t, a->v, &a->p);
  default: return elementwise_at(a);
  }
}

/* ---- values computed before ---- */

typedef struct Made {
  const Value *of;
  Point p;
  Value *value;
  const struct Made *next; /* with the same hash */
} Made;

static bool same_point(const Point *a, const Point *b) {
  if (a->n != b->n || a->along != b->along || a->width != b->width) return false;
  for (int i = 0; i < a->n; i++)
    if (a->at[i] != b->at[i]) return false;
  return true;
}

static uint64_t hash_asked(const Asked *a) {
  uint64_t key = hash_mix(map_key(a->v), (uint64_t)a->p.width);
  for (int i = 0; i < a->p.n; i++) key = hash_mix(key, map_key(a->p.at[i]));
  return key ? key : 1;
}

/* The innermost loop that one of the coordinates belongs to. */
static NestLevel *level_of(const Tiles *t, const Point *p) {
  NestLevel *level = t->level;
  for (; level && level->counter; level = level->outer)
    for (int i = 0; i < p->n; i++)
      if (sym_contains(p->at[i], level->counter)) return level;
  return level;
}

/* Loaded, or computed. */
static Value *take(Asked *a) {
  const Tile *tile = &a->t->tile[a->v->id];
  bool load = tile->held == TILE_BUFFER && !a->again;
  return load ? buffer_load(a->t, tile->buffer, a->v->type, tile, &a->p) : make_at(a);
}

/* A value computed in an outer loop is computed before the inner ones are entered, so the bounds
 * that they grant do not hold there. */
static Value *take_in(Asked *a, NestLevel *level) {
  Tiles *t = a->t;
  NestLevel *inner = t->level;
  LowerScope *scope = t->l.scope;
  GrantedList granted = t->granted;
  for (; t->level != level; t->level = t->level->outer)
    t->granted.n = t->granted.cap = t->level->granted;
  t->l.scope = level->scope;
  Value *v = take(a);
  t->level = inner;
  t->l.scope = scope;
  t->granted = granted;
  return v;
}

static Value *make_once(Asked *a) {
  Tiles *t = a->t;
  NestLevel *level = level_of(t, &a->p);
  uint64_t key = hash_asked(a);
  if (!level) return take(a);
  for (const Made *m = map_get(&level->made, key); m; m = m->next)
    if (m->of == a->v && same_point(&m->p, &a->p)) return m->value;
  Value *v = take_in(a, level);
  if (!v) return NULL;
  Made *m = ARENA_NEW(t->l.arena, Made);
  *m = (Made){a->v, a->p, v, map_get(&level->made, key)};
  map_set(t->l.arena, &level->made, key, m);
  return v;
}

/* ---- the question ---- */

/* The point in terms of v's dims. Dims that the point lacks have one element, at v's start. */
static Point own_point(const Tiles *t, const Value *v, const Point *p) {
  const Tile *tile = &t->tile[v->id];
  Point own = {.n = v->type->kind == TYPE_tile ? v->type->rank : 0, .along = -1, .width = 1};
  own.elsewhere = p->elsewhere;
  for (int i = 0; i < own.n; i++) {
    const Sym *dim = v->type->dims[i], *at = point_get(p, dim);
    own.dim[i] = dim;
    own.at[i] = at ? at : tile->start[i];
    if (p->along < 0 || p->width == 1 || dim_base(p->dim[p->along]) != dim_base(dim)) continue;
    own.along = i;
    own.width = p->width;
  }
  return own;
}

/* Whether the elements of the point are among those that v was computed for. */
static bool is_held(const Tiles *t, const Value *v, const Point *p) {
  const Tile *tile = &t->tile[v->id];
  SymCtx *sym = t->l.sym;
  for (int i = 0; i < p->n; i++) {
    int width = p->along == i ? p->width : 1;
    if (p->at[i] == tile->start[i] && width <= tile->extent[i]) continue;
    const Sym *inside = sym_sub(sym, p->at[i], tile->start[i]);
    if (!inside) return sym_take_error(sym), false;
    SymRange r = sym_range(sym, emit_facts(&t->l), inside);
    if (r.lo > r.hi) continue; /* in a loop over a dimension of size 0, which never runs */
    if (r.lo < 0 || r.hi > tile->extent[i] - width) return false;
  }
  return true;
}

/* A value that is neither read from memory nor a sum can also be computed for other coordinates. */
static bool can_be_made_again(const Value *v) {
  const Op *op = v->def;
  if (!op || op->nresults != 1 || op->kind == OP_read || op->kind == OP_inside || op->body)
    return false;
  bool view = op->kind == OP_broadcast || op->kind == OP_permute || op->kind == OP_squeeze ||
              op->kind == OP_convert || op->kind == OP_repeat;
  bool made = op->kind == OP_fill || op->kind == OP_self_index || op->kind == OP_exists ||
              op->kind == OP_apply_expr;
  return view || made || op_is_elementwise(op);
}

Value *tiles_at(Tiles *t, const Value *v, const Point *p) {
  const Tile *tile = &t->tile[v->id];
  WV_ASSERT(tile->held != TILE_ABSENT);
  Asked a = {.t = t, .v = v, .p = own_point(t, v, p)};
  if (tile->held == TILE_INLINE) return make_once(&a);
  if (!is_held(t, v, &a.p)) {
    if (can_be_made_again(v)) return a.again = true, make_once(&a);
    t->l.refused = "an operand needed at coordinates for which it was not computed";
    return tile->held == TILE_SCALAR ? tile->scalar : emit_number(&t->l, v->type->dtype, 0);
  }
  return tile->held == TILE_SCALAR ? tile->scalar : make_once(&a);
}

void tiles_prefetch(Tiles *t, const Value *v, const Point *p) {
  while (t->tile[v->id].held == TILE_INLINE) {
    const Op *op = v->def;
    if (op->kind == OP_read) access_prefetch(t, op, p);
    if (op->kind != OP_cast && op->kind != OP_permute && op->kind != OP_convert) return;
    v = op->args[0];
  }
}

Value *tiles_scalar(Tiles *t, const Value *v) {
  const Tile *tile = &t->tile[v->id];
  if (tile->held == TILE_SCALAR) return tile->scalar;
  Point p = tile_origin(t, v);
  return tiles_at(t, v, &p);
}
