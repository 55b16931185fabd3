/* pipeline_ops.h: ops of a staged loop as they are in another iteration of it. */
#ifndef WV_PIPELINE_OPS_H
#define WV_PIPELINE_OPS_H

#include "transform/pipeline_plan.h"

/* `op` acts for that iteration, whose loop may have fewer. */
void staged_set_iteration(Kernel *k, const StagedLoop *l, Op *op, const Sym *iteration);

/* `op` uses the slot of that iteration, of so many. */
void staged_set_slot(Kernel *k, Op *op, const Sym *iteration, int slots);

/* Attributes of `from` as they are in that iteration, for which `to` acts. */
void staged_take_attrs(Kernel *k, const StagedLoop *l, const Op *from, Op *to,
                       const Sym *iteration);

#endif
