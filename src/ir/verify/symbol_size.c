/* symbol_size.c: the launch value of a symbol to which no row gives one: the size of a tensor.
 *
 *     %x: mem<S, N, f32, layout(_, _)>, %y: mem<S, K/32, f32>, %z: mem<S, K, f32>
 *
 * S is $SIZE_y_0: %x may be larger or smaller, according to its layout. K is $SIZE_z_1 and not
 * 32*$SIZE_y_1: a dimension that is the symbol itself comes before one that is a multiple. N is
 * $SIZE_x_1, because no other tensor has it; among several such tensors the smallest counts, so
 * that all of them have an element for each coordinate.
 *
 * A symbol that no tensor has may follow from one that is bound: with `bind N = 2*P + 1`, P is ($SIZE_x_1 - 1)/2.
 *
 * By default, tensors that disagree are a mistake. kernel_free_sizes makes their layouts free. */
#include <string.h>

#include "ir/attr.h"
#include "ir/ir.h"

/* Compares names: a symbol may be known to be non-negative in one place and not in another. */
static bool is_multiple_of(const Sym *e, const Sym *symbol, int64_t *num, int64_t *den) {
  const Sym *base;
  return e && sym_scaled_symbol(e, &base, num, den) && sym_same_name(base, symbol);
}

/* The declared size along dim d: NULL if the tensor may have any. */
static const Sym *size_said(const Type *t, int d) { return t->layout ? t->layout[d] : t->dims[d]; }

/* The symbol's value, where `size` is the symbol times num/den. */
static const Sym *unscaled(SymCtx *sym, const Sym *size, int64_t num, int64_t den) {
  const Sym *value = sym_mul(sym, size, sym_rational(sym, den, num));
  return value && num != 1 ? sym_floor(sym, value) : value;
}

/* The first tensor whose declared size determines it: exactly, or as a multiple. */
static const Sym *said_size(const Kernel *k, const Sym *symbol, bool scaled) {
  for (int i = 0; i < kernel_given(k); i++) {
    const Type *t = k->body->args[i]->type;
    for (int d = 0; t->kind == TYPE_mem && d < t->rank; d++) {
      int64_t num, den;
      if (is_multiple_of(size_said(t, d), symbol, &num, &den) && (num != den) == scaled)
        return unscaled(k->cx->sym, ir_param_symbol(k, i, "SIZE", d), num, den);
    }
  }
  return NULL;
}

/* The smallest of the tensors that may have any size. */
static const Sym *free_size(const Kernel *k, const Sym *symbol) {
  SymCtx *sym = k->cx->sym;
  const Sym *least = NULL;
  for (int i = 0; i < kernel_given(k); i++) {
    const Type *t = k->body->args[i]->type;
    for (int d = 0; t->kind == TYPE_mem && d < t->rank; d++) {
      int64_t num, den;
      if (size_said(t, d) || !is_multiple_of(t->dims[d], symbol, &num, &den)) continue;
      const Sym *size = unscaled(sym, ir_param_symbol(k, i, "SIZE", d), num, den);
      least = least && size ? sym_min(sym, least, size) : size;
    }
  }
  return least;
}

/* The symbol's value if a dimension that is bound to `value` has this size: value is scale*symbol + offset. A size that
 * the expression never has is reported at launch, because the value that it gets here is another. */
static const Sym *solved(SymCtx *sym, const Sym *value, const Sym *symbol, const Sym *size) {
  const Sym *at[2];
  int64_t offset, first;
  for (int i = 0; i < 2; i++)
    at[i] = sym_subst(sym, value, &(SymBinding){symbol, sym_int(sym, i)}, 1);
  if (!at[0] || !at[1] || !sym_is_int(at[0], &offset) || !sym_is_int(at[1], &first)) return NULL;
  const Sym *scale = sym_int(sym, first - offset);
  const Sym *same = sym_add(sym, sym_mul(sym, scale, symbol), at[0]);
  if (first <= offset || same != value) return NULL;
  const Sym *found = sym_floordiv(sym, sym_sub(sym, size, at[0]), scale);
  return found ? sym_max(sym, found, sym_int(sym, 0)) : NULL;
}

