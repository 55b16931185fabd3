/* tiles_mma.c: matmul by register tiles.
 *
 *     %r = mma %a, %b, %acc                    pack %a, pack %b
 *                                              for panels of b, panels of a {
 *                                                %c = 8 rows of 48 of the buffer of %acc
 *                                                %d = for k carry %c { wave_mma tile_8x48x1 }
 *                                                the rows back to the buffer
 *                                              }
 *
 * A loop over tiles of k carries the whole accumulator in a buffer, which stays in the caches near
 * the core; each tile of k reads and writes it once. With 64 steps of k in a tile that is one load
 * and one store per 64 products of each vector, which is hidden by them; so there is no gain in
 * keeping an m x n block in registers over all of k, which would pack b again for every row of
 * blocks. Panels of b are the outer loop: one of them (48 x 64 floats) stays in the L1 cache while
 * the panels of a stream by. The accumulator is updated in place if its old value is not needed. */
#include "ir/dtype.h"
#include "ir/region_facts.h"
#include "lower_tiles/product/tiles_product.h"
#include "lower_tiles/tiles_region.h"

/* ---- the accumulator ---- */

static bool can_hold(const TiledProduct *p, const Tiles *t, const Value *v) {
  const Tile *tile = &t->tile[v->id];
  bool same =
      tile->held == TILE_BUFFER && v->type == p->out->type && tile->buffer->stride[p->dim_n] == 1;
  for (int i = 0; same && i < v->type->rank; i++)
    same = tile->extent[i] == p->at[2].extent[i] && tile->start[i] == p->at[2].start[i];
  return same;
}

/* A buffer that the accumulator is computed from and that is not needed any more; NULL: none. */
static const Value *find_buffer(const Tiles *t, const TiledProduct *p, const Value *v) {
  if (can_hold(p, t, v)) {
    bool needed = region_of_value(v) != p->op->parent || tiles_used_later(t, p->op, v) ||
                  tiles_depends_elsewhere(t, p->of.acc, v);
    return needed ? NULL : v;
  }
  const Value *found = NULL;
  if (t->tile[v->id].held != TILE_INLINE || v->def->kind == OP_read) return NULL;
  for (int i = 0; !found && i < v->def->nargs; i++) found = find_buffer(t, p, v->def->args[i]);
  return found;
}

/* All of it is one number, with which blocks start. */
static bool is_filled(const Tiles *t, const TiledProduct *p) {
  return t->tile[p->of.acc->id].held == TILE_INLINE && p->of.acc->def->kind == OP_fill;
}

static bool open_accumulator(Tiles *t, TiledProduct *p) {
  Tile *out = &t->tile[p->out->id];
  *out = p->at[2];
  out->held = TILE_BUFFER;
  out->buffer = p->old ? t->tile[p->old->id].buffer
                       : buffer_new(t, p->out->type, &p->at[2], p->out->type->dims[p->dim_n]);
  if (!out->buffer->memory->name) out->buffer->memory->name = p->out->name;
  if (p->old == p->of.acc) return true;
  if (is_filled(t, p)) {
    Point origin = tile_origin(t, p->of.acc);
    return (p->fill = tiles_at(t, p->of.acc, &origin)) != NULL;
  }
  p->made = true;
  return true;
}

/* ---- the block in registers ---- */

Value *product_offset(Tiles *t, const TiledProduct *p, const Block *b) {
  SymCtx *sym = t->l.sym;
  const Tile *out = &t->tile[p->out->id];
  const Sym *at = sym_int(sym, 0);
  for (int i = 0; i < p->out->type->rank; i++) {
    const Sym *x = i == p->dim_m ? b->row : i == p->dim_n ? b->column : NULL;
    if (!x) x = sym_sub(sym, point_get(&p->batch, p->out->type->dims[i]), out->start[i]);
    at = sym_add(sym, at, sym_mul(sym, x, sym_int(sym, out->buffer->stride[i])));
  }
  return emit_address(&t->l, emit_sound(&t->l, at), DTYPE_index);
}

