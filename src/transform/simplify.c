/* simplify: replaces every expression by the simplest one that the rules of sym/ can prove equal.
 *
 *     %x = read %a {ept = Max(4, 1)}               %x = read %a {ept = 4}
 *     if (N > 0) {                           =>    if (N >= 1) {
 *       %y = read %b {bounds = {M: Max(N, 1)}}       %y = read %b {bounds = {M: N}}
 *
 * The facts are: the header; inside a conditional its condition; inside a while loop the loop
 * condition (the axis of an iteration is one version, which does not change in the body); inside a
 * for loop that the counter is not negative and below the trip count. */
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "transform/pass.h"

typedef struct Scope {
  Kernel *k;
  Arena *arena;
  const SymFacts *entry; /* facts that hold throughout the kernel */
  const SymFacts *facts; /* facts that also hold here */
} Scope;

/* Mappings spell dynamic values as non-negative symbols, but values from memory may be negative. */
enum { MOST_DYNAMIC = 16 };
static const Sym *with_dynamic(SymCtx *sym, const Sym *s, bool given) {
  SymBinding to[MOST_DYNAMIC];
  for (int i = 0; i < MOST_DYNAMIC; i++)
    to[i] = (SymBinding){access_dynamic(sym, i, !given), access_dynamic(sym, i, given)};
  return sym_subst(sym, s, to, MOST_DYNAMIC);
}

/* An expression that cannot be simplified (because of an overflow on the way) stays unchanged. */
static const Sym *simpler(void *user, const Sym *s) {
  const Scope *scope = user;
  SymCtx *sym = scope->k->cx->sym;
  bool dynamic = ir_expr_mentions(s, "$dynamic_val");
  const Sym *result = sym_simplify(sym, scope->facts, dynamic ? with_dynamic(sym, s, false) : s);
  if (result && dynamic) result = with_dynamic(sym, result, true);
  if (!result) sym_take_error(sym);
  return result ? result : s;
}

static void simplify_region(Scope *scope, const Region *r) {
  for (Op *op = r->first; op; op = op->next) {
    for (int i = 0; i < op->nattrs; i++) attr_rewrite(scope->k, &op->attrs[i], simpler, scope);
    op_fold_value(scope->k, op);
    if (!op->body) continue;
    Scope inner = *scope;
    inner.facts = region_facts(scope->k, scope->arena, op, scope->entry, scope->facts);
    simplify_region(&inner, op->body);
  }
}

/* An assumption is a fact that would simplify itself away; so is a binding. */
static void simplify_header(Scope *scope) {
  for (int i = 0; i < scope->k->constraints.n; i++) {
    Constraint *c = &scope->k->constraints.at[i];
    if (c->kind == CONSTRAINT_bind || c->kind == CONSTRAINT_assume) continue;
    constraint_rewrite(scope->k, c, simpler, scope);
  }
}

bool pass_simplify(Kernel *k, PassCtx *cx) {
  Scope scope = {k, cx->scratch, cx->facts.header, cx->facts.header};
  simplify_header(&scope);
  simplify_region(&scope, k->body);
  return true;
}
