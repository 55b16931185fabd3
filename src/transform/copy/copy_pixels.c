/* copy_pixels.c: see copy_pixels.h. Steps and corners are found by trial: candidates within the
 * hardware's range are written down as expressions and compared with the coordinates of the
 * access. */
#include "transform/copy/copy_pixels.h"

enum { FARTHEST = 64 }; /* corner tried; along a single dim a tensor map could encode more */

typedef struct Finder {
  SymCtx *sym;
  const SymFacts *facts; /* of the header and of a tile along the channels: see below */
  const AccessBounds *b;
  CopyPixels *out;
  const Sym *x, *k;     /* $x of pixels and of channels */
  const Sym *tile, *in; /* $x of channels is the extent times $tile, plus $in */
  int extent;           /* of a tile along the channels */
} Finder;

static const Sym *with(const Finder *f, const Sym *e, const Sym *x, const Sym *k) {
  SymBinding to[] = {{f->x, x}, {f->k, k}};
  return sym_subst(f->sym, e, to, 2);
}

static const Sym *zero(const Finder *f) { return sym_int(f->sym, 0); }

/* ---- channels and taps ---- */

/* e, an expression over the channels' $x, at element $in of a tile. */
static const Sym *in_tile(const Finder *f, const Sym *e, const Sym *in) {
  const Sym *start = sym_mul(f->sym, f->tile, sym_int(f->sym, f->extent));
  return with(f, e, f->x, sym_add(f->sym, start, in));
}

/* Whether e grows by `by` from element to element of every tile. */
static bool grows_by(const Finder *f, const Sym *e, int by) {
  const Sym *first = in_tile(f, e, zero(f)), *there = in_tile(f, e, f->in);
  const Sym *grown = sym_add(f->sym, first, sym_mul(f->sym, f->in, sym_int(f->sym, by)));
  return sym_equal(f->sym, f->facts, there, grown) == SYM_ALWAYS;
}

/* Splits a coordinate into the pixel's position and a tap, which is at least 0. */
static bool split_coord(Finder *f, int d) {
  const Sym *e = f->b->coords[1 + d], *at = with(f, e, f->x, zero(f));
  const Sym *tap = sym_sub(f->sym, with(f, e, zero(f), f->k), with(f, e, zero(f), zero(f)));
  const Sym *sum = at && tap ? sym_add(f->sym, at, tap) : NULL;
  if (!sum || sym_equal(f->sym, f->facts, sum, e) != SYM_ALWAYS) return false;
  f->out->at[1 + d] = at;
  f->out->tap[d] = tap;
  SymRange range = sym_range(f->sym, f->facts, in_tile(f, tap, zero(f)));
  return grows_by(f, tap, 0) && range.lo >= 0 && range.hi < 2 * im2col_reach(f->out->walk.dims);
}

/* ---- the walk ---- */

static bool number_at(const Finder *f, const Sym *e, const Sym *x, int64_t *out) {
  const Sym *there = with(f, e, x, zero(f));
  return there && sym_is_int(sym_simplify(f->sym, f->facts, there), out);
}

/* The number of pixels from the lowest to the highest coordinate along dim d. */
static const Sym *pixels_along(const Finder *f, int d, int64_t highest) {
  const Im2col *m = &f->out->walk;
  const Sym *last =
      sym_add(f->sym, f->b->sizes[1 + d], sym_int(f->sym, highest - 1 - m->lowest[d]));
  last = sym_floordiv(f->sym, last, sym_int(f->sym, m->step[d]));
  return sym_simplify(f->sym, f->facts, sym_add(f->sym, last, sym_int(f->sym, 1)));
}

/* The coordinate along dim d of pixel number $x; `below` pixels make one step, `n` steps a whole
 * row. */
static const Sym *walked(const Finder *f, int d, const Sym *below, const Sym *n) {
  const Im2col *m = &f->out->walk;
  const Sym *row = sym_mod(f->sym, sym_floordiv(f->sym, f->x, below), n);
  const Sym *e = sym_mul(f->sym, row, sym_int(f->sym, m->step[d]));
  return sym_add(f->sym, e, sym_int(f->sym, m->lowest[d]));
}

static bool is_walked(const Finder *f, int d, const Sym *below, const Sym *n) {
  const Sym *e = n ? walked(f, d, below, n) : NULL;
  return e &&
         sym_simplify(f->sym, f->facts, e) == sym_simplify(f->sym, f->facts, f->out->at[1 + d]);
}

/* All pixels have the same coordinate, as for the taps of a filter that is stored like an image: a
 * walk that wraps immediately. */
