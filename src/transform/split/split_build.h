/* split_build.h: rows, dimensions and ops that the pass `split` makes. */
#ifndef WV_SPLIT_BUILD_H
#define WV_SPLIT_BUILD_H

#include "ir/ir.h"

Constraint *split_row(Kernel *k, ConstraintKind kind);
/* A dimension of that size, whose name begins with `name` and does not occur in the kernel. */
const Sym *split_dim(Kernel *k, const char *name, const Sym *size);
/* The id of a workgroup along a dimension of the grid. */
const Sym *split_rank(const Kernel *k, int axis);

/* At the end of a region; `type`: of its result, NULL: it has none. */
Op *split_op(Kernel *k, Region *r, OpKind kind, Span at, Value *const *args, int n,
             const Type *type);
Value *split_fill(Kernel *k, Region *r, Span at, const Type *t, int64_t value);
void split_barrier(Kernel *k, Region *r, Span at, const char *who);
Value *split_add(Kernel *k, Region *r, Span at, Value *a, Value *b); /* `a` NULL: it is `b` */

/* A read of `memory` at `first` along its first dimension and the tile's coordinates along the others; and
 * a write there. */
Value *split_read(Kernel *k, Region *r, Span at, Value *memory, const Type *t, const Sym *first);
void split_write(Kernel *k, Region *r, Span at, Value *v, Value *memory, const Sym *first);
Attr split_mapping(Kernel *k, const Value *memory, const Type *t, const Sym *first, bool reads);

#endif
