/* eval_region.c: loops and conditionals.
 *
 * A carried value that has the loop's axis among its dimensions follows the loop: it holds what the
 * previous iteration left, at this iteration's coordinates.
 *
 * Memory: iterations alternate between two arenas, so that the values yielded by the previous
 * iteration stay valid; a value that is only passed through is copied along. Symbols set in a
 * region are restored when it ends. */
#include <math.h>

#include "backend/eval/eval.h"
#include "ir/layout_links.h"

/* ---- regions ---- */

bool eval_region(Eval *ev, const Region *r) {
  if (!eval_goes_on(ev, WORK_MOST)) return false;
  int mark = env_mark(ev);
  bool ok = true;
  for (Op *op = r->first; ok && op; op = op->next) ok = eval_op(ev, op);
  env_rewind(ev, mark);
  return ok;
}

static const Op *yield_of(const Region *r) {
  return r->last && r->last->kind == OP_yield ? r->last : NULL;
}

/* The current values: first the op's operands, then what its body yields. */
typedef struct Carried {
  Binding *at;
  int n, first; /* operand number of the first */
  bool started; /* the body ran at least once */
} Carried;

static Carried open_carried(Eval *ev, const Op *op) {
  Carried c = {.first = op_carried(op)};
  c.n = op->nargs - c.first;
  c.at = ARENA_ARRAY(ev->arena, Binding, c.n);
  for (int i = 0; i < c.n; i++) c.at[i] = ev->values[op->args[c.first + i]->id];
  return c;
}

/* t at the coordinates that `axis` has here and now. */
static Tile *follow_axis(Eval *ev, Tile *t, const Sym *axis) {
  int i = box_find(&t->box, axis);
  if (i < 0) return t;
  Axis here;
  if (!position_axis(ev, t->box.axis[i].dim, &here)) return NULL;
  if (here.n != t->box.axis[i].n) {
    eval_fail(ev, DIAG_E0705,
              "the carried value has %lld elements along `%s`, but an iteration has %lld",
              (long long)t->box.axis[i].n, eval_text(ev, here.dim), (long long)here.n);
    return NULL;
  }
  Tile *moved = arena_copy(ev->arena, t, sizeof *t);
  moved->box.axis[i].lo = here.lo;
  moved->box.axis[i].end = here.end;
  return moved;
}

/* Binds the body's arguments, from number `first` on; `axis` is the loop's, NULL for an `if`. The
 * first iteration takes the part of the initial value at its own coordinates. */
static bool bind_carried(Eval *ev, const Op *op, Carried *c, int first, const Sym *axis) {
  for (int i = 0; i < c->n; i++) {
    Tile *t = c->at[i].tile;
    Box box;
    if (t && axis && box_find(&t->box, axis) >= 0) {
      if (!c->started && !position_box(ev, op->args[c->first + i]->type, &box)) return false;
      t = c->started ? follow_axis(ev, t, axis) : tile_at(ev, op->args[c->first + i], &box);
      if (!t) return false;
    }
    if (t && !(c->at[i].tile = tile_made(ev, t))) return false;
    ev->values[op->body->args[first + i]->id] = c->at[i];
  }
  c->started = true;
  return true;
}

static void take_yields(Eval *ev, const Region *r, Carried *c, int first) {
  const Op *yield = yield_of(r);
  for (int i = 0; i < c->n; i++) {
    c->at[i] = ev->values[yield->args[first + i]->id];
    if (c->at[i].tile) c->at[i].tile = tile_keep(ev, c->at[i].tile);
  }
}

static bool set_results(Eval *ev, const Op *op, const Carried *c) {
  for (int i = 0; i < c->n; i++) {
    Binding b = c->at[i];
    if (b.tile && !(b.tile = tile_made(ev, tile_keep(ev, b.tile)))) return false;
    ev->values[op->results[i].id] = b;
  }
  return true;
}

