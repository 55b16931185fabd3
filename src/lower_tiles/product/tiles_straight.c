/* tiles_straight.c: results of products that go from registers straight to memory.
 *
 * The sum of a loop over tiles of k is in a buffer. If all that happens to it is that it is written
 * after the loop, the first tile of k need not find zeros in the buffer, and the last one need not
 * leave sums there:
 *
 *     %r = for K carry %acc = 0.0              for K {
 *       %next = mma %a, %b, %acc                 for blocks {
 *       yield %next                                %c = 0.0 if K is 0, else the block of the buffer
 *     }                                            for k { wave_mma }
 *     %x = mul %r, %scale                          if K is the last, and all of the block exists {
 *     write %x, %y                                   rows times %scale, to %y
 *                                                  } else { the block to the buffer }
 *                                                  if K is the last, and the block is cut {
 *                                                    from the buffer to %y, as far as it exists
 *
 * So if there is only one tile of k, sums are not stored anywhere else. What is written may be
 * computed from the sums element by element. A product that is in no such loop is its own first and
 * last tile. If the loop does not run at all, its initial value is written after it. */
#include "ir/dtype.h"
#include "ir/region_facts.h"
#include "lower_tiles/product/tiles_product.h"
#include "lower_tiles/tiles_region.h"

enum {
  LINE_BYTES = 64,
  MOST_COST = 8 /* of what is written, in additions: there is code for each vector of a block. More
                 * is computed by a loop, from the buffer */
};

/* ---- what may go straight to memory ---- */

typedef struct Search {
  Tiles *t;
  const Op *maker; /* of the result: the loop, or the product */
  const Value *result;
  bool *from_result; /* by value id */
} Search;

static bool shares_memory(const Op *op, const Op *write) {
  MemAccess a, b;
  return access_of(op, &a) && access_of(write, &b) &&
         memory_root(a.memory) == memory_root(b.memory);
}

/* No other op touches the memory, as far as names tell. */
static bool is_only_access(const Tiles *t, const Op *write) {
  for (const Op *op = ir_first(t->l.k); op; op = ir_next(op))
    if (op != write && shares_memory(op, write)) return false;
  return true;
}

/* An element of it follows from the element of the result at the same position. */
static bool keeps_position(const Op *op) {
  return op_is_elementwise(op) || op->kind == OP_apply_expr || op->kind == OP_permute;
}

static bool takes_result(const Search *s, const Op *op) {
  for (int i = 0; i < op->nargs; i++)
    if (s->from_result[op->args[i]->id]) return true;
  return false;
}

/* The only op with an effect that uses the result, if it may run earlier: only pure ops, and writes
 * to other memory, come before it. */
static const Op *find_write(Search *s) {
  const Op *found = NULL;
  s->from_result[s->result->id] = true;
  for (const Op *op = s->maker->next; op; op = op->next) {
    bool inlined = op->nresults == 1 && s->t->plan.is_inline[op->results[0].id],
         pure = inlined || (op_is_pure(op) && !op->body), uses = takes_result(s, op);
    if (uses && inlined && !found && keeps_position(op)) s->from_result[op->results[0].id] = true;
    else if (uses && (found || op->kind != OP_write)) return NULL;
    else if (uses) found = op;
    if (!found && !pure && op->kind != OP_write) return NULL;
  }
  return found;
}

/* Ops with bodies are not searched by find_write. */
static bool is_used_inside(const Search *s) {
  for (const Op *op = s->maker; op; op = ir_next(op))
    if (op->parent != s->maker->parent && takes_result(s, op)) return true;
  return false;
}

static bool has_same_dims(const Type *a, const Type *b) {
  if (b->kind != TYPE_tile || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++) {
    bool found = false;
    for (int j = 0; j < b->rank; j++) found = found || a->dims[i] == b->dims[j];
    if (!found) return false;
  }
  return true;
}

/* Where blocks of the result begin, and along which dim their rows are. */
typedef struct RowPlace {
  const Tile *tile;
  int along;
} RowPlace;

