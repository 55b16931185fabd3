/* stages_turns.h: where two groups of waves take turns at the products of a loop although no row says so.
 *
 * Waves that run the same program tend to wait for their products at the same time, and then to compute at the same
 * time what follows them, while the matrix units are idle. If the products of an iteration follow each other, a `turns` row
 * lets one group issue them while another computes. */
#ifndef WV_STAGES_TURNS_H
#define WV_STAGES_TURNS_H

#include "transform/stages/stages_plan.h"

/* Adds the row after the loop has been rewritten, if it is worthwhile. */
void stages_add_turns(Kernel *k, const PassCtx *cx, const StagedLoop *l);

#endif