/* The initial value of a row of the block, if it is not in the buffer: acc * scale, for example. */
static Value *make_row(Tiles *t, const TiledProduct *p, const Block *b, int row) {
  SymCtx *sym = t->l.sym;
  const Type *type = p->out->type;
  Point at = {.n = type->rank, .along = b->n > 1 ? p->dim_n : -1, .width = b->n};
  for (int i = 0; i < at.n; i++) {
    const Sym *x = i == p->dim_n ? b->column : sym_add(sym, b->row, sym_int(sym, row));
    bool product = i == p->dim_m || i == p->dim_n;
    at.dim[i] = type->dims[i];
    at.at[i] = product ? emit_sound(&t->l, sym_add(sym, p->at[2].start[i], x))
                       : point_get(&p->batch, type->dims[i]);
  }
  return tiles_wide_at(t, p->of.acc, &at);
}

/* Rows of the block, concatenated, in the order in which the instruction holds sums; or the
 * reverse. */
static Value *arrange(Tiles *t, const MmaInfo *row, Value *v, bool back) {
  Layout c;
  int n = row->m * row->n, *regs = ARENA_ARRAY(t->l.arena, int, n), at[LAYOUT_DIMS];
  mma_fragment(row, MMA_C, &c);
  for (int i = 0; i < n; i++) {
    layout_at(&c, i, 0, 0, at);
    int sum = at[0] * row->n + at[1];
    if (back) regs[sum] = i;
    else regs[i] = sum;
  }
  return emit_pick(&t->l, v, regs, n);
}

/* Matrix registers load blocks from the buffer, and store them to it, directly. */
static bool is_block(const TiledProduct *p, const Block *b) {
  return b->m % dot_info(p->tile.form)->grain == 0 && dot_info(p->tile.form)->grain > 2 &&
         p->dtype == p->out->type->dtype;
}

static Value *apart_of(Tiles *t, const TiledProduct *p) {
  int64_t apart = t->tile[p->out->id].buffer->stride[p->dim_m];
  return emit_address(&t->l, sym_int(t->l.sym, apart), DTYPE_index);
}

static Value *load_sums(Tiles *t, const TiledProduct *p, const Block *b, Value *offset) {
  Lower *l = &t->l;
  const TileBuffer *buffer = t->tile[p->out->id].buffer;
  Value **rows = ARENA_ARRAY(l->arena, Value *, b->m);
  Value *args[] = {buffer->memory, offset, NULL};
  const Type *type = type_vec(l->k->cx, b->n, p->out->type->dtype);
  if (!p->made && is_block(p, b)) {
    Attr count = {.key = ATTR_rows, .integer = b->m};
    args[2] = apart_of(t, p);
    return emit_op(l, OP_load_rows, args, 3, &count, 1,
                   type_vec(l->k->cx, b->m * b->n, p->out->type->dtype));
  }
  for (int i = 0; i < b->m; i++) {
    Attr imm = {.key = ATTR_imm, .integer = i * buffer->stride[p->dim_m]};
    rows[i] = p->made ? make_row(t, p, b, i) : emit_op(l, OP_load, args, 2, &imm, i ? 1 : 0, type);
    if (!rows[i]) return NULL;
  }
  return emit_cast(l, emit_join(l, rows, b->m), p->dtype);
}

/* `first`, unless the condition holds. */
static Value *load_if(Tiles *t, const TiledProduct *p, const Block *b, Value *offset,
                      const Sym *condition, Value *first) {
  Lower *l = &t->l;
  Value *args[] = {emit_expr(l, condition, DTYPE_i1), first};
  Op *op = ir_op_new(l->k, OP_if, l->at, args, 2);
  tiles_insert(t, op);
  ir_set_results(l->k, op, &first->type, 1);
  Region *body = ir_region_new(l->k, op);
  ir_add_arg(l->k, body, first->type, NULL);
  SavedScope saved = tiles_open_scope(t, body, emit_facts(l));
  Value *sums = load_sums(t, p, b, offset);
  emit_op(l, OP_yield, &sums, 1, NULL, 0, NULL);
  tiles_close_scope(t, saved);
  return &op->results[0];
}

