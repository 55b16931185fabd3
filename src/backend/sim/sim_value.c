/* sim_value.c: ops on what lanes hold. All lanes compute, including inactive ones; only errors
 * respect the mask. An undefined register makes what is computed from it undefined. */
#include <math.h>
#include <string.h>

#include "backend/eval/scalar.h"
#include "backend/sim/sim_state.h"

/* Operand i of an op: a scalar next to a vec is the same in every register. */
typedef struct Operand {
  const Reg *regs;
  const uint64_t *undef;
  int step; /* registers from one element to the next: 0 or 1 */
} Operand;

static Operand operand(Wave *w, const SimOp *s, int i) {
  const Value *v = s->op->args[i];
  return (Operand){wave_regs(w, v), wave_undef(w, v), v->type->n > 1};
}

static const Reg *element(const Wave *w, const Operand *o, int e) {
  return o->regs + (ptrdiff_t)e * o->step * w->sim->wave;
}

static uint64_t undefined(const Operand *o, int e) { return o->undef[e * o->step]; }

static const Value *result(const SimOp *s) { return &s->op->results[0]; }

/* Reports where infinities and NaN first appear: in a result whose operands were all finite. */
static void check_finite(Wave *w, const SimOp *s, const Reg *r, const Reg *a, const Reg *b) {
  EACH_LANE(l, w->mask) {
    if (!isfinite(r[l].f) && isfinite(a[l].f) && isfinite(b[l].f))
      sim_report(w, s, DIAG_E0811, NULL, "`%s` of %g and %g gives %g in %s",
                 op_info[s->op->kind].name, a[l].f, b[l].f, r[l].f, sim_who(w, l));
  }
}

static void round_to(DType t, Reg *r, int n) {
  if (t == DTYPE_f64 || dtype_info[t].bits == 64) return;
  if (t == DTYPE_f32)
    for (int l = 0; l < n; l++) r[l].f = (double)(float)r[l].f;
  else if (dtype_is_float(t))
    for (int l = 0; l < n; l++) r[l].f = dtype_round(t, r[l].f);
  else if (t == DTYPE_i32)
    for (int l = 0; l < n; l++) r[l].i = (int32_t)r[l].i;
  else
    for (int l = 0; l < n; l++) r[l].i = dtype_wrap(t, r[l].i);
}

/* ---- elementwise ---- */

Step step_unary(Wave *w, SimOp *s) {
  const Value *v = result(s);
  Operand a = operand(w, s, 0);
  Reg *r = wave_regs(w, v);
  const ScalarFn *fn = &scalar_fn[s->op->kind];
  bool is_float = dtype_is_float(v->type->dtype);
  bool same = s->op->kind == OP_abs && dtype_is_unsigned(v->type->dtype);
  int lanes = w->sim->wave;
  for (int e = 0; e < v->type->n; e++, r += lanes) {
    const Reg *x = element(w, &a, e);
    for (int l = 0; l < lanes; l++)
      if (is_float) r[l].f = fn->f1(x[l].f);
      else r[l].i = same ? x[l].i : fn->i1(x[l].i);
    round_to(v->type->dtype, r, lanes);
    wave_undef(w, v)[e] = undefined(&a, e);
    if (is_float && w->sim->o->nonfinite) check_finite(w, s, r, x, x);
  }
  return STEP_NEXT;
}

Step step_test(Wave *w, SimOp *s) {
  const Value *v = result(s);
  Operand a = operand(w, s, 0);
  Reg *r = wave_regs(w, v);
  FloatTest *holds = scalar_fn[s->op->kind].test;
  int lanes = w->sim->wave;
  for (int e = 0; e < v->type->n; e++, r += lanes) {
    const Reg *x = element(w, &a, e);
    for (int l = 0; l < lanes; l++) r[l].i = holds(x[l].f);
    wave_undef(w, v)[e] = undefined(&a, e);
  }
  return STEP_NEXT;
}

#define EACH(expression)                                                                           \
  for (int l = 0; l < lanes; l++) expression

