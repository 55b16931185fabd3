/* cpu_pool.h: threads that run the workgroups of a launch.
 *
 * The threads belong to the process, are started when first needed and wait between launches: first
 * they spin (cpu_spin.h), then they sleep. A launch offers each of them its share of the workgroups
 * (cpu_shares.h); those that do not accept in time are not waited for. The launching thread takes
 * part itself: with one thread, or for few workgroups, no other is woken.
 *
 * Threads that launch at the same time (from Python, or from an OpenMP program) occupy cores: each
 * reduces the number of helpers by one. */
#ifndef WV_CPU_POOL_H
#define WV_CPU_POOL_H

#include <pthread.h>

#include "runtime/cpu/cpu_watch.h"

typedef struct CpuPool CpuPool;

/* `threads`: including the caller; 0: WAVE_NUM_THREADS, else OMP_NUM_THREADS, else cpu_count().
 * NULL: out of memory. */
CpuPool *cpu_pool_new(int threads);
void cpu_pool_free(CpuPool *p); /* waits for running launches */
int cpu_pool_threads(const CpuPool *p);
/* In the child of a fork, before anything else: threads do not survive it, but what they held does.
 * They are restarted when needed. */
void cpu_pool_after_fork(CpuPool *p);

/* The pool that all devices of the process share; it is freed with the last of them. NULL: out of
 * memory. */
CpuPool *cpu_pool_take(void);
void cpu_pool_give_back(void);

/* CPU_DONE, or why the launch stops (cpu_watch.h): no further ranges are handed out then. */
typedef int CpuRange(const void *args, int64_t first, int64_t last, void *scratch, CpuWatch *watch);

typedef struct CpuTask {
  CpuRange *run;
  const void *args;
  int64_t count;  /* workgroups */
  size_t scratch; /* bytes per thread, aligned to 64 */
  int waves;      /* threads that run a workgroup together (cpu_together.h); else 1 */
  bool (*interrupted)(void *user); /* called every few milliseconds by the launching thread; true:
                                    * what has not begun is abandoned. NULL: none */
  void *user;
} CpuTask;

enum { CPU_POOL_NO_MEMORY = -1 }; /* for scratch; nothing ran */

/* Returns when all have run, or, after an error, all that had begun: the first error. May be called
 * by several threads at once: one gets the pool, the others run their workgroups alone. */
int cpu_pool_run(CpuPool *p, const CpuTask *task);

/* A condition on which the launching thread waits while it calls `interrupted`. */
void cpu_patient_init(pthread_cond_t *c);
void cpu_patient_wait(pthread_cond_t *c, pthread_mutex_t *lock, CpuOrders *o);

#endif
