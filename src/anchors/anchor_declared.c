/* anchor_declared.c: the division of tiles over threads that a kernel's constraints declare
 * (docs/language.md, section 13.3), for kernels whose result depends on it.
 *
 *     workgroup M by 1 on 1; workgroup N by 512 on 0; wave N by 256      threads 64
 *     read [M, N]:  lanes along N, 4 elements each; 2 waves, 256 apart
 *
 * If the kernel reduces, the lanes are along the reduced dim of each reduction, whose vector shape
 * is divided among them. Otherwise a read or write puts the lanes along its dim on workgroup
 * dimension 0 and gives each thread several elements of its contiguous dim. In kernels with
 * matmuls, only the products determine how tiles lie. Where no rule divides a tile over lanes,
 * every lane of a wave holds the same elements. Lanes beyond the end of a tile hold none. A
 * declared wave that is wider than the machine's becomes several machine waves: the upper part of
 * the lane number is the innermost part of the wave number. */
#include <limits.h>

#include "anchors/anchors.h"
#include "ir/attr.h"
#include "ir/layout_links.h"

typedef struct Declared {
  const Distribution *d;
  const Machine *m;
  const HardwareSpec *hardware;
  const Op *op;
} Declared;

static bool known(const Declared *c, const Sym *s, int64_t *out) {
  const Sym *value = s ? distribute_expr(c->d, c->op, s) : NULL;
  return value && sym_is_int(value, out);
}

/* ---- waves ----------------------------------------------------------------------------------- */

int anchor_wave_axis(const Distribution *d, const Sym *dim) {
  int axis = kernel_wave_axis(d->k, dim_base(dim));
  return axis < 3 ? axis : -1;
}

bool anchor_shares_loop(const Distribution *d, const Sym *dim) {
  const Constraint *tile = kernel_wave_tile(d->k, dim_base(dim));
  return tile && tile->kind == CONSTRAINT_tile && anchor_wave_axis(d, dim) >= 0;
}

int anchor_waves_on(const Distribution *d, int axis) {
  const Sym *waves = d->waves[axis] ? distribute_fixed(d, d->waves[axis]) : NULL;
  int64_t n;
  if (!waves || !sym_is_int(waves, &n) || n < 1) return 1;
  return n < INT_MAX ? (int)n : INT_MAX; /* more than any machine has */
}

static int wave_axis(const Declared *c, const Sym *dim) { return anchor_wave_axis(c->d, dim); }
static int waves_on(const Declared *c, int axis) { return anchor_waves_on(c->d, axis); }

static void push_waves(const Declared *c, Layout *l, const Type *t, const int *part) {
  for (int axis = 0; axis < 3; axis++) {
    int dim = -1;
    for (int i = 0; i < t->rank; i++)
      if (wave_axis(c, t->dims[i]) == axis) dim = i;
    if (dim >= 0) layout_push(l, LAYOUT_WAVE, dim, waves_on(c, axis), part[dim]);
    else layout_repeat(l, LAYOUT_WAVE, waves_on(c, axis));
  }
}

