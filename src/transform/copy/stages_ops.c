/* stages_ops.c: see stages_ops.h. */
#include "transform/copy/stages_ops.h"

#include "ir/attr.h"

typedef struct CounterAt {
  SymCtx *sym;
  SymBinding to;
} CounterAt;

static const Sym *at_iteration(void *user, const Sym *s) {
  const CounterAt *c = user;
  return sym_subst(c->sym, s, &c->to, 1);
}

void staged_set_iteration(Kernel *k, const StagedLoop *l, Op *op, const Sym *iteration) {
  SymPair *pair = ARENA_NEW(k->arena, SymPair);
  *pair = (SymPair){l->axis, iteration};
  op_set_attr(k, op, (Attr){.key = ATTR_iteration, .n = 1, .pairs = pair});
}

void staged_set_slot(Kernel *k, Op *op, const Sym *iteration, int slots) {
  SymCtx *sym = k->cx->sym;
  const Sym *slot = sym_mod(sym, iteration, sym_int(sym, slots));
  op_set_attr(k, op, (Attr){.key = ATTR_slot, .sym = slot});
}

void staged_take_attrs(Kernel *k, const StagedLoop *l, const Op *from, Op *to,
                       const Sym *iteration) {
  CounterAt at = {k->cx->sym, {l->counter, iteration}};
  for (int i = 0; i < from->nattrs; i++) {
    Attr a = attr_copy(k, &from->attrs[i]);
    attr_rewrite(k, &a, at_iteration, &at);
    op_set_attr(k, to, a);
  }
  staged_set_iteration(k, l, to, iteration);
}
