/* eval_access.c: from the elements of a register to offsets in a memory: the rules of
 * docs/language.md, section 6.
 *
 * Every memory coordinate becomes a table over the axes of the box that it depends on: one axis for
 * a plain dimension, the iterators mentioned for a mapping's expression, all axes if it comes from
 * a dynamic value. An element is active when it lies within the sizes of its own dimensions and
 * every memory coordinate lies within the memory. */
#include "backend/eval/eval.h"
#include "ir/ops/access.h"

enum { SYMBOLS_MOST = 64 };

#define NO_VALUE EVAL_NO_VALUE
#define OUTSIDE (EVAL_NO_VALUE + 1) /* of every memory */

/* A coordinate for each element of a box: at[sum of index * stride]; NO_VALUE where it has none. */
typedef struct Coord {
  int64_t *at;
  bool *none; /* which have no value, if any number may be one; NULL: marked by NO_VALUE */
  int64_t stride[EVAL_AXES];
} Coord;

static int64_t coord_index(const Coord *c, const Box *box, const int64_t *index) {
  int64_t e = 0;
  for (int i = 0; i < box->rank; i++) e += index[i] * c->stride[i];
  return e;
}

static int64_t coord_at(const Coord *c, const Box *box, const int64_t *index) {
  return c->at[coord_index(c, box, index)];
}

static bool coord_known(const Coord *c, const Box *box, const int64_t *index) {
  int64_t e = coord_index(c, box, index);
  return c->none ? !c->none[e] : c->at[e] != NO_VALUE;
}

/* ---- coordinates by name ---- */

static Coord coord_constant(Eval *ev, int64_t v) {
  Coord c = {.at = ARENA_NEW(ev->arena, int64_t)};
  c.at[0] = v;
  return c;
}

static Coord coord_axis(Eval *ev, const Box *box, int axis, int64_t origin) {
  const Axis *a = &box->axis[axis];
  Coord c = {.at = ARENA_ARRAY(ev->arena, int64_t, a->n)};
  c.stride[axis] = 1;
  for (int64_t i = 0; i < a->n; i++) c.at[i] = a->lo + i - origin;
  return c;
}

/* The workgroup's position along a dimension, which local coordinates are relative to. */
static bool origin_of(Eval *ev, const Sym *dim, bool local, int64_t *out) {
  Axis here;
  *out = 0;
  if (!local) return true;
  if (!position_axis(ev, dim, &here)) return false;
  *out = here.lo;
  return true;
}

/* A memory dimension without an expression: the register's coordinate along it or, if the register
 * lacks it, the one element at the workgroup's position. */
static bool coord_by_name(Eval *ev, const Access *a, const Sym *dim, Coord *out) {
  Axis here = axis_of(dim);
  int axis = box_find(a->box, here.base);
  int64_t origin;
  if (axis < 0) {
    if (!position_axis(ev, dim, &here)) return false;
    *out = coord_constant(ev, a->local ? 0 : here.lo);
    return true;
  }
  const Axis *x = &a->box->axis[axis];
  if (x->num * here.den != here.num * x->den)
    return eval_fail(ev, DIAG_E0705, "`%s` of the register cannot address `%s` of `%s`",
                     eval_text(ev, x->dim), eval_text(ev, dim), a->memory->name);
  if (!origin_of(ev, dim, a->local, &origin)) return false;
  *out = coord_axis(ev, a->box, axis, origin);
  return true;
}

/* ---- coordinates by expression ---- */

/* The values that iterators and dynamic values take over the box: hole i of an expression. */
typedef struct Inputs {
  int n, iterators; /* dynamic values come after the iterators */
  int *slots;
  Coord *coords;
} Inputs;

static bool open_iterators(Eval *ev, const Access *a, bool local, Inputs *in) {
  int room = a->iterated.n + a->ndynamic;
  *in = (Inputs){.n = a->iterated.n, .iterators = a->iterated.n};
  in->slots = ARENA_ARRAY(ev->arena, int, room);
  in->coords = ARENA_ARRAY(ev->arena, Coord, room);
  for (int i = 0; i < in->n; i++) {
    const Sym *dim = a->iterated.at[i].key;
    in->slots[i] = env_numbered_slot(ev, "$index", i);
    int axis = box_find(a->box, dim_base(dim));
    if (axis >= 0) dim = a->box->axis[axis].dim; /* iterators count in the register's units */
    Access named = *a;
    named.local = local;
    if (!coord_by_name(ev, &named, dim, &in->coords[i])) return false;
  }
  return true;
}

