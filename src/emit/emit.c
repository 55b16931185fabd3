/* emit.c: appends ops to the lane's program, and finds the best scope for expressions. */
#include <string.h>

#include "analysis/access/divisors.h"
#include "analysis/analysis.h"
#include "analysis/motion.h"
#include "emit/emit.h"
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/ops/reductions.h"

const SymFacts *emit_facts(const Lower *l) { return l->scope->facts; }

/* ---- ops ---- */

static Value *append_op(Lower *l, LowerScope *scope, Op *op, const Type *type) {
  if (scope->open) ir_insert_before(scope->open, op);
  else ir_append(scope->region, op);
  if (!type) return NULL;
  ir_set_results(l->k, op, &type, 1);
  return &op->results[0];
}

static Op *make_op(Lower *l, OpKind kind, Value *const *args, int nargs, const Attr *attrs,
                   int nattrs) {
  Op *op = ir_op_new(l->k, kind, l->at, args, nargs);
  for (int i = 0; i < nattrs; i++) op_set_attr(l->k, op, attr_copy(l->k, &attrs[i]));
  return op;
}

Value *emit_op(Lower *l, OpKind kind, Value *const *args, int nargs, const Attr *attrs, int nattrs,
               const Type *type) {
  return append_op(l, l->scope, make_op(l, kind, args, nargs, attrs, nattrs), type);
}

/* ---- scopes of expressions ---- */

static LowerScope *scope_of(const Lower *l, const Sym *symbol) {
  for (int i = l->symbols.n - 1; i >= 0; i--)
    if (sym_same_name(l->symbols.at[i].symbol, symbol)) return l->symbols.at[i].scope;
  return NULL;
}

static bool is_conditional(const LowerScope *s) {
  return s->region->owner && s->region->owner->kind == OP_if;
}

static bool fits(Lower *l, const SymFacts *facts, const Sym *e, DType dtype) {
  if (!e) return false;
  if (sym_is_bool(e) || dtype == DTYPE_index || dtype == DTYPE_i64) return true;
  int bits = dtype_info[dtype].bits;
  SymRange r = sym_range(l->sym, facts, e);
  return r.lo >= -(INT64_C(1) << (bits - 1)) && r.hi <= (INT64_C(1) << (bits - 1)) - 1;
}

/* e in a form that is safe to compute where it was not before; NULL: there is none. */
static const Sym *guarded(Lower *l, const Sym *e) {
  if (!l->divisors) l->divisors = divisors_new(l->k, l->arena, l->standing.entry);
  return divisors_guard(l->divisors, e);
}

/* The outermost scope in which e is defined with the same value as here, or can be made so. */
static LowerScope *home_of(Lower *l, const Sym *e) {
  FreeSymbols symbols = sym_symbols(l->arena, e);
  LowerScope *home = l->scope;
  for (LowerScope *next = home; next && !is_conditional(home); home = next) {
    for (int i = 0; i < symbols.n; i++)
      if (scope_of(l, symbols.at[i]) == home) return home;
    next = home->outer;
    if (!next) return home;
    if (expr_may_fail(l->sym, next->facts, e) && !guarded(l, e)) return home;
  }
  return home;
}

/* ---- symbols that are hidden ---- */

/* Another name for the value of a symbol at entry: its bound value, or the size of an argument. */
static const Sym *entry_name(Lower *l, const Sym *symbol) {
  const Sym *bound = distribute_expr(l->d, NULL, symbol);
  if (bound != symbol) return bound;
  const Sym *size = ir_symbol_size(l->k, symbol);
  return size ? size : symbol;
}

const Sym *emit_sound(Lower *l, const Sym *e) {
  if (e) return e;
  sym_take_error(l->sym);
  l->refused = "an expression beyond 64 bits";
  return sym_int(l->sym, 0);
}

const Sym *emit_at_entry(Lower *l, const Sym *e) {
  e = emit_sound(l, e);
  if (!l->hidden.n) return e;
  FreeSymbols symbols = sym_symbols(l->arena, e);
  int hidden = 0;
  SymBinding *to = ARENA_ARRAY(l->arena, SymBinding, symbols.n + 1);
  for (int i = 0; i < symbols.n; i++)
    if (sym_name(symbols.at[i])[0] != '$' && symbol_is_set(&l->hidden, symbols.at[i]))
      to[hidden++] = (SymBinding){symbols.at[i], entry_name(l, symbols.at[i])};
  return hidden ? sym_subst(l->sym, e, to, hidden) : e;
}

