/* alloc_layout.h: where the elements of an allocation lie.
 *
 *     %s = alloc {memory = [64, 64] d1/64:1 d0/64:64 xor 0x38>>3 : 16 bits} : mem<M, K, f16,
 * shared> %s = alloc {physical = [64, 64]} : mem<M, K, f16, shared>                rows, one by one
 *     %s = alloc {physical = [64, 64], ring = 2} : mem<M, K, f16, shared>      two of them
 *
 * Everything that needs an address in shared memory takes it from here. */
#ifndef WV_ALLOC_LAYOUT_H
#define WV_ALLOC_LAYOUT_H

#include "ir/ir.h"

/* What an address is computed from; a ring of several slots has the slot as dim 0. False: its
 * extents are no positive numbers yet. */
bool alloc_layout(const Op *alloc, MemLayout *out);
bool alloc_slot_layout(const Op *alloc, MemLayout *out); /* of one slot: dims as the type's */

int alloc_slots(const Op *alloc); /* 1 without a ring */

/* The extent along dim i that the op itself gives (`physical`, `memory`); NULL: the tile's. */
const Sym *alloc_extent(const Kernel *k, const Op *alloc, int i);

int64_t alloc_bytes(const Op *alloc); /* -1: not a number */

/* Where it lies in shared memory: where `base` says, or behind `end`, the end of the one before it.
 */
int64_t alloc_base(const Op *alloc, int64_t end);

/* Of all allocations of the kernel whose size is known, without one (NULL: of all). */
int64_t alloc_bytes_beside(const Kernel *k, const Op *but);

/* Bytes its first element must be a multiple of: 16; what was laid out on purpose begins at bank 0,
 * and a short swizzle where its pattern does, because hardware computes it from addresses. */
int alloc_align(const Op *alloc);

/* What is wrong with `memory` or `ring` of an allocation of this type; NULL: nothing. */
const char *alloc_layout_mistake(const Op *alloc, const Type *type);

#endif