/* Lanes beyond those of the machine become waves, inside the declared ones. */
static void fit_lanes(Layout *l, int lanes) {
  Digits wide = l->part[LAYOUT_LANE], outer = l->part[LAYOUT_WAVE];
  l->part[LAYOUT_LANE].n = l->part[LAYOUT_WAVE].n = 0;
  int left = lanes;
  for (int i = 0; i < wide.n; i++) {
    Digit g = wide.at[i];
    int inside = g.radix <= left ? g.radix : left;
    WV_ASSERT(g.radix % inside == 0);
    layout_push(l, LAYOUT_LANE, g.dim, inside, g.stride);
    layout_push(l, LAYOUT_WAVE, g.dim, g.radix / inside, g.stride * inside);
    left = left / inside > 1 ? left / inside : 1;
  }
  for (int i = 0; i < outer.n; i++)
    layout_push(l, LAYOUT_WAVE, outer.at[i].dim, outer.at[i].radix, outer.at[i].stride);
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* How a wave's part of a tile is divided: each thread holds `each` neighbours along dim `vector`,
 * and the threads are spread along dim `lanes`. -1: none. */
typedef struct Division {
  int vector, each, lanes;
} Division;

/* What a wave holds along a dim. */
static int part_of(const Declared *c, const Type *t, const int *extent, int dim) {
  int axis = wave_axis(c, t->dims[dim]);
  return ceil_div(extent[dim], axis < 0 ? 1 : waves_on(c, axis));
}

/* What the threads of a wave hold along a dim before they go round again. */
static int step_along(const Declared *c, Division v, int dim) {
  return (dim == v.vector ? v.each : 1) * (dim == v.lanes ? c->hardware->threads : 1);
}

static Layout divide(const Declared *c, const Type *t, const int *extent, Division v) {
  Layout l = layout_of(t->rank, extent);
  int threads = c->hardware->threads, part[LAYOUT_DIMS];
  for (int i = 0; i < t->rank; i++) part[i] = part_of(c, t, extent, i);
  if (v.vector >= 0) layout_push(&l, LAYOUT_REG, v.vector, v.each, 1);
  if (v.lanes >= 0)
    layout_push(&l, LAYOUT_LANE, v.lanes, threads, v.lanes == v.vector ? v.each : 1);
  else layout_repeat(&l, LAYOUT_LANE, threads);
  for (int i = t->rank - 1; i >= 0; i--) {
    int step = step_along(c, v, i);
    layout_push(&l, LAYOUT_REG, i, ceil_div(part[i], step), step);
  }
  push_waves(c, &l, t, part);
  fit_lanes(&l, c->m ? c->m->lanes : threads);
  layout_normalise(&l);
  return l;
}

static Declared open_declared(const Distribution *d, const Machine *m, const Op *op) {
  return (Declared){d, m, kernel_hardware(d->k), op};
}

Layout anchor_undivided(const Distribution *d, const Machine *m, const Op *op, const Type *t,
                        const int *extent) {
  Declared c = open_declared(d, m, op);
  return divide(&c, t, extent, (Division){-1, 1, -1});
}

/* ---- anchors --------------------------------------------------------------------------------- */

static int64_t vector_shape(const Declared *c, const Sym *dim) {
  const Sym *shape = pairs_get(c->hardware->vector, dim_base(dim));
  int64_t v;
  return shape && known(c, shape, &v) ? v : -1;
}

int64_t anchor_vector_shape(const Distribution *d, const Op *op, const Sym *dim) {
  Declared c = open_declared(d, NULL, op);
  return vector_shape(&c, dim);
}

static const Constraint *group_of(const Declared *c, const Sym *dim) {
  return kernel_constraint(c->d->k, CONSTRAINT_workgroup, dim_base(dim));
}

static const char *shown(const Declared *c, const Sym *dim) {
  return sym_text(c->d->k->cx->diags.arena, dim);
}

/* A wave covers threads * elements per thread along the dim of its lanes. Both can be changed, the
 * latter only where `each` gives it as a whole number. */
static bool report_shape(const Declared *c, const Sym *dim, int64_t v, int64_t covered, int each) {
  Diags *diags = &c->d->k->cx->diags;
  const char *name = shown(c, dim);
  Diag *e = diag_add(diags, DIAG_E0611, c->op->at,
                     "the vector shape %lld of `%s` does not match the extent that the %d threads "
                     "of a wave hold, %lld",
                     (long long)v, name, c->hardware->threads, (long long)covered);
  if (each)
    diag_hint(diags, e, "write `vector_shapes={%s: %lld}`, or `elements_per_thread=%d` here", name,
              (long long)covered, each);
  else diag_hint(diags, e, "write `vector_shapes={%s: %lld}`", name, (long long)covered);
  return false;
}

static bool report_two(const Declared *c, const Sym *one, const Sym *two) {
  Diags *diags = &c->d->k->cx->diags;
  Diag *e =
      diag_add(diags, DIAG_E0611, c->op->at,
               "the lanes of a wave are distributed along two dims of this tile, `%s` and `%s`",
               shown(c, one), shown(c, two));
  return diag_hint(
      diags, e,
      "only one of them may be on workgroup dimension 0: move the other to 1 or 2, or set "
      "its vector shape to 0");
}

static bool report_uneven(const Declared *c, const Sym *dim, int64_t v) {
  Diags *diags = &c->d->k->cx->diags;
  int threads = c->hardware->threads, each = (int)(v / threads) + 1;
  Diag *e =
      diag_add(diags, DIAG_E0611, c->op->at,
               "the vector shape %lld of `%s` is not a multiple of the %d threads of a wave that "
               "reduce it",
               (long long)v, shown(c, dim), threads);
  return diag_hint(
      diags, e,
      "write `vector_shapes={%s: %d}`, %d for each thread: elements beyond the tile are masked",
      shown(c, dim), each * threads, each);
}

bool anchor_report_size(const Kernel *k, const Op *op, int64_t elements) {
  Diag *d = diag_add(&k->cx->diags, DIAG_E0616, op->at,
                     "each thread would hold %lld elements of this tile, more than the limit of %d",
                     (long long)elements, IR_MAX_VEC);
  return diag_hint(&k->cx->diags, d, "divide the tile among more waves, or make it smaller");
}

/* Elements of one thread that a layout can count; lower_threads admits far fewer of those that
 * remain. */
enum { MOST = 1 << 20 };

static bool check_size(const Declared *c, const Type *t, const int *extent, Division v) {
  int64_t n = v.each;
  for (int i = 0; i < t->rank && n <= MOST; i++)
    n *= ceil_div(part_of(c, t, extent, i), step_along(c, v, i));
  return n <= MOST || anchor_report_size(c->d->k, c->op, n);
}

/* What the declaration says one wave covers along a dim must be what its lanes hold, unless it
 * covers the whole extent. */
static bool check_shape(const Declared *c, const Sym *dim, int extent, int64_t covered,
                        bool is_vector) {
  int64_t v = vector_shape(c, dim);
  int axis = wave_axis(c, dim), part = ceil_div(extent, axis < 0 ? 1 : waves_on(c, axis));
  if (v <= 0 || v == covered || (part <= v && part <= covered)) return true;
  int threads = c->hardware->threads;
  return report_shape(c, dim, v, covered, is_vector && v % threads == 0 ? (int)(v / threads) : 0);
}

/* The dim of a thread's neighbouring elements: the last, or an earlier one if all later ones have
 * vector shape 1. */
static int vector_dim(const Declared *c, const Type *t) {
  int at = t->rank - 1;
  while (at > 0 && vector_shape(c, t->dims[at]) == 1) at--;
  return at;
}

/* The dim after `after` along which threads are spread; -1: none. */
static int lanes_dim(const Declared *c, const Type *t, int after) {
  for (int i = after + 1; i < t->rank; i++) {
    const Constraint *group = group_of(c, t->dims[i]);
    if (group && group->workgroup.axis == 0 && vector_shape(c, t->dims[i]) != 0) return i;
  }
  return -1;
}

/* Elements per thread along the vector dim: as the op says, else as many as there are. */
static int elements_of_thread(const Declared *c, const Type *t, const int *extent, int dim,
                              const Attr *given) {
  const Constraint *group = group_of(c, t->dims[dim]);
  int64_t each;
  if (given && known(c, given->sym, &each) && each > 0) return (int)each;
  if (!group || group->workgroup.axis > 2) return 1;
  int threads =
      (group->workgroup.axis == 0 ? c->hardware->threads : 1) * waves_on(c, group->workgroup.axis);
  return ceil_div(extent[dim], threads);
}

bool anchor_declared_access(const Distribution *d, const Machine *m, Op *op, const Type *t,
                            const int *extent, Layout *out) {
  Declared c = open_declared(d, m, op);
  int lanes = lanes_dim(&c, t, -1), vector = vector_dim(&c, t);
  int second = lanes < 0 ? -1 : lanes_dim(&c, t, lanes);
  if (second >= 0) return report_two(&c, t->dims[lanes], t->dims[second]);
  int each = elements_of_thread(&c, t, extent, vector, op_attr(op, ATTR_ept));
  Division v = {vector, each, lanes};
  if (!check_size(&c, t, extent, v)) return false;
  *out = divide(&c, t, extent, v);
  int64_t covered = (int64_t)c.hardware->threads * (lanes == vector ? each : 1);
  return lanes < 0 || check_shape(&c, t->dims[lanes], extent[lanes], covered, lanes == vector);
}

bool anchor_declared_reduction(const Distribution *d, const Machine *m, Op *op, const int *extent,
                               Layout *out) {
  Declared c = open_declared(d, m, op);
  const Type *t = op->args[0]->type;
  const Sym *dim = op_attr(op, ATTR_dim)->sym;
  int along = type_dim(t, dim), threads = c.hardware->threads;
  int part = part_of(&c, t, extent, along);
  int64_t shape = vector_shape(&c, dim);
  if (shape <= 0) shape = (int64_t)ceil_div(part, threads) * threads;
  if (shape / threads > MOST) return anchor_report_size(d->k, op, shape / threads);
  if (shape % threads) return report_uneven(&c, dim, shape);
  Division v = {along, (int)(shape / threads), along};
  if (!check_size(&c, t, extent, v)) return false;
  *out = divide(&c, t, extent, v);
  return true;
}
