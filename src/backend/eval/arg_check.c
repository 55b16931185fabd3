/* arg_check.c: see arg_check.h. The runtime reports the same for compiled kernels
 * (launch_check.c). */
#include "backend/eval/arg_check.h"

#include "ir/dtype.h"

#define WRONG(k, param, ...)                                                                       \
  (diag_add(&(k)->cx->diags, DIAG_E0702, (k)->params.at[param].at, __VA_ARGS__) == NULL)

bool arg_is_tensor(Kernel *k, int param, const EvalBuffer *b) {
  const Type *t = k->body->args[param]->type;
  const char *name = k->params.at[param].name, *type = type_text(k->cx->diags.arena, k->cx, t);
  if (!b) return WRONG(k, param, "argument `%s` is not a tensor, expected %s", name, type);
  if (b->rank != t->rank)
    return WRONG(k, param, "argument `%s` has rank %d, expected %d: %s", name, b->rank, t->rank,
                 type);
  return dtype_accepts(t->dtype, b->dtype) ||
         WRONG(k, param, "argument `%s` has dtype %s, expected %s", name, dtype_info[b->dtype].name,
               type);
}

/* The size follows from other tensors: no row gives it a value. */
static bool is_given(const Kernel *k, const Sym *size) {
  const Sym *base;
  int64_t num, den;
  return size && sym_scaled_symbol(size, &base, &num, &den) &&
         !kernel_constraint(k, CONSTRAINT_bind, base);
}

bool arg_has_size(Kernel *k, int param, const EvalBuffer *b, int d, int64_t expected) {
  const Type *t = k->body->args[param]->type;
  Diags *diags = &k->cx->diags;
  if (b->shape[d] == expected) return true;
  Diag *wrong =
      diag_add(diags, DIAG_E0702, k->params.at[param].at,
               "argument `%s` has size %lld along `%s`, expected %lld", k->params.at[param].name,
               (long long)b->shape[d], sym_text(diags->arena, t->dims[d]), (long long)expected);
  diag_hint_size(diags, wrong, t->rank, is_given(k, t->dims[d]));
  return false;
}

bool arg_size_is_broken(Kernel *k, int param, const EvalBuffer *b, int d) {
  const Type *t = k->body->args[param]->type;
  return WRONG(k, param,
               "argument `%s` has size %lld along dim %d; `%s` is not an integer for these sizes",
               k->params.at[param].name, (long long)b->shape[d], d,
               sym_text(k->cx->diags.arena, t->dims[d]));
}

bool arg_is_value(Kernel *k, int param, int64_t v) {
  DType t = k->body->args[param]->type->dtype;
  return dtype_is_float(t) || dtype_holds_int(t, v) ||
         WRONG(k, param, "argument `%s` is %lld, which is not a valid %s", k->params.at[param].name,
               (long long)v, dtype_info[t].name);
}

bool arg_fits_symbol(Kernel *k, int param, int64_t v) {
  const Sym *symbol = k->params.at[param].binds;
  if (v >= 0 || !symbol || !sym_is_nonneg_symbol(symbol)) return true;
  return WRONG(k, param, "argument `%s` is %lld, but the symbol that it defines is not negative",
               k->params.at[param].name, (long long)v);
}
