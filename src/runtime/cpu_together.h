/* cpu_together.h: workgroups and waves that wait for each other.
 *
 * Who waits for another must not keep it from running: each gets a thread of its own, and all are
 * there before the first begins. The pool (cpu_pool.h) has no more threads than there are
 * processors, so it is of no use here. */
#ifndef WV_CPU_TOGETHER_H
#define WV_CPU_TOGETHER_H

#include "runtime/cpu_pool.h"

enum { CPU_TOGETHER_MOST = 1024 }; /* threads */

/* As cpu_pool_run, but `run` is called with numbers of waves: wave w of workgroup g is
 * g * waves + w, and they share the workgroup's scratch. `groups`: of them so many run at once, all
 * that wait for each other; groups * waves is at most CPU_TOGETHER_MOST. CPU_POOL_NO_MEMORY also if
 * there are not so many threads: nothing ran. */
int cpu_run_together(const CpuTask *task, int groups);

#endif
