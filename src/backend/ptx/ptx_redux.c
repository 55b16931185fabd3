/* ptx_redux.c: a reduction of integers over a wave becomes one instruction.
 *
 *     %1 = shuffle xor %x {by = 1}
 *     %2 = add %x, %1
 *     ...                            =>   redux.sync.add.s32
 *     %9 = shuffle xor %8 {by = 16}
 *     %y = add %8, %9
 *
 * The steps may come in any order; the intermediate values must have no other use. */
#include <string.h>

#include "backend/ptx/ptx_state.h"

enum { LANES = 32 };

static const char *operation(OpKind kind) {
  switch (kind) {
  case OP_add: return "add.s32";
  case OP_minimum: return "min.s32";
  case OP_maximum: return "max.s32";
  case OP_and: return "and.b32";
  case OP_or: return "or.b32";
  default: return NULL;
  }
}

/* The value that a step combines with its neighbour's: op(x, shuffle xor x); NULL: not a step. */
static const Value *step_operand(const Op *op, OpKind kind, int *by) {
  if (!op || op->kind != kind || op->results[0].type->dtype != DTYPE_i32) return NULL;
  for (int i = 0; i < 2; i++) {
    const Op *other = op->args[i]->def;
    if (!other || other->kind != OP_shuffle || other->args[0] != op->args[1 - i]) continue;
    if (strcmp(op_attr(other, ATTR_mode)->text, "xor") != 0) continue;
    *by = (int)op_attr(other, ATTR_by)->integer;
    return op->args[1 - i];
  }
  return NULL;
}

static const Op *shuffle_of(const Op *step) {
  return step->args[0]->def && step->args[0]->def->kind == OP_shuffle ? step->args[0]->def
                                                                      : step->args[1]->def;
}

/* The value that all steps up to `last` reduce; NULL: they do not cover a whole wave. */
static const Value *reduced_value(const Ptx *p, const Op *last) {
  int seen = 0, by;
  const Op *op = last;
  for (;;) {
    const Value *x = step_operand(op, last->kind, &by);
    bool alone = x && op->parent == last->parent && p->uses[shuffle_of(op)->results[0].id] == 1;
    if (!alone || (op != last && p->uses[op->results[0].id] != 2) || (seen & by)) return NULL;
    seen |= by;
    if (seen == LANES - 1) return x;
    op = x->def;
  }
}

static void skip_steps(Ptx *p, const Op *last, const Value *x) {
  for (const Op *op = last;;) {
    int by;
    const Value *before = step_operand(op, last->kind, &by);
    p->fused[shuffle_of(op)->id] = last;
    p->fused[op->id] = last;
    if (before == x) return;
    op = before->def;
  }
}

void ptx_find_redux(Ptx *p) {
  p->fused = ARENA_ARRAY(p->arena, const Op *, p->k->nops);
  if (!target_has(p->target, FEATURE_REDUX)) return;
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    const Value *x = operation(op->kind) ? reduced_value(p, op) : NULL;
    if (x) skip_steps(p, op, x);
  }
}

bool ptx_redux(Ptx *p, const Op *op) {
  if (p->fused[op->id] != op) return p->fused[op->id] != NULL;
  Held *from = ptx_get(p, reduced_value(p, op)), to = held_new(p, DTYPE_i32, from->n, false);
  for (int i = 0; i < from->n; i++)
    ptx_line(p, "redux.sync.%s %s, %s, 0xffffffff", operation(op->kind), to.elem[i].name,
             ptx_elems_of(p, from)[i].name);
  ptx_set(p, &op->results[0], to);
  return true;
}
