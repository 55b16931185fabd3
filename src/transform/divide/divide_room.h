/* divide_room.h: whether the tiles of a workgroup fit a machine, and what they cost.
 *
 * An estimate from the kernel's tiles is quick and too small: it knows no layouts and no addresses. If
 * it is near the limit, the kernel is lowered, on a copy, and the registers of one lane are counted
 * (live_most). */
#ifndef WV_DIVIDE_ROOM_H
#define WV_DIVIDE_ROOM_H

#include "analysis/analysis.h"
#include "target/target.h"

typedef struct DivideRoom {
  int waves;     /* of the machine, of a workgroup; 0: not known */
  int limit;     /* registers that a thread may have for what a program holds */
  int64_t held;  /* by the tiles of a thread, about */
  int64_t bytes; /* of tiles that are read through shared memory */
  /* Of a launch, in terms of what one workgroup does before it is divided: */
  int64_t multiplied; /* products of elements, whole instructions */
  int64_t moved;      /* bits that are read */
} DivideRoom;

DivideRoom divide_room(const Distribution *d, const TargetInfo *t, Arena *scratch);
/* Of a copy of the kernel in which each workgroup is divided into `parts`. */
DivideRoom divide_room_in_parts(Kernel *copy, const TargetInfo *t, int parts);

/* As far as the estimate can tell. */
bool divide_may_fit(const DivideRoom *r, const TargetInfo *t);
bool divide_surely_fits(const DivideRoom *r, const TargetInfo *t);

typedef struct DivideTrial {
  int registers; /* of a lane, INT32_MAX if a pass fails */
  int looped;    /* of these, in loops that have no others inside */
  int have;      /* registers of a thread, other than usual if waves exchange them */
  bool narrow; /* it multiplies by instructions of one wave, and the machine has those of several */
  const char *full; /* what needs more shared memory than there is; NULL: nothing */
} DivideTrial;

/* Runs the passes after this one on a copy. If `lowered` is not NULL and the kernel fits, *lowered is that copy, and
 * the passes' remarks are kept; otherwise both are discarded. */
DivideTrial divide_trial(const Kernel *k, const TargetInfo *t, Kernel **lowered);
bool divide_trial_fits(const DivideTrial *trial);

#endif
