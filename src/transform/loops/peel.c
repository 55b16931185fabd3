/* peel: the last iteration of a loop runs apart, without what only the iteration after it would use.
 *
 *     %r, %s = for K with {trips = T}              %m, %n = for K with {trips = Max(T - 1, 0)}
 *         carry %sum = %z, %w = %w0 {                  carry %sum = %z, %w = %w0 {
 *       %p = wgmma ... tile $ARGK + 1                the body as it was
 *       %t = wgmma %sum, %w, ...                   }
 *       wgmma_wait 0                          =>   %b = expr Max(T - 1, 0)
 *       %v = exp2 %p                               %r, %s = for K from %b with {trips = T}
 *       yield %t, %v                                   carry %sum = %m, %w = %n {
 *     }                                              %t = wgmma %sum, %w, ...
 *     store %r, ...           (nothing uses %s)      wgmma_wait 0
 *                                                    yield %t, %w
 *                                                  }
 *
 * `stages` lets products and what follows them begin an iteration early. Past the last iteration there is no
 * tile for them: they would compute for nothing, as long as an iteration takes, once in every workgroup.
 * What arrives at barriers or closes a group stays, so that both are counted as before, and so do waits, except
 * those for a tile that only such a product would read, if there is none.
 *
 * Only loops with a wgmma that can be omitted. Comes before `guards`: the iteration that has no next tile would
 * be the one that needs masks. */
#include "ir/region_facts.h"
#include "transform/loops/last_wait.h"
#include "transform/loops/two_loops.h"
#include "transform/pass.h"

typedef struct Peel {
  Kernel *k;
  Arena *scratch;
  SymCtx *sym;
  const SymFacts *entry; /* what holds throughout the kernel */
  bool changed;
} Peel;

/* ---- what the last iteration needs ---- */

/* Whether an op, with what is nested in it, has no effect but its results. */
static bool only_computes(const Op *op) {
  unsigned flags = op_info[op->kind].flags;
  if (flags & (OPF_PURE | OPF_READS))
    return !(flags & (OPF_WRITES | OPF_SYNC)) && !op_has(op, ATTR_volatile);
  if (op->kind != OP_if) return op->kind == OP_yield;
  for (const Op *in = op->body->first; in; in = in->next)
    if (!only_computes(in)) return false;
  return true;
}

static bool has_needed(const Op *op, const bool *needed) {
  for (int i = 0; i < op->nresults; i++)
    if (needed[op->results[i].id]) return true;
  return false;
}

static void need_operands(const Op *op, bool *needed) {
  for (const Op *in = op; in && (in == op || op_is_inside(in, op)); in = ir_next(in))
    for (int i = 0; i < in->nargs; i++) needed[in->args[i]->id] = true;
}

static bool names(const Op *op, const Value *memory) {
  for (int i = 0; i < op->nargs; i++)
    if (op->args[i] == memory) return true;
  return false;
}

/* Whether idle ops of the body read the memory, and no other op names it except copies. */
static bool is_read_idly(const Op *loop, const Value *memory, const bool *idle) {
  bool read = false;
  for (const Op *op = loop->body->first; op; op = ir_next(op)) {
    if (!op_is_inside(op, loop)) break;
    if (op->kind == OP_tma_load || !names(op, memory)) continue;
    if (!idle[op->id]) return false;
    read = true;
  }
  return read;
}

/* The loop that has the other iterations of this one (`skip`); NULL: it has all. */
static const Op *rest_of(const Op *loop) {
  const Op *next = loop->next;
  while (next && next->kind != OP_for) next = next->next;
  bool same = next && op_attr(next, ATTR_axis)->sym == op_attr(loop, ATTR_axis)->sym;
  return same && op_has(next, ATTR_from) ? next : NULL;
}

