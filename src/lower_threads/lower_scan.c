/* lower_scan.c: cumsum and scan: the combination of all elements up to each one along a dim.
 *
 * The digits of the layout along the dim are processed by stride, the smallest first. At each step
 * a register knows the sum up to its element within its *block*, the elements that differ from it
 * only in digits processed so far, and the sum of the whole block; the next digit combines several
 * blocks into a larger one:
 *
 *     reg d0/4:1 | lane d0/8:4       registers 1, 2, 3 add what is before them
 *                                    lanes add the totals of the lanes below: log2(8) shuffles
 *
 * Totals are kept by the *leader* of a block, its register with digits 0. Waves that share the dim
 * were combined by `exchange`. Narrow floats are summed in f32. */
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "lower_threads/lower.h"

typedef struct Scan {
  Lower *l;
  const Op *op;
  const Layout *at;
  int dim, regs;
  Value **sum;   /* by register: up to its element, in its block */
  Value **total; /* by leader: of its block */
  int *leader;   /* by register */
  int *leaders;  /* the distinct ones, in order */
  int nleaders;
} Scan;

/* A digit along the dim. */
typedef struct Step {
  LayoutPart part;
  int number, weight, radix, stride; /* of its part; weight: the value of one unit of it */
} Step;

/* All digits by stride; false if blocks would overlap. Waves that stay apart do not count. */
static bool find_steps(const Scan *s, bool apart, Step *out, int *n) {
  int span = 0;
  *n = 0;
  for (int p = 0; p < LAYOUT_PARTS; p++)
    for (int i = 0, weight = 1; i < s->at->part[p].n; weight *= s->at->part[p].at[i++].radix) {
      Digit g = s->at->part[p].at[i];
      if (!g.stride || g.dim != s->dim || (apart && p == LAYOUT_WAVE)) continue;
      int at = (*n)++;
      for (; at && out[at - 1].stride > g.stride; at--) out[at] = out[at - 1];
      out[at] = (Step){(LayoutPart)p, i, weight, g.radix, g.stride};
    }
  for (int i = 0; i < *n; i++) {
    if (out[i].part == LAYOUT_WAVE || span >= out[i].stride) return false;
    span += (out[i].radix - 1) * out[i].stride;
  }
  return true;
}

static void count_leaders(Scan *s) {
  s->nleaders = 0;
  for (int r = 0; r < s->regs; r++)
    if (s->leader[r] == r) s->leaders[s->nleaders++] = r;
}

/* Combines a, which comes first, with b. */
static Value *combine(Scan *s, Value *a, Value *b) {
  if (s->op->kind == OP_scan) return emit_combine(s->l, s->op, a, b);
  return emit_binary(s->l, OP_add, a, b);
}

/* The same where the test holds (NULL: everywhere), elsewhere b. */
static Value *combine_where(Scan *s, Value *test, Value *a, Value *b) {
  return test ? emit_select(s->l, test, combine(s, a, b), b) : combine(s, a, b);
}

/* For sums, a or 0 where the test fails; then no further test is needed. */
static Value *or_zero(Scan *s, Value **test, Value *a) {
  if (s->op->kind == OP_scan) return a;
  Value *zero = emit_splat(s->l, emit_number(s->l, a->type->dtype, 0), a->type->n);
  a = emit_select(s->l, *test, a, zero);
  *test = NULL;
  return a;
}

/* ---- registers ---- */

/* `test`: something comes before; NULL: always. */
static void add_to_block(Scan *s, int leader, Value *before, Value *test, int joined) {
  for (int r = 0; r < s->regs; r++) {
    if (s->leader[r] != leader) continue;
    s->sum[r] = combine_where(s, test, before, s->sum[r]);
    s->leader[r] = joined;
  }
}

static void scan_registers(Scan *s, const Step *step) {
  for (int i = 0; i < s->nleaders; i++) {
    int first = s->leaders[i];
    if (first / step->weight % step->radix) continue;
    Value *before = s->total[first];
    for (int j = 1; j < step->radix; j++) {
      int next = first + j * step->weight;
      add_to_block(s, next, before, NULL, first);
      before = combine(s, before, s->total[next]);
    }
    s->total[first] = before;
  }
  count_leaders(s);
}

