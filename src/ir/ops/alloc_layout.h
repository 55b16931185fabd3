/* alloc_layout.h: the layout of an allocation.
 *
 *     %s = alloc {memory = [64, 64] d1/64:1 d0/64:64 xor 0x38>>3 : 16 bits} : ...     swizzled
 *     %s = alloc {physical = [64, 64]} : mem<M, K, f16, shared>                       row-major
 *     %s = alloc {physical = [64, 64], ring = 2} : mem<M, K, f16, shared>             two slots
 *
 * All addresses in shared memory are derived from here. */
#ifndef WV_ALLOC_LAYOUT_H
#define WV_ALLOC_LAYOUT_H

#include "ir/ir.h"

/* The layout that addresses are computed from; a ring of several slots has the slot as dim 0.
 * False: its extents are not positive numbers yet. */
bool alloc_layout(const Op *alloc, MemLayout *out);
bool alloc_slot_layout(const Op *alloc, MemLayout *out); /* of one slot: the dims of the type */

int alloc_slots(const Op *alloc); /* 1 without a ring */

/* The extent along dim i that the op itself gives (`physical`, `memory`); NULL: the tile's. */
const Sym *alloc_extent(const Kernel *k, const Op *alloc, int i);

int64_t alloc_bytes(const Op *alloc); /* -1: not a number */
/* Whether two allocations that have addresses share bytes; NULL: not an allocation. */
bool alloc_overlaps(const Op *a, const Op *b);

/* Its address in shared memory: given by `base`, or after `end`, the end of the previous one. */
int64_t alloc_base(const Op *alloc, int64_t end);

/* Where the last allocation of the kernel with a known size ends. */
int64_t alloc_end(const Kernel *k);

/* The bytes of all allocations of the kernel with a known size, except one (NULL: all). */
int64_t alloc_bytes_beside(const Kernel *k, const Op *but);

/* The alignment of its first element in bytes: 16; a layout chosen on purpose begins at bank 0, and
 * a short swizzle at a multiple of its period, because hardware computes it from addresses. */
int alloc_align(const Op *alloc);

/* The least alignment in bytes of what is copied to: wide copies require aligned rows. */
enum { ALLOC_COPY_ALIGN = 128 };

/* What is wrong with `memory` or `ring` of an allocation of this type; NULL: nothing. */
const char *alloc_layout_mistake(const Op *alloc, const Type *type);

#endif