/* How many elements of a row of a block are contiguous in memory, at least, up to ACCESS_RUN. */
static int run_of_write(Tiles *t, const Op *write, const Type *type, RowPlace at) {
  const Sym *along = access_contiguous(t, write), *row = type->dims[at.along];
  if (along) return dim_base(along) == dim_base(row) ? ACCESS_RUN : 1;
  return access_run(t, write, row, at.tile->start[at.along], at.tile->extent[at.along], ACCESS_RUN);
}

/* Rows of blocks are contiguous in memory, at least for a while, and nothing but their ends is looked
 * up. */
static bool is_suitable(Tiles *t, const Op *write, const Type *type, RowPlace at) {
  enum { LEAST_RUN = 4 };
  MemAccess a;
  return access_of(write, &a) && write->nargs == 2 && !a.ndynamic && a.replaced < 0 &&
         !memory_is_scratch(a.memory) && !op_has(write, ATTR_volatile) &&
         has_same_dims(type, write->args[0]->type) && run_of_write(t, write, type, at) >= LEAST_RUN;
}

/* ---- what the write is computed from ---- */

static bool can_hold(const Tiles *t, const Search *s, const Value *v) {
  if (v == s->result || t->tile[v->id].held != TILE_ABSENT || v->type->kind == TYPE_mem)
    return true;
  const Op *op = v->def;
  bool ok = op && op->parent == s->maker->parent && t->plan.is_inline[v->id] &&
            tile_has_size(t, op, v->type);
  for (int i = 0; ok && i < op->nargs; i++) ok = can_hold(t, s, op->args[i]);
  return ok;
}

/* What the write is computed from comes after the maker, but is pure. */
static bool hold_early(Tiles *t, const Straight *s) {
  if (!tile_set_ranges(t, s->maker, s->result->type, &t->tile[s->result->id])) return false;
  for (const Op *op = s->maker->next; op != s->write; op = op->next)
    if (op->nresults == 1 && tiles_depends(t, s->write->args[0], &op->results[0]) &&
        !tiles_hold(t, op))
      return false;
  return true;
}

/* The write; NULL: there is none. */
static const Op *search(Tiles *t, const Op *maker, const Value *result, RowPlace at) {
  Search s = {t, maker, result, ARENA_ARRAY(t->l.arena, bool, t->l.k->nvalues + 1)};
  const Op *write = find_write(&s);
  bool ok = write && !is_used_inside(&s) && is_suitable(t, write, result->type, at) &&
            is_only_access(t, write) && can_hold(t, &s, write->args[0]);
  return ok ? write : NULL;
}

static Straight *add(Tiles *t, Straight s) {
  Straight *x = ARENA_NEW(t->l.arena, Straight);
  *x = s;
  vec_push(t->l.arena, &t->straight, x);
  return x;
}

/* ---- loops ---- */

static bool has_loop_outside(const Op *loop) {
  const Sym *axis = op_attr(loop, ATTR_axis)->sym;
  for (const Op *op = loop->parent->owner; op; op = op->parent->owner)
    if (op->kind == OP_for && op_attr(op, ATTR_axis)->sym == axis) return true;
  return false;
}

static const Op *only_user(const Tiles *t, const Value *v) {
  const Op *found = NULL;
  for (const Op *op = ir_first(t->l.k); op; op = ir_next(op)) {
    if (!op_takes(op, v)) continue;
    if (found) return NULL;
    found = op;
  }
  return found;
}

/* The product that adds to carried value number i, which nothing else uses; NULL: there is none. */
static const Op *product_in(const Tiles *t, const Op *loop, int i, Product *out) {
  const Value *arg = loop->body->args[i], *yield = loop->body->last->args[i];
  const Op *op = only_user(t, arg);
  bool ok = op && op->kind == OP_mma && op->parent == loop->body && yield == &op->results[0] &&
            only_user(t, yield) == loop->body->last && !product_of(t->l.k, op, out);
  return ok && out->acc == arg ? op : NULL;
}

static bool is_plain_loop(const Op *op) {
  return op->kind == OP_for && !op_has(op, ATTR_from) && !op_has(op, ATTR_step) &&
         !op_has(op, ATTR_version) && !has_loop_outside(op);
}

static bool is_hidden(const Tiles *t, const Sym *e) {
  FreeSymbols symbols = sym_symbols(t->l.arena, e);
  for (int i = 0; i < symbols.n; i++)
    if (symbol_is_set(&t->l.hidden, symbols.at[i])) return true;
  return false;
}