/* Whether the buffer holds sums of earlier tiles or parts of k, and not only the initial value. */
static const Sym *has_sums(Tiles *t, const TiledProduct *p, const Block *b) {
  SymCtx *sym = t->l.sym;
  const Sym *any = sym_bool(sym, false);
  if (p->initial) any = straight_has_sums(t, p->straight);
  if (b->k_from) any = sym_or(sym, any, sym_gt(sym, b->k_from, sym_int(sym, 0)));
  return emit_sound(&t->l, sym_simplify(sym, emit_facts(&t->l), any));
}

Value *product_load(Tiles *t, const TiledProduct *p, const Block *b, Value *offset) {
  Value *number = p->initial ? p->initial : p->fill;
  if (!number) return load_sums(t, p, b, offset);
  const Sym *later = has_sums(t, p, b);
  Value *first = emit_splat(&t->l, emit_cast(&t->l, number, p->dtype), b->m * b->n);
  return later == sym_bool(t->l.sym, false) ? first : load_if(t, p, b, offset, later, first);
}

void product_store(Tiles *t, const TiledProduct *p, const Block *b, Value *offset, Value *v) {
  Lower *l = &t->l;
  const TileBuffer *buffer = t->tile[p->out->id].buffer;
  if (is_block(p, b)) {
    Attr count = {.key = ATTR_rows, .integer = b->m};
    Value *args[] = {v, buffer->memory, offset, apart_of(t, p)};
    emit_op(l, OP_store_rows, args, 4, &count, 1, NULL);
    return;
  }
  v = emit_cast(l, v, p->out->type->dtype);
  for (int i = 0; i < b->m; i++) {
    Attr imm = {.key = ATTR_imm, .integer = i * buffer->stride[p->dim_m]};
    Value *args[] = {emit_range(l, v, i * b->n, b->n), buffer->memory, offset};
    emit_op(l, OP_store, args, 3, &imm, i ? 1 : 0, NULL);
  }
}

/* A step of k: the first `rows` of a panel of `all` rows. */
static Value *load_panel(Tiles *t, const Panels *from, const Sym *base, const Sym *k, int rows,
                         int all) {
  Lower *l = &t->l;
  const Sym *at = sym_add(l->sym, base, sym_mul(l->sym, k, sym_int(l->sym, all)));
  Value *args[] = {from->memory, emit_address(l, emit_sound(l, at), DTYPE_index)};
  const Type *type = type_vec(l->k->cx, rows * from->source.step, from->source.dtype);
  return emit_op(l, OP_load, args, 2, NULL, 0, type);
}

/* ---- the next panels ---- */

/* Vectors of this many bytes use up panels faster than hardware prefetchers, which stop at every
 * page, bring them from the L3 cache. */
enum { FAST_VECTOR = 64 };

bool product_has_fast_vectors(const Tiles *t, const TiledProduct *p) {
  return t->l.cx->target->global_access >= FAST_VECTOR && dot_info(p->tile.form)->grain <= 2;
}

/* Steps in an iteration of the loop over k. Two need one prefetch of each panel, and one test: without
 * them 8 x 48 products of vectors leave few issue slots. */
static int steps_together(const Tiles *t, const TiledProduct *p) {
  return product_has_fast_vectors(t, p) ? 2 : 1;
}

/* Prefetches element `at` of the panel that follows the one at `base`. */
static void fetch_next(Tiles *t, const Panels *from, const Sym *base, int rows, const Sym *at) {
  Lower *l = &t->l;
  int64_t size = (int64_t)rows * pack_padded(&from->source);
  at = sym_add(l->sym, sym_add(l->sym, base, sym_int(l->sym, size)), at);
  Value *args[] = {from->memory, emit_address(l, emit_sound(l, at), DTYPE_index)};
  emit_op(l, OP_prefetch, args, 2, NULL, 0, NULL);
}

/* For step k of a block: the same step of the next panel of a; and of the next panel of b, which is
 * needed after all panels of a, as much as this step's share. */
