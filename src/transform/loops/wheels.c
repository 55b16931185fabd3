/* wheels: loops that wait for copies count the slots of rings instead of dividing their counter.
 *
 *     for K {                                      for K carry %w = 0 {
 *       %s = expr Mod($ARGK, 3)                      %s = expr Piecewise((%w, %w < 3), (%w - 3, True))
 *       %p = expr Mod(floor($ARGK/3), 2)      =>     %p = expr Piecewise((0, %w < 3), (1, True))
 *       mbar_wait %full, %s, %p                      mbar_wait %full, %s, %p
 *     }                                              %n = expr Piecewise((%w + 1, %w < 5), (0, True))
 *                                                    yield %n
 *                                                  }
 *
 * An iteration cannot begin before it has computed its slot and the parity of its turn, and a division is a
 * long chain of instructions, with 64 bits if an enclosing loop counts tiles. A wheel is a carried number:
 * the remainder of the counter plus a loop-invariant value. Remainders that are a known distance from it,
 * modulo their divisor, follow from it by comparisons.
 *
 * Remainders by powers of two are as cheap as wheels, and stay. */
#include "analysis/motion.h"
#include "ir/region_facts.h"
#include "transform/lane_expr.h"
#include "transform/loops/counter.h"
#include "transform/pass.h"

enum { MOST_SIZE = 64 };

/* Mod(of, by), or with `turns` Mod(floor(of/by), 2); of the smaller one of `of` and `limit`, if there is
 * a limit. */
typedef struct Remainder {
  const Sym *e, *of, *limit;
  int64_t by;
  bool turns;
  Value *value; /* computed at the start of the body */
} Remainder;

typedef struct Wheel {
  const Sym *of;
  int64_t size;
  Value *at;
  Op *loop; /* that carries it */
} Wheel;

typedef struct Wheels {
  Kernel *k;
  Arena *scratch;
  SymCtx *sym;
  const SymFacts *facts;
  Op *loop;
  const Sym *counter;
  const RegionSymbols *symbols; /* that get their values in the loop */
  Vec(Remainder) found;
  Vec(Wheel) wheels;
  Vec(Wheel) earlier; /* of other loops */
  bool changed;
} Wheels;

/* ---- which remainders ---- */

static bool is_outside(Wheels *w, const Sym *e) {
  return !expr_is_tied(e, w->symbols) && !ir_expr_mentions(e, "$APPLY_EXPR_ARG_") &&
         sym_is_integer(e);
}

/* The value of e in the first iteration, if e is this loop-invariant value plus the counter. */
static const Sym *at_first(Wheels *w, const Sym *e) {
  const Sym *zero = sym_int(w->sym, 0), *first = counter_put(w->k, w->counter, e, zero);
  if (!first || sym_sub(w->sym, e, sym_add(w->sym, first, w->counter)) != zero) return NULL;
  return is_outside(w, first) ? first : NULL;
}

static bool is_size(int64_t n) { return n > 2 && n <= MOST_SIZE && (n & (n - 1)) != 0; }

/* The counter, or the smaller one of it and a limit, divided by a number. */
static bool divided(Wheels *w, const Sym *f, Remainder *r) {
  SymCtx *cx = w->sym;
  const Sym *least = sym_kind(f) == SYM_mul && sym_nargs(f) == 2 ? sym_arg(cx, f, 1) : NULL;
  const Sym *apart = least && sym_kind(least) == SYM_min ? sym_arg(cx, f, 0) : NULL;
  if (!apart) {
    const Sym *more = counter_put(w->k, w->counter, f, sym_add(cx, w->counter, sym_int(cx, 1)));
    apart = more ? sym_sub(cx, more, f) : NULL;
  }
  int64_t num, den;
  if (!apart || !sym_is_rational(apart, &num, &den) || num != 1) return false;
  r->of = sym_mul(cx, f, sym_int(cx, den)), r->by = den, r->turns = true;
  return true;
}

static void take_limit(Wheels *w, Remainder *r) {
  for (int i = 0; i < 2 && sym_kind(r->of) == SYM_min && sym_nargs(r->of) == 2; i++) {
    const Sym *limit = sym_arg(w->sym, r->of, 1 - i);
    if (!is_outside(w, limit)) continue;
    r->of = sym_arg(w->sym, r->of, i), r->limit = limit;
  }
}

