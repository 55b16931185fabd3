/* sum.c: sums as a constant plus sorted (coefficient, base) pairs. */
#include <stdlib.h>
#include <string.h>

#include "sym/node.h"

/* coeff * base, which has no coefficient of its own. */
const Sym *term_sym(SymCtx *cx, Term t) {
  if (rat_is(t.coeff, 1)) return t.base;
  if (t.coeff.num == 0) return cx->zero;
  bool several = t.base->kind == SYM_mul || t.base->kind == SYM_pow;
  Sym shape = {.kind = SYM_mul, .k = t.coeff, .base = t.base, .n = factor_count(t.base)};
  shape.factor = several ? t.base->factor : &(Factor){t.base, 1};
  shape.flags = is_integer(t.base) && rat_is_int(t.coeff) ? SYM_INTEGER : 0;
  return node_intern(cx, &shape);
}

const Sym *sum_make(SymCtx *cx, Rat k, const Term *terms, int n) {
  if (n == 0) return sym_num(cx, k);
  if (n == 1 && k.num == 0) return term_sym(cx, terms[0]);
  bool integer = rat_is_int(k);
  for (int i = 0; i < n && integer; i++)
    integer = rat_is_int(terms[i].coeff) && is_integer(terms[i].base);
  Sym shape = {.kind = SYM_add, .flags = integer ? SYM_INTEGER : 0, .n = n, .k = k, .term = terms};
  return node_intern(cx, &shape);
}

static int by_order(const void *a, const void *b) {
  return sym_order(((const Term *)a)->base, ((const Term *)b)->base);
}

/* By insertion: lists are short and mostly sorted. Others come from texts. */
static void sort_terms(Term *t, int n) {
  enum { SHORT = 64 };
  if (n > SHORT) {
    qsort(t, (size_t)n, sizeof *t, by_order);
    return;
  }
  for (int i = 1; i < n; i++) {
    Term x = t[i];
    int j = i;
    for (; j > 0 && sym_order(x.base, t[j - 1].base) < 0; j--) t[j] = t[j - 1];
    t[j] = x;
  }
}

const Sym *sum_collect(SymCtx *cx, Rat k, Term *terms, int n) {
  sort_terms(terms, n);
  int m = 0;
  for (int i = 0; i < n; i++) {
    if (m && terms[m - 1].base == terms[i].base) {
      if (!rat_add(terms[m - 1].coeff, terms[i].coeff, &terms[m - 1].coeff))
        return sym_overflow(cx);
    } else {
      terms[m++] = terms[i];
    }
    if (terms[m - 1].coeff.num == 0) m--;
  }
  return sum_make(cx, k, terms, m);
}

/* a + sign*b, by merging the two sorted lists. */
static const Sym *merge(SymCtx *cx, const Sum *a, const Sum *b, bool negate, Term *out) {
  const Term *x = a->term, *y = b->term;
  int i = 0, j = 0, n = 0;
  while (i < a->n || j < b->n) {
    int c = i == a->n ? 1 : j == b->n ? -1 : sym_order(x[i].base, y[j].base);
    if (c < 0) {
      out[n++] = x[i++];
      continue;
    }
    Term t = y[j++];
    if (negate) t.coeff = rat_neg(t.coeff);
    if (c == 0 && !rat_add(x[i++].coeff, t.coeff, &t.coeff)) return sym_overflow(cx);
    if (t.coeff.num) out[n++] = t;
  }
  Rat k;
  if (!rat_add(a->k, negate ? rat_neg(b->k) : b->k, &k)) return sym_overflow(cx);
  return sum_make(cx, k, out, n);
}

enum { SMALL = 24 };

static const Sym *add_or_sub(SymCtx *cx, const Sym *x, const Sym *y, bool negate) {
  Sum a, b;
  Term small[SMALL];
  x = sym_as_number(cx, x), y = sym_as_number(cx, y);
  if (!x || !y) return NULL;
  sum_of(x, &a), sum_of(y, &b);
  if (a.n + b.n <= SMALL) return merge(cx, &a, &b, negate, small);
  ArenaMark mark = arena_mark(cx->scratch);
  const Sym *s = merge(cx, &a, &b, negate, ARENA_ARRAY(cx->scratch, Term, a.n + b.n));
  arena_rewind(cx->scratch, mark);
  return s;
}

