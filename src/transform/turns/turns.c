/* turns: groups of waves take turns at ops that rows of a schedule name.
 *
 *                                       turn open {bar = 1, count = 2}
 *     turns K 2 mma                     for K ... {
 *                                         turn take {bar = 1, count = 2}
 *     for K ... {                =>       %n = mma %x, %y, %acc {tag = ["mma"]}
 *       %n = mma %x, %y, %acc             turn pass {bar = 1, count = 2}
 *     }                                 }
 *                                       turn close {bar = 1, count = 2}
 *
 * One group's products then overlap what another group does between its own: the products of one
 * turn are in flight when the next group takes its turn. Neighbours share a turn; a loop may have
 * several turns, which all groups take in the same order. The first turn is opened, and the last one
 * closed, outside the outermost loop, so that turns continue from one run of an inner loop to the next:
 * a group that opened them again could arrive twice before the other has waited once.
 *
 * Runs after `sync`, so that no barrier comes between, and has the loops proved again: that nothing
 * waits for itself, and that as many waves arrive as are waited for.
 *
 * On machines without named barriers two groups take turns by the barrier of the workgroup, beside
 * which all others of the loop must be fitted in (turns_lag.h), and the waves of the group whose turn it
 * is have the higher priority, unless rows give others. */
#include <string.h>

#include "analysis/memory_uses.h"
#include "analysis/uniform.h"
#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/turn_ops.h"
#include "schedule/proof/loop_proof.h"
#include "transform/pass.h"
#include "transform/turns/turns_lag.h"

typedef struct Turns {
  Kernel *k;
  PassCtx *cx;
  const Constraint *row;
  bool *named; /* by op id, in the body of a loop */
  bool any;
} Turns;

/* ---- what is refused ---- */

static void remark(Turns *t, const char *why) {
  Diags *diags = &t->k->cx->diags;
  for (const Diag *d = diags->first; d; d = d->next)
    if (d->code == DIAG_R0615 && memcmp(&d->at, &t->row->at, sizeof d->at) == 0) return;
  diag_add(diags, DIAG_R0615, t->row->at, "waves take no turns in the loop `%s`: %s",
           t->row->turns.loop, why);
}

static bool fail_at(Turns *t, const char *why, const Op *op) {
  Diag *d = diag_add(&t->k->cx->diags, DIAG_E0620, t->row->at,
                     "waves cannot take turns in the loop `%s`: %s", t->row->turns.loop, why);
  diag_note(&t->k->cx->diags, d, op->at, "this");
  return false;
}

static bool check_groups(Turns *t, int together) {
  int waves = t->cx->machine->waves, groups = t->row->turns.groups;
  if (waves % (groups * together) == 0) return true;
  Diag *d = diag_add(&t->k->cx->diags, DIAG_E0620, t->row->at,
                     "%d groups of waves cannot take turns in the loop `%s`: the workgroup has %d "
                     "wave%s",
                     groups, t->row->turns.loop, waves, waves == 1 ? "" : "s");
  if (together > 1)
    diag_hint(&t->k->cx->diags, d,
              "%d waves multiply together: give the workgroup a multiple of %d", together,
              groups * together);
  else
    diag_hint(&t->k->cx->diags, d, "`wave` rows that divide the tile further give it more waves");
  return false;
}

/* Each loop has barriers of its own, except that copies of which one is executed share them. */
static bool fail_barriers(Turns *t) {
  Diag *d = diag_add(&t->k->cx->diags, DIAG_E0620, t->row->at,
                     "waves cannot take turns in the loop `%s`: a workgroup has %d named barriers, "
                     "and each loop needs %d",
                     t->row->turns.loop, NAMED_BARRIERS - 1, t->row->turns.groups);
  diag_hint(&t->k->cx->diags, d, "give the row fewer groups");
  return false;
}

static bool check_op(Turns *t, const Op *op) {
  if (op_is_served(t->k, op)) return fail_at(t, "service waves execute the op", op);
  for (const Op *in = op->body ? op->body->first : NULL; in && op_is_inside(in, op);
       in = ir_next(in))
    if (memory_is_ordered_by(in, "workgroup") || op_is_loop(in))
      return fail_at(t, "the op is inside a region with a barrier or a loop", in);
  return true;
}

/* ---- which ops ---- */

/* It takes no time worth a turn of its own: a constant, a tile that stays in shared memory, a wait
 * for a tile. */
static bool takes_no_time(const Op *op) {
  bool left = op->kind == OP_read && !op->results[0].layout;
  return left || op->kind == OP_fill || op->kind == OP_mbar_wait;
}

/* The ops of the loop's body that are, or contain, what the row names, and the waves that execute one
 * of them together; 0: after reporting, or there are none. */
