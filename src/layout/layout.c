/* layout.c: the mathematics of layout.h, by digits where that is exact and by enumeration where the
 * question is about sets (cover, owners): at most 1024 threads times their registers. */
#include "layout/layout.h"

/* ---- making ---------------------------------------------------------------------------------- */

Layout layout_of(int dims, const int *extent) {
  WV_ASSERT(dims >= 0 && dims <= LAYOUT_DIMS);
  Layout l = {.dims = dims};
  for (int d = 0; d < dims; d++) l.extent[d] = extent[d];
  return l;
}

void layout_push(Layout *l, LayoutPart part, int dim, int radix, int stride) {
  Digits *p = &l->part[part];
  WV_ASSERT(radix >= 1 && stride >= 0 && dim >= 0 && (dim < l->dims || stride == 0));
  if (radix == 1) return;
  WV_ASSERT(p->n < LAYOUT_DIGITS);
  p->at[p->n++] = (Digit){stride ? dim : 0, radix, stride};
}

void layout_repeat(Layout *l, LayoutPart part, int radix) { layout_push(l, part, 0, radix, 0); }

/* ---- reading --------------------------------------------------------------------------------- */

int layout_size(const Layout *l, LayoutPart part) {
  int n = 1;
  for (int i = 0; i < l->part[part].n; i++) n *= l->part[part].at[i].radix;
  return n;
}

int layout_positions(const Layout *l) {
  return layout_size(l, LAYOUT_REG) * layout_size(l, LAYOUT_LANE) * layout_size(l, LAYOUT_WAVE);
}

int layout_elements(const Layout *l) {
  int n = 1;
  for (int d = 0; d < l->dims; d++) n *= l->extent[d];
  return n;
}

int layout_replication(const Layout *l) {
  int n = 1;
  EACH_DIGIT(l, p, d)
    if (d->stride == 0) n *= d->radix;
  return n;
}

int layout_wave_copies(const Layout *l, int waves) {
  const Digits *digits = &l->part[LAYOUT_WAVE];
  int copies = 1;
  for (int i = 0, weight = 1; i < digits->n && weight < waves; weight *= digits->at[i++].radix) {
    int inside = digits->at[i].radix < waves / weight ? digits->at[i].radix : waves / weight;
    if (!digits->at[i].stride) copies *= inside;
  }
  return copies;
}

static void add_digits(const Digits *digits, int number, int coord[LAYOUT_DIMS]) {
  for (int i = 0; i < digits->n; i++) {
    Digit d = digits->at[i];
    coord[d.dim] += number % d.radix * d.stride;
    number /= d.radix;
  }
  WV_ASSERT(number == 0);
}

void layout_at(const Layout *l, int reg, int lane, int wave, int coord[LAYOUT_DIMS]) {
  for (int d = 0; d < LAYOUT_DIMS; d++) coord[d] = 0;
  add_digits(&l->part[LAYOUT_REG], reg, coord);
  add_digits(&l->part[LAYOUT_LANE], lane, coord);
  add_digits(&l->part[LAYOUT_WAVE], wave, coord);
}

int layout_number(const Layout *l, const int coord[LAYOUT_DIMS]) {
  int e = 0;
  for (int d = 0; d < l->dims; d++) {
    if (coord[d] >= l->extent[d]) return -1;
    e = e * l->extent[d] + coord[d];
  }
  return e;
}

/* What each value of a part adds to the coordinates: LAYOUT_DIMS integers each. */
static int (*part_coords(Arena *a, const Layout *l, LayoutPart part))[LAYOUT_DIMS] {
  int n = layout_size(l, part);
  int(*at)[LAYOUT_DIMS] = arena_alloc(a, sizeof *at * (size_t)n);
  for (int i = 0; i < n; i++) add_digits(&l->part[part], i, at[i]);
  return at;
}