const Sym *emit_param_symbol(Lower *l, int param, const char *what, int dim) {
  return ir_param_symbol(l->k, param, what, dim);
}

/* ---- expressions ---- */

static Map *memo(LowerScope *s, DType dtype) {
  return dtype == DTYPE_index                      ? &s->wide
         : dtype == DTYPE_i32 || dtype == DTYPE_i1 ? &s->exprs
                                                   : NULL;
}

static Value *known_expr(Lower *l, const Sym *e, DType dtype) {
  for (LowerScope *s = l->scope; s; s = s->outer) {
    Map *m = memo(s, dtype);
    Value *v = m ? map_get(m, map_key(e)) : NULL;
    if (v) return v;
  }
  return NULL;
}

static Value *remember(Lower *l, LowerScope *scope, const Sym *e, DType dtype, Value *v) {
  Map *m = memo(scope, dtype);
  if (m) map_set(l->arena, m, map_key(e), v);
  return v;
}

static Value *append_expr(Lower *l, LowerScope *scope, const Sym *e, DType dtype,
                          Value *const *args, int nargs) {
  const Sym *safe = scope == l->scope ? e : guarded(l, e);
  Attr attr = {.key = ATTR_expr, .sym = emit_at_entry(l, safe ? safe : e)};
  Op *op = make_op(l, OP_expr, args, nargs, &attr, 1);
  return append_op(l, scope, op, type_scalar(l->k->cx, dtype));
}

Value *emit_expr(Lower *l, const Sym *e, DType dtype) {
  e = emit_sound(l, e);
  Value *v = known_expr(l, e, dtype);
  if (v) return v;
  LowerScope *home = home_of(l, e);
  if (!fits(l, home->facts, e, dtype)) home = l->scope;
  return remember(l, home, e, dtype, append_expr(l, home, e, dtype, NULL, 0));
}

const Sym *emit_arg(Lower *l, int i) {
  return ir_numbered_symbol(l->k->cx, "$APPLY_EXPR_ARG_", i, false);
}

Value *emit_expr_of(Lower *l, const Sym *e, DType dtype, Value *const *args, int nargs) {
  return append_expr(l, l->scope, e, dtype, args, nargs);
}

Value *emit_test(Lower *l, const Sym *condition) {
  const Sym *e = sym_simplify(l->sym, emit_facts(l), condition);
  if (e == sym_bool(l->sym, true)) return NULL;
  return emit_expr(l, e ? e : condition, DTYPE_i1);
}

/* ---- addresses ----
 *
 * A sum is built from the outermost scope inwards: terms that a loop does not change are summed
 * before it, so that one addition is left inside. In each scope the terms that all lanes share are
 * summed separately from those of the lane: machines keep them in scalar registers. */

enum { MAX_DEPTH = 16 };

/* Terms by the scope in which they can be computed, innermost first. */
typedef struct Address {
  LowerScope *scope[MAX_DEPTH];
  int n;
  const Sym *lane[MAX_DEPTH], *shared[MAX_DEPTH];
} Address;

/* Versions may differ between lanes; workgroup ids, counters and sizes do not. */
static bool is_of_lane(const Lower *l, const Sym *e) {
  const Sym *symbols[8];
  int n = sym_free_symbols(e, symbols, (int)WV_LEN(symbols));
  if (n > (int)WV_LEN(symbols)) return true;
  for (int i = 0; i < n; i++) {
    const LowerScope *s = scope_of(l, symbols[i]);
    bool counter = s && s->region->owner && s->region->owner->kind == OP_for;
    if (strncmp(sym_name(symbols[i]), "$T", 2) == 0 || (s && !counter)) return true;
  }
  return false;
}

static void add_term(Lower *l, Address *a, const Sym *term, bool of_lane) {
  LowerScope *home = home_of(l, term);
  int j = 0;
  while (a->scope[j] != home) j++;
  const Sym **part = of_lane ? &a->lane[j] : &a->shared[j];
  *part = sym_add(l->sym, *part, term);
}

