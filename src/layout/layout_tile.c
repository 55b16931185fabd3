/* layout_tile.c: layouts of a whole tile, from a fragment or for memory accesses.
 *
 *     a fragment                        16x16: reg d0/4:1 | lane d1/16:1 d0/4:4
 *     tiled over 32x16 per wave,        reg d0/4:1 d0/2:16 | lane d1/16:1 d0/4:4 | wave d0/2:32
 *     two waves along d0
 *
 * A blocked layout is found by trying every way of dividing lanes, then waves, over the dims: there
 * are few, and the cost of each (instructions, memory sectors) is simply counted. */
#include "layout/layout.h"

/* ---- fragments ------------------------------------------------------------------------------- */

LayoutTiling layout_tiling(int dims, const int *tile, const int *wave_tile) {
  LayoutTiling t = {0};
  for (int d = 0; d < dims; d++) {
    t.tile[d] = tile[d];
    t.wave_tile[d] = wave_tile ? wave_tile[d] : 0;
    t.copies[d] = t.waves[d] = dims - 1 - d;
  }
  return t;
}

Layout layout_tile(const Layout *fragment, const LayoutTiling *t) {
  Layout l = *fragment;
  int per_wave[LAYOUT_DIMS];
  for (int d = 0; d < l.dims; d++) {
    l.extent[d] = t->tile[d];
    per_wave[d] = t->wave_tile[d] ? t->wave_tile[d] : t->tile[d];
  }
  for (int i = 0; i < l.dims; i++) {
    int d = t->copies[i], step = fragment->extent[d];
    layout_push(&l, LAYOUT_REG, d, ceil_div(per_wave[d], step), step);
  }
  for (int i = 0; i < l.dims; i++) {
    int d = t->waves[i];
    layout_push(&l, LAYOUT_WAVE, d, ceil_div(t->tile[d], per_wave[d]), per_wave[d]);
  }
  return l;
}

/* ---- memory accesses ------------------------------------------------------------------------- */

enum { SECTOR = 32 }; /* bytes per memory transaction */

/* How `units` (lanes or waves) are divided over dims; units left over hold copies. */
typedef struct Split {
  int by[LAYOUT_DIMS];
  int accesses; /* of each unit */
  int weight;   /* of one access: the instruction, its memory sectors, its registers */
} Split;

typedef struct Search {
  const LayoutBlocking *b;
  int vector;             /* elements of an access */
  int steps[LAYOUT_DIMS]; /* accesses along a dim that are still to be divided */
  bool is_lanes;          /* lanes prefer the inner dims, waves the outer ones */
  Split best;             /* accesses 0: none yet */
} Search;

static int64_t cost(const Split *s) { return (int64_t)s->accesses * s->weight; }

static void judge(Search *s, Split *now) {
  int rows = 1, inner = s->b->dims ? s->b->order[0] : 0;
  now->accesses = now->weight = 1;
  for (int d = 0; d < s->b->dims; d++) {
    now->accesses *= ceil_div(s->steps[d], now->by[d]);
    if (d != inner) rows *= now->by[d];
  }
  if (s->is_lanes) {
    int across = s->b->dims ? now->by[inner] : 1;
    now->weight += rows * ceil_div(across * s->vector * s->b->bits, 8 * SECTOR) + s->vector;
  }
  if (!s->best.accesses || cost(now) < cost(&s->best)) s->best = *now;
}

/* Tries every divisor of `units` for the i-th dim, the largest first: among equally good divisions
 * the first dims get as many as they can use. */
static void search(Search *s, Split *now, int i, int units) {
  if (i == s->b->dims) {
    judge(s, now);
    return;
  }
  int d = s->b->order[s->is_lanes ? i : s->b->dims - 1 - i];
  for (int by = units; by >= 1; by--) {
    bool half_idle = by > 1 && by >= 2 * s->steps[d];
    if (units % by || half_idle) continue;
    now->by[d] = by;
    search(s, now, i + 1, units / by);
  }
}

static Split split_lanes(const LayoutBlocking *b, int vector) {
  Search s = {.b = b, .vector = vector, .is_lanes = true};
  Split now = {0};
  for (int d = 0; d < b->dims; d++) s.steps[d] = b->extent[d];
  if (b->dims) s.steps[b->order[0]] /= vector;
  search(&s, &now, 0, b->lanes);
  return s.best;
}

static Split split_waves(const LayoutBlocking *b, int vector, const Split *lanes) {
  Search s = {.b = b, .vector = vector};
  Split now = {0};
  for (int i = 0; i < b->dims; i++) {
    int d = b->order[i], steps = i == 0 ? b->extent[d] / vector : b->extent[d];
    s.steps[d] = ceil_div(steps, lanes->by[d]);
  }
  search(&s, &now, 0, b->waves);
  s.best.weight = lanes->weight;
  return s.best;
}

/* The vector length with the least cost once lanes and waves are divided; wider ones win ties. */
static int best_vector(const LayoutBlocking *b) {
  int inner = b->dims ? b->extent[b->order[0]] : 1, v = 1, best = 1;
  int64_t least = -1;
  while (v * 2 * b->bits <= b->widest * 8 && inner % (v * 2) == 0) v *= 2;
  for (; v >= 1 && (least < 0 || v >= b->least); v /= 2) {
    Split lanes = split_lanes(b, v), waves = split_waves(b, v, &lanes);
    if (least >= 0 && cost(&waves) >= least) continue;
    least = cost(&waves);
    best = v;
  }
  return best;
}

static void push_idle(Layout *l, LayoutPart part, int units, const Split *s) {
  for (int d = 0; d < l->dims; d++) units /= s->by[d];
  layout_repeat(l, part, units);
}

Layout layout_blocked(const LayoutBlocking *b) {
  Layout l = layout_of(b->dims, b->extent);
  int vector = best_vector(b);
  Split lanes = split_lanes(b, vector), waves = split_waves(b, vector, &lanes);
  if (b->dims) layout_push(&l, LAYOUT_REG, b->order[0], vector, 1);
  for (int i = 0; i < b->dims; i++) {
    int d = b->order[i], unit = i == 0 ? vector : 1;
    int copies = ceil_div(b->extent[d], unit * lanes.by[d] * waves.by[d]);
    layout_push(&l, LAYOUT_LANE, d, lanes.by[d], unit);
    layout_push(&l, LAYOUT_REG, d, copies, unit * lanes.by[d]);
    layout_push(&l, LAYOUT_WAVE, d, waves.by[d], unit * lanes.by[d] * copies);
  }
  push_idle(&l, LAYOUT_LANE, b->lanes, &lanes);
  push_idle(&l, LAYOUT_WAVE, b->waves, &waves);
  return l;
}
