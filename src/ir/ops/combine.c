/* combine.c: see combine.h. */
#include "ir/ops/combine.h"

#include <string.h>

#include "ir/dtype.h"

/* Ops whose result for an element follows from the operands alone. */
static bool is_step(OpKind kind) {
  const OpInfo *info = &op_info[kind];
  if (kind == OP_scalar) return true;
  return info->level == LEVEL_BOTH && (info->flags & OPF_PURE) && info->least > 0 &&
         info->most <= STEP_ARGS && kind != OP_inline_ptx && kind != OP_softsign;
}

/* ---- checking ---- */

static bool fail_step(Kernel *k, const Op *op, int i, const char *what) {
  return diag_fail(&k->cx->diags, DIAG_E0411, op->at, "step $%d of `combine` of `%s` %s", i + 2,
                   op_info[op->kind].name, what);
}

static bool check_step(Kernel *k, const Op *op, const CombineStep *s, int i, Value *values) {
  const OpInfo *info = &op_info[s->kind];
  Value *args[STEP_ARGS];
  if (!is_step(s->kind)) return fail_step(k, op, i, "is not an elementwise op");
  if (s->nargs < info->least || s->nargs > info->most)
    return fail_step(k, op, i, "has the wrong number of operands");
  for (int j = 0; j < s->nargs; j++) {
    if (s->args[j] >= i + 2) return fail_step(k, op, i, "uses a later step");
    args[j] = &values[s->args[j]];
  }
  const Type *given = type_scalar(k->cx, s->dtype), *type = NULL;
  if (s->kind == OP_scalar) {
    bool whole = s->sym && sym_is_int(s->sym, NULL);
    if (whole == dtype_is_float(s->dtype))
      return fail_step(k, op, i, "is not a constant of its dtype");
    return values[i + 2].type = given, true;
  }
  Op scratch = {.kind = s->kind, .at = op->at, .args = args, .nargs = s->nargs};
  if (!ir_infer(k, &scratch, given, &type)) return false;
  if (type != given) return fail_step(k, op, i, "has a different dtype than declared");
  values[i + 2].type = type;
  return true;
}

bool combine_check(Kernel *k, const Op *op) {
  const Attr *steps = op_attr(op, ATTR_combine);
  const Type *type = type_scalar(k->cx, op->args[0]->type->dtype);
  if (!steps || !steps->n)
    return diag_fail(&k->cx->diags, DIAG_E0318, op->at, "`%s` needs `combine`",
                     op_info[op->kind].name);
  Value *values = ARENA_ARRAY(k->arena, Value, steps->n + 2);
  values[0].type = values[1].type = type;
  for (int i = 0; i < steps->n; i++)
    if (!check_step(k, op, &steps->steps[i], i, values)) return false;
  return values[steps->n + 1].type == type ||
         fail_step(k, op, steps->n - 1, "is the last one and must have the dtype of the elements");
}

/* ---- making ---- */

typedef struct Making {
  Kernel *k;
  const Op *user;
  const Region *region;
  Map number; /* result of a step -> its number */
  Vec(CombineStep) steps;
} Making;

static Diag *fail(Making *m, Span at, const char *what, const char *name) {
  Diags *diags = &m->k->cx->diags;
  Diag *d = diag_add(diags, DIAG_E0411, at, "the combine function of `%s` %s%s%s%s",
                     op_info[m->user->kind].name, what, name ? " `" : "", name ? name : "",
                     name ? "`" : "");
  diag_hint(diags, d, "it may use only its two arguments, constants and elementwise ops");
  return d;
}

/* The number of a value of the region, or -1 after reporting. */
static int number_of(Making *m, const Value *v, Span at) {
  for (int i = 0; i < m->region->nargs; i++)
    if (m->region->args[i] == v) return i;
  const int *known = map_get(&m->number, map_key(v));
  if (known) return *known;
  Diag *d = fail(m, at, "uses a value defined outside it", NULL);
  if (v->def) diag_note(&m->k->cx->diags, d, v->def->at, "it is defined here");
  return -1;
}

static bool add_step(Making *m, CombineStep step, const Value *result) {
  vec_push(m->k->arena, &m->steps, step);
  int *number = ARENA_NEW(m->k->arena, int);
  *number = m->steps.n + 1;
  if (result) map_set(m->k->arena, &m->number, map_key(result), number);
  return true;
}

