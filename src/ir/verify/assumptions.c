/* assumptions.c: `assume` rows: which of them the compiler may use as facts.
 *
 *     dynamic N; bind M = 40                    a launch gives N; the kernel sets LEN
 *     assume Eq(Mod(N, 64), 0)                  a fact of code for launches that satisfy it
 *     assume Eq(Mod(M, 64), 0)                  false already: dropped, with a remark
 *     assume LEN < 100                          never a fact: no launch can check it
 *
 * Code that relies on an assumption is launched only if it holds. For other launches the kernel is
 * compiled once more, without any of its assumptions; `required` ones refuse such launches. */
#include <string.h>

#include "ir/ir.h"

/* ---- what a launch says ---- */

static bool is_of_argument(const Kernel *k, const Sym *symbol) {
  static const char *const what[] = {"SIZE", "STRIDE", "BASE"};
  for (int i = 0; i < kernel_given(k); i++) {
    if (k->params.at[i].binds && sym_same_name(k->params.at[i].binds, symbol)) return true;
    const Type *t = k->body->args[i]->type;
    for (size_t w = 0; t->kind == TYPE_mem && w < WV_LEN(what); w++)
      for (int d = w == 2 ? -1 : 0; d < (w == 2 ? 0 : t->rank); d++)
        if (sym_same_name(ir_param_symbol(k, i, what[w], d), symbol)) return true;
  }
  return false;
}

bool ir_is_of_launch(const Kernel *k, const Sym *e) {
  Arena *a = arena_new();
  SymBinding *bound = ARENA_ARRAY(a, SymBinding, k->constraints.n + 1);
  int nbound = kernel_bindings(k, bound);
  bool known = sym_resolve_bindings(k->cx->sym, bound, nbound);
  if (known) e = sym_subst(k->cx->sym, e, bound, nbound);
  if (!known || !e) sym_take_error(k->cx->sym);
  FreeSymbols symbols = sym_symbols(a, e);
  known = known && e;
  for (int i = 0; known && i < symbols.n; i++)
    known = is_of_argument(k, symbols.at[i]) || ir_symbol_size(k, symbols.at[i]);
  arena_free(a);
  return known;
}

/* ---- rows ---- */

static bool is_assumption(const Constraint *c) { return c->kind == CONSTRAINT_assume; }

bool kernel_has_fallback(const Kernel *k) {
  bool some = false;
  EACH_ROW(k, assume, c) {
    if (c->assume.required) return false;
    some |= ir_is_of_launch(k, c->assume.condition);
  }
  return some && k->level == LEVEL_TILE;
}

static void remove_row(Kernel *k, int i) {
  Constraint *at = k->constraints.at;
  memmove(&at[i], &at[i + 1], sizeof *at * (size_t)(k->constraints.n - i - 1));
  k->constraints.n--;
}

void kernel_drop_assumptions(Kernel *k) {
  for (int i = k->constraints.n - 1; i >= 0; i--)
    if (is_assumption(&k->constraints.at[i])) remove_row(k, i);
}

void kernel_require_assumptions(Kernel *k) {
  for (int i = 0; i < k->constraints.n; i++)
    if (is_assumption(&k->constraints.at[i])) k->constraints.at[i].assume.required = true;
}

/* The condition with bound values substituted; false if it has no value. */
static bool is_false(const Kernel *k, const Sym *e, const SymBinding *bound, int n) {
  SymCtx *sym = k->cx->sym;
  const Sym *value = sym_subst(sym, e, bound, n);
  if (!value) sym_take_error(sym);
  return !value || sym_prove(sym, NULL, value) == SYM_NEVER;
}

static bool settle_row(Kernel *k, int i) {
  const Constraint *c = &k->constraints.at[i];
  Diags *diags = &k->cx->diags;
  const char *text = sym_text(diags->arena, c->assume.condition);
  if (c->assume.required)
    return diag_fail(diags, DIAG_E0709, c->at,
                     "the assumption `%s` does not hold for the sizes of `%s`", text, k->name);
  diag_add(diags, DIAG_R0701, c->at,
           "the assumption `%s` does not hold for the sizes of `%s`, so it is dropped", text,
           k->name);
  remove_row(k, i);
  return true;
}

bool kernel_settle_assumptions(Kernel *k) {
  Arena *a = arena_new();
  SymBinding *bound = ARENA_ARRAY(a, SymBinding, k->constraints.n + 1);
  int n = kernel_bindings(k, bound);
  bool ok = true;
  if (!sym_resolve_bindings(k->cx->sym, bound, n)) n = 0, sym_take_error(k->cx->sym);
  for (int i = 0; ok && i < k->constraints.n;) {
    const Constraint *c = &k->constraints.at[i];
    if (is_assumption(c) && is_false(k, c->assume.condition, bound, n)) ok = settle_row(k, i);
    else i++;
  }
  arena_free(a);
  if (ok) kernel_check_sets(k);
  return ok;
}

/* ---- symbols that the kernel sets ---- */

static bool mentions(const Kernel *k, const Sym *e, const char *name) {
  return sym_contains(e, sym_symbol(k->cx->sym, name, true)) ||
         sym_contains(e, sym_symbol(k->cx->sym, name, false));
}

const Sym *kernel_assumed_of(const Kernel *k, const Sym *symbol, bool *required) {
  const Sym *all = NULL;
  *required = false;
  EACH_ROW(k, assume, c) {
    if (!mentions(k, c->assume.condition, sym_name(symbol))) continue;
    all = all ? sym_and(k->cx->sym, all, c->assume.condition) : c->assume.condition;
    *required |= c->assume.required;
  }
  return all;
}

/* ---- kernels that do not compile without assumptions ---- */

static const char *all_texts(const Kernel *k) {
  StrBuf out = {.arena = k->cx->diags.arena};
  EACH_ROW(k, assume, c)
    sb_printf(&out, "%s`%s`", out.n ? ", " : "", sym_text(out.arena, c->assume.condition));
  return sb_text(&out);
}

void kernel_blame_assumptions(Kernel *k, Diag *before) {
  Diags *diags = &k->cx->diags;
  const Diag *error = before ? before->next : diags->first;
  while (error && diag_info[error->code].severity != SEVERITY_error) error = error->next;
  diags_cut(diags, before);
  Diag *d = diag_add(diags, DIAG_E0709, k->at,
                     "these arguments violate an assumption of `%s` (%s), and it does not compile "
                     "without its assumptions",
                     k->name, all_texts(k));
  if (error)
    diag_note(diags, d, error->at, "error[%s]: %s", diag_info[error->code].code, error->text);
}