/* ---- lanes ---- */

static Value *from_below(Lower *l, Value *v, int lanes) {
  Attr attrs[] = {{.key = ATTR_mode, .text = intern(&l->k->cx->names, "up")},
                  {.key = ATTR_by, .integer = lanes}};
  return emit_op(l, OP_shuffle, &v, 1, attrs, 2, v->type);
}

/* All leaders at once. Each round adds the sums of twice as many lower lanes. */
static void scan_lanes(Scan *s, const Step *step, bool last) {
  Lower *l = s->l;
  Value **totals = ARENA_ARRAY(l->arena, Value *, s->nleaders);
  for (int i = 0; i < s->nleaders; i++) totals[i] = s->total[s->leaders[i]];
  Value *up_to = emit_join(l, totals, s->nleaders);
  const Sym *digit = lane_digit(l, s->at, LAYOUT_LANE, step->number);
  for (int below = 1; below < step->radix; below *= 2) {
    Value *there = emit_test(l, sym_ge(l->sym, digit, sym_int(l->sym, below)));
    Value *more = or_zero(s, &there, from_below(l, up_to, below * step->weight));
    up_to = combine_where(s, there, more, up_to);
  }
  Value *any = emit_test(l, sym_ge(l->sym, digit, sym_int(l->sym, 1)));
  Value *before = or_zero(s, &any, from_below(l, up_to, step->weight));
  const Sym *top = sym_sub(l->sym, sym_int(l->sym, step->radix - 1), digit);
  top = sym_add(l->sym, l->lane, sym_mul(l->sym, top, sym_int(l->sym, step->weight)));
  Value *all = last ? NULL : emit_shuffle_idx(l, up_to, top);
  for (int i = 0; i < s->nleaders; i++) {
    int leader = s->leaders[i];
    add_to_block(s, leader, emit_pick(l, before, &i, 1), any, leader);
    if (all) s->total[leader] = emit_pick(l, all, &i, 1);
  }
}

/* ---- the op ---- */

static void open_scan(Scan *s, Value *v) {
  Lower *l = s->l;
  s->regs = v->type->n;
  s->sum = ARENA_ARRAY(l->arena, Value *, s->regs);
  s->total = ARENA_ARRAY(l->arena, Value *, s->regs);
  s->leader = ARENA_ARRAY(l->arena, int, s->regs);
  s->leaders = ARENA_ARRAY(l->arena, int, s->regs);
  for (int r = 0; r < s->regs; r++) {
    s->sum[r] = s->total[r] = emit_pick(l, v, &r, 1);
    s->leader[r] = r;
  }
  count_leaders(s);
}

bool lower_scan(Lower *l, const Op *op) {
  const Value *from = op->args[0], *out = &op->results[0];
  Scan s = {.l = l, .op = op, .at = from->layout};
  DType dtype = from->type->dtype, wide = dtype;
  Step steps[LAYOUT_PARTS * LAYOUT_DIGITS];
  int n;
  bool sums = op->kind == OP_cumsum;
  if (sums && dtype_is_float(dtype) && dtype_info[dtype].bits < 32) wide = DTYPE_f32;
  s.dim = type_dim(from->type, op_attr(op, ATTR_dim)->sym);
  if (!find_steps(&s, l->machine.observable && !op_has(op, ATTR_block), steps, &n))
    return emit_refuse(l, op, "a scan over a layout with elements out of order");
  Value *v = emit_cast(l, l->value[from->id], wide);
  open_scan(&s, lane_cover(l, v, s.at, 1u << s.dim, emit_number(l, wide, 0)));
  for (int i = 0; i < n; i++) {
    if (steps[i].part == LAYOUT_REG) scan_registers(&s, &steps[i]);
    else scan_lanes(&s, &steps[i], i == n - 1);
  }
  v = emit_join(l, s.sum, s.regs);
  if (op->nargs > 1) {
    Value *init = emit_cast(l, lower_operand(l, op->args[1], out->type, out->layout), wide);
    v = combine(&s, init, v);
  }
  v = emit_cast(l, v, dtype);
  if (!v->name) v->name = out->name;
  l->value[out->id] = v;
  return true;
}
