/* launch_facts.c: see launch_facts.h. */
#include "ir/launch_facts.h"

#include "ir/dtype.h"

static bool is_at_least_zero(SymCtx *cx, const SymFacts *f, const Sym *s) {
  return sym_range(cx, f, s).lo >= 0;
}

/* Threads run, so there are workgroups: no factor of their number is 0, nor the smallest of several numbers,
 * and in max(x, 0) it is x that is positive. */
static void assume_some(SymCtx *cx, SymFacts *f, const Sym *count) {
  int64_t number;
  SymKind kind = sym_kind(count);
  if (sym_is_int(count, &number) || !is_at_least_zero(cx, f, count)) return;
  for (int i = 0; (kind == SYM_mul || kind == SYM_min) && i < sym_nargs(count); i++)
    assume_some(cx, f, sym_arg(cx, count, i));
  if (kind == SYM_ceil || kind == SYM_symbol) sym_assume(f, sym_ge(cx, count, sym_int(cx, 1)));
  for (int i = 0; sym_kind(count) == SYM_max && sym_nargs(count) == 2 && i < 2; i++)
    if (sym_is_int(sym_arg(cx, count, 1 - i), &number) && number <= 0)
      sym_assume(f, sym_ge(cx, sym_arg(cx, count, i), sym_int(cx, 1)));
}

/* No machine runs more workgroups along a dimension than an i32 counts. If no factor of their number is less than 1
 * (assume_some), none is larger either. */
static void assume_countable(SymCtx *cx, SymFacts *f, const Sym *count) {
  sym_assume(f, sym_le(cx, count, sym_int(cx, INT32_MAX)));
  if (sym_kind(count) != SYM_mul) return;
  for (int i = 0; i < sym_nargs(count); i++)
    if (sym_range(cx, f, sym_arg(cx, count, i)).lo < 1) return;
  for (int i = 0; i < sym_nargs(count); i++) assume_countable(cx, f, sym_arg(cx, count, i));
}

SymFacts *launch_size_facts(Arena *a, const Kernel *k) {
  SymCtx *cx = k->cx->sym;
  SymFacts *f = sym_facts_new(a, cx, NULL);
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *c = &k->constraints.at[i];
    if (c->kind == CONSTRAINT_assume && ir_is_of_launch(k, c->assume.condition))
      sym_assume(f, c->assume.condition);
    if (c->kind == CONSTRAINT_bind) sym_assume(f, sym_eq(cx, c->bind.symbol, c->bind.value));
  }
  sym_take_error(cx);
  return f;
}

void launch_assume_versions(SymFacts *f, const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (op->kind != OP_set_symbol) continue;
    DType t = op->args[0]->type->dtype;
    if (dtype_info[t].bits < 64)
      sym_assume_range(f, op_attr(op, ATTR_version)->sym, dtype_min_int(t), dtype_max_int(t));
  }
}

SymFacts *launch_facts(Arena *a, const Kernel *k, const LaunchSpec *launch) {
  SymCtx *cx = k->cx->sym;
  SymFacts *f = launch_size_facts(a, k);
  for (int i = 0; i < 3; i++) {
    assume_some(cx, f, launch->grid[i]);
    assume_countable(cx, f, launch->grid[i]);
    sym_assume(f, sym_lt(cx, ir_numbered_symbol(k->cx, "$T", i, true), launch->block[i]));
    sym_assume(f, sym_lt(cx, ir_numbered_symbol(k->cx, "$WG", i, true), launch->grid[i]));
  }
  launch_assume_versions(f, k);
  sym_take_error(cx);
  return f;
}
