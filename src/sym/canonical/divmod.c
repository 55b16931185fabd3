/* divmod.c: canonical floor, ceil and Mod.
 *
 *     floor(5*x/4 + 1/3)        x + floor(x/4)
 *     floor(floor(x/8)/4)       floor(x/32)
 *     floor((x + 3)/4)          ceiling(x/4)
 *     floor(Mod(x, 64)/16)      Mod(floor(x/16), 4)
 *     Mod(12*x + 5, 8)          4*Mod(x + 1, 2) + 1         (12*x + 5 is 4*(3*x + 1) + 1)
 *     Mod(Mod(x, 32) + y, 8)    Mod(x + y, 8)
 *
 * The identities used here hold for all integers, regardless of facts; those that need facts are in
 * rewrite.c. One surprise: the floor of an integer sum is stored with a positive first coefficient,
 * using floor(-y/d) = -ceiling(y/d), so that a floor and a ceil of the same expression become the
 * same node. */
#include "sym/node.h"

/* floor(kept + k) where every kept coefficient is a proper fraction of an integer base
 * (`integral`), or some base is not an integer. */
typedef struct Rounding {
  Term *kept;
  int n;
  Rat k; /* in [0, 1) */
  bool integral;
  int64_t den; /* integral: of kept and k */
} Rounding;

static bool is_fraction(Rat c, int64_t num, int64_t den) { return c.num == num && c.den == den; }

/* Negates kept + k and switches the rounding: floor(-x) is -ceil(x), and for integers over `den`
 * ceil(x) is floor(x + (den-1)/den). */
static void flip(Rounding *r) {
  for (int i = 0; i < r->n; i++) r->kept[i].coeff = rat_neg(r->kept[i].coeff);
  bool ok = rat_sub((Rat){r->den - 1, r->den}, r->k, &r->k);
  WV_ASSERT(ok); /* both are fractions over den */
}

/* The constant to add to y that turns the floor of an integer sum over d into its ceil, or back. */
static bool other_rounding(const Sym *b, Rat *add) {
  Sum s;
  int64_t den;
  sum_of(b->arg[0], &s);
  if (!sum_denominator(&s, &den) || den % s.k.den) return false;
  for (int i = 0; i < s.n; i++)
    if (!is_integer(s.term[i].base)) return false;
  *add = (Rat){b->kind == SYM_ceil ? den - 1 : 1 - den, den};
  return true;
}

/* floor((floor(y) + i)/d) is floor((y + i)/d) for an integer i; likewise for -ceil(y), and for ceil
 * with the signs swapped. NULL: nothing to unwrap. */
static const Sym *unwrap(SymCtx *cx, const Rounding *r, bool up) {
  for (int i = 0; i < r->n; i++) {
    const Sym *b = r->kept[i].base;
    if (b->kind != SYM_floor && b->kind != SYM_ceil) continue;
    Rat c = r->kept[i].coeff, whole = RAT_ZERO;
    if (!is_fraction(c, (b->kind == SYM_ceil) == up ? 1 : -1, r->den)) {
      /* For integers, ceil(y/d) is floor((y + d-1)/d) and vice versa. */
      if (!is_fraction(c, c.num < 0 ? -1 : 1, r->den) || !other_rounding(b, &whole)) continue;
    }
    Term *rest = ARENA_ARRAY(cx->scratch, Term, r->n);
    int n = 0;
    for (int j = 0; j < r->n; j++)
      if (j != i) rest[n++] = r->kept[j];
    const Sym *sum = sum_make(cx, up ? RAT_ZERO : r->k, rest, n);
    sum = sym_add(cx, sum, sym_scale(cx, sym_add_const(cx, b->arg[0], whole), c));
    return up ? sym_ceil(cx, sum) : sym_round_down(cx, sum);
  }
  return NULL;
}

/* floor(Mod(x, m)/d) with d | m. */
static const Sym *floor_of_mod(SymCtx *cx, const Rounding *r) {
  const Sym *b = r->kept[0].base;
  if (r->n != 1 || r->k.num || b->kind != SYM_mod || !is_fraction(r->kept[0].coeff, 1, r->den))
    return NULL;
  if (b->arg[1]->kind != SYM_int || b->arg[1]->k.num % r->den) return NULL;
  const Sym *q = sym_floor(cx, sym_scale(cx, b->arg[0], (Rat){1, r->den}));
  return sym_mod(cx, q, sym_int(cx, b->arg[1]->k.num / r->den));
}

static const Sym *rounded(SymCtx *cx, SymKind kind, const Sym *a) {
  return a ? node_args(cx, kind, SYM_INTEGER, &a, 1) : NULL;
}

static const Sym *round_integral(SymCtx *cx, Rounding *r) {
  bool negative = r->kept[0].coeff.num < 0;
  if (negative) flip(r);
  bool up = is_fraction(r->k, r->den - 1, r->den);
  const Sym *s = unwrap(cx, r, up);
  if (!s && !up) s = floor_of_mod(cx, r);
  if (!s)
    s = rounded(cx, up ? SYM_ceil : SYM_floor, sum_make(cx, up ? RAT_ZERO : r->k, r->kept, r->n));
  return negative ? sym_neg(cx, s) : s;
}