bool straight_defer(Tiles *t, const Op *loop, int i, const Tile *outside, const TileBuffer *b,
                    bool *deferred) {
  const Value *init = loop->args[op_carried(loop) + i], *result = &loop->results[i];
  Product of;
  bool filled = t->tile[init->id].held == TILE_INLINE && init->def->kind == OP_fill;
  *deferred = false;
  const Op *product = filled && is_plain_loop(loop) ? product_in(t, loop, i, &of) : NULL;
  if (!product) return true;
  const Sym *trips = emit_at_entry(&t->l, distribute_trips(t->l.d, loop));
  const Sym *columns = product_columns(t, product, outside->extent);
  RowPlace at = {outside, type_base_dim(result->type, columns)};
  const Op *write = search(t, loop, result, at);
  if (!write || is_hidden(t, trips)) return true;
  Straight *s = add(t, (Straight){.maker = loop, .write = write, .result = result, .init = init});
  s->arg = loop->body->args[i];
  s->counter = ir_loop_counter(t->l.k, op_attr(loop, ATTR_axis)->sym);
  s->trips = trips;
  s->outside = *outside;
  s->buffer = b;
  s->scope = t->l.scope;
  s->run = run_of_write(t, write, result->type, at);
  *deferred = true;
  return hold_early(t, s);
}

static bool fill(Tiles *t, const Straight *s) {
  return buffer_fill(t, s->init, s->arg->type, &s->outside, s->buffer);
}

/* Before the loop, after all. */
static bool fill_before(Tiles *t, const Straight *s) {
  LowerScope *here = t->l.scope;
  t->l.scope = s->scope;
  bool ok = fill(t, s);
  t->l.scope = here;
  return ok;
}

/* ---- opening ---- */

static bool is_held_in_vectors(const TiledProduct *p) {
  return !p->skinny && dot_info(p->tile.form)->grain <= 2;
}

bool straight_open(Tiles *t, TiledProduct *p) {
  bool vectors = is_held_in_vectors(p);
  for (int i = 0; i < t->straight.n; i++) {
    Straight *s = t->straight.at[i];
    if (s->arg != p->of.acc) continue;
    if (!vectors || p->old != p->of.acc) return fill_before(t, s);
    Point origin = tile_origin(t, s->init);
    s->used = true;
    p->straight = s;
    return (p->initial = tiles_at(t, s->init, &origin)) != NULL;
  }
  RowPlace at = {&p->at[2], p->dim_n};
  const Op *write = vectors ? search(t, p->op, p->out, at) : NULL;
  if (!write) return true;
  p->straight = add(t, (Straight){.maker = p->op,
                                  .write = write,
                                  .result = p->out,
                                  .used = true,
                                  .run = run_of_write(t, write, p->out->type, at)});
  return hold_early(t, p->straight);
}

static const Sym *simple(Tiles *t, const Sym *e) {
  return emit_sound(&t->l, sym_simplify(t->l.sym, emit_facts(&t->l), e));
}

const Sym *straight_has_sums(Tiles *t, const Straight *s) {
  return simple(t, sym_gt(t->l.sym, s->counter, sym_int(t->l.sym, 0)));
}

/* ---- the block ---- */

/* The first element of the block; dims of `out`. */
static Point corner_of(Tiles *t, const TiledProduct *p, const Block *b) {
  const Type *type = p->out->type;
  Point at = {.n = type->rank, .along = -1, .width = 1};
  for (int i = 0; i < at.n; i++) {
    at.dim[i] = type->dims[i];
    at.at[i] = i == p->dim_m   ? tiles_sum(t, p->at[2].start[i], b->row)
               : i == p->dim_n ? tiles_sum(t, p->at[2].start[i], b->column)
                               : point_get(&p->batch, type->dims[i]);
  }
  return at;
}

static bool write_at(Tiles *t, const Point *at, void *user) {
  const Op *write = *(const Op **)user;
  Value *v = tiles_wide_at(t, write->args[0], at);
  return v && access_store(t, write, at, v);
}

