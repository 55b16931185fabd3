/* eval_value.c: boxes and tiles. Every op gets its operands through tile_at: by dimension and
 * logical coordinate, in whatever order or range the operand was made. */
#include <string.h>

#include "backend/eval/eval.h"

/* ---- boxes ---- */

int64_t box_count(const Box *b) {
  int64_t n = 1;
  for (int i = 0; i < b->rank; i++) n *= b->axis[i].n;
  return n;
}

int box_find(const Box *b, const Sym *base) {
  for (int i = 0; i < b->rank; i++)
    if (b->axis[i].base == base) return i;
  return -1;
}

static bool box_equal(const Box *a, const Box *b) {
  bool same = a->rank == b->rank;
  for (int i = 0; same && i < a->rank; i++)
    same = a->axis[i].dim == b->axis[i].dim && a->axis[i].lo == b->axis[i].lo &&
           a->axis[i].n == b->axis[i].n;
  return same;
}

bool box_step(const Box *b, int64_t *index) {
  for (int i = b->rank - 1; i >= 0; i--) {
    if (++index[i] < b->axis[i].n) return true;
    index[i] = 0;
  }
  return false;
}

int64_t axis_count(const Axis *a) {
  int64_t n = a->end <= a->lo ? 0 : a->end - a->lo;
  return n < a->n ? n : a->n;
}

bool box_exists(const Box *b, int64_t e) {
  bool exists = true;
  for (int i = b->rank - 1; i >= 0; e /= b->axis[i--].n)
    exists &= e % b->axis[i].n < axis_count(&b->axis[i]);
  return exists;
}

Box box_with(const Box *b, Axis axis) {
  Box r = *b;
  WV_ASSERT(r.rank < EVAL_AXES);
  r.axis[r.rank++] = axis;
  return r;
}

Box box_without(const Box *b, const Sym *dim) {
  Box r = {0};
  for (int i = 0; i < b->rank; i++)
    if (b->axis[i].dim != dim) r.axis[r.rank++] = b->axis[i];
  return r;
}

/* ---- tiles ---- */

Tile *tile_new(Eval *ev, DType dtype, const Box *box) {
  Tile *t = ARENA_NEW(ev->arena, Tile);
  *t = (Tile){.dtype = dtype, .box = *box, .home = ev->arena};
  int64_t n = box_count(box);
  ev->work += n + TILE_WORK;
  if (dtype_is_float(dtype)) t->f = ARENA_ARRAY(ev->arena, double, n);
  else t->i = ARENA_ARRAY(ev->arena, int64_t, n);
  return t;
}

static void copy_elements(Tile *to, const Tile *from) {
  size_t n = (size_t)box_count(&to->box);
  if (to->f && n) memcpy(to->f, from->f, n * sizeof *to->f);
  if (to->i && n) memcpy(to->i, from->i, n * sizeof *to->i);
}

Tile *tile_keep(Eval *ev, Tile *t) {
  if (t->home == ev->arena) return t;
  Tile *copy = tile_new(ev, t->dtype, &t->box);
  copy_elements(copy, t);
  return copy;
}

bool tile_equal(const Tile *a, const Tile *b) {
  if (a == b) return true;
  if (a->dtype != b->dtype || !box_equal(&a->box, &b->box)) return false;
  size_t n = (size_t)box_count(&a->box);
  return n == 0 || (a->f ? memcmp(a->f, b->f, n * sizeof *a->f) == 0
                         : memcmp(a->i, b->i, n * sizeof *a->i) == 0);
}

bool tile_uniform(Eval *ev, const Tile *t, int64_t *out) {
  bool found = false;
  *out = 0;
  if (!t->i) return false;
  EACH_ELEMENT(ev, e, 0, box_count(&t->box)) {
    if (!box_exists(&t->box, e)) continue;
    if (found && t->i[e] != *out) return false;
    *out = t->i[e];
    found = true;
  }
  return true;
}

void tile_round(Eval *ev, Tile *t) {
  int64_t n = box_count(&t->box);
  EACH_ELEMENT(ev, e, 0, t->f && t->dtype != DTYPE_f64 ? n : 0)
    t->f[e] = dtype_round(t->dtype, t->f[e]);
  EACH_ELEMENT(ev, e, 0, t->i ? n : 0) t->i[e] = dtype_wrap(t->dtype, t->i[e]);
}

Tile *tile_convert(Eval *ev, Tile *t, DType dtype) {
  if (t->dtype == dtype) return t;
  Tile *r = tile_new(ev, dtype, &t->box);
  int64_t n = box_count(&t->box);
  EACH_ELEMENT(ev, e, 0, n) {
    if (r->f)
      r->f[e] = t->f ? dtype_round(dtype, t->f[e]) : dtype_round_int(dtype, t->dtype, t->i[e]);
    else if (t->f) r->i[e] = dtype_truncate(dtype, t->f[e]);
    else r->i[e] = dtype_from_int(dtype, t->i[e]);
  }
  return r;
}

/* ---- the same values on another box ---- */

/* Whether `have` covers those of the coordinates in `want` that exist. */
static bool covers(const Axis *have, const Axis *want) {
  int64_t end = want->lo + want->n;
  if (end > have->end) end = have->end;
  return want->lo >= have->lo && end <= have->lo + have->n;
}

/* The axis along which t does not cover the box; -1: none. */
static int uncovered_axis(const Tile *t, const Box *box) {
  for (int i = 0; i < t->box.rank; i++) {
    const Axis *have = &t->box.axis[i];
    int at = box_find(box, have->base);
    if (at < 0) {
      if (have->n != 1) return i;
      continue;
    }
    const Axis *want = &box->axis[at];
    if (have->num * want->den != want->num * have->den || (want->n && !covers(have, want)))
      return i;
  }
  return -1;
}

