/* loop_counted.c: see loop_counted.h. */
#include "schedule/proof/loop_counted.h"

#include "ir/region_facts.h"

enum {
  TRIED = 512,   /* combinations of values */
  NEAR = 5,      /* values below this, */
  FAR = 300,     /* below this, */
  FARTHER = 5000 /* and below this in turns */
};

/* ---- equal numbers ---- */

typedef struct Trial {
  const Distribution *d;
  const Op *tiles;
  FreeSymbols symbols;
  SymBinding *values;
  uint64_t state;
} Trial;

static int64_t draw(Trial *t, int64_t below) {
  t->state = t->state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((t->state >> 33) % (uint64_t)below);
}

static bool value_of(const Trial *t, const Sym *e, int64_t *value) {
  return e && sym_eval(e, t->values, t->symbols.n, value);
}

static int64_t drawn_value(const Trial *t, const Sym *symbol) {
  int64_t v = 0;
  value_of(t, symbol, &v);
  return v;
}

/* Workgroups, tiles and sizes that a launch may have. */
static bool is_possible(const Trial *t) {
  Kernel *k = t->d->k;
  int64_t most, holds;
  const Sym *counter = ir_loop_counter(k, op_attr(t->tiles, ATTR_axis)->sym);
  const Sym *id = ir_numbered_symbol(k->cx, "$WG", 0, true);
  if (!value_of(t, t->d->grid[0], &most) || drawn_value(t, id) >= most) return false;
  if (!value_of(t, distribute_trips(t->d, t->tiles), &most)) return false;
  if (drawn_value(t, counter) >= most) return false;
  EACH_ROW(k, assume, row)
    if (value_of(t, row->assume.condition, &holds) && !holds) return false;
  return true;
}

static bool differ_here(Trial *t, const Sym *a, const Sym *b, int number) {
  static const int below[] = {NEAR, FAR, FARTHER};
  SymCtx *cx = t->d->k->cx->sym;
  int64_t x, y;
  for (int i = 0; i < t->symbols.n; i++) {
    int most = number % 2 ? below[number / 2 % 3] : below[draw(t, 3)];
    t->values[i] = (SymBinding){t->symbols.at[i], sym_int(cx, draw(t, most))};
  }
  return is_possible(t) && value_of(t, a, &x) && value_of(t, b, &y) && x != y;
}

/* All that decides on their values, and on whether these are possible. */
static const Sym *all_of(const Trial *t, const Sym *a, const Sym *b) {
  SymCtx *cx = t->d->k->cx->sym;
  const Sym *trips = distribute_trips(t->d, t->tiles), *sum = sym_add(cx, a, b);
  sum = sym_add(cx, sum, ir_numbered_symbol(t->d->k->cx, "$WG", 0, true));
  sum = sym_add(cx, sum, ir_loop_counter(t->d->k, op_attr(t->tiles, ATTR_axis)->sym));
  return sym_add(cx, sum, trips ? sym_add(cx, trips, t->d->grid[0]) : t->d->grid[0]);
}

static bool are_equal(const Distribution *d, const Op *tiles, const Sym *a, const Sym *b) {
  SymCtx *cx = d->k->cx->sym;
  const Sym *apart = a && b ? sym_sub(cx, a, b) : NULL;
  if (!apart) return false;
  if (apart == sym_int(cx, 0)) return true;
  Arena *arena = arena_new();
  Trial t = {.d = d, .tiles = tiles, .state = 1};
  t.symbols = sym_symbols(arena, all_of(&t, a, b));
  t.values = ARENA_ARRAY(arena, SymBinding, t.symbols.n + 1);
  bool equal = true;
  for (int i = 0; i < TRIED && equal; i++) equal = !differ_here(&t, a, b, i);
  sym_take_error(cx);
  arena_free(arena);
  return equal;
}

/* ---- what the loops carry ---- */

static const Op *setter_of(const Kernel *k, const Sym *version) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_set_symbol && op_attr(op, ATTR_version)->sym == version) return op;
  return NULL;
}

static const Sym *number_of(const Value *v) {
  return v->def && v->def->kind == OP_scalar ? op_attr(v->def, ATTR_value)->sym : NULL;
}

/* Which of the values that a loop carries; -1: none. */
static int carried_as(const Op *loop, const Value *v) {
  for (int i = 0; i < loop->body->nargs; i++)
    if (loop->body->args[i] == v) return i;
  return -1;
}

bool loop_is_counted(const Distribution *d, const Op *loop) {
  SymCtx *cx = d->k->cx->sym;
  const Attr *earlier = op_attr(loop, ATTR_earlier);
  if (!earlier) return true;
  const Op *set = setter_of(d->k, earlier->sym), *tiles = set ? set->parent->owner : NULL;
  if (!tiles || tiles->kind != OP_for || !op_is_inside(loop, tiles)) return false;
  int at = carried_as(tiles, set->args[0]);
  const Sym *trips = distribute_trips(d, loop);
  if (at < 0 || !trips) return false;
  const Sym *first = number_of(tiles->args[op_carried(tiles) + at]);
  const Sym *next = number_of(tiles->body->last->args[at]);
  const Sym *own = sym_ceildiv(cx, trips, sym_int(cx, op_step(loop)));
  return first == sym_int(cx, 0) && are_equal(d, tiles, next, sym_add(cx, earlier->sym, own));
}
