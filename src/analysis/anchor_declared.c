/* anchor_declared.c: the division of tiles over threads that a kernel's constraints declare
 * (language.md 3.5 and 6.4), for kernels whose result depends on it.
 *
 *     workgroup M by 1 on 1; workgroup N by 512 on 0; wave N by 256      threads 64
 *     read [M, N]:  lanes along N, 4 elements each; 2 waves, 256 apart
 *
 * With a reduction in the kernel, the lanes lie along the reduced dim of each, its vector shape
 * divided among them. Otherwise a read or write puts them along its contiguous dim, if that lies on
 * workgroup dimension 0. Where no lane term reaches, every lane of a wave holds the same elements.
 * A declared wave that is wider than the machine's becomes several of the machine's: the upper part
 * of the lane number is the innermost part of the wave number. */
#include "analysis/anchors.h"
#include "ir/attr.h"
#include "ir/layout_links.h"

typedef struct Declared {
  const Distribution *d;
  const Machine *m;
  const Constraint *hardware;
  const Op *op;
} Declared;

static int ceil_div(int64_t a, int64_t b) { return (int)((a + b - 1) / b); }

static bool known(const Declared *c, const Sym *s, int64_t *out) {
  const Sym *value = s ? distribute_expr(c->d, c->op, s) : NULL;
  return value && sym_is_int(value, out);
}

/* ---- waves ----------------------------------------------------------------------------------- */

/* The workgroup dimension whose waves divide `dim`; -1: none. */
static int wave_axis(const Declared *c, const Sym *dim) {
  const Constraint *group = kernel_constraint(c->d->k, CONSTRAINT_workgroup, dim_base(dim));
  bool divided = kernel_constraint(c->d->k, CONSTRAINT_wave, dim_base(dim)) != NULL;
  return divided && group && group->axis < 3 ? group->axis : -1;
}

static int waves_on(const Declared *c, int axis) {
  int64_t n;
  return known(c, c->d->waves[axis], &n) && n > 0 ? (int)n : 1;
}

static void push_waves(const Declared *c, Layout *l, const Type *t, const int *part) {
  for (int axis = 0; axis < 3; axis++) {
    int dim = -1;
    for (int i = 0; i < t->rank; i++)
      if (wave_axis(c, t->dims[i]) == axis) dim = i;
    if (dim >= 0) layout_push(l, LAYOUT_WAVE, dim, waves_on(c, axis), part[dim]);
    else layout_repeat(l, LAYOUT_WAVE, waves_on(c, axis));
  }
}

/* Lanes beyond the machine's become waves, inside the declared ones. */
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

/* Lanes along dim `along`, `each` elements apiece; -1: all lanes hold the same. */
static Layout declared_layout(const Declared *c, const Type *t, const int *extent, int along,
                              int each) {
  Layout l = layout_of(t->rank, extent);
  int threads = c->hardware->threads, part[LAYOUT_DIMS];
  for (int i = 0; i < t->rank; i++) {
    int axis = wave_axis(c, t->dims[i]);
    part[i] = ceil_div(extent[i], axis < 0 ? 1 : waves_on(c, axis));
  }
  if (along >= 0) layout_push(&l, LAYOUT_REG, along, each, 1);
  if (along >= 0) layout_push(&l, LAYOUT_LANE, along, threads, each);
  else layout_repeat(&l, LAYOUT_LANE, threads);
  for (int i = t->rank - 1; i >= 0; i--) {
    int step = i == along ? threads * each : 1;
    layout_push(&l, LAYOUT_REG, i, ceil_div(part[i], step), step);
  }
  push_waves(c, &l, t, part);
  fit_lanes(&l, c->m->lanes);
  layout_normalise(&l);
  return l;
}

static Declared open_declared(const Distribution *d, const Machine *m, const Op *op) {
  return (Declared){d, m, kernel_constraint(d->k, CONSTRAINT_hardware, NULL), op};
}

Layout anchor_undivided(const Distribution *d, const Machine *m, const Op *op, const Type *t,
                        const int *extent) {
  Declared c = open_declared(d, m, op);
  return declared_layout(&c, t, extent, -1, 1);
}

/* ---- anchors --------------------------------------------------------------------------------- */

/* What one instance covers along a dim must be what the lanes hold of it. */
static bool check_shape(const Declared *c, const Sym *dim, int64_t covered) {
  const Sym *shape = pairs_get(c->hardware->pairs, dim_base(dim));
  int64_t v;
  if (!shape || !known(c, shape, &v) || v <= 1 || v == covered) return true;
  Diags *diags = &c->d->k->cx->diags;
  Diag *e = diag_add(diags, DIAG_E0611, c->op->at,
                     "the vector shape %lld of `%s` is not what the "
                     "lanes hold of it, %lld",
                     (long long)v, sym_text(diags->arena, dim), (long long)covered);
  diag_hint(diags, e,
            "it is threads times elements per thread along the dim the lanes lie on, 1 "
            "along others");
  return false;
}

bool anchor_declared_access(const Distribution *d, const Machine *m, Op *op, const Type *t,
                            const int *extent, Layout *out) {
  Declared c = open_declared(d, m, op);
  int last = t->rank - 1, along = -1;
  const Constraint *group = kernel_constraint(d->k, CONSTRAINT_workgroup, dim_base(t->dims[last]));
  const Attr *given = op_attr(op, ATTR_ept);
  int64_t each = 1;
  if (group && group->axis == 0) along = last;
  if (along >= 0 && (!given || !known(&c, given->sym, &each)))
    each = ceil_div(extent[last], (int64_t)c.hardware->threads * waves_on(&c, 0));
  *out = declared_layout(&c, t, extent, along, (int)each);
  return check_shape(&c, t->dims[last], along >= 0 ? each * c.hardware->threads : 1);
}

bool anchor_declared_reduction(const Distribution *d, const Machine *m, Op *op, const int *extent,
                               Layout *out) {
  Declared c = open_declared(d, m, op);
  const Type *t = op->args[0]->type;
  const Sym *dim = op_attr(op, ATTR_dim)->sym;
  const Sym *shape = pairs_get(c.hardware->pairs, dim_base(dim));
  int along = type_dim(t, dim), axis = wave_axis(&c, dim), threads = c.hardware->threads;
  int64_t v;
  if (!shape || !known(&c, shape, &v) || v <= 0)
    v = (int64_t)ceil_div(ceil_div(extent[along], axis < 0 ? 1 : waves_on(&c, axis)), threads) *
        threads;
  *out = declared_layout(&c, t, extent, along, (int)(v / threads ? v / threads : 1));
  return check_shape(&c, dim, v / threads * threads);
}
