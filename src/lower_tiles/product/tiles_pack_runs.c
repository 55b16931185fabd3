/* tiles_pack_runs.c: operands that are contiguous along k for a while, as the channels of a pixel are.
 *
 *     for runs of 128 channels {            the tap of the filter, its place, and whether that is inside
 *       for vectors of the run { ... }      the image, for each row: divisions
 *     }
 *
 * In a single loop over k all of that would be computed for every vector. */
#include "lower_tiles/product/tiles_pack.h"

int pack_run_along_k(Tiles *t, const PackSource *from) {
  const Op *read = pack_plain_read(t, from->of);
  int most = from->depth & -from->depth; /* the largest power of two that divides it */
  if (!read || access_contiguous(t, read)) return 1;
  return access_run(t, read, from->k, from->k_start, from->depth, most);
}

static void grant(Tiles *t, const PackSource *from, bool needed) {
  pack_grant_rows(t, from);
  if (needed && from->k_end) nest_grant(t, from->k, from->k_end);
}

/* The vectors of `runs` runs. */
static bool each_run(Tiles *t, Packing *x, Point p, const Sym *runs, int width, bool needed,
                     NestBody *body) {
  SymCtx *sym = t->l.sym;
  const Sym *length = sym_int(sym, x->run);
  NestLoop outer = loop_open(t, NULL, runs, x->from->depth / x->run, 1, NULL, 0);
  const Sym *first = sym_mul(sym, length, outer.counter);
  NestLoop inner = loop_open(t, NULL, length, x->run, width, NULL, 0);
  p.at[p.n - 1] = tiles_sum(t, x->from->k_start, sym_add(sym, first, inner.counter));
  grant(t, x->from, needed);
  bool ok = body(t, &p, x);
  loop_close(t, &inner, NULL);
  loop_close(t, &outer, NULL);
  return ok;
}

bool pack_vectors(Tiles *t, Packing *x, Point p, const Sym *from, const Sym *to, int width,
                  bool needed, NestBody *body) {
  SymCtx *sym = t->l.sym;
  const Sym *length = sym_int(sym, x->run);
  p.along = width > 1 ? p.n - 1 : -1;
  p.width = width;
  if (!from && width > 1 && x->run > width) {
    const Sym *runs = emit_sound(&t->l, sym_floordiv(sym, to, length));
    if (!each_run(t, x, p, runs, width, needed, body)) return false;
    from = sym_simplify(sym, emit_facts(&t->l), sym_mul(sym, length, runs));
    from = emit_sound(&t->l, from);
  }
  if (from == to) return true;
  NestLoop loop = loop_open(t, from, to, pack_padded(x->from), width, NULL, 0);
  p.at[p.n - 1] = tiles_sum(t, x->from->k_start, loop.counter);
  grant(t, x->from, needed);
  bool ok = body(t, &p, x);
  loop_close(t, &loop, NULL);
  return ok;
}