static void binary_floats(OpKind kind, Reg *r, const Reg *x, const Reg *y, int lanes) {
  FloatFn2 *fn = scalar_fn[kind].f2;
  switch (kind) {
  case OP_add: EACH(r[l].f = x[l].f + y[l].f); break;
  case OP_sub: EACH(r[l].f = x[l].f - y[l].f); break;
  case OP_mul: EACH(r[l].f = x[l].f * y[l].f); break;
  default: EACH(r[l].f = fn(x[l].f, y[l].f)); break;
  }
}

/* A quotient by 0 is undefined; whatever depends on it is reported with its origin. Lanes that only
 * hold a masked element of a tile, which is 0, may divide by it. Returns the lanes that divided by
 * 0. */
static uint64_t binary_ints(Wave *w, const SimOp *s, Reg *r, const Reg *x, const Reg *y,
                            int lanes) {
  IntFn2 *fn = scalar_ints(s->op->kind, result(s)->type->dtype);
  uint64_t by_zero = 0;
  if (!scalar_fn[s->op->kind].divides) {
    EACH(r[l].i = fn(x[l].i, y[l].i));
    return 0;
  }
  EACH_LANE(l, w->mask) {
    if (!y[l].i) by_zero |= UINT64_C(1) << l;
    r[l].i = y[l].i ? fn(x[l].i, y[l].i) : 0;
  }
  if (by_zero) w->divided = s, w->divided_lanes |= by_zero;
  return by_zero;
}

Step step_binary(Wave *w, SimOp *s) {
  const Value *v = result(s);
  Operand a = operand(w, s, 0), b = operand(w, s, 1);
  Reg *r = wave_regs(w, v);
  bool is_float = dtype_is_float(v->type->dtype);
  int lanes = w->sim->wave;
  for (int e = 0; e < v->type->n; e++, r += lanes) {
    const Reg *x = element(w, &a, e), *y = element(w, &b, e);
    uint64_t none = 0;
    if (is_float) binary_floats(s->op->kind, r, x, y, lanes);
    else none = binary_ints(w, s, r, x, y, lanes);
    round_to(v->type->dtype, r, lanes);
    wave_undef(w, v)[e] = undefined(&a, e) | undefined(&b, e) | none;
    if (is_float && w->sim->o->nonfinite) check_finite(w, s, r, x, y);
  }
  return STEP_NEXT;
}

Step step_compare(Wave *w, SimOp *s) {
  const Value *v = result(s);
  Operand a = operand(w, s, 0), b = operand(w, s, 1);
  Reg *r = wave_regs(w, v);
  bool is_float = dtype_is_float(s->op->args[0]->type->dtype);
  OpKind kind = s->op->kind;
  DType t = s->op->args[0]->type->dtype;
  int lanes = w->sim->wave;
  for (int e = 0; e < v->type->n; e++, r += lanes) {
    const Reg *x = element(w, &a, e), *y = element(w, &b, e);
    if (is_float)
      EACH(r[l].i = scalar_holds(kind, x[l].f<y[l].f, x[l].f == y[l].f, x[l].f> y[l].f));
    else
      EACH(r[l].i = scalar_holds(kind, scalar_less(t, x[l].i, y[l].i), x[l].i == y[l].i,
                                 scalar_less(t, y[l].i, x[l].i)));
    wave_undef(w, v)[e] = undefined(&a, e) | undefined(&b, e);
  }
  return STEP_NEXT;
}

Step step_select(Wave *w, SimOp *s) {
  const Value *v = result(s);
  Operand cond = operand(w, s, 0), yes = operand(w, s, 1), no = operand(w, s, 2);
  Reg *r = wave_regs(w, v);
  int lanes = w->sim->wave;
  for (int e = 0; e < v->type->n; e++, r += lanes) {
    const Reg *c = element(w, &cond, e), *x = element(w, &yes, e), *y = element(w, &no, e);
    uint64_t taken = 0;
    for (int l = 0; l < lanes; l++) {
      r[l] = c[l].i ? x[l] : y[l];
      taken |= (uint64_t)(c[l].i != 0) << l;
    }
    wave_undef(w, v)[e] =
        undefined(&cond, e) | (undefined(&yes, e) & taken) | (undefined(&no, e) & ~taken);
  }
  return STEP_NEXT;
}

