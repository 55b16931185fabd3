/* launch_expr.c: see launch_expr.h. */
#include "runtime/launch/launch_expr.h"

bool launch_expr_is_sound(const LaunchExpr *e, int nvars) {
  if (e->nsteps < 0 || e->nsteps > LAUNCH_STEPS || e->nresults < 0 || e->nresults > LAUNCH_VALUES)
    return false;
  for (int i = 0; i < e->nsteps; i++) {
    const HostStep *s = &e->step[i];
    bool first = s->a == 0 && s->b == 0 && s->c == 0; /* operands that a step does not have */
    if ((unsigned)s->kind >= HOST_COUNT || s->a < 0 || s->b < 0 || s->c < 0) return false;
    if (!first && (s->a >= i || s->b >= i || s->c >= i)) return false;
    if (i == 0 && s->kind != HOST_CONST && s->kind != HOST_VAR) return false;
    if (s->kind == HOST_VAR && (s->value < 0 || s->value >= nvars)) return false;
    if (s->kind == HOST_SHIFT && (s->value < 0 || s->value > 63)) return false;
  }
  for (int i = 0; i < e->nresults; i++)
    if (e->result[i] < 0 || e->result[i] >= e->nsteps) return false;
  return true;
}

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* b is neither 0 nor, with the least a, -1. */
static bool divides(int64_t a, int64_t b) { return b != 0 && !(a == INT64_MIN && b == -1); }

static inline LaunchValue step(const HostStep *s, const LaunchRun *r, const int64_t *vars) {
  int64_t a = r->value[s->a], b = r->value[s->b], v = 0;
  bool bad_a = r->undefined[s->a], bad_b = r->undefined[s->b], bad = bad_a || bad_b;
  switch (s->kind) {
  case HOST_CONST: return (LaunchValue){s->value, false};
  case HOST_VAR: return (LaunchValue){vars[s->value], false};
  case HOST_ADD: bad |= __builtin_add_overflow(a, b, &v); break;
  case HOST_MUL: bad |= __builtin_mul_overflow(a, b, &v); break;
  case HOST_FLOORDIV: bad |= !divides(a, b), v = bad ? 0 : floor_div(a, b); break;
  case HOST_MOD:
    bad |= b == 0;
    v = bad || b == -1 ? 0 : a % b;
    if (v != 0 && (v < 0) != (b < 0)) v += b;
    break;
  case HOST_SHIFT: return (LaunchValue){a >> s->value, bad_a};
  case HOST_MASK: return (LaunchValue){a & s->value, bad_a};
  case HOST_EXACT: bad |= !divides(a, b) || a % b != 0, v = bad ? 0 : a / b; break;
  case HOST_ABS:
    bad = bad_a || a == 0 || a == INT64_MIN;
    v = bad ? 1 : a < 0 ? -a : a;
    break;
  case HOST_SIGN: return (LaunchValue){(a > 0) - (a < 0), bad_a};
  case HOST_TIE: v = a; break;
  case HOST_XOR: v = a ^ b; break;
  case HOST_LE0: return (LaunchValue){a <= 0, bad_a};
  case HOST_LT0: return (LaunchValue){a < 0, bad_a};
  case HOST_EQ0: return (LaunchValue){a == 0, bad_a};
  case HOST_NE0: return (LaunchValue){a != 0, bad_a};
  case HOST_LT: v = a < b; break;
  case HOST_AND:
    v = !bad && a && b;
    bad = bad && !(!bad_a && !a) && !(!bad_b && !b);
    break;
  case HOST_OR:
    v = (!bad_a && a) || (!bad_b && b);
    bad = bad && !v;
    break;
  case HOST_SELECT:
    return (LaunchValue){a ? b : r->value[s->c], bad_a || (a ? bad_b : r->undefined[s->c])};
  case HOST_COUNT: break;
  }
  return (LaunchValue){v, bad};
}

void launch_expr_open(LaunchRun *r, const LaunchExpr *e, const int64_t *vars) {
  r->expr = e, r->vars = vars, r->done = 0;
  r->value[0] = 0, r->undefined[0] = false; /* absent operands refer to this */
}

/* Every step refers only to earlier ones. */
LaunchValue launch_expr_result(LaunchRun *r, int i) {
  int at = r->expr->result[i];
  for (; r->done <= at; r->done++) {
    LaunchValue v = step(&r->expr->step[r->done], r, r->vars);
    r->value[r->done] = v.value, r->undefined[r->done] = v.undefined;
  }
  return (LaunchValue){r->value[at], r->undefined[at]};
}

void launch_expr_run(const LaunchExpr *e, const int64_t *vars, LaunchValue *out) {
  LaunchRun r;
  launch_expr_open(&r, e, vars);
  for (int i = 0; i < e->nresults; i++) out[i] = launch_expr_result(&r, i);
}