/* Elements of a row that are written together. */
static int vector_of(const TiledProduct *p) {
  int vector = p->b->source.vector, run = p->straight->run;
  return run < vector ? run : vector;
}

static bool write_rows(Tiles *t, const TiledProduct *p, const Block *b, Point at, Value *v) {
  Tile *result = &t->tile[p->straight->result->id];
  const Op *write = p->straight->write;
  int vector = vector_of(p);
  Point corner = at;
  bool ok = true;
  v = emit_cast(&t->l, v, p->out->type->dtype);
  nest_open(t);
  for (int i = 0; ok && i < b->m * b->n; i += at.width) {
    int left = b->n - i % b->n;
    at.width = left < vector ? left : vector;
    at.along = at.width > 1 ? p->dim_n : -1;
    at.at[p->dim_m] = tiles_sum(t, corner.at[p->dim_m], sym_int(t->l.sym, i / b->n));
    at.at[p->dim_n] = tiles_sum(t, corner.at[p->dim_n], sym_int(t->l.sym, i % b->n));
    result->scalar = emit_range(&t->l, v, i, at.width);
    ok = write_at(t, &at, &write);
  }
  nest_close(t);
  return ok;
}

/* As far as it exists. */
static bool write_cut(Tiles *t, const TiledProduct *p, const Block *b, const Point *corner) {
  const Op *write = p->straight->write;
  NestBox box = {.rank = corner->n, .along = p->dim_n, .width = vector_of(p), .cheap = true};
  for (int i = 0; i < box.rank; i++) {
    box.dim[i] = corner->dim[i];
    box.start[i] = corner->at[i];
    box.extent[i] = i == p->dim_m ? b->m : i == p->dim_n ? b->n : 1;
    if (box.extent[i] > 1 || i == p->dim_m || i == p->dim_n)
      box.end[i] = access_limit(t, write, box.dim[i]);
  }
  if (box.width > b->n) box.width = b->n;
  return nest_run(t, &box, write_at, &write);
}

/* ---- conditions ---- */

/* Whether `more` rows and columns of the block exist. */
static const Sym *exists(Tiles *t, const TiledProduct *p, const Point *corner, int m, int n) {
  SymCtx *sym = t->l.sym;
  const Sym *all = sym_bool(sym, true);
  for (int i = 0; i < corner->n; i++) {
    const Sym *end = access_limit(t, p->straight->write, corner->dim[i]);
    if ((i != p->dim_m && i != p->dim_n) || !end) continue;
    const Sym *last = sym_add(sym, corner->at[i], sym_int(sym, i == p->dim_m ? m : n));
    all = sym_and(sym, all, sym_le(sym, last, end));
  }
  return all;
}

/* Whether the block is complete: with the last part of the last tile of k. */
static const Sym *is_last(Tiles *t, const TiledProduct *p, const Block *b) {
  SymCtx *sym = t->l.sym;
  const Straight *s = p->straight;
  const Sym *last = sym_bool(sym, true);
  if (s->trips) last = sym_ge(sym, s->counter, sym_sub(sym, s->trips, sym_int(sym, 1)));
  if (b->k_to) last = sym_and(sym, last, sym_ge(sym, b->k_to, product_steps(t, p)));
  return simple(t, last);
}

/* False: nothing to emit. */
static bool open_if(Tiles *t, const Sym *condition, Branch *out) {
  *out = (Branch){.level = NULL};
  if (condition == sym_bool(t->l.sym, false)) return false;
  *out = branch_open(t, condition);
  return true;
}

/* Whether all of the block is written now, from registers. */
static const Sym *is_whole(Tiles *t, const TiledProduct *p, const Block *b, const Point *corner) {
  if (t->plan.cost[p->straight->write->args[0]->id] > MOST_COST) return sym_bool(t->l.sym, false);
  const Sym *last = is_last(t, p, b);
  return simple(t, sym_and(t->l.sym, last, exists(t, p, corner, b->m, b->n)));
}

static int line_of(const TiledProduct *p) {
  return LINE_BYTES * 8 / dtype_info[p->straight->write->args[0]->type->dtype].bits;
}

