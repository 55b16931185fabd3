/* memory_uses.c: see memory_uses.h. */
#include "analysis/memory_uses.h"

#include <string.h>

#include "analysis/analysis.h"
#include "ir/ops/access.h"
#include "ir/region_facts.h"

/* ---- what a value can stand for ---- */

typedef Vec(const Value *) Seen;

static bool see(Arena *a, Seen *seen, const Value *v) {
  for (int i = 0; i < seen->n; i++)
    if (seen->at[i] == v) return false;
  vec_push(a, seen, v);
  return true;
}

/* Follows what a region op carries in, or from one iteration to the next: operand and yield. */
static void add_carried(Arena *a, Seen *seen, const Op *op, int i);

static void add_origins(Arena *a, Seen *seen, const Value *v) {
  const Op *op = v->def ? v->def : v->owner->owner;
  if (!see(a, seen, v) || !op || op->kind == OP_alloc) return;
  add_carried(a, seen, op, v->owner && op->kind == OP_while ? v->index - 1 : v->index);
}

static void add_carried(Arena *a, Seen *seen, const Op *op, int i) {
  const Op *yield = op->body->last;
  add_origins(a, seen, op->args[op_carried(op) + i]);
  add_origins(a, seen, yield->args[op->kind == OP_while ? i + 1 : i]);
}

static bool is_memory(const Value *v) { /* and not one that stands for several */
  return v->type->kind == TYPE_mem && (v->def ? v->def->kind == OP_alloc : !v->owner->owner);
}

/* ---- uses ---- */

static int number_of(Arena *a, MemoryUses *m, const Value *v) {
  for (int i = 0; i < m->memories.n; i++)
    if (m->memories.at[i] == v) return i;
  vec_push(a, &m->memories, v);
  return m->memories.n - 1;
}

/* Logs are never read during the run: writes to them neither impose nor need an order. */
static bool is_log(const Kernel *k, const Value *memory) {
  if (!memory->owner) return false;
  const Param *p = &k->params.at[memory->index];
  return p->log || p->report;
}

/* Elements are found by a mapping: those of the tile of a copy in shared memory are not. */
static bool is_mapped(const Op *op, const Value *memory) {
  return op_has(op, ATTR_mapping) && !(op->kind == OP_copy && memory_is_scratch(memory));
}

/* Records that `op` touches what `memory` stands for, in that slot of a ring. */
static void add_slot_use(const Kernel *k, Arena *a, MemoryUses *m, Op *op, const Value *memory,
                         Touch how, const Sym *slot, const Op *part) {
  Seen seen = {0};
  add_origins(a, &seen, memory);
  for (int i = 0; i < seen.n; i++) {
    if (!is_memory(seen.at[i]) || is_log(k, seen.at[i])) continue;
    bool alone = seen.n == 1 && !is_mapped(op, seen.at[i]) && !op_is_product(op);
    MemoryUse use = {op, number_of(a, m, seen.at[i]), how, alone, slot, NULL};
    if (part && op_has(part, ATTR_part) && seen.n == 1) use.part = part;
    vec_push(a, &m->uses, use);
  }
}

static void add_use(const Kernel *k, Arena *a, MemoryUses *m, Op *op, const Value *memory,
                    Touch how) {
  add_slot_use(k, a, m, op, memory, how, op_slot(op), op);
}

/* A slot that may be any of a ring's. */
static const Sym *any_slot(const Kernel *k) { return sym_symbol(k->cx->sym, "$slot", true); }

/* A tile left in shared memory is read by the matrix instructions that use it. */
static bool is_left_in_memory(const Kernel *k, const Op *op) {
  const Value *v = op->kind == OP_read ? &op->results[0] : NULL;
  return v && v->type->kind == TYPE_tile && !v->layout && memory_is_scratch(op->args[0]) &&
         kernel_constraint(k, CONSTRAINT_machine, NULL);
}

/* A product reads what was left in memory. While it is pending, it may still be reading the slots
 * of earlier iterations; it has finished with them only after the wait. */
static void add_product(Kernel *k, Arena *a, MemoryUses *m, Op *op, const Op *read) {
  const Attr *pending = op_attr(op, ATTR_pending);
  const Op *loop = op->parent->owner;
  const Sym *slot = op_slot(read);
  add_slot_use(k, a, m, op, read->args[0], TOUCH_READ, slot, op);
  for (int i = 1; pending && slot && loop && loop->kind == OP_for && i <= pending->integer; i++) {
    const Sym *counter = ir_loop_counter(k, op_attr(loop, ATTR_axis)->sym);
    SymBinding before = {counter,
                         sym_sub(k->cx->sym, counter, sym_int(k->cx->sym, i * op_step(loop)))};
    add_slot_use(k, a, m, op, read->args[0], TOUCH_READ, sym_subst(k->cx->sym, slot, &before, 1),
                 op);
  }
}

/* ---- copies that are waited for ----
 *
 * An asynchronous copy that is prefetched has written its slot once the kernel has waited for it:
 * other threads may read the slot after a barrier that follows the wait, not after one that follows
 * the copy. */

bool memory_is_stored_to(const MemoryUses *m, const Value *memory, const Op *loop) {
  for (int i = 0; i < m->uses.n; i++) {
    const MemoryUse *use = &m->uses.at[i];
    bool here = !loop || op_is_inside(use->op, loop);
    if (here && use->how != TOUCH_READ && m->memories.at[use->memory] == memory_root(memory))
      return true;
  }
  return false;
}

