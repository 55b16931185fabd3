/* build_arg.c: argmax and argmin, as a reduction of the values and one of their positions.
 *
 *     %m = max %x {dim = N}
 *     %e = eq %x, %m          (or NaN, for floats: the first NaN wins, as it does in max)
 *     %p = select %e, self_index N, 2147483647
 *     %i = min %p {dim = N}   (-1 where nothing exists) */
#include "ir/build/build_state.h"
#include "ir/dtype.h"

typedef struct Arg {
  Builder *b;
  Span at;
  const Attr *attrs; /* of both reductions */
  int nattrs;
  bool failed;
} Arg;

static Value *put(Arg *g, OpKind kind, Value *const *args, int n, const Attr *attrs, int nattrs,
                  const Type *given) {
  Op *op = g->failed ? NULL : build_op(g->b, kind, g->at, args, n, attrs, nattrs, given);
  g->failed |= !op;
  return op ? &op->results[0] : NULL;
}

static Value *one(Arg *g, OpKind kind, Value *a) { return put(g, kind, &a, 1, NULL, 0, NULL); }

static Value *two(Arg *g, OpKind kind, Value *a, Value *b) {
  return put(g, kind, (Value *[]){a, b}, 2, NULL, 0, NULL);
}

static Value *choose(Arg *g, Value *test, Value *yes, Value *no) {
  return put(g, OP_select, (Value *[]){test, yes, no}, 3, NULL, 0, NULL);
}

static Value *number(Arg *g, int64_t v) {
  Attr value = {.key = ATTR_value, .sym = sym_int(g->b->k->cx->sym, v)};
  return put(g, OP_scalar, NULL, 0, &value, 1, type_scalar(g->b->k->cx, DTYPE_i32));
}

static Value *reduce(Arg *g, OpKind kind, Value *v) {
  return put(g, kind, &v, 1, g->attrs, g->nattrs, NULL);
}

/* The index of the first of the best elements along `dim`. */
static Value *index_of(Arg *g, Value *x, Value *best, const Sym *dim) {
  Attr along = {.key = ATTR_dim, .sym = dim};
  const Type *type = type_tile(g->b->k->cx, &dim, 1, DTYPE_i32);
  Value *here = put(g, OP_self_index, NULL, 0, &along, 1, type), *none = number(g, INT32_MAX);
  Value *same = two(g, OP_eq, x, best);
  if (dtype_is_float(x->type->dtype)) same = two(g, OP_or, same, one(g, OP_isnan, x));
  Value *first = reduce(g, OP_min, choose(g, same, here, none));
  return choose(g, two(g, OP_eq, first, none), number(g, -1), first);
}

/* The previous result stays unless this one is better: equal values keep the first index. */
static void go_on(Arg *g, OpKind kind, Value *const *before, Value **out) {
  Value *better = two(g, kind == OP_max ? OP_gt : OP_lt, out[0], before[0]);
  if (!g->failed && dtype_is_float(out[0]->type->dtype)) {
    Value *known = one(g, OP_not, one(g, OP_isnan, before[0]));
    better = two(g, OP_or, better, two(g, OP_and, one(g, OP_isnan, out[0]), known));
  }
  out[0] = choose(g, better, out[0], before[0]);
  out[1] = choose(g, better, out[1], before[1]);
}

bool build_arg(Builder *b, OpKind kind, Span at, Value *const *args, int nargs, const Attr *attrs,
               int nattrs, Value **out) {
  Arg g = {.b = b, .at = at, .attrs = attrs, .nattrs = nattrs};
  const Sym *dim = NULL;
  for (int i = 0; i < nattrs; i++)
    if (attrs[i].key == ATTR_dim) dim = attrs[i].sym;
  if (nargs != 1 && nargs != 3)
    return BUILD_FAIL(b, at, E0309,
                      "`arg%s` takes a value and, optionally, the best value so far and its index",
                      op_info[kind].name);
  out[0] = reduce(&g, kind, args[0]);
  if (g.failed) return false;
  out[1] = index_of(&g, args[0], out[0], dim);
  if (nargs == 3 && !g.failed) go_on(&g, kind, args + 1, out);
  return !g.failed;
}
