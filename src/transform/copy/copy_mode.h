/* copy_mode.h: how a copy between global and shared memory is done.
 *
 *     tma     boxes of a tensor that a copy engine moves on its own (copy_box.h): to shared memory
 *     async   4, 8 or 16 bytes at a time, bypassing registers: each element belongs to one thread,
 *             and as many bytes are proved to be contiguous on both sides
 *     direct  4 or 16 bytes at a time, without registers: lanes fill neighbouring bytes
 *             (copy_direct), only if the kernel requests it
 *     load    loads and stores
 *
 * The first possible one is chosen. The choice is a remark, and so is the reason against the
 * earlier ones. */
#ifndef WV_COPY_MODE_H
#define WV_COPY_MODE_H

#include "analysis/memory_uses.h"
#include "transform/copy/copy_plan.h"
#include "transform/pass.h"

typedef struct CopyModes {
  Kernel *k;
  const Distribution *d;
  const MemoryUses *m;
  const AccessBounds *const *bounds;
  const Machine *machine;
} CopyModes;

/* For a pass that needs DISTRIBUTE, BOUNDS and MEMORY, and a kernel for which a machine was
 * chosen. */
CopyModes copy_modes(Kernel *k, const PassCtx *cx);

/* Sets `mode` of the copy, with a remark. no_box: why it is not tma; NULL: it may be. False after
 * reporting a mistake. */
bool copy_choose_mode(const CopyModes *w, Op *copy, const char *no_box);

/* The remark that a copy is made of boxes, which is not added for one before a loop: if there are no waves
 * that only copy, another mode is chosen for it later. */
void copy_remark_box(const CopyModes *w, const Op *copy);

/* The kernel requests loads that end in shared memory, and the machine has them. */
bool copy_wants_direct(const CopyModes *w);

/* Why a copy is not asynchronous, whatever its width; NULL: it may be. */
const char *copy_why_not_async(const CopyModes *w, const Op *copy, const CopyPlan *plan);

/* The layout of one slot; for an allocation without extents, that of its tile. False: unknown. */
bool copy_slot_layout(const Distribution *d, const Op *alloc, MemLayout *out);

#endif