static bool fail_product(Eval *ev, const Sym *s) {
  return eval_fail(ev, DIAG_E0710, "`%s` multiplies values loaded from memory", eval_text(ev, s));
}

/* How large dynamic value `i` may be in magnitude for the expression to be inside any memory. */
static bool reach_of(Eval *ev, const Sym *s, int i, int64_t *out) {
  SymCtx *cx = ev->cx->sym;
  const Sym *limit;
  *out = INT64_MAX;
  for (int nonneg = 0; nonneg < 2; nonneg++) {
    int64_t most = INT64_MAX;
    if (!access_reach(cx, &s, 1, NULL, access_dynamic(cx, i, nonneg), &limit))
      return fail_product(ev, s);
    if (limit && !expr_value(ev, limit, &most)) return false;
    if (most < *out) *out = most;
  }
  return true;
}

static bool is_within(int64_t v, int64_t reach) {
  return reach == INT64_MAX || (v >= -reach && v <= reach);
}

/* The symbols of s that were set to numbers beyond 32 bits. */
static int far_symbols(Eval *ev, const Sym *s, const Sym *out[SYMBOLS_MOST]) {
  int all = sym_free_symbols(s, out, SYMBOLS_MOST), n = 0;
  for (int i = 0; i < all && i < SYMBOLS_MOST; i++) {
    const Slot *slot = &ev->slots.at[env_slot(ev, sym_name(out[i]))];
    if (slot->has_value && !is_within(slot->value, INT32_MAX)) out[n++] = out[i];
  }
  return n;
}

const Sym *expr_kept(Eval *ev, const Sym *s) {
  const Sym *far[SYMBOLS_MOST];
  return access_kept(ev->cx->sym, s, far, far_symbols(ev, s, far));
}

/* Whether the arithmetic of s stays in 64 bits with the values of its symbols. */
static bool symbols_are_near(Eval *ev, const Sym *s, bool *near) {
  const Sym *far[SYMBOLS_MOST], *limit;
  int n = far_symbols(ev, s, far);
  *near = true;
  for (int i = 0; i < n; i++) {
    int64_t most = INT64_MAX;
    if (!access_reach(ev->cx->sym, &s, 1, NULL, far[i], &limit)) return fail_product(ev, s);
    if (limit && !expr_value(ev, limit, &most)) return false;
    *near &= is_within(ev->slots.at[env_slot(ev, sym_name(far[i]))].value, most);
  }
  return true;
}

/* The table of an expression over the axes that its inputs depend on. */
static bool coord_expr(Eval *ev, const Access *a, const Inputs *in, const Sym *s, Coord *out) {
  ExprRun run;
  int64_t *reach = ARENA_ARRAY(ev->arena, int64_t, in->n);
  for (int h = 0; h < in->n; h++) {
    reach[h] = INT64_MAX;
    if (h >= in->iterators && !reach_of(ev, s, h - in->iterators, &reach[h])) return false;
  }
  bool fits;
  if (!symbols_are_near(ev, s, &fits) || !expr_open(ev, s, in->slots, in->n, &run)) return false;
  Box used = *a->box; /* axes that do not matter have one entry */
  for (int i = 0; i < used.rank; i++) {
    bool matters = false;
    for (int h = 0; h < in->n; h++) matters |= run.hole[h] >= 0 && in->coords[h].stride[i] != 0;
    if (!matters && used.axis[i].n > 1) used.axis[i].n = 1;
  }
  *out = (Coord){.at = ARENA_ARRAY(ev->arena, int64_t, box_count(&used))};
  int64_t stride = 1;
  for (int i = used.rank - 1; i >= 0; i--) {
    if (used.axis[i].n == a->box->axis[i].n) out->stride[i] = stride;
    stride *= used.axis[i].n;
  }
  int64_t index[EVAL_AXES] = {0}, e = 0;
  for (bool more = box_count(&used) > 0; more; more = box_step(&used, index)) {
    if (!eval_goes_on(ev, 1)) return false;
    bool known = true, near = fits;
    for (int h = 0; h < in->n; h++) {
      int64_t v = coord_at(&in->coords[h], a->box, index);
      known &= coord_known(&in->coords[h], a->box, index) || run.hole[h] < 0;
      near &= is_within(v, reach[h]) || run.hole[h] < 0;
      expr_put(&run, h, v);
    }
    if (!known) out->at[e] = NO_VALUE;
    else if (!near) out->at[e] = OUTSIDE;
    else if (!expr_point(&run, &out->at[e])) out->at[e] = NO_VALUE;
    else if (out->at[e] == NO_VALUE) out->at[e] = OUTSIDE;
    e++;
  }
  return true;
}

