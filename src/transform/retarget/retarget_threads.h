/* retarget_threads.h: what differs between threads that hold the same element, in a kernel whose
 * result depends on it.
 *
 *     %s = sum %x {dim = N}           : varying tile<M, f32>     each wave has a part of its own
 *     %o = atomic_add %s, %c {each = wave}                       and adds it */
#ifndef WV_RETARGET_THREADS_H
#define WV_RETARGET_THREADS_H

#include "transform/pass.h"

/* Marks values as `varying`, and records which threads do each atomic. Needs DISTRIBUTE and
 * UNIFORM. */
void retarget_mark_threads(Kernel *k, PassCtx *cx);

#endif