/* False: not worthwhile for e. */
static bool split_terms(Lower *l, const Sym *e, Address *a) {
  const Sym *constant = NULL;
  int64_t number;
  bool lanes = false;
  if (sym_kind(e) != SYM_add) return false;
  for (LowerScope *s = l->scope; s; s = s->outer) {
    if (a->n == MAX_DEPTH) return false;
    a->lane[a->n] = a->shared[a->n] = sym_int(l->sym, 0);
    a->scope[a->n++] = s;
  }
  for (int i = 0; i < sym_nargs(e); i++) {
    const Sym *term = sym_arg(l->sym, e, i);
    bool of_lane = is_of_lane(l, term);
    lanes = lanes || of_lane;
    if (sym_is_int(term, &number)) constant = term;
    else add_term(l, a, term, of_lane);
  }
  if (constant) add_term(l, a, constant, lanes);
  return true;
}

/* The parts of a fraction need not be integers. */
static bool part_fits(Lower *l, const LowerScope *s, const Sym *e, DType dtype) {
  return e && sym_is_integer(e) && fits(l, s->facts, e, dtype);
}

static bool terms_fit(Lower *l, const Address *a, DType dtype) {
  const Sym *so_far = sym_int(l->sym, 0), *zero = so_far;
  for (int i = a->n - 1; i >= 0; i--) {
    if (a->lane[i] == zero && a->shared[i] == zero) continue;
    so_far = sym_add(l->sym, so_far, sym_add(l->sym, a->lane[i], a->shared[i]));
    if (!part_fits(l, a->scope[i], a->lane[i], dtype) ||
        !part_fits(l, a->scope[i], a->shared[i], dtype) ||
        !part_fits(l, a->scope[i], so_far, dtype))
      return false;
  }
  return true;
}

static Value *known_from(Lower *l, LowerScope *scope, const Sym *e, DType dtype) {
  LowerScope *here = l->scope;
  l->scope = scope;
  Value *known = known_expr(l, e, dtype);
  l->scope = here;
  return known;
}

/* The terms of one scope; NULL: there are none. */
static Value *emit_part(Lower *l, LowerScope *scope, const Sym *part, DType dtype) {
  if (part == sym_int(l->sym, 0)) return NULL;
  Value *known = known_from(l, scope, part, dtype);
  return known ? known
               : remember(l, scope, part, dtype, append_expr(l, scope, part, dtype, NULL, 0));
}

/* The sum of two values, whose expression is e. */
static Value *emit_sum(Lower *l, LowerScope *scope, const Sym *e, DType dtype, Value *a, Value *b) {
  Value *sides[] = {a, b}, *known = known_from(l, scope, e, dtype);
  if (known || !a || !b) return known ? known : a ? a : b;
  const Sym *sum = sym_add(l->sym, emit_arg(l, 0), emit_arg(l, 1));
  return remember(l, scope, e, dtype, append_expr(l, scope, sum, dtype, sides, 2));
}

Value *emit_address(Lower *l, const Sym *e, DType dtype) {
  Address a = {.n = 0};
  const Sym *zero = sym_int(l->sym, 0), *so_far = zero;
  e = emit_sound(l, e);
  Value *v = known_expr(l, e, dtype);
  if (v) return v;
  if (!split_terms(l, e, &a) || !terms_fit(l, &a, dtype)) return emit_expr(l, e, dtype);
  for (int i = a.n - 1; i >= 0; i--) {
    const Sym *here = sym_add(l->sym, a.lane[i], a.shared[i]);
    if (a.lane[i] == zero && a.shared[i] == zero) continue;
    so_far = sym_add(l->sym, so_far, here);
    Value *known = known_from(l, a.scope[i], so_far, dtype);
    if (!known) {
      Value *shared = emit_part(l, a.scope[i], a.shared[i], dtype);
      Value *lane = emit_part(l, a.scope[i], a.lane[i], dtype);
      known = emit_sum(l, a.scope[i], here, dtype, shared, lane);
      known = emit_sum(l, a.scope[i], so_far, dtype, v, known);
    }
    v = known;
  }
  return v;
}

