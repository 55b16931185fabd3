/* layout_links.c: the links of each op, and how a layout crosses one (layout_links.h). */
#include "ir/layout_links.h"

#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/reductions.h"

int type_dim(const Type *t, const Sym *dim) {
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] == dim) return i;
  return -1;
}

/* ---- finding --------------------------------------------------------------------------------- */
typedef struct Links {
  Arena *arena;
  Op *op;
  LayoutLinks *out;
} Links;

static void link_values(Links *l, Value *whole, Value *part, int operand, int ratio) {
  if (whole->type->kind != TYPE_tile || part->type->kind != TYPE_tile) return;
  const Attr *into = op_attr(l->op, ATTR_into);
  LayoutLink link = {.whole = whole, .part = part, .user = l->op, .operand = operand};
  link.ratio = ratio, link.group = 1,
  link.into = into && operand < 0 ? into->sym : NULL; /* the result's */
  link.threads = reduction_is_by_thread(l->op);
  if (l->op->kind == OP_repeat) {
    link.along = type_repeated(part->type, whole->type);
    link.repeats = dim_ratio(whole->type->dims[link.along], part->type->dims[link.along]);
  }
  vec_push(l->arena, l->out, link);
}

static void link_operands(Links *l, Value *whole, int from, int to) {
  for (int i = from; i < to; i++) link_values(l, whole, l->op->args[i], i, 1);
}

/* Other operands are like the result, unless they say which elements of the first exist. */
static void link_reduction(Links *l) {
  Op *op = l->op;
  for (int i = 0; i < op->nresults; i++) link_values(l, op->args[0], &op->results[i], -1, 1);
  for (int i = 1; i < op->nargs; i++) {
    bool exists = op->args[i] == reduction_exists(op);
    link_values(l, exists ? op->args[0] : &op->results[0], op->args[i], i, 1);
  }
}

static void link_bitcast(Links *l) {
  Value *from = l->op->args[0], *to = &l->op->results[0];
  BitGroup g = dtype_bit_group(from->type->dtype, to->type->dtype);
  int before = l->out->n;
  link_values(l, from, to, -1, g.to);
  if (l->out->n > before) l->out->at[before].group = g.from;
}

static void link_region(Links *l) {
  Op *op = l->op;
  int first = op_carried(op), axis = op->kind == OP_while ? 1 : 0;
  Op *yield = op->body->last;
  for (int i = 0; i < op->nresults; i++) {
    link_values(l, &op->results[i], op->args[first + i], first + i, 1);
    link_values(l, &op->results[i], op->body->args[axis + i], -1, 1);
    Links inner = {l->arena, yield, l->out};
    link_values(&inner, &op->results[i], yield->args[axis + i], axis + i, 1);
  }
}

static bool has_dims_of(const Type *whole, const Type *part) {
  for (int i = 0; i < part->rank; i++)
    if (type_dim(whole, part->dims[i]) < 0) return false;
  return true;
}

/* What is looked up elsewhere may have any layout; so may a value of which each thread uses its own
 * element. */
static void link_dynamic(Links *l, Value *whole) {
  MemAccess a;
  bool is_access = access_of(l->op, &a), own = op_is_atomic(l->op) && op_has(l->op, ATTR_ept);
  int first = l->op->nargs - a.ndynamic;
  for (int i = 0; is_access && i < a.ndynamic; i++) {
    if (own && !has_dims_of(whole->type, a.dynamic[i]->type)) continue;
    if (access_looks_up_in_place(&a, i)) link_values(l, whole, a.dynamic[i], first + i, 1);
  }
}

static bool is_elementwise(const Op *op) {
  return op->kind == OP_apply_expr || op_is_elementwise(op);
}

void layout_links(Arena *a, Op *op, LayoutLinks *out) {
  Links l = {a, op, out};
  switch (op->kind) {
  case OP_for:
  case OP_while:
  case OP_if: link_region(&l); break;
  case OP_squeeze: /* its dropped dims have one element */
  case OP_sum:
  case OP_prod:
  case OP_max:
  case OP_min:
  case OP_reduce:
  case OP_topk: link_reduction(&l); break;
  case OP_scan:
  case OP_cumsum:
  case OP_broadcast:
  case OP_repeat:
  case OP_permute: link_operands(&l, &op->results[0], 0, op->nargs); break;
  case OP_mma: link_values(&l, &op->results[0], op->args[2], 2, 1); break;
  case OP_scaled_mma: link_values(&l, &op->results[0], op->args[4], 4, 1); break;
  case OP_bitcast: link_bitcast(&l); break;
  case OP_inside:
  case OP_read: link_dynamic(&l, &op->results[0]); break;
  case OP_write: link_dynamic(&l, op->args[0]); break;
#define ATOMIC(op, word, combine) case OP_##op:
#include "ir/ops/atomics.def"
    link_operands(&l, &op->results[0], 0, 1);
    link_operands(&l, &op->results[0], 2, atomic_operands(op->kind));
    link_dynamic(&l, &op->results[0]);
    break;
  case OP_scatter_add: link_values(&l, op->args[0], op->args[1], 1, 1); break;
  case OP_report: link_operands(&l, op->args[0], 2, op->nargs); break;
  default:
    if (is_elementwise(op)) link_operands(&l, &op->results[0], 0, op->nargs);
  }
}

