/* tiles_nest.c: nests of loops over a tile, with vectors in the innermost.
 *
 *     [64, 80] with vectors of 32        for $i0 with {trips = 64} {
 *                                          for $i1 step 32 with {trips = 64} { 32 at a time }
 *                                          16 at once
 *                                        }
 *
 * Extents are numbers, so the width of the rest of a row is known. Where accesses test a coordinate
 * against a limit that is not, vectors below it get a loop of their own without tests:
 *
 *     for $i1 step 32 with {trips = full} { no tests }
 *     for $i1 from full step 32 with {trips = 96} { masks } */
#include "lower_tiles/tiles_region.h"

/* ---- nests ---- */
void nest_open(Tiles *t) {
  NestLevel *n = ARENA_NEW(t->l.arena, NestLevel);
  *n = (NestLevel){.scope = t->l.scope, .granted = t->granted.n, .outer = t->level};
  t->level = n;
}

void nest_close(Tiles *t) { t->level = t->level->outer; }

/* ---- what holds in a loop ---- */

void nest_grant(Tiles *t, const Sym *dim, const Sym *limit) {
  vec_push(t->l.arena, &t->granted, ((Granted){dim, limit}));
}

bool nest_is_granted(const Tiles *t, const Sym *dim, const Sym *limit) {
  for (int i = 0; i < t->granted.n; i++)
    if (t->granted.at[i].dim == dim && t->granted.at[i].limit == limit) return true;
  return false;
}

/* `most`: an upper bound on trips; 0: unknown. */
static const SymFacts *loop_facts(Tiles *t, const Sym *counter, const Sym *trips, int64_t most,
                                  int step) {
  Lower *l = &t->l;
  SymFacts *f = sym_facts_new(l->arena, l->sym, emit_facts(l));
  const Sym *by = sym_int(l->sym, step);
  int64_t n;
  if (sym_is_int(trips, &n) || (n = most)) {
    int64_t last = n > 0 ? (n - 1) / step * step : 0;
    sym_assume_range(f, counter, 0, last);
  }
  if (!sym_is_int(trips, &n)) sym_assume(f, sym_lt(l->sym, counter, trips));
  if (step > 1) sym_assume(f, sym_eq(l->sym, sym_mod(l->sym, counter, by), sym_int(l->sym, 0)));
  return f;
}

/* ---- loops ---- */

static Op *make_loop(Tiles *t, const Sym *axis, const Sym *from, const Sym *trips, int step,
                     Value *const *carried, int n) {
  Lower *l = &t->l;
  Value **args = ARENA_ARRAY(l->arena, Value *, n + 1);
  const Type **types = ARENA_ARRAY(l->arena, const Type *, n + 1);
  int first = 0;
  if (from) args[first++] = emit_expr(l, from, DTYPE_index);
  for (int i = 0; i < n; i++) args[first + i] = carried[i], types[i] = carried[i]->type;
  Op *op = ir_op_new(l->k, OP_for, l->at, args, first + n);
  op_set_attr(l->k, op, (Attr){.key = ATTR_axis, .sym = axis});
  if (from) op_set_attr(l->k, op, (Attr){.key = ATTR_from});
  if (step > 1) op_set_attr(l->k, op, (Attr){.key = ATTR_step, .integer = step});
  op_set_attr(l->k, op, (Attr){.key = ATTR_trips, .sym = emit_at_entry(l, trips)});
  tiles_insert(t, op);
  ir_set_results(l->k, op, types, n);
  return op;
}

NestLoop loop_open(Tiles *t, const Sym *from, const Sym *trips, int64_t most, int step,
                   Value *const *carried, int n) {
  Lower *l = &t->l;
  const Sym *axis = ir_numbered_symbol(l->k->cx, "$i", t->depth++, true);
  NestLoop loop = {.counter = ir_loop_counter(l->k, axis), .granted = t->granted.n};
  const SymFacts *facts = loop_facts(t, loop.counter, trips, most, step);
  loop.op = make_loop(t, axis, from, trips, step, carried, n);
  Region *body = ir_region_new(l->k, loop.op);
  for (int i = 0; i < n; i++) ir_add_arg(l->k, body, carried[i]->type, NULL);
  loop.saved = tiles_open_scope(t, body, facts);
  tiles_define(t, loop.counter);
  NestLevel *level = ARENA_NEW(l->arena, NestLevel);
  *level = (NestLevel){
      .scope = l->scope, .counter = loop.counter, .granted = loop.granted, .outer = t->level};
  t->level = level;
  return loop;
}