Value *emit_step(Lower *l, Value *from, const Sym *step, const Sym *e, DType dtype) {
  LowerScope *at = l->scope;
  if (!from->def || !sym_is_integer(step) || !fits(l, emit_facts(l), step, dtype))
    return emit_address(l, e, dtype);
  Value *by = emit_expr(l, step, dtype);
  while (at->outer && at->region != from->def->parent && at->region != by->def->parent)
    at = at->outer;
  if (!fits(l, at->facts, e, dtype)) return emit_address(l, e, dtype);
  return emit_sum(l, at, e, dtype, from, by);
}

const Sym *emit_below_zero(Lower *l, const Sym *condition) {
  SymKind kind = sym_kind(condition);
  if (kind != SYM_le && kind != SYM_lt) return NULL;
  const Sym *e = sym_sub(l->sym, sym_arg(l->sym, condition, 0), sym_arg(l->sym, condition, 1));
  if (!e || !sym_is_integer(e)) return sym_take_error(l->sym), NULL;
  return kind == SYM_lt ? sym_add(l->sym, e, sym_int(l->sym, 1)) : e;
}

/* Such tests differ only by a constant: they share the value that it is compared with. */
Value *emit_below(Lower *l, const Sym *e, int64_t most) {
  e = emit_sound(l, e);
  SymRange r = sym_range(l->sym, emit_facts(l), e);
  int64_t number, plus = 0;
  if (r.hi != SYM_MAX_INF && r.hi <= most) return NULL;
  if (r.lo != SYM_MIN_INF && r.lo > most) return emit_expr(l, sym_bool(l->sym, false), DTYPE_i1);
  for (int i = 0; sym_kind(e) == SYM_add && i < sym_nargs(e); i++)
    if (sym_is_int(sym_arg(l->sym, e, i), &number)) plus = number;
  const Sym *d = emit_sound(l, sym_sub(l->sym, e, sym_int(l->sym, plus)));
  const Sym *limit = emit_sound(l, sym_sub(l->sym, sym_int(l->sym, most), sym_int(l->sym, plus)));
  DType dtype = fits(l, emit_facts(l), d, DTYPE_i32) ? DTYPE_i32 : DTYPE_index;
  Value *v = emit_address(l, d, dtype);
  return emit_expr_of(l, sym_le(l->sym, emit_arg(l, 0), limit), DTYPE_i1, &v, 1);
}

Value *emit_bound(Lower *l, const Sym *condition) {
  const Sym *e = sym_simplify(l->sym, emit_facts(l), condition);
  if (e == sym_bool(l->sym, true)) return NULL;
  const Sym *below = e ? emit_below_zero(l, e) : NULL;
  return below ? emit_below(l, below, 0) : emit_test(l, condition);
}

/* ---- registers ---- */

Value *emit_number(Lower *l, DType dtype, double v) {
  Attr attr = {.key = ATTR_value, .number = v};
  if (!dtype_is_float(dtype)) attr = (Attr){.key = ATTR_value, .sym = sym_int(l->sym, (int64_t)v)};
  return emit_op(l, OP_scalar, NULL, 0, &attr, 1, type_scalar(l->k->cx, dtype));
}

Value *emit_splat(Lower *l, Value *scalar, int n) {
  if (n == 1) return scalar;
  return emit_op(l, OP_splat, &scalar, 1, NULL, 0, type_vec(l->k->cx, n, scalar->type->dtype));
}

Value *emit_pick(Lower *l, Value *v, const int *regs, int n) {
  bool same = n == v->type->n, equal = true;
  for (int i = 0; i < n; i++) same = same && regs[i] == i, equal = equal && regs[i] == regs[0];
  if (same) return v;
  if (v->type->n == 1) return emit_splat(l, v, n);
  if (equal && n > 1) return emit_splat(l, emit_pick(l, v, regs, 1), n);
  Attr attr = attr_ints(l->k, ATTR_regs, regs, n);
  return emit_op(l, OP_pick, &v, 1, &attr, 1, type_vec(l->k->cx, n, v->type->dtype));
}

Value *emit_range(Lower *l, Value *v, int first, int n) {
  int *regs = ARENA_ARRAY(l->arena, int, n);
  for (int i = 0; i < n; i++) regs[i] = first + i;
  return emit_pick(l, v, regs, n);
}

