/* prio: raises the priority of waves around ops that rows of a schedule name.
 *
 *     prio K 1 mma                      wave_prio {prio = 1}
 *                                =>     %n = mma %x, %y, %acc {tag = ["mma"]}
 *                                       wave_prio {prio = 0}
 *
 * Neighbours of the same priority share one pair, with what is computed between them. Waves that share a SIMD then
 * take turns: one multiplies while the others move tiles. Runs after `sync`, so that no barrier comes between, and
 * for machines that have priorities; others ignore the rows with a remark. */
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

static void mark(Kernel *k, Arena *a, const Op *loop, const Constraint *row, int *level) {
  for (int i = 0; i < row->prio.ops.n; i++) {
    OpList found = schedule_find(a, k, loop, row->prio.ops.at[i]);
    for (int j = 0; j < found.n; j++) level[found.at[j]->id] = row->prio.level;
  }
}

bool pass_prio(Kernel *k, PassCtx *cx) {
  bool has = cx->target && cx->target->vendor == VENDOR_AMD;
  int *level = ARENA_ARRAY(cx->scratch, int, k->nops + 1);
  bool any = false;
  EACH_ROW(k, prio, row) {
    if (!cx->target || !schedule_is_for(row, cx->target)) continue;
    if (!has)
      diag_add(&k->cx->diags, DIAG_R0615, row->at, "waves of %s have no priorities",
               cx->target->name);
    for (const Op *loop = NULL; has && (loop = schedule_next_loop(k, loop, row->prio.loop));)
      mark(k, cx->scratch, loop, row, level), any = true;
  }
  if (!any) return true;
  for (Op *loop = NULL; (loop = schedule_next_loop(k, loop, NULL));) raise_loop(k, loop, level);
  ir_renumber(k);
  return true;
}
