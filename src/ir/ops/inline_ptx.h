/* inline_ptx.h: an op whose instructions the author wrote.
 *
 *     %y = inline_ptx "ex2.approx.ftz.f32 $0, $1;" %x, %m {meaning} : tile<M, f32>
 *
 * The text is about one element: $0 is its result, $1, $2, ... those of the operands. With
 * `meaning` the last operand is not one of them: it is the result wherever the text does not run.
 *
 * A text may have several results. Each is an op of its own, with the same text and operands:
 *
 *     %q = inline_ptx "div.s32 $0, $2, $3; rem.s32 $1, $2, $3;" %a, %b {types = "i32 i32", which = 0}
 *     %r = inline_ptx "div.s32 $0, $2, $3; rem.s32 $1, $2, $3;" %a, %b {types = "i32 i32", which = 1}
 *
 * so that passes see ops with one result. The emitter of PTX writes the text once for such ops that
 * follow each other. */
#ifndef WV_INLINE_PTX_H
#define WV_INLINE_PTX_H

#include "ir/ir.h"

/* The number of operands that the text sees. */
static inline int inline_inputs(const Op *op) { return op->nargs - op_has(op, ATTR_meaning); }

/* The same computation in other ops; NULL: only the text defines it. */
static inline Value *inline_meaning(const Op *op) {
  return op_has(op, ATTR_meaning) ? op->args[op->nargs - 1] : NULL;
}

enum { INLINE_RESULTS = 16 };
typedef struct InlineResults {
  DType dtype[INLINE_RESULTS]; /* of $0, $1, ... */
  int n, which;
} InlineResults;

/* False: `types` is not a list of types, or `which` does not name one of them. */
bool inline_results(const Op *op, InlineResults *out);

/* Reports that `who` (a machine, or "the evaluator") does not know what it computes; false. */
bool inline_unknown(Context *cx, const Op *op, const char *who);

#endif