/* A batch dimension has one coordinate inside and outside its loop, so its values can leave it. */
static bool leave_loop(Eval *ev, const Op *op, Carried *c, const Sym *axis) {
  for (int i = 0; i < c->n; i++) {
    Tile *t = c->at[i].tile;
    int at = t ? box_find(&t->box, axis) : -1;
    Axis here;
    if (at < 0 || t->box.axis[at].n != 1) continue;
    if (!position_axis(ev, t->box.axis[at].dim, &here)) return false;
    if (here.n == 1) c->at[i].tile = follow_axis(ev, t, axis);
  }
  return set_results(ev, op, c);
}

/* ---- iterations ---- */

typedef struct Iterations {
  Arena *outer;
  int parity;
} Iterations;

static Iterations open_iterations(Eval *ev) {
  Iterations it = {.outer = ev->arena};
  ev->depth++;
  while (ev->arenas.n < 2 * ev->depth) vec_push(ev->home, &ev->arenas, arena_new());
  return it;
}

static void next_iteration(Eval *ev, Iterations *it) {
  it->parity ^= 1;
  ev->arena = ev->arenas.at[2 * (ev->depth - 1) + it->parity];
  arena_reset(ev->arena);
}

static void close_iterations(Eval *ev, const Iterations *it) {
  ev->depth--;
  ev->arena = it->outer;
}

/* A value that is the same for every thread: a loop bound, a condition, a symbol. */
static bool uniform(Eval *ev, const Value *v, const char *what, int64_t *out) {
  if (tile_uniform(ev, ev->values[v->id].tile, out)) return true;
  return eval_fail(ev, DIAG_E0701, "%s differs between elements, so threads would diverge", what);
}

static int counter_slot(Eval *ev, const Sym *axis) {
  return env_slot(ev, sym_name(ir_loop_counter(ev->k, axis)));
}

/* ---- until ---- */

static bool differs(const Tile *a, const Tile *b, int64_t e) {
  if (a->i) return a->i[e] != b->i[e];
  return a->f[e] != b->f[e] &&
         isfinite(b->f[e]); /* NaN and infinity also spread from what has no weight */
}

/* Whether an iteration at `position` kept the elements of a result for which `until` says so. */
static bool kept_result(Eval *ev, const Op *op, int result, const Tile *before, const Tile *after,
                        int64_t position) {
  const SymPair *until = &op_attr(op, ATTR_until)->pairs[0];
  int at = type_dim(op->results[result].type, until->key),
      slot = env_numbered_slot(ev, "$index", 0);
  int64_t inner = 1, n = box_count(&after->box), end;
  for (int i = at + 1; i < after->box.rank; i++) inner *= after->box.axis[i].n;
  const Axis *rows = &after->box.axis[at];
  for (int64_t row = 0; row < rows->n && rows->lo + row < rows->end; row++) {
    env_set(ev, slot, rows->lo + row);
    if (!expr_value(ev, sym_ceil(ev->cx->sym, until->value), &end)) return false;
    for (int64_t e = row * inner; position >= end && e < n; e += rows->n * inner)
      for (int64_t i = 0; i < inner; i++)
        if (box_exists(&after->box, e + i) && differs(before, after, e + i))
          return eval_fail(ev, DIAG_E0715,
                           "the iteration at %lld changes result %d for %lld along `%s`, which "
                           "`until` keeps from %lld on",
                           (long long)position, result + 1, (long long)(rows->lo + row),
                           eval_text(ev, until->key), (long long)end);
  }
  return true;
}

static bool kept_results(Eval *ev, const Op *op, const Binding *before, const Carried *c,
                         const Sym *axis) {
  Axis here;
  ev->at = op->at;
  if (!position_axis(ev, axis, &here)) return false;
  for (int i = 0; i < c->n; i++) {
    const Tile *t = c->at[i].tile;
    if (!t || type_dim(op->results[i].type, op_attr(op, ATTR_until)->pairs[0].key) < 0) continue;
    if (!ir_count_uses(ev->k->body, &op->results[i])) continue;
    if (!kept_result(ev, op, i, before[i].tile, t, here.lo)) return false;
  }
  return true;
}

