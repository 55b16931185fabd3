/* logic.c: comparisons, and/or/not, select.
 *
 * A comparison is reduced to `e <= 0`, `e < 0`, `e == 0` or `e != 0` with coprime integer
 * coefficients (kept as `base`), then split for readability: positive terms on the left, negative
 * terms on the right. Over the integers `<` and `<=` are interchangeable; the form with the simpler
 * constant is kept:
 *
 *     2*x <= 511     x < 256          M > 0       M >= 1 (stored 1 <= M)
 *     j - i <= 0     j <= i           i + 1 <= N  i < N
 *
 * Negation is pushed down to the comparisons, so there is no `not` node. */
#include "sym/node.h"

static const Sym *cmp_node(SymCtx *cx, SymKind kind, const Sym *lhs, const Sym *rhs,
                           const Sym *diff) {
  if (!lhs || !rhs) return NULL;
  Sym shape = {.kind = (uint8_t)kind, .flags = SYM_BOOLEAN, .n = 2, .k = RAT_ZERO, .base = diff};
  shape.arg = (const Sym *const[]){lhs, rhs};
  return node_intern(cx, &shape);
}

/* positive - negative = e without its constant. */
static void split_signs(SymCtx *cx, const Sum *e, const Sym **positive, const Sym **negative) {
  Term *p = ARENA_ARRAY(cx->scratch, Term, e->n), *q = ARENA_ARRAY(cx->scratch, Term, e->n);
  int np = 0, nq = 0;
  for (int i = 0; i < e->n; i++) {
    Term t = e->term[i];
    if (t.coeff.num > 0) p[np++] = t;
    else q[nq++] = (Term){rat_neg(t.coeff), t.base};
  }
  *positive = sum_make(cx, RAT_ZERO, p, np);
  *negative = sum_make(cx, RAT_ZERO, q, nq);
}

/* e + k <= 0 over the integers. */
static const Sym *le_node(SymCtx *cx, const Sym *p, const Sym *q, int64_t k, const Sym *e) {
  if (q == cx->zero && k) return cmp_node(cx, SYM_lt, p, sym_int(cx, 1 - k), e);
  if (p == cx->zero) return cmp_node(cx, SYM_le, sym_int(cx, k), q, e);
  if (k == 1) return cmp_node(cx, SYM_lt, p, q, e);
  const Sym *lhs = k > 0 ? sym_add_const(cx, p, rat_int(k)) : p;
  const Sym *rhs = k < 0 ? sym_add_const(cx, q, rat_int(-k)) : q;
  return cmp_node(cx, SYM_le, lhs, rhs, e);
}

static const Sym *order_node(SymCtx *cx, SymKind kind, const Sum *s, const Sym *e) {
  const Sym *p, *q;
  split_signs(cx, s, &p, &q);
  if (is_integer(e)) return le_node(cx, p, q, s->k.num, e);
  const Sym *lhs = s->k.num > 0 ? sym_add_const(cx, p, s->k) : p;
  const Sym *rhs = s->k.num < 0 ? sym_add_const(cx, q, rat_neg(s->k)) : q;
  return cmp_node(cx, kind, lhs, rhs, e);
}

static const Sym *equality_node(SymCtx *cx, SymKind kind, const Sum *s, const Sym *e) {
  const Sym *p, *q;
  split_signs(cx, s, &p, &q);
  Rat k = s->k;
  if (p == cx->zero) return cmp_node(cx, kind, q, sym_num(cx, k), e);
  const Sym *lhs = k.num > 0 && q != cx->zero ? sym_add_const(cx, p, k) : p;
  const Sym *rhs = k.num < 0 || q == cx->zero ? sym_add_const(cx, q, rat_neg(k)) : q;
  return cmp_node(cx, kind, lhs, rhs, e);
}

static bool constant_holds(SymKind kind, Rat v) {
  switch (kind) {
  case SYM_le: return v.num <= 0;
  case SYM_lt: return v.num < 0;
  case SYM_eq: return v.num == 0;
  default: return v.num != 0;
  }
}

/* Divides by the content of the coefficients; over the integers the constant is rounded to the
 * weakest equivalent one. NULL without an error: no integers satisfy the equality. */
