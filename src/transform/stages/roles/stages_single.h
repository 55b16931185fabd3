/* stages_single.h: copies before a loop with service waves (stages_roles.h), which make them as well.
 *
 *     copy %q, %s                    copy %q, %s, %full {mode = tma, role = "load"}
 *     %x = read %s           =>      mbar_wait %full {slot = 0, parity = 0}
 *     for K carry ... { ... }        %x = read %s
 *                                    for K carry ... { ... }
 *
 * The waves that compute then issue no copies, and do not meet at a barrier for the tile, which is on
 * its way together with the first ones of the loop.
 *
 * Inside a loop over tiles of the grid (persist), such a copy is made again and again: the waves that
 * compute arrive on an `empty` barrier after the last op that reads the tile, and slots and phases
 * follow from how often the copy has been made (analysis/runs.h). It has two slots if shared memory
 * has room, so that the next tile arrives while this one is read. */
#ifndef WV_STAGES_SINGLE_H
#define WV_STAGES_SINGLE_H

#include "transform/stages/stages_plan.h"

/* Whether service waves can make this copy by boxes. Needs the plan with roles (`roles_plan`). */
bool single_is_served(const Kernel *k, const PassCtx *cx, const StagesPlan *plan, const Op *copy);

/* Gives all such copies to them, after `roles_open`. */
void single_serve(Kernel *k, const PassCtx *cx, const StagesPlan *plan);

#endif
