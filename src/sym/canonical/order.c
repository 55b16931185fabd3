/* order.c: the canonical order of operands.
 *
 * Symbols come first, by name; then the kinds in the order of sym.def, smaller before larger. The
 * order is structural, so an expression prints the same in every context. */
#include <string.h>

#include "sym/node.h"

static int cmp_int(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int order_symbols(const Sym *a, const Sym *b) {
  int c = strcmp(a->name, b->name);
  return c ? c : cmp_int(a->flags, b->flags);
}

static int order_terms(const Sym *a, const Sym *b) {
  for (int i = 0; i < a->n; i++) {
    int c = sym_order(a->term[i].base, b->term[i].base);
    if (!c) c = rat_cmp(a->term[i].coeff, b->term[i].coeff);
    if (c) return c;
  }
  return rat_cmp(a->k, b->k);
}

static int order_factors(const Sym *a, const Sym *b) {
  for (int i = 0; i < a->n; i++) {
    int c = sym_order(a->factor[i].base, b->factor[i].base);
    if (!c) c = cmp_int(a->factor[i].exp, b->factor[i].exp);
    if (c) return c;
  }
  return rat_cmp(a->k, b->k);
}

static int order_args(const Sym *a, const Sym *b) {
  for (int i = 0; i < a->n; i++) {
    int c = sym_order(a->arg[i], b->arg[i]);
    if (c) return c;
  }
  return 0;
}

int sym_order(const Sym *a, const Sym *b) {
  if (a == b) return 0;
  if (a->kind != b->kind) return cmp_int(a->kind, b->kind);
  if (a->size != b->size) return a->size < b->size ? -1 : 1;
  if (a->n != b->n) return cmp_int(a->n, b->n);
  switch ((SymKind)a->kind) {
  case SYM_symbol: return order_symbols(a, b);
  case SYM_int:
  case SYM_rational:
  case SYM_bool: return rat_cmp(a->k, b->k);
  case SYM_add: return order_terms(a, b);
  case SYM_mul:
  case SYM_pow: return order_factors(a, b);
  case SYM_floor:
  case SYM_ceil:
  case SYM_mod:
  case SYM_xor:
  case SYM_min:
  case SYM_max:
  case SYM_select:
  case SYM_le:
  case SYM_lt:
  case SYM_eq:
  case SYM_ne:
  case SYM_and:
  case SYM_or: return order_args(a, b);
  case SYM_COUNT: break;
  }
  WV_BUG("unknown kind of expression");
}