static void fetch_panels(Tiles *t, const TiledProduct *p, const Block *b, const Sym *k) {
  SymCtx *sym = t->l.sym;
  if (!product_has_fast_vectors(t, p)) return;
  int panels = (p->a->source.extent + p->a->rows - 1) / p->a->rows;
  const Sym *depth = sym_int(sym, pack_padded(&p->a->source));
  const Sym *panel = sym_floordiv(sym, b->row, sym_int(sym, p->a->rows));
  const Sym *step = sym_add(sym, sym_mul(sym, panel, depth), k);
  fetch_next(t, p->a, b->a_base, b->m, sym_mul(sym, k, sym_int(sym, b->m)));
  fetch_next(t, p->b, b->b_base, b->b_rows,
             sym_mul(sym, step, sym_int(sym, (b->b_rows + panels - 1) / panels)));
}

/* ---- blocks ---- */

const Sym *product_steps(Tiles *t, const TiledProduct *p) {
  SymCtx *sym = t->l.sym;
  const Sym *depth = pack_depth(t, &p->a->source);
  const Sym *by = sym_int(sym, dot_info(p->tile.form)->k);
  depth = sym_mul(sym, by, sym_ceildiv(sym, depth, by));
  return emit_sound(&t->l, sym_simplify(sym, emit_facts(&t->l), depth));
}

/* Steps of k that are multiplied by a loop. */
typedef struct Steps {
  const Sym *from; /* the first that is left */
  int each;        /* in an iteration */
  bool fetch;      /* each iteration prefetches a line of the result */
} Steps;

/* One step: the operands, multiplied and added to the sums. */
static Value *multiply_step(Tiles *t, const TiledProduct *p, const Block *b, const Sym *k,
                            Value *acc) {
  const MmaInfo *row = mma_register_tile(t->l.arena, p->tile.form, b->m, b->n, 0);
  MmaChoice choice = {.name = intern(&t->l.k->cx->names, row->name)};
  Attr mma = {.key = ATTR_mma, .mma = &choice};
  Value *a = p->a->read ? in_place_load(t, p->a, b->row, k, b->m)
                        : load_panel(t, p->a, b->a_base, k, b->m, b->m);
  if (!a) return NULL;
  Value *args[] = {a, load_panel(t, p->b, b->b_base, k, b->n, b->b_rows), acc};
  return emit_op(&t->l, OP_wave_mma, args, 3, &mma, 1, acc->type);
}

/* The line of the iteration in which step k is the first one. */
static void fetch_line(Tiles *t, const TiledProduct *p, const Block *b, const Steps *s,
                       const Sym *k) {
  SymCtx *sym = t->l.sym;
  if (b->k_from) k = sym_sub(sym, k, b->k_from);
  k = sym_floordiv(sym, k, sym_int(sym, s->each * dot_info(p->tile.form)->k));
  straight_fetch_line(t, p, b, k);
}

/* The steps before `to`. NULL after reporting. */
static Value *multiply_up_to(Tiles *t, const TiledProduct *p, const Block *b, Steps *s,
                             const Sym *to, Value *acc) {
  SymCtx *sym = t->l.sym;
  int step = dot_info(p->tile.form)->k;
  const Sym *from = s->from == sym_int(sym, 0) ? NULL : s->from;
  if (!acc || s->from == to) return acc;
  NestLoop loop = loop_open(t, from, to, pack_padded(&p->a->source), s->each * step, &acc, 1);
  Value *next = loop_arg(&loop, 0);
  for (int i = 0; next && i < s->each; i++) {
    const Sym *k = sym_add(sym, loop.counter, sym_int(sym, i * step));
    next = multiply_step(t, p, b, k, next);
    if (!i) (p->next && s->each > 1 ? next_fetch : fetch_panels)(t, p, b, loop.counter);
    if (!i && s->fetch) fetch_line(t, p, b, s, loop.counter);
  }
  if (!next) return NULL;
  loop_close(t, &loop, &next);
  s->from = to;
  return loop_result(&loop, 0);
}

static const Sym *simple(Tiles *t, const Sym *e) {
  return emit_sound(&t->l, sym_simplify(t->l.sym, emit_facts(&t->l), e));
}

/* The step at which all lines of the result have been prefetched. */
static const Sym *fetch_end(Tiles *t, const TiledProduct *p, const Block *b, const Steps *s,
                            const Sym *whole) {
  SymCtx *sym = t->l.sym;
  int64_t steps = (int64_t)s->each * dot_info(p->tile.form)->k * straight_lines(p, b);
  const Sym *end = sym_min(sym, whole, sym_add(sym, s->from, sym_int(sym, steps)));
  return simple(t, sym_select(sym, straight_fetches(t, p, b), end, s->from));
}