/* ---- dynamic values ---- */

/* The coordinate along one dimension of a dynamic value at which each element looks it up. */
static bool lookup_coord(Eval *ev, const Access *a, const Inputs *iterators, SymPairs where,
                         const Axis *axis, Coord *out) {
  const Sym *expr = access_pair(where, axis->base);
  if (expr) return coord_expr(ev, a, iterators, expr, out);
  int same = box_find(a->box, axis->base);
  if (same >= 0) *out = coord_axis(ev, a->box, same, 0);
  else if (axis->n == 1) *out = coord_constant(ev, axis->lo);
  else
    return eval_fail(ev, DIAG_E0705,
                     "the mapping does not give a coordinate along `%s` for its dynamic value",
                     eval_text(ev, axis->dim));
  return true;
}

static bool coord_dynamic(Eval *ev, const Access *a, const Inputs *iterators, int which,
                          Coord *out) {
  const Tile *t = ev->values[a->dynamic[which]->id].tile;
  if (box_count(&t->box) == 1) {
    *out = coord_constant(ev, t->i[0]);
    out->none = ARENA_NEW(ev->arena, bool);
    return true;
  }
  SymPairs where = {0};
  if (a->mapping && which < a->mapping->ndynamic) where = a->mapping->dynamic[which];
  Coord coords[EVAL_AXES];
  for (int i = 0; i < t->box.rank; i++)
    if (!lookup_coord(ev, a, iterators, where, &t->box.axis[i], &coords[i])) return false;
  *out = (Coord){.at = ARENA_ARRAY(ev->arena, int64_t, box_count(a->box)),
                 .none = ARENA_ARRAY(ev->arena, bool, box_count(a->box))};
  int64_t stride = 1, index[EVAL_AXES] = {0}, e = 0;
  for (int i = a->box->rank - 1; i >= 0; i--) {
    out->stride[i] = stride;
    stride *= a->box->axis[i].n;
  }
  for (bool more = box_count(a->box) > 0; more; more = box_step(a->box, index)) {
    if (!eval_goes_on(ev, 1)) return false;
    int64_t from = 0;
    bool inside = true;
    for (int i = 0; i < t->box.rank; i++) {
      int64_t x = coord_at(&coords[i], a->box, index), lo = t->box.axis[i].lo;
      inside &= x != NO_VALUE && x >= lo && x < lo + t->box.axis[i].n;
      from = from * t->box.axis[i].n + (inside ? x - lo : 0);
    }
    out->none[e] = !inside;
    out->at[e++] = inside ? t->i[from] : 0;
  }
  return true;
}

/* Dynamic values are looked up at logical coordinates, even for scratch memory. */
static bool open_inputs(Eval *ev, const Access *a, Inputs *in) {
  Inputs logical;
  if (!open_iterators(ev, a, a->local, in) || !open_iterators(ev, a, false, &logical)) return false;
  for (int i = 0; i < a->ndynamic; i++) {
    in->slots[in->n] = env_numbered_slot(ev, "$dynamic_val", i);
    if (!coord_dynamic(ev, a, &logical, i, &in->coords[in->n])) return false;
    in->n++;
  }
  return true;
}

/* ---- masks ---- */

/* How many elements of an axis are below its bound: the size of its dimension with the symbols in
 * force, here and where the tile was made, or what the op's `bounds` say. */
static bool active_count(Eval *ev, const Access *a, int axis, int64_t *out) {
  const Attr *bounds = op_attr(a->op, ATTR_bounds);
  const Axis *x = &a->box->axis[axis];
  int64_t bound = INT64_MAX;
  *out = x->n;
  if (!bounds) {
    if (!a->test_extents || x->coordinate) return true;
    if (!expr_extent(ev, x->base, &bound)) return false;
    bound = ceil_div64(bound * x->num, x->den);
    if (a->made && a->made->axis[axis].end < bound) bound = a->made->axis[axis].end;
  }
  for (int i = 0; bounds && i < bounds->n; i++) {
    const SymPair *p = &bounds->pairs[i];
    if (dim_base(p->key) != x->base) continue;
    if (!expr_value(ev, p->value, &bound)) return false;
    if (p->key != x->dim) bound = ceil_div64(bound * x->num, x->den);
  }
  if (bound == INT64_MAX) return true;
  int64_t n = bound - x->lo;
  *out = n < 0 ? 0 : n < x->n ? n : x->n;
  return true;
}

