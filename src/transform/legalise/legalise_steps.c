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
 * allocator then takes a minute to find out. So k is divided into steps, which LLVM's
 * scheduler leaves in order. What a step needs from shared memory is loaded in it. */
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "transform/legalise/legalise.h"

enum { STEP = 128, LEAST = 128 }; /* elements of a step, of both operands; of an operand */

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

/* The op with other operands, as many elements as they have. */
static Value *again(Expansion *x, const Op *op, Value *const *args, int n) {
  Value *made = insert(x, op->kind, args, op->nargs, op->results[0].type->dtype, n);
  for (int i = 0; i < op->nattrs; i++) op_set_attr(x->k, made->def, op->attrs[i]);
  return made;
}

/* Whether what is loaded from shared memory can be loaded later. */
static bool can_wait(const Expansion *x, const Value *v) {
  const Op *load = v->def;
  if (!load || load->kind != OP_load || load->parent != x->op->parent) return false;
  if (!memory_is_scratch(load->args[0]) || op_has(load, ATTR_volatile) || uses_of(x->k, v) != 1)
    return false;
  for (const Op *op = load->next; op != x->op; op = op->next)
    if (!op_is_pure(op) && (op->kind != OP_load || op_has(op, ATTR_volatile))) return false;
  return true;
}

static Value *part_of(Expansion *x, Value *v, int first, int n);

/* Elements of several values in a row. */
static Value *part_of_join(Expansion *x, const Op *join, int first, int n) {
  Value **part = ARENA_ARRAY(x->k->arena, Value *, join->nargs);
  int count = 0;
  for (int i = 0, at = 0; i < join->nargs; at += join->args[i++]->type->n) {
    int from = first > at ? first - at : 0, to = first + n - at, own = join->args[i]->type->n;
    if (to > own) to = own;
    if (from < to) part[count++] = part_of(x, join->args[i], from, to - from);
  }
  return count == 1 ? part[0] : insert(x, OP_join, part, count, join->results[0].type->dtype, n);
}

/* The operand of a bitcast has `*count` other elements for these `n`. */
static bool is_recast(const Expansion *x, const Value *v, int *first, int *count) {
  const Op *def = v->def;
  if (!def || def->kind != OP_bitcast || uses_of(x->k, v) != 1) return false;
  int to = dtype_info[v->type->dtype].bits, from = dtype_info[def->args[0]->type->dtype].bits;
  if (*first * to % from || *count * to % from) return false;
  *first = *first * to / from, *count = *count * to / from;
  return true;
}

/* The same, computed from parts of the operands; a scalar is the same for all elements. */
static Value *part_of(Expansion *x, Value *v, int first, int n) {
  Op *def = v->def;
  int from = first, count = n;
  if (v->type->n == 1) return v;
  if (is_computed(x, v)) {
    Value *args[3];
    for (int i = 0; i < def->nargs; i++) args[i] = part_of(x, def->args[i], first, n);
    return again(x, def, args, n);
  }
  if (is_recast(x, v, &from, &count))
    return again(x, def, (Value *[]){part_of(x, def->args[0], from, count)}, n);
  if (def && def->kind == OP_join && uses_of(x->k, v) == 1) return part_of_join(x, def, first, n);
  return pick_of(x, can_wait(x, v) ? again(x, def, def->args, v->type->n) : v, first, n);
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
  int64_t rows = s->copies[0] + s->copies[1];
  while (s->copies[2] % (2 * s->size) == 0 && 2 * s->size * wide * rows <= STEP) s->size *= 2;
  return s->size < s->copies[2] && (grows(s->x, op->args[0]) || grows(s->x, op->args[1]));
}

Value *legalise_steps(Expansion *x) {
  Steps s = {.x = x};
  if (!read_steps(&s)) return NULL;
  Op *op = x->op;
  Value *sum = op->args[2];
  int copies[] = {(int)s.copies[0], (int)s.copies[1], s.size}, n = (int)s.copies[2] / s.size;
  Op **last = ARENA_ARRAY(x->k->arena, Op *, n);
  for (int step = 0; step < n; step++) {
    Value *args[] = {operand_of(&s, 0, step), operand_of(&s, 1, step), sum};
    const Type *t = op->results[0].type;
    sum = insert(x, OP_wave_mma, args, 3, t->dtype, t->n);
    last[step] = sum->def;
    for (int i = 0; i < op->nattrs; i++) op_set_attr(x->k, sum->def, op->attrs[i]);
    op_set_attr(x->k, sum->def, attr_ints(x->k, ATTR_copies, copies, 3));
  }
  for (int step = 0; step + 1 < n; step++)
    ir_insert(x->k, last[step]->next, OP_sched_barrier, op->at, NULL, 0, NULL);
  return sum;
}