/* All of them: several in an iteration, and what is left one by one. */
static Value *multiply_steps(Tiles *t, const TiledProduct *p, const Block *b, Value *acc) {
  SymCtx *sym = t->l.sym;
  const Sym *to = b->k_to ? b->k_to : product_steps(t, p);
  Steps s = {.from = b->k_from ? b->k_from : sym_int(sym, 0), .each = steps_together(t, p)};
  const Sym *by = sym_int(sym, s.each * dot_info(p->tile.form)->k);
  const Sym *whole = simple(t, sym_mul(sym, by, sym_floordiv(sym, to, by)));
  s.fetch = p->straight && s.each > 1 && straight_is_linear(t, p);
  if (s.fetch) acc = multiply_up_to(t, p, b, &s, fetch_end(t, p, b, &s, whole), acc);
  else if (p->straight) straight_fetch(t, p, b);
  s.fetch = false;
  if (s.each > 1) acc = multiply_up_to(t, p, b, &s, whole, acc);
  s.each = 1;
  return multiply_up_to(t, p, b, &s, to, acc);
}

static bool multiply_block(Tiles *t, const TiledProduct *p, const Block *b) {
  const MmaInfo *row = mma_register_tile(t->l.arena, p->tile.form, b->m, b->n, 0);
  Value *offset = product_offset(t, p, b), *acc = product_load(t, p, b, offset);
  if (!acc) return false;
  acc = multiply_steps(t, p, b, arrange(t, row, acc, false));
  if (!acc) return false;
  Value *sums = arrange(t, row, acc, true);
  if (p->straight) return straight_store(t, p, b, offset, sums);
  product_store(t, p, b, offset, sums);
  return true;
}

/* ---- all blocks ---- */

/* A panel of b that does not stay in half of the L1 cache, beside those of a, is multiplied in
 * parts of k of equal depth; 0: all at once. */
static int part_of_k(const Tiles *t, const TiledProduct *p, int n) {
  enum { NEAR_BYTES = 24 << 10 };
  int depth = pack_padded(&p->b->source);
  int step = dot_info(p->tile.form)->k * steps_together(t, p);
  int64_t bytes = (int64_t)dtype_bytes(p->operands, (int64_t)n * depth);
  int parts = ceil_div(bytes, NEAR_BYTES);
  bool rounds = p->dtype != p->out->type->dtype; /* each part would round sums again */
  if (parts < 2 || rounds || p->made || dot_info(p->tile.form)->grain > 2) return 0;
  return ceil_div(ceil_div(depth, parts), step) * step;
}

/* Blocks of all panels of a. */
static bool multiply_rows(Tiles *t, const TiledProduct *p, Block b) {
  bool ok = true;
  for (int below = 0; below < 2; below++) {
    PanelRun rows;
    if (!panels_open(t, p->a, below, PANELS_NEEDED, &rows)) continue;
    b.m = rows.rows, b.row = rows.first, b.a_base = rows.base;
    ok = multiply_block(t, p, &b) && ok;
    panels_close(t, &rows);
  }
  return ok;
}

/* Blocks of n columns, for all panels of a. */
static bool multiply_panel(Tiles *t, const TiledProduct *p, const PanelRun *columns, int n) {
  SymCtx *sym = t->l.sym;
  Block b = {.n = n, .column = columns->first, .b_base = columns->base, .b_rows = columns->rows};
  int part = part_of_k(t, p, columns->rows);
  if (!part) return multiply_rows(t, p, b);
  const Sym *steps = product_steps(t, p), *one = sym_int(sym, 1);
  NestLoop parts =
      loop_open(t, NULL, sym_max(sym, steps, one), pack_padded(&p->b->source), part, NULL, 0);
  b.k_from = parts.counter;
  b.k_to = sym_min(sym, sym_add(sym, parts.counter, sym_int(sym, part)), steps);
  b.k_to = emit_sound(&t->l, sym_simplify(sym, emit_facts(&t->l), b.k_to));
  bool ok = multiply_rows(t, p, b);
  loop_close(t, &parts, NULL);
  return ok;
}