/* What e rounds down; NULL: nothing. A sum with a rounded term rounds itself, since its other terms are integers. */
static const Sym *rounded(Wheels *w, const Sym *e) {
  if (sym_kind(e) == SYM_floor) return sym_arg(w->sym, e, 0);
  for (int i = 0; sym_kind(e) == SYM_add && i < sym_nargs(e); i++) {
    const Sym *term = sym_arg(w->sym, e, i);
    if (sym_kind(term) == SYM_floor && sym_contains(term, w->counter))
      return sym_add(w->sym, sym_sub(w->sym, e, term), sym_arg(w->sym, term, 0));
  }
  return NULL;
}

static bool is_remainder(Wheels *w, const Sym *e, Remainder *r) {
  int64_t by;
  if (sym_kind(e) != SYM_mod || !sym_is_int(sym_arg(w->sym, e, 1), &by)) return false;
  const Sym *of = sym_arg(w->sym, e, 0);
  *r = (Remainder){.e = e, .of = of, .by = by};
  const Sym *f = by == 2 ? rounded(w, of) : NULL;
  if (f && !divided(w, f, r)) return false;
  take_limit(w, r);
  return is_size(r->by) && sym_contains(r->of, w->counter) && at_first(w, r->of);
}

static void find_in(Wheels *w, const Sym *e) {
  Remainder r;
  for (int i = 0; i < w->found.n; i++)
    if (w->found.at[i].e == e) return;
  if (is_remainder(w, e, &r)) vec_push(w->scratch, &w->found, r);
  else
    for (int i = 0; i < sym_nargs(e); i++) find_in(w, sym_arg(w->sym, e, i));
}

/* An expression of the loop, not of one inside whose counter has the same name. */
static bool is_own(const Wheels *w, const Op *op) {
  if (op->kind != OP_expr) return false;
  for (const Op *in = op->parent->owner; in != w->loop; in = in->parent->owner)
    if (op_is_loop(in)) return false;
  return true;
}

static void find_remainders(Wheels *w) {
  for (const Op *op = w->loop->body->first; op && op_is_inside(op, w->loop); op = ir_next(op))
    if (is_own(w, op)) find_in(w, op_attr(op, ATTR_expr)->sym);
  sym_take_error(w->sym);
}

/* ---- wheels ---- */

/* Whether `of` is a known distance from the wheel, modulo n. */
static bool is_apart(Wheels *w, const Wheel *at, const Sym *of, int64_t n, int64_t *by) {
  const Sym *apart = sym_mod(w->sym, sym_sub(w->sym, of, at->of), sym_int(w->sym, n));
  return at->size % n == 0 && apart && sym_is_int(apart, by);
}

static Value *new_typed(Wheels *w, Op *before, const Sym *e, Value *const *args, int n, DType t) {
  Op *op = ir_insert(w->k, before, OP_expr, w->loop->at, args, n, type_scalar(w->k->cx, t));
  op_set_attr(w->k, op, (Attr){.key = ATTR_expr, .sym = e});
  return &op->results[0];
}

static Value *new_expr(Wheels *w, Op *before, const Sym *e, Value *arg) {
  return new_typed(w, before, e, &arg, arg ? 1 : 0, DTYPE_i32);
}

/* Lets the loop carry one more value. Its results are new values, which replace the old ones everywhere. */
static Value *carry(Wheels *w, Value *first) {
  Op *loop = w->loop;
  int n = loop->nresults;
  Value *old = loop->results;
  const Type **types = ARENA_ARRAY(w->scratch, const Type *, n + 1);
  for (int i = 0; i < n; i++) types[i] = old[i].type;
  types[n] = first->type;
  ir_add_operand(w->k, loop, first);
  ir_set_results(w->k, loop, types, n + 1);
  for (int i = 0; i < n; i++) {
    loop->results[i].name = old[i].name, loop->results[i].varying = old[i].varying;
    ir_replace_uses(w->k, &old[i], &loop->results[i]);
  }
  return ir_add_arg(w->k, loop->body, first->type, NULL);
}