static bool fail_outside(Eval *ev, const Access *a, const int64_t *index, const int64_t *y) {
  int64_t x[EVAL_AXES];
  for (int i = 0; i < a->box->rank; i++) x[i] = a->box->axis[i].lo + index[i];
  return eval_fail(ev, DIAG_E0703, "element %s maps to %s of `%s`, which has shape %s",
                   point_text(ev, x, a->box->rank), point_text(ev, y, a->memory->rank),
                   a->memory->name, point_text(ev, a->memory->size, a->memory->rank));
}

static bool fail_no_value(Eval *ev, const Access *a, const int64_t *index) {
  int64_t x[EVAL_AXES];
  for (int i = 0; i < a->box->rank; i++) x[i] = a->box->axis[i].lo + index[i];
  return eval_fail(ev, DIAG_E0710, "the mapping is undefined at element %s",
                   point_text(ev, x, a->box->rank));
}

/* ---- offsets ---- */

static bool memory_coords(Eval *ev, const Access *a, Coord *out) {
  Inputs in;
  if (!open_inputs(ev, a, &in)) return false;
  for (int i = 0; i < a->memory->rank; i++) {
    const Sym *expr = access_pair(a->coords, a->memory->dims[i]);
    if (expr ? !coord_expr(ev, a, &in, expr, &out[i])
             : !coord_by_name(ev, a, a->memory->dims[i], &out[i]))
      return false;
  }
  return true;
}

static void memory_point(const Access *a, const Coord *coords, const int64_t *index, int64_t e,
                         int64_t *y) {
  for (int i = 0; i < a->memory->rank; i++)
    y[i] = i == a->replaced ? a->replacement->i[e] : coord_at(&coords[i], a->box, index);
}

/* The offset of one active element. `checked`: outside the memory is an error, not a mask. */
static bool element_offset(Eval *ev, const Access *a, const int64_t *y, const int64_t *index,
                           bool checked, int64_t *out) {
  const Memory *m = a->memory;
  int64_t offset = 0;
  bool inside = true;
  for (int i = 0; i < m->rank; i++) {
    if (i != a->replaced && y[i] == NO_VALUE) return fail_no_value(ev, a, index);
    inside &= y[i] >= 0 && y[i] < m->size[i];
    if (inside) offset += y[i] * m->stride[i];
  }
  *out = inside ? offset : EVAL_INACTIVE;
  return inside || !checked || fail_outside(ev, a, index, y);
}

int64_t *access_values(Eval *ev, const Access *a, const Sym *s) {
  Inputs in;
  Coord coord;
  int64_t index[EVAL_AXES] = {0}, e = 0, n = box_count(a->box);
  int64_t *out = ARENA_ARRAY(ev->arena, int64_t, n);
  if (!open_inputs(ev, a, &in) || !coord_expr(ev, a, &in, s, &coord)) return NULL;
  for (bool more = n > 0; more; more = box_step(a->box, index))
    out[e++] = coord_at(&coord, a->box, index);
  return out;
}

int64_t *access_offsets(Eval *ev, const Access *a) {
  Coord coords[IR_MAX_RANK];
  int64_t active[EVAL_AXES], index[EVAL_AXES] = {0}, y[IR_MAX_RANK], e = 0, n = box_count(a->box);
  int64_t *offsets = ARENA_ARRAY(ev->arena, int64_t, n);
  if (n == 0) return offsets;
  if (!memory_coords(ev, a, coords)) return NULL;
  for (int i = 0; i < a->box->rank; i++)
    if (!active_count(ev, a, i, &active[i])) return NULL;
  const Attr *bounds = op_attr(a->op, ATTR_bounds);
  bool checked = bounds && bounds->n == 0 && !a->memory->written;
  bool masks = ev->options && ev->options->check_masks && op_has(a->op, ATTR_mask);
  do {
    if (!eval_goes_on(ev, 1)) return NULL;
    bool on = !ev->beyond || a->local;
    for (int i = 0; i < a->box->rank; i++) on &= index[i] < active[i];
    offsets[e] = EVAL_INACTIVE;
    if (on || masks) memory_point(a, coords, index, e, y);
    if (on && !element_offset(ev, a, y, index, checked, &offsets[e])) return NULL;
    if (masks && !mask_check(ev, a, index, y, offsets[e] != EVAL_INACTIVE)) return NULL;
    e++;
  } while (box_step(a->box, index));
  return offsets;
}