/* Columns [from, to) of a panel, n at a time. */
static bool multiply_pieces(Tiles *t, const TiledProduct *p, const PanelRun *panel, const Sym *from,
                            const Sym *to, int n) {
  SymCtx *sym = t->l.sym;
  PanelRun columns = *panel;
  const Sym *group = sym_int(sym, p->b->source.k_group);
  NestLoop loop = loop_open(t, from, to, p->b->rows, n, NULL, 0);
  columns.first = sym_add(sym, columns.first, loop.counter);
  columns.base = sym_add(sym, columns.base, sym_mul(sym, loop.counter, group));
  bool ok = multiply_panel(t, p, &columns, n);
  loop_close(t, &loop, NULL);
  return ok;
}

/* That panel: two vectors of columns at a time, then one. */
static bool multiply_narrow(Tiles *t, const TiledProduct *p) {
  SymCtx *sym = t->l.sym;
  const PackSource *s = &p->b->source;
  PanelRun panel;
  if (!panels_open(t, p->b, false, PANELS_NARROW, &panel)) return true;
  const Sym *left = sym_sub(sym, sym_sub(sym, s->end, s->row_start), panel.first), *from = NULL;
  left = emit_sound(&t->l, sym_min(sym, left, sym_int(sym, p->b->rows)));
  bool ok = true;
  if (p->b->rows > 2 * s->vector) {
    const Sym *two = sym_int(sym, (int64_t)2 * s->vector);
    from = sym_floordiv(sym, sym_add(sym, left, sym_int(sym, s->vector - 1)), two);
    from = emit_sound(&t->l, sym_mul(sym, from, two));
    ok = multiply_pieces(t, p, &panel, NULL, from, 2 * s->vector);
  }
  ok = ok && multiply_pieces(t, p, &panel, from, left, s->vector);
  panels_close(t, &panel);
  return ok;
}

static bool multiply(Tiles *t, const TiledProduct *p) {
  bool ok = true, narrow = pack_is_narrow(&p->b->source, p->b->rows);
  nest_open(t);
  for (int right = 0; right < 2; right++) {
    PanelRun columns;
    PanelPart part = narrow && !right ? PANELS_WIDE : PANELS_NEEDED;
    if (!panels_open(t, p->b, right, part, &columns)) continue;
    ok = multiply_panel(t, p, &columns, columns.rows) && ok;
    panels_close(t, &columns);
  }
  if (narrow) ok = multiply_narrow(t, p) && ok;
  nest_close(t);
  return ok;
}

/* ---- opening ---- */

static PackSource source_of(const Tiles *t, const TiledProduct *p, bool rhs) {
  const Value *v = rhs ? p->of.rhs : p->of.lhs;
  const Tile *tile = &p->at[rhs];
  const DotInfo *form = dot_info(p->tile.form);
  int row = type_base_dim(v->type, rhs ? p->of.roles.n : p->of.roles.m),
      k = type_base_dim(v->type, p->of.roles.k);
  PackSource s = {.of = v,
                  .row = v->type->dims[row],
                  .k = v->type->dims[k],
                  .row_start = tile->start[row],
                  .k_start = tile->start[k],
                  .extent = tile->extent[row],
                  .depth = tile->extent[k],
                  .beside = rhs ? p->m : p->n,
                  .vector = t->l.cx->target->global_access * 8 / dtype_info[p->dtype].bits,
                  .others = {.along = -1, .width = 1},
                  .dtype = p->operands,
                  .k_group = rhs ? form->k_group_b : form->k_group_a,
                  .step = form->k,
                  .by_vectors = rhs && form->grain == 1};
  for (int i = 0; i < v->type->rank; i++) {
    if (i == row || i == k) continue;
    const Sym *at = point_get(&p->batch, v->type->dims[i]);
    s.others.dim[s.others.n] = v->type->dims[i];
    s.others.at[s.others.n++] = at ? at : tile->start[i];
  }
  return s;
}

