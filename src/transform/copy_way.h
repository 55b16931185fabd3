/* copy_way.h: how a copy between global and shared memory is done.
 *
 *     tma     boxes of a tensor that a copy engine moves by itself (copy_box.h): into shared memory
 *     async   4, 8 or 16 bytes at a time that pass the registers by: each element belongs to one
 *             thread, and as many bytes are proved to lie together on both sides
 *     load    loads and stores
 *
 * The first that can be is chosen. What is chosen is a remark, and so is why nothing before it was.
 */
#ifndef WV_COPY_WAY_H
#define WV_COPY_WAY_H

#include "analysis/copy_plan.h"
#include "analysis/memory_uses.h"
#include "transform/pass.h"

typedef struct CopyWays {
  Kernel *k;
  const Distribution *d;
  const MemoryUses *m;
  const AccessBounds *const *bounds;
  Machine machine;
} CopyWays;

/* Of a pass that needs DISTRIBUTE, BOUNDS and MEMORY, for a kernel that a machine was chosen for.
 */
CopyWays copy_ways(Kernel *k, const PassCtx *cx);

/* Sets `mode` of the copy, and says so. no_box: why it is not tma; NULL: it may be. False after
 * reporting a mistake. */
bool choose_copy_way(const CopyWays *w, Op *copy, const char *no_box);

/* Why a copy is not asynchronous, however wide it is; NULL: it may be. */
const char *why_not_async(const CopyWays *w, const Op *copy, const CopyPlan *plan);

/* Where the elements of one slot lie, those of an allocation without extents as its tile has them.
 * False: nobody knows. */
bool copy_slot_layout(const Distribution *d, const Op *alloc, MemLayout *out);

#endif