Tile *tile_on(Eval *ev, Tile *t, const Box *box) {
  if (box_equal(&t->box, box)) return t;
  Tile *r = tile_new(ev, t->dtype, box);
  int64_t from = 0, stride[EVAL_AXES] = {0}, index[EVAL_AXES] = {0}, step = 1;
  int64_t held[EVAL_AXES]; /* from the box's first element on */
  for (int i = 0; i < box->rank; i++) held[i] = INT64_MAX;
  for (int i = t->box.rank - 1; i >= 0; i--) {
    int at = box_find(box, t->box.axis[i].base);
    if (at >= 0) {
      r->box.axis[at].end = t->box.axis[i].end;
      held[at] = t->box.axis[i].lo + t->box.axis[i].n - box->axis[at].lo;
      stride[at] = step;
      from += (box->axis[at].lo - t->box.axis[i].lo) * step;
    }
    step *= t->box.axis[i].n;
  }
  EACH_ELEMENT(ev, to, 0, box_count(box)) {
    int64_t e = from;
    bool exists = true;
    for (int i = 0; i < box->rank; i++) e += index[i] * stride[i], exists &= index[i] < held[i];
    if (t->f) r->f[to] = exists ? t->f[e] : 0;
    else r->i[to] = exists ? t->i[e] : 0;
    box_step(box, index);
  }
  return r;
}

Tile *tile_made(Eval *ev, Tile *t) {
  Box box = t->box;
  bool same = true;
  for (int i = 0; i < box.rank; i++) {
    if (!position_end(ev, &box.axis[i])) return NULL;
    same &= box.axis[i].end == t->box.axis[i].end;
  }
  if (same) return t;
  Tile *r = arena_copy(ev->arena, t, sizeof *t);
  r->box = box;
  return r;
}

/* A pure op outside a loop may have been evaluated for other coordinates than its user needs. Its
 * symbols may have changed since, but it is recomputed with the values it was made with. */
static Tile *recompute(Eval *ev, const Value *v, const Box *box) {
  const Binding *made = &ev->values[v->id];
  Box want = made->tile->box;
  for (int i = 0; i < want.rank; i++) {
    int at = box_find(box, want.axis[i].base);
    if (at >= 0) want.axis[i].lo = box->axis[at].lo, want.axis[i].n = box->axis[at].n;
  }
  int undone = env_back(ev, made->made);
  Tile *t = op_eval[v->def->kind].compute(ev, v->def, &want);
  env_forth(ev, undone);
  return t;
}

static Tile *fail_uncovered(Eval *ev, const Tile *t, int i, const Box *box) {
  const Axis *have = &t->box.axis[i];
  int at = box_find(box, have->base);
  if (at < 0) {
    eval_fail(
        ev, DIAG_E0705,
        "dimension `%s` is lost: the operand has %lld elements along it, and the result lacks it",
        eval_text(ev, have->dim), (long long)have->n);
    return NULL;
  }
  const Axis *want = &box->axis[at];
  eval_fail(ev, DIAG_E0705,
            "the operand holds `%s` from %lld to %lld, but `%s` from %lld to %lld is needed here",
            eval_text(ev, have->dim), (long long)have->lo, (long long)(have->lo + have->n - 1),
            eval_text(ev, want->dim), (long long)want->lo, (long long)(want->lo + want->n - 1));
  eval_hint(ev, "compute the value inside the loop that uses it");
  return NULL;
}

/* A value of one iteration that is used in another one stays as it is: it was made for an iteration
 * that its op names, or a loop carries it and its user acts for an iteration that it names. */
static bool is_of_iteration(const Eval *ev, const Value *v, const Axis *axis) {
  const Attr *named = v->def ? op_attr(v->def, ATTR_iteration) : ev->named;
  for (int i = 0; named && i < named->n; i++)
    if (dim_base(named->pairs[i].key) == axis->base) return true;
  return false;
}

/* t with the coordinates of the box along axis i. */
static Tile *tile_moved(Eval *ev, Tile *t, int i, const Box *box) {
  const Axis *to = &box->axis[box_find(box, t->box.axis[i].base)];
  Tile *moved = arena_copy(ev->arena, t, sizeof *t);
  moved->box.axis[i].lo = to->lo;
  moved->box.axis[i].end = to->end;
  return moved;
}

static Tile *tile_of_iteration(Eval *ev, const Value *v, Tile *t, const Box *box) {
  for (int i = 0; i < t->box.rank; i++) {
    const Axis *have = &t->box.axis[i];
    int at = box_find(box, have->base);
    if (at >= 0 && box->axis[at].lo != have->lo && box->axis[at].n == have->n &&
        is_of_iteration(ev, v, have))
      t = tile_moved(ev, t, i, box);
  }
  return t;
}

Tile *tile_at(Eval *ev, const Value *v, const Box *box) {
  Tile *t = ev->values[v->id].tile;
  WV_ASSERT(t);
  t = tile_of_iteration(ev, v, t, box);
  int bad = uncovered_axis(t, box);
  if (bad >= 0 && v->def && op_eval[v->def->kind].compute) {
    t = recompute(ev, v, box);
    if (!t) return NULL;
    bad = uncovered_axis(t, box);
  }
  return bad < 0 ? tile_on(ev, t, box) : fail_uncovered(ev, t, bad, box);
}
