/* copy_order.c: see copy_order.h. */
#include "transform/copy/copy_order.h"

static void push_digit(CopyOrder *o, int dim, int radix, int stride) {
  o->at[o->n++] = (Digit){dim, radix, stride};
}

CopyOrder copy_order_with(const MemLayout *rows, int inner) {
  CopyOrder o = {.inner = inner, .dims = rows->dims};
  for (int d = 0; d < rows->dims; d++) o.extent[d] = rows->extent[d];
  for (int d = 0; d < rows->dims; d++)
    if (d != inner) push_digit(&o, d, rows->extent[d], 1);
  push_digit(&o, inner, rows->extent[inner], 1);
  return o;
}

/* Joins digits that follow each other. */
static void add_digit(Digits *d, Digit next) {
  Digit *last = d->n ? &d->at[d->n - 1] : NULL;
  if (last && last->stride * last->radix == next.stride) last->radix *= next.radix;
  else d->at[d->n++] = next;
}

static const Digit *digit_of_lanes(const Layout *lanes, int dim, int stride) {
  const Digits *all = &lanes->part[LAYOUT_LANE];
  for (int i = 0; i < all->n; i++)
    if (all->at[i].dim == dim && all->at[i].stride == stride) return &all->at[i];
  return NULL;
}

/* Digits of a dim, fastest first: those along which lanes are spread, and the rest. */
static bool split_dim(const Layout *lanes, int dim, int extent, Digits *out) {
  Digits rest = {0};
  int next = 1;
  *out = (Digits){0};
  for (int stride = 1; stride < extent; stride *= 2) {
    const Digit *digit = digit_of_lanes(lanes, dim, stride);
    if (!digit) continue;
    if (stride < next || stride * digit->radix > extent) return false;
    if (stride > next) add_digit(&rest, (Digit){dim, stride / next, next});
    add_digit(out, *digit);
    next = stride * digit->radix;
  }
  if (next < extent || !out->n) add_digit(&rest, (Digit){dim, (extent + next - 1) / next, next});
  for (int i = 0; i < rest.n; i++) out->at[out->n++] = rest.at[i];
  return true;
}

bool copy_order_by_lanes(const MemLayout *rows, const Layout *lanes, int inner, CopyOrder *out) {
  *out = copy_order_with(rows, inner);
  out->n = 0;
  for (int d = 0; d < rows->dims; d++) {
    Digits digits;
    if (d == inner) continue;
    if (!split_dim(lanes, d, rows->extent[d], &digits) || out->n + digits.n >= LAYOUT_DIMS)
      return false;
    for (int i = digits.n - 1; i >= 0; i--)
      push_digit(out, d, digits.at[i].radix, digits.at[i].stride);
  }
  push_digit(out, inner, rows->extent[inner], 1);
  return true;
}

MemLayout copy_order_rows(const CopyOrder *o, int bits) {
  int extent[LAYOUT_DIMS];
  for (int i = 0; i < o->n; i++) extent[i] = o->at[i].radix;
  return mem_rows(o->n, extent, bits, 0);
}

/* The contiguous dim comes first, then the last ones; the digits of a dim fastest first. */
static bool comes_before(const CopyOrder *o, const Digit *a, const Digit *b) {
  if (a->dim == b->dim) return a->stride < b->stride;
  return a->dim == o->inner || (b->dim != o->inner && a->dim > b->dim);
}

MemLayout copy_order_undo(const CopyOrder *o, const MemLayout *m) {
  MemLayout out = *m;
  const Digit *sorted[LAYOUT_DIMS];
  for (int i = 0; i < o->n; i++) {
    int to = i;
    for (; to > 0 && comes_before(o, &o->at[i], sorted[to - 1]); to--) sorted[to] = sorted[to - 1];
    sorted[to] = &o->at[i];
  }
  out.dims = o->dims;
  for (int d = 0; d < o->dims; d++) out.extent[d] = o->extent[d];
  out.digits.n = 0;
  for (int i = 0; i < o->n; i++)
    for (int n = 0; n < m->digits.n; n++) {
      Digit digit = m->digits.at[n];
      if (digit.dim != sorted[i] - o->at) continue;
      digit.dim = sorted[i]->dim;
      out.digits.at[out.digits.n++] = digit;
    }
  return out;
}
