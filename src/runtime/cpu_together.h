/* cpu_together.h: workgroups that wait for each other.
 *
 * A workgroup that waits for another must not keep it from running: each gets a thread of its own,
 * and all are there before the first begins. The pool (cpu_pool.h) has no more threads than there
 * are processors, so it is of no use here. */
#ifndef WV_CPU_TOGETHER_H
#define WV_CPU_TOGETHER_H

#include "runtime/cpu_pool.h"

enum { CPU_TOGETHER_MOST = 256 }; /* workgroups */

/* As cpu_pool_run; CPU_POOL_NO_MEMORY also if there are not so many threads: nothing ran. `count`
 * is at most CPU_TOGETHER_MOST. */
int cpu_run_together(const CpuTask *task);

#endif
