/* prio: raises the priority of waves around ops that rows of a schedule name, and fences ops off.
 *
 *     fence K mma                       sched_barrier
 *     prio K 1 mma                      wave_prio {prio = 1}
 *                                =>     %n = mma %x, %y, %acc {tag = ["mma"]}
 *                                       wave_prio {prio = 0}
 *
 * The compiler of the machine moves no instructions across a fence. Neighbours of the same priority share one pair, with what is computed between them. Waves that share a SIMD then
 * take turns: one multiplies while the others move tiles. Runs after `sync`, so that no barrier comes between, and
 * for machines that have both; others ignore the rows with a remark. */
#include "ir/schedule/schedule.h"
#include "transform/pass.h"

static Op *hint_of(Kernel *k, const Op *like, int level) {
  Op *op = ir_op_new(k, OP_wave_prio, like->at, NULL, 0);
  op_set_attr(k, op, (Attr){.key = ATTR_prio, .integer = level});
  return op;
}

/* The last op of a run of the same priority; ops between that only compute belong to it. */
static Op *end_of_run(Op *op, const int *level) {
  Op *last = op;
  for (Op *next = op->next; next; next = next->next) {
    if (level[next->id] == level[op->id]) last = next;
    else if (level[next->id] || !op_is_pure(next)) break;
  }
  return last;
}

/* `level` has the priority of each op, by id; 0: none. */
static void raise_loop(Kernel *k, const Op *loop, const int *level) {
  for (Op *op = loop->body->first, *next; op; op = next) {
    int mine = level[op->id];
    next = op->next;
    if (!mine) continue;
    Op *last = end_of_run(op, level);
    next = last->next;
    ir_insert_before(op, hint_of(k, op, mine));
    ir_insert_after(last, hint_of(k, last, 0));
  }
}

static bool raises(const Op *op) {
  return op->kind == OP_wave_prio && op_attr(op, ATTR_prio)->integer > 0;
}

/* Before what raises the priority of the op. */
static void fence_loop(Kernel *k, const Op *loop, const bool *fenced) {
  for (Op *op = loop->body->first; op; op = op->next) {
    Op *first = op;
    if (op->kind == OP_wave_prio || !fenced[op->id]) continue;
    while (first->prev && raises(first->prev)) first = first->prev;
    ir_insert_before(first, ir_op_new(k, OP_sched_barrier, op->at, NULL, 0));
  }
}

/* What rows say about each op, by its id. */
typedef struct Marks {
  int *level;
  bool *fenced;
  bool any;
} Marks;

static void mark(Kernel *k, Arena *a, const Op *loop, const Constraint *row, Marks *m) {
  const OpNames *ops = schedule_ops(row);
  for (int i = 0; i < ops->n; i++) {
    OpList found = schedule_find(a, k, loop, ops->at[i]);
    for (int j = 0; j < found.n; j++) {
      if (row->kind == CONSTRAINT_fence) m->fenced[found.at[j]->id] = true;
      else m->level[found.at[j]->id] = row->prio.level;
    }
  }
  m->any = true;
}

/* On machines without both, rows have no effect. */
static void mark_row(Kernel *k, PassCtx *cx, const Constraint *row, Marks *m) {
  const TargetInfo *t = cx->target;
  if (!t || !schedule_is_for(row, t)) return;
  if (t->vendor != VENDOR_AMD) {
    if (row->kind == CONSTRAINT_fence)
      diag_add(&k->cx->diags, DIAG_R0615, row->at, "%s has no fences for instructions", t->name);
    else diag_add(&k->cx->diags, DIAG_R0615, row->at, "waves of %s have no priorities", t->name);
    return;
  }
  for (const Op *loop = NULL; (loop = schedule_next_loop(k, loop, row->scheduled.loop));)
    mark(k, cx->scratch, loop, row, m);
}

bool pass_prio(Kernel *k, PassCtx *cx) {
  Marks m = {ARENA_ARRAY(cx->scratch, int, k->nops + 1),
             ARENA_ARRAY(cx->scratch, bool, k->nops + 1), false};
  EACH_ROW(k, prio, row) mark_row(k, cx, row, &m);
  EACH_ROW(k, fence, row) mark_row(k, cx, row, &m);
  if (!m.any) return true;
  for (Op *loop = NULL; (loop = schedule_next_loop(k, loop, NULL));) {
    raise_loop(k, loop, m.level);
    fence_loop(k, loop, m.fenced);
  }
  ir_renumber(k);
  return true;
}