static int mark(Turns *t, const Op *loop) {
  int together = 0;
  for (int i = 0; i < t->row->turns.ops.n; i++) {
    OpList found = schedule_find(t->cx->scratch, t->k, loop, t->row->turns.ops.at[i]);
    for (int j = 0; j < found.n; j++) {
      const Op *op = op_ancestor_in(found.at[j], loop->body);
      int waves = turn_waves(t->cx->scratch, found.at[j], t->cx->machine->lanes);
      if (takes_no_time(op)) continue;
      if (!check_op(t, op)) return 0;
      t->named[op->id] = true;
      if (waves > together) together = waves;
    }
  }
  if (!together) remark(t, "the loop has no such op on this machine");
  return together;
}

static Op *end_of_turn(const Turns *t, Op *op) {
  Op *last = op;
  for (Op *next = op->next; next && (t->named[next->id] || takes_no_time(next)); next = next->next)
    if (t->named[next->id] && !op_is_served(t->k, next)) last = next;
  return last;
}

/* ---- rewriting ---- */

static Op *new_turn(const Turns *t, const Op *like, const char *mode, int bar) {
  return turn_new(t->k, like->at, mode, bar, t->row->turns.groups);
}

static void insert_turns(Turns *t, Op *loop, int bar) {
  Op *outermost = (Op *)(uintptr_t)op_outermost_loop(loop);
  Op *outer = bar == TURN_LAGGED ? loop : outermost, *last;
  ir_insert_before(outer, new_turn(t, loop, "open", bar));
  ir_insert_after(outer, new_turn(t, loop, "close", bar));
  for (Op *op = loop->body->first; op; op = last->next) {
    last = op;
    if (op->kind == OP_turn || !t->named[op->id]) continue;
    last = end_of_turn(t, op);
    ir_insert_before(op, new_turn(t, op, "take", bar));
    ir_insert_after(last, new_turn(t, last, "pass", bar));
    last = last->next;
  }
}

/* ---- by the barrier of the workgroup ---- */

static Op *new_prio(Turns *t, const Op *like, int level) {
  Op *op = ir_op_new(t->k, OP_wave_prio, like->at, NULL, 0);
  op_set_attr(t->k, op, (Attr){.key = ATTR_prio, .integer = level});
  return op;
}

static bool has_prio_row(const Turns *t, const Op *loop) {
  EACH_ROW(t->k, prio, row)
    if (schedule_is_for(row, t->cx->target) && schedule_is_called(loop, row->prio.loop))
      return true;
  return false;
}

static void raise_priorities(Turns *t, const Op *loop) {
  if (has_prio_row(t, loop)) return;
  for (Op *op = loop->body->first; op; op = op->next) {
    if (op_is_turn(op, "take")) ir_insert_after(op, new_prio(t, op, 1));
    if (op_is_turn(op, "pass")) ir_insert_before(op, new_prio(t, op, 0));
  }
}

static bool take_lagged_turns(Turns *t, Op *loop) {
  const char *why = turns_lag_refuses(loop);
  if (why) {
    remark(t, why);
    return true;
  }
  insert_turns(t, loop, TURN_LAGGED);
  turns_lag(t->k, t->cx, loop);
  raise_priorities(t, loop);
  return t->any = true;
}

/* ---- loops ---- */

static bool has_named_barriers(const Turns *t) {
  return target_has(t->cx->target, FEATURE_NAMED_BARRIER);
}

static bool take_turns(Turns *t, Op *loop) {
  int errors = t->k->cx->diags.errors;
  t->named = ARENA_ARRAY(t->cx->scratch, bool, t->k->nops + 1);
  int together = mark(t, loop);
  if (!together) return t->k->cx->diags.errors == errors;
  if (uniform_around(t->cx->facts.uniform, loop).level > UNIFORM_WORKGROUP)
    return fail_at(t, "not all waves run it equally often", loop);
  if (!check_groups(t, together)) return false;
  if (!has_named_barriers(t)) return take_lagged_turns(t, loop);
  int bar = turn_barriers_free(t->k, t->k->body, loop, t->row->turns.groups);
  if (!bar) return fail_barriers(t);
  insert_turns(t, loop, bar);
  return t->any = true;
}

static const char *why_not(const Turns *t) {
  if (!t->cx->machine) return "no machine was chosen";
  if (has_named_barriers(t)) return NULL;
  if (t->cx->target->vendor != VENDOR_AMD)
    return "the machine has no barriers for some of its waves";
  return t->row->turns.groups == TURN_LEAST
             ? NULL
             : "the machine has one barrier, by which two groups can take turns";
}

bool pass_turns(Kernel *k, PassCtx *cx) {
  Turns t = {.k = k, .cx = cx};
  EACH_ROW(k, turns, row) {
    if (!cx->target || !schedule_is_for(row, cx->target)) continue;
    t.row = row;
    const char *why = why_not(&t);
    if (why) remark(&t, why);
    for (Op *loop = NULL; !why && (loop = schedule_next_loop(k, loop, row->turns.loop));)
      if (!take_turns(&t, loop)) return false;
  }
  cx->idle = !t.any;
  return !t.any || loop_proof_check(cx->facts.distribute, cx->facts.memory_uses, cx->target);
}
