/* facts.c: assuming conditions. */
#include "sym/prove/facts.h"

static SymFacts *facts_make(Arena *a, SymCtx *cx, const SymFacts *parent) {
  SymFacts *f = ARENA_NEW(a, SymFacts);
  f->arena = a;
  f->cx = cx;
  f->parent = parent ? parent : cx->no_facts;
  f->depth = f->parent ? f->parent->depth + 1 : 0;
  f->contradiction = f->parent && f->parent->contradiction;
  f->bounds_products = f->parent && f->parent->bounds_products;
  f->memo = ARENA_NEW(a, FactsMemo);
  return f;
}

/* ---- lasting facts */

static SymFacts *make_lasting(SymFacts *f) { return f->lasting = f; }

const SymFacts *sym_facts_lasting(Arena *a, SymCtx *cx) {
  return make_lasting(facts_make(a, cx, NULL));
}

SymFacts *sym_facts_new(Arena *a, SymCtx *cx, const SymFacts *parent) {
  SymFacts *outer = parent ? parent->lasting : NULL;
  if (!outer) return facts_make(a, cx, parent);
  if (!outer->inner) outer->inner = make_lasting(facts_make(outer->arena, cx, outer));
  return arena_copy(a, outer->inner, sizeof *outer->inner);
}

/* True when the same condition was assumed before at this point: f becomes what it became then. */
static bool recall(SymFacts *f, uint64_t key) {
  const SymFacts *then = f->lasting ? map_get(&f->lasting->after, key) : NULL;
  if (then) *f = *then;
  return then;
}

/* Copies what f shares with others before f is modified. */
static void part(SymFacts *f) {
  if (!f->lasting) return;
  WV_ASSERT(f != f->lasting);
  f->known.slots = arena_copy(f->arena, f->known.slots, f->known.cap * sizeof *f->known.slots);
  f->relations.cap = f->relations.n; /* the next push copies */
  f->kept.cap = f->kept.n;
  f->memo = ARENA_NEW(f->arena, FactsMemo);
}

static bool remember(SymFacts *f, uint64_t key) {
  SymFacts *before = f->lasting;
  if (!before) return !f->contradiction;
  SymFacts *now = make_lasting(arena_copy(f->arena, f, sizeof *f));
  now->after = (Map){0};
  now->inner = NULL;
  f->lasting = now;
  map_set(f->arena, &before->after, key, now);
  return !f->contradiction;
}

const SymFacts *facts_about(const SymFacts *f, const Sym *s) {
  while (f->parent && !(f->touched & s->symbols)) f = f->parent;
  return f;
}

const SymFacts *facts_branch(const SymFacts *f, const Sym *cond) {
  SymFacts *branch = map_get(&f->memo->branches, map_key(cond));
  if (branch) return branch;
  branch = sym_facts_new(f->arena, f->cx, f);
  sym_assume(branch, cond);
  map_set(f->arena, &f->memo->branches, map_key(cond), branch);
  return branch;
}

/* ---- learning */

static void forget_answers(SymFacts *f) { *f->memo = (FactsMemo){0}; }

static bool learn(SymFacts *f, const Sym *base, Dom d) {
  Dom all = dom_meet(dom_of(f, base), d);
  map_set(f->arena, &f->known, map_key(base), arena_copy(f->arena, &all, sizeof all));
  f->bounds_products |= base->kind == SYM_mul && rat_finite(d.hi);
  f->touched |= base->symbols;
  forget_answers(f);
  if (dom_empty(&all)) f->contradiction = true;
  return !f->contradiction;
}

/* x = r (mod m) with an inverse of c: c*x = v (mod m). */
static bool solve_congruence(int64_t c, int64_t v, int64_t m, int64_t *r) {
  Wide a = int_mod(c, m), b = m, x = 1, y = 0;
  while (b) { /* extended Euclid: x is the inverse of c modulo m */
    Wide q = a / b, t = a % b;
    a = b, b = t;
    t = x - q * y, x = y, y = t;
  }
  if (a != 1) return false;
  Wide s = x % m * (int_mod(v, m) % m) % m;
  *r = (int64_t)(s < 0 ? s + m : s);
  return true;
}

