/* loop_counts.c: see loop_counts.h. */
#include "schedule/loop_counts.h"

#include "analysis/runs.h"
#include "ir/region_facts.h"

/* Loops of the same dimension, one inside the other, have counters of one name. */
static bool is_counted_twice(const Op *loop) {
  for (const Op *op = loop; op; op = op->parent->owner)
    for (const Op *outer = op->parent->owner; outer; outer = outer->parent->owner)
      if (op_has(op, ATTR_axis) && op_has(outer, ATTR_axis) &&
          op_attr(op, ATTR_axis)->sym == op_attr(outer, ATTR_axis)->sym)
        return true;
  return false;
}

static const Sym *counter_of(const Distribution *d, const Op *loop) {
  return ir_loop_counter(d->k, op_attr(loop, ATTR_axis)->sym);
}

/* An expression depends on how far the loops around this one are. */
static bool depends_on_outer(const Distribution *d, const Op *loop, const Sym *e) {
  for (const Op *op = loop->parent->owner; op; op = op->parent->owner)
    if (op->kind == OP_for && sym_contains(e, counter_of(d, op))) return true;
  return false;
}

/* What is known of the counters around a loop. */
static void assume_counters(SymFacts *f, const Distribution *d, const Op *loop) {
  SymCtx *cx = d->k->cx->sym;
  if (is_counted_twice(loop)) return;
  for (const Op *op = loop->parent->owner; op; op = op->parent->owner) {
    bool counts = op->kind == OP_for && !op_has(op, ATTR_from);
    const Sym *end = counts ? distribute_trips(d, op) : NULL;
    if (!end) continue;
    sym_assume(f, sym_ge(cx, counter_of(d, op), sym_int(cx, 0)));
    sym_assume(f, sym_lt(cx, counter_of(d, op), end));
  }
}

static int64_t most_inside(const Distribution *d, const Op *loop, const Sym *trips) {
  SymCtx *cx = d->k->cx->sym;
  Arena *a = arena_new();
  SymFacts *inside = sym_facts_new(a, cx, d->facts);
  assume_counters(inside, d, loop);
  int64_t most = sym_range(cx, inside, trips).hi;
  sym_take_error(cx);
  arena_free(a);
  return most;
}

int64_t loop_most(const Distribution *d, const Op *loop) {
  const Sym *trips = loop->kind == OP_for ? distribute_trips(d, loop) : NULL;
  if (!trips) return INT64_MAX;
  int64_t most = depends_on_outer(d, loop, trips) ? most_inside(d, loop, trips)
                                                  : sym_range(d->k->cx->sym, d->facts, trips).hi;
  return most == INT64_MAX ? most : ceil_div64(most, op_step(loop));
}

int64_t loop_most_in_all(const Distribution *d, const Op *loop) {
  const Sym *all = loop->kind == OP_for ? runs_of(d, loop).all : NULL;
  return all ? sym_range(d->k->cx->sym, d->facts, all).hi : INT64_MAX;
}