/* Where both operands are 0 nothing is added. */
static void leave_out_zeros(Tiles *t, PackSource *a, PackSource *b) {
  const Sym *end = a->k != b->k ? NULL : access_zeros_from(t, a->of, a->k);
  if (end && end == access_zeros_from(t, b->of, b->k) && a->k_start == b->k_start)
    a->k_end = b->k_end = end;
}

/* The positions of the operands, and how much of them is needed. */
static void open_sources(Tiles *t, TiledProduct *p) {
  PackSource *a = &p->source[0], *b = &p->source[1];
  *a = source_of(t, p, false), *b = source_of(t, p, true);
  if (p->old) { /* blocks that are skipped hold something */
    a->end = tiles_needed(t, p->of.roles.m);
    b->end = tiles_needed(t, p->of.roles.n);
  }
  leave_out_zeros(t, a, b);
}

static bool pack_operands(Tiles *t, TiledProduct *p) {
  bool in_place = in_place_choose(t, p);
  p->a = in_place ? &p->in_place : pack_panels(t, &p->source[0], p->tile.m);
  p->b = p->a ? pack_panels(t, &p->source[1], p->tile.n) : NULL;
  return p->b != NULL;
}

/* With prefetches of the next operands, if that is of use; otherwise without. */
static bool multiply_packed(Tiles *t, TiledProduct *p) {
  SymCtx *sym = t->l.sym;
  const Sym *next = next_condition(t, p), *yes = sym_bool(sym, true), *no = sym_bool(sym, false);
  p->next = next == yes;
  if (next == yes || next == no) return multiply(t, p);
  Branch is = branch_open(t, next);
  p->next = true;
  bool ok = multiply(t, p);
  branch_close(t, &is);
  Branch is_not = branch_open(t, emit_sound(&t->l, sym_not(sym, next)));
  p->next = false;
  ok = ok && multiply(t, p);
  branch_close(t, &is_not);
  return ok;
}

/* The lhs in place, if all of it exists; otherwise packed. */
static bool multiply_all(Tiles *t, TiledProduct *p) {
  SymCtx *sym = t->l.sym;
  if (!p->a->read) return multiply_packed(t, p);
  if (p->in_place_if == sym_bool(sym, true)) return multiply(t, p);
  Branch there = branch_open(t, p->in_place_if);
  bool ok = multiply(t, p);
  branch_close(t, &there);
  Branch cut = branch_open(t, emit_sound(&t->l, sym_not(sym, p->in_place_if)));
  p->source[0].tied = true;
  ok = ok && (p->a = pack_panels(t, &p->source[0], p->tile.m)) && multiply(t, p);
  branch_close(t, &cut);
  return ok;
}

/* The block in registers, and the type in which operands are packed. */
static void choose_tile(const Tiles *t, TiledProduct *p) {
  TileProduct wanted = {.sum = (unsigned)dtype_mma(p->dtype), .bits = dtype_info[p->dtype].bits};
  wanted.a = (unsigned)dtype_mma(p->of.lhs->type->dtype);
  wanted.b = (unsigned)dtype_mma(p->of.rhs->type->dtype);
  wanted.rows = p->m, wanted.columns = p->n;
  p->tile = register_tile(t->l.cx->target, &wanted);
  p->operands = p->dtype;
  for (int i = 0; p->tile.form != DOT_tile && i < DTYPE_COUNT; i++)
    if (dot_info(p->tile.form)->types == (unsigned)dtype_mma((DType)i)) p->operands = (DType)i;
}

static void remark(const Tiles *t, const TiledProduct *p) {
  const MmaInfo *row = mma_register_tile(t->l.arena, p->tile.form, p->tile.m, p->tile.n, 0);
  const char *how[] = {[SKINNY_NOT] = "", [SKINNY_AXPY] = ", rhs read in place"};
  bool dots = p->skinny == SKINNY_DOTS;
  diag_add(&t->l.k->cx->diags, DIAG_R0602, p->op->at, "%dx%dx%d by %s%s%s%s on %s", p->m, p->n,
           p->k, dots ? "" : "`", dots ? "vectors along k, read in place" : row->name,
           dots ? "" : "`", dots ? "" : how[p->skinny], t->l.cx->target->name);
}

