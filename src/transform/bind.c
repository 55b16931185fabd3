/* bind: bound symbols become their values.
 *     bind BLOCK_M = 64; bind S = BLOCK_M/2         bind BLOCK_M = 64; bind S = BLOCK_M/2
 *     workgroup M by BLOCK_M on 0            =>     workgroup M by 64 on 0
 *     %x = read %a {ept = S}                        %x = read %a {ept = 32}
 * Only what is evaluated changes. Names of dimensions (in types, in keys, as axes) stay, since a
 * dimension and its extent are two things; so do the rows themselves, which give the extent. */
#include "ir/attr.h"
#include "transform/pass.h"

typedef struct Bindings {
  SymCtx *sym;
  SymBinding *at;
  int n;
} Bindings;

static const Sym *substitute(void *user, const Sym *s) {
  const Bindings *b = user;
  return sym_subst(b->sym, s, b->at, b->n);
}

static bool fail(Kernel *k, DiagCode code, Span at) {
  diag_add(&k->cx->diags, code, at, "%s", sym_take_error(k->cx->sym));
  return false;
}

/* Values may mention other bound symbols. */
static bool gather(Kernel *k, Arena *a, Bindings *b) {
  *b = (Bindings){.sym = k->cx->sym, .at = ARENA_ARRAY(a, SymBinding, k->constraints.n)};
  Span first = k->at;
  for (int i = k->constraints.n - 1; i >= 0; i--) {
    const Constraint *c = &k->constraints.at[i];
    if (c->kind != CONSTRAINT_bind) continue;
    b->at[b->n++] = (SymBinding){c->dim, c->size};
    first = c->at;
  }
  return sym_resolve_bindings(b->sym, b->at, b->n) || fail(k, DIAG_E0104, first);
}

static bool bind_header(Kernel *k, Bindings *b) {
  for (int i = 0; i < k->constraints.n; i++) {
    Constraint *c = &k->constraints.at[i];
    if (c->kind != CONSTRAINT_bind && !constraint_rewrite(k, c, substitute, b))
      return fail(k, DIAG_E0105, c->at);
  }
  return true;
}

bool pass_bind(Kernel *k, PassCtx *cx) {
  Bindings b;
  if (!gather(k, cx->scratch, &b)) return false;
  if (!b.n) return true;
  for (Op *op = ir_first(k); op; op = ir_next(op))
    for (int i = 0; i < op->nattrs; i++)
      if (!attr_rewrite(k, &op->attrs[i], substitute, &b)) return fail(k, DIAG_E0105, op->at);
  return bind_header(k, &b);
}
