/* cpu_pool.h: threads that run the workgroups of a launch.
 *
 * The threads belong to the process, are started when they are first needed and wait between
 * launches. A launch takes part itself: with one thread, or for few workgroups, nobody else is
 * woken. Ranges of workgroups are handed out by a counter, large ones first.
 *
 * Threads that launch at the same time (of Python, or of somebody's OpenMP) are processors that are
 * taken: so many fewer helpers work. */
#ifndef WV_CPU_POOL_H
#define WV_CPU_POOL_H

#include <pthread.h>

#include "runtime/cpu_watch.h"

typedef struct CpuPool CpuPool;

/* `threads`: with the caller's; 0: WAVE_NUM_THREADS, else OMP_NUM_THREADS, else as many processors
 * as this process may use. NULL: there is no memory for it. */
CpuPool *cpu_pool_new(int threads);
void cpu_pool_free(CpuPool *p); /* waits for what is running */
int cpu_pool_threads(const CpuPool *p);
/* In the child of a fork, before anything else: threads do not survive it, and what they held does.
 * They are started anew when they are needed. */
void cpu_pool_after_fork(CpuPool *p);

/* CPU_DONE, or why the launch stops (cpu_watch.h): then no further ranges are handed out. */
typedef int CpuRange(const void *args, int64_t first, int64_t last, void *scratch, CpuWatch *watch);

typedef struct CpuTask {
  CpuRange *run;
  const void *args;
  int64_t count;  /* workgroups */
  size_t scratch; /* bytes for each thread, aligned to 64 */
  int waves;      /* threads that run a workgroup together (cpu_together.h); else 1 */
  bool (*interrupted)(void *user); /* asked every few milliseconds by the thread that launches;
                                      true: what has not begun is given up. NULL: nobody asks */
  void *user;
} CpuTask;

enum { CPU_POOL_NO_MEMORY = -1 }; /* for scratch; nothing ran */

/* Returns when all have run, or all that began when one reported an error: the first of these. May
 * be called by several threads at once: one has the pool, the others run theirs alone meanwhile. */
int cpu_pool_run(CpuPool *p, const CpuTask *task);

/* A condition to be waited for by the thread that launched, which asks `interrupted` meanwhile. */
void cpu_patient_init(pthread_cond_t *c);
void cpu_patient_wait(pthread_cond_t *c, pthread_mutex_t *lock, CpuOrders *o);

#endif
