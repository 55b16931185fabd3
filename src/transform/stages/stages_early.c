/* stages_early.c: see stages_early.h. */
#include "transform/stages/stages_early.h"

#include "ir/ops/access.h"
#include "transform/stages/stages_ops.h"

/* ---- which product ---- */

static const StagedCopy *copy_to(const StagedLoop *l, const Value *memory) {
  for (int i = 0; i < l->copies.n; i++)
    if (&l->copies.at[i].alloc->results[0] == memory) return &l->copies.at[i];
  return NULL;
}

static bool writes_to(const Op *op, const Value *memory) {
  MemAccess a;
  if (op->kind == OP_copy) return op->args[1] == memory;
  return op->kind != OP_read && access_of(op, &a) && memory_root(a.memory) == memory;
}

/* The tile can be read one iteration early: copies run that far ahead, or it does not change while
 * the loop runs. */
static bool is_there_early(const StagedLoop *l, const Value *tile) {
  const Op *read = tile->def;
  if (!read || read->kind != OP_read || read->nargs != 1 || op_has(read, ATTR_mapping))
    return false;
  const Value *memory = read->args[0];
  const StagedCopy *c = copy_to(l, memory);
  if (c) return c->async && read->parent == l->loop->body;
  for (const Op *op = l->loop->body->first; op && op_is_inside(op, l->loop); op = ir_next(op))
    if (writes_to(op, memory)) return false;
  return memory_is_scratch(memory) && memory->def && memory->def->kind == OP_alloc;
}

static bool reads_both(const Op *op) {
  const Attr *mma = op->kind == OP_mma ? op_attr(op, ATTR_mma) : NULL;
  return mma && mma->mma->shared_lhs && mma->mma->shared_rhs;
}

/* A sum that starts over in each iteration. */
static bool begins_anew(const Op *product) {
  const Op *acc = product->args[2]->def;
  return acc && acc->kind == OP_fill;
}

Op *early_find(const StagedLoop *l) {
  Op *op = l->loop->body->first;
  while (op && op->kind != OP_mma) op = op->next;
  if (!op || !reads_both(op) || !begins_anew(op) || op_takes(l->loop->body->last, &op->results[0]))
    return NULL;
  bool there = is_there_early(l, op->args[0]) && is_there_early(l, op->args[1]);
  bool staged = copy_to(l, op->args[0]->def->args[0]) || copy_to(l, op->args[1]->def->args[0]);
  return there && staged ? op : NULL;
}

/* ---- where it begins ---- */

/* A copy of `from` with other operands, for that iteration. */
static Op *insert_like(Kernel *k, const StagedLoop *l, Op *before, const Op *from,
                       Value *const *args, const Sym *iteration) {
  Op *op = ir_op_new(k, from->kind, from->at, args, from->nargs);
  staged_take_attrs(k, l, from, op, iteration);
  ir_set_results(k, op, &from->results[0].type, 1);
  op->results[0].name = from->results[0].name;
  ir_set_layout(k, &op->results[0], from->results[0].layout);
  ir_insert_before(before, op);
  return op;
}

static Value *insert_product(Kernel *k, const StagedLoop *l, Op *before, const Sym *iteration) {
  Value *args[3];
  for (int i = 0; i < 2; i++) {
    const Op *read = l->early->args[i]->def;
    const StagedCopy *c = copy_to(l, read->args[0]);
    Op *made = insert_like(k, l, before, read, read->args, iteration);
    if (c) staged_set_slot(k, made, iteration, alloc_slots(c->alloc));
    args[i] = &made->results[0];
  }
  args[2] = &insert_like(k, l, before, l->early->args[2]->def, NULL, iteration)->results[0];
  return &insert_like(k, l, before, l->early, args, iteration)->results[0];
}

static void remove_unused(const Kernel *k, Op *op, const Op *loop) {
  if (op_is_inside(op, loop) && !value_is_used(k, &op->results[0])) ir_remove(op);
}

/* Ops that leave elements in the registers where they are. */
static bool only_renames(const Op *op) { return op->kind == OP_permute || op->kind == OP_squeeze; }

/* Of two ops of a region, either of which may be NULL. */
static Op *later_of(Op *a, Op *b) {
  for (Op *op = a; op && b; op = op->next)
    if (op == b) return b;
  return a ? a : b;
}

static bool uses_inside(const Op *op, const Value *v) {
  for (const Op *user = op; user && op_is_inside(user, op); user = ir_next(user))
    if (op_takes(user, v)) return true;
  return false;
}

/* The last op of the body that needs the registers of `v`; NULL: none. */
static Op *last_use(const Region *body, const Value *v) {
  Op *last = NULL;
  for (Op *op = body->first; op; op = op->next) {
    if (!uses_inside(op, v)) continue;
    last = later_of(last, op);
    if (only_renames(op)) last = later_of(last, last_use(body, &op->results[0]));
  }
  return last;
}

Op *early_point(const StagedLoop *l) {
  const Region *body = l->loop->body;
  Op *last = last_use(body, &l->early->results[0]);
  if (!last) return body->first;
  return last == body->last ? last : last->next;
}

void early_make(Kernel *k, StagedLoop *l, Op *first) {
  SymCtx *sym = k->cx->sym;
  Op *old = l->early;
  const Sym *later = sym_add(sym, l->counter, sym_int(sym, 1));
  Value *begin = insert_product(k, l, l->loop, sym_int(sym, 0));
  Value *next = insert_product(k, l, first, later);
  Value *now = ir_add_arg(k, l->loop->body, next->type, old->results[0].name);
  ir_set_layout(k, now, next->layout);
  ir_replace_uses(k, &old->results[0], now);
  staged_carry(k, l, begin, next);
  ir_remove(old);
  for (int i = 0; i < 3; i++) remove_unused(k, old->args[i]->def, l->loop);
  l->early = next->def;
}