/* Rows of the block are far apart, so hardware prefetchers do not help. */
void straight_fetch(Tiles *t, const TiledProduct *p, const Block *b) {
  Branch branch;
  if (!open_if(t, straight_fetches(t, p, b), &branch)) return;
  nest_open(t);
  Point corner = corner_of(t, p, b), at = corner;
  for (int i = 0; i < b->m; i++)
    for (int j = 0; j < b->n; j += line_of(p)) {
      at.at[p->dim_m] = tiles_sum(t, corner.at[p->dim_m], sym_int(t->l.sym, i));
      at.at[p->dim_n] = tiles_sum(t, corner.at[p->dim_n], sym_int(t->l.sym, j));
      access_prefetch(t, p->straight->write, &at);
    }
  nest_close(t);
  branch_close(t, &branch);
}

const Sym *straight_fetches(Tiles *t, const TiledProduct *p, const Block *b) {
  Point corner = corner_of(t, p, b);
  return is_whole(t, p, b, &corner);
}

bool straight_is_linear(Tiles *t, const TiledProduct *p) {
  const Type *type = p->out->type;
  const Op *write = p->straight->write;
  return access_apart(t, write, type->dims[p->dim_n]) == sym_int(t->l.sym, 1) &&
         access_apart(t, write, type->dims[p->dim_m]);
}

int straight_lines(const TiledProduct *p, const Block *b) {
  return b->m * ((b->n + line_of(p) - 1) / line_of(p));
}

/* Lines are numbered along columns first. */
void straight_fetch_line(Tiles *t, const TiledProduct *p, const Block *b, const Sym *line) {
  SymCtx *sym = t->l.sym;
  Point at = corner_of(t, p, b);
  const Sym *rows = sym_int(sym, b->m), *wide = sym_int(sym, line_of(p));
  const Sym *column = sym_mul(sym, wide, sym_floordiv(sym, line, rows));
  at.at[p->dim_m] = tiles_sum(t, at.at[p->dim_m], sym_mod(sym, line, rows));
  at.at[p->dim_n] = tiles_sum(t, at.at[p->dim_n], column);
  access_prefetch(t, p->straight->write, &at);
}

bool straight_store(Tiles *t, const TiledProduct *p, const Block *b, Value *offset, Value *v) {
  SymCtx *sym = t->l.sym;
  Tile *result = &t->tile[p->straight->result->id], kept = *result, out = t->tile[p->out->id];
  Point corner = corner_of(t, p, b);
  const Sym *last = is_last(t, p, b);
  const Sym *whole = is_whole(t, p, b, &corner);
  const Sym *some = sym_and(sym, last, exists(t, p, &corner, 1, 1));
  const Sym *cut = simple(t, sym_and(sym, some, sym_not(sym, whole)));
  Branch branch;
  bool ok = true;
  if (open_if(t, simple(t, sym_not(sym, whole)), &branch)) {
    product_store(t, p, b, offset, v);
    branch_close(t, &branch);
  }
  if (open_if(t, whole, &branch)) {
    int granted = t->granted.n;
    for (int i = 0; i < corner.n; i++) {
      const Sym *end = access_limit(t, p->straight->write, corner.dim[i]);
      if (end && (i == p->dim_m || i == p->dim_n)) nest_grant(t, corner.dim[i], end);
    }
    *result = p->at[2];
    result->held = TILE_SCALAR;
    ok = write_rows(t, p, b, corner, v);
    t->granted.n = granted;
    branch_close(t, &branch);
  }
  if (ok && open_if(t, cut, &branch)) {
    *result = out;
    ok = write_cut(t, p, b, &corner);
    branch_close(t, &branch);
  }
  *result = kept;
  return ok;
}

/* ---- the write ---- */

const Straight *straight_of(const Tiles *t, const Op *write) {
  for (int i = 0; i < t->straight.n; i++)
    if (t->straight.at[i]->write == write && t->straight.at[i]->used) return t->straight.at[i];
  return NULL;
}

bool straight_finish(Tiles *t, const Straight *s, TilesFn *write) {
  SymCtx *sym = t->l.sym;
  Branch none;
  if (!s->trips || !open_if(t, simple(t, sym_lt(sym, s->trips, sym_int(sym, 1))), &none))
    return true;
  bool ok = fill(t, s) && write(t, s->write);
  branch_close(t, &none);
  return ok;
}
