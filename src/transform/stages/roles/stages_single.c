/* stages_single.c: see stages_single.h. */
#include "transform/stages/roles/stages_single.h"

#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "transform/copy/copy_mode.h"
#include "transform/stages/roles/stages_roles.h"

/* Whose service waves run before any other loop is entered; NULL: there are none. */
static const StagedLoop *loop_with_roles(const StagesPlan *plan) {
  for (int i = 0; i < plan->loops.n; i++)
    if (plan->loops.at[i].roles) return &plan->loops.at[i];
  return NULL;
}

/* Conditions that a single thread can compute alone. */
static bool is_reached_by_all(const Op *op) {
  for (const Op *owner = op->parent->owner; owner; owner = owner->parent->owner)
    if (owner->kind != OP_if || op_condition(owner)) return false;
  return true;
}

/* Whether `use` of the copied tile follows the copy, or is in the other branch of a conditional. */
static bool is_after(const Kernel *k, const Op *copy, const Op *use) {
  const Op *around = op_ancestor_in(use, copy->parent);
  if (!around) return op_excludes(k, copy, use);
  return around == copy || op_comes_before(copy, around);
}

bool single_is_served(const Kernel *k, const PassCtx *cx, const StagesPlan *plan, const Op *copy) {
  const MemoryUses *m = cx->facts.memory_uses;
  const Op *alloc = copy->args[1]->def;
  if (!loop_with_roles(plan) || copy_barriers(copy) || op_has(copy, ATTR_part)) return false;
  if (!alloc || alloc->parent != k->body || !is_reached_by_all(copy)) return false;
  for (int i = 0; i < m->uses.n; i++) {
    const MemoryUse *use = &m->uses.at[i];
    if (m->memories.at[use->memory] != &alloc->results[0] || use->op == copy) continue;
    if (!is_after(k, copy, use->op)) return false;
    if ((use->how & TOUCH_WRITE) && !op_excludes(k, copy, use->op)) return false;
  }
  return true;
}

/* The op of the copy's region that contains the first read of its tile; NULL: nothing reads it. */
static Op *first_reader(const PassCtx *cx, const Op *copy) {
  const MemoryUses *m = cx->facts.memory_uses;
  for (int i = 0; i < m->uses.n; i++) { /* in program order */
    const MemoryUse *use = &m->uses.at[i];
    if (m->memories.at[use->memory] != copy->args[1] || !(use->how & TOUCH_READ)) continue;
    for (Op *op = copy->next; op; op = op->next)
      if (op_is_inside(use->op, op)) return op;
  }
  return NULL;
}

/* A copy, and the op before which its tile is awaited. */
typedef struct Single {
  Op *copy, *reader;
} Single;

static void serve(Kernel *k, const StagedLoop *l, const Single *s) {
  const Sym *first = sym_int(k->cx->sym, 0);
  Op *copy = s->copy;
  Value *full = roles_barrier(k, copy, "full", 1, 1),
        *args[] = {copy->args[0], copy->args[1], full};
  Op *served = ir_insert(k, copy, OP_copy, copy->at, args, 3, NULL);
  for (int i = 0; i < copy->nattrs; i++) op_set_attr(k, served, attr_copy(k, &copy->attrs[i]));
  op_set_attr(k, served, (Attr){.key = ATTR_role, .text = l->copying->name});
  if (s->reader) {
    Op *wait = ir_insert(k, s->reader, OP_mbar_wait, s->reader->at, &full, 1, NULL);
    op_set_attr(k, wait, (Attr){.key = ATTR_slot, .sym = first});
    op_set_attr(k, wait, (Attr){.key = ATTR_parity, .sym = first});
  }
  ir_remove(copy);
}

void single_serve(Kernel *k, const PassCtx *cx, const StagesPlan *plan) {
  Vec(Single) found = {0};
  CopyModes modes = copy_modes(k, cx);
  for (Op *op = ir_first(k); op; op = ir_next(op)) /* before any op is removed */
    if (op->kind == OP_copy && copy_goes_by(op, "tma") && single_is_served(k, cx, plan, op))
      vec_push(cx->scratch, &found, ((Single){op, first_reader(cx, op)}));
  for (int i = 0; i < found.n; i++) {
    copy_remark_box(&modes, found.at[i].copy);
    serve(k, loop_with_roles(plan), &found.at[i]);
  }
}