/* After setup it always has a meaning. */
Step step_inline(Wave *w, SimOp *s) {
  const Value *v = result(s);
  Operand meaning = operand(w, s, s->op->nargs - 1);
  Reg *r = wave_regs(w, v);
  int lanes = w->sim->wave;
  for (int e = 0; e < v->type->n; e++, r += lanes) {
    const Reg *x = element(w, &meaning, e);
    EACH(r[l] = x[l]);
    wave_undef(w, v)[e] = undefined(&meaning, e);
  }
  return STEP_NEXT;
}

Step step_softsign(Wave *w, SimOp *s) {
  const Value *v = result(s);
  int64_t given[64] = {0};
  double cap[64];
  if (s->expr && !wave_expr(w, s, s->expr, w->mask, given)) return STEP_NEXT;
  Operand a = operand(w, s, 0);
  Reg *r = wave_regs(w, v);
  int lanes = w->sim->wave;
  EACH(cap[l] = scalar_softsign_cap(s->op, &given[l]));
  for (int e = 0; e < v->type->n; e++, r += lanes) {
    const Reg *x = element(w, &a, e);
    EACH(r[l].f = scalar_softsign(x[l].f, cap[l]));
    round_to(v->type->dtype, r, lanes);
    wave_undef(w, v)[e] = undefined(&a, e);
  }
  return STEP_NEXT;
}

/* ---- types ---- */

static Reg convert(DType from, DType to, Reg x) {
  bool in = dtype_is_float(from), out = dtype_is_float(to);
  if (in && out) return (Reg){.f = dtype_round(to, x.f)};
  if (in) return (Reg){.i = dtype_truncate(to, x.f)};
  if (out) return (Reg){.f = dtype_round_int(to, from, x.i)};
  return (Reg){.i = dtype_from_int(to, x.i)};
}

Step step_cast(Wave *w, SimOp *s) {
  const Value *v = result(s);
  DType from = s->op->args[0]->type->dtype, to = v->type->dtype;
  Operand a = operand(w, s, 0);
  Reg *r = wave_regs(w, v);
  int lanes = w->sim->wave;
  for (int e = 0; e < v->type->n; e++, r += lanes) {
    const Reg *x = element(w, &a, e);
    EACH(r[l] = convert(from, to, x[l]));
    wave_undef(w, v)[e] = undefined(&a, e);
    if (w->sim->o->nonfinite && dtype_is_float(from) && dtype_is_float(to))
      check_finite(w, s, r, x, x);
  }
  return STEP_NEXT;
}

/* Registers as one string of bits, low end first. */
Step step_bitcast(Wave *w, SimOp *s) {
  const Value *from = s->op->args[0], *to = result(s);
  int src = dtype_info[from->type->dtype].bits, dst = dtype_info[to->type->dtype].bits;
  int lanes = w->sim->wave;
  const Reg *x = wave_regs(w, from);
  Reg *r = wave_regs(w, to);
  uint64_t mask = dst == 64 ? UINT64_MAX : (UINT64_C(1) << dst) - 1;
  for (int e = 0; e < to->type->n; e++) {
    int first = e * dst / src, last = ((e + 1) * dst - 1) / src;
    uint64_t undef = 0;
    for (int p = first; p <= last; p++) undef |= wave_undef(w, from)[p];
    for (int l = 0; l < lanes; l++) {
      uint64_t bits = 0;
      for (int p = first; p <= last; p++) {
        int shift = p * src - e * dst;
        uint64_t part = reg_bits(from->type->dtype, x[p * lanes + l]);
        bits |= shift >= 0 ? part << shift : part >> -shift;
      }
      r[e * lanes + l] = reg_from_bits(to->type->dtype, bits & mask);
    }
    wave_undef(w, to)[e] = undef;
  }
  return STEP_NEXT;
}

/* ---- constants and expressions ---- */

Step step_scalar(Wave *w, SimOp *s) {
  const Value *v = result(s);
  Reg *r = wave_regs(w, v);
  DType t = v->type->dtype;
  int64_t value[64];
  wave_undef(w, v)[0] = 0;
  if (!s->expr) {
    double number = dtype_round(t, op_attr(s->op, ATTR_value)->number);
    for (int l = 0; l < w->sim->wave; l++) r[l].f = number;
    return STEP_NEXT;
  }
  if (!wave_expr(w, s, s->expr, w->mask, value)) return STEP_NEXT;
  EACH_LANE(l, w->mask) {
    if (dtype_is_float(t)) r[l].f = dtype_round_int(t, DTYPE_i64, value[l]);
    else r[l].i = dtype_from_int(t, value[l]);
  }
  return STEP_NEXT;
}

