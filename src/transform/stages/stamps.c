/* stamps: records when waves reach the ops of loops, if the row `timeline` says so.
 *
 *     timeline 4                  stamp 24*$ARGK - 96 %log0 {mask = [$ARGK >= 4, $ARGK < 100]}
 *                         =>      barrier workgroup
 *                                 stamp 24*$ARGK - 96 %log0 {imm = 4, mask = [..., Eq(Mod($ARGK, 4), 0)]}
 *                                 %x = read %a.1
 *
 * `logs` has added the hidden output. Runs after all that orders accesses: a stamp changes no wait and
 * no barrier. */
#include "ir/ops/debug_logs.h"
#include "schedule/stamps/stamp_plan.h"
#include "transform/pass.h"

typedef struct Stamping {
  Kernel *k;
  Value *memory;
  const StampedLoop *l;
  const Sym *iteration; /* from 0, of those that are measured */
  const Sym *element;   /* of the first stamp of the sample */
  const Sym *tests[3];
  int ntests;
} Stamping;

/* Whether it is the turn of a stamp in this iteration; NULL: always. The first has a turn in each
 * sample. */
static const Sym *is_due(const Stamping *s, int stamp) {
  SymCtx *cx = s->k->cx->sym;
  int turns = stamp ? s->l->turns : 1, turn = stamp ? stamp_turn(s->l, stamp) : 0;
  if (turns * s->l->apart == 1) return NULL;
  const Sym *now = sym_mod(cx, s->iteration, sym_int(cx, (int64_t)turns * s->l->apart));
  return sym_eq(cx, now, sym_int(cx, (int64_t)turn * s->l->apart));
}

static void put_stamp(Stamping *s, Op *before, int stamp) {
  const Sym **tests = arena_copy(s->k->arena, s->tests, sizeof s->tests);
  const Sym *due = is_due(s, stamp);
  if (due) tests[s->ntests] = due;
  Op *op = ir_op_new(s->k, OP_stamp, before->at, &s->memory, 1);
  op_set_attr(s->k, op, (Attr){.key = ATTR_expr, .sym = s->element});
  if (stamp) op_set_attr(s->k, op, (Attr){.key = ATTR_imm, .integer = stamp * s->l->waves});
  op_set_attr(s->k, op, (Attr){.key = ATTR_mask, .exprs = tests, .n = s->ntests + (due != NULL)});
  ir_insert_before(before, op);
}

/* Iterations are counted from 0, also where the counter takes larger steps. */
static void stamp_loop(Stamping *s, int64_t first) {
  SymCtx *cx = s->k->cx->sym;
  const Op *loop = s->l->loop;
  const Sym *counter = ir_loop_counter(s->k, op_attr(loop, ATTR_axis)->sym);
  const Sym *end = sym_int(cx, first + (int64_t)s->l->trips * s->l->apart);
  counter = sym_floordiv(cx, counter, sym_int(cx, op_step(loop)));
  s->iteration = sym_sub(cx, counter, sym_int(cx, first));
  s->element = stamp_element(cx, s->l, sym_floordiv(cx, s->iteration, sym_int(cx, s->l->apart)));
  if (first) s->tests[s->ntests++] = sym_ge(cx, counter, sym_int(cx, first));
  s->tests[s->ntests++] = sym_lt(cx, counter, end);
  for (int i = 0; i < s->l->events.n; i++) {
    const Op *op = s->l->times.graph.events.at[s->l->events.at[i]].op;
    put_stamp(s, (Op *)(uintptr_t)op, i);
  }
  for (int i = s->l->events.n; i < s->l->stamps; i++) put_stamp(s, loop->body->last, i);
}

bool pass_stamps(Kernel *k, PassCtx *cx) {
  const Constraint *row = kernel_constraint(k, CONSTRAINT_timeline, NULL);
  Value *memory = kernel_logged(k, TIMELINE_LABEL);
  int64_t first;
  if (!row || !memory || !cx->machine || !cx->target || !sym_is_int(row->timeline.first, &first)) {
    cx->idle = true;
    return true;
  }
  StampPlan plan =
      stamp_plan(cx->scratch, cx->facts.distribute, cx->machine, cx->facts.memory_uses);
  for (int i = 0; i < plan.n; i++) {
    Stamping s = {.k = k, .memory = memory, .l = &plan.at[i]};
    stamp_loop(&s, first);
  }
  ir_renumber(k);
  return true;
}
