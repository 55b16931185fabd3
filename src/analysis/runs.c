/* runs.c: see runs.h. */
#include "analysis/runs.h"

/* What is in the way of counting: it ..., and what to change. */
typedef struct Obstacle {
  const char *why, *hint;
} Obstacle;

static const Obstacle computed_condition = {"runs under a condition that the kernel computes",
                                            "let it always run, and mask what it writes"};
static const Obstacle sometimes = {"runs in some iterations of another loop and not in others",
                                   "let it run in all of them, and mask what it writes"};
static const Obstacle computed_end = {
    "is inside a loop whose end the kernel computes",
    "use a `for` with as many iterations as there can be, and mask the rest"};
static const Obstacle computed_start = {"is inside a loop whose start the kernel computes",
                                        "start at 0, and mask the first iterations"};
static const Obstacle same_axis = {"is inside another loop over the same dimension",
                                   "give the dimension of one of them another name"};
static const Obstacle uneven = {
    "does not run as often each time, nor more or less often by the same number",
    "give it `iters` that are linear in the counter, and mask the rest"};
static const Obstacle unknown = {"has a number of iterations that is not known",
                                 "give its tiling constraint `iters`"};

static Runs uncounted(const Op *blamed, const Obstacle *o) {
  return (Runs){.why = o->why, .hint = o->hint, .blamed = blamed};
}

/* The sum of f(i) for i below n, where f is linear in the counter, which is step * i; NULL: it is not. */
static const Sym *sum_below(SymCtx *cx, const Sym *f, const Sym *counter, int64_t step,
                            const Sym *n) {
  const Sym *coeff, *rest;
  if (!sym_contains(f, counter)) return sym_mul(cx, n, f);
  if (!sym_linear(cx, f, &counter, 1, &coeff, &rest)) return NULL;
  int64_t by;
  const Sym *pairs = sym_mul(cx, n, sym_sub(cx, n, sym_int(cx, 1))), *two = sym_int(cx, 2);
  const Sym *grown = sym_mul(cx, coeff, sym_int(cx, step));
  if (grown && sym_is_int(grown, &by) && by % 2 == 0)
    grown = sym_mul(cx, sym_int(cx, by / 2), pairs);
  else grown = sym_mul(cx, grown, sym_floordiv(cx, pairs, two));
  return sym_add(cx, grown, sym_mul(cx, rest, n));
}

/* Max(f, 0) is f if that is linear in the counter, and not negative the first and the last time. */
static const Sym *unbounded(const Distribution *d, const Sym *f, const Sym *counter,
                            const Sym *last) {
  SymCtx *cx = d->k->cx->sym;
  const Sym *ends[] = {sym_int(cx, 0), last}, *coeff, *rest, *none = sym_int(cx, 0);
  if (sym_kind(f) != SYM_max || sym_nargs(f) != 2 || !last) return f;
  const Sym *inside = sym_arg(cx, f, sym_arg(cx, f, 0) == none ? 1 : 0);
  if (sym_max(cx, inside, none) != f || !sym_linear(cx, inside, &counter, 1, &coeff, &rest))
    return f;
  for (int i = 0; i < 2; i++) {
    const Sym *least = sym_subst(cx, inside, &(SymBinding){counter, ends[i]}, 1);
    if (!least || sym_range(cx, d->facts, least).lo < 0) return f;
  }
  return inside;
}

/* Their counters have one name, and only the inner one can be named there. */
static bool has_same_axis(const Op *outer, const Op *loop) {
  for (const Op *op = loop; op != outer; op = op->parent->owner)
    if (op->kind == OP_for && op_attr(op, ATTR_axis)->sym == op_attr(outer, ATTR_axis)->sym)
      return true;
  return false;
}

/* Whether the loop around it sets a symbol of this expression, possibly to another value each time. */
static bool is_set_in(const Op *outer, const Sym *e) {
  for (const Op *op = outer->body->first; op && op_is_inside(op, outer); op = ir_next(op))
    if (op->kind == OP_set_symbol && sym_contains(e, op_attr(op, ATTR_version)->sym)) return true;
  return false;
}

static bool depends_on_loop(const Distribution *d, const Sym *e, const Op *inside) {
  for (const Op *op = inside->parent->owner; op; op = op->parent->owner)
    if (op->kind == OP_for &&
        (sym_contains(e, ir_loop_counter(d->k, op_attr(op, ATTR_axis)->sym)) || is_set_in(op, e)))
      return true;
  return false;
}

static const Obstacle *why_not(const Distribution *d, const Op *outer, const Op *loop) {
  const Attr *test = op_attr(outer, ATTR_expr);
  if (outer->kind == OP_if) {
    if (op_condition(outer)) return &computed_condition;
    return test && depends_on_loop(d, test->sym, outer) ? &sometimes : NULL;
  }
  if (outer->kind != OP_for) return &computed_end;
  if (has_same_axis(outer, loop)) return &same_axis;
  return op_has(outer, ATTR_from) ? &computed_start : NULL;
}

/* Of an op that is executed `once` times in each run of the loops around it. */
static Runs count_runs(const Distribution *d, const Op *inner, const Sym *once) {
  SymCtx *cx = d->k->cx->sym;
  Runs r = {.before = sym_int(cx, 0), .all = once};
  for (const Op *op = inner; r.all; op = op->parent->owner) {
    const Op *outer = op->parent->owner;
    const Obstacle *why = outer ? why_not(d, outer, inner) : NULL;
    if (why) return uncounted(outer, why);
    if (!outer) return r;
    if (outer->kind == OP_if) continue;
    int64_t step = op_step(outer);
    const Sym *counter = ir_loop_counter(d->k, op_attr(outer, ATTR_axis)->sym);
    const Sym *number = sym_floordiv(cx, counter, sym_int(cx, step));
    const Sym *trips = distribute_trips(d, outer);
    const Sym *times = trips ? sym_ceildiv(cx, trips, sym_int(cx, step)) : NULL;
    const Sym *last = times ? sym_sub(cx, times, sym_int(cx, 1)) : NULL;
    if (is_set_in(outer, r.all)) return uncounted(outer, &uneven);
    r.all = unbounded(d, r.all, counter, last ? sym_mul(cx, last, sym_int(cx, step)) : NULL);
    const Sym *earlier = sum_below(cx, r.all, counter, step, number);
    if (!earlier) return uncounted(outer, &uneven);
    r.before = sym_add(cx, r.before, earlier);
    r.all = times ? sum_below(cx, r.all, counter, step, times) : NULL;
  }
  return uncounted(inner, &unknown);
}

Runs runs_of(const Distribution *d, const Op *loop) {
  SymCtx *cx = d->k->cx->sym;
  const Sym *trips = distribute_trips(d, loop);
  const Attr *earlier = op_attr(loop, ATTR_earlier);
  if (earlier) return (Runs){.before = earlier->sym};
  return count_runs(d, loop, trips ? sym_ceildiv(cx, trips, sym_int(cx, op_step(loop))) : NULL);
}

Runs runs_of_op(const Distribution *d, const Op *op) {
  return count_runs(d, op, sym_int(d->k->cx->sym, 1));
}
