/* eval_args.c: from the arguments of a call to symbols, memories and scalars.
 *
 * A symbol that no row gives a value is the size of a tensor (ir_symbol_size says which). Sizes and
 * strides of a tensor are its own, fixed here: setting a symbol later never changes the
 * geometry. */
#include "backend/eval/arg_check.h"
#include "backend/eval/eval.h"

static const char *param_name(const Eval *ev, int i) { return ev->k->params.at[i].name; }
static const Type *param_type(const Eval *ev, int i) { return ev->k->body->args[i]->type; }

/* ---- symbols ---- */

static bool bind_rows(Eval *ev) {
  const Kernel *k = ev->k;
  SymBinding *bindings = ARENA_ARRAY(ev->home, SymBinding, k->constraints.n);
  int n = 0;
  EACH_ROW(k, bind, c) bindings[n++] = (SymBinding){c->bind.symbol, c->bind.value};
  if (!sym_resolve_bindings(ev->cx->sym, bindings, n))
    return eval_fail(ev, DIAG_E0104, "%s", sym_take_error(ev->cx->sym));
  for (int i = 0; i < n; i++) env_define(ev, bindings[i].from, bindings[i].to);
  return true;
}

static void set_sizes(Eval *ev, int i) {
  const EvalBuffer *b = ev->args[i].buffer;
  for (int d = 0; d < b->rank; d++)
    env_set(ev, env_slot(ev, sym_name(ir_param_symbol(ev->k, i, "SIZE", d))), b->shape[d]);
}

static bool bind_dynamic(Eval *ev, const Sym *symbol, Span at) {
  int64_t value;
  ev->at = at;
  const Sym *size = ir_symbol_size(ev->k, symbol);
  if (size && !expr_value(ev, size, &value)) return false;
  if (size) env_set(ev, env_slot(ev, sym_name(symbol)), value);
  return true; /* a symbol without a value is reported where it is used */
}

/* A symbol in the shape of a tensor takes its size from there, whether listed or not. */
static bool bind_shapes(Eval *ev) {
  for (int i = 0; i < kernel_given(ev->k); i++) {
    const Type *t = param_type(ev, i);
    for (int d = 0; t->kind == TYPE_mem && d < t->rank; d++) {
      Axis a = axis_of(t->dims[d]);
      if (!sym_name(a.base) || expr_is_known(ev, a.base)) continue;
      if (!bind_dynamic(ev, a.base, ev->k->params.at[i].at)) return false;
    }
  }
  return true;
}

/* ---- tensors ---- */

/* Of K/32: K is a multiple of 32. */
static bool is_whole(Eval *ev, const Sym *dim) {
  Axis a = axis_of(dim);
  int64_t n;
  return !expr_is_known(ev, a.base) || !expr_extent(ev, a.base, &n) || n * a.num % a.den == 0;
}

static bool check_size(Eval *ev, int i, int d) {
  const Type *t = param_type(ev, i);
  int64_t expected;
  if (t->layout && !t->layout[d]) return true; /* the tensor's own */
  if (!t->layout && !is_whole(ev, t->dims[d]))
    return arg_size_is_broken(ev->k, i, ev->args[i].buffer, d);
  if (t->layout ? !expr_value(ev, t->layout[d], &expected)
                : !position_dim_size(ev, t->dims[d], &expected))
    return false;
  return arg_has_size(ev->k, i, ev->args[i].buffer, d, expected);
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
  if (!arg_is_value(ev->k, i, ev->args[i].integer)) return false;
  Tile *tile = tile_new(ev, t->dtype, &(Box){0});
  if (tile->f) tile->f[0] = dtype_round(t->dtype, ev->args[i].number);
  else tile->i[0] = ev->args[i].integer;
  ev->values[ev->k->body->args[i]->id].tile = tile;
  const Sym *symbol = ev->k->params.at[i].binds;
  if (symbol && !tile->f && !arg_fits_symbol(ev->k, i, tile->i[0])) return false;
  if (symbol && !tile->f) env_set(ev, env_slot(ev, sym_name(symbol)), tile->i[0]);
  return true;
}

/* ---- everything ---- */

/* Assumptions about symbols that the kernel sets are checked there. The evaluator does not use
 * assumptions: those that do not hold have no effect, unless they are required. */
static bool check_assumptions(Eval *ev) {
  EACH_ROW(ev->k, assume, c) {
    if (!expr_is_known(ev, c->assume.condition)) continue;
    ev->at = c->at;
    if (!eval_assumed(ev, c->assume.condition, c->assume.required, "for these arguments"))
      return false;
  }
  return true;
}

static bool bind_symbols(Eval *ev) {
  if (!bind_rows(ev)) return false;
  for (int i = 0; i < kernel_given(ev->k); i++) {
    const Type *t = param_type(ev, i);
    ev->at = ev->k->params.at[i].at;
    if (t->kind == TYPE_mem ? !arg_is_tensor(ev->k, i, ev->args[i].buffer) : !bind_scalar(ev, i))
      return false;
    if (t->kind == TYPE_mem) set_sizes(ev, i);
  }
  EACH_ROW(ev->k, dynamic, c)
    if (!bind_dynamic(ev, c->dynamic.symbol, c->at)) return false;
  position_aliases(ev);
  return bind_shapes(ev);
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
