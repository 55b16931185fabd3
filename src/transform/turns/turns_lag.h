/* turns_lag.h: the barriers of a loop in which two groups of waves take turns by the barrier of the
 * workgroup, on machines that have no other (ir/schedule/turn_ops.h).
 *
 *     turn open                      turn open
 *     for K {                        for K {
 *       barrier workgroup              turn meet
 *       %x = read %s                   turn meet
 *       turn take             =>       %x = read %s
 *       %n = mma %x, ...               turn take
 *       turn pass                      %n = mma %x, ...
 *     }                                turn pass {no_ds_wait}
 *     turn close                     }
 *                                    turn close
 *
 * A barrier at which all waves meet is two, since the groups are one apart. What turns order by
 * themselves needs none: each of them is removed again if the loop can be proved without it
 * (schedule/proof/loop_proof.h). A barrier before which nothing is accessed does not wait for shared memory. */
#ifndef WV_TRANSFORM_TURNS_LAG_H
#define WV_TRANSFORM_TURNS_LAG_H

#include "transform/pass.h"

/* Why the groups of this loop cannot be a barrier apart; NULL: they can. */
const char *turns_lag_refuses(const Op *loop);

/* The loop has its turns, with `open` and `close` beside it. */
void turns_lag(Kernel *k, PassCtx *cx, Op *loop);

#endif
