/* lower_forms.c: expressions over the coordinates of a tile, decomposed once for all registers.
 *
 *     200*$x0 + $x1 at (3, 8)              its value at register 0, plus 3 steps of 200 and 8 of 1
 *     Mod($x0, W)*8 + $x1                  not an addition along $x0: computed at each $x0
 *     64*$x0 + xor(Mod($x0, 8), $x1)       rows that are 8 apart: 512 more
 *
 * Simplification is the expensive part of lowering an access. A register's number has a digit for
 * each way to move through the tile; a form simplifies once for each combination of digits that no
 * addition leads to. */
#include "lower_threads/lower.h"

/* ---- forms ---- */

static bool is_over_tile(Lower *l, const Sym *e, int rank) {
  for (int i = 0; i < rank; i++)
    if (sym_contains(e, access_x(l->sym, i))) return true;
  return false;
}

/* What moving by `by` along x adds, independent of the position; NULL: it is not an addition. */
static const Sym *moved_by(Lower *l, const Sym *e, const Sym *x, int by, int rank) {
  SymBinding to = {x, sym_add(l->sym, x, sym_int(l->sym, by))};
  const Sym *d = sym_sub(l->sym, sym_subst(l->sym, e, &to, 1), e);
  if (!d) return sym_take_error(l->sym), NULL;
  return is_over_tile(l, d, rank) ? NULL : d;
}

/* For a digit whose single step is not an addition: a number of steps that is. */
static FormStep leap_of(Lower *l, const Sym *e, Digit g, int rank) {
  const Sym *x = access_x(l->sym, g.dim);
  for (int n = 1; n < g.radix; n *= 2) {
    const Sym *adds = moved_by(l, e, x, n * g.stride, rank);
    if (adds) return (FormStep){n, adds};
  }
  return (FormStep){g.radix, NULL};
}

static FormStep step_of(Lower *l, const Sym *e, Digit g, int rank) {
  const Sym *x = access_x(l->sym, g.dim), *coeff, *rest;
  if (!g.stride || !sym_contains(e, x)) return (FormStep){1, sym_int(l->sym, 0)};
  if (sym_is_bool(e)) return (FormStep){g.radix, NULL};
  if (!sym_linear(l->sym, e, &x, 1, &coeff, &rest) || is_over_tile(l, coeff, rank))
    return leap_of(l, e, g, rank);
  return (FormStep){1, sym_mul(l->sym, coeff, sym_int(l->sym, g.stride))};
}

/* Sums of larger numbers are left to `sym`, which detects overflow. */
static bool adds_number(const FormStep *s, int64_t *by) {
  static const int64_t LARGE = INT64_C(1) << 40;
  return sym_is_int(s->adds, by) && *by < LARGE && -*by < LARGE;
}

TileForm *form_of(Lower *l, const Sym *e, const Layout *layout) {
  TileForm *f = ARENA_NEW(l->arena, TileForm);
  *f = (TileForm){.whole = emit_sound(l, e), .layout = layout};
  const Digits *regs = &layout->part[LAYOUT_REG];
  int64_t by;
  int ways = 1;
  for (int i = 0; i < regs->n; i++) {
    f->step[i] = step_of(l, f->whole, regs->at[i], layout->dims);
    if (!adds_number(&f->step[i], &by)) ways *= regs->at[i].radix;
  }
  f->more = ARENA_ARRAY(l->arena, const Sym *, ways);
  return f;
}

/* Whether to simplify is decided once per form, since its values are similar. */
static const Sym *spelt(Lower *l, TileForm *f, const Sym *e) {
  if (f->values.n) return f->plain ? e : emit_simplified(l, e);
  const Sym *s = emit_cheaper(l, e);
  f->plain = s == e && s != emit_simplified(l, e);
  return s;
}

/* The value at `reg`, which no step leads to. */
static const Sym *known_at(Lower *l, TileForm *f, const Sym *const *x, int reg) {
  SymBinding to[LAYOUT_DIMS];
  int coord[LAYOUT_DIMS];
  FormValue v = {.reg = reg};
  for (int i = 0; i < f->values.n; i++)
    if (f->values.at[i].reg == reg) return f->values.at[i].value;
  layout_at(f->layout, reg, 0, 0, coord);
  for (int i = 0; i < f->layout->dims; i++)
    to[i] = (SymBinding){access_x(l->sym, i), sym_add(l->sym, x[i], sym_int(l->sym, coord[i]))};
  v.value = sym_subst(l->sym, f->whole, to, f->layout->dims);
  if (v.value) v.value = spelt(l, f, v.value);
  vec_push(l->arena, &f->values, v);
  return v.value;
}

/* The sum of the symbolic steps on the way to `reg`. */
static const Sym *more_at(Lower *l, const TileForm *f, int reg) {
  const Digits *regs = &f->layout->part[LAYOUT_REG];
  const Sym *more = sym_int(l->sym, 0);
  int64_t by;
  for (int i = 0; i < regs->n; reg /= regs->at[i++].radix) {
    int leaps = reg % regs->at[i].radix / f->step[i].of;
    if (!leaps || adds_number(&f->step[i], &by)) continue;
    more = sym_add(l->sym, more, sym_mul(l->sym, f->step[i].adds, sym_int(l->sym, leaps)));
  }
  return more;
}

FormParts form_parts(Lower *l, TileForm *f, const Sym *const *x, int reg) {
  const Digits *regs = &f->layout->part[LAYOUT_REG];
  FormParts p = {0};
  int first = 0, weight = 1, rest = reg, way = 0, ways = 1;
  for (int i = 0; i < regs->n; weight *= regs->at[i++].radix) {
    int radix = regs->at[i].radix, digit = rest % radix, leaps = digit / f->step[i].of;
    int64_t by;
    rest /= radix;
    first += digit % f->step[i].of * weight;
    if (adds_number(&f->step[i], &by)) p.by += leaps * by;
    else way += leaps * ways, ways *= radix;
  }
  if (!f->more[way]) f->more[way] = more_at(l, f, reg);
  p.more = f->more[way];
  p.known = known_at(l, f, x, first);
  return p;
}

int form_before(Lower *l, const TileForm *f, int reg, const Sym **adds) {
  const Digits *regs = &f->layout->part[LAYOUT_REG];
  int64_t number;
  int weight = layout_size(f->layout, LAYOUT_REG);
  for (int i = regs->n - 1; i >= 0; i--) {
    weight /= regs->at[i].radix;
    int leaps = reg / weight % regs->at[i].radix / f->step[i].of, last = leaps & -leaps;
    if (!leaps || sym_is_int(f->step[i].adds, &number)) continue;
    *adds = sym_mul(l->sym, f->step[i].adds, sym_int(l->sym, last));
    return *adds ? reg - last * f->step[i].of * weight : -1;
  }
  return -1;
}

const Sym *form_sum(Lower *l, FormParts p) {
  const Sym *terms[] = {p.known, p.more, sym_int(l->sym, p.by)};
  return p.known && sym_is_bool(p.known) ? p.known : sym_sum(l->sym, terms, (int)WV_LEN(terms));
}

const Sym *form_at(Lower *l, TileForm *f, const Sym *const *x, int reg) {
  return form_sum(l, form_parts(l, f, x, reg));
}
