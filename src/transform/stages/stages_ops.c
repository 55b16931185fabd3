/* stages_ops.c: see stages_ops.h. */
#include "transform/stages/stages_ops.h"

#include "ir/attr.h"
#include "ir/region_facts.h"
#include "ir/schedule/op_parts.h"

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

const Sym *staged_iteration(const Kernel *k, const StagedLoop *l, int n) {
  return sym_int(k->cx->sym, n * l->step);
}

const Sym *staged_later(const Kernel *k, const StagedLoop *l, int n) {
  return sym_add(k->cx->sym, l->counter, staged_iteration(k, l, n));
}

const Sym *staged_number(const Kernel *k, const StagedLoop *l, const Sym *iteration) {
  return sym_floordiv(k->cx->sym, iteration, sym_int(k->cx->sym, l->step));
}

const Sym *staged_number_at_most(const Kernel *k, const PassCtx *cx, const StagedLoop *l,
                                 const Sym *iteration) {
  SymCtx *sym = k->cx->sym;
  const Sym *last = sym_sub(sym, l->count, sym_int(sym, 1));
  const Sym *least = sym_min(sym, staged_number(k, l, iteration), last);
  return sym_simplify(sym, cx->facts.distribute->facts, least);
}

void staged_set_slot(Kernel *k, Op *op, const Sym *number, int slots) {
  SymCtx *sym = k->cx->sym;
  if (slots == 1) return;
  const Sym *slot = sym_mod(sym, number, sym_int(sym, slots));
  op_set_attr(k, op, (Attr){.key = ATTR_slot, .sym = slot});
}

const Sym *staged_copy_number(const Kernel *k, const StagedLoop *l, const StagedCopy *c,
                              const Sym *iteration) {
  const Sym *number = staged_number(k, l, iteration);
  return c->role ? sym_add(k->cx->sym, l->runs.before, number) : number;
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

void staged_test(Kernel *k, const PassCtx *cx, const StagedLoop *l, Op *op, const Sym *iteration) {
  const Sym *test = sym_lt(k->cx->sym, iteration, l->trips);
  const Attr *mask = op_attr(op, ATTR_mask);
  int n = mask ? mask->n : 0;
  if (!mask || sym_proves(k->cx->sym, cx->facts.distribute->facts, test)) return;
  const Sym **tests = ARENA_ARRAY(k->arena, const Sym *, n + 1);
  for (int i = 0; i < n; i++) tests[i] = mask->exprs[i];
  tests[n] = test;
  op_set_attr(k, op, (Attr){.key = ATTR_mask, .n = n + 1, .exprs = tests});
}

const StagedCopy *staged_copy_to(const StagedLoop *l, const Value *memory) {
  for (int i = 0; i < l->copies.n; i++)
    if (&l->copies.at[i].alloc->results[0] == memory) return &l->copies.at[i];
  return NULL;
}

const StagedCopy *staged_copy_of(const StagedLoop *l, const Op *op) {
  for (int i = 0; i < l->copies.n; i++) {
    const StagedCopy *c = &l->copies.at[i];
    if (&c->alloc->results[0] == op->args[1] && parts_equal(c->copy, op)) return c;
  }
  return NULL;
}

/* A tile that stays in shared memory is read by what uses it. */
static bool reads_at(const StagedLoop *l, const StagedCopy *c, const Op *op) {
  if (!staged_reads(c, op)) return false;
  if (op->kind == OP_read) return op->results[0].layout && staged_lead(l, op) == c->lead;
  for (int i = 0; i < op->nargs; i++) {
    const Op *left = op->args[i]->def;
    if (left && left->kind == OP_read && left->args[0] == &c->alloc->results[0] &&
        !left->results[0].layout && staged_lead(l, left) == c->lead)
      return true;
  }
  return false;
}

Op *staged_reader(const StagedLoop *l, const StagedCopy *c) {
  for (Op *op = l->loop->body->first; op && op_is_inside(op, l->loop); op = ir_next(op))
    if (reads_at(l, c, op)) return (Op *)(uintptr_t)op_ancestor_in(op, l->loop->body);
  return l->loop->body->first;
}

static Value **and_one(Kernel *k, Value *const *list, int n, Value *last) {
  Value **all = ARENA_ARRAY(k->arena, Value *, n + 1);
  for (int i = 0; i < n; i++) all[i] = list[i];
  all[n] = last;
  return all;
}

void staged_carry(Kernel *k, StagedLoop *l, Value *first, Value *next) {
  Op *loop = l->loop;
  int n = loop->nresults;
  Op *made =
      ir_op_new(k, OP_for, loop->at, and_one(k, loop->args, loop->nargs, first), loop->nargs + 1);
  const Type **types = ARENA_ARRAY(k->arena, const Type *, n + 1);
  for (int i = 0; i < n; i++) types[i] = loop->results[i].type;
  types[n] = next->type;
  made->attrs = loop->attrs, made->nattrs = loop->nattrs;
  ir_set_results(k, made, types, n + 1);
  for (int i = 0; i <= n; i++) {
    const Value *like = i < n ? &loop->results[i] : next;
    made->results[i].name = like->name, made->results[i].varying = like->varying;
    ir_set_layout(k, &made->results[i], like->layout);
    if (i < n) ir_replace_uses(k, &loop->results[i], &made->results[i]);
  }
  made->body = loop->body;
  made->body->owner = made;
  Op *yield = made->body->last;
  yield->args = and_one(k, yield->args, yield->nargs, next);
  yield->nargs++;
  ir_insert_before(loop, made);
  ir_remove(loop);
  l->loop = made;
}
