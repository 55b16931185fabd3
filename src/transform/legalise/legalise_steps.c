/* legalise_steps.c: matrix products whose operands are computed from smaller elements.
 *
 *     %y = cast %x : vec<256, bf16>             %0 = pick [0, ..., 31] %x
 *     %s = wave_mma I %y, %z, %acc              %1 = cast %0 : vec<32, bf16>
 *          {copies = [2, 2, 32]}           =>   %3 = wave_mma I %1, %2, %acc {copies = [2, 2, 8]}
 *                                               %4 = pick [32, ..., 63] %x
 *                                               ...
 *
 * An operand may need four times as many registers as the elements it is computed from. All of it
 * at once does not fit; LLVM keeps the order of a block for the most part, and its register
 * allocator then takes a minute to find out. So k is divided into steps, in order. */
#include "ir/attr.h"
#include "ir/dtype.h"
#include "transform/legalise/legalise.h"

enum { STEP = 32, LEAST = 128 }; /* elements of a step and row of copies; of an operand */

static int uses_of(const Kernel *k, const Value *v) {
  int n = 0;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    for (int i = 0; i < op->nargs; i++) n += op->args[i] == v;
  return n;
}

static Value *insert(Expansion *x, OpKind kind, Value *const *args, int nargs, DType t, int n) {
  const Type *type = type_vec(x->k->cx, n, t);
  return &ir_insert(x->k, x->op, kind, x->op->at, args, nargs, type)->results[0];
}

/* Registers `first` to `first + n - 1`. */
static Value *pick_of(Expansion *x, Value *v, int first, int n) {
  int *regs = ARENA_ARRAY(x->k->arena, int, n);
  const Op *def = v->def;
  bool again = def && def->kind == OP_pick;
  if (n == v->type->n) return v;
  for (int i = 0; i < n; i++)
    regs[i] = again ? (int)op_attr(def, ATTR_regs)->ints[first + i] : first + i;
  Value *made = insert(x, OP_pick, again ? &def->args[0] : &v, 1, v->type->dtype, n);
  op_set_attr(x->k, made->def, attr_ints(x->k, ATTR_regs, regs, n));
  return made;
}

/* Whether it is computed element by element, for one op only. A bitcast may have other elements than
 * its operand. */
static bool is_computed(const Expansion *x, const Value *v) {
  const Op *def = v->def;
  if (!def || !op_is_elementwise(def) || uses_of(x->k, v) != 1) return false;
  for (int i = 0; i < def->nargs; i++)
    if (def->args[i]->type->n != 1 && def->args[i]->type->n != v->type->n) return false;
  return true;
}

/* The same, computed from parts of the operands; a scalar is the same for all elements. */
static Value *part_of(Expansion *x, Value *v, int first, int n) {
  if (v->type->n == 1) return v;
  if (is_computed(x, v)) {
    const Op *def = v->def;
    Value *args[3];
    for (int i = 0; i < def->nargs; i++) args[i] = part_of(x, def->args[i], first, n);
    Value *made = insert(x, def->kind, args, def->nargs, v->type->dtype, n);
    for (int i = 0; i < def->nattrs; i++) op_set_attr(x->k, made->def, def->attrs[i]);
    return made;
  }
  const Op *join = v->def && v->def->kind == OP_join ? v->def : NULL;
  for (int i = 0, at = 0; join && i < join->nargs; at += join->args[i++]->type->n)
    if (first >= at && first + n <= at + join->args[i]->type->n)
      return part_of(x, join->args[i], first - at, n);
  return pick_of(x, v, first, n);
}

/* Whether the operand has more bits than what it is computed from. */
static bool grows(const Expansion *x, const Value *v) {
  const Op *def = v->def;
  if (v->type->n < LEAST || !is_computed(x, v)) return false;
  for (int i = 0; i < def->nargs; i++) {
    const Value *from = def->args[i];
    if (from->type->n == 1) continue;
    if (dtype_info[from->type->dtype].bits < dtype_info[v->type->dtype].bits || grows(x, from))
      return true;
  }
  return false;
}

typedef struct Steps {
  Expansion *x;
  int64_t copies[3];
  int each[2]; /* elements of a copy */
  int size;    /* copies along k that are multiplied at once */
} Steps;

/* Step number `step` of operand `which`, of all its rows of copies. */
static Value *operand_of(const Steps *s, int which, int64_t step) {
  Expansion *x = s->x;
  Value *all = x->op->args[which], **part = ARENA_ARRAY(x->k->arena, Value *, s->copies[which]);
  int n = s->size * s->each[which];
  for (int64_t row = 0; row < s->copies[which]; row++)
    part[row] = part_of(x, all, (int)(row * s->copies[2] + step * s->size) * s->each[which], n);
  if (s->copies[which] == 1) return part[0];
  return insert(x, OP_join, part, (int)s->copies[which], all->type->dtype,
                n * (int)s->copies[which]);
}

static bool read_steps(Steps *s) {
  const Op *op = s->x->op;
  const Attr *copies = op_attr(op, ATTR_copies);
  if (!op_attr(op, ATTR_mma)->mma->name || op->nargs != 3 || !copies) return false;
  for (int i = 0; i < 3; i++) s->copies[i] = copies->ints[i];
  for (int i = 0; i < 2; i++)
    s->each[i] = (int)(op->args[i]->type->n / (s->copies[i] * s->copies[2]));
  s->size = 1;
  int wide = s->each[0] > s->each[1] ? s->each[0] : s->each[1];
  while (s->copies[2] % (2 * s->size) == 0 && 2 * s->size * wide <= STEP) s->size *= 2;
  return s->size < s->copies[2] && (grows(s->x, op->args[0]) || grows(s->x, op->args[1]));
}

Value *legalise_steps(Expansion *x) {
  Steps s = {.x = x};
  if (!read_steps(&s)) return NULL;
  Op *op = x->op;
  Value *sum = op->args[2];
  int copies[] = {(int)s.copies[0], (int)s.copies[1], s.size};
  for (int64_t step = 0; step < s.copies[2] / s.size; step++) {
    Value *args[] = {operand_of(&s, 0, step), operand_of(&s, 1, step), sum};
    const Type *t = op->results[0].type;
    sum = insert(x, OP_wave_mma, args, 3, t->dtype, t->n);
    for (int i = 0; i < op->nattrs; i++) op_set_attr(x->k, sum->def, op->attrs[i]);
    op_set_attr(x->k, sum->def, attr_ints(x->k, ATTR_copies, copies, 3));
  }
  return sum;
}
