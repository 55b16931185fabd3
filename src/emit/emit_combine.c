/* emit_combine.c: the user-defined function of `reduce` and `scan`. */
#include "emit/emit.h"
#include "ir/ops/combine.h"

typedef struct Application {
  Lower *l;
  int n; /* registers */
} Application;

static void *emit_combine_step(void *user, const CombineStep *s, void *const *args) {
  const Application *x = user;
  Lower *l = x->l;
  Value *values[STEP_ARGS];
  for (int i = 0; i < s->nargs; i++) values[i] = args[i];
  if (s->kind == OP_cast) return emit_cast(l, values[0], s->dtype);
  if (s->kind != OP_scalar)
    return emit_op(l, s->kind, values, s->nargs, NULL, 0, type_vec(l->k->cx, x->n, s->dtype));
  Attr value = {.key = ATTR_value, .number = s->number};
  if (s->sym) value.sym = s->sym;
  return emit_splat(l, emit_op(l, OP_scalar, NULL, 0, &value, 1, type_scalar(l->k->cx, s->dtype)),
                    x->n);
}

Value *emit_combine(Lower *l, const Op *op, Value *a, Value *b) {
  Application x = {l, a->type->n};
  return combine_apply(l->arena, op, a, b, emit_combine_step, &x);
}
