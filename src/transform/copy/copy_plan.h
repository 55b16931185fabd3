/* copy_plan.h: which thread moves which element of a copy.
 *
 * A copy has a layout of its own: vectors along the dim that is contiguous in the argument, as wide
 * as was proved (AccessBounds.run), neighbouring lanes on neighbouring vectors, using all
 * threads. If coordinates come from memory, the layout does not depend on what is proved: the values
 * that they are computed from have it, too. */
#ifndef WV_COPY_PLAN_H
#define WV_COPY_PLAN_H

#include "analysis/access/in_bounds.h"
#include "anchors/anchors.h"

typedef struct CopyPlan {
  Layout layout; /* over the dims of the allocation */
  int width;     /* elements per access to the argument */
  bool exact;    /* each element belongs to one thread, and no register lies past the tile */
} CopyPlan;

/* What a copy moves of its tile: part `at` of `of` along each dim of the allocation (op_parts.h). */
typedef struct CopySlice {
  int at[IR_MAX_RANK], of[IR_MAX_RANK];
} CopySlice;

CopySlice copy_slice(const Op *copy);
int copy_slices(const CopySlice *s); /* how many there are in all */
/* What coordinate x along a dim adds to the offset, before the swizzle. */
int64_t copy_along(const MemLayout *slot, int dim, int x);

/* `b`: bounds of the copy. The layout is that of the whole tile, and slices of it are outer registers.
 * False after reporting a tile without extents. */
bool copy_plan(const Distribution *d, const Machine *m, const AccessBounds *b, CopyPlan *out);
bool copy_plan_slice(const Distribution *d, const Machine *m, const AccessBounds *b,
                     const CopySlice *s, CopyPlan *out);

static inline bool copy_is_in(const Op *copy) { return memory_is_scratch(copy->args[1]); }

/* Loads that end in shared memory: lane i of a wave fills bytes i*`bytes` to (i+1)*`bytes` - 1 of a
 * block, and blocks follow each other, one for each wave in turn. A swizzle is undone on the other
 * side: it determines which bytes a lane loads. */
typedef struct DirectPlan {
  int bytes; /* of a lane; 0: impossible */
  int times; /* blocks of a wave */
  int first; /* elements of the slot before them */
} DirectPlan;

/* slot: the allocation's layout. A slice must be one piece of it. */
DirectPlan copy_direct(const Machine *m, const AccessBounds *b, const MemLayout *slot);
DirectPlan copy_direct_slice(const Machine *m, const AccessBounds *b, const MemLayout *slot,
                             const CopySlice *s);
int copy_direct_most(const Machine *m); /* bytes of the machine's widest such load */
/* Why a direct copy is not made by those; NULL: it is. */
const char *copy_why_not_wider(Arena *a, const Machine *m, const AccessBounds *b,
                               const MemLayout *slot);

/* How many elements of an access also stay contiguous in the allocation. */
int copy_width(const CopyPlan *p, const AccessBounds *b, const MemLayout *m);

#endif