/* ---- for ---- */

static bool iterate(Eval *ev, const Op *op, Loop *loop, int64_t trips, Carried *c) {
  int slot = counter_slot(ev, loop->axis);
  Iterations it = open_iterations(ev);
  bool ok = true;
  for (; ok && loop->counter < trips; loop->counter += op_step(op)) {
    int mark = env_mark(ev);
    next_iteration(ev, &it);
    env_set(ev, slot, loop->counter);
    if (loop->axis == ev->tile_loop) position_enter_tile(ev, loop->counter);
    ok = bind_carried(ev, op, c, 0, loop->axis) && eval_region(ev, op->body);
    Binding *before = arena_copy(ev->arena, c->at, sizeof *before * (size_t)c->n);
    if (ok) take_yields(ev, op->body, c, 0);
    if (ok && op_has(op, ATTR_until)) ok = kept_results(ev, op, before, c, loop->axis);
    env_rewind(ev, mark);
  }
  close_iterations(ev, &it);
  return ok;
}

bool run_for(Eval *ev, Op *op) {
  Loop loop = {.axis = op_attr(op, ATTR_axis)->sym, .outer = ev->loops};
  int64_t trips;
  if (!position_trips(ev, loop.axis, &trips)) return false;
  if (op_has(op, ATTR_from) && !uniform(ev, op->args[0], "the start of the loop", &loop.counter))
    return false;
  if (loop.counter < 0) loop.counter = 0;
  Carried c = open_carried(ev, op);
  ev->loops = &loop;
  bool ok = iterate(ev, op, &loop, trips, &c);
  ev->loops = loop.outer;
  return ok && leave_loop(ev, op, &c, loop.axis);
}

/* ---- while ---- */

static bool same_carried(const Carried *a, const Binding *b) {
  for (int i = 0; i < a->n; i++) {
    if (a->at[i].memory != b[i].memory) return false;
    if (a->at[i].tile && !tile_equal(a->at[i].tile, b[i].tile)) return false;
  }
  return true;
}

/* Sets $GET_ITER_ARG_i to element 0 of each carried integer. False when the condition tests one
 * that does not exist: the condition is then false. */
static bool set_iter_args(Eval *ev, const Carried *c, const Sym *condition) {
  bool exist = true;
  for (int i = 0; i < c->n; i++) {
    const Tile *t = c->at[i].tile;
    if (!t || !t->i || !box_count(&t->box)) continue;
    env_set(ev, env_numbered_slot(ev, "$GET_ITER_ARG_", i), t->i[0]);
    bool tested = sym_contains(condition, ir_iter_arg(ev->cx, i));
    exist &= !tested || box_exists(&t->box, 0);
  }
  return exist;
}

/* Sets the axis value under all its names: the loop's version, the axis in constraints, the
 * counter. */
static void set_axis(Eval *ev, const Op *op, const Loop *loop) {
  env_set(ev, env_slot(ev, sym_name(op_attr(op, ATTR_version)->sym)), loop->counter);
  env_set_position(ev, env_slot(ev, sym_name(loop->axis)), loop->counter);
  env_set(ev, counter_slot(ev, loop->axis), loop->counter);
  Tile *t = tile_new(ev, op->body->args[0]->type->dtype, &(Box){0});
  t->i[0] = dtype_wrap(t->dtype, loop->counter);
  ev->values[op->body->args[0]->id].tile = t;
}