/* ---- crossing -------------------------------------------------------------------------------- */

/* A dim `ratio` times as fine: each register becomes that many neighbours. */
static Layout finer(const Layout *l, int dim, int ratio) {
  Layout out = layout_of(l->dims, l->extent);
  out.extent[dim] *= ratio;
  layout_push(&out, LAYOUT_REG, dim, ratio, 1);
  EACH_DIGIT(l, p, d) {
    bool scaled = d->stride && d->dim == dim;
    layout_push(&out, p, d->dim, d->radix, d->stride * (scaled ? ratio : 1));
  }
  return out;
}

/* The inverse: false if a lane does not hold whole groups of `ratio` neighbours, in order. */
static bool coarser(const Layout *l, int ratio, Layout *out) {
  int last = l->dims - 1;
  if (layout_run(l, last) % ratio || l->extent[last] % ratio) return false;
  *out = layout_of(l->dims, l->extent);
  out->extent[last] /= ratio;
  int left = ratio; /* of the innermost register digits: what the group absorbs */
  for (int p = 0; p < LAYOUT_PARTS; p++)
    for (int i = 0; i < l->part[p].n; i++) {
      Digit d = l->part[p].at[i];
      bool scaled = d.stride && d.dim == last;
      if (scaled && p == LAYOUT_REG && left > 1) {
        int taken = d.radix < left ? d.radix : left;
        if (left % taken || d.radix % taken) return false;
        left /= taken;
        d.radix /= taken;
        d.stride *= taken;
      }
      if (scaled && d.radix > 1 && d.stride % ratio) return false;
      layout_push(out, (LayoutPart)p, d.dim, d.radix, scaled ? d.stride / ratio : d.stride);
    }
  return left == 1;
}

/* Groups of `from` neighbours along the last dim become groups of `to`. */
static bool regrouped(const Layout *l, int from, int to, Layout *out) {
  Layout groups = *l;
  if (from > 1 && !coarser(l, from, &groups)) return false;
  *out = to > 1 ? finer(&groups, l->dims - 1, to) : groups;
  if (from > 1 && to > 1) layout_normalise(out);
  return true;
}

Layout layout_of_groups(const LayoutLink *link, const Layout *whole, int lanes, int waves) {
  LayoutBlocking b = {.dims = whole->dims, .bits = 8, .lanes = lanes, .waves = waves};
  b.widest = b.least = 1;
  for (int i = 0; i < whole->dims; i++) {
    b.extent[i] = whole->extent[i];
    b.order[i] = whole->dims - 1 - i;
  }
  b.extent[whole->dims - 1] /= link->group;
  Layout groups = layout_blocked(&b), out = finer(&groups, whole->dims - 1, link->group);
  layout_normalise(&out);
  return out;
}

/* A digit along the dim that repeats: replication as far as it moves inside a block of `ratio`
 * elements, the rest counts blocks. Registers need no replication. */
static bool push_block(Layout *out, LayoutPart p, Digit d, int ratio, int *inside) {
  int within = d.stride % ratio == 0 ? 1 : ratio % d.stride ? 0 : ratio / d.stride;
  if (within > d.radix) within = d.radix;
  if (!within || d.radix % within || (within < d.radix && d.stride * within % ratio)) return false;
  *inside += (within - 1) * d.stride;
  if (within > 1 && p != LAYOUT_REG) layout_repeat(out, p, within);
  if (d.radix > within) layout_push(out, p, d.dim, d.radix / within, d.stride * within / ratio);
  return *inside < ratio; /* otherwise digits carry from one block into the next */
}

/* The layout of what is repeated along a dim. False if the lanes' elements do not fall into
 * blocks. */
