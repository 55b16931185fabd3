/* share: a division that several expressions contain is computed once.
 *
 *     %o = expr 3*floor($T0/7) + Mod($T0, 5)        %q = expr floor($T0/7)
 *     %m = expr floor($T0/7) < 9             =>     %o = expr 3*$APPLY_EXPR_ARG_0 + Mod($T0, 5) %q
 *                                                   %m = expr $APPLY_EXPR_ARG_0 < 9 %q
 *
 * Equal expressions are the same pointer, so finding them is a matter of counting. A quotient is
 * inserted before the first op that needs it; quotients that a loop does not change are extracted
 * too, for licm to move. What is computed only under a condition (a branch of Piecewise, an operand
 * of `&`) may be undefined otherwise, and stays there unless its divisor is known to be positive.
 *
 * Needs HEADER; one lane's program only. */
#include <string.h>

#include "analysis/motion.h"
#include "ir/launch_facts.h"
#include "ir/region_facts.h"
#include "transform/lane_expr.h"
#include "transform/pass.h"

typedef struct Share {
  Kernel *k;
  Arena *arena;
  SymCtx *sym;
  const SymFacts *facts; /* that hold in every thread */
  Map inside;            /* region -> facts that hold in it */
  Map users;             /* quotient -> ops that compute it */
  Map made;              /* region -> Map of quotient -> Value */
  Map symbols;           /* region -> RegionSymbols */
} Share;