static bool find_standstill(Finder *f, int d) {
  Im2col *m = &f->out->walk;
  int64_t size;
  const Sym *lowest = sym_int(f->sym, m->lowest[d]);
  if (sym_simplify(f->sym, f->facts, f->out->at[1 + d]) != lowest) return false;
  if (!sym_is_int(f->b->sizes[1 + d], &size) || size > im2col_reach(m->dims)) return false;
  m->step[d] = 1;
  m->highest[d] = m->lowest[d] - (size - 1);
  return m->highest[d] >= -im2col_reach(m->dims);
}

/* Tries highest coordinates, from the lowest coordinate in steps of the first difference, until one
 * explains all others. Filters leave fewer pixels than the tensor has, so those are tried first. */
static bool find_walk(Finder *f, int d, const Sym **below) {
  Im2col *m = &f->out->walk;
  int64_t reach = im2col_reach(m->dims), second;
  if (!number_at(f, f->out->at[1 + d], zero(f), &m->lowest[d])) return false;
  if (!number_at(f, f->out->at[1 + d], *below, &second)) return false;
  m->step[d] = second - m->lowest[d];
  if (!m->step[d]) return find_standstill(f, d);
  if (m->step[d] < 1 || m->step[d] > IM2COL_STEP || m->lowest[d] < -reach || m->lowest[d] >= reach)
    return false;
  for (int tried = 0; tried < 2 * FARTHEST; tried++) {
    int64_t highest = tried < FARTHEST ? -tried : tried - FARTHEST + 1;
    if (highest < -reach || highest >= reach) continue;
    const Sym *n = pixels_along(f, d, highest);
    if (!is_walked(f, d, *below, n)) continue;
    m->highest[d] = highest;
    *below = sym_mul(f->sym, *below, n);
    return *below != NULL;
  }
  return false;
}

static bool find_walks(Finder *f) {
  const Sym *below = sym_int(f->sym, 1);
  for (int d = f->out->walk.dims - 1; d >= 0; d--)
    if (!split_coord(f, d) || !find_walk(f, d, &below)) return false;
  const Sym *image = sym_floordiv(f->sym, f->x, below);
  f->out->at[0] = f->b->coords[0];
  f->out->count = sym_mul(f->sym, below, f->b->sizes[0]);
  return image && f->out->count &&
         sym_simplify(f->sym, f->facts, image) == sym_simplify(f->sym, f->facts, f->out->at[0]);
}

/* ---- the access ---- */

/* The axis along which the last coordinate moves enumerates channels; the other one, pixels. */
static bool find_axes(Finder *f) {
  int last = f->b->access.memory->type->rank - 1;
  if (f->b->access.tile->rank != 2) return false;
  for (int m = 0; m <= last; m++)
    if (!f->b->coords[m] || !f->b->sizes[m]) return false;
  bool first = sym_contains(f->b->coords[last], access_x(f->sym, 0));
  f->out->channel = first ? 0 : 1;
  f->out->pixel = 1 - f->out->channel;
  f->x = access_x(f->sym, f->out->pixel);
  f->k = access_x(f->sym, f->out->channel);
  f->out->first = f->b->coords[last];
  return !sym_contains(f->out->first, f->x) && !sym_contains(f->b->coords[0], f->k);
}

/* Tiles begin at multiples of their extent along the channels. */
static bool open_tile(Finder *f, const Distribution *d, const int *extent) {
  const MemAccess *a = &f->b->access;
  TileRange range;
  SymFacts *facts = sym_facts_new(d->arena, f->sym, d->facts);
  f->extent = extent[f->out->channel];
  if (!distribute_dim(d, a->op, a->tile->dims[f->out->channel], &range)) return false;
  if (!sym_divides(f->sym, d->facts, f->extent, range.start)) return false;
  f->tile = sym_symbol(f->sym, "$tile", true);
  f->in = sym_symbol(f->sym, "$in", true);
  const Sym *start = sym_mul(f->sym, f->tile, sym_int(f->sym, f->extent));
  sym_assume(facts, sym_lt(f->sym, f->in, sym_int(f->sym, f->extent)));
  if (range.size) sym_assume(facts, sym_lt(f->sym, start, range.size));
  f->facts = facts;
  return true;
}

bool copy_pixels(const Distribution *d, const AccessBounds *b, const int *extent, CopyPixels *out) {
  Finder f = {.sym = d->k->cx->sym, .b = b, .out = out};
  int rank = b->access.memory->type->rank;
  *out = (CopyPixels){.walk = {.dims = rank - 2}};
  bool found = rank >= 3 && rank <= 2 + IM2COL_DIMS && find_axes(&f) && open_tile(&f, d, extent) &&
               grows_by(&f, out->first, 1) && find_walks(&f);
  if (!found) out->walk.dims = 0;
  return found;
}