/* The first tensor with a dimension whose bound value determines it. */
static const Sym *bound_size(const Kernel *k, const Sym *symbol) {
  SymCtx *sym = k->cx->sym;
  const Sym *size = NULL;
  Arena *a = arena_new();
  SymBinding *bound = ARENA_ARRAY(a, SymBinding, k->constraints.n + 1);
  int n = kernel_bindings(k, bound);
  bool resolved = n && sym_resolve_bindings(sym, bound, n);
  for (int i = 0; resolved && !size && i < kernel_given(k); i++) {
    const Type *t = k->body->args[i]->type;
    for (int d = 0; !size && t->kind == TYPE_mem && d < t->rank; d++) {
      const Sym *said = size_said(t, d), *value = said ? sym_subst(sym, said, bound, n) : NULL;
      if (value && value != said)
        size = solved(sym, value, symbol, ir_param_symbol(k, i, "SIZE", d));
    }
  }
  arena_free(a);
  return size;
}

const Sym *ir_symbol_size(const Kernel *k, const Sym *symbol) {
  const Sym *size = said_size(k, symbol, false);
  if (!size) size = said_size(k, symbol, true);
  if (!size) size = free_size(k, symbol);
  return size ? size : bound_size(k, symbol);
}

/* ---- tensors that may disagree ---- */

static bool is_bound(const Kernel *k, const Sym *symbol) {
  for (int i = 0; i < k->params.n; i++)
    if (k->params.at[i].binds == symbol) return true;
  return kernel_constraint(k, CONSTRAINT_bind, symbol) != NULL;
}

/* Another tensor, or another dim of this one, has the symbol too. */
static bool is_shared(const Kernel *k, const Sym *symbol) {
  int n = 0;
  for (int i = 0; i < kernel_given(k); i++) {
    const Type *t = k->body->args[i]->type;
    int64_t num, den;
    for (int d = 0; t->kind == TYPE_mem && d < t->rank; d++)
      n += is_multiple_of(t->dims[d], symbol, &num, &den);
  }
  return n > 1;
}

void kernel_free_sizes(Kernel *k) {
  for (int i = 0; i < kernel_given(k); i++) {
    const Type *t = k->body->args[i]->type;
    const Sym *layout[IR_MAX_RANK], *base;
    int64_t num, den;
    bool some = false;
    for (int d = 0; t->kind == TYPE_mem && d < t->rank; d++) {
      bool frees = size_said(t, d) == t->dims[d] &&
                   sym_scaled_symbol(t->dims[d], &base, &num, &den) && !is_bound(k, base) &&
                   is_shared(k, base);
      layout[d] = frees ? NULL : size_said(t, d);
      some |= frees;
    }
    if (some)
      k->body->args[i]->type = type_mem(k->cx, t->dims, t->rank, t->dtype, t->space, layout);
  }
}

/* Whether a row divides work along the symbol, or by it. */
static bool divides_by(Arena *a, const Constraint *c, const char *name) {
  if (c->kind != CONSTRAINT_workgroup && c->kind != CONSTRAINT_tile && c->kind != CONSTRAINT_wave)
    return false;
  const Sym *of[] = {c->divided.dim, c->divided.size};
  for (size_t i = 0; i < WV_LEN(of); i++) {
    FreeSymbols symbols = sym_symbols(a, of[i]);
    for (int j = 0; j < symbols.n; j++)
      if (strcmp(sym_name(symbols.at[j]), name) == 0) return true;
  }
  return false;
}

static bool is_called(const void *name, const Sym *s) {
  Arena *a = arena_new();
  FreeSymbols symbols = sym_symbols(a, s);
  bool found = false;
  for (int i = 0; i < symbols.n; i++) found |= strcmp(sym_name(symbols.at[i]), name) == 0;
  arena_free(a);
  return found;
}

/* The first op that names the symbol, or the kernel. */
static Span where_named(const Kernel *k, const char *name) {
  Kernel *searched = (Kernel *)(uintptr_t)k; /* it stays as it is */
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op_has_sym(searched, op, (SymSearch){is_called, name, false})) return op->at;
  return k->at;
}

const char *ir_unknown_hint(const Kernel *k, const char *name) {
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *c = &k->constraints.at[i];
    if (c->kind == CONSTRAINT_dynamic && strcmp(sym_name(c->dynamic.symbol), name) == 0)
      return "no tensor has a dimension of this name, from which `dynamic_symbols` take values";
  }
  return "give it one in `subs`, or list it in `dynamic_symbols`";
}

bool ir_fail_unknown(const Kernel *k, const char *name) {
  Arena *a = arena_new();
  Span at = where_named(k, name);
  for (int i = k->constraints.n - 1; i >= 0; i--)
    if (divides_by(a, &k->constraints.at[i], name)) at = k->constraints.at[i].at;
  arena_free(a);
  Diag *d = diag_add(&k->cx->diags, DIAG_E0103, at, "`%s` has no value", name);
  return diag_hint(&k->cx->diags, d, "%s", ir_unknown_hint(k, name));
}