static bool once(const Layout *l, int dim, int ratio, Layout *out) {
  int inside = 0;
  if (l->extent[dim] % ratio) return false;
  *out = layout_of(l->dims, l->extent);
  out->extent[dim] /= ratio;
  EACH_DIGIT(l, p, d) {
    if (!d->stride || d->dim != dim) layout_push(out, p, d->dim, d->radix, d->stride);
    else if (!push_block(out, p, *d, ratio, &inside)) return false;
  }
  layout_normalise(out);
  return true;
}

/* A reduction in parts: each wave along the reduced dim has a part of its own, or each thread. */
static bool layout_of_parts(const LayoutLink *link, const Layout *whole, const int *extent,
                            Layout *out) {
  const Type *from = link->whole->type, *to = link->part->type;
  int into = type_dim(to, link->into), covered = 1;
  *out = layout_of(to->rank, extent);
  EACH_DIGIT(whole, p, g) {
    int dim = g->stride ? type_dim(to, from->dims[g->dim]) : -1;
    if (dim >= 0) {
      if (whole->extent[g->dim] != extent[dim]) return false;
      layout_push(out, p, dim, g->radix, g->stride);
    } else if (g->stride && (p == LAYOUT_WAVE || (link->threads && p == LAYOUT_LANE))) {
      layout_push(out, p, into, g->radix, covered);
      covered *= g->radix;
    } else if (!g->stride || p == LAYOUT_LANE) {
      layout_repeat(out, p, g->radix);
    }
  }
  layout_normalise(out);
  return covered == extent[into];
}

/* The dims of `from`, which has layout `l`, that `to` also has, in its order; -1: an extent
 * differs. */
static int shared_dims(const Type *from, const Layout *l, const Type *to, const int *extent,
                       int dims[LAYOUT_DIMS]) {
  int n = 0;
  for (int i = 0; i < to->rank; i++) {
    int d = type_dim(from, to->dims[i]);
    if (d < 0) continue;
    if (l->extent[d] != extent[i]) return -1;
    dims[n++] = d;
  }
  return n;
}

bool layout_of_part(const LayoutLink *link, const Layout *whole, const int *extent, Layout *out) {
  const Type *from = link->whole->type, *to = link->part->type;
  if (link->repeats) return once(whole, link->along, link->repeats, out);
  if (link->ratio > 1) {
    if (!regrouped(whole, link->group, link->ratio, out)) return false;
    return out->extent[to->rank - 1] == extent[to->rank - 1];
  }
  if (link->into) return layout_of_parts(link, whole, extent, out);
  int shared[LAYOUT_DIMS], n = shared_dims(from, whole, to, extent, shared);
  if (n < 0) return false;
  *out = layout_select(whole, shared, n);
  for (int i = 0; i < to->rank; i++)
    if (type_dim(from, to->dims[i]) < 0) *out = layout_add(out, i, extent[i]);
  layout_normalise(out);
  return true;
}

/* Lanes or waves that hold copies of the part may be spread along a dim that it lacks: each such
 * digit is used if its radix does not exceed what is left of the extent. */
static void spread(Layout *l, LayoutPart part, int dim, int *covered, int extent) {
  Digits *digits = &l->part[part];
  for (int i = 0; i < digits->n; i++) {
    Digit *d = &digits->at[i];
    int rest = (extent + *covered - 1) / *covered;
    if (d->stride || rest < d->radix) continue;
    *d = (Digit){dim, d->radix, *covered};
    *covered *= d->radix;
  }
}

static bool whole_of(const LayoutLink *link, const Layout *part, const int *extent, bool spreads,
                     Layout *out) {
  const Type *from = link->part->type, *to = link->whole->type;
  if (link->ratio > 1) return regrouped(part, link->ratio, link->group, out);
  if (link->repeats) return *out = finer(part, link->along, link->repeats), true;
  int shared[LAYOUT_DIMS], n = shared_dims(from, part, to, extent, shared);
  if (n != from->rank) return false;
  *out = layout_select(part, shared, n);
  for (int i = 0; i < to->rank; i++) {
    if (type_dim(from, to->dims[i]) >= 0) continue;
    int covered = 1;
    *out = layout_add(out, i, 1);
    out->extent[i] = extent[i];
    for (int p = LAYOUT_LANE; spreads && p < LAYOUT_PARTS; p++)
      spread(out, (LayoutPart)p, i, &covered, extent[i]);
    layout_push(out, LAYOUT_REG, i, (extent[i] + covered - 1) / covered, covered);
  }
  layout_normalise(out);
  return true;
}

bool layout_of_whole(const LayoutLink *link, const Layout *part, const int *extent, Layout *out) {
  return whole_of(link, part, extent, true, out);
}

bool layout_of_rows(const LayoutLink *link, const Layout *part, const int *extent, Layout *out) {
  return whole_of(link, part, extent, false, out);
}
