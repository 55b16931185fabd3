/* lower_report.c: reports failures (base/failures.h): a failure is counted by an atomic, whose old
 * value is the index of the row that it may fill.
 *
 * In the normal case a thread only tests its elements: the rest is in a region that it enters if
 * one of them failed. */
#include "base/failures.h"
#include "ir/attr.h"
#include "lower_threads/memory/lower_walk.h"

static void put_word(Lower *l, Value *memory, Value *offset, int64_t imm, Value *mask, Value *v) {
  Value *args[] = {v, memory, offset, mask};
  Attr by = {.key = ATTR_imm, .integer = imm};
  lower_emit(l, OP_store, args, mask ? 4 : 3, &by, imm != 0, NULL);
}

void emit_report(Lower *l, const Reported *r, Value *const *words, int n) {
  Value *args[] = {emit_number(l, DTYPE_i64, 1), r->memory, r->offset, r->failed};
  Attr attrs[] = {{.key = ATTR_mode, .text = intern(&l->k->cx->names, "add")},
                  {.key = ATTR_imm, .integer = r->imm}};
  int nattrs = r->imm ? 2 : 1;
  Value *count = lower_emit(l, OP_atomic, args, r->failed ? 4 : 3, attrs, nattrs, args[0]->type);
  if (r->failed) count = emit_select(l, r->failed, count, emit_number(l, DTYPE_i64, 0));
  Value *left[] = {count, emit_number(l, DTYPE_i64, FAILURE_ROWS - 1)};
  Value *mask = lower_emit(l, OP_lt, left, 2, NULL, 0, type_scalar(l->k->cx, DTYPE_i1));
  if (r->failed) mask = emit_binary(l, OP_and, mask, r->failed);
  Value *row = emit_binary(l, OP_mul, count, emit_number(l, DTYPE_i64, FAILURE_COLUMNS));
  row = emit_binary(l, OP_add, r->offset, emit_cast(l, row, r->offset->type->dtype));
  for (int i = 0; i < n; i++)
    put_word(l, r->memory, row, r->imm + FAILURE_COLUMNS + i, mask, words[i]);
}

/* ---- lanes ---- */

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
  const int *first = first_twins(l, a->layout);
  for (int r = 0; r < n; r++) {
    if ((waves && first[r] < r) || walk_is_idle(&w, r)) continue;
    WalkStep s = walk_step(&w, r);
    Value *holds = emit_pick(l, l->value[op->args[0]->id], &r, 1);
    Value *failed = lower_emit(l, OP_not, &holds, 1, NULL, 0, holds->type);
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
  lower_open_if_true(l, any);
  for (int i = 0; i < f.n; i++) report_register(l, op, &f, i);
  lower_close_if(l);
  return true;
}
