/* eval_args.c: from the arguments of a call to symbols, memories and scalars.
 *
 * A dynamic symbol is the size of the first tensor that has it as a dimension. Sizes and strides
 * of a tensor are its own, fixed here: setting a symbol later never changes the geometry. */
#include "backend/sim/eval.h"

static const char *param_name(const Eval *ev, int i) { return ev->k->params.at[i].name; }
static const Type *param_type(const Eval *ev, int i) { return ev->k->body->args[i]->type; }

/* ---- symbols ---- */

static bool bind_rows(Eval *ev) {
  const Kernel *k = ev->k;
  SymBinding *bindings = ARENA_ARRAY(ev->home, SymBinding, k->constraints.n);
  int n = 0;
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *c = &k->constraints.at[i];
    if (c->kind == CONSTRAINT_bind) bindings[n++] = (SymBinding){c->dim, c->size};
  }
  if (!sym_resolve_bindings(ev->cx->sym, bindings, n))
    return eval_fail(ev, DIAG_E0104, "%s", sym_take_error(ev->cx->sym));
  for (int i = 0; i < n; i++) env_define(ev, bindings[i].from, bindings[i].to);
  return true;
}

/* The size of `symbol` in tensor i: shape / factor of a dimension that is symbol * factor. */
static bool size_in_tensor(const Eval *ev, int i, const Sym *symbol, bool scaled, int64_t *out) {
  const Type *t = param_type(ev, i);
  const EvalBuffer *b = ev->args[i].buffer;
  if (t->kind != TYPE_mem || !b || b->rank != t->rank) return false;
  for (int d = 0; d < t->rank; d++) {
    Axis a = axis_of(t->dims[d]);
    if (a.base != symbol || (a.num != a.den) != scaled) continue;
    if (b->shape[d] * a.den % a.num) continue;
    *out = b->shape[d] * a.den / a.num;
    return true;
  }
  return false;
}

static bool bind_dynamic(Eval *ev, const Sym *symbol, Span at) {
  int64_t size;
  for (int scaled = 0; scaled < 2; scaled++)
    for (int i = 0; i < kernel_given(ev->k); i++)
      if (size_in_tensor(ev, i, symbol, scaled, &size)) {
        env_set(ev, env_slot(ev, sym_name(symbol)), size);
        return true;
      }
  for (int i = 0; i < ev->k->params.n; i++)
    if (ev->k->params.at[i].binds == symbol) return true;
  ev->at = at;
  eval_fail(ev, DIAG_E0103, "dynamic symbol `%s` is not a dimension of any argument",
            sym_name(symbol));
  eval_hint(ev, "give it a value in `subs`");
  return false;
}

/* ---- tensors ---- */

static bool check_size(Eval *ev, int i, int d) {
  const Type *t = param_type(ev, i);
  int64_t found = ev->args[i].buffer->shape[d], expected;
  if (t->layout && !t->layout[d]) return true; /* the tensor's own */
  if (t->layout ? !expr_value(ev, t->layout[d], &expected)
                : !place_dim_size(ev, t->dims[d], &expected))
    return false;
  if (found == expected) return true;
  return eval_fail(ev, DIAG_E0702, "argument `%s` has size %lld along `%s`, expected %lld",
                   param_name(ev, i), (long long)found, eval_text(ev, t->dims[d]),
                   (long long)expected);
}

static bool check_tensor(Eval *ev, int i) {
  const Type *t = param_type(ev, i);
  const EvalBuffer *b = ev->args[i].buffer;
  if (!b)
    return eval_fail(ev, DIAG_E0702, "argument `%s` is not a tensor, expected %s",
                     param_name(ev, i), type_text(ev->cx->diags.arena, ev->cx, t));
  if (b->rank != t->rank)
    return eval_fail(ev, DIAG_E0702, "argument `%s` has rank %d, expected %d", param_name(ev, i),
                     b->rank, t->rank);
  if (!dtype_accepts(t->dtype, b->dtype))
    return eval_fail(ev, DIAG_E0702, "argument `%s` has elements of %s, expected %s",
                     param_name(ev, i), dtype_info[b->dtype].name, dtype_info[t->dtype].name);
  return true;
}

static Memory *memory_of(Eval *ev, int i) {
  const Type *t = param_type(ev, i);
  const EvalBuffer *b = ev->args[i].buffer;
  Memory *m = ARENA_NEW(ev->home, Memory);
  *m = (Memory){.name = param_name(ev, i), .dims = t->dims, .dtype = t->dtype, .rank = t->rank};
  m->data = b->data;
  for (int d = 0; d < t->rank; d++) m->size[d] = b->shape[d], m->stride[d] = b->strides[d];
  return m;
}

/* ---- scalars ---- */

static bool bind_scalar(Eval *ev, int i) {
  const Type *t = param_type(ev, i);
  if (ev->args[i].buffer)
    return eval_fail(ev, DIAG_E0702, "argument `%s` is a tensor, expected a %s", param_name(ev, i),
                     dtype_info[t->dtype].name);
  Tile *tile = tile_new(ev, t->dtype, &(Box){0});
  if (tile->f) tile->f[0] = dtype_round(t->dtype, ev->args[i].number);
  else tile->i[0] = dtype_wrap(t->dtype, ev->args[i].integer);
  ev->values[ev->k->body->args[i]->id].tile = tile;
  const Sym *symbol = ev->k->params.at[i].binds;
  if (symbol && !tile->f) env_set(ev, env_slot(ev, sym_name(symbol)), tile->i[0]);
  return true;
}

/* ---- everything ---- */

/* Assumptions about symbols that only the kernel itself sets cannot be checked at the call. */
static bool check_assumptions(Eval *ev) {
  for (int i = 0; i < ev->k->constraints.n; i++) {
    const Constraint *c = &ev->k->constraints.at[i];
    int64_t holds;
    if (c->kind != CONSTRAINT_assume || !expr_is_known(ev, c->expr)) continue;
    ev->at = c->at;
    if (!expr_value(ev, c->expr, &holds)) return false;
    if (!holds)
      return eval_fail(ev, DIAG_E0709, "the assumption `%s` does not hold for these arguments",
                       eval_text(ev, c->expr));
  }
  return true;
}

static bool bind_symbols(Eval *ev) {
  if (!bind_rows(ev)) return false;
  for (int i = 0; i < kernel_given(ev->k); i++) {
    const Type *t = param_type(ev, i);
    ev->at = ev->k->params.at[i].at;
    if (t->kind == TYPE_mem ? !check_tensor(ev, i) : !bind_scalar(ev, i)) return false;
  }
  for (int i = 0; i < ev->k->constraints.n; i++) {
    const Constraint *c = &ev->k->constraints.at[i];
    if (c->kind == CONSTRAINT_dynamic && !bind_dynamic(ev, c->dim, c->at)) return false;
  }
  place_aliases(ev);
  return true;
}

bool args_bind(Eval *ev, int nargs) {
  if (nargs != kernel_given(ev->k))
    return eval_fail(ev, DIAG_E0702, "`%s` got %d arguments, expected %d", ev->k->name, nargs,
                     kernel_given(ev->k));
  if (!bind_symbols(ev)) return false;
  for (int i = 0; i < nargs; i++) {
    const Type *t = param_type(ev, i);
    if (t->kind != TYPE_mem) continue;
    ev->at = ev->k->params.at[i].at;
    for (int d = 0; d < t->rank; d++)
      if (!check_size(ev, i, d)) return false;
    ev->values[ev->k->body->args[i]->id].memory = memory_of(ev, i);
  }
  return check_assumptions(ev);
}
