/* eval_combine.c: reduce and scan with a user-defined function. The initial value is combined with
 * the first element, the result with the second, and so on, for all rows at once. */
#include "backend/eval/eval.h"
#include "ir/ops/combine.h"
#include "ir/ops/reductions.h"

/* The rows of an op, and how far they have been combined. */
typedef struct Combining {
  Eval *ev;
  const Op *op;
  Box rest;    /* without the dimension that is combined along */
  Axis along;  /* that dimension */
  Tile *rows;  /* the elements, with that dimension last */
  Tile *exist; /* truth values of the same shape: which elements exist; NULL: all */
} Combining;

static const Type *type_on(Combining *c, DType dtype) {
  const Sym *dims[EVAL_AXES];
  for (int i = 0; i < c->rest.rank; i++) dims[i] = c->rest.axis[i].dim;
  return type_tile(c->ev->cx, dims, c->rest.rank, dtype);
}

/* A step is evaluated like any op; its operands are numbered after the values of the kernel. */
static void *run_step(void *user, const CombineStep *s, void *const *args) {
  Combining *c = user;
  Eval *ev = c->ev;
  Value operands[STEP_ARGS] = {0}, *list[STEP_ARGS], result = {.type = type_on(c, s->dtype)};
  Attr value = {.key = ATTR_value, .number = s->number};
  if (s->sym) value.sym = s->sym;
  for (int i = 0; i < s->nargs; i++) {
    Tile *t = args[i];
    operands[i] = (Value){.type = type_on(c, t->dtype), .id = ev->k->nvalues + i};
    ev->values[operands[i].id] = (Binding){.tile = t};
    list[i] = &operands[i];
  }
  Op op = {.kind = s->kind, .at = c->op->at, .args = list, .nargs = s->nargs, .results = &result};
  op.nresults = 1;
  if (s->kind == OP_scalar) op.attrs = &value, op.nattrs = 1;
  return op_eval[s->kind].compute(ev, &op, &c->rest);
}

/* Element i of each row of a tile. */
static Tile *column(Combining *c, const Tile *of, int64_t i) {
  Tile *t = tile_new(c->ev, of->dtype, &c->rest);
  EACH_ELEMENT(c->ev, e, 0, box_count(&c->rest)) {
    if (t->f) t->f[e] = of->f[e * c->along.n + i];
    else t->i[e] = of->i[e * c->along.n + i];
  }
  return t;
}

static bool any(const Tile *t) {
  for (int64_t e = 0, n = box_count(&t->box); e < n; e++)
    if (t->i[e]) return true;
  return false;
}

/* `acc` combined with element i of each row; `acc` NULL: element i. */
static Tile *combine_column(Combining *c, Tile *acc, int64_t i) {
  Tile *next = column(c, c->rows, i), *exist = c->exist ? column(c, c->exist, i) : NULL;
  if (!acc) return next;
  if (exist && !any(exist)) return acc;
  next = combine_apply(c->ev->arena, c->op, acc, next, run_step, c);
  EACH_ELEMENT(c->ev, e, 0, next && exist ? box_count(&c->rest) : 0) {
    if (exist->i[e]) continue;
    if (next->f) next->f[e] = acc->f[e];
    else next->i[e] = acc->i[e];
  }
  return next;
}

static void put_column(const Combining *c, Tile *out, const Tile *t, int64_t i) {
  EACH_ELEMENT(c->ev, e, 0, box_count(&c->rest)) {
    if (out->f) out->f[e * c->along.n + i] = t->f[e];
    else out->i[e * c->along.n + i] = t->i[e];
  }
}

/* The whole in the first part. The other parts are empty: their elements have no meaning. */
static Tile *in_first_part(Combining *c, const Tile *whole) {
  Axis parts;
  if (!position_axis(c->ev, op_attr(c->op, ATTR_into)->sym, &parts)) return NULL;
  Box box = box_with(&c->rest, parts);
  Tile *out = tile_new(c->ev, c->rows->dtype, &box);
  c->along = parts;
  if (whole) put_column(c, out, whole, 0);
  return out;
}

static bool open_rows(Combining *c) {
  const Value *exists = reduction_exists(c->op);
  c->rows = reduction_rows(c->ev, c->op, &c->rest, &c->along);
  if (c->rows && exists) c->exist = tile_at(c->ev, exists, &c->rows->box);
  return c->rows && (!exists || c->exist);
}

bool run_combine(Eval *ev, Op *op) {
  Combining c = {.ev = ev, .op = op};
  bool scans = op->kind == OP_scan, parts = op_has(op, ATTR_into);
  Box box;
  if (!open_rows(&c)) return false;
  Tile *acc = parts ? NULL : tile_at(ev, op->args[1], &c.rest), *out = NULL;
  if (!parts && !acc) return false;
  if (scans) out = tile_new(ev, c.rows->dtype, &c.rows->box);
  for (int64_t i = 0, n = axis_count(&c.along); i < n; i++) {
    if (!eval_goes_on(ev, 0) || !(acc = combine_column(&c, acc, i))) return false;
    if (scans) put_column(&c, out, acc, i);
  }
  if (scans && !position_box(ev, op->results[0].type, &box)) return false;
  if (scans) out = tile_on(ev, out, &box);
  else out = parts ? in_first_part(&c, acc) : acc;
  ev->values[op->results[0].id].tile = out;
  return out != NULL;
}
