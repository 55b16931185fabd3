/* api_fit.c: open kernels (fit.h) through wave.h: asking, fitting them to sizes, simulating them.
 */
#include <string.h>

#include "driver/api/api.h"
#include "driver/fit.h"

bool wv_kernel_is_open(wv_kernel *k) {
  API_KERNEL_USES(k, false);
  return fit_open(k->k).n > 0;
}

/* The value of a symbol among the bindings. */
static bool find_value(const wv_binding *given, int n, const Sym *symbol, int64_t *out) {
  for (int i = 0; i < n; i++) {
    const Sym *from = api_sym(given[i].from);
    if (sym_same_name(from, symbol)) return sym_is_int(api_sym(given[i].to), out) && *out >= 0;
  }
  return false;
}

wv_kernel *wv_kernel_fit(wv_kernel *k, const wv_binding *given, int n) {
  API_KERNEL_USES(k, NULL);
  if (!api_list(k->cx, given, n, "values of symbols")) return NULL;
  OpenSymbols open = fit_open(k->k);
  int64_t values[OPEN_MOST];
  for (int i = 0; i < open.n; i++) {
    if (find_value(given, n, open.at[i].symbol, &values[i])) continue;
    diag_add(&k->k->cx->diags, DIAG_E0103, k->k->at, "`%s` of `%s` has no value",
             sym_name(open.at[i].symbol), k->k->name);
    return NULL;
  }
  Fit fit = fit_of(&open, values, false);
  Kernel *fitted = fit_kernel(k->k, &open, &fit);
  return fitted ? api_kernel(k->cx, fitted) : NULL;
}

/* ---- simulations ---- */

typedef struct SizedKernel {
  Fit fit;
  const char *target;
  wv_kernel *kernel; /* lowered */
  struct SizedKernel *next;
} SizedKernel;

void api_kernel_free_sized(wv_kernel *k) {
  for (SizedKernel *s = k->sized; s; s = s->next) api_kernel_free(s->kernel);
}

/* A lowered copy; NULL after reporting. */
static wv_kernel *lower_sized(wv_kernel *k, const OpenSymbols *open, const Fit *fit,
                              const char *target) {
  for (const SizedKernel *s = k->sized; s; s = s->next)
    if (fit_equal(open, &s->fit, fit) && strcmp(s->target, target) == 0) return s->kernel;
  Kernel *fitted = fit_kernel(k->k, open, fit);
  if (!fitted) return NULL;
  wv_kernel *made = api_kernel(k->cx, fitted);
  arena_owner(made->k->arena, api_kernel_free, made);
  if (!wv_lower(made, &(wv_pass_options){.target = target})) return wv_kernel_free(made), NULL;
  SizedKernel *s = ARENA_NEW(k->k->arena, SizedKernel);
  *s = (SizedKernel){*fit, arena_strdup(k->k->arena, target), api_kernel_owned(made), k->sized};
  k->sized = s;
  return made;
}

wv_kernel *api_kernel_for(wv_kernel *k, const char *target, const EvalArg *args, int nargs) {
  OpenSymbols open = fit_open(k->k);
  int64_t values[OPEN_MOST];
  if (!open.n) return k;
  ir_warn(k->k);
  fit_remark(k->k, &open);
  if (!fit_values(k->k, &open, args, nargs, values)) return NULL;
  Fit fit = fit_of(&open, values, false), exact = fit_of(&open, values, true);
  Diag *before = k->k->cx->diags.last;
  wv_kernel *made = lower_sized(k, &open, &fit, target);
  if (made || fit.exact) return made;
  diags_cut(&k->k->cx->diags, before);
  return lower_sized(k, &open, &exact, target);
}
