/* divisors.c: see divisors.h. The sign of a divisor follows from the facts, or from its being a
 * product of two dimensions of parameters, as sizes of flattened tensors are. */
#include "analysis/access/divisors.h"

#include "base/vec.h"

struct Divisors {
  SymCtx *sym;
  Arena *arena;
  const SymFacts *facts;
  Vec(const Sym *) sizes; /* of parameters: distinct and not numbers */
  Map guarded;            /* divisor -> its replacement; itself: it is never 0 */
};

static void add_size(Divisors *d, const Sym *dim) {
  const Sym *size = sym_simplify(d->sym, d->facts, dim);
  int64_t number;
  if (!size || sym_is_int(size, &number)) return;
  if (!sym_proves(d->sym, d->facts, sym_ge(d->sym, size, sym_int(d->sym, 0)))) return;
  for (int i = 0; i < d->sizes.n; i++)
    if (d->sizes.at[i] == size) return;
  vec_push(d->arena, &d->sizes, size);
}

Divisors *divisors_new(Kernel *k, Arena *a, const SymFacts *f) {
  Divisors *d = ARENA_NEW(a, Divisors);
  *d = (Divisors){.sym = k->cx->sym, .arena = a, .facts = f};
  for (int i = 0; i < k->body->nargs; i++)
    for (int j = 0; j < k->body->args[i]->type->rank; j++)
      add_size(d, k->body->args[i]->type->dims[j]);
  return d;
}

/* ---- signs ---- */

static bool is_difference_zero(Divisors *d, const Sym *a, const Sym *b) {
  const Sym *e = sym_simplify(d->sym, d->facts, sym_sub(d->sym, a, b));
  if (!e) sym_take_error(d->sym);
  return e == sym_int(d->sym, 0);
}

static bool is_product_of_sizes(Divisors *d, const Sym *e) {
  for (int i = 0; i < d->sizes.n; i++)
    for (int j = i; j < d->sizes.n; j++) {
      const Sym *product = sym_mul(d->sym, d->sizes.at[i], d->sizes.at[j]);
      if (product && is_difference_zero(d, product, e)) return true;
    }
  return false;
}

static bool is_never_negative(Divisors *d, const Sym *e) {
  return sym_proves(d->sym, d->facts, sym_ge(d->sym, e, sym_int(d->sym, 0))) ||
         is_product_of_sizes(d, e);
}

static bool is_above_zero(Divisors *d, const Sym *e) {
  return sym_proves(d->sym, d->facts, sym_ge(d->sym, e, sym_int(d->sym, 1)));
}

/* The replacement of a divisor: itself, or itself with 0 replaced by 1 or -1; NULL: its sign is
 * unknown. */
static const Sym *find_guard(Divisors *d, const Sym *by) {
  const Sym *one = sym_int(d->sym, 1), *other = sym_neg(d->sym, by);
  int64_t number;
  if (sym_is_int(by, &number)) return number ? by : NULL;
  if (!other) return sym_take_error(d->sym), NULL;
  if (is_above_zero(d, by) || is_above_zero(d, other)) return by;
  if (is_never_negative(d, by)) return sym_max(d->sym, by, one);
  return is_never_negative(d, other) ? sym_min(d->sym, by, sym_neg(d->sym, one)) : NULL;
}

static const Sym *guard_of(Divisors *d, const Sym *by) {
  const Sym *known = map_get(&d->guarded, map_key(by));
  if (!known) {
    known = find_guard(d, by);
    if (!known) known = sym_int(d->sym, 0); /* none */
    map_set(d->arena, &d->guarded, map_key(by), (void *)(uintptr_t)known);
  }
  return known == sym_int(d->sym, 0) ? NULL : known;
}

/* ---- expressions ---- */

/* The index of the operand by which e divides; -1: none. */
static int divisor_of(SymCtx *sym, const Sym *e) {
  int64_t exponent;
  if (sym_kind(e) == SYM_mod) return 1;
  bool inverse =
      sym_kind(e) == SYM_pow && sym_is_int(sym_arg(sym, e, 1), &exponent) && exponent < 0;
  return inverse ? 0 : -1;
}

const Sym *divisors_guard(Divisors *d, const Sym *e) {
  int n = sym_nargs(e), by = divisor_of(d->sym, e);
  const Sym **args = ARENA_ARRAY(d->arena, const Sym *, n + 1);
  for (int i = 0; i < n; i++) {
    args[i] = divisors_guard(d, sym_arg(d->sym, e, i));
    if (args[i] && i == by) args[i] = guard_of(d, args[i]);
    if (!args[i]) return NULL;
  }
  const Sym *made = sym_with_args(d->sym, e, args);
  if (!made) sym_take_error(d->sym);
  return made;
}
