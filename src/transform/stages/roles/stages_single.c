/* stages_single.c: see stages_single.h. */
#include "transform/stages/roles/stages_single.h"

#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/region_facts.h"
#include "transform/copy/copy_mode.h"
#include "transform/stages/roles/stages_roles.h"
#include "transform/stages/stages_ops.h"

enum { SPARE = 1024 }; /* bytes for barriers and alignment */

/* Whose service waves run before any other loop is entered; NULL: there are none. */
static const StagedLoop *loop_with_roles(const StagesPlan *plan) {
  for (int i = 0; i < plan->loops.n; i++)
    if (plan->loops.at[i].roles) return &plan->loops.at[i];
  return NULL;
}

static bool is_staged(const StagesPlan *plan, const Op *copy) {
  for (int i = 0; i < plan->loops.n; i++)
    if (staged_copies(&plan->loops.at[i], copy)) return true;
  return false;
}

/* How often it is made, which a single thread can compute alone, as it can the conditions around it. */
static Runs runs_of_copy(const PassCtx *cx, const Op *copy) {
  return runs_of_op(cx->facts.distribute, copy);
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
  if (!loop_with_roles(plan) || is_staged(plan, copy) || copy_barriers(copy) ||
      op_has(copy, ATTR_part))
    return false;
  if (!alloc || alloc->parent != k->body || runs_of_copy(cx, copy).why) return false;
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

/* The last op of the copy's region that contains a read of its tile; the copy, if nothing reads it. */
static Op *last_reader(const PassCtx *cx, Op *copy) {
  const MemoryUses *m = cx->facts.memory_uses;
  Op *last = copy;
  for (int i = 0; i < m->uses.n; i++) {
    const MemoryUse *use = &m->uses.at[i];
    if (m->memories.at[use->memory] != copy->args[1] || !(use->how & TOUCH_READ)) continue;
    for (Op *op = last->next; op; op = op->next)
      if (op_is_inside(use->op, op)) last = op;
  }
  return last;
}

/* A copy, and the ops before which its tile is awaited and after which its bytes are free. */
typedef struct Single {
  Op *copy, *reader, *last;
  Runs runs;
} Single;

static Op *loop_around(const Op *op) {
  Op *owner = op->parent->owner;
  while (owner && owner->kind != OP_for) owner = owner->parent->owner;
  return owner;
}

/* Of the loop around the copy: it acts for this iteration. */
static void name_iteration(Kernel *k, const Op *copy, Op *op) {
  SymPair *pair = ARENA_NEW(k->arena, SymPair);
  const Sym *axis = op_attr(loop_around(copy), ATTR_axis)->sym;
  *pair = (SymPair){axis, ir_loop_counter(k, axis)};
  op_set_attr(k, op, (Attr){.key = ATTR_iteration, .n = 1, .pairs = pair});
}

/* Where a copy is made again, it waits until the tile that was in its slot has been read. */
static void release(Kernel *k, const PassCtx *cx, const Single *s, int slots, Attr role) {
  const Sym *number = s->runs.before;
  Value *empty = roles_barrier(k, s->copy, "empty", slots, cx->machine->waves);
  op_set_attr(k, roles_wait(k, s->copy, empty, number, 1), role);
  Op *arrive = ir_insert(k, s->last->next, OP_mbar_arrive, s->copy->at, &empty, 1, NULL);
  op_set_attr(k, arrive, (Attr){.key = ATTR_slot, .sym = sym_int(k->cx->sym, 0)});
  staged_set_slot(k, arrive, number, slots);
  op_set_attr(k, arrive, (Attr){.key = ATTR_mask});
  name_iteration(k, s->copy, arrive);
}

/* Two slots if copies are made again and shared memory has room: the next tile then does not wait for this one. */
static int choose_slots(Kernel *k, const PassCtx *cx, const Single *s) {
  Op *alloc = s->copy->args[1]->def;
  int64_t need = SPARE + alloc_bytes(alloc);
  if (s->runs.before == sym_int(k->cx->sym, 0)) return 1;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_alloc) need += alloc_bytes(op);
  if (need > cx->target->shared_most) return 1;
  op_set_attr(k, alloc, (Attr){.key = ATTR_ring, .integer = 2});
  return 2;
}

static void name_slots(Kernel *k, const Single *s, int slots) {
  for (Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_read && op->args[0] == s->copy->args[1])
      staged_set_slot(k, op, s->runs.before, slots);
}

static void serve(Kernel *k, const PassCtx *cx, const StagedLoop *l, const Single *s) {
  Op *copy = s->copy;
  Attr role = {.key = ATTR_role, .text = l->copying->name};
  int slots = choose_slots(k, cx, s);
  Value *full = roles_barrier(k, copy, "full", slots, 1),
        *args[] = {copy->args[0], copy->args[1], full};
  if (s->runs.before != sym_int(k->cx->sym, 0)) release(k, cx, s, slots, role);
  name_slots(k, s, slots);
  Op *served = ir_insert(k, copy, OP_copy, copy->at, args, 3, NULL);
  for (int i = 0; i < copy->nattrs; i++) op_set_attr(k, served, attr_copy(k, &copy->attrs[i]));
  op_set_attr(k, served, role);
  staged_set_slot(k, served, s->runs.before, slots);
  if (loop_around(copy)) name_iteration(k, copy, served);
  if (s->reader) roles_wait(k, s->reader, full, s->runs.before, 0);
  ir_remove(copy);
}

void single_serve(Kernel *k, const PassCtx *cx, const StagesPlan *plan) {
  Vec(Single) found = {0};
  CopyModes modes = copy_modes(k, cx);
  for (Op *op = ir_first(k); op; op = ir_next(op)) /* before any op is removed */
    if (op->kind == OP_copy && copy_goes_by(op, "tma") && single_is_served(k, cx, plan, op))
      vec_push(cx->scratch, &found,
               ((Single){op, first_reader(cx, op), last_reader(cx, op), runs_of_copy(cx, op)}));
  for (int i = 0; i < found.n; i++) {
    copy_remark_box(&modes, found.at[i].copy);
    serve(k, cx, loop_with_roles(plan), &found.at[i]);
  }
}
