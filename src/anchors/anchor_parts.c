/* anchor_parts.c: which ops of a wave can be divided by their instructions (ir/schedule/op_parts.h). */
#include "anchors/anchors.h"
#include "ir/attr.h"
#include "ir/schedule/op_parts.h"

static int axis_of(const MmaDivision *by, const Sym *dim) {
  const Sym *of[3] = {by->m, by->n, by->k};
  for (int i = 0; i < 3; i++)
    if (dim_base(of[i]) == dim_base(dim)) return i;
  return -1;
}

/* Elements that instructions take are in another order: a part must have its own. */
static bool keeps_parts(const MmaDivision *by, int axis, int of) {
  const Digits *order = axis == 2 ? by->order : by->across[axis];
  int step[] = {by->row->m, by->row->n, by->row->k};
  int all = by->copies[axis] * step[axis], each = all / of;
  for (int i = 0; order && i < all; i++)
    if (mma_order_at(order, i) / each != i / each) return false;
  return true;
}

static const char *why_whole_product(const Distribution *d, const Machine *m, Arena *a, Op *op,
                                     const Sym *dim, int of) {
  MmaDivision by;
  const Attr *mma = op_attr(op, ATTR_mma);
  if (!mma || !anchor_mma_division(d, m, a, op, &by)) return "no matrix instruction computes it";
  int axis = axis_of(&by, dim);
  if (axis < 0) return "its instructions do not run along this dimension";
  if (by.copies[axis] % of)
    return arena_printf(a, "a wave has %d instruction%s along %s, not a multiple of %d",
                        by.copies[axis], by.copies[axis] == 1 ? "" : "s", sym_name(dim_base(dim)),
                        of);
  bool shared = mma->mma->shared_lhs || mma->mma->shared_rhs;
  if (shared && axis < 2) return "its instructions read shared memory, and share their sums";
  if (axis == 2 && op_has(op, ATTR_into)) return "waves divide the sum";
  return keeps_parts(&by, axis, of) ? NULL : "its instructions share what they load";
}

static bool have_same_dims(const Type *a, const Type *b) {
  for (int i = 0; i < a->rank; i++)
    if (a->rank != b->rank || dim_base(a->dims[i]) != dim_base(b->dims[i])) return false;
  return true;
}

bool anchor_takes_part(const Op *user, const Op *of) {
  const Value *v = &of->results[0];
  if (user->parent != of->parent) return false;
  if (op_is_product(user)) return user->args[product_acc(user)] != v;
  return parts_keep_positions(user) && user->nresults == 1 &&
         have_same_dims(user->results[0].type, v->type);
}

/* Each op that uses a divided tile is divided, too. */
static const char *why_whole_tile(const Distribution *d, const Machine *m, Arena *a, const Op *op,
                                  const Sym *dim, int of, const Op **blame) {
  bool any = false;
  for (Op *user = ir_first(d->k); user; user = ir_next(user)) {
    if (!op_takes(user, &op->results[0])) continue;
    *blame = user, any = true;
    if (!anchor_takes_part(user, op)) return "an op that is not divided uses all of it";
    const char *why = anchor_whole(d, m, a, user, dim, of, blame);
    if (why) return why;
  }
  *blame = op;
  return any ? NULL : "no matmul uses it";
}

const char *anchor_whole(const Distribution *d, const Machine *m, Arena *a, Op *op, const Sym *dim,
                         int of, const Op **blame) {
  *blame = op;
  if (op_is_product(op)) return why_whole_product(d, m, a, op, dim, of);
  if (!parts_may_be(op)) return "only fetches, matmuls and elementwise ops have parts";
  return why_whole_tile(d, m, a, op, dim, of, blame);
}