void loop_close(Tiles *t, NestLoop *loop, Value *const *yields) {
  emit_op(&t->l, OP_yield, yields, loop->op->nresults, NULL, 0, NULL);
  tiles_close_scope(t, loop->saved);
  t->granted.n = loop->granted;
  t->level = t->level->outer;
  t->depth--;
}

/* ---- conditions ---- */

Branch branch_open(Tiles *t, const Sym *condition) {
  Lower *l = &t->l;
  Value *test = emit_expr(l, condition, DTYPE_i1);
  Op *op = ir_op_new(l->k, OP_if, l->at, &test, 1);
  SymFacts *facts = sym_facts_new(l->arena, l->sym, emit_facts(l));
  sym_assume(facts, condition);
  tiles_insert(t, op);
  Branch b = {tiles_open_scope(t, ir_region_new(l->k, op), facts), t->level};
  t->level = NULL; /* earlier values can still be used, but nothing is added there */
  return b;
}

void branch_close(Tiles *t, Branch *b) {
  emit_op(&t->l, OP_yield, NULL, 0, NULL, 0, NULL);
  tiles_close_scope(t, b->saved);
  t->level = b->level;
}

/* ---- boxes ---- */

NestBox nest_box(const Tiles *t, const Type *type, const Tile *tile) {
  NestBox b = {.rank = type->kind == TYPE_tile ? type->rank : 0, .along = -1, .width = 1};
  (void)t;
  for (int i = 0; i < b.rank; i++) {
    b.dim[i] = type->dims[i];
    b.start[i] = tile->start[i];
    b.extent[i] = tile->extent[i];
  }
  return b;
}

NestBox nest_without(const NestBox *b, int dim) {
  NestBox rest = *b;
  rest.rank = 0;
  rest.along = -1;
  rest.width = 1;
  for (int i = 0; i < b->rank; i++) {
    if (i == dim) continue;
    rest.dim[rest.rank] = b->dim[i];
    rest.start[rest.rank] = b->start[i];
    rest.extent[rest.rank++] = b->extent[i];
  }
  return rest;
}

/* Several registers at a time if they are short: more independent work. An exponential has a dozen
 * constants, and more than two registers at a time do not fit in addition. */
enum { LOOP_BYTES = 64, LONG_LOOP_BYTES = 32 };

static void choose(Tiles *t, NestBox *b, const Sym *along, int most, int bytes) {
  int access = t->l.machine.target->global_access;
  int vector = (access > most ? access : most) / bytes;
  for (int i = 0; along && i < b->rank; i++)
    if (dim_base(b->dim[i]) == dim_base(along) && b->extent[i] > 1) b->along = i;
  if (b->along < 0) return;
  b->width = vector < 1 ? 1 : vector;
  if (b->width > b->extent[b->along]) b->width = b->extent[b->along];
}

void nest_choose_width(Tiles *t, NestBox *b, const Sym *along, const Value *of) {
  choose(t, b, along, tile_has_function(t, of) ? LONG_LOOP_BYTES : LOOP_BYTES, tile_bytes(t, of));
}

void nest_choose_moved(Tiles *t, NestBox *b, const Sym *along, int bytes) {
  choose(t, b, along, LOOP_BYTES, bytes > 0 ? bytes : 1);
}

/* ---- along one dim ---- */

const Sym *tiles_sum(Tiles *t, const Sym *a, const Sym *b) {
  return emit_sound(&t->l, sym_add(t->l.sym, a, b));
}

static bool run_at(Tiles *t, const NestBox *b, Point p, const Sym *offset, int width,
                   NestBody *body, void *user) {
  p.at[b->along] = tiles_sum(t, b->start[b->along], offset);
  p.along = width > 1 ? b->along : -1;
  p.width = width;
  return body(t, &p, user);
}