/* u is at most `most`: u less multiples of `by`, or whether that is an odd number of them. */
static const Sym *reduced(Wheels *w, const Sym *u, int64_t most, const Remainder *r) {
  SymCtx *cx = w->sym;
  const Sym *e = r->turns ? sym_int(cx, 0) : u;
  for (int64_t n = 1; n * r->by <= most; n++) {
    const Sym *less = sym_sub(cx, u, sym_int(cx, n * r->by));
    const Sym *below = sym_lt(cx, u, sym_int(cx, n * r->by));
    e = sym_select(cx, below, e, r->turns ? sym_int(cx, n % 2) : less);
  }
  return e;
}

/* The expression whose value is the first of the counter; NULL: unknown. */
static const Sym *begin_of(Wheels *w, const Op *loop) {
  if (!op_has(loop, ATTR_from)) return sym_int(w->sym, 0);
  const Op *def = loop->args[0]->def;
  return def && def->kind == OP_expr && !def->nargs ? op_attr(def, ATTR_expr)->sym : NULL;
}

static bool is_at_most(Wheels *w, const Sym *e, const Sym *most) {
  SymKind kind = sym_kind(e);
  if (e == most || sym_proves(w->sym, w->facts, sym_le(w->sym, e, most))) return true;
  if (kind != SYM_max && kind != SYM_min) return false;
  for (int i = 0; i < sym_nargs(e); i++)
    if (is_at_most(w, sym_arg(w->sym, e, i), most) != (kind == SYM_max)) return kind == SYM_min;
  return kind == SYM_max;
}

/* Whether the counter of this loop begins where that of an earlier one in the same region ends (two_loops.h). */
static bool continues(Wheels *w, const Op *earlier) {
  const Sym *trips = op_attr(earlier, ATTR_trips)->sym, *first = begin_of(w, earlier);
  if (earlier->parent != w->loop->parent || !op_comes_before(earlier, w->loop)) return false;
  if (op_attr(earlier, ATTR_axis)->sym != op_attr(w->loop, ATTR_axis)->sym) return false;
  if (!first || begin_of(w, w->loop) != trips) return false;
  return !op_has(earlier, ATTR_from) || is_at_most(w, first, trips);
}

/* The wheel as an earlier loop leaves it; NULL: none has it. */
static Value *wheel_left(Wheels *w, const Sym *of, int64_t size) {
  SymCtx *cx = w->sym;
  for (int i = w->earlier.n - 1; op_has(w->loop, ATTR_from) && i >= 0; i--) {
    const Wheel *had = &w->earlier.at[i];
    int64_t apart;
    if (had->size != size || !is_apart(w, had, of, size, &apart) || !continues(w, had->loop))
      continue;
    Value *left = &had->loop->results[had->at->index];
    Remainder r = {.by = size};
    const Sym *u = sym_add(cx, lane_operand(w->k, 0), sym_int(cx, apart));
    return apart ? new_expr(w, w->loop, reduced(w, u, size - 1 + apart, &r), left) : left;
  }
  return NULL;
}

static Value *wheel_first(Wheels *w, const Sym *of, int64_t size) {
  SymCtx *cx = w->sym;
  Value *left = wheel_left(w, of, size);
  if (left) return left;
  bool from = op_has(w->loop, ATTR_from);
  const Sym *begin = from ? sym_max(cx, lane_operand(w->k, 0), sym_int(cx, 0)) : sym_int(cx, 0);
  const Sym *first = sym_mod(cx, counter_put(w->k, w->counter, of, begin), sym_int(cx, size));
  return new_expr(w, w->loop, first, from ? w->loop->args[0] : NULL);
}

static Wheel *new_wheel(Wheels *w, const Sym *of, int64_t size) {
  SymCtx *cx = w->sym;
  Value *at = carry(w, wheel_first(w, of, size));
  const Sym *last = sym_lt(cx, lane_operand(w->k, 0), sym_int(cx, size - 1));
  const Sym *more = sym_add(cx, lane_operand(w->k, 0), sym_int(cx, 1));
  const Sym *next = sym_select(cx, last, more, sym_int(cx, 0));
  Op *yield = w->loop->body->last;
  ir_add_operand(w->k, yield, new_expr(w, yield, next, at));
  vec_push(w->scratch, &w->wheels, ((Wheel){of, size, at, w->loop}));
  return &w->wheels.at[w->wheels.n - 1];
}

/* ---- remainders by wheels ---- */

