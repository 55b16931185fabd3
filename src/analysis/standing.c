/* standing.c: see standing.h.
 *
 * A fact that cannot be expressed is simply unknown; this is not reported. */
#include "analysis/standing.h"

#include "analysis/analysis.h"
#include "ir/dtype.h"
#include "ir/region_facts.h"

static SymCtx *syms(const Standing *s) { return s->d->k->cx->sym; }

static SymFacts *more_facts(const Standing *s) {
  return sym_facts_new(s->d->arena, syms(s), s->facts);
}

/* ---- at entry ---- */

static void assume_most(const Standing *s, SymFacts *f, const Sym *id, const Sym *count) {
  SymCtx *cx = syms(s);
  sym_assume(f, sym_le(cx, id, sym_sub(cx, count, sym_int(cx, 1))));
}

/* A count may be the larger of an expression and 0: then the expression is positive. */
static void assume_positive(const Standing *s, SymFacts *f, const Sym *e) {
  SymCtx *cx = syms(s);
  sym_assume(f, sym_ge(cx, e, sym_int(cx, 1)));
  if (e && sym_kind(e) == SYM_max && sym_nargs(e) == 2)
    for (int i = 0; i < 2; i++)
      if (sym_arg(cx, e, i) == sym_int(cx, 0)) assume_positive(s, f, sym_arg(cx, e, 1 - i));
}

/* An alias may derive the size 0, and then its row does not exist. All other tiles are positive. */
static bool is_own_row(const Kernel *k, const DivisionRow *r) {
  return !kernel_constraint(k, CONSTRAINT_alias, r->dim);
}

/* A workgroup exists, so there is at least one along each dimension. */
static void assume_grid(const Standing *s, SymFacts *f) {
  const Distribution *d = s->d;
  for (int i = 0; i < 3; i++) {
    assume_positive(s, f, d->grid[i]);
    assume_most(s, f, ir_numbered_symbol(s->d->k->cx, "$WG", i, true), d->grid[i]);
    sym_assume(
        f, sym_eq(syms(s), ir_numbered_symbol(s->d->k->cx, "$DD", i, true), sym_int(syms(s), 0)));
  }
  for (int i = 0; !d->explicit_grid && i < WORKGROUP_DIMS; i++) assume_positive(s, f, d->count[i]);
  for (int i = 0; i < d->rows.n; i++)
    if (is_own_row(d->k, &d->rows.at[i]))
      assume_positive(s, f, distribute_expr(d, NULL, d->rows.at[i].size));
}

const Standing *find_standing(Kernel *k, const Facts *known) {
  Standing *s = ARENA_NEW(known->arena, Standing);
  *s = (Standing){.d = known->distribute, .facts = known->distribute->facts};
  SymFacts *f = more_facts(s);
  assume_grid(s, f);
  sym_take_error(k->cx->sym);
  s->entry = s->facts = f;
  return s;
}

void standing_learn_remainders(SymCtx *cx, SymFacts *f, const Sym *e) {
  int64_t number;
  for (int i = 0; e && i < sym_nargs(e); i++) standing_learn_remainders(cx, f, sym_arg(cx, e, i));
  if (!e || sym_kind(e) != SYM_mod) return;
  const Sym *by = sym_arg(cx, e, 1), *one = sym_int(cx, 1);
  if (!sym_is_int(by, &number) && sym_proves(cx, f, sym_ge(cx, by, one)))
    sym_assume(f, sym_le(cx, e, sym_sub(cx, sym_simplify(cx, f, by), one)));
}

/* ---- walking ---- */

/* A version of a known scalar equals it, unless its dtype may wrap. */
static void learn_version(Standing *s, const Sym *version, const Value *v) {
  SymCtx *cx = syms(s);
  const Attr *value = v->def && v->def->kind == OP_scalar ? op_attr(v->def, ATTR_value) : NULL;
  if (!value || !value->sym || v->varying) return;
  const Sym *e = sym_floor(cx, distribute_expr(s->d, v->def, value->sym));
  SymRange range = sym_range(cx, s->facts, e);
  int bits = dtype_info[v->type->dtype].bits;
  int64_t most = bits < 64 ? (INT64_C(1) << (bits - 1)) - 1 : INT64_MAX;
  if (bits < 64 && (range.lo < -most || range.hi > most)) return;
  SymFacts *f = more_facts(s);
  if (e && sym_assume(f, sym_eq(cx, version, e))) s->facts = f;
}