static const Sym *round_other(SymCtx *cx, const Rounding *r) {
  const Sym *a = sum_make(cx, r->k, r->kept, r->n);
  if (r->kept[0].coeff.num > 0) return rounded(cx, SYM_floor, a);
  return sym_neg(cx, rounded(cx, SYM_ceil, sym_neg(cx, a)));
}

/* Moves the integer parts of the coefficients and of the constant out of floor(s). */
static const Sym *split(SymCtx *cx, const Sum *s, Rounding *r) {
  Term *whole = ARENA_ARRAY(cx->scratch, Term, s->n);
  int n = 0;
  *r = (Rounding){
      .kept = ARENA_ARRAY(cx->scratch, Term, s->n), .k = s->k, .integral = true, .den = 1};
  for (int i = 0; i < s->n; i++) {
    Term t = s->term[i];
    int64_t q = is_integer(t.base) ? t.coeff.num / t.coeff.den : 0;
    if (q) whole[n++] = (Term){rat_int(q), t.base};
    if (q && !rat_sub(t.coeff, rat_int(q), &t.coeff)) return sym_overflow(cx);
    if (!t.coeff.num) continue;
    r->kept[r->n++] = t;
    r->integral = r->integral && is_integer(t.base);
    if (!int_lcm(r->den, t.coeff.den, &r->den)) return sym_overflow(cx);
  }
  int64_t k = rat_floor(r->k);
  if (!rat_sub(r->k, rat_int(k), &r->k)) return sym_overflow(cx);
  if (r->integral) rat_make((Wide)r->k.num * r->den / r->k.den, r->den, &r->k);
  return sum_make(cx, rat_int(k), whole, n);
}

const Sym *sym_round_down(SymCtx *cx, const Sym *a) {
  Sum s;
  Rounding r;
  if (!a) return NULL;
  if (is_integer(a)) return a;
  sum_of(a, &s);
  const Sym *whole = split(cx, &s, &r);
  if (!whole || !r.n) return whole;
  return sym_add(cx, whole, r.integral ? round_integral(cx, &r) : round_other(cx, &r));
}

const Sym *sym_floor(SymCtx *cx, const Sym *a) {
  a = sym_as_number(cx, a);
  if (!a || is_integer(a)) return a;
  const Sym *known = op_cached(cx, SYM_floor, a, NULL);
  if (known) return known;
  ArenaMark mark = arena_mark(cx->scratch);
  const Sym *s = sym_round_down(cx, a);
  arena_rewind(cx->scratch, mark);
  return s ? op_remember(cx, SYM_floor, a, NULL, s) : NULL;
}

const Sym *sym_ceil(SymCtx *cx, const Sym *a) {
  a = sym_as_number(cx, a);
  if (!a || is_integer(a)) return a;
  const Sym *known = op_cached(cx, SYM_ceil, a, NULL);
  if (known) return known;
  const Sym *s = sym_neg(cx, sym_floor(cx, sym_neg(cx, a)));
  return s ? op_remember(cx, SYM_ceil, a, NULL, s) : NULL;
}

const Sym *sym_floordiv(SymCtx *cx, const Sym *a, const Sym *b) {
  return sym_floor(cx, sym_div(cx, a, b));
}
const Sym *sym_ceildiv(SymCtx *cx, const Sym *a, const Sym *b) {
  return sym_ceil(cx, sym_div(cx, a, b));
}

/* ---- Mod by a positive integer */

/* The residue of c modulo m with the smallest absolute value, so that Mod(x - y, 8) does not become
 * Mod(x + 7*y, 8). */
static int64_t residue(int64_t c, int64_t m) {
  int64_t r = int_mod(c, m);
  return r > m / 2 ? r - m : r;
}

/* Mod(c*Mod(y, k) + ..., m) is Mod(c*y + ..., m) when m | c*k. */
static bool mod_is_idle(Term t, int64_t m) {
  if (t.base->kind != SYM_mod || t.base->arg[1]->kind != SYM_int || !is_integer(t.base->arg[0]))
    return false;
  return (Wide)t.coeff.num * t.base->arg[1]->k.num % m == 0;
}

static const Sym *mod_node(SymCtx *cx, const Sym *a, const Sym *m) {
  if (!a || !m) return NULL;
  if (a == cx->zero) return a;
  int flags = is_integer(a) && is_integer(m) ? SYM_INTEGER : 0;
  return node_args(cx, SYM_mod, flags, (const Sym *const[]){a, m}, 2);
}

/* g*x + k modulo g*m is g*Mod(x + floor(k/g), m) + Mod(k, g). */
static const Sym *mod_reduced(SymCtx *cx, Term *terms, int n, int64_t k, int64_t m) {
  int64_t g = m;
  for (int i = 0; i < n; i++) g = int_gcd(g, terms[i].coeff.num);
  for (int i = 0; i < n; i++) {
    terms[i].coeff.num /= g;
    terms[i].coeff.num = residue(terms[i].coeff.num, m / g);
  }
  if (m == g) return sym_int(cx, int_mod(k, g));
  const Sym *a = sum_make(cx, rat_int(int_floordiv(k, g)), terms, n);
  const Sym *s = sym_scale(cx, mod_node(cx, a, sym_int(cx, m / g)), rat_int(g));
  return sym_add_const(cx, s, rat_int(int_mod(k, g)));
}

