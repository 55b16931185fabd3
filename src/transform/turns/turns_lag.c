/* turns_lag.c: see turns_lag.h. */
#include "transform/turns/turns_lag.h"

#include "analysis/memory_uses.h"
#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "ir/schedule/turn_ops.h"
#include "schedule/proof/loop_proof.h"

typedef struct Lag {
  Kernel *k;
  PassCtx *cx;
  Op *loop;
  Vec(Op *) added; /* barriers that may turn out not to be needed */
} Lag;

/* ---- what is refused ---- */

static bool is_barrier(const Op *op) {
  return op->kind == OP_barrier && memory_is_ordered_by(op, "workgroup");
}

/* Waits for copies order no other waves. */
static bool synchronises(const Op *op) {
  unsigned flags = op_info[op->kind].flags;
  bool waits = op->kind == OP_async_commit || op->kind == OP_async_wait;
  return (flags & OPF_SYNC) && !(flags & OPF_HINT) && !waits;
}

const char *turns_lag_refuses(const Op *loop) {
  for (const Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op)) {
    if (op_has(op, ATTR_volatile)) return "it signals other workgroups";
    if (synchronises(op) && !is_barrier(op)) return "it has barriers or waits of its own";
    if (synchronises(op) && op->parent != loop->body) return "a region inside it has a barrier";
  }
  return NULL;
}

/* ---- barriers ---- */

static Op *new_barrier(Lag *l, const Op *like) {
  Op *op = ir_op_new(l->k, OP_barrier, like->at, NULL, 0);
  op_set_attr(l->k, op, (Attr){.key = ATTR_mode, .text = intern(&l->k->cx->names, "workgroup")});
  return op;
}

static bool has_barriers(const Op *loop) {
  for (const Op *op = loop->body->first; op; op = op->next)
    if (is_barrier(op)) return true;
  return false;
}

static void replace_barriers(Lag *l) {
  for (Op *op = l->loop->body->first, *next; op; op = next) {
    next = op->next;
    if (!is_barrier(op)) continue;
    for (int i = 0; i < TURN_LEAST; i++) {
      Op *meeting = turn_new(l->k, op->at, "meet", TURN_LAGGED, TURN_LEAST);
      ir_insert_before(op, meeting);
      vec_push(l->cx->scratch, &l->added, meeting);
    }
    ir_remove(op);
  }
}

/* A barrier of the loop may also be for what comes before it. */
static void meet_before(Lag *l) {
  Op *open = l->loop->prev, *barrier = new_barrier(l, open);
  ir_insert_before(open, barrier);
  vec_push(l->cx->scratch, &l->added, barrier);
}

/* Whether the op, or one inside, accesses memory that the loop does. */
static bool shares_memory(const Lag *l, const Op *op) {
  const MemoryUses *m = l->cx->facts.memory_uses;
  for (int i = 0; i < m->uses.n; i++)
    for (int j = 0; j < m->uses.n && op_is_inside(m->uses.at[i].op, op); j++)
      if (op_is_inside(m->uses.at[j].op, l->loop) &&
          uses_overlap(m, &m->uses.at[i], &m->uses.at[j]))
        return true;
  return false;
}

/* What comes later is also what a loop around this one repeats. */
static bool is_shared_later(const Lag *l) {
  for (const Op *at = l->loop; at; at = at->parent->owner) {
    if (at != l->loop && op_is_loop(at) && shares_memory(l, at)) return true;
    for (const Op *op = at->next; op; op = op->next)
      if (shares_memory(l, op)) return true;
  }
  return false;
}

/* Or for what comes after it. */
static void meet_after(Lag *l) {
  Op *close = l->loop->next;
  if (is_shared_later(l)) ir_insert_after(close, new_barrier(l, close));
}

/* ---- what is not needed ---- */

static bool is_proved(const Lag *l) {
  Arena *a = arena_new();
  LoopProof proof = loop_prove(a, l->cx->facts.distribute, l->cx->facts.memory_uses, l->loop);
  bool ok = !proof.findings.n && !proof.waiting.n && !proof.unbalanced;
  arena_free(a);
  return ok;
}

/* Those of the loop first: they cost most. */
static void drop_needless(Lag *l) {
  for (int i = l->added.n - 1; i >= 0; i--) {
    Op *op = l->added.at[i], *next = op->next;
    ir_remove(op);
    if (!is_proved(l)) ir_insert_before(next, op);
  }
}

/* All have met just before the loop. The first barrier of another loop waits for what comes before. */
static bool is_entered_together(const Lag *l) {
  const Op *before = l->loop->prev->prev;
  return before && is_barrier(before);
}

static bool touches(const Lag *l, const Op *op) {
  const MemoryUses *m = l->cx->facts.memory_uses;
  for (int i = 0; i < m->uses.n; i++)
    if (op_is_inside(m->uses.at[i].op, op)) return true;
  return false;
}

/* Accesses may be in flight at a barrier if the loop can be proved without its wait for them; if there
 * are none, that needs no proof. */
static void relax(Lag *l) {
  bool may = is_entered_together(l), used = true;
  for (Op *op = l->loop->body->first; op; op = op->next) {
    used |= touches(l, op);
    if (!turn_is_lagged(op)) continue;
    if (may) op_set_attr(l->k, op, (Attr){.key = ATTR_no_ds_wait});
    if (may && used && !is_proved(l)) op_drop_attr(op, ATTR_no_ds_wait);
    may = true, used &= op_has(op, ATTR_no_ds_wait);
  }
}

void turns_lag(Kernel *k, PassCtx *cx, Op *loop) {
  Lag l = {.k = k, .cx = cx, .loop = loop};
  if (has_barriers(loop)) {
    meet_before(&l);
    meet_after(&l);
    replace_barriers(&l);
    drop_needless(&l);
  }
  relax(&l);
}