Standing standing_after(const Standing *s, const Op *op) {
  Standing next = *s;
  if (op->kind == OP_set_symbol) learn_version(&next, op_attr(op, ATTR_version)->sym, op->args[0]);
  sym_take_error(syms(s));
  return next;
}

/* 0 <= counter < trips, in steps. */
static void learn_counter(const Standing *s, SymFacts *f, const Op *op, const Sym *counter) {
  SymCtx *cx = syms(s);
  const Attr *step = op_attr(op, ATTR_step);
  const Sym *trips = distribute_trips(s->d, op);
  sym_assume(f, sym_ge(cx, counter, sym_int(cx, 0)));
  if (trips && sym_contains(trips, counter)) trips = NULL; /* the counter of an enclosing loop */
  if (trips) assume_most(s, f, counter, trips);
  if (trips) assume_positive(s, f, trips);
  if (step && !op_has(op, ATTR_from))
    sym_assume(f, sym_eq(cx, sym_mod(cx, counter, sym_int(cx, step->integer)), sym_int(cx, 0)));
}

static void learn_condition(const Standing *s, SymFacts *f, const Op *op) {
  const Attr *condition = op_attr(op, ATTR_expr);
  if (!condition) return;
  const Sym *inside = region_condition_inside(syms(s), condition->sym);
  sym_assume(f, distribute_expr(s->d, op, inside));
}

static void enter_loop(Standing *s, const Sym *counter, const Sym *value) {
  StandingLoop *l = ARENA_NEW(s->d->arena, StandingLoop);
  for (const StandingLoop *outer = s->loops; outer; outer = outer->outer)
    if (outer->counter == counter) s->facts = s->entry; /* it now counts another loop */
  *l = (StandingLoop){counter, value, s->loops};
  s->loops = l;
}

Standing standing_inside(const Standing *s, const Op *op) {
  Standing inner = *s;
  const Attr *axis = op_attr(op, ATTR_axis), *version = op_attr(op, ATTR_version);
  const Sym *counter = axis ? ir_loop_counter(s->d->k, axis->sym) : NULL;
  if (counter) enter_loop(&inner, counter, version ? version->sym : counter);
  SymFacts *f = more_facts(&inner);
  if (op->kind == OP_for) learn_counter(s, f, op, counter);
  learn_condition(s, f, op);
  inner.facts = f;
  sym_take_error(syms(s));
  return inner;
}

/* ---- positions ---- */

/* Positions count a while loop by a symbol that cannot be negative, but its axis can be. */
static const Sym *with_values(const Standing *s, const Sym *e) {
  for (const StandingLoop *l = s->loops; e && l; l = l->outer)
    if (l->counter != l->value) e = sym_subst(syms(s), e, &(SymBinding){l->counter, l->value}, 1);
  return e;
}

bool standing_range(const Standing *s, const Op *op, const Sym *dim, DimRange *out) {
  TileRange range;
  if (!distribute_dim(s->d, op, dim, &range)) return false;
  out->start = sym_simplify(syms(s), s->facts, with_values(s, range.start));
  out->size = sym_simplify(syms(s), s->facts, range.extent);
  return out->start && out->size;
}

static const Sym *scaled(const Standing *s, const Sym *dim, const Sym *size) {
  const Sym *symbol;
  int64_t num, den;
  if (!sym_scaled_symbol(dim, &symbol, &num, &den)) return size;
  return sym_ceil(syms(s), sym_mul(syms(s), size, sym_rational(syms(s), num, den)));
}

const Sym *standing_extent(const Standing *s, const Op *op, const Sym *dim) {
  TileRange whole;
  return distribute_dim(s->d, op, dim_base(dim), &whole) ? scaled(s, dim, whole.size) : NULL;
}

const Sym *standing_entry_extent(const Standing *s, const Sym *dim) {
  return scaled(s, dim, distribute_expr(s->d, NULL, dim_base(dim)));
}
