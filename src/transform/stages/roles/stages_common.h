/* stages_common.h: values that any thread can compute, at any time: from numbers, and from single elements of
 * arguments that the kernel only reads. Service waves compute them themselves. */
#ifndef WV_STAGES_COMMON_H
#define WV_STAGES_COMMON_H

#include "transform/pass.h"

/* By value id. */
const bool *common_values(const Kernel *k, const PassCtx *cx);

#endif
