/* tiles_buffer.c: scratch memory, and tiles in it.
 *
 * Memory is released at the end of the region that allocated it: allocations form a stack. Those
 * that are filled before a loop while its body is being emitted last until the end of the
 * kernel. */
#include "ir/dtype.h"
#include "lower_tiles/tiles.h"

enum { SCRATCH_ALIGN = 64 };

/* ---- memory ---- */

void scratch_reserve(Tiles *t, Op *alloc, int64_t bytes, bool lasting) {
  int64_t *top = lasting ? &t->lasting : &t->top;
  bytes = (bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
  vec_push(t->l.arena, &t->allocs, ((TileAlloc){alloc, *top, bytes, lasting}));
  *top += bytes;
  if (t->top > t->most) t->most = t->top;
}

Value *scratch_new(Tiles *t, DType dtype, int64_t elements, bool lasting) {
  Lower *l = &t->l;
  const Sym *size = sym_int(l->sym, elements);
  const Type *type = type_mem(l->k->cx, &size, 1, dtype, l->k->cx->shared_space, NULL);
  LowerScope *here = l->scope;
  while (l->scope->outer) l->scope = l->scope->outer;
  Value *v = emit_op(l, OP_alloc, NULL, 0, NULL, 0, type);
  l->scope = here;
  scratch_reserve(t, v->def, (int64_t)dtype_bytes(dtype, elements), lasting);
  return v;
}

static const TileBuffer *make_buffer(Tiles *t, const Type *type, const Tile *tile, const Sym *last,
                                     bool lasting) {
  TileBuffer *b = ARENA_NEW(t->l.arena, TileBuffer);
  int inner = type->rank - 1;
  int64_t stride = 1;
  for (int i = 0; last && i < type->rank; i++)
    if (dim_base(type->dims[i]) == dim_base(last)) inner = i;
  b->stride[inner] = 1;
  stride = tile->extent[inner];
  for (int i = type->rank - 1; i >= 0; i--) {
    if (i == inner) continue;
    b->stride[i] = stride;
    stride *= tile->extent[i];
  }
  b->memory = scratch_new(t, type->dtype, stride, lasting);
  return b;
}

const TileBuffer *buffer_new(Tiles *t, const Type *type, const Tile *tile, const Sym *last) {
  return make_buffer(t, type, tile, last, false);
}

const TileBuffer *buffer_new_kept(Tiles *t, const Type *type, const Tile *tile, const Sym *last) {
  return make_buffer(t, type, tile, last, true);
}

const TileBuffer *tile_new_buffer(Tiles *t, const Value *v) {
  Tile *tile = &t->tile[v->id];
  const TileBuffer *b = buffer_new(t, v->type, tile, NULL);
  b->memory->name = v->name;
  tile->held = TILE_BUFFER;
  tile->buffer = b;
  return b;
}

/* ---- elements ---- */

static Value *offset_of(Tiles *t, const TileBuffer *b, const Type *type, const Tile *tile,
                        const Point *p) {
  SymCtx *sym = t->l.sym;
  const Sym *offset = sym_int(sym, 0);
  for (int i = 0; i < type->rank; i++) {
    const Sym *at = point_get(p, type->dims[i]);
    const Sym *inside = sym_sub(sym, at ? at : tile->start[i], tile->start[i]);
    offset = sym_add(sym, offset, sym_mul(sym, inside, sym_int(sym, b->stride[i])));
  }
  return emit_address(&t->l, emit_sound(&t->l, offset), DTYPE_index);
}

/* The stride between the elements of the point; 0: it has only one in this tile. */
static int64_t step_of(const TileBuffer *b, const Type *type, const Point *p) {
  for (int i = 0; p->along >= 0 && i < type->rank; i++)
    if (dim_base(type->dims[i]) == dim_base(p->dim[p->along])) return b->stride[i];
  return 0;
}

/* Which elements at a point come before the end of the buffer along dim i of its type; NULL: all
 * do. */
static Value *is_stored(Tiles *t, const Type *type, const Tile *tile, const Point *p, int i) {
  const Sym *dim = type->dims[i], *end = tile->end[i], *at = point_get(p, dim);
  if (!end || nest_is_granted(t, dim, end)) return NULL;
  if (!at) at = tile->start[i];
  bool along = p->along >= 0 && dim_base(dim) == dim_base(p->dim[p->along]);
  if (!along) return emit_expr(&t->l, emit_sound(&t->l, sym_lt(t->l.sym, at, end)), DTYPE_i1);
  const Sym *left = tile_room(t, sym_sub(t->l.sym, end, at), p->width);
  return tile_first(t, emit_address(&t->l, left, DTYPE_i32), p->width);
}

static Value *load(Tiles *t, const TileBuffer *b, Value *offset, int64_t imm, int n, Value *mask) {
  Value *args[] = {b->memory, offset, mask ? emit_splat(&t->l, mask, n / mask->type->n) : NULL};
  Attr attr = {.key = ATTR_imm, .integer = imm};
  const Type *type = type_vec(t->l.k->cx, n, b->memory->type->dtype);
  return emit_op(&t->l, OP_load, args, mask ? 3 : 2, &attr, imm ? 1 : 0, type);
}

Value *buffer_load(Tiles *t, const TileBuffer *b, const Type *type, const Tile *tile,
                   const Point *p) {
  int64_t step = step_of(b, type, p);
  Value *offset = offset_of(t, b, type, tile, p), *mask = NULL;
  for (int i = 0; i < type->rank; i++)
    mask = emit_both(&t->l, mask, is_stored(t, type, tile, p, i));
  if (step <= 1) return load(t, b, offset, 0, step ? p->width : 1, mask);
  Value **parts = ARENA_ARRAY(t->l.arena, Value *, p->width);
  for (int i = 0; i < p->width; i++) {
    Value *own = mask && mask->type->n > 1 ? emit_pick(&t->l, mask, &i, 1) : mask;
    parts[i] = load(t, b, offset, i * step, 1, own);
  }
  return emit_join(&t->l, parts, p->width);
}

static void store(Tiles *t, const TileBuffer *b, Value *v, Value *offset, int64_t imm) {
  Value *args[] = {v, b->memory, offset};
  Attr attr = {.key = ATTR_imm, .integer = imm};
  emit_op(&t->l, OP_store, args, 3, &attr, imm ? 1 : 0, NULL);
}

void buffer_store(Tiles *t, const TileBuffer *b, const Type *type, const Tile *tile, const Point *p,
                  Value *v) {
  int64_t step = step_of(b, type, p);
  Value *offset = offset_of(t, b, type, tile, p);
  if (step <= 1) {
    store(t, b, v, offset, 0);
    return;
  }
  for (int i = 0; i < v->type->n; i++) store(t, b, emit_pick(&t->l, v, &i, 1), offset, i * step);
}

/* ---- whole tiles ---- */

typedef struct Filling {
  const Value *v;
  const Type *type;
  const Tile *tile;
  const TileBuffer *b;
} Filling;

static bool fill_at(Tiles *t, const Point *p, void *user) {
  const Filling *f = user;
  Value *v = tiles_wide_at(t, f->v, p);
  tiles_prefetch_rows(t, NULL, f->v, p);
  if (v) buffer_store(t, f->b, f->type, f->tile, p, v);
  return v != NULL;
}

static const Sym *unit_dim(const TileBuffer *b, const Type *type) {
  for (int i = 0; i < type->rank; i++)
    if (b->stride[i] == 1) return type->dims[i];
  return NULL;
}

bool buffer_fill(Tiles *t, const Value *v, const Type *type, const Tile *tile,
                 const TileBuffer *b) {
  Filling f = {v, type, tile, b};
  NestBox box = nest_box(t, type, tile);
  for (int i = 0; i < box.rank; i++) box.end[i] = tile->end[i];
  nest_choose_width(t, &box, unit_dim(b, type), v);
  if (box.along >= 0) box.split = tile_limit(t, v, box.dim[box.along]);
  return nest_run(t, &box, fill_at, &f);
}

/* ---- what a value is made of ---- */

typedef void LeafFn(Tiles *t, const Value *v, void *user);

/* The reads and buffers that v is computed from where it is used. */
typedef struct Leaves {
  bool *seen; /* by value id */
  LeafFn *fn;
  void *user;
} Leaves;

static void visit(Tiles *t, Leaves *x, const Value *v) {
  if (x->seen[v->id] || t->tile[v->id].held == TILE_ABSENT) return;
  x->seen[v->id] = true;
  x->fn(t, v, x->user);
  if (t->tile[v->id].held != TILE_INLINE || !v->def) return;
  for (int i = 0; i < v->def->nargs; i++) visit(t, x, v->def->args[i]);
}

static void each_part(Tiles *t, const Value *v, LeafFn *fn, void *user) {
  Leaves x = {ARENA_ARRAY(t->l.arena, bool, t->l.k->nvalues + 1), fn, user};
  visit(t, &x, v);
}

typedef struct Votes {
  const Type *type;
  const Tile *tile;
  int votes[IR_MAX_RANK];
} Votes;

static void vote(Tiles *t, const Value *v, void *user) {
  Votes *x = user;
  const Tile *tile = &t->tile[v->id];
  const Sym *dim = NULL;
  if (tile->held == TILE_BUFFER) dim = unit_dim(tile->buffer, v->type);
  else if (tile->held == TILE_INLINE && v->def->kind == OP_read) dim = access_contiguous(t, v->def);
  for (int i = 0; dim && i < x->type->rank; i++)
    if (dim_base(x->type->dims[i]) == dim_base(dim) && x->tile->extent[i] > 1) x->votes[i]++;
}

const Sym *tile_contiguous(Tiles *t, const Value *v) {
  Votes x = {.type = v->type, .tile = &t->tile[v->id]};
  int best = -1;
  if (v->type->kind != TYPE_tile) return NULL;
  each_part(t, v, vote, &x);
  for (int i = v->type->rank - 1; i >= 0; i--)
    if (x.tile->extent[i] > 1 && (best < 0 || x.votes[i] > x.votes[best])) best = i;
  return best < 0 ? NULL : v->type->dims[best];
}

static void widest(Tiles *t, const Value *v, void *user) {
  int *bytes = user, bits = dtype_memory_bits(v->type->dtype);
  bool counts = v->type->kind == TYPE_tile && dtype_info[v->type->dtype].class != DTYPE_INDEX;
  if (v->def && (v->def->kind == OP_self_index || v->def->kind == OP_apply_expr)) counts = false;
  (void)t;
  if (counts && bits / 8 > *bytes) *bytes = bits / 8;
}

int tile_bytes(Tiles *t, const Value *v) {
  int bytes = 1;
  each_part(t, v, widest, &bytes);
  return bytes;
}

static void find_function(Tiles *t, const Value *v, void *user) {
  if (t->tile[v->id].held == TILE_INLINE && tiles_is_function(v->def)) *(bool *)user = true;
}

bool tile_has_function(Tiles *t, const Value *v) {
  bool found = false;
  each_part(t, v, find_function, &found);
  return found;
}

typedef struct FindLimit {
  const Sym *dim, *limit;
} FindLimit;

static void find_limit(Tiles *t, const Value *v, void *user) {
  FindLimit *x = user;
  bool tests = t->tile[v->id].held == TILE_INLINE &&
               (v->def->kind == OP_read || v->def->kind == OP_inside || v->def->kind == OP_exists);
  if (!x->limit && tests) x->limit = access_limit(t, v->def, x->dim);
}

const Sym *tile_limit(Tiles *t, const Value *v, const Sym *dim) {
  FindLimit x = {.dim = dim};
  each_part(t, v, find_limit, &x);
  return x.limit;
}
