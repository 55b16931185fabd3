/* counter.c: see counter.h. */
#include "transform/loops/counter.h"

#include "ir/attr.h"

static void bind(SymCtx *cx, const Sym *symbol, const Sym *to, SymBinding out[2]) {
  for (int i = 0; i < 2; i++) out[i] = (SymBinding){sym_symbol(cx, sym_name(symbol), i == 0), to};
}

const Sym *counter_put(Kernel *k, const Sym *counter, const Sym *e, const Sym *value) {
  SymBinding to[2];
  bind(k->cx->sym, counter, value, to);
  return sym_subst(k->cx->sym, e, to, 2);
}

CounterSwap counter_swap(Kernel *k, const Op *loop, const Sym *to) {
  const Sym *symbol = ir_loop_counter(k, op_attr(loop, ATTR_axis)->sym);
  CounterSwap c = {.k = k, .symbol = symbol};
  bind(k->cx->sym, symbol, to, c.to);
  return c;
}

static const Sym *put_in(void *user, const Sym *s) {
  const CounterSwap *c = user;
  if (!sym_contains(s, c->to[0].from) && !sym_contains(s, c->to[1].from)) return s;
  const Sym *e = sym_subst(c->k->cx->sym, s, c->to, 2);
  return e && c->facts ? sym_simplify(c->k->cx->sym, c->facts, e) : e;
}

/* Inside `op` the symbol counts another loop. */
static bool hides(const CounterSwap *c, const Op *op) {
  const Attr *axis = op_attr(op, ATTR_axis);
  return axis && sym_same_name(ir_loop_counter(c->k, axis->sym), c->symbol);
}

static bool rewrite_attrs(CounterSwap *c, Op *op, bool keep) {
  for (int i = 0; i < op->nattrs; i++) {
    Attr a = op->attrs[i];
    if (!attr_rewrite(c->k, &a, put_in, c)) return sym_take_error(c->k->cx->sym), false;
    if (keep) op->attrs[i] = a;
  }
  if (keep) op_fold_value(c->k, op);
  return true;
}

bool counter_replace(CounterSwap *c, Op *op, bool keep) {
  if (!rewrite_attrs(c, op, keep)) return false;
  for (Op *inner = op->body && !hides(c, op) ? op->body->first : NULL; inner; inner = inner->next)
    if (!counter_replace(c, inner, keep)) return false;
  return true;
}