/* If the counter is beyond the limit, the remainder is that of the limit. */
static Value *limited(Wheels *w, const Remainder *r, Op *before) {
  SymCtx *cx = w->sym;
  const Sym *by = sym_int(cx, r->by);
  const Sym *at_limit = r->turns ? sym_mod(cx, sym_floordiv(cx, r->limit, by), sym_int(cx, 2))
                                 : sym_mod(cx, r->limit, by);
  DType dtype = lane_expr_dtype(cx, w->facts, r->limit);
  Value *args[] = {r->value, new_expr(w, w->loop, at_limit, NULL),
                   new_typed(w, w->loop, r->limit, NULL, 0, dtype)};
  const Sym *within = sym_le(cx, r->of, lane_operand(w->k, 2));
  const Sym *e = sym_select(cx, within, lane_operand(w->k, 0), lane_operand(w->k, 1));
  return new_typed(w, before, e, args, 3, DTYPE_i32);
}

static void turn(Wheels *w, Remainder *r) {
  int64_t size = r->turns ? 2 * r->by : r->by, apart = 0;
  Wheel *at = NULL;
  for (int i = 0; !at && i < w->wheels.n; i++)
    if (is_apart(w, &w->wheels.at[i], r->of, size, &apart)) at = &w->wheels.at[i];
  if (!at) at = new_wheel(w, r->of, size), apart = 0;
  const Sym *u = sym_add(w->sym, lane_operand(w->k, 0), sym_int(w->sym, apart));
  const Sym *e = reduced(w, u, at->size - 1 + apart, r);
  Op *first = w->loop->body->first;
  r->value = e ? new_expr(w, first, e, at->at) : NULL;
  if (r->value && r->limit) r->value = limited(w, r, first);
}

/* ---- expressions that have them ---- */

static const Sym *rewrite(Wheels *w, LaneExprDraft *d, const Sym *e) {
  for (int i = 0; i < w->found.n; i++) {
    const Remainder *r = &w->found.at[i];
    const Sym *to = r->e == e && r->value ? lane_expr_use(w->k, d, r->value) : NULL;
    if (to) return to;
  }
  int n = sym_nargs(e);
  const Sym **args = ARENA_ARRAY(w->scratch, const Sym *, n + 1);
  for (int i = 0; i < n; i++) args[i] = rewrite(w, d, sym_arg(w->sym, e, i));
  const Sym *made = sym_with_args(w->sym, e, args);
  if (!made) sym_take_error(w->sym);
  return made ? made : e;
}

static void use_wheels(Wheels *w, Op *first) {
  for (Op *op = first; op && op_is_inside(op, w->loop); op = ir_next(op)) {
    LaneExprDraft d;
    if (!is_own(w, op) || !lane_expr_draft(op, &d)) continue;
    lane_expr_set(w->k, op, &d, rewrite(w, &d, op_attr(op, ATTR_expr)->sym));
  }
}

/* ---- loops ---- */

static bool waits(const Op *loop) {
  for (const Op *op = loop->body->first; op; op = op->next)
    if (op->kind == OP_mbar_wait) return true;
  return false;
}

/* Remainders that need the larger wheels come first. */
static void count_slots(Wheels *w, Op *loop) {
  w->loop = loop;
  w->counter = ir_loop_counter(w->k, op_attr(loop, ATTR_axis)->sym);
  w->symbols = region_symbols(w->k, w->scratch, loop->body);
  w->found.n = w->wheels.n = 0;
  find_remainders(w);
  Op *first = loop->body->first;
  for (int turns = 1; turns >= 0; turns--)
    for (int i = 0; i < w->found.n; i++)
      if (w->found.at[i].turns == (turns == 1)) turn(w, &w->found.at[i]);
  sym_take_error(w->sym);
  if (!w->found.n) return;
  use_wheels(w, first);
  for (int i = 0; i < w->wheels.n; i++) vec_push(w->scratch, &w->earlier, w->wheels.at[i]);
  w->changed = true;
}

static void search(Wheels *w, Region *r) {
  for (Op *op = r->first; op; op = op->next) {
    if (op->body) search(w, op->body);
    if (op->kind == OP_for && op_step(op) == 1 && waits(op)) count_slots(w, op);
  }
}

bool pass_wheels(Kernel *k, PassCtx *cx) {
  Wheels w = {.k = k, .scratch = cx->scratch, .sym = k->cx->sym, .facts = cx->facts.header};
  search(&w, k->body);
  cx->idle = !w.changed;
  return true;
}
