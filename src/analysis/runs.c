/* runs.c: see runs.h. */
#include "analysis/runs.h"

static Runs uncounted(const Op *blamed, const char *why) {
  return (Runs){.why = why, .blamed = blamed};
}

static bool depends_on_loop(const Distribution *d, const Sym *e, const Op *inside) {
  for (const Op *op = inside->parent->owner; op; op = op->parent->owner)
    if (op->kind == OP_for && sym_contains(e, ir_loop_counter(d->k, op_attr(op, ATTR_axis)->sym)))
      return true;
  return false;
}

/* Their counters have one name, and only the inner one can be named there. */
static bool has_same_axis(const Op *outer, const Op *loop) {
  for (const Op *op = loop; op != outer; op = op->parent->owner)
    if (op->kind == OP_for && op_attr(op, ATTR_axis)->sym == op_attr(outer, ATTR_axis)->sym)
      return true;
  return false;
}

static const char *why_not(const Distribution *d, const Op *outer, const Op *loop) {
  const Attr *test = op_attr(outer, ATTR_expr);
  if (outer->kind == OP_if) {
    if (op_condition(outer)) return "runs under a condition that the kernel computes";
    return test && depends_on_loop(d, test->sym, outer)
               ? "runs in some iterations of another loop and not in others"
               : NULL;
  }
  if (outer->kind != OP_for) return "is inside a loop whose end the kernel computes";
  if (has_same_axis(outer, loop)) return "is inside another loop over the same dimension";
  return op_has(outer, ATTR_from) ? "is inside a loop whose start the kernel computes" : NULL;
}

Runs runs_of(const Distribution *d, const Op *loop) {
  SymCtx *cx = d->k->cx->sym;
  const Sym *trips = distribute_trips(d, loop);
  Runs r = {.before = sym_int(cx, 0)};
  if (trips) r.all = sym_ceildiv(cx, trips, sym_int(cx, op_step(loop)));
  for (const Op *op = loop; r.all; op = op->parent->owner) {
    if (depends_on_loop(d, r.all, op))
      return uncounted(op->parent->owner,
                       "does not run equally often in all iterations of another loop");
    const Op *outer = op->parent->owner;
    const char *why = outer ? why_not(d, outer, loop) : NULL;
    if (why) return uncounted(outer, why);
    if (!outer) return r;
    if (outer->kind == OP_if) continue;
    const Sym *step = sym_int(cx, op_step(outer));
    const Sym *counter = ir_loop_counter(d->k, op_attr(outer, ATTR_axis)->sym);
    r.before = sym_add(cx, r.before, sym_mul(cx, sym_floordiv(cx, counter, step), r.all));
    trips = distribute_trips(d, outer);
    r.all = trips ? sym_mul(cx, sym_ceildiv(cx, trips, step), r.all) : NULL;
  }
  return uncounted(loop, "has a number of iterations that is not known");
}
