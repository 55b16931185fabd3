/* sim_value.c: ops on what lanes hold. All lanes compute, including inactive ones; only errors
 * respect the mask. An undefined register makes what is computed from it undefined. */
#include <math.h>
#include <string.h>

#include "backend/eval/scalar.h"
#include "backend/sim/sim_state.h"

static const Value *result(const SimOp *s) { return &s->op->results[0]; }

enum { OPERANDS = 3 };

/* The elements of a result, one after another: the registers of all lanes, and those of the
 * operands that each is computed from. A scalar next to a vec is the same in every register. */
typedef struct Element {
  Wave *w;
  const SimOp *s;
  int at, lanes;
  Reg *r;
  const Reg *x, *y, *z;
  uint64_t undef[OPERANDS]; /* the lanes in which an operand is undefined */
} Element;

static Element elements(Wave *w, const SimOp *s) {
  return (Element){.w = w, .s = s, .at = -1, .lanes = w->sim->wave};
}

static bool next_element(Element *e) {
  const Reg **operand[OPERANDS] = {&e->x, &e->y, &e->z};
  if (++e->at == result(e->s)->type->n) return false;
  e->r = wave_regs(e->w, result(e->s)) + (ptrdiff_t)e->at * e->lanes;
  for (int i = 0; i < e->s->op->nargs && i < OPERANDS; i++) {
    const Value *v = e->s->op->args[i];
    int reg = v->type->n > 1 ? e->at : 0;
    *operand[i] = wave_regs(e->w, v) + (ptrdiff_t)reg * e->lanes;
    e->undef[i] = wave_undef(e->w, v)[reg];
  }
  return true;
}

static void set_undefined(const Element *e, uint64_t lanes) {
  wave_undef(e->w, result(e->s))[e->at] = lanes;
}