bool memory_is_ahead(const Op *op) { return copy_is_awaited(op) && op_has(op, ATTR_iteration); }

/* Groups that the region closes before the op; all of them if it is NULL. */
static int64_t groups_before(const Region *r, const Op *before) {
  int64_t n = 0;
  for (const Op *op = r->first; op != before; op = op->next) n += op->kind == OP_async_commit;
  return n;
}

/* Each iteration of a loop closes as many groups: the slot filled by the latest copy whose group is
 * followed by as many as may be pending. */
static const Sym *awaited_slot(Kernel *k, const Op *wait, const Op *copy) {
  const Op *loop = wait->parent->owner;
  const Sym *slot = op_slot(copy);
  if (copy->parent != wait->parent || !slot || !loop || loop->kind != OP_for) return any_slot(k);
  int64_t pending = op_attr(wait, ATTR_pending)->integer, each = groups_before(wait->parent, NULL);
  int64_t later = groups_before(wait->parent, wait) - groups_before(wait->parent, copy);
  if (!each) return any_slot(k);
  int64_t ago = ceil_div64(pending + 1 - later, each);
  const Sym *counter = ir_loop_counter(k, op_attr(loop, ATTR_axis)->sym);
  SymBinding then = {counter,
                     sym_sub(k->cx->sym, counter, sym_int(k->cx->sym, ago * op_step(loop)))};
  return sym_subst(k->cx->sym, slot, &then, 1);
}

/* Copies of the loop around a wait, or of all loops if it is elsewhere. */
static void add_awaited(Kernel *k, Arena *a, MemoryUses *m, Op *wait) {
  bool inside = false;
  for (const Op *op = wait->parent->first; op; op = op->next)
    inside |= memory_is_ahead(op) && wait->parent->owner && wait->parent->owner->kind == OP_for;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (memory_is_ahead(op) && (!inside || op->parent == wait->parent))
      add_slot_use(k, a, m, wait, op->args[1], TOUCH_WRITE, awaited_slot(k, wait, op), op);
}

/* The copy engine reads a tile until the wait: what overwrites it needs a barrier after that, not after the copy. */
static void add_stored(Kernel *k, Arena *a, MemoryUses *m, Op *wait) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (copy_goes_by(op, "bulk")) add_use(k, a, m, wait, op->args[0], TOUCH_READ);
}

static void add_op(Kernel *k, Arena *a, MemoryUses *m, Op *op) {
  switch (op->kind) {
  case OP_read:
    if (!is_left_in_memory(k, op)) add_use(k, a, m, op, op->args[0], TOUCH_READ);
    break;
  case OP_write: add_use(k, a, m, op, op->args[1], TOUCH_WRITE); break;
  case OP_report:
#define ATOMIC(op, word, combine) case OP_##op:
#include "ir/ops/atomics.def"
    add_use(k, a, m, op, op->args[1], TOUCH_ATOMIC);
    break;
  case OP_scatter_add: add_use(k, a, m, op, op->args[2], TOUCH_ATOMIC); break;
  case OP_copy:
    add_use(k, a, m, op, op->args[0], TOUCH_READ);
    add_use(k, a, m, op, op->args[1], TOUCH_WRITE);
    if (copy_barriers(op)) add_use(k, a, m, op, copy_barriers(op), TOUCH_ATOMIC);
    break;
  case OP_mbar_init:
  case OP_mbar_inval: /* of all slots */
    add_slot_use(k, a, m, op, op->args[0], TOUCH_WRITE, any_slot(k), NULL);
    break;
  case OP_mbar_arrive:
  case OP_mbar_wait: add_use(k, a, m, op, op->args[0], TOUCH_ATOMIC); break;
  case OP_async_wait: add_awaited(k, a, m, op); break;
  case OP_bulk_wait: add_stored(k, a, m, op); break;
  default:
    for (int i = 0; i < op->nargs; i++)
      if (op->args[i]->def && is_left_in_memory(k, op->args[i]->def))
        add_product(k, a, m, op, op->args[i]->def);
  }
}

const MemoryUses *find_memory_uses(Kernel *k, const Facts *known) {
  MemoryUses *m = ARENA_NEW(known->arena, MemoryUses);
  for (Op *op = ir_first(k); op; op = ir_next(op)) add_op(k, known->arena, m, op);
  return m;
}

/* ---- order ---- */

bool memory_is_ordered_by(const Op *op, const char *scope) {
  if (op->kind != OP_barrier) return op->kind == OP_shared_barrier;
  const char *who = op_attr(op, ATTR_mode)->text;
  return strcmp(who, scope) == 0 || strcmp(who, "workgroup") == 0 || strcmp(who, "cluster") == 0 ||
         strcmp(who, "roles") == 0;
}

/* ---- bytes ---- */

bool memories_overlap(const MemoryUses *m, int a, int b) {
  return a == b || alloc_overlaps(m->memories.at[a]->def, m->memories.at[b]->def);
}

bool uses_overlap(const MemoryUses *m, const MemoryUse *a, const MemoryUse *b) {
  if (!memories_overlap(m, a->memory, b->memory)) return false;
  return a->memory != b->memory || parts_overlap(a->part, b->part, m->memories.at[a->memory]->type);
}
