/* region_facts.c: see region_facts.h. */
#include "ir/region_facts.h"

#include <string.h>

const Op *op_loop_around(const Op *op) {
  const Op *loop = op->parent->owner;
  while (loop && !op_is_loop(loop)) loop = loop->parent->owner;
  return loop;
}

Op *kernel_only_loop(const Kernel *k) {
  Op *found = NULL;
  for (Op *op = ir_first(k); op; op = ir_next(op)) {
    if (!op_is_loop(op)) continue;
    if (found || op->kind != OP_for || op->parent != k->body || op_has(op, ATTR_from)) return NULL;
    found = op;
  }
  return found;
}

const Op *op_outermost_loop(const Op *op) {
  const Op *found = NULL;
  for (; op; op = op->parent->owner)
    if (op_is_loop(op)) found = op;
  return found;
}

const Op *op_ancestor_in(const Op *op, const Region *r) {
  while (op && op->parent != r) op = op->parent->owner;
  return op;
}

const Region *region_around_both(const Op *a, const Op *b) {
  const Region *r = a->parent;
  while (!op_ancestor_in(b, r)) r = r->owner->parent;
  return r;
}

static bool is_in_loop(const Region *r) {
  for (; r->owner; r = r->owner->parent)
    if (r->owner->kind != OP_if) return true;
  return false;
}

bool op_excludes(const Kernel *k, const Op *a, const Op *b) {
  const Region *r = region_around_both(a, b);
  const Op *x = op_ancestor_in(a, r), *y = op_ancestor_in(b, r);
  if (x == y || x->kind != OP_if || y->kind != OP_if || is_in_loop(r)) return false;
  const Attr *p = op_attr(x, ATTR_expr), *q = op_attr(y, ATTR_expr);
  return p && q && sym_not(k->cx->sym, p->sym) == q->sym;
}

const Op *op_alternative(const Kernel *k, const Op *op) {
  const Op *next = op->next;
  if (op->kind != OP_if || op->nresults || !next || next->kind != OP_if || next->nresults)
    return NULL;
  const Attr *p = op_attr(op, ATTR_expr), *q = op_attr(next, ATTR_expr);
  return p && q && sym_not(k->cx->sym, p->sym) == q->sym ? next : NULL;
}

bool op_comes_before(const Op *a, const Op *b) {
  while (b && b != a) b = b->prev;
  return b != NULL;
}

bool ir_expr_mentions(const Sym *s, const char *prefix) {
  const Sym *symbols[64];
  int n = sym_free_symbols(s, symbols, (int)WV_LEN(symbols));
  if (n > (int)WV_LEN(symbols)) return true; /* too many to look at: assume that it may */
  for (int i = 0; i < n; i++)
    if (strncmp(sym_name(symbols[i]), prefix, strlen(prefix)) == 0) return true;
  return false;
}

const Sym *region_condition_inside(SymCtx *cx, const Sym *condition) {
  const Sym *holds = sym_bool(cx, true);
  if (sym_kind(condition) != SYM_and)
    return ir_expr_mentions(condition, WV_ITER_ARG) ? holds : condition;
  for (int i = 0; i < sym_nargs(condition); i++)
    holds = sym_and(cx, holds, region_condition_inside(cx, sym_arg(cx, condition, i)));
  return holds;
}

/* True if an enclosing loop counts with the same symbol, which this loop hides. */
static bool loop_hides_counter(Kernel *k, const Op *loop) {
  const Sym *counter = ir_loop_counter(k, op_attr(loop, ATTR_axis)->sym);
  for (const Op *op = loop->parent->owner; op; op = op->parent->owner) {
    const Attr *axis = op_attr(op, ATTR_axis);
    if (axis && ir_loop_counter(k, axis->sym) == counter) return true;
  }
  return false;
}

const SymFacts *loop_facts(Kernel *k, Arena *a, const Op *loop, const SymFacts *entry,
                           const SymFacts *around) {
  SymCtx *cx = k->cx->sym;
  const Sym *counter = ir_loop_counter(k, op_attr(loop, ATTR_axis)->sym);
  const Sym *trips = op_attr(loop, ATTR_trips)->sym;
  SymFacts *f = sym_facts_new(a, cx, loop_hides_counter(k, loop) ? entry : around);
  sym_assume(f, sym_ge(cx, counter, sym_int(cx, 0)));
  if (!sym_contains(trips, counter)) /* otherwise it is the counter of the enclosing loop */
    sym_assume(f, sym_lt(cx, counter, trips));
  sym_take_error(cx);
  return f;
}

/* A condition that contradicts what is known makes the body dead code, where nothing needs to be
 * proved. */
const SymFacts *region_facts(Kernel *k, Arena *a, const Op *op, const SymFacts *entry,
                             const SymFacts *around) {
  SymCtx *cx = k->cx->sym;
  const Attr *condition = op_attr(op, ATTR_expr);
  if (op->kind == OP_for && op_has(op, ATTR_trips)) return loop_facts(k, a, op, entry, around);
  if (op_has(op, ATTR_axis) && loop_hides_counter(k, op)) around = entry;
  if (!condition) return around;
  SymFacts *f = sym_facts_new(a, cx, around);
  return sym_assume(f, region_condition_inside(cx, condition->sym)) ? f : around;
}