/* Reports where infinities and NaN first appear: in a result whose operands were all finite. */
static void check_finite(const Element *e, const Reg *a, const Reg *b) {
  if (!e->w->sim->o->nonfinite) return;
  EACH_LANE(l, e->w->mask) {
    if (!isfinite(e->r[l].f) && isfinite(a[l].f) && isfinite(b[l].f))
      sim_report(e->w, e->s, DIAG_E0811, NULL, "`%s` of %g and %g gives %g in %s",
                 op_info[e->s->op->kind].name, a[l].f, b[l].f, e->r[l].f, sim_who(e->w, l));
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

#define EACH(expression)                                                                           \
  for (int l = 0; l < lanes; l++) expression

Step step_unary(Wave *w, SimOp *s) {
  DType t = result(s)->type->dtype;
  const ScalarFn *fn = &scalar_fn[s->op->kind];
  bool is_float = dtype_is_float(t), same = s->op->kind == OP_abs && dtype_is_unsigned(t);
  int lanes = w->sim->wave;
  for (Element e = elements(w, s); next_element(&e);) {
    if (is_float) EACH(e.r[l].f = fn->f1(e.x[l].f));
    else EACH(e.r[l].i = same ? e.x[l].i : fn->i1(e.x[l].i));
    round_to(t, e.r, lanes);
    set_undefined(&e, e.undef[0]);
    if (is_float) check_finite(&e, e.x, e.x);
  }
  return STEP_NEXT;
}

Step step_test(Wave *w, SimOp *s) {
  FloatTest *holds = scalar_fn[s->op->kind].test;
  int lanes = w->sim->wave;
  for (Element e = elements(w, s); next_element(&e);) {
    EACH(e.r[l].i = holds(e.x[l].f));
    set_undefined(&e, e.undef[0]);
  }
  return STEP_NEXT;
}

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
  DType t = result(s)->type->dtype;
  int lanes = w->sim->wave;
  for (Element e = elements(w, s); next_element(&e);) {
    uint64_t none = 0;
    if (dtype_is_float(t)) binary_floats(s->op->kind, e.r, e.x, e.y, lanes);
    else none = binary_ints(w, s, e.r, e.x, e.y, lanes);
    round_to(t, e.r, lanes);
    set_undefined(&e, e.undef[0] | e.undef[1] | none);
    if (dtype_is_float(t)) check_finite(&e, e.x, e.y);
  }
  return STEP_NEXT;
}

Step step_compare(Wave *w, SimOp *s) {
  OpKind kind = s->op->kind;
  DType t = s->op->args[0]->type->dtype;
  int lanes = w->sim->wave;
  for (Element e = elements(w, s); next_element(&e);) {
    const Reg *x = e.x, *y = e.y;
    if (dtype_is_float(t))
      EACH(e.r[l].i = scalar_holds(kind, x[l].f < y[l].f, x[l].f == y[l].f, x[l].f > y[l].f));
    else
      EACH(e.r[l].i = scalar_holds(kind, scalar_less(t, x[l].i, y[l].i), x[l].i == y[l].i,
                                   scalar_less(t, y[l].i, x[l].i)));
    set_undefined(&e, e.undef[0] | e.undef[1]);
  }
  return STEP_NEXT;
}

Step step_select(Wave *w, SimOp *s) {
  for (Element e = elements(w, s); next_element(&e);) {
    uint64_t taken = 0;
    for (int l = 0; l < e.lanes; l++) {
      e.r[l] = e.x[l].i ? e.y[l] : e.z[l];
      taken |= (uint64_t)(e.x[l].i != 0) << l;
    }
    set_undefined(&e, e.undef[0] | (e.undef[1] & taken) | (e.undef[2] & ~taken));
  }
  return STEP_NEXT;
}

Step step_softsign(Wave *w, SimOp *s) {
  int64_t given[64] = {0};
  double cap[64];
  int lanes = w->sim->wave;
  if (s->expr && !wave_expr(w, s, s->expr, w->mask, given)) return STEP_NEXT;
  EACH(cap[l] = scalar_softsign_cap(s->op, &given[l]));
  for (Element e = elements(w, s); next_element(&e);) {
    EACH(e.r[l].f = scalar_softsign(e.x[l].f, cap[l]));
    round_to(result(s)->type->dtype, e.r, lanes);
    set_undefined(&e, e.undef[0]);
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
  DType from = s->op->args[0]->type->dtype, to = result(s)->type->dtype;
  int lanes = w->sim->wave;
  for (Element e = elements(w, s); next_element(&e);) {
    EACH(e.r[l] = convert(from, to, e.x[l]));
    set_undefined(&e, e.undef[0]);
    if (dtype_is_float(from) && dtype_is_float(to)) check_finite(&e, e.x, e.x);
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

/* A wave's time is the number of instructions that it has executed. */
Step step_clock(Wave *w, SimOp *s) {
  Reg *r = wave_regs(w, result(s));
  wave_undef(w, result(s))[0] = 0;
  for (int l = 0; l < w->sim->wave; l++) r[l].i = (int64_t)w->steps;
  return STEP_NEXT;
}

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

/* Exact: a value that its dtype cannot represent is an error even in lanes whose access is masked. One
 * that was computed from operands, such as a number from a table, is undefined there: the access may
 * test these. */
static uint64_t check_fit(Wave *w, SimOp *s, DType t, const int64_t *value, uint64_t lanes) {
  uint64_t wrapped = 0;
  EACH_LANE(l, lanes) {
    if (dtype_wrap(t, value[l]) == value[l]) continue;
    if (s->op->nargs) wrapped |= UINT64_C(1) << l;
    else
      sim_report(w, s, DIAG_E0802, NULL, "`%s` is %lld in %s, which does not fit in %s",
                 sym_text(w->sim->cx->diags.arena, s->expr->sym), (long long)value[l],
                 sim_who(w, l), dtype_info[t].name);
  }
  if (wrapped) w->wrapped = s, w->wrapped_lanes |= wrapped;
  return wrapped;
}

Step step_expr(Wave *w, SimOp *s) {
  const Value *v = result(s);
  Reg *r = wave_regs(w, v);
  DType t = v->type->dtype;
  int64_t value[64];
  uint64_t undef = 0;
  for (int i = 0; i < s->op->nargs; i++) undef |= wave_undef(w, s->op->args[i])[0];
  wave_undef(w, v)[0] = undef;
  if (!wave_expr(w, s, s->expr, w->mask & ~undef, value)) return STEP_NEXT;
  EACH_LANE(l, w->mask & ~undef) r[l].i = value[l];
  wave_undef(w, v)[0] |= check_fit(w, s, t, value, w->mask & ~undef);
  return STEP_NEXT;
}

/* ---- register moves ---- */

static void move(Wave *w, const Value *to, int at, const Value *from, int reg) {
  size_t lanes = (size_t)w->sim->wave;
  memcpy(wave_regs(w, to) + (size_t)at * lanes, wave_regs(w, from) + (size_t)reg * lanes,
         sizeof(Reg) * lanes);
  wave_undef(w, to)[at] = wave_undef(w, from)[reg];
}

/* After setup it always has a meaning, the last operand: a scalar, or as many as there are. */
Step step_inline(Wave *w, SimOp *s) {
  const Value *meaning = s->op->args[s->op->nargs - 1];
  for (int e = 0; e < result(s)->type->n; e++)
    move(w, result(s), e, meaning, meaning->type->n > 1 ? e : 0);
  return STEP_NEXT;
}

Step step_splat(Wave *w, SimOp *s) {
  for (int e = 0; e < result(s)->type->n; e++) move(w, result(s), e, s->op->args[0], 0);
  return STEP_NEXT;
}

Step step_after(Wave *w, SimOp *s) {
  for (int e = 0; e < result(s)->type->n; e++) move(w, result(s), e, s->op->args[0], e);
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
