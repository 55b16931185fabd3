/* copy_stage.h: bytes of shared memory through which the copy engine exchanges a tile with a tensor, where
 * lanes hold it in the layout of a matrix instruction. */
#ifndef WV_COPY_STAGE_H
#define WV_COPY_STAGE_H

#include "analysis/access/in_bounds.h"
#include "layout/mem_layout.h"

/* Bytes of the swizzle: eight rows are accessed without conflicts. */
enum { COPY_STAGE_SPAN = 128 };

/* The loop over tiles of the grid; NULL: a workgroup has one tile. */
Op *copy_stage_loop(const Kernel *k);

/* The dim of the tile whose elements are adjacent in the tensor. */
int copy_stage_inner(const AccessBounds *b);

/* Rows of the tensor, in boxes. False: they are not as long as several swizzles. */
bool copy_stage_layout(const AccessBounds *b, const Type *tile, const int *extent, MemLayout *out);

/* Whether the tile of a read is at the same position for another op, and that of all dims of the tensor. */
bool copy_stage_is_there(const Distribution *d, const AccessBounds *b, const Op *other);

/* An allocation for the tile, at the begin of the kernel. */
Value *copy_stage(Kernel *k, Span at, const Type *tile, const MemLayout *m, const char *name);

#endif
