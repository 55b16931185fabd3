/* stages_depth.h: how many slots rings have: what rows pin, then as many as are useful and fit.
 *
 * Shared memory is divided between the rings of all loops. A ring that no row pins is as long as the
 * others: two workgroups on one SM should still fit, unless the rings would become too short. */
#ifndef WV_STAGES_DEPTH_H
#define WV_STAGES_DEPTH_H

#include "transform/stages/stages_room.h"

typedef struct StagesPlanner {
  Kernel *k;
  Arena *arena;
  const Distribution *d;
  const MemoryUses *m;
  const TargetInfo *target;
  StagesRoom room;
  bool wanted;  /* the header requests stages ... */
  int asked;    /* ... with this many slots; 0: left to the compiler */
  int slots;    /* of rings that no row pins; below 2: their tiles are not prefetched */
  bool single;  /* of these, tiles that wait in registers have one slot, which is free before they
                 * are stored */
  bool *obeyed; /* rows of a schedule, by number; NULL: there are none */
  bool failed;  /* a row cannot be obeyed */
  StagesPlan plan;
} StagesPlanner;

static inline bool staged_is_pinned(const StagedLoop *l) {
  return l->depth || l->rings.n || l->pins.n;
}

static inline bool staged_has_async(const StagedLoop *l) {
  for (int i = 0; i < l->copies.n; i++)
    if (l->copies.at[i].async) return true;
  return false;
}

/* Whether tiles wait in registers, where no row says so. Without asynchronous copies the next tile
 * waits in registers while an iteration is computed, unless that costs waves which would hide the
 * latency as well: *why. A second slot, which saves a barrier, may cost waves, too: then the tile has
 * one, as in a workgroup of one wave. */
bool depth_allows_waiting(StagesPlanner *p, const char **why);

/* Gives all copies their rings, and decides which products are in flight or computed early; *why:
 * why rings have no more slots. False after reporting rows that cannot be obeyed. */
bool depth_choose(StagesPlanner *p, const char **why);

#endif
