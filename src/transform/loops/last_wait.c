/* last_wait.c: see last_wait.h. */
#include "transform/loops/last_wait.h"

#include "transform/loops/counter.h"

/* The number that an op waits for, as an expression; NULL: it is not one. */
static const Sym *number_of(const Value *v) {
  const Attr *e =
      v->def && v->def->kind == OP_expr && !v->def->nargs ? op_attr(v->def, ATTR_expr) : NULL;
  return e ? e->sym : NULL;
}

/* Whether the last of `trips` iterations waits for what the one before it has waited for. */
static bool repeats(Kernel *k, const SymFacts *around, const Sym *counter, const Op *wait,
                    const Sym *trips) {
  SymCtx *cx = k->cx->sym;
  const Sym *last = sym_sub(cx, trips, sym_int(cx, 1)),
            *before = sym_sub(cx, trips, sym_int(cx, 2));
  bool differs = false;
  for (int i = 1; i < wait->nargs; i++) {
    const Sym *e = number_of(wait->args[i]);
    const Sym *then = e ? counter_put(k, counter, e, last) : NULL;
    const Sym *earlier = e ? counter_put(k, counter, e, before) : NULL;
    if (!then || !earlier || sym_equal(cx, around, then, earlier) != SYM_ALWAYS)
      return sym_take_error(cx), false;
    differs |= counter_put(k, counter, e, sym_int(cx, 0)) != e;
  }
  return differs;
}

void last_wait_omit(Kernel *k, const SymFacts *around, const Op *loop, Op *wait, const Sym *trips) {
  SymCtx *cx = k->cx->sym;
  const Sym *counter = ir_loop_counter(k, op_attr(loop, ATTR_axis)->sym);
  if (wait->kind != OP_mbar_wait || !repeats(k, around, counter, wait, trips)) return;
  const Sym *next = sym_add(cx, counter, sym_int(cx, 2));
  Op *test = ir_insert(k, wait, OP_if, wait->at, NULL, 0, NULL);
  op_set_attr(k, test, (Attr){.key = ATTR_expr, .sym = sym_le(cx, next, trips)});
  Region *body = ir_region_new(k, test);
  ir_remove(wait);
  ir_append(body, wait);
  ir_append(body, ir_op_new(k, OP_yield, wait->at, NULL, 0));
}
