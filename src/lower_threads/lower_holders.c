/* lower_holders.c: which holder of an element counts if digits reach it in several ways.
 *
 *     [16] reg d0/4:1 | lane d0/8:2        element 2 is register 2 of lane 0, and 0 of lane 1
 *
 * Of several ways to write a coordinate, the one with the largest outer digits counts: each digit
 * is at its last value, or the digits inside it stay below its stride. If that does not leave
 * exactly one, the layout is *tangled*. Digits of stride 0, which are declared replication, are
 * ignored here. */
#include "lower_threads/lower.h"

/* The digits along the dim, by stride. */
static void find_movers(DimHolders *h) {
  for (int p = 0; p < LAYOUT_PARTS; p++)
    for (int i = 0; i < h->layout->part[p].n; i++) {
      Digit g = h->layout->part[p].at[i];
      if (!g.stride || g.dim != h->dim) continue;
      int at = h->n++;
      for (; at && h->movers[at - 1].digit.stride > g.stride; at--)
        h->movers[at] = h->movers[at - 1];
      h->movers[at] = (Mover){(LayoutPart)p, i, g};
    }
}

/* What the inner digits reach stays below the next one's stride, so no two coincide. */
static bool are_nested(const DimHolders *h) {
  int span = 0;
  for (int i = 0; i < h->n; i++) {
    if (span >= h->movers[i].digit.stride) return false;
    span += (h->movers[i].digit.radix - 1) * h->movers[i].digit.stride;
  }
  return true;
}

/* The dim alone, with all its digits in registers: shows the holders of an element along it. */
static Layout along_dim(const DimHolders *h) {
  Layout out = layout_of(1, &h->layout->extent[h->dim]);
  for (int i = 0; i < h->n; i++)
    layout_push(&out, LAYOUT_REG, 0, h->movers[i].digit.radix, h->movers[i].digit.stride);
  return out;
}

static bool is_counted(const Layout *dim, int number) {
  int inner = 0;
  for (int i = 0; i < dim->part[LAYOUT_REG].n; i++) {
    Digit g = dim->part[LAYOUT_REG].at[i];
    int digit = number % g.radix;
    if (digit < g.radix - 1 && inner >= g.stride) return false;
    inner += digit * g.stride;
    number /= g.radix;
  }
  return true;
}

static bool counts_each_once(Lower *l, const Layout *dim) {
  const int *table = layout_table(l->arena, dim);
  int *count = ARENA_ARRAY(l->arena, int, dim->extent[0]);
  for (int i = 0; i < layout_positions(dim); i++)
    if (table[i] >= 0) count[table[i]] += is_counted(dim, i);
  for (int e = 0; e < dim->extent[0]; e++)
    if (count[e] != 1) return false;
  return true;
}

static bool has_room(const DimHolders *h) {
  int digits = 0;
  for (int i = 0; i < h->n; i++) digits += h->movers[i].digit.radix > 1;
  return digits <= LAYOUT_DIGITS;
}

DimHolders holders_of_dim(Lower *l, const Layout *layout, int dim) {
  DimHolders h = {.layout = layout, .dim = dim};
  find_movers(&h);
  if (are_nested(&h)) return h;
  h.kind = HOLDERS_TANGLED;
  if (!has_room(&h)) return h;
  Layout alone = along_dim(&h);
  if (layout_cover(l->arena, &alone).most <= 1) h.kind = HOLDERS_SINGLE;
  else if (counts_each_once(l, &alone)) h.kind = HOLDERS_SEVERAL;
  return h;
}

static const Sym *digit_at(Lower *l, const DimHolders *h, const Mover *m, int reg) {
  int weight = 1;
  if (m->part != LAYOUT_REG) return lane_digit(l, h->layout, m->part, m->number);
  for (int i = 0; i < m->number; i++) weight *= h->layout->part[LAYOUT_REG].at[i].radix;
  return sym_int(l->sym, reg / weight % m->digit.radix);
}

const Sym *holder_counts(Lower *l, const DimHolders *h, int reg) {
  const Sym *inner = sym_int(l->sym, 0), *all = sym_bool(l->sym, true);
  for (int i = 0; i < h->n; i++) {
    const Mover *m = &h->movers[i];
    const Sym *stride = sym_int(l->sym, m->digit.stride), *digit = digit_at(l, h, m, reg);
    const Sym *last = sym_eq(l->sym, digit, sym_int(l->sym, m->digit.radix - 1));
    all = sym_and(l->sym, all, sym_or(l->sym, last, sym_lt(l->sym, inner, stride)));
    inner = sym_add(l->sym, inner, sym_mul(l->sym, digit, stride));
  }
  return all;
}