static bool make_step(Making *m, const Op *op) {
  if (!is_step(op->kind)) return fail(m, op->at, "uses", op_info[op->kind].name), false;
  CombineStep s = {.kind = op->kind, .dtype = op->results[0].type->dtype, .nargs = op->nargs};
  for (int i = 0; i < op->nargs; i++)
    if ((s.args[i] = number_of(m, op->args[i], op->at)) < 0) return false;
  const Attr *value = op_attr(op, ATTR_value);
  if (value && value->sym && !sym_is_int(value->sym, NULL))
    return fail(m, op->at, "uses the expression", sym_text(m->k->cx->diags.arena, value->sym)),
           false;
  if (value) s.sym = value->sym;
  if (value && !value->sym) s.number = value->number;
  return add_step(m, s, &op->results[0]);
}

/* Makes the result the last step: drops what follows it; an argument is passed on by a cast. */
static bool end_with(Making *m, const Value *result, Span at) {
  int number = number_of(m, result, at);
  if (number < 0) return false;
  if (number > 1) return m->steps.n = number - 1, true;
  return add_step(m, (CombineStep){OP_cast, result->type->dtype, 1, {number}, 0, NULL}, NULL);
}

bool combine_of_region(Kernel *k, const Op *user, const Region *r, Value *result, Span at,
                       Attr *out) {
  Making m = {.k = k, .user = user, .region = r};
  for (const Op *op = r->first; op; op = op->next)
    if (!make_step(&m, op)) return false;
  const Type *want = r->args[0]->type;
  if (result->type != want) {
    bool made_here = result->def && result->def->parent == r;
    Diag *d = diag_add(&k->cx->diags, DIAG_E0411, made_here ? result->def->at : at,
                       "the combine function of `%s` returns %s, expected %s",
                       op_info[user->kind].name, type_text(k->cx->diags.arena, k->cx, result->type),
                       type_text(k->cx->diags.arena, k->cx, want));
    return diag_hint(&k->cx->diags, d,
                     "it must take two elements and return one of the same dtype");
  }
  if (!end_with(&m, result, at)) return false;
  *out = (Attr){.key = ATTR_combine, .n = m.steps.n, .steps = m.steps.at};
  return true;
}

/* ---- exchanging the arguments ---- */

/* Whether step i with the arguments exchanged is step j; mirror: the same for the steps before
 * i. */
static bool mirrors(const CombineStep *a, const CombineStep *b, const int *mirror) {
  int to[STEP_ARGS];
  if (a->kind != b->kind || a->dtype != b->dtype || a->sym != b->sym || a->nargs != b->nargs)
    return false;
  if (memcmp(&a->number, &b->number, sizeof a->number) != 0) return false;
  for (int i = 0; i < a->nargs; i++) to[i] = mirror[a->args[i]];
  bool same = true, swapped = op_info[a->kind].flags & OPF_COMM;
  for (int i = 0; i < a->nargs; i++) same &= to[i] == b->args[i];
  return same || (swapped && to[0] == b->args[1] && to[1] == b->args[0]);
}

bool combine_is_symmetric(Arena *a, const Op *op) {
  const Attr *steps = op_attr(op, ATTR_combine);
  int *mirror = ARENA_ARRAY(a, int, steps->n + 2);
  mirror[0] = 1, mirror[1] = 0;
  for (int i = 0; i < steps->n; i++) {
    int found = -1;
    for (int j = 0; j < steps->n && found < 0; j++)
      if (mirrors(&steps->steps[i], &steps->steps[j], mirror)) found = j + 2;
    mirror[i + 2] = found;
  }
  return mirror[steps->n + 1] == steps->n + 1;
}

/* ---- applying ---- */

void *combine_apply(Arena *a, const Op *op, void *first, void *second, CombineFn *fn, void *user) {
  const Attr *steps = op_attr(op, ATTR_combine);
  void **values = ARENA_ARRAY(a, void *, steps->n + 2), *args[STEP_ARGS];
  values[0] = first, values[1] = second;
  for (int i = 0; i < steps->n; i++) {
    const CombineStep *s = &steps->steps[i];
    for (int j = 0; j < s->nargs; j++) args[j] = values[s->args[j]];
    if (!(values[i + 2] = fn(user, s, args))) return NULL;
  }
  return values[steps->n + 1];
}
