/* minmax.c: canonical Min, Max and xor. */
#include "sym/node.h"

/* Drops operands dominated by another that differs by a constant; constants compete among
 * themselves. */
static int drop_beaten(SymCtx *cx, SymKind kind, const Sym **set, int n) {
  for (int i = 0; i < n; i++) {
    for (int j = i + 1; j < n; j++) {
      const Sym *d = sym_sub(cx, set[i], set[j]);
      if (!d) return -1;
      if (!is_num(d)) continue;
      if ((d->k.num < 0) != (kind == SYM_min)) set[i] = set[j];
      for (int k = j--; k + 1 < n; k++) set[k] = set[k + 1];
      n--;
    }
  }
  return n;
}

static void sort_args(const Sym **set, int n) {
  for (int i = 1; i < n; i++) {
    const Sym *x = set[i];
    int j = i;
    for (; j > 0 && sym_order(x, set[j - 1]) < 0; j--) set[j] = set[j - 1];
    set[j] = x;
  }
}

static const Sym *extreme_of(SymCtx *cx, SymKind kind, const Sym *a, const Sym *b) {
  const Sym **set = ARENA_ARRAY(cx->scratch, const Sym *, a->n + b->n + 2);
  int n = sym_args_union(set, sym_args_union(set, 0, kind, a), kind, b);
  n = drop_beaten(cx, kind, set, n);
  if (n < 0) return NULL;
  if (n == 1) return set[0];
  sort_args(set, n);
  bool integer = true;
  for (int i = 0; i < n; i++) integer = integer && is_integer(set[i]);
  return node_args(cx, kind, integer ? SYM_INTEGER : 0, set, n);
}

static const Sym *extreme(SymCtx *cx, SymKind kind, const Sym *a, const Sym *b) {
  a = sym_as_number(cx, a), b = sym_as_number(cx, b);
  if (!a || !b) return NULL;
  if (a == b) return a;
  const Sym *known = op_cached(cx, kind, a, b);
  if (known) return known;
  ArenaMark mark = arena_mark(cx->scratch);
  const Sym *s = extreme_of(cx, kind, a, b);
  arena_rewind(cx->scratch, mark);
  return s ? op_remember(cx, kind, a, b, s) : NULL;
}

const Sym *sym_min(SymCtx *cx, const Sym *a, const Sym *b) { return extreme(cx, SYM_min, a, b); }
const Sym *sym_max(SymCtx *cx, const Sym *a, const Sym *b) { return extreme(cx, SYM_max, a, b); }

/* Equal operands of a xor cancel and constants fold, so the set holds the operands that appear
 * once. */
static int toggle(const Sym **set, int n, const Sym *s) {
  for (int i = 0; i < n; i++) {
    if (set[i] != s) continue;
    for (; i + 1 < n; i++) set[i] = set[i + 1];
    return n - 1;
  }
  set[n] = s;
  return n + 1;
}

static int xor_gather(const Sym **set, int n, int64_t *k, const Sym *s) {
  if (s->kind == SYM_int) return *k ^= s->k.num, n;
  if (s->kind != SYM_xor) return toggle(set, n, s);
  for (int i = 0; i < s->n; i++) n = xor_gather(set, n, k, s->arg[i]);
  return n;
}

static const Sym *xor_of(SymCtx *cx, const Sym *a, const Sym *b) {
  const Sym **set = ARENA_ARRAY(cx->scratch, const Sym *, a->n + b->n + 3);
  int64_t k = 0;
  int n = xor_gather(set, xor_gather(set, 0, &k, a), &k, b);
  if (n == 0) return sym_int(cx, k);
  if (n == 1 && k == 0) return set[0];
  if (n == 1 && k == -1) return sym_add_const(cx, sym_neg(cx, set[0]), rat_int(-1));
  sort_args(set, n);
  if (k) set[n++] = sym_int(cx, k);
  return set[n - 1] ? node_args(cx, SYM_xor, SYM_INTEGER, set, n) : NULL;
}

const Sym *sym_xor(SymCtx *cx, const Sym *a, const Sym *b) {
  if (a && b && is_bool(a) && is_bool(b)) return sym_ne(cx, a, b);
  a = sym_as_number(cx, a), b = sym_as_number(cx, b);
  if (!a || !b) return NULL;
  ArenaMark mark = arena_mark(cx->scratch);
  bool whole = (is_integer(a) || !is_num(a)) && (is_integer(b) || !is_num(b));
  const Sym *s = whole ? xor_of(cx, a, b) : sym_fail(cx, "xor of a non-integer");
  arena_rewind(cx->scratch, mark);
  return s;
}
