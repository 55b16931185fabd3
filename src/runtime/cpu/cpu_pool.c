/* cpu_pool.c: see cpu_pool.h. */
#define _GNU_SOURCE
#include "runtime/cpu/cpu_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/environment/environment.h"

enum { ALIGN = 64, LARGE_PAGE = 2 << 20, MOST_THREADS = 1024, SPINS = 2000 };

/* What a thread keeps between launches. */
typedef struct Worker {
  CpuPool *pool;
  int number; /* 0: the launching thread */
  pthread_t thread;
  void *scratch;
  size_t scratch_bytes;
} Worker;

struct CpuPool {
  int threads, started; /* including the caller; running workers */
  Worker *worker;
  atomic_int launches;   /* in progress, including those that run alone */
  pthread_mutex_t owner; /* held by the launch that uses the workers */
  pthread_mutex_t lock;
  pthread_cond_t wake, idle;
  bool stop;
  /* The current launch: */
  const CpuTask *task;
  CpuOrders *orders;
  atomic_ulong round; /* incremented by every launch */
  int wanted, inside; /* workers that may join it; workers in it (under `lock`) */
  int64_t grain;
  _Alignas(ALIGN) atomic_llong next; /* the first workgroup that has not been taken */
};

/* ---- how many ---- */

static int usable_cpus(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (int)n : 1;
}

static int threads_wanted(int asked) {
  int64_t n = asked > 0 ? asked : environment_number(VARIABLE_NUM_THREADS, 0);
  const char *omp = getenv("OMP_NUM_THREADS");
  if (n <= 0 && omp) n = atoi(omp);
  if (n <= 0) n = usable_cpus();
  return n > MOST_THREADS ? MOST_THREADS : (int)n;
}

/* ---- work ---- */

/* Packed panels fill it: with huge pages, if the system provides them, they are accessed faster. */
static bool ready_scratch(Worker *w, size_t bytes) {
  if (w->scratch_bytes >= bytes && w->scratch) return true;
  size_t align = bytes > LARGE_PAGE / 2 ? LARGE_PAGE : ALIGN;
  size_t size = (bytes + align) / align * align; /* never 0 */
  free(w->scratch);
  w->scratch = aligned_alloc(align, size);
#ifdef MADV_HUGEPAGE
  if (w->scratch && align == LARGE_PAGE) (void)madvise(w->scratch, size, MADV_HUGEPAGE);
#endif
  w->scratch_bytes = w->scratch ? size : 0;
  return w->scratch != NULL;
}

/* Whether there is a core for this worker besides all threads that launch. */
static bool has_room(CpuPool *p, const Worker *w) {
  return !w->number ||
         w->number + atomic_load_explicit(&p->launches, memory_order_relaxed) <= p->threads;
}

/* Takes ranges until none is left. They get shorter towards the end, so that all threads finish
 * together. */
static void take_ranges(CpuPool *p, Worker *w, const CpuTask *t) {
  CpuWatch watch = {.orders = p->orders, .is_caller = !w->number};
  while (has_room(p, w)) {
    int64_t left = t->count - atomic_load_explicit(&p->next, memory_order_relaxed);
    int64_t n = left / (2 * p->threads);
    if (n < p->grain) n = p->grain;
    int64_t first = atomic_fetch_add_explicit(&p->next, n, memory_order_relaxed);
    if (first >= t->count) return;
    int64_t last = first + n < t->count ? first + n : t->count;
    int why = t->run(t->args, first, last, w->scratch, &watch);
    if (!why) continue;
    cpu_orders_stop(p->orders, why);
    atomic_store(&p->next, t->count);
  }
}

static CpuOrders orders_of(const CpuTask *t) {
  return (CpuOrders){.interrupted = t->interrupted, .user = t->user};
}

static int run_alone(const CpuTask *t, void *scratch) {
  CpuOrders orders = orders_of(t);
  CpuWatch watch = {.alone = 1, .orders = &orders, .is_caller = true};
  return t->run(t->args, 0, t->count, scratch, &watch);
}

/* ---- waiting ---- */

void cpu_patient_init(pthread_cond_t *c) {
  pthread_condattr_t a;
  pthread_condattr_init(&a);
  pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
  pthread_cond_init(c, &a);
  pthread_condattr_destroy(&a);
}

void cpu_patient_wait(pthread_cond_t *c, pthread_mutex_t *lock, CpuOrders *o) {
  enum { PATIENCE = 10 * 1000 * 1000, SECOND = 1000 * 1000 * 1000 }; /* in ns */
  struct timespec until;
  if (!o->interrupted) {
    pthread_cond_wait(c, lock);
    return;
  }
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += PATIENCE;
  if (until.tv_nsec >= SECOND) until.tv_nsec -= SECOND, until.tv_sec++;
  if (pthread_cond_timedwait(c, lock, &until) == 0) return;
  pthread_mutex_unlock(lock);
  cpu_orders_interrupted(o);
  pthread_mutex_lock(lock);
}

/* ---- workers ---- */