/* Vectors of `width` from `from` (NULL: 0) to `to`; below `limit`, if given. */
static bool run_part(Tiles *t, const NestBox *b, Point p, const Sym *from, const Sym *to, int width,
                     const Sym *limit, NestBody *body, void *user) {
  int64_t first = 0, n, granted = t->granted.n;
  bool known = (!from || sym_is_int(from, &first)) && sym_is_int(to, &n);
  if (known && n <= first) return true;
  if (known && n - first <= width) {
    if (limit) nest_grant(t, b->dim[b->along], limit);
    bool ok = run_at(t, b, p, sym_int(t->l.sym, first), width, body, user);
    t->granted.n = (int)granted;
    return ok;
  }
  NestLoop loop =
      loop_open(t, first || !known ? from : NULL, to, b->extent[b->along], width, NULL, 0);
  if (limit) nest_grant(t, b->dim[b->along], limit);
  bool ok = run_at(t, b, p, loop.counter, width, body, user);
  loop_close(t, &loop, NULL);
  return ok;
}

static bool run_whole(Tiles *t, const NestBox *b, Point p, NestBody *body, void *user) {
  SymCtx *sym = t->l.sym;
  int extent = b->extent[b->along], rest = extent % b->width, full = extent - rest;
  return run_part(t, b, p, NULL, sym_int(sym, full), b->width, NULL, body, user) &&
         (!rest || run_at(t, b, p, sym_int(sym, full), rest, body, user));
}

const Sym *nest_trips(Tiles *t, int extent, const Sym *start, const Sym *end) {
  SymCtx *sym = t->l.sym;
  const Sym *all = sym_int(sym, extent);
  return end ? emit_sound(&t->l, sym_min(sym, all, sym_sub(sym, end, start))) : all;
}

const Sym *nest_below(Tiles *t, const NestBox *b, int dim, const Sym *limit) {
  SymCtx *sym = t->l.sym;
  const Sym *all = sym_int(sym, b->extent[dim]), *width = sym_int(sym, b->width);
  const Sym *below = sym_min(sym, all, sym_sub(sym, limit, b->start[dim]));
  const Sym *full = sym_mul(sym, width, sym_floordiv(sym, below, width));
  full = sym_simplify(sym, emit_facts(&t->l), sym_max(sym, full, sym_int(sym, 0)));
  return emit_sound(&t->l, full);
}

bool nest_along(Tiles *t, const NestBox *b, Point p, NestBody *body, void *user) {
  const Sym *end = b->end[b->along], *limit = end ? end : b->split;
  if (!limit) return run_whole(t, b, p, body, user);
  const Sym *stop = nest_trips(t, b->extent[b->along], b->start[b->along], end);
  const Sym *full = nest_below(t, b, b->along, limit);
  if (!run_part(t, b, p, NULL, full, b->width, limit, body, user)) return false;
  if (b->extent[b->along] % b->width == 0 && !(end && b->cheap))
    return run_part(t, b, p, full, stop, b->width, NULL, body, user);
  return run_part(t, b, p, full, stop, 1, end, body, user);
}

/* ---- whole boxes ---- */

typedef struct NestRun {
  Tiles *t;
  const NestBox *b;
  NestBody *body;
  void *user;
} NestRun;

static bool run_from(NestRun *r, int i, Point p) {
  Tiles *t = r->t;
  const NestBox *b = r->b;
  while (i < b->rank && i == b->along) i++;
  if (i == b->rank) {
    if (b->along >= 0) return nest_along(t, b, p, r->body, r->user);
    return r->body(t, &p, r->user);
  }
  p.at[i] = b->start[i];
  if (b->extent[i] == 1 && !b->end[i]) return run_from(r, i + 1, p);
  const Sym *trips = nest_trips(t, b->extent[i], b->start[i], b->end[i]);
  NestLoop loop = loop_open(t, NULL, trips, b->extent[i], 1, NULL, 0);
  if (b->end[i]) nest_grant(t, b->dim[i], b->end[i]);
  p.at[i] = tiles_sum(t, b->start[i], loop.counter);
  bool ok = run_from(r, i + 1, p);
  loop_close(t, &loop, NULL);
  return ok;
}

bool nest_run(Tiles *t, const NestBox *b, NestBody *body, void *user) {
  NestRun r = {t, b, body, user};
  Point p = {.n = b->rank, .along = -1, .width = 1};
  for (int i = 0; i < b->rank; i++) p.dim[i] = b->dim[i];
  nest_open(t);
  bool ok = run_from(&r, 0, p);
  nest_close(t);
  return ok;
}