/* All coefficients are integers. */
static const Sym *mod_int(SymCtx *cx, const Sym *a, int64_t m) {
  Sum s;
  sum_of(a, &s);
  bool integral = true;
  for (int i = 0; i < s.n; i++) integral = integral && is_integer(s.term[i].base);
  Term *kept = ARENA_ARRAY(cx->scratch, Term, s.n);
  const Sym *inner = cx->zero;
  int n = 0;
  for (int i = 0; i < s.n; i++) {
    Term t = s.term[i];
    if (is_integer(t.base)) t.coeff.num = residue(t.coeff.num, m);
    if (!t.coeff.num) continue;
    if (mod_is_idle(t, m)) inner = sym_add(cx, inner, sym_scale(cx, t.base->arg[0], t.coeff));
    else kept[n++] = t;
  }
  int64_t k = int_mod(s.k.num, m);
  if (inner != cx->zero)
    return sym_mod(cx, sym_add(cx, inner, sum_make(cx, rat_int(k), kept, n)), sym_int(cx, m));
  if (!integral) return mod_node(cx, sum_make(cx, rat_int(k), kept, n), sym_int(cx, m));
  return mod_reduced(cx, kept, n, k, m);
}

/* Scales rational coefficients away: Mod(x/2, 3) is Mod(x, 6)/2. */
static const Sym *mod_const(SymCtx *cx, const Sym *a, Rat m) {
  Sum s;
  int64_t den;
  Rat scaled;
  if (m.num < 0) return sym_neg(cx, sym_mod(cx, sym_neg(cx, a), sym_num(cx, rat_neg(m))));
  if (is_num(a)) return rat_mod(a->k, m, &scaled) ? sym_num(cx, scaled) : sym_overflow(cx);
  sum_of(a, &s);
  if (!sum_denominator(&s, &den) || !int_lcm(den, s.k.den, &den) || !int_lcm(den, m.den, &den))
    return sym_overflow(cx);
  if (den == 1) return mod_int(cx, a, m.num);
  if (!rat_mul(m, rat_int(den), &scaled)) return sym_overflow(cx);
  return sym_scale(cx, sym_mod(cx, sym_scale(cx, a, rat_int(den)), sym_num(cx, scaled)),
                   (Rat){1, den});
}

/* ---- Mod by an expression */

/* term / m when that is an integer expression. */
static bool is_multiple(SymCtx *cx, Term t, const Sym *m) {
  if (!(t.base->symbols & m->symbols) || m->kind == SYM_add) return false;
  const Sym *q = sym_div(cx, term_sym(cx, t), m);
  if (!q) cx->error[0] = 0;
  return q && is_integer(q);
}

static const Sym *drop_multiples(SymCtx *cx, const Sym *a, const Sym *m) {
  Sum s;
  sum_of(a, &s);
  Term *kept = ARENA_ARRAY(cx->scratch, Term, s.n);
  int n = 0;
  for (int i = 0; i < s.n; i++)
    if (!is_multiple(cx, s.term[i], m)) kept[n++] = s.term[i];
  return n == s.n ? a : sum_make(cx, s.k, kept, n);
}

static const Sym *mod_symbolic(SymCtx *cx, const Sym *a, const Sym *m) {
  Sum sa, sm;
  Rat g, gm;
  a = drop_multiples(cx, a, m);
  if (a == m || a == cx->zero) return cx->zero;
  sum_of(a, &sa), sum_of(m, &sm);
  if (!sum_content(&sa, &g) || !rat_gcd(g, sa.k, &g)) return sym_overflow(cx);
  if (!sum_content(&sm, &gm) || !rat_gcd(gm, sm.k, &gm) || !rat_gcd(g, gm, &g))
    return sym_overflow(cx);
  if (rat_is(g, 1)) return mod_node(cx, a, m);
  Rat inverse = {g.den, g.num};
  const Sym *inner = mod_node(cx, sym_scale(cx, a, inverse), sym_scale(cx, m, inverse));
  return sym_scale(cx, inner, g);
}

const Sym *sym_mod(SymCtx *cx, const Sym *a, const Sym *m) {
  a = sym_as_number(cx, a), m = sym_as_number(cx, m);
  if (!a || !m) return NULL;
  if (m == cx->zero) return sym_zero_division(cx);
  const Sym *known = op_cached(cx, SYM_mod, a, m);
  if (known) return known;
  ArenaMark mark = arena_mark(cx->scratch);
  const Sym *s = is_num(m) ? mod_const(cx, a, m->k) : mod_symbolic(cx, a, m);
  arena_rewind(cx->scratch, mark);
  return s ? op_remember(cx, SYM_mod, a, m, s) : NULL;
}
