/* anchor_parts.c: which ops of a wave can be divided by their instructions (ir/schedule/op_parts.h). */
#include "anchors/anchors.h"
#include "ir/attr.h"

static int axis_of(const MmaDivision *by, const Sym *dim) {
  const Sym *of[3] = {by->m, by->n, by->k};
  for (int i = 0; i < 3; i++)
    if (dim_base(of[i]) == dim_base(dim)) return i;
  return -1;
}

/* Elements along k that instructions take are in another order: a part must have its own. */
static bool keeps_parts(const MmaDivision *by, int of) {
  int all = by->copies[2] * by->row->k, each = all / of;
  for (int i = 0; by->order && i < all; i++)
    if (mma_order_at(by->order, i) / each != i / each) return false;
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
    return arena_printf(a, "a wave has %d instructions along %s, not a multiple of %d",
                        by.copies[axis], sym_name(dim_base(dim)), of);
  bool shared = mma->mma->shared_lhs || mma->mma->shared_rhs;
  if (shared && axis < 2) return "its instructions read shared memory, and share their sums";
  if (axis == 2 && op_has(op, ATTR_into)) return "waves divide the sum";
  return axis < 2 || keeps_parts(&by, of) ? NULL : "its instructions share what they load";
}

bool anchor_takes_part(const Op *user, const Op *read) {
  return op_is_product(user) && user->parent == read->parent &&
         user->args[product_acc(user)] != &read->results[0];
}

/* Each op that uses a divided tile is divided, too. */
static const char *why_whole_read(const Distribution *d, const Machine *m, Arena *a, const Op *read,
                                  const Sym *dim, int of, const Op **blame) {
  bool any = false;
  for (Op *user = ir_first(d->k); user; user = ir_next(user)) {
    if (!op_takes(user, &read->results[0])) continue;
    *blame = user, any = true;
    if (!anchor_takes_part(user, read)) return "an op that is not divided uses all of it";
    const char *why = why_whole_product(d, m, a, user, dim, of);
    if (why) return why;
  }
  *blame = read;
  return any ? NULL : "no matmul uses it";
}

const char *anchor_whole(const Distribution *d, const Machine *m, Arena *a, Op *op, const Sym *dim,
                         int of, const Op **blame) {
  *blame = op;
  if (op_is_product(op)) return why_whole_product(d, m, a, op, dim, of);
  if (op->kind == OP_read) return why_whole_read(d, m, a, op, dim, of, blame);
  return "only fetches and matmuls have parts";
}
