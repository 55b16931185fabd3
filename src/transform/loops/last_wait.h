/* last_wait.h: waits for tiles of the next iteration, in the last iteration.
 *
 *     mbar_wait %full, 2*Mod(Min($ARGK + 1, T - 1), 2), ...
 *
 * There is no next tile then, and the wait names the last one, for which the iteration before has waited. The slot of
 * that may be filled again by now, for what follows the loop, and then the wait would not end: a barrier
 * only tells whether the phase that it is in has the given parity. */
#ifndef WV_LAST_WAIT_H
#define WV_LAST_WAIT_H

#include "ir/ir.h"

/* Lets such a wait in the body of a loop happen in all iterations but the last of `trips`. Other waits stay as they
 * are. `around` holds at the loop. */
void last_wait_omit(Kernel *k, const SymFacts *around, const Op *loop, Op *wait, const Sym *trips);

#endif
