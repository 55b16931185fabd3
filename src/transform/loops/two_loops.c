/* two_loops.c: see two_loops.h. */
#include "transform/loops/two_loops.h"

#include "ir/region_facts.h"
#include "transform/lane_expr.h"

typedef struct Search {
  Kernel *k;
  Arena *scratch;
  const SymFacts *entry;
  TwoLoopsFn *fn;
  void *user;
} Search;

static void search(const Search *s, const SymFacts *facts, const Region *r) {
  for (Op *op = r->first, *next; op; op = next) {
    next = op->next;
    if (op->body) search(s, region_facts(s->k, s->scratch, op, s->entry, facts), op->body);
    if (op->kind == OP_for && !op_has(op, ATTR_from)) s->fn(s->user, facts, op);
  }
}

void two_loops_search(Kernel *k, Arena *scratch, const SymFacts *entry, TwoLoopsFn *fn,
                      void *user) {
  search(&(Search){k, scratch, entry, fn, user}, entry, k->body);
}

bool two_loops_multiply(const Op *loop) {
  for (const Op *op = op_step(loop) == 1 ? loop->body->first : NULL; op; op = op->next)
    if (op->kind == OP_wgmma) return true;
  return false;
}

Op *two_loops_first(Kernel *k, Arena *scratch, Op *loop, const Sym *rounds) {
  int n = loop->nresults;
  const Type **types = ARENA_ARRAY(scratch, const Type *, n + 1);
  Op *op = ir_op_new(k, OP_for, loop->at, loop->args, loop->nargs);
  for (int i = 0; i < loop->nattrs; i++)
    if (loop->attrs[i].key != ATTR_step) op_set_attr(k, op, loop->attrs[i]);
  op_set_attr(k, op, (Attr){.key = ATTR_trips, .sym = rounds});
  for (int i = 0; i < n; i++) types[i] = loop->results[i].type;
  ir_set_results(k, op, types, n);
  Region *body = ir_region_new(k, op);
  for (int i = 0; i < n; i++) {
    Value *arg = ir_add_arg(k, body, types[i], loop->body->args[i]->name);
    arg->varying = loop->body->args[i]->varying;
    op->results[i].varying = loop->results[i].varying;
  }
  ir_insert_before(loop, op);
  return op;
}

/* Registers of products in flight cannot be moved to those of another loop. */
static void await_products(Kernel *k, Op *loop) {
  bool flies = false;
  for (const Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op))
    flies |= op->kind == OP_wgmma;
  if (!flies) return;
  Op *wait = ir_insert(k, loop, OP_wgmma_wait, loop->at, NULL, 0, NULL);
  op_set_attr(k, wait, (Attr){.key = ATTR_pending});
}

void two_loops_second(Kernel *k, const SymFacts *around, Op *loop, Op *first, const Sym *done) {
  DType dtype = lane_expr_dtype(k->cx->sym, around, done);
  Op *start = ir_insert(k, loop, OP_expr, loop->at, NULL, 0, type_scalar(k->cx, dtype));
  op_set_attr(k, start, (Attr){.key = ATTR_expr, .sym = done});
  await_products(k, loop);
  Value **args = ARENA_ARRAY(k->arena, Value *, loop->nargs + 1);
  args[0] = &start->results[0];
  for (int i = 0; i < loop->nresults; i++) args[i + 1] = &first->results[i];
  loop->args = args;
  loop->nargs = loop->nresults + 1;
  op_set_attr(k, loop, (Attr){.key = ATTR_from});
}

static void copy_body(Kernel *k, Arena *scratch, const Region *from, Region *to) {
  Value **map = ARENA_ARRAY(scratch, Value *, k->nvalues);
  for (int i = 0; i < from->nargs; i++) map[from->args[i]->id] = to->args[i];
  for (const Op *op = from->first; op; op = op->next) ir_clone_op(k, to, op, map);
}

Op *two_loops_divide(Kernel *k, Arena *scratch, const SymFacts *around, Op *loop,
                     const Sym *rounds) {
  Op *first = two_loops_first(k, scratch, loop, rounds);
  copy_body(k, scratch, loop->body, first->body);
  two_loops_second(k, around, loop, first, rounds);
  return first;
}
