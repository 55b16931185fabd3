/* copy_plan.h: which thread moves which element of a copy.
 *
 * A copy has a layout of its own: vectors along the dim that is contiguous in the argument, as wide
 * as was proved (AccessBounds.run), neighbouring lanes on neighbouring vectors, using all
 * threads. */
#ifndef WV_COPY_PLAN_H
#define WV_COPY_PLAN_H

#include "analysis/access/in_bounds.h"
#include "anchors/anchors.h"

typedef struct CopyPlan {
  Layout layout; /* over the dims of the allocation */
  int width;     /* elements per access to the argument */
  bool exact;    /* each element belongs to one thread, and no register lies past the tile */
} CopyPlan;

/* `b`: bounds of the copy. False after reporting a tile without extents. */
bool copy_plan(const Distribution *d, const Machine *m, const AccessBounds *b, CopyPlan *out);

static inline bool copy_is_in(const Op *copy) { return memory_is_scratch(copy->args[1]); }

/* Loads that end in shared memory: lane i of a wave fills bytes i*`bytes` to (i+1)*`bytes` - 1 of a
 * block, and blocks follow each other, one for each wave in turn. A swizzle is undone on the other
 * side: it determines which bytes a lane loads. */
typedef struct DirectPlan {
  int bytes; /* of a lane; 0: impossible */
  int times; /* blocks of a wave */
} DirectPlan;

/* slot: the allocation's layout. */
DirectPlan copy_direct(const Machine *m, const AccessBounds *b, const MemLayout *slot);
int copy_direct_most(const Machine *m); /* bytes of the machine's widest such load */
/* Why a direct copy is not made by those; NULL: it is. */
const char *copy_why_not_wider(Arena *a, const Machine *m, const AccessBounds *b,
                               const MemLayout *slot);

/* How many elements of an access also stay contiguous in the allocation. */
int copy_width(const CopyPlan *p, const AccessBounds *b, const MemLayout *m);

#endif