/* ---- what is worth sharing ---- */
static bool is_shift(int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

/* Whether a factor is divided by something other than a power of two. */
static bool has_denominator(SymCtx *sym, const Sym *e) {
  int64_t num, den;
  if (sym_is_rational(e, &num, &den)) return !is_shift(den);
  if (sym_kind(e) == SYM_pow) {
    const Sym *exponent = sym_arg(sym, e, 1);
    return sym_is_rational(exponent, &num, &den) && num < 0;
  }
  bool found = false;
  if (sym_kind(e) == SYM_add || sym_kind(e) == SYM_mul)
    for (int i = 0; !found && i < sym_nargs(e); i++)
      found = has_denominator(sym, sym_arg(sym, e, i));
  return found;
}

static bool is_quotient(SymCtx *sym, const Sym *e) {
  int64_t v;
  SymKind kind = sym_kind(e);
  if (kind == SYM_mod) {
    const Sym *by = sym_arg(sym, e, 1);
    return !sym_is_int(by, &v) || !is_shift(v);
  }
  return (kind == SYM_floor || kind == SYM_ceil) && has_denominator(sym, sym_arg(sym, e, 0));
}

static bool mentions_operand(const Sym *e) { return ir_expr_mentions(e, "$APPLY_EXPR_ARG_"); }

/* Launches pass its value, and constants for divisions by it. This works only if it is not hidden in an
 * operand. */
static bool is_known_at_launch(Share *s, const Sym *e) {
  FreeSymbols all = sym_symbols(s->arena, e);
  for (int i = 0; i < all.n; i++) {
    const char *name = sym_name(all.at[i]);
    if (name[0] == '$' || strchr(name, '.')) return false; /* an id, a counter; a version */
  }
  return true;
}

/* Whether e may be computed; if it is not `always` computed, only if it cannot fail. */
static bool may_take(Share *s, const Sym *e, bool always) {
  return is_quotient(s->sym, e) && !mentions_operand(e) && !is_known_at_launch(s, e) &&
         (always || !expr_may_fail(s->sym, s->facts, e));
}

/* Whether an operand of e is computed whenever e is: of a select only the condition, of `&` and `|` none. */
static bool is_always(const Sym *e, int operand, bool always) {
  SymKind kind = sym_kind(e);
  if (kind == SYM_and || kind == SYM_or) return false;
  return always && (kind != SYM_select || operand == 0);
}

static void count(Share *s, Map *seen, const Sym *e, bool always) {
  if (sym_nargs(e) == 0 || map_get(seen, map_key(e))) return;
  map_set(s->arena, seen, map_key(e), s);
  for (int i = 0; i < sym_nargs(e); i++)
    count(s, seen, sym_arg(s->sym, e, i), is_always(e, i, always));
  if (!may_take(s, e, always)) return;
  uintptr_t users = (uintptr_t)map_get(&s->users, map_key(e));
  map_set(s->arena, &s->users, map_key(e), (void *)(users + 1));
}

static const RegionSymbols *symbols_of(Share *s, const Region *r) {
  RegionSymbols *symbols = map_get(&s->symbols, map_key(r));
  if (symbols) return symbols;
  symbols = region_symbols(s->k, s->arena, r);
  map_set(s->arena, &s->symbols, map_key(r), symbols);
  return symbols;
}

/* Whether this part of the op's expression could be moved out of the loop although the op cannot. */
static bool could_leave(Share *s, const Op *op, const Sym *e) {
  const Region *r = op->parent;
  if (!op_is_loop(r->owner) || expr_is_tied(e, symbols_of(s, r))) return false;
  return op_is_tied(op, symbols_of(s, r)) || op->nargs > 0;
}

static bool is_worth(Share *s, const Op *op, const Sym *e, bool always) {
  if (!may_take(s, e, always) || e == op_attr(op, ATTR_expr)->sym) return false;
  return (uintptr_t)map_get(&s->users, map_key(e)) > 1 || could_leave(s, op, e);
}

/* ---- extracting quotients ---- */

/* An expression being rewritten. */
typedef struct Draft {
  Op *op; /* the op that contains it, or before which it is inserted */
  LaneExprDraft operands;
} Draft;

static Value *value_of(Share *s, Op *op, const Sym *e);
static const Sym *rewrite(Share *s, Draft *d, const Sym *e, bool always);

static const Sym *rewrite_operands(Share *s, Draft *d, const Sym *e, bool always) {
  int n = sym_nargs(e);
  const Sym **args = ARENA_ARRAY(s->arena, const Sym *, n + 1);
  for (int i = 0; i < n; i++)
    args[i] = rewrite(s, d, sym_arg(s->sym, e, i), is_always(e, i, always));
  const Sym *made = sym_with_args(s->sym, e, args);
  if (!made) sym_take_error(s->sym);
  return made ? made : e;
}

static const Sym *rewrite(Share *s, Draft *d, const Sym *e, bool always) {
  if (sym_nargs(e) == 0) return e;
  if (is_worth(s, d->op, e, always)) {
    const Sym *operand = lane_expr_use(s->k, &d->operands, value_of(s, d->op, e));
    if (operand) return operand;
  }
  return rewrite_operands(s, d, e, always);
}

static Value *find_made(Share *s, const Region *r, const Sym *e) {
  for (; r; r = r->owner ? r->owner->parent : NULL) {
    const Map *made = map_get(&s->made, map_key(r));
    Value *v = made ? map_get(made, map_key(e)) : NULL;
    if (v || expr_is_tied(e, symbols_of(s, r))) return v;
  }
  return NULL;
}

/* Conditions and the counters of loops included. */
static const SymFacts *facts_in(Share *s, const Region *r) {
  if (!r->owner) return s->facts;
  const SymFacts *f = map_get(&s->inside, map_key(r));
  if (f) return f;
  f = region_facts(s->k, s->arena, r->owner, s->facts, facts_in(s, r->owner->parent));
  map_set(s->arena, &s->inside, map_key(r), (void *)f);
  return f;
}

/* The quotient e before `op`, or the earlier one. */
static Value *value_of(Share *s, Op *op, const Sym *e) {
  Value *v = find_made(s, op->parent, e);
  if (v) return v;
  Draft d = {.op = op};
  const Sym *spelt = rewrite_operands(s, &d, e, true);
  DType dtype = lane_expr_dtype(s->sym, facts_in(s, op->parent), e);
  Op *made = ir_insert(s->k, op, OP_expr, op->at, d.operands.args, d.operands.nargs,
                       type_scalar(s->k->cx, dtype));
  op_set_attr(s->k, made, (Attr){.key = ATTR_expr, .sym = spelt});
  Map *here = map_get(&s->made, map_key(op->parent));
  if (!here) map_set(s->arena, &s->made, map_key(op->parent), here = ARENA_NEW(s->arena, Map));
  map_set(s->arena, here, map_key(e), &made->results[0]);
  return &made->results[0];
}

static void share_in(Share *s, Op *op) {
  Draft d = {.op = op};
  if (!lane_expr_draft(op, &d.operands)) return;
  const Sym *spelt = rewrite(s, &d, op_attr(op, ATTR_expr)->sym, true);
  lane_expr_set(s->k, op, &d.operands, spelt);
}

bool pass_share(Kernel *k, PassCtx *cx) {
  Share s = {.k = k, .arena = cx->scratch, .sym = k->cx->sym, .facts = cx->facts.header};
  if (kernel_launch(k)) s.facts = launch_facts(s.arena, k, kernel_launch(k));
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    Map seen = {0};
    if (op->kind == OP_expr) count(&s, &seen, op_attr(op, ATTR_expr)->sym, true);
  }
  for (Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_expr) share_in(&s, op);
  return true;
}
