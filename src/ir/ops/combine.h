/* combine.h: the user-defined function that combines two elements, in `reduce` and `scan`.
 *
 *     %r = reduce %x, %init {combine = [abs $0 : f32, abs $1 : f32, maximum $2 $3 : f32], dim = N}
 *
 * It is an attribute and not a region, so passes that walk regions do not mistake it for code of
 * the kernel. Code that evaluates or lowers the op applies the steps in order, on any number of
 * elements: combine_apply walks them. */
#ifndef WV_COMBINE_H
#define WV_COMBINE_H

#include "ir/ir.h"

static inline bool op_combines(OpKind kind) { return kind == OP_reduce || kind == OP_scan; }

/* Checks that the steps are ops on scalars with matching types; false after reporting at the op. */
bool combine_check(Kernel *k, const Op *op);

/* The steps that the ops of a region compute from its two arguments. False after reporting at the
 * op to blame; `user` is the op that combines, `at` the source location of the returned result. */
bool combine_of_region(Kernel *k, const Op *user, const Region *r, Value *result, Span at,
                       Attr *out);

/* Whether it gives the same bits, whichever of two elements comes first. */
bool combine_is_symmetric(Arena *a, const Op *op);

/* Computes the result of a step from the results of its operands. NULL ends the walk. */
typedef void *CombineFn(void *user, const CombineStep *step, void *const *args);
void *combine_apply(Arena *a, const Op *op, void *first, void *second, CombineFn *fn, void *user);

#endif
