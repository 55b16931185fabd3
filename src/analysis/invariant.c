/* invariant.c: whether an op or a symbol means the same at another position of the kernel. */
#include "analysis/analysis.h"
#include "analysis/motion.h"
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/region_facts.h"

static bool is_constant(const Sym *s) { return !s || sym_free_symbols(s, NULL, 0) == 0; }

/* Attributes without expressions (or only with numbers) mean the same everywhere. */
static bool attr_same_outside(const Attr *a) {
  AttrKind kind = attr_info[a->key].kind;
  if (kind == ATTR_KIND_NUMBER || kind == ATTR_KIND_EXPR) return is_constant(a->sym);
  /* DIM: `sum` along a dim of its operand; self_index is excluded by its operands. */
  return kind == ATTR_KIND_DIM || kind == ATTR_KIND_EXPRS || motion_is_plain(kind);
}

/* A loop divides its axis and the aliases derived from it. */
static bool is_cut(const Kernel *k, const Type *t, const Sym *axis) {
  for (int i = 0; i < t->rank; i++) {
    const Sym *dim = dim_base(t->dims[i]);
    for (int steps = 0; dim && steps <= k->constraints.n; steps++) {
      if (dim == dim_base(axis)) return true;
      const Constraint *alias = kernel_constraint(k, CONSTRAINT_alias, dim);
      dim = alias ? dim_base(alias->alias.of) : NULL;
    }
  }
  return false;
}

/* It names no position by itself, and none of its tiles is divided along the axis. */
static bool is_uncut(const Kernel *k, const Op *op, const Attr *axis) {
  if (op->body || op->kind == OP_self_index || op->kind == OP_exists) return false;
  for (int i = 0; axis && i < op->nresults; i++)
    if (is_cut(k, op->results[i].type, axis->sym)) return false;
  for (int i = 0; axis && i < op->nargs; i++)
    if (is_cut(k, op->args[i]->type, axis->sym)) return false;
  return true;
}

bool op_same_outside(const Kernel *k, const Op *op, const Region *region) {
  for (int i = 0; i < op->nattrs; i++)
    if (!attr_same_outside(&op->attrs[i])) return false;
  return is_uncut(k, op, region->owner ? op_attr(region->owner, ATTR_axis) : NULL);
}

/* ---- iterations ---- */

typedef struct Iteration {
  Kernel *k;
  const Sym *axis;
  bool sets; /* some op sets a symbol, whose value may change */
} Iteration;

/* The expression, if it does not change from one iteration to the next. */
static const Sym *same_again(void *user, const Sym *s) {
  const Iteration *at = user;
  SymCtx *sym = at->k->cx->sym;
  SymBinding zero[] = {{ir_loop_counter(at->k, at->axis), sym_int(sym, 0)},
                       {at->axis, sym_int(sym, 0)}};
  if (at->sets && !is_constant(s)) return NULL;
  return sym_subst(sym, s, zero, WV_LEN(zero)) == s ? s : NULL;
}

static bool attrs_same(Kernel *k, const Op *op, const Sym *axis) {
  ArenaMark mark = arena_mark(k->arena);
  Iteration at = {k, axis, set_symbols(k, k->arena).n > 0};
  bool same = true;
  for (int i = 0; same && i < op->nattrs; i++) {
    Attr a = op->attrs[i];
    same = attr_rewrite(k, &a, same_again, &at);
  }
  arena_rewind(k->arena, mark);
  sym_take_error(k->cx->sym);
  return same;
}

static bool is_repeated(Kernel *k, const RepeatedOps *known, const Op *op, const Op *loop) {
  const Attr *axis = op_attr(loop, ATTR_axis);
  bool reads = op->kind == OP_read && !memory_is_written(k, memory_root(op->args[0]));
  if (!(reads || op_is_pure(op)) || !axis || !is_uncut(k, op, axis)) return false;
  for (int i = 0; i < op->nargs; i++) {
    const Op *def = op->args[i]->def;
    bool inside = region_of_value(op->args[i]) == loop->body;
    if (inside && !(def && op_is_repeated(known, def))) return false;
  }
  return attrs_same(k, op, axis->sym);
}

RepeatedOps invariant_repeated(Kernel *k, Arena *a, const Op *loop) {
  RepeatedOps out = {0};
  for (const Op *op = loop->body->first; op; op = op->next)
    if (is_repeated(k, &out, op, loop)) vec_push(a, &out, op);
  return out;
}

bool op_is_repeated(const RepeatedOps *ops, const Op *op) {
  for (int i = 0; i < ops->n; i++)
    if (ops->at[i] == op) return true;
  return false;
}

/* ---- positions ---- */

typedef struct Standpoint {
  const Distribution *d;
  const Op *op;
  const Region *around; /* loops inside it have counters of their own */
} Standpoint;

static bool mentions_counter(const Standpoint *at, const Sym *s, const Op *loop) {
  SymCtx *sym = at->d->k->cx->sym;
  const Attr *axis = op_attr(loop, ATTR_axis);
  if (!axis) return false;
  SymBinding counter = {ir_loop_counter(at->d->k, axis->sym), sym_int(sym, 0)};
  return sym_subst(sym, s, &counter, 1) != s;
}

/* The expression as seen from there; NULL: a counter in it is a different one there. */
static const Sym *seen_from(void *user, const Sym *s) {
  const Standpoint *at = user;
  const Sym *seen = distribute_expr(at->d, at->op, s);
  for (const Region *r = at->op->parent; seen && r != at->around; r = r->owner->parent)
    if (mentions_counter(at, seen, r->owner)) return NULL;
  return seen;
}

bool op_same_before(const Distribution *d, const Op *op, const Op *where) {
  Kernel *k = d->k;
  Standpoint here = {d, op, op->parent}, there = {d, where, op->parent};
  ArenaMark mark = arena_mark(k->arena);
  bool same = true;
  for (int i = 0; same && i < op->nattrs; i++) {
    Attr a = op->attrs[i], b = op->attrs[i];
    same = attr_rewrite(k, &a, seen_from, &here) && attr_rewrite(k, &b, seen_from, &there) &&
           attr_equal(&a, &b);
  }
  arena_rewind(k->arena, mark);
  sym_take_error(k->cx->sym); /* an expression that overflows is not known to be the same */
  return same;
}

SetSymbols set_symbols(const Kernel *k, Arena *a) {
  SetSymbols set = {0};
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    const Attr *to = op->kind == OP_set_symbol ? op_attr(op, ATTR_symbol)
                     : op->kind == OP_while    ? op_attr(op, ATTR_axis)
                                               : NULL;
    if (to && !symbol_is_set(&set, to->sym)) vec_push(a, &set, to->sym);
  }
  return set;
}

bool symbol_is_set(const SetSymbols *set, const Sym *symbol) {
  for (int i = 0; i < set->n; i++)
    if (set->at[i] == symbol) return true;
  return false;
}