const Sym *sym_add(SymCtx *cx, const Sym *a, const Sym *b) { return add_or_sub(cx, a, b, false); }
const Sym *sym_sub(SymCtx *cx, const Sym *a, const Sym *b) { return add_or_sub(cx, a, b, true); }
const Sym *sym_neg(SymCtx *cx, const Sym *a) {
  return sym_scale(cx, sym_as_number(cx, a), rat_int(-1));
}

/* Grows the list of terms in scratch as needed. */
bool sum_gather(SymCtx *cx, const Sym *s, Rat c, Term **terms, int *n, int *cap, Rat *k) {
  Sum a;
  Rat v;
  if (!s) return false;
  sum_of(s, &a);
  if (*n + a.n > *cap) {
    Term *more = ARENA_ARRAY(cx->scratch, Term, (*n + a.n) * 2);
    memcpy(more, *terms, sizeof(Term) * (size_t)*n);
    *terms = more, *cap = (*n + a.n) * 2;
  }
  for (int i = 0; i < a.n; i++) {
    if (!rat_mul(a.term[i].coeff, c, &v)) return sym_overflow(cx);
    if (v.num) (*terms)[(*n)++] = (Term){v, a.term[i].base};
  }
  return (rat_mul(a.k, c, &v) && rat_add(*k, v, k)) || sym_overflow(cx);
}

const Sym *sym_sum(SymCtx *cx, const Sym *const *args, int nargs) {
  ArenaMark mark = arena_mark(cx->scratch);
  Term small[SMALL], *terms = small;
  int n = 0, cap = SMALL;
  Rat k = RAT_ZERO;
  bool ok = true;
  for (int i = 0; i < nargs && ok; i++)
    ok = sum_gather(cx, sym_as_number(cx, args[i]), RAT_ONE, &terms, &n, &cap, &k);
  const Sym *s = ok ? sum_collect(cx, k, terms, n) : NULL;
  arena_rewind(cx->scratch, mark);
  return s;
}

const Sym *sym_add_const(SymCtx *cx, const Sym *s, Rat c) {
  Sum a;
  if (!s || c.num == 0) return s;
  sum_of(s, &a);
  if (!rat_add(a.k, c, &a.k)) return sym_overflow(cx);
  return sum_make(cx, a.k, a.term, a.n);
}

const Sym *sym_scale(SymCtx *cx, const Sym *s, Rat c) {
  Sum a;
  if (!s || rat_is(c, 1)) return s;
  if (c.num == 0) return cx->zero;
  sum_of(s, &a);
  if (!rat_mul(a.k, c, &a.k)) return sym_overflow(cx);
  ArenaMark mark = arena_mark(cx->scratch);
  Term small[SMALL], *t = a.n <= SMALL ? small : ARENA_ARRAY(cx->scratch, Term, a.n);
  bool ok = true;
  for (int i = 0; i < a.n && ok; i++) {
    t[i].base = a.term[i].base;
    ok = rat_mul(a.term[i].coeff, c, &t[i].coeff);
  }
  s = ok ? sum_make(cx, a.k, t, a.n) : sym_overflow(cx);
  arena_rewind(cx->scratch, mark);
  return s;
}

bool sym_differ_by(const Sym *a, const Sym *b, int64_t *by) {
  Sum x, y;
  Rat d;
  if (!a || !b || is_bool(a) || is_bool(b)) return false;
  sum_of(a, &x), sum_of(b, &y);
  if (x.n != y.n) return false;
  for (int i = 0; i < x.n; i++)
    if (x.term[i].base != y.term[i].base || !rat_eq(x.term[i].coeff, y.term[i].coeff)) return false;
  if (!rat_sub(x.k, y.k, &d) || !rat_is_int(d)) return false;
  return *by = d.num, true;
}

bool sum_denominator(const Sum *s, int64_t *den) {
  *den = 1;
  for (int i = 0; i < s->n; i++)
    if (!int_lcm(*den, s->term[i].coeff.den, den)) return false;
  return true;
}

bool sum_content(const Sum *s, Rat *content) {
  *content = RAT_ZERO;
  for (int i = 0; i < s->n; i++)
    if (!rat_gcd(*content, s->term[i].coeff, content)) return false;
  return true;
}