/* A launch often follows the previous one immediately: spin for a while before sleeping. */
static unsigned long await_round(CpuPool *p, unsigned long seen) {
  for (int i = 0; i < SPINS; i++)
    if (atomic_load_explicit(&p->round, memory_order_acquire) != seen) break;
  return atomic_load_explicit(&p->round, memory_order_acquire);
}

static void *worker_main(void *user) {
  Worker *w = user;
  CpuPool *p = w->pool;
  unsigned long seen = 0;
  pthread_mutex_lock(&p->lock);
  while (!p->stop) {
    if (p->wanted == 0) {
      pthread_mutex_unlock(&p->lock);
      seen = await_round(p, seen);
      pthread_mutex_lock(&p->lock);
      while (!p->stop && p->wanted == 0) pthread_cond_wait(&p->wake, &p->lock);
      continue;
    }
    const CpuTask *task = p->task;
    p->wanted--;
    p->inside++;
    seen = atomic_load(&p->round);
    pthread_mutex_unlock(&p->lock);
    if (ready_scratch(w, task->scratch)) take_ranges(p, w, task);
    pthread_mutex_lock(&p->lock);
    if (--p->inside == 0) pthread_cond_signal(&p->idle);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

static void start_workers(CpuPool *p, int n) {
  while (p->started < n) {
    Worker *w = &p->worker[p->started];
    w->pool = p;
    w->number = p->started;
    if (pthread_create(&w->thread, NULL, worker_main, w) != 0) return;
    p->started++;
  }
}

/* The caller works too and, when done, cancels the helpers that have not started. */
static int run_together(CpuPool *p, const CpuTask *t, int helpers) {
  int64_t grain = t->count / (64 * p->threads);
  CpuOrders orders = orders_of(t);
  start_workers(p, helpers + 1);
  p->grain = grain > 1 ? grain : 1;
  atomic_store(&p->next, 0);
  pthread_mutex_lock(&p->lock);
  p->task = t;
  p->orders = &orders;
  p->wanted = helpers < p->started - 1 ? helpers : p->started - 1;
  atomic_fetch_add(&p->round, 1);
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
  take_ranges(p, &p->worker[0], t);
  pthread_mutex_lock(&p->lock);
  p->wanted = 0;
  while (p->inside) cpu_patient_wait(&p->idle, &p->lock, &orders);
  p->task = NULL;
  pthread_mutex_unlock(&p->lock);
  return atomic_load(&orders.stop);
}

static int run_owned(CpuPool *p, const CpuTask *t) {
  int64_t helpers = t->count - 1 < p->threads - 1 ? t->count - 1 : p->threads - 1;
  Worker *own = &p->worker[0];
  if (!ready_scratch(own, t->scratch)) return CPU_POOL_NO_MEMORY;
  return helpers ? run_together(p, t, (int)helpers) : run_alone(t, own->scratch);
}

static int run_beside(const CpuTask *t) {
  Worker own = {0};
  if (!ready_scratch(&own, t->scratch)) return CPU_POOL_NO_MEMORY;
  int error = run_alone(t, own.scratch);
  free(own.scratch);
  return error;
}

int cpu_pool_run(CpuPool *p, const CpuTask *t) {
  if (t->count <= 0) return 0;
  bool owned = pthread_mutex_trylock(&p->owner) == 0;
  atomic_fetch_add(&p->launches, 1);
  int error = owned ? run_owned(p, t) : run_beside(t);
  atomic_fetch_sub(&p->launches, 1);
  if (owned) pthread_mutex_unlock(&p->owner);
  return error;
}

/* ---- the pool ---- */

int cpu_pool_threads(const CpuPool *p) { return p->threads; }

static void open_locks(CpuPool *p) {
  pthread_mutex_init(&p->owner, NULL);
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->wake, NULL);
  cpu_patient_init(&p->idle);
}

void cpu_pool_after_fork(CpuPool *p) {
  p->started = 1;
  p->wanted = p->inside = 0;
  atomic_store(&p->launches, 0);
  open_locks(p);
}

CpuPool *cpu_pool_new(int threads) {
  CpuPool *p = aligned_alloc(ALIGN, (sizeof *p + ALIGN - 1) / ALIGN * ALIGN);
  if (!p) return NULL;
  memset(p, 0, sizeof *p);
  p->threads = threads_wanted(threads);
  p->started = 1;
  p->worker = calloc((size_t)p->threads, sizeof *p->worker);
  open_locks(p);
  if (p->worker) return p;
  free(p);
  return NULL;
}

void cpu_pool_free(CpuPool *p) {
  if (!p) return;
  pthread_mutex_lock(&p->owner);
  pthread_mutex_lock(&p->lock);
  p->stop = true;
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
  for (int i = 1; i < p->started; i++) pthread_join(p->worker[i].thread, NULL);
  for (int i = 0; i < p->threads; i++) free(p->worker[i].scratch);
  pthread_mutex_unlock(&p->owner);
  free(p->worker);
  free(p);
}
