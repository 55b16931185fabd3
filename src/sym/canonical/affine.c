/* affine.c: decomposing expressions into linear forms. */
#include "sym/node.h"

static int index_of(const Sym *const *symbols, int n, const Sym *s) {
  for (int i = 0; i < n; i++)
    if (symbols[i] == s) return i;
  return -1;
}

static bool mentions(const Sym *s, const Sym *const *symbols, int n) {
  for (int i = 0; i < n; i++)
    if (sym_contains(s, symbols[i])) return true;
  return false;
}

/* Finds the one symbol that the term is linear in; the rest of the term is its coefficient. */
static int split_term(SymCtx *cx, Term t, const Sym *const *symbols, int n, const Sym **coeff) {
  int at = -1;
  Product rest = {.coeff = t.coeff};
  for (int i = 0; i < factor_count(t.base); i++) {
    Factor f = factor_at(t.base, i);
    int k = index_of(symbols, n, f.base);
    if (k >= 0 && at < 0 && f.exp == 1) {
      at = k;
      continue;
    }
    if (mentions(f.base, symbols, n)) return -1;
    product_push(cx, &rest, f);
  }
  *coeff = product_make(cx, &rest);
  return at;
}

static bool linear(SymCtx *cx, const Sym *s, const Sym *const *symbols, int n, const Sym **coeff,
                   const Sym **rest) {
  Sum sum;
  sum_of(s, &sum);
  *rest = sym_num(cx, sum.k);
  for (int i = 0; i < n; i++) coeff[i] = cx->zero;
  for (int i = 0; i < sum.n; i++) {
    Term t = sum.term[i];
    if (!mentions(t.base, symbols, n)) {
      *rest = sym_add(cx, *rest, term_sym(cx, t));
      continue;
    }
    const Sym *c = NULL;
    int at = split_term(cx, t, symbols, n, &c);
    if (at < 0 || !(coeff[at] = sym_add(cx, coeff[at], c))) return false;
  }
  return *rest != NULL;
}

bool sym_linear(SymCtx *cx, const Sym *s, const Sym *const *symbols, int n, const Sym **coeff,
                const Sym **rest) {
  s = sym_as_number(cx, s);
  if (!s) return false;
  ArenaMark mark = arena_mark(cx->scratch);
  bool ok = linear(cx, s, symbols, n, coeff, rest);
  arena_rewind(cx->scratch, mark);
  return ok;
}
