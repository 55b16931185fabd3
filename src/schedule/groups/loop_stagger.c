/* loop_stagger.c: see loop_stagger.h. */
#include "schedule/groups/loop_stagger.h"

#include <string.h>

#include "analysis/memory_uses.h"
#include "ir/region_facts.h"
#include "ir/schedule/turn_ops.h"

/* ---- ops ---- */

static bool counts_to_none(const Op *op, const char *counter) {
  const Attr *counters = op_attr(op, ATTR_counters);
  for (int i = 0; counters && i < counters->n; i++)
    if (strcmp(counters->counts[i].name, counter) == 0) return counters->counts[i].count == 0;
  return false;
}

bool stagger_joins(const Op *op) {
  return op->kind == OP_workgroup_barrier || op->kind == OP_counter_barrier ||
         memory_is_ordered_by(op, "workgroup");
}

bool stagger_waits(const Op *op) {
  if (op->kind == OP_counter_barrier) return counts_to_none(op, "ds");
  return op->kind != OP_workgroup_barrier;
}

bool stagger_drains(const Op *op) {
  return op->kind == OP_counter_wait && counts_to_none(op, "ds");
}

bool stagger_meets(const Op *op) {
  for (const Op *in = op; in && op_is_inside(in, op); in = ir_next(in))
    if (stagger_joins(in) || turn_is_lagged(in) || in->kind == OP_barrier_signal ||
        in->kind == OP_barrier_wait)
      return true;
  return false;
}

/* ---- conditions ---- */

enum { DIMS = 3 };

/* The threads of a workgroup along each dimension, as they are numbered when the kernel is lowered. */
static bool threads_of(const Distribution *d, int64_t *threads) {
  const MachineSpec *m = kernel_machine(d->k);
  if (!m) return false;
  threads[0] = (int64_t)m->lanes * m->waves, threads[1] = threads[2] = 1;
  for (int i = 0; m->observable && i < DIMS; i++) {
    const Sym *n = d->threads[i] ? distribute_fixed(d, d->threads[i]) : NULL;
    if (!n || !sym_is_int(n, &threads[i])) return false;
  }
  return true;
}

/* Whether a thread executes the body of a conditional; false if that is unknown. */
static bool executes(const Distribution *d, const Op *op, const int64_t *threads, int64_t thread,
                     int64_t *does) {
  SymBinding at[2 * DIMS];
  SymCtx *cx = d->k->cx->sym;
  for (int i = 0; i < 2 * DIMS; i++) {
    const Sym *id = ir_numbered_symbol(d->k->cx, "$T", i / 2, i % 2);
    at[i] = (SymBinding){id, sym_int(cx, thread % threads[i / 2])};
    if (i % 2) thread /= threads[i / 2];
  }
  const Sym *condition = distribute_expr(d, op, op_attr(op, ATTR_expr)->sym);
  condition = condition ? sym_subst(cx, condition, at, 2 * DIMS) : NULL;
  return condition && sym_eval(condition, NULL, 0, does);
}

/* Whether each wave executes exactly one of two conditionals; both are the same: whether all lanes of
 * each wave agree, and not all waves do. */
static bool divide_waves(const Distribution *d, const Op *a, const Op *b) {
  const MachineSpec *m = kernel_machine(d->k);
  int64_t threads[DIMS], first = 0, by_a, by_b;
  bool differ = false;
  if (!threads_of(d, threads)) return false;
  for (int64_t t = 0; t < (int64_t)m->lanes * m->waves; t++) {
    if (!executes(d, a, threads, t, &by_a) || !executes(d, b, threads, t, &by_b)) return false;
    if (a != b && by_a == by_b) return false;
    if (t % m->lanes == 0 && t) differ |= by_a != first;
    else if (t && by_a != first) return false;
    first = by_a;
  }
  return differ;
}

/* ---- conditionals ---- */

/* Where there are barriers, a condition that is a value is the same in all threads. */
static bool depends_on_threads(const Op *op) {
  const Attr *test = op->kind == OP_if ? op_attr(op, ATTR_expr) : NULL;
  return test && ir_expr_mentions(test->sym, "$T");
}

static bool has_one_barrier(const Op *op) {
  int barriers = 0;
  for (const Op *in = op->body->first; in; in = in->next) {
    if (stagger_joins(in)) barriers++;
    else if (!(op_info[in->kind].flags & (OPF_HINT | OPF_ENDS)) && !stagger_drains(in))
      return false;
  }
  return barriers == 1;
}

bool stagger_is_partial(const Distribution *d, const Op *op) {
  return depends_on_threads(op) && has_one_barrier(op) && divide_waves(d, op, op);
}

/* ---- regions ---- */

/* All waves pass all barriers of a loop equally often, and none is in a region of its own. */
static bool is_even(const Op *loop) {
  if (!op_is_loop(loop)) return false;
  for (const Op *op = loop->body->first; op; op = op->next)
    if (stagger_meets(op) && !stagger_joins(op)) return false;
  return true;
}

/* Follows the ops of a region up to `end`. *open is the conditional since which waves are apart. */
static const Op *follow(const Distribution *d, const Region *r, const Op *end, const Op **open) {
  const Op *fault = NULL;
  *open = NULL;
  for (const Op *op = r->first; op && op != end && !fault; op = op->next) {
    const Op *inside = NULL;
    if (!op->body) {
      if (*open && stagger_meets(op)) fault = op;
    } else if (depends_on_threads(op) && stagger_meets(op)) {
      if (!stagger_is_partial(d, op) || (*open && !divide_waves(d, *open, op))) fault = op;
      *open = *open ? NULL : op;
    } else if (*open && stagger_meets(op)) {
      fault = is_even(op) ? NULL : op;
    } else {
      fault = follow(d, op->body, NULL, &inside);
      if (!fault) fault = inside;
    }
  }
  return fault;
}

const Op *stagger_opening(const Distribution *d, const Op *loop) {
  const Op *open;
  return follow(d, loop->parent, loop, &open) ? NULL : open;
}

const Op *stagger_fault(const Distribution *d) {
  const Op *open = NULL, *fault = kernel_machine(d->k) ? follow(d, d->k->body, NULL, &open) : NULL;
  return fault ? fault : open;
}