const int *layout_table(Arena *a, const Layout *l) {
  int regs = layout_size(l, LAYOUT_REG), lanes = layout_size(l, LAYOUT_LANE);
  int waves = layout_size(l, LAYOUT_WAVE);
  int *table = ARENA_ARRAY(a, int, layout_positions(l)), *to = table;
  ArenaMark mark = arena_mark(a);
  int(*reg)[LAYOUT_DIMS] = part_coords(a, l, LAYOUT_REG);
  int(*lane)[LAYOUT_DIMS] = part_coords(a, l, LAYOUT_LANE);
  int(*wave)[LAYOUT_DIMS] = part_coords(a, l, LAYOUT_WAVE);
  for (int w = 0; w < waves; w++)
    for (int t = 0; t < lanes; t++)
      for (int r = 0; r < regs; r++) {
        int coord[LAYOUT_DIMS];
        for (int d = 0; d < l->dims; d++) coord[d] = reg[r][d] + lane[t][d] + wave[w][d];
        *to++ = layout_number(l, coord);
      }
  arena_rewind(a, mark);
  return table;
}

const int *layout_owners(Arena *a, const Layout *l) {
  int n = layout_elements(l);
  int *owner = ARENA_ARRAY(a, int, n);
  for (int e = 0; e < n; e++) owner[e] = -1;
  ArenaMark mark = arena_mark(a);
  const int *table = layout_table(a, l);
  for (int p = layout_positions(l) - 1; p >= 0; p--)
    if (table[p] >= 0) owner[table[p]] = p;
  arena_rewind(a, mark);
  return owner;
}

LayoutHolder layout_holder_at(const Layout *l, int position) {
  int regs = layout_size(l, LAYOUT_REG), lanes = layout_size(l, LAYOUT_LANE);
  return (LayoutHolder){position % regs, position / regs % lanes, position / regs / lanes};
}

/* ---- checking -------------------------------------------------------------------------------- */

LayoutCover layout_cover(Arena *scratch, const Layout *l) {
  LayoutCover c = {0};
  ArenaMark mark = arena_mark(scratch);
  int elements = layout_elements(l), positions = layout_positions(l);
  const int *table = layout_table(scratch, l);
  int *held = ARENA_ARRAY(scratch, int, elements);
  for (int p = 0; p < positions; p++) {
    if (table[p] < 0) c.over++;
    else held[table[p]]++;
  }
  for (int e = 0; e < elements; e++) {
    if (e == 0 || held[e] < c.least) c.least = held[e];
    if (held[e] > c.most) c.most = held[e];
    c.missing += held[e] == 0;
  }
  c.exact = c.least == c.most && c.most == layout_replication(l);
  arena_rewind(scratch, mark);
  return c;
}

/* Marks what a digit reaches from the coordinates that are held without it. `steps` has room for
 * how many of its steps each coordinate is past one of those; radix: too many. */
static void reach_by_digit(Digit d, int extent, bool *held, int *steps) {
  for (int x = 0; x < extent; x++) {
    int before = x >= d.stride ? steps[x - d.stride] : d.radix;
    steps[x] = held[x] ? 0 : before < d.radix ? before + 1 : d.radix;
    held[x] = steps[x] < d.radix;
  }
}

static bool covers_dim(Arena *scratch, const Layout *l, int dim) {
  int extent = l->extent[dim];
  bool *held = ARENA_ARRAY(scratch, bool, extent + 1);
  int *steps = ARENA_ARRAY(scratch, int, extent + 1);
  held[0] = true;
  EACH_DIGIT(l, p, d)
    if (d->dim == dim && d->stride) reach_by_digit(*d, extent, held, steps);
  for (int x = 0; x < extent; x++)
    if (!held[x]) return false;
  return true;
}

/* Each digit moves along one dim, independently of the others: a tile is covered if each of its
 * dims is. */
bool layout_covers(Arena *scratch, const Layout *l) {
  ArenaMark mark = arena_mark(scratch);
  bool all = true, empty = false;
  for (int d = 0; d < l->dims; d++) empty |= l->extent[d] == 0;
  for (int d = 0; d < l->dims && all && !empty; d++) all = covers_dim(scratch, l, d);
  arena_rewind(scratch, mark);
  return all;
}

static bool continues(Digit a, Digit b) {
  if (a.stride == 0 || b.stride == 0) return a.stride == b.stride;
  return a.dim == b.dim && b.stride == a.stride * a.radix;
}

/* The radix of the first digit is the first value at which the function stops being linear, and so
 * on outwards; this is why the normal form is unique. */
