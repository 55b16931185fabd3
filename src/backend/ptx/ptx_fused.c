/* ptx_fused.c: several ops that are one instruction.
 *
 * A reduction of integers over a wave:
 *
 *     %1 = shuffle xor %x {by = 1}
 *     %2 = add %x, %1
 *     ...                            =>   redux.sync.add.s32
 *     %9 = shuffle xor %8 {by = 16}
 *     %y = add %8, %9
 *
 * The steps may come in any order; the intermediate values must have no other use.
 *
 * Numbers that are clipped to the range of an 8-bit float and then converted to it, because the
 * machine's conversions clip (`satfinite`); NaN stays NaN in both forms:
 *
 *     %1 = minimum %x, 448.0
 *     %2 = maximum %1, -448.0        =>   cvt.rn.satfinite.e4m3x2.f32
 *     %y = cast %2 : f8e4m3fn */
#include <string.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"

/* ---- reductions over a wave ---- */

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

/* ---- conversions that clip ---- */

/* The number that all elements of v have; false: v is not a constant. */
static bool constant_number(const Value *v, double *out) {
  const Op *op = v->def;
  if (op && op->kind == OP_splat) return constant_number(op->args[0], out);
  if (op && op->kind == OP_neg && constant_number(op->args[0], out)) {
    *out = -*out;
    return true;
  }
  const Attr *value = op && op->kind == OP_scalar ? op_attr(op, ATTR_value) : NULL;
  if (!value || value->sym) return false;
  *out = value->number;
  return true;
}

/* The operand of v, if v clips it on one side; otherwise NULL. */
static const Value *without_limit(const Value *v, OpKind kind, double limit) {
  const Op *op = v->def;
  double number;
  for (int i = 0; op && op->kind == kind && i < 2; i++)
    if (constant_number(op->args[i], &number) && number == limit) return op->args[1 - i];
  return NULL;
}

static const Value *clipped_once(const Value *v, bool above, double most) {
  return above ? without_limit(v, OP_minimum, most) : without_limit(v, OP_maximum, -most);
}

const Value *ptx_clipped(const Op *cast) {
  DType to = cast->results[0].type->dtype;
  double most = dtype_decode(to, to == DTYPE_f8e4m3fn ? 0x7e : 0x7b);
  if (cast->args[0]->type->dtype != DTYPE_f32) return NULL;
  for (int above = 0; above < 2; above++) {
    const Value *once = clipped_once(cast->args[0], above, most);
    const Value *x = once ? clipped_once(once, !above, most) : NULL;
    if (x) return x;
  }
  return NULL;
}

/* Limits that nothing else uses are not computed. */
void ptx_find_clipped(Ptx *p) {
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    if (op->kind != OP_cast || !ptx_is_native_f8(p, op->results[0].type->dtype)) continue;
    const Value *x = ptx_clipped(op);
    for (const Value *v = op->args[0]; x && v != x && p->uses[v->id] == 1;) {
      p->fused[v->def->id] = op;
      double number;
      v = v->def->args[constant_number(v->def->args[0], &number)];
    }
  }
}