/* The operands, exchanged if the product is computed transposed. */
static bool take_operands(Tiles *t, TiledProduct *p) {
  const Type *out = p->out->type;
  if (product_of(t->l.k, p->op, &p->of) || !tile_set_ranges(t, p->op, out, &p->at[2])) return false;
  Product of = p->of;
  if (product_columns(t, p->op, p->at[2].extent) == of.roles.n) return true;
  p->of.lhs = of.rhs, p->of.rhs = of.lhs;
  p->of.roles.m = of.roles.n, p->of.roles.n = of.roles.m;
  return true;
}

static bool open_product(Tiles *t, const Op *op, TiledProduct *p) {
  *p = (TiledProduct){.op = op, .out = &op->results[0]};
  if (!take_operands(t, p)) return false;
  const Type *of[3] = {p->of.lhs->type, p->of.rhs->type, p->out->type};
  for (int i = 0; i < 2; i++)
    if (!tile_set_ranges(t, op, of[i], &p->at[i])) return false;
  p->dim_m = type_base_dim(of[2], p->of.roles.m);
  p->dim_n = type_base_dim(of[2], p->of.roles.n);
  p->m = p->at[2].extent[p->dim_m];
  p->n = p->at[2].extent[p->dim_n];
  p->k = p->at[0].extent[type_base_dim(of[0], p->of.roles.k)];
  DType c = of[2]->dtype;
  p->dtype = dtype_info[c].bits >= 32 ? c : dtype_is_float(c) ? DTYPE_f32 : DTYPE_i32;
  if (!dtype_is_float(c) && dtype_is_float(of[0]->dtype))
    return tiles_refuse(t, op, "an mma of floats with an integer accumulator");
  p->old = find_buffer(t, p, p->of.acc);
  return true;
}

static bool multiply_at(Tiles *t, const Point *at, void *user) {
  TiledProduct *p = user;
  p->batch = *at;
  open_sources(t, p);
  return p->skinny ? skinny_multiply(t, p) : pack_operands(t, p) && multiply_all(t, p);
}

/* The dims other than m and n: one product for each of their coordinates. */
static NestBox batch_box(const Tiles *t, const TiledProduct *p) {
  NestBox all = nest_box(t, p->out->type, &p->at[2]), b = {.along = -1, .width = 1};
  for (int i = 0; i < all.rank; i++) {
    if (i == p->dim_m || i == p->dim_n) continue;
    b.dim[b.rank] = all.dim[i];
    b.start[b.rank] = all.start[i];
    b.extent[b.rank++] = all.extent[i];
  }
  return b;
}

static bool is_single(const NestBox *b) {
  for (int i = 0; i < b->rank; i++)
    if (b->extent[i] != 1) return false;
  return true;
}

/* Operands are packed first: they may be computed from what the accumulator's buffer holds until
 * then. */
static bool multiply_single(Tiles *t, TiledProduct *p) {
  if (p->skinny) return open_accumulator(t, p) && skinny_open(t, p) && skinny_multiply(t, p);
  return pack_operands(t, p) && open_accumulator(t, p) && multiply_all(t, p);
}

static void choose_form(Tiles *t, TiledProduct *p, const NestBox *b) {
  p->batch = (Point){.n = b->rank, .along = -1, .width = 1};
  for (int i = 0; i < b->rank; i++) p->batch.dim[i] = b->dim[i], p->batch.at[i] = b->start[i];
  choose_tile(t, p);
  open_sources(t, p);
  skinny_choose(t, p);
  open_sources(t, p);
  remark(t, p);
}

bool tiles_mma(Tiles *t, const Op *op) {
  TiledProduct p;
  if (!open_product(t, op, &p)) return false;
  NestBox b = batch_box(t, &p);
  choose_form(t, &p, &b);
  if (!straight_open(t, &p)) return false;
  if (is_single(&b)) return multiply_single(t, &p);
  if (tiles_depends(t, p.of.lhs, p.of.acc) || tiles_depends(t, p.of.rhs, p.of.acc))
    return tiles_refuse(t, op, "several mma ops whose operands depend on the accumulator");
  return open_accumulator(t, &p) && skinny_open(t, &p) && nest_run(t, &b, multiply_at, &p);
}