static void normalise_digits(Digits *digits) {
  int n = 0;
  for (int i = 0; i < digits->n; i++) {
    Digit d = digits->at[i];
    if (d.radix == 1) continue;
    if (d.stride == 0) d.dim = 0;
    if (n && continues(digits->at[n - 1], d)) digits->at[n - 1].radix *= d.radix;
    else digits->at[n++] = d;
  }
  digits->n = n;
}

void layout_normalise(Layout *l) {
  for (int p = 0; p < LAYOUT_PARTS; p++) normalise_digits(&l->part[p]);
}

static bool same_digits(const Digits *a, const Digits *b) {
  if (a->n != b->n) return false;
  for (int i = 0; i < a->n; i++) {
    Digit x = a->at[i], y = b->at[i];
    if (x.dim != y.dim || x.radix != y.radix || x.stride != y.stride) return false;
  }
  return true;
}

bool layout_equal(const Layout *a, const Layout *b) {
  Layout x = *a, y = *b;
  layout_normalise(&x);
  layout_normalise(&y);
  if (x.dims != y.dims) return false;
  for (int d = 0; d < x.dims; d++)
    if (x.extent[d] != y.extent[d]) return false;
  for (int p = 0; p < LAYOUT_PARTS; p++)
    if (!same_digits(&x.part[p], &y.part[p])) return false;
  return true;
}

/* ---- changing dims --------------------------------------------------------------------------- */

Layout layout_select(const Layout *l, const int *dims, int n) {
  int to[LAYOUT_DIMS], extent[LAYOUT_DIMS];
  for (int d = 0; d < LAYOUT_DIMS; d++) to[d] = -1;
  for (int i = 0; i < n; i++) {
    WV_ASSERT(dims[i] >= 0 && dims[i] < l->dims && to[dims[i]] < 0);
    to[dims[i]] = i;
    extent[i] = l->extent[dims[i]];
  }
  Layout out = layout_of(n, extent);
  EACH_DIGIT(l, p, d) {
    if (d->stride == 0) layout_repeat(&out, p, d->radix);
    else if (to[d->dim] >= 0) layout_push(&out, p, to[d->dim], d->radix, d->stride);
    else if (p != LAYOUT_REG) layout_repeat(&out, p, d->radix);
  }
  return out;
}

Layout layout_drop(const Layout *l, int dim) {
  int dims[LAYOUT_DIMS], n = 0;
  for (int d = 0; d < l->dims; d++)
    if (d != dim) dims[n++] = d;
  return layout_select(l, dims, n);
}

Layout layout_add(const Layout *l, int at, int extent) {
  WV_ASSERT(l->dims < LAYOUT_DIMS && at >= 0 && at <= l->dims);
  Layout out = *l;
  out.dims++;
  for (int d = l->dims; d > at; d--) out.extent[d] = l->extent[d - 1];
  out.extent[at] = extent;
  for (int p = 0; p < LAYOUT_PARTS; p++)
    for (int i = 0; i < out.part[p].n; i++) {
      Digit *d = &out.part[p].at[i];
      if (d->stride && d->dim >= at) d->dim++;
    }
  layout_push(&out, LAYOUT_REG, at, extent, 1);
  return out;
}

/* ---- vectors --------------------------------------------------------------------------------- */

int layout_run(const Layout *l, int dim) {
  const Digits *reg = &l->part[LAYOUT_REG];
  int run = 1;
  for (int i = 0; i < reg->n; i++) {
    if (reg->at[i].radix == 1) continue;
    if (reg->at[i].dim != dim || reg->at[i].stride != run) break;
    run *= reg->at[i].radix;
  }
  return run;
}

int layout_vector(const Layout *l, int dim, int bits, int bytes) {
  int run = layout_run(l, dim), v = 1;
  while (v * 2 * bits <= bytes * 8 && run % (v * 2) == 0 && l->extent[dim] % (v * 2) == 0) v *= 2;
  EACH_DIGIT(l, p, d) {
    if (d->dim != dim || d->stride == 0 || (p == LAYOUT_REG && d->stride < run)) continue;
    while (d->stride % v) v /= 2;
  }
  return v;
}