Value *emit_join(Lower *l, Value *const *parts, int n) {
  int regs = 0;
  for (int i = 0; i < n; i++) regs += parts[i]->type->n;
  if (n == 1) return parts[0];
  return emit_op(l, OP_join, parts, n, NULL, 0, type_vec(l->k->cx, regs, parts[0]->type->dtype));
}

Value *emit_binary(Lower *l, OpKind kind, Value *a, Value *b) {
  Value *args[] = {a, b};
  return emit_op(l, kind, args, 2, NULL, 0, a->type);
}

Value *emit_both(Lower *l, Value *a, Value *b) {
  if (!a || !b) return a ? a : b;
  int n = a->type->n > b->type->n ? a->type->n : b->type->n;
  return emit_binary(l, OP_and, emit_splat(l, a, a->type->n == n ? 1 : n),
                     emit_splat(l, b, b->type->n == n ? 1 : n));
}

Value *emit_select(Lower *l, Value *condition, Value *yes, Value *no) {
  Value *args[] = {condition, yes, no};
  return emit_op(l, OP_select, args, 3, NULL, 0, yes->type);
}

Value *emit_cast(Lower *l, Value *v, DType dtype) {
  if (v->type->dtype == dtype) return v;
  return emit_op(l, OP_cast, &v, 1, NULL, 0, type_with_dtype(l->k->cx, v->type, dtype));
}

Value *emit_shuffle(Lower *l, Value *v, int flip) {
  Attr attrs[] = {{.key = ATTR_mode, .text = intern(&l->k->cx->names, "xor")},
                  {.key = ATTR_by, .integer = flip}};
  return flip ? emit_op(l, OP_shuffle, &v, 1, attrs, 2, v->type) : v;
}

Value *emit_shuffle_idx(Lower *l, Value *v, const Sym *lane) {
  const Sym *e = sym_simplify(l->sym, emit_facts(l), lane);
  Value *args[] = {v, emit_expr(l, e ? e : lane, DTYPE_i32)};
  return emit_op(l, OP_shuffle_idx, args, 2, NULL, 0, v->type);
}

/* ---- cheaper spellings ---- */

static int cost_of(Lower *l, const SymFacts *facts, const Sym *e) {
  Arena *own = arena_new(); /* keeps what the facts learn on the way */
  const SymCode *code = sym_code(own, l->sym, facts, &e, 1);
  int cost = code ? code->cost : INT32_MAX;
  if (!code) sym_take_error(l->sym);
  arena_free(own);
  return cost;
}

const Sym *emit_simplified(Lower *l, const Sym *e) {
  const Sym *s = sym_simplify(l->sym, emit_facts(l), e);
  if (!s) sym_take_error(l->sym);
  return s ? s : e;
}

/* The smallest expression is not always the one with the cheapest operations: (25*t - 9*Mod(t,
 * 4))/2 is 8*floor(t/4) + ... with shifts. */
const Sym *emit_cheaper(Lower *l, const Sym *e) {
  const Sym *s = emit_simplified(l, e);
  if (s == e || sym_is_bool(e) || sym_nargs(s) == 0) return s;
  return cost_of(l, emit_facts(l), e) < cost_of(l, emit_facts(l), s) ? e : s;
}

/* ---- neutral elements ---- */

/* Minus zero leaves every sum unchanged, even one of minus zeros. */
Value *emit_neutral(Lower *l, OpKind kind, DType t) {
  const Type *type = type_scalar(l->k->cx, t);
  Padding padding = reduction_info[kind].padding;
  Attr value = {.key = ATTR_value};
  if (dtype_is_float(t)) {
    value.number = padding == PADDING_ZERO ? -0.0 : padding_number(padding, t);
    return emit_op(l, OP_scalar, NULL, 0, &value, 1, type);
  }
  int64_t n = padding_integer(padding, t);
  bool complement = dtype_by_complement(t, n);
  value.sym = sym_int(l->sym, complement ? ~n : n);
  Value *v = emit_op(l, OP_scalar, NULL, 0, &value, 1, type);
  return complement ? emit_op(l, OP_not, &v, 1, NULL, 0, type) : v;
}