static const Sym *reduce(SymCtx *cx, SymKind kind, const Sym *e, bool *impossible) {
  Sum s;
  Rat content, k;
  sum_of(e, &s);
  if (!sum_content(&s, &content)) return sym_overflow(cx);
  bool equality = kind == SYM_eq || kind == SYM_ne;
  bool integral = true;
  for (int i = 0; i < s.n; i++) integral = integral && is_integer(s.term[i].base);
  if (!integral && !rat_gcd(content, s.k, &content)) return sym_overflow(cx);
  if (equality && s.term[0].coeff.num < 0) content = rat_neg(content);
  if (!rat_div(s.k, content, &k)) return sym_overflow(cx);
  if (integral && equality && !rat_is_int(k)) return *impossible = true, NULL;
  if (integral && kind == SYM_lt && !rat_add(rat_int(rat_floor(k)), RAT_ONE, &k))
    return sym_overflow(cx);
  if (integral && kind == SYM_le) k = rat_int(rat_ceil(k));
  Term *terms = ARENA_ARRAY(cx->scratch, Term, s.n);
  for (int i = 0; i < s.n; i++) {
    terms[i].base = s.term[i].base;
    if (!rat_div(s.term[i].coeff, content, &terms[i].coeff)) return sym_overflow(cx);
  }
  return sum_make(cx, k, terms, s.n);
}

static const Sym *compare_slow(SymCtx *cx, SymKind kind, const Sym *e) {
  Sum s;
  bool impossible = false;
  e = reduce(cx, kind, e, &impossible);
  if (impossible) return sym_bool(cx, kind == SYM_ne);
  if (!e) return NULL;
  sum_of(e, &s);
  if (kind == SYM_eq || kind == SYM_ne) return equality_node(cx, kind, &s, e);
  return order_node(cx, kind, &s, e);
}

/* e kind 0 */
static const Sym *compare(SymCtx *cx, SymKind kind, const Sym *e) {
  if (!e) return NULL;
  if (is_num(e)) return sym_bool(cx, constant_holds(kind, e->k));
  const Sym *known = op_cached(cx, kind, e, NULL);
  if (known) return known;
  ArenaMark mark = arena_mark(cx->scratch);
  const Sym *s = compare_slow(cx, kind, e);
  arena_rewind(cx->scratch, mark);
  return s ? op_remember(cx, kind, e, NULL, s) : NULL;
}

const Sym *sym_le(SymCtx *cx, const Sym *a, const Sym *b) {
  return compare(cx, SYM_le, sym_sub(cx, a, b));
}
const Sym *sym_lt(SymCtx *cx, const Sym *a, const Sym *b) {
  return compare(cx, SYM_lt, sym_sub(cx, a, b));
}
const Sym *sym_ge(SymCtx *cx, const Sym *a, const Sym *b) { return sym_le(cx, b, a); }
const Sym *sym_gt(SymCtx *cx, const Sym *a, const Sym *b) { return sym_lt(cx, b, a); }

static const Sym *equal_or_not(SymCtx *cx, SymKind kind, const Sym *a, const Sym *b) {
  if (!a || !b) return NULL;
  if (!is_bool(a) || !is_bool(b)) return compare(cx, kind, sym_sub(cx, a, b));
  const Sym *both = sym_and(cx, a, b), *neither = sym_and(cx, sym_not(cx, a), sym_not(cx, b));
  const Sym *same = sym_or(cx, both, neither);
  return kind == SYM_eq ? same : sym_not(cx, same);
}

const Sym *sym_eq(SymCtx *cx, const Sym *a, const Sym *b) { return equal_or_not(cx, SYM_eq, a, b); }
const Sym *sym_ne(SymCtx *cx, const Sym *a, const Sym *b) { return equal_or_not(cx, SYM_ne, a, b); }

const Sym *cmp_with(SymCtx *cx, SymKind kind, const Sym *e) { return compare(cx, kind, e); }

SymKind cmp_kind(const Sym *s) {
  bool order = s->kind == SYM_le || s->kind == SYM_lt;
  return order && is_integer(s->base) ? SYM_le : (SymKind)s->kind;
}

/* ---- and, or, not */

static int insert_sorted(const Sym **set, int n, const Sym *s) {
  int at = n;
  for (; at > 0; at--) {
    int c = sym_order(s, set[at - 1]);
    if (c == 0) return n;
    if (c > 0) break;
  }
  for (int i = n; i > at; i--) set[i] = set[i - 1];
  set[at] = s;
  return n + 1;
}

int sym_args_union(const Sym **set, int n, SymKind kind, const Sym *s) {
  if (s->kind != kind) return insert_sorted(set, n, s);
  for (int i = 0; i < s->n; i++) n = insert_sorted(set, n, s->arg[i]);
  return n;
}

