/* cpu_together.h: workgroups and waves that wait for each other.
 *
 * A waiting thread must not keep the one it waits for from running: each gets a thread of its own,
 * and all exist before the first begins. The pool (cpu_pool.h) has no more threads than there are
 * cores, so it cannot be used here. */
#ifndef WV_CPU_TOGETHER_H
#define WV_CPU_TOGETHER_H

#include "runtime/cpu/cpu_pool.h"

enum { CPU_TOGETHER_MOST = 4096 }; /* threads */

/* As cpu_pool_run, but `run` is called with wave numbers: wave w of workgroup g is g * waves + w,
 * and they share the workgroup's scratch. `groups`: how many run concurrently, all that wait for
 * each other; groups * waves is at most CPU_TOGETHER_MOST. Also CPU_POOL_NO_MEMORY if that many
 * threads cannot be created: nothing has run then. */
int cpu_run_together(const CpuTask *task, int groups);

#endif