/* Mod(a, m) == r: a lattice for a without its constant. */
static bool learn_congruence(SymFacts *f, const Sym *mod, int64_t r) {
  Sum s;
  int64_t m, v;
  if (!sym_is_int(mod->arg[1], &m) || !is_integer(mod->arg[0])) return true;
  sum_of(mod->arg[0], &s);
  Dom d = dom_integer();
  if (!rat_is_int(s.k)) return true;
  v = int_mod(r - int_mod(s.k.num, m), m);
  const Sym *base = s.n == 1 ? s.term[0].base : sum_make(f->cx, RAT_ZERO, s.term, s.n);
  if (s.n == 1 && !solve_congruence(s.term[0].coeff.num, v, m, &v)) return true;
  d.step = rat_int(m), d.offset = rat_int(v);
  return learn(f, base, d);
}

/* Learns from c*base + k compared with 0; base need not be an integer. */
static bool learn_single(SymFacts *f, SymKind kind, Term t, Rat k) {
  Rat v;
  if (!rat_div(rat_neg(k), t.coeff, &v)) return true;
  Dom d = is_integer(t.base) ? dom_integer() : dom_any();
  if (kind == SYM_eq) {
    if (t.base->kind == SYM_mod && rat_is_int(v) && !learn_congruence(f, t.base, v.num))
      return false;
    return learn(f, t.base, dom_const(v));
  }
  if (t.coeff.num > 0) d.hi = v;
  else d.lo = v;
  dom_reduce(&d);
  return learn(f, t.base, d);
}

/* x != v moves an end of the known interval inwards when v is that end. */
static bool learn_distinct(SymFacts *f, Term t, Rat k) {
  Rat v;
  if (!is_integer(t.base) || !rat_div(rat_neg(k), t.coeff, &v) || !rat_is_int(v)) return true;
  Dom d = dom_of(f, t.base), cut = dom_integer();
  if (rat_eq(d.lo, v) && rat_add(v, RAT_ONE, &v)) cut.lo = v;
  else if (rat_eq(d.hi, v) && rat_sub(v, RAT_ONE, &v)) cut.hi = v;
  else return true;
  return learn(f, t.base, cut);
}

/* sum <= 0 bounds each term by the minimum of the others: i < N implies N >= 1. */
static bool learn_from_others(SymFacts *f, const Sum *s) {
  bool ok = true;
  for (int i = 0; i < s->n; i++) {
    Dom rest = dom_const(s->k);
    for (int j = 0; j < s->n; j++)
      if (j != i) rest = dom_add(rest, dom_scale(dom_of(f, s->term[j].base), s->term[j].coeff));
    Dom here = dom_of(f, s->term[i].base);
    Rat end;
    if (!rat_finite(rest.lo) || !rat_div(rat_neg(rest.lo), s->term[i].coeff, &end)) continue;
    bool news = s->term[i].coeff.num > 0 ? rat_cmp(end, here.hi) < 0 : rat_cmp(end, here.lo) > 0;
    if (news) ok = learn_single(f, SYM_le, s->term[i], rest.lo) && ok;
  }
  return ok;
}

static bool learn_relation(SymFacts *f, SymKind kind, const Sym *e, const Sum *s) {
  if (!learn_from_others(f, s)) return false;
  const Sym *core = sum_make(f->cx, RAT_ZERO, s->term, s->n);
  vec_push(f->arena, &f->relations, e);
  if (kind == SYM_eq) {
    const Sym *opposite = sym_neg(f->cx, e);
    if (opposite) vec_push(f->arena, &f->relations, opposite);
  }
  return learn_single(f, kind, (Term){RAT_ONE, core}, s->k);
}

static bool learn_comparison(SymFacts *f, const Sym *cond) {
  Sum s;
  SymKind kind = cmp_kind(cond);
  sum_of(cond->base, &s);
  if (kind == SYM_ne) return s.n == 1 ? learn_distinct(f, s.term[0], s.k) : true;
  if (kind == SYM_lt) kind = SYM_le; /* not integers: closing the interval is sound */
  return s.n == 1 ? learn_single(f, kind, s.term[0], s.k) : learn_relation(f, kind, cond->base, &s);
}

