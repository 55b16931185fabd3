/* guards: the iterations of a loop whose tiles need masks run in a loop of their own.
 *
 *     %r = for K with {trips = T} carry ... {      %m = for K with {trips = Min(T, ceiling((N - 127)/128))} {
 *       wgmma ...                                    wgmma ...
 *       %y = if (N <= 128*$ARGK + 127)               ... %x ...
 *           carry %v = %x { select ... }      =>   }
 *       ... %y ...                                 %r = for K from ... with {trips = T} {
 *     }                                              the body as it was
 *                                                  }
 *
 * Tiles that end beyond a tensor, or that a causal mask cuts, come last. Those that the start of a window
 * cuts come first, and run in a third loop. ptxas moves nothing across the branch of such a conditional,
 * so that exponentials before it and sums after it run one after the other, though they use different
 * units.
 *
 * Only loops with wgmma are divided, since their time matters most: the code of each becomes two or three
 * times as long. */
#include "analysis/motion.h"
#include "transform/loops/counter.h"
#include "transform/loops/two_loops.h"
#include "transform/pass.h"

typedef struct Guards {
  Kernel *k;
  Arena *scratch;
  SymCtx *sym;
  bool changed;
} Guards;

/* A loop, its counter, and the symbols that get their values in it. */
typedef struct GuardedLoop {
  Op *loop;
  const Sym *counter;
  const RegionSymbols *symbols;
} GuardedLoop;

/* ---- in which iterations a condition does not hold ---- */

/* From `first` on, up to `end`, which is not one of them; NULL: the last iteration is. */
typedef struct Clear {
  const Sym *first, *end;
} Clear;

static Clear clear_of_both(SymCtx *cx, Clear a, Clear b) {
  const Sym *end = !a.end ? b.end : !b.end ? a.end : sym_min(cx, a.end, b.end);
  return (Clear){sym_max(cx, a.first, b.first), end};
}

/* If b - a grows by a constant `step` in each iteration, a <= b holds from some iteration on: as soon as
 * `step` times the counter reaches what is missing at first. If b - a shrinks, a <= b holds until what is
 * there at first is used up. */
static bool clear_of_order(Guards *g, const GuardedLoop *l, const Sym *e, Clear *out) {
  SymCtx *cx = g->sym;
  const Sym *room = sym_sub(cx, sym_arg(cx, e, 1), sym_arg(cx, e, 0)), *zero = sym_int(cx, 0);
  if (sym_kind(e) == SYM_lt) room = sym_sub(cx, room, sym_int(cx, 1));
  const Sym *at_first = counter_put(g->k, l->counter, room, zero);
  const Sym *then = counter_put(g->k, l->counter, room, sym_int(cx, 1));
  int64_t step;
  if (!at_first || !then || !sym_is_int(sym_sub(cx, then, at_first), &step) || step == 0)
    return false;
  const Sym *same = sym_add(cx, at_first, sym_mul(cx, sym_int(cx, step), l->counter));
  if (sym_sub(cx, room, same) != zero || expr_is_tied(at_first, l->symbols)) return false;
  const Sym *used_up = sym_floordiv(cx, at_first, sym_int(cx, step < 0 ? -step : step));
  if (step < 0) *out = (Clear){sym_max(cx, sym_add(cx, used_up, sym_int(cx, 1)), zero), NULL};
  else *out = (Clear){zero, sym_ceildiv(cx, sym_neg(cx, at_first), sym_int(cx, step))};
  return true;
}

/* False: unknown. */
static bool clear_of(Guards *g, const GuardedLoop *l, const Sym *e, Clear *out) {
  SymKind kind = sym_kind(e);
  if (kind == SYM_le || kind == SYM_lt) return clear_of_order(g, l, e, out);
  for (int i = 0; kind == SYM_or && i < sym_nargs(e); i++) {
    Clear one;
    if (!clear_of(g, l, sym_arg(g->sym, e, i), &one)) return false;
    *out = i ? clear_of_both(g->sym, *out, one) : one;
  }
  return kind == SYM_or;
}

/* ---- which conditionals ---- */

/* Without its body the carried values stay as they are. */
static bool only_computes(const Op *op) {
  for (const Op *in = op->body->first; in; in = in->next)
    if (in->kind != OP_yield && (in->body || !op_is_pure(in))) return false;
  return true;
}

static bool is_guard(Guards *g, const GuardedLoop *l, const Op *op, Clear *out) {
  const Attr *e = op->kind == OP_if && op->nresults ? op_attr(op, ATTR_expr) : NULL;
  return e && !op_condition(op) && only_computes(op) && clear_of(g, l, e->sym, out);
}

/* ---- rewriting ---- */

/* A copy of the loop without its guards. */
static void drop_guards(Guards *g, const GuardedLoop *l, const Op *copy) {
  Clear unused;
  for (Op *op = copy->body->first, *next; op; op = next) {
    next = op->next;
    if (!is_guard(g, l, op, &unused)) continue;
    for (int i = 0; i < op->nresults; i++)
      ir_replace_uses(g->k, &op->results[i], op->args[op_carried(op) + i]);
    ir_remove(op);
  }
}

static void divide(void *user, const SymFacts *around, Op *loop) {
  Guards *g = user;
  SymCtx *cx = g->sym;
  if (!two_loops_multiply(loop)) return;
  const Sym *trips = op_attr(loop, ATTR_trips)->sym, *none = sym_int(cx, 0);
  GuardedLoop l = {.loop = loop, .counter = ir_loop_counter(g->k, op_attr(loop, ATTR_axis)->sym)};
  l.symbols = region_symbols(g->k, g->scratch, loop->body);
  Clear all = {none, NULL}, one;
  bool found = false;
  for (const Op *op = loop->body->first; op; op = op->next)
    if (is_guard(g, &l, op, &one)) all = clear_of_both(cx, all, one), found = true;
  const Sym *first = sym_min(cx, all.first, trips), *end = all.end ? all.end : trips;
  end = sym_max(cx, sym_min(cx, trips, end), first);
  if (found && end) first = sym_simplify(cx, around, first), end = sym_simplify(cx, around, end);
  sym_take_error(cx);
  if (!found || !first || !end || end == none || first == trips) return;
  if (first == none && end == trips) return;
  if (first != none) two_loops_divide(g->k, g->scratch, around, loop, first);
  drop_guards(g, &l, two_loops_divide(g->k, g->scratch, around, loop, end));
  g->changed = true;
}

bool pass_guards(Kernel *k, PassCtx *cx) {
  Guards g = {.k = k, .scratch = cx->scratch, .sym = k->cx->sym};
  two_loops_search(k, cx->scratch, cx->facts.header, divide, &g);
  cx->idle = !g.changed;
  return true;
}
