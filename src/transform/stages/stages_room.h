/* stages_room.h: what prefetching costs in registers and in waves that run at once.
 *
 * A tile that waits in registers for an iteration hides the latency of its loads. Other waves of the
 * same SIMD hide it, too, and two waves suffice: tiles wait in registers unasked only if a SIMD holds
 * two waves even so, or as many as otherwise. */
#ifndef WV_STAGES_ROOM_H
#define WV_STAGES_ROOM_H

#include "transform/stages/stages_plan.h"

typedef struct StagesRoom {
  const PassCtx *cx;
  const int *live; /* by op id (ir/ops/live.h) */
} StagesRoom;

StagesRoom stages_room(const Kernel *k, const PassCtx *cx);

/* Registers of a thread that a loop needs for all it computes, if operands of products are read at
 * most `steps` steps along K at once; and those that its waiting tiles need. */
int64_t staged_registers(const StagesRoom *r, const StagedLoop *l, int steps);
int64_t staged_waiting(const StagesRoom *r, StagedLoop *l);

/* For how many workgroups of this loop an SM has registers: 2, or 1. */
int stages_residents(const PassCtx *cx, const Op *loop);

/* Registers suffice for two results of l->early at once: the one being processed, and the next. */
bool staged_has_room_early(const StagesRoom *r, const StagedLoop *l);

/* With service waves, registers suffice for the result of l->early and for what the product `late` of the
 * iteration before takes from registers. */
bool staged_has_room_late(const StagesRoom *r, const StagedLoop *l, const Op *late);

/* Registers that a thread may have, so that a workgroup can run. */
int staged_most_registers(const StagesRoom *r);

/* The waves that a SIMD holds if each thread needs that many registers, and each workgroup that many
 * bytes of shared memory; 0: none. */
int staged_waves(const StagesRoom *r, int64_t registers, int64_t bytes);

/* Whether shared memory has room for `more` bytes while a workgroup runs its only loop for one tile of the grid after
 * another: beside the fewest slots with which service waves fill rings. tiles: the loop over them; NULL: there is
 * none yet. */
bool stages_have_room(const PassCtx *cx, const Kernel *k, const Op *tiles, int64_t more);

#endif