static bool assume_one(SymFacts *f, const Sym *cond) {
  if (cond->kind == SYM_bool) {
    if (!cond->k.num) f->contradiction = true;
    return !f->contradiction;
  }
  if (cond->kind == SYM_and) {
    bool ok = true;
    for (int i = 0; i < cond->n; i++) ok = assume_one(f, cond->arg[i]) && ok;
    return ok;
  }
  vec_push(f->arena, &f->kept, cond);
  f->touched |= cond->symbols;
  forget_answers(f);
  return is_cmp(cond) ? learn_comparison(f, cond) : !f->contradiction;
}

/* For an integer i, i < ceiling(x) implies i < x, a relation over the symbols of x. NULL: cond does
 * not have this form. */
static const Sym *without_ceiling(SymCtx *cx, const Sym *cond) {
  Sum s;
  if (!is_cmp(cond) || (cmp_kind(cond) != SYM_le && cmp_kind(cond) != SYM_lt)) return NULL;
  sum_of(cond->base, &s);
  for (int i = 0; i < s.n; i++) {
    Term t = s.term[i];
    if (t.base->kind != SYM_ceil || rat_cmp(t.coeff, rat_int(-1)) != 0) continue;
    const Sym *whole = sym_add(cx, cond->base, t.base), *x = t.base->arg[0];
    if (cmp_kind(cond) == SYM_le) whole = sym_add_const(cx, whole, rat_int(-1));
    return whole && is_integer(whole) ? sym_lt(cx, whole, x) : NULL;
  }
  return NULL;
}

/* A fact about i also concerns j when a relation connects them. */
static void touch_related(SymFacts *f) {
  for (bool again = true; again;) {
    again = false;
    for (const SymFacts *g = f; g; g = g->parent) {
      for (int i = 0; i < g->relations.n; i++) {
        uint64_t symbols = g->relations.at[i]->symbols;
        if (!(symbols & f->touched) || !(symbols & ~f->touched)) continue;
        f->touched |= symbols;
        again = true;
      }
    }
  }
}

/* Learns the condition as written, and again as simplified by what was known before:
 * `ceiling(M/128)*floor(N/8) <= 0` with M >= 1 implies N < 8. */
bool sym_assume(SymFacts *f, const Sym *cond) {
  cond = sym_as_bool(f->cx, cond);
  if (!cond) return false;
  if (recall(f, map_key(cond))) return !f->contradiction;
  const Sym *simple = sym_simplify(f->cx, f, cond);
  part(f);
  assume_one(f, simple);
  if (simple != cond && simple != f->cx->yes) assume_one(f, cond);
  const Sym *linear = f->bounds_products ? without_ceiling(f->cx, cond) : NULL;
  if (linear) assume_one(f, linear);
  touch_related(f);
  return remember(f, map_key(cond));
}

/* A range is learned but not kept as a condition, so its key differs from the condition's. */
static uint64_t range_key(SymCtx *cx, const Sym *symbol, int64_t lo, int64_t hi) {
  const Sym *above = lo == SYM_MIN_INF ? cx->yes : sym_ge(cx, symbol, sym_int(cx, lo));
  const Sym *below = hi == SYM_MAX_INF ? cx->yes : sym_le(cx, symbol, sym_int(cx, hi));
  return map_key(sym_and(cx, above, below)) | 1;
}

bool sym_assume_range(SymFacts *f, const Sym *symbol, int64_t lo, int64_t hi) {
  Rat a = lo == SYM_MIN_INF ? RAT_MINUS_INF : rat_int(lo),
      b = hi == SYM_MAX_INF ? RAT_INF : rat_int(hi);
  if (!symbol) return false;
  uint64_t key = f->lasting ? range_key(f->cx, symbol, lo, hi) : 0;
  if (recall(f, key)) return !f->contradiction;
  part(f);
  learn(f, symbol, dom_range(a, b));
  touch_related(f);
  return remember(f, key);
}
