/* bind: replaces bound symbols by their values.
 *
 *     bind BLOCK_M = 64; bind S = BLOCK_M/64        bind BLOCK_M = 64; bind S = BLOCK_M/64
 *     workgroup M by BLOCK_M on 0            =>     workgroup M by 64 on 0
 *     %x = read %a {ept = S}                        %x = read %a {ept = 1}
 *
 * Only expressions that are evaluated change. Names of dimensions (in types, in keys, as axes)
 * stay, since a dimension and its extent are different things; so do the rows themselves, which
 * give the extent. The header is used at many ops, so a symbol that some op sets keeps its name
 * there. So does a symbol whose value mentions workgroup ids: for ids that a row mentions itself,
 * positions use the reordered ones. */
#include <string.h>

#include "ir/attr.h"
#include "transform/pass.h"

typedef struct Where {
  const Distribution *d;
  const Op *op; /* NULL: the header */
} Where;

/* `to` mentions a workgroup id that `from` does not. */
static bool brings_ids(const Distribution *d, const Sym *from, const Sym *to) {
  FreeSymbols symbols = sym_symbols(d->arena, to);
  for (int i = 0; i < symbols.n; i++)
    if (strncmp(sym_name(symbols.at[i]), "$WG", 3) == 0 && !sym_contains(from, symbols.at[i]))
      return true;
  return false;
}

static const Sym *substitute(void *user, const Sym *s) {
  const Where *at = user;
  if (at->op) return distribute_expr(at->d, at->op, s);
  const Sym *bound = distribute_fixed(at->d, s);
  return bound && brings_ids(at->d, s, bound) ? s : bound;
}

/* A mask already refers to versions; everything else in it is a size at entry. */
static const Sym *substitute_entry(void *user, const Sym *s) {
  return distribute_expr(((const Where *)user)->d, NULL, s);
}

static bool fail(Kernel *k, DiagCode code, Span at) {
  return diag_fail(&k->cx->diags, code, at, "%s", sym_take_error(k->cx->sym));
}

/* Values may mention other bound symbols, but not in a cycle. */
static bool check_cycles(Kernel *k, Arena *a) {
  SymBinding *all = ARENA_ARRAY(a, SymBinding, k->constraints.n);
  const Constraint *first = kernel_constraint(k, CONSTRAINT_bind, NULL);
  int n = kernel_bindings(k, all);
  return sym_resolve_bindings(k->cx->sym, all, n) || fail(k, DIAG_E0104, first ? first->at : k->at);
}

static bool bind_op(Kernel *k, const Distribution *d, Op *op) {
  Where at = {d, op};
  for (int i = 0; i < op->nattrs; i++) {
    SymFn *fn = op->attrs[i].key == ATTR_mask ? substitute_entry : substitute;
    if (!attr_rewrite(k, &op->attrs[i], fn, &at)) return fail(k, DIAG_E0105, op->at);
  }
  op_fold_value(k, op);
  return ir_check_ept(k, op) && ir_check_slot(k, op);
}

static bool bind_row(Kernel *k, const Distribution *d, Constraint *c) {
  Where at = {d, NULL};
  return c->kind == CONSTRAINT_bind || constraint_rewrite(k, c, substitute, &at) ||
         fail(k, DIAG_E0105, c->at);
}

/* ---- counters ---- */

typedef struct Renames {
  SymCtx *sym;
  SymBinding *to;
  int n;
} Renames;

static const Sym *rename_counters(void *user, const Sym *s) {
  const Renames *r = user;
  return sym_subst(r->sym, s, r->to, r->n);
}

/* The name that a row gives to the counter of its loops is an alias of $ARG<dim>. */
static bool bind_counters(Kernel *k, Arena *a) {
  Renames r = {.sym = k->cx->sym, .to = ARENA_ARRAY(a, SymBinding, k->constraints.n + 1)};
  bool ok = true;
  for (int i = 0; i < k->constraints.n; i++) {
    Constraint *c = &k->constraints.at[i];
    if (c->kind != CONSTRAINT_tile || !c->tile.counter) continue;
    r.to[r.n].from = c->tile.counter;
    c->tile.counter = NULL;
    r.to[r.n++].to = ir_loop_counter(k, c->tile.dim);
  }
  for (int i = 0; r.n && i < k->constraints.n; i++)
    ok = ok && constraint_rewrite(k, &k->constraints.at[i], rename_counters, &r);
  for (Op *op = ir_first(k); r.n && op; op = ir_next(op))
    for (int i = 0; i < op->nattrs; i++)
      ok = ok && attr_rewrite(k, &op->attrs[i], rename_counters, &r);
  return ok || fail(k, DIAG_E0105, k->at);
}

bool pass_bind(Kernel *k, PassCtx *cx) {
  const Distribution *d = cx->facts.distribute;
  if (!check_cycles(k, cx->scratch)) return false;
  for (Op *op = ir_first(k); op; op = ir_next(op))
    if (!bind_op(k, d, op)) return false;
  for (int i = 0; i < k->constraints.n; i++)
    if (!bind_row(k, d, &k->constraints.at[i])) return false;
  return bind_counters(k, cx->scratch);
}