/* Whether it waits for copies of tiles that nothing reads. */
static bool waits_idly(const Peel *x, const Op *loop, const Op *op, const bool *idle) {
  bool found = false;
  if (op->kind != OP_mbar_wait || rest_of(loop)) return false;
  for (const Op *copy = ir_first(x->k); copy; copy = ir_next(copy)) {
    if (copy->kind != OP_tma_load || copy->args[2] != op->args[0]) continue;
    if (!is_read_idly(loop, copy->args[0], idle)) return false;
    found = true;
  }
  return found;
}

/* By op id: the ops of the body that the last iteration does not need; NULL: no product is among them. */
static const bool *find_idle(Peel *x, const Op *loop) {
  bool *idle = ARENA_ARRAY(x->scratch, bool, x->k->nops), any = false;
  bool *needed = ARENA_ARRAY(x->scratch, bool, x->k->nvalues);
  const Op *yield = loop->body->last;
  for (int i = 0; i < loop->nresults; i++)
    if (ir_count_uses(x->k->body, &loop->results[i])) needed[yield->args[i]->id] = true;
  for (const Op *op = yield->prev; op; op = op->prev) {
    idle[op->id] = only_computes(op) && !has_needed(op, needed);
    any |= idle[op->id] && op->kind == OP_wgmma;
    if (!idle[op->id]) need_operands(op, needed);
  }
  for (const Op *op = yield->prev; any && op; op = op->prev)
    idle[op->id] |= waits_idly(x, loop, op, idle);
  return any ? idle : NULL;
}

/* ---- rewriting ---- */

/* Yields the carried values in place of what idle ops computed: nothing uses them. */
static void omit(Op *loop, const bool *idle) {
  Op *yield = loop->body->last;
  for (int i = 0; i < yield->nargs; i++) {
    const Op *def = yield->args[i]->def;
    if (def && def->parent == loop->body && idle[def->id]) yield->args[i] = loop->body->args[i];
  }
  for (Op *op = loop->body->first, *next; op; op = next) {
    next = op->next;
    if (op != yield && idle[op->id]) ir_remove(op);
  }
}

/* The loop has a next iteration now: what was computed for the case that it has none is simpler. */
static void simplify(const Peel *x, const SymFacts *around, Op *loop) {
  const SymFacts *inside = region_facts(x->k, x->scratch, loop, x->entry, around);
  for (Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op)) {
    const Attr *e = op_attr(op, ATTR_expr);
    const Sym *simple = e ? sym_simplify(x->sym, inside, e->sym) : NULL;
    if (simple) op_set_attr(x->k, op, (Attr){.key = ATTR_expr, .sym = simple});
    else sym_take_error(x->sym);
  }
}

/* Arrivals count for the phase that a wave has waited for, so waits stay where these do. */
static void keep_waits(const Peel *x, const SymFacts *around, Op *loop, const Sym *trips) {
  for (Op *op = loop->body->first, *next; op; op = next) {
    next = op->next;
    last_wait_omit(x->k, around, loop, op, trips);
  }
}

static void divide(void *user, const SymFacts *around, Op *loop) {
  Peel *x = user;
  SymCtx *cx = x->sym;
  const bool *idle = two_loops_multiply(loop) ? find_idle(x, loop) : NULL;
  if (!idle) return;
  const Sym *trips = op_attr(loop, ATTR_trips)->sym, *one = sym_int(cx, 1);
  const Sym *before = sym_max(cx, sym_sub(cx, trips, one), sym_int(cx, 0));
  before = before ? sym_simplify(cx, around, before) : NULL;
  if (!before) {
    sym_take_error(cx);
    return;
  }
  if (before != sym_int(cx, 0))
    simplify(x, around, two_loops_divide(x->k, x->scratch, around, loop, before));
  omit(loop, idle);
  if (rest_of(loop)) keep_waits(x, around, loop, op_attr(rest_of(loop), ATTR_trips)->sym);
  x->changed = true;
}

bool pass_peel(Kernel *k, PassCtx *cx) {
  Peel x = {.k = k, .scratch = cx->scratch, .sym = k->cx->sym, .entry = cx->facts.header};
  two_loops_search(k, cx->scratch, cx->facts.header, divide, &x);
  cx->idle = !x.changed;
  return true;
}