static bool has_complement(SymCtx *cx, const Sym *const *set, int n) {
  for (int i = 0; i < n; i++) {
    if (!is_cmp(set[i])) continue;
    const Sym *opposite = sym_not(cx, set[i]);
    for (int j = 0; j < i; j++)
      if (set[j] == opposite) return true;
  }
  return false;
}

static const Sym *connect(SymCtx *cx, SymKind kind, const Sym *a, const Sym *b) {
  const Sym *unit = kind == SYM_and ? cx->yes : cx->no, *zero = kind == SYM_and ? cx->no : cx->yes;
  a = sym_as_bool(cx, a), b = sym_as_bool(cx, b);
  if (!a || !b) return NULL;
  if (a == unit || a == b) return b;
  if (b == unit) return a;
  if (a == zero || b == zero) return zero;
  const Sym *known = op_cached(cx, kind, a, b);
  if (known) return known;
  ArenaMark mark = arena_mark(cx->scratch);
  const Sym **set = ARENA_ARRAY(cx->scratch, const Sym *, a->n + b->n + 2);
  int n = sym_args_union(set, sym_args_union(set, 0, kind, a), kind, b);
  const Sym *s = n == 1                       ? set[0]
                 : has_complement(cx, set, n) ? zero
                                              : node_args(cx, kind, SYM_BOOLEAN, set, n);
  arena_rewind(cx->scratch, mark);
  return op_remember(cx, kind, a, b, s);
}

const Sym *sym_and(SymCtx *cx, const Sym *a, const Sym *b) { return connect(cx, SYM_and, a, b); }
const Sym *sym_or(SymCtx *cx, const Sym *a, const Sym *b) { return connect(cx, SYM_or, a, b); }

const Sym *sym_not(SymCtx *cx, const Sym *a) {
  a = sym_as_bool(cx, a);
  if (!a) return NULL;
  switch ((SymKind)a->kind) {
  case SYM_bool: return sym_bool(cx, !a->k.num);
  case SYM_eq: return compare(cx, SYM_ne, a->base);
  case SYM_ne: return compare(cx, SYM_eq, a->base);
  case SYM_le:
  case SYM_lt: return compare(cx, cmp_kind(a) == SYM_le ? SYM_lt : SYM_le, sym_neg(cx, a->base));
  default: break;
  }
  const Sym *r = a->kind == SYM_and ? cx->no : cx->yes;
  for (int i = 0; i < a->n; i++)
    r = connect(cx, a->kind == SYM_and ? SYM_or : SYM_and, r, sym_not(cx, a->arg[i]));
  return r;
}

/* ---- select */

/* Whether to store the negated condition. One of each condition and its negation is preferred, so
 * that select(c, a, b) and select(~c, b, a) are the same node: == over !=, `and` over `or`, upper
 * bounds over lower bounds. */
static bool prefers_negation(const Sym *c) {
  switch ((SymKind)c->kind) {
  case SYM_ne:
  case SYM_or: return true;
  case SYM_le:
  case SYM_lt: {
    Sum s;
    sum_of(c->base, &s);
    return s.term[0].coeff.num < 0;
  }
  default: return false;
  }
}

const Sym *sym_select(SymCtx *cx, const Sym *cond, const Sym *yes, const Sym *no) {
  cond = sym_as_bool(cx, cond);
  if (!cond || !yes || !no) return NULL;
  if (cond->kind == SYM_bool) return cond->k.num ? yes : no;
  if (yes == no) return yes;
  if (is_bool(yes) && is_bool(no))
    return sym_or(cx, sym_and(cx, cond, yes), sym_and(cx, sym_not(cx, cond), no));
  yes = sym_as_number(cx, yes), no = sym_as_number(cx, no);
  if (prefers_negation(cond)) {
    const Sym *t = yes;
    cond = sym_not(cx, cond), yes = no, no = t;
  }
  if (!cond || !yes || !no) return NULL;
  if (yes->kind == SYM_select && yes->arg[0] == cond) yes = yes->arg[1];
  if (no->kind == SYM_select && no->arg[0] == cond) no = no->arg[2];
  if (yes == no) return yes;
  int flags = is_integer(yes) && is_integer(no) ? SYM_INTEGER : 0;
  return node_args(cx, SYM_select, flags, (const Sym *const[]){cond, yes, no}, 3);
}
