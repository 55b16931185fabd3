/* combine.h: the function of an author that brings two elements together, of `reduce` and `scan`.
 *
 *     %r = reduce %x, %init {combine = [abs $0 : f32, abs $1 : f32, maximum $2 $3 : f32], dim = N}
 *
 * It is an attribute and no region: no pass that walks regions takes it for code of the kernel.
 * Whoever evaluates or lowers the op applies the steps in order, on as many elements as it likes:
 * combine_apply walks them. */
#ifndef WV_COMBINE_H
#define WV_COMBINE_H

#include "ir/ir.h"

static inline bool op_combines(OpKind kind) { return kind == OP_reduce || kind == OP_scan; }

/* The steps are ops on scalars that fit each other; false after reporting at the op. */
bool combine_check(Kernel *k, const Op *op);

/* What the ops of a region compute of its two arguments. False after reporting at the op that is to
 * blame; `user` is the op that combines, `at` where the result is returned. */
bool combine_of_region(Kernel *k, const Op *user, const Region *r, Value *result, Span at,
                       Attr *out);

/* It gives the same bits, whichever of two elements comes first. */
bool combine_is_symmetric(Arena *a, const Op *op);

/* Makes what a step gives of what its operands were made. NULL ends the walk. */
typedef void *CombineFn(void *user, const CombineStep *step, void *const *args);
void *combine_apply(Arena *a, const Op *op, void *first, void *second, CombineFn *fn, void *user);

#endif