/* Exact: a value that its dtype cannot represent is an error even in lanes whose access is
 * masked. */
Step step_expr(Wave *w, SimOp *s) {
  const Value *v = result(s);
  Reg *r = wave_regs(w, v);
  DType t = v->type->dtype;
  int64_t value[64];
  uint64_t undef = 0;
  for (int i = 0; i < s->op->nargs; i++) undef |= wave_undef(w, s->op->args[i])[0];
  wave_undef(w, v)[0] = undef;
  if (!wave_expr(w, s, s->expr, w->mask & ~undef, value)) return STEP_NEXT;
  EACH_LANE(l, w->mask & ~undef) {
    r[l].i = value[l];
    if (dtype_wrap(t, value[l]) != value[l])
      sim_report(w, s, DIAG_E0802, NULL, "`%s` is %lld in %s, which does not fit in %s",
                 sym_text(w->sim->cx->diags.arena, s->expr->sym), (long long)value[l],
                 sim_who(w, l), dtype_info[t].name);
  }
  return STEP_NEXT;
}

/* ---- register moves ---- */

static void move(Wave *w, const Value *to, int at, const Value *from, int reg) {
  size_t lanes = (size_t)w->sim->wave;
  memcpy(wave_regs(w, to) + (size_t)at * lanes, wave_regs(w, from) + (size_t)reg * lanes,
         sizeof(Reg) * lanes);
  wave_undef(w, to)[at] = wave_undef(w, from)[reg];
}

Step step_splat(Wave *w, SimOp *s) {
  for (int e = 0; e < result(s)->type->n; e++) move(w, result(s), e, s->op->args[0], 0);
  return STEP_NEXT;
}

Step step_join(Wave *w, SimOp *s) {
  for (int i = 0, at = 0; i < s->op->nargs; i++)
    for (int e = 0; e < s->op->args[i]->type->n; e++) move(w, result(s), at++, s->op->args[i], e);
  return STEP_NEXT;
}

Step step_pick(Wave *w, SimOp *s) {
  const Attr *regs = op_attr(s->op, ATTR_regs);
  for (int e = 0; e < regs->n; e++) move(w, result(s), e, s->op->args[0], (int)regs->ints[e]);
  return STEP_NEXT;
}

/* ---- shuffles ---- */

/* Each lane takes the registers of lane from[l]; those of an inactive lane are undefined. */
static void exchange(Wave *w, const SimOp *s, const int *from) {
  const Value *v = s->op->args[0], *to = result(s);
  int lanes = w->sim->wave;
  for (int e = 0; e < v->type->n; e++) {
    const Reg *x = wave_regs(w, v) + (size_t)e * (size_t)lanes;
    Reg *r = wave_regs(w, to) + (size_t)e * (size_t)lanes;
    uint64_t undef = wave_undef(w, v)[e] | ~w->mask, out = 0;
    for (int l = 0; l < lanes; l++) {
      r[l] = x[from[l]];
      out |= (undef >> from[l] & 1) << l;
    }
    wave_undef(w, to)[e] = out;
  }
}

Step step_shuffle(Wave *w, SimOp *s) {
  const char *mode = op_attr(s->op, ATTR_mode)->text;
  int by = (int)op_attr(s->op, ATTR_by)->integer, lanes = w->sim->wave, from[64];
  wave_whole(w, s);
  for (int l = 0; l < lanes; l++) {
    int other = *mode == 'x' ? l ^ by : *mode == 'u' ? l - by : l + by;
    from[l] = other >= 0 && other < lanes ? other : l;
  }
  exchange(w, s, from);
  return STEP_NEXT;
}

Step step_shuffle_idx(Wave *w, SimOp *s) {
  const Reg *at = wave_regs(w, s->op->args[1]);
  int lanes = w->sim->wave, from[64];
  wave_whole(w, s);
  wave_check_use(w, s, s->op->args[1], w->mask, "the lane of a shuffle");
  for (int l = 0; l < lanes; l++) from[l] = (int)((uint64_t)at[l].i % (uint64_t)lanes);
  exchange(w, s, from);
  return STEP_NEXT;
}
