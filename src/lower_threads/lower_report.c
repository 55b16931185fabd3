/* lower_report.c: reports failures (base/failures.h): a failure is counted by an atomic, whose old
 * value is the index of the row that it may fill.
 *
 * In the normal case a thread only tests its elements: the rest is in a region that it enters if
 * one of them failed. */
#include "base/failures.h"
#include "lower_threads/memory/lower_walk.h"

/* The registers that this thread reports, and whether each of them failed. */
typedef struct Failed {
  int n, *reg;
  WalkStep *step;
  Value **value; /* a truth value each */
} Failed;

static Failed find_failed(Lower *l, const Op *op, const LaneAccess *a, int waves) {
  int n = layout_size(a->layout, LAYOUT_REG);
  Failed f = {0, ARENA_ARRAY(l->arena, int, n), ARENA_ARRAY(l->arena, WalkStep, n),
              ARENA_ARRAY(l->arena, Value *, n)};
  Walk w = walk_begin(l, a, waves);
  const int *first = lane_first_twins(l, a->layout);
  for (int r = 0; r < n; r++) {
    if ((waves && first[r] < r) || walk_is_idle(&w, r)) continue;
    WalkStep s = walk_step(&w, r);
    Value *holds = emit_pick(l, l->value[op->args[0]->id], &r, 1);
    Value *failed = emit_op(l, OP_not, &holds, 1, NULL, 0, holds->type);
    if (s.nargs == 3) failed = emit_binary(l, OP_and, failed, s.args[3]);
    f.reg[f.n] = r, f.step[f.n] = s, f.value[f.n++] = failed;
  }
  return f;
}

static void report_register(Lower *l, const Op *op, const Failed *f, int i) {
  const WalkStep *s = &f->step[i];
  Reported r = {.memory = s->args[1], .offset = s->args[2], .failed = f->value[i]};
  Value *words[FAILURE_COLUMNS];
  for (int a = 0; a < s->nattrs; a++)
    if (s->attrs[a].key == ATTR_imm) r.imm = s->attrs[a].integer;
  for (int j = 2; j < op->nargs; j++)
    words[j - 2] = emit_pick(l, l->value[op->args[j]->id], &f->reg[i], 1);
  emit_report(l, &r, words, op->nargs - 2);
}

bool lower_report(Lower *l, const Op *op) {
  const Value *v = op->args[0];
  Layout whole = lane_undivided(l);
  LaneAccess a;
  if (!open_access(l, op, l->bounds[op->id], v->layout ? v->layout : &whole, &a)) return false;
  a.width = 1;
  Failed f = find_failed(l, op, &a, atomic_waves(l, op));
  if (!f.n) return true;
  Value *any = f.value[0];
  for (int i = 1; i < f.n; i++) any = emit_binary(l, OP_or, any, f.value[i]);
  emit_open_if_true(l, any);
  for (int i = 0; i < f.n; i++) report_register(l, op, &f, i);
  emit_close_if(l);
  return true;
}
