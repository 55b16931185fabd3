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
 * Tiles that end beyond a tensor, or that a causal mask cuts, come last. ptxas moves nothing across the
 * branch of such a conditional, so that exponentials before it and sums after it run one after the
 * other, though they are for different units.
 *
 * Only loops with wgmma, which are the ones that leave no time to lose; each becomes twice as long. */
#include "analysis/motion.h"
#include "ir/region_facts.h"
#include "transform/loops/counter.h"
#include "transform/loops/two_loops.h"
#include "transform/pass.h"

typedef struct Guards {
  Kernel *k;
  Arena *scratch;
  SymCtx *sym;
  const SymFacts *entry; /* facts that hold throughout the kernel */
  bool changed;
} Guards;

/* A loop, its counter, and the symbols that get their values in it. */
typedef struct GuardedLoop {
  Op *loop;
  const Sym *counter;
  const RegionSymbols *symbols;
} GuardedLoop;

/* ---- in how many iterations a condition does not hold yet ---- */

/* a <= b holds from some iteration on if b - a grows by a number in each: in the iterations before
 * it, `step` times the counter is less than what is missing at first. NULL: it does not grow. */
static const Sym *before_order(Guards *g, const GuardedLoop *l, const Sym *e) {
  SymCtx *cx = g->sym;
  const Sym *room = sym_sub(cx, sym_arg(cx, e, 1), sym_arg(cx, e, 0)), *zero = sym_int(cx, 0);
  if (sym_kind(e) == SYM_lt) room = sym_sub(cx, room, sym_int(cx, 1));
  const Sym *at_first = counter_put(g->k, l->counter, room, zero);
  const Sym *then = counter_put(g->k, l->counter, room, sym_int(cx, 1));
  int64_t step;
  if (!at_first || !then || !sym_is_int(sym_sub(cx, then, at_first), &step) || step <= 0)
    return NULL;
  const Sym *same = sym_add(cx, at_first, sym_mul(cx, sym_int(cx, step), l->counter));
  if (sym_sub(cx, room, same) != zero || expr_is_tied(at_first, l->symbols)) return NULL;
  return sym_ceildiv(cx, sym_neg(cx, at_first), sym_int(cx, step));
}

/* The number of first iterations in which a condition does not hold, at least; NULL: unknown. */
static const Sym *before(Guards *g, const GuardedLoop *l, const Sym *e) {
  SymKind kind = sym_kind(e);
  if (kind == SYM_le || kind == SYM_lt) return before_order(g, l, e);
  const Sym *least = NULL;
  for (int i = 0; kind == SYM_or && i < sym_nargs(e); i++) {
    const Sym *one = before(g, l, sym_arg(g->sym, e, i));
    if (!one) return NULL;
    least = least ? sym_min(g->sym, least, one) : one;
  }
  return least;
}

/* ---- which conditionals ---- */

/* Without its body the carried values stay as they are. */
static bool only_computes(const Op *op) {
  for (const Op *in = op->body->first; in; in = in->next)
    if (in->kind != OP_yield && (in->body || !op_is_pure(in))) return false;
  return true;
}

static const Sym *guard_of(Guards *g, const GuardedLoop *l, const Op *op) {
  const Attr *e = op->kind == OP_if && op->nresults ? op_attr(op, ATTR_expr) : NULL;
  return e && !op_condition(op) && only_computes(op) ? before(g, l, e->sym) : NULL;
}

static bool multiplies(const Op *loop) {
  for (const Op *op = loop->body->first; op; op = op->next)
    if (op->kind == OP_wgmma) return true;
  return false;
}

/* ---- rewriting ---- */

/* The body without its guards. */
static void copy_body(Guards *g, const GuardedLoop *l, Op *first) {
  const Region *from = l->loop->body;
  Value **map = ARENA_ARRAY(g->scratch, Value *, g->k->nvalues);
  for (int i = 0; i < from->nargs; i++) map[from->args[i]->id] = first->body->args[i];
  for (const Op *op = from->first; op; op = op->next) {
    if (!guard_of(g, l, op)) {
      ir_clone_op(g->k, first->body, op, map);
      continue;
    }
    for (int i = 0; i < op->nresults; i++) {
      Value *v = op->args[op_carried(op) + i];
      map[op->results[i].id] = map[v->id] ? map[v->id] : v;
    }
  }
}

static void divide(Guards *g, const SymFacts *around, Op *loop) {
  SymCtx *cx = g->sym;
  const Sym *trips = op_attr(loop, ATTR_trips)->sym, *none = sym_int(cx, 0), *rounds = NULL;
  GuardedLoop l = {.loop = loop, .counter = ir_loop_counter(g->k, op_attr(loop, ATTR_axis)->sym)};
  l.symbols = region_symbols(g->k, g->scratch, loop->body);
  for (const Op *op = loop->body->first; op; op = op->next) {
    const Sym *n = guard_of(g, &l, op);
    if (n) rounds = rounds ? sym_min(cx, rounds, n) : n;
  }
  if (rounds) rounds = sym_max(cx, sym_min(cx, trips, rounds), none);
  if (rounds) rounds = sym_simplify(cx, around, rounds);
  sym_take_error(cx);
  if (!rounds || rounds == none || rounds == trips) return;
  Op *first = two_loops_first(g->k, g->scratch, loop, rounds);
  copy_body(g, &l, first);
  two_loops_second(g->k, around, loop, first, rounds);
  g->changed = true;
}

static void search(Guards *g, const SymFacts *facts, const Region *r) {
  for (Op *op = r->first, *next; op; op = next) {
    next = op->next;
    if (op->body) search(g, region_facts(g->k, g->scratch, op, g->entry, facts), op->body);
    bool plain = op->kind == OP_for && !op_has(op, ATTR_from) && op_step(op) == 1;
    if (plain && multiplies(op)) divide(g, facts, op);
  }
}

bool pass_guards(Kernel *k, PassCtx *cx) {
  Guards g = {.k = k, .scratch = cx->scratch, .sym = k->cx->sym, .entry = cx->facts.header};
  search(&g, g.entry, k->body);
  cx->idle = !g.changed;
  return true;
}
