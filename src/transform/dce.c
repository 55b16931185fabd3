/* dce: removes what has no effect and no user.
 *
 *     %b = add %a, %a                                (gone)
 *     %r, %s = for K carry %x = %a, %y = %b {        %r = for K carry %x = %a {
 *       %t = read %q                                   %t = read %q
 *       %n = sum %t, %x {dim = K}             =>       %n = sum %t, %x {dim = K}
 *       %m = neg %y                                    yield %n
 *       yield %n, %m                                 }
 *     }                                              write %r, %c
 *     write %r, %c
 *
 * Marks what is needed, from effects to operands, and removes the rest: pure ops, reads,
 * allocations that nothing reads and what is written to them, loops and conditionals in which
 * nothing has an effect, and carried values that only feed themselves. A while loop stays, since it
 * may be meant to wait. In one lane's program a load is removed unless it is volatile; stores to
 * shared memory stay, because barriers were inserted for them. */
#include "ir/ops/access.h"
#include "transform/pass.h"

typedef struct Dce {
  Arena *scratch;
  bool *live;     /* by value id */
  bool *needed;   /* by op id */
  Value **rename; /* by value id: results that moved; NULL: itself */
  Vec(const Value *) work;
} Dce;

/* ---- marking ---- */

/* The allocation that a tile is written to; NULL: the op writes to an argument, or it is another. */
static const Op *written_alloc(const Op *op) {
  if (op->kind != OP_write && op->kind != OP_copy) return NULL;
  return memory_root(op->args[1])->def;
}

static bool may_go(const Op *op) {
  switch (op->kind) {
  case OP_alloc:
  case OP_read:
  case OP_ldmatrix:
  case OP_load_rows:
  case OP_yield:
  case OP_for:
  case OP_if: return true;
  case OP_load: return !op_has(op, ATTR_volatile);
  default: return op_is_pure(op) || written_alloc(op);
  }
}

static void mark_value(Dce *d, const Value *v) {
  if (d->live[v->id]) return;
  d->live[v->id] = true;
  vec_push(d->scratch, &d->work, v);
}

/* Carried values are marked one by one. */
static void need(Dce *d, const Op *op) {
  if (!op || d->needed[op->id]) return;
  d->needed[op->id] = true;
  int carried = op->body && op->kind != OP_while ? op_carried(op) : op->nargs;
  for (int i = 0; i < carried; i++) mark_value(d, op->args[i]);
  if (op->kind == OP_while)
    for (int i = 0; i < op->body->last->nargs; i++) mark_value(d, op->body->last->args[i]);
  need(d, op->parent->owner);
}

/* Number i of a loop or conditional: its initial value, and what is yielded. */
static void mark_carried(Dce *d, const Op *op, int i) {
  need(d, op);
  if (op->kind == OP_while) return;
  mark_value(d, op->args[op_carried(op) + i]);
  mark_value(d, op->body->last->args[i]);
}

/* An allocation that is read needs what is written to it. */
static void mark_writers(Dce *d, Kernel *k, const Op *alloc) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (written_alloc(op) == alloc) need(d, op);
}

static void mark(Dce *d, Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (!may_go(op)) need(d, op);
  while (d->work.n) {
    const Value *v = d->work.at[--d->work.n];
    const Op *op = v->def ? v->def : v->owner->owner;
    if (op && op->body) mark_carried(d, op, v->index);
    else if (op) need(d, op);
    if (op && op->kind == OP_alloc) mark_writers(d, k, op);
  }
}

/* ---- sweeping ---- */

/* A carried value is live inside, afterwards, or both. */
static bool is_carried_live(const Dce *d, const Op *op, int i) {
  return d->live[op->results[i].id] || d->live[op->body->args[i]->id];
}

static void drop_carried(Dce *d, Kernel *k, Op *op) {
  int first = op_carried(op), kept = 0, n = op->nresults;
  Op *yield = op->body->last;
  Value *results = ARENA_ARRAY(k->arena, Value, n);
  for (int i = 0; i < n; i++) {
    if (!is_carried_live(d, op, i)) continue;
    results[kept] = op->results[i];
    results[kept].index = kept;
    d->rename[op->results[i].id] = &results[kept];
    op->args[first + kept] = op->args[first + i];
    yield->args[kept] = yield->args[i];
    op->body->args[kept] = op->body->args[i];
    op->body->args[kept]->index = kept;
    kept++;
  }
  op->results = results;
  op->nargs -= n - kept;
  yield->nargs = op->body->nargs = op->nresults = kept;
}

static bool has_dead_carried(const Dce *d, const Op *op) {
  if (!op->body || op->kind == OP_while) return false;
  for (int i = 0; i < op->nresults; i++)
    if (!is_carried_live(d, op, i)) return true;
  return false;
}

static void sweep(Dce *d, Kernel *k, Region *r) {
  for (Op *op = r->first, *next; op; op = next) {
    next = op->next;
    for (int i = 0; i < op->nargs; i++) {
      Value *to = d->rename[op->args[i]->id];
      if (to) op->args[i] = to;
    }
    if (op->kind == OP_yield) continue;
    if (!d->needed[op->id]) {
      ir_remove(op);
      continue;
    }
    if (has_dead_carried(d, op)) drop_carried(d, k, op);
    if (op->body) sweep(d, k, op->body);
  }
}

bool pass_dce(Kernel *k, PassCtx *cx) {
  Dce d = {.scratch = cx->scratch,
           .live = ARENA_ARRAY(cx->scratch, bool, k->nvalues),
           .needed = ARENA_ARRAY(cx->scratch, bool, k->nops),
           .rename = ARENA_ARRAY(cx->scratch, Value *, k->nvalues)};
  mark(&d, k);
  sweep(&d, k, k->body);
  return true;
}