/* One run of the body. *stuck: it changed nothing at all, so the loop would never end. */
static bool iterate_once(Eval *ev, const Op *op, Loop *loop, Carried *c, bool *stuck) {
  Binding *before = arena_copy(ev->arena, c->at, sizeof *before * (size_t)c->n);
  uint64_t changes = ev->changes;
  int64_t axis = loop->counter;
  if (!bind_carried(ev, op, c, 1, loop->axis) || !eval_region(ev, op->body)) return false;
  if (!uniform(ev, yield_of(op->body)->args[0], "the axis value of the loop", &loop->counter))
    return false;
  take_yields(ev, op->body, c, 1);
  *stuck = changes == ev->changes && axis == loop->counter && same_carried(c, before);
  return true;
}

static bool loop_while(Eval *ev, const Op *op, Loop *loop, Carried *c) {
  const Sym *condition = op_attr(op, ATTR_expr)->sym;
  Iterations it = open_iterations(ev);
  bool ok = true, stuck = false;
  for (int64_t go = 1; ok && go;) {
    int mark = env_mark(ev);
    ev->at = op->at;
    next_iteration(ev, &it);
    set_axis(ev, op, loop);
    bool tested = set_iter_args(ev, c, condition);
    ok = expr_value(ev, condition, &go);
    go = go && tested;
    if (ok && go && stuck)
      ok = eval_fail(ev, DIAG_E0708,
                     "this loop never ends: an iteration changed neither memory nor a carried "
                     "value, and `%s` still holds",
                     eval_text(ev, condition));
    if (ok && go) ok = iterate_once(ev, op, loop, c, &stuck);
    env_rewind(ev, mark);
  }
  close_iterations(ev, &it);
  return ok;
}

bool run_while(Eval *ev, Op *op) {
  Loop loop = {.axis = op_attr(op, ATTR_axis)->sym, .outer = ev->loops};
  if (!uniform(ev, op->args[0], "the start of the loop", &loop.counter)) return false;
  Carried c = open_carried(ev, op);
  ev->loops = &loop;
  bool ok = loop_while(ev, op, &loop, &c);
  ev->loops = loop.outer;
  return ok && leave_loop(ev, op, &c, loop.axis);
}

/* ---- if ---- */

static bool condition_holds(Eval *ev, const Op *op, int64_t *out) {
  const Value *v = op_condition(op);
  return v ? uniform(ev, v, "the condition", out)
           : expr_value(ev, op_attr(op, ATTR_expr)->sym, out);
}

bool run_if(Eval *ev, Op *op) {
  int64_t holds;
  if (!condition_holds(ev, op, &holds)) return false;
  Carried c = open_carried(ev, op);
  if (holds && !(bind_carried(ev, op, &c, 0, NULL) && eval_region(ev, op->body))) return false;
  if (holds && c.n) take_yields(ev, op->body, &c, 0);
  return set_results(ev, op, &c);
}

/* ---- set_symbol ---- */

/* In a while loop the new value of its axis is a position: the size of the axis stays. */
static bool is_loop_axis(const Eval *ev, const Op *op, const Sym *symbol) {
  const Op *owner = op->parent->owner;
  while (owner && owner->kind == OP_if) owner = owner->parent->owner;
  return owner && owner->kind == OP_while && ev->loops->axis == symbol;
}

bool run_set_symbol(Eval *ev, Op *op) {
  const Sym *symbol = op_attr(op, ATTR_symbol)->sym, *version = op_attr(op, ATTR_version)->sym;
  int64_t v;
  if (!uniform(ev, op->args[0], "the value of the symbol", &v)) return false;
  env_set(ev, env_slot(ev, sym_name(version)), v);
  if (is_loop_axis(ev, op, symbol)) env_set_position(ev, env_slot(ev, sym_name(symbol)), v);
  else {
    env_set(ev, env_slot(ev, sym_name(symbol)), v);
    ev->slots.at[env_slot(ev, sym_name(symbol))].was_set = true;
  }
  bool required;
  const Sym *assumed =
      kernel_has_checks(ev->k) ? NULL : kernel_assumed_of(ev->k, symbol, &required);
  return !assumed || !expr_is_known(ev, assumed) ||
         eval_assumed(ev, assumed, required, "where the symbol is set");
}
