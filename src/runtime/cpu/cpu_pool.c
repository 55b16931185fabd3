/* cpu_pool.c: see cpu_pool.h. */
#define _GNU_SOURCE
#include "runtime/cpu/cpu_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/environment/environment.h"
#include "runtime/cpu/cpu_count.h"
#include "runtime/cpu/cpu_shares.h"
#include "runtime/cpu/cpu_spin.h"

enum { ALIGN = 64, LARGE_PAGE = 2 << 20, MOST_THREADS = 1024 };

/* Whether a worker takes part in a launch. Threads change it by compare and exchange: an offer is
 * either accepted or withdrawn. */
typedef enum WorkerState {
  WORKER_RESTS,   /* it spins, waiting for an offer */
  WORKER_SLEEPS,  /* it waits on its condition */
  WORKER_CALLED,  /* it has an offer, but sleeps */
  WORKER_OFFERED, /* it has an offer: it accepts, or the launching thread withdraws it */
  WORKER_RUNS,
  WORKER_WATCHED, /* it runs, and the launching thread waits on its condition */
  WORKER_LEAVES
} WorkerState;

/* What a thread keeps between launches. Spinning threads read `state`: a cache line of its own. */
typedef struct Worker {
  _Alignas(ALIGN) atomic_int state;
  CpuShare share;
  _Alignas(ALIGN) CpuPool *pool;
  int number; /* 0: the launching thread */
  pthread_t thread;
  pthread_mutex_t lock; /* for changes of `state` that end a wait on `changed` */
  pthread_cond_t changed;
  void *scratch;
  size_t scratch_bytes;
} Worker;

struct CpuPool {
  int threads, started; /* including the caller; running workers */
  double spin;          /* seconds until a waiting thread sleeps */
  Worker *worker;
  pthread_mutex_t owner; /* held by the launch that uses the workers */
  /* The current launch: */
  const CpuTask *task;
  CpuOrders *orders;
  CpuShares shares;
  _Alignas(ALIGN) atomic_int launches; /* in progress, including those that run alone */
  _Alignas(ALIGN) atomic_int to_wake;  /* the next worker that may sleep */
};

/* ---- how many ---- */

static int threads_wanted(int asked) {
  int64_t n = asked > 0 ? asked : environment_number(VARIABLE_NUM_THREADS, 0);
  const char *omp = getenv("OMP_NUM_THREADS");
  if (n <= 0 && omp) n = atoi(omp);
  if (n <= 0) n = cpu_count();
  return n > MOST_THREADS ? MOST_THREADS : (int)n;
}

/* With more threads than cores, a thread that spins may keep another one from running. */
static double spin_seconds(int threads) {
  enum { USUAL = 1000 };
  return threads > cpu_count() ? 0 : 1e-6 * (double)environment_number(VARIABLE_SPIN_US, USUAL);
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

/* Wakes the next worker that has an offer and sleeps. Every thread that takes part does so, so that
 * their number doubles in the time it takes to wake one. */
static void wake_another(CpuPool *p) {
  int called = WORKER_CALLED;
  while (atomic_load_explicit(&p->to_wake, memory_order_relaxed) < p->shares.threads) {
    int i = atomic_fetch_add_explicit(&p->to_wake, 1, memory_order_relaxed);
    if (i >= p->shares.threads) return;
    Worker *w = &p->worker[i];
    if (atomic_load(&w->state) != WORKER_CALLED) continue;
    pthread_mutex_lock(&w->lock);
    bool woken = atomic_compare_exchange_strong(&w->state, &called, WORKER_OFFERED);
    if (woken) pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (woken) return;
    called = WORKER_CALLED;
  }
}

/* Until none is left, or the launch is stopped. */
static void take_ranges(CpuPool *p, Worker *w, const CpuTask *t) {
  CpuWatch watch = {.threads = p->shares.threads, .orders = p->orders, .is_caller = !w->number};
  int64_t first, last;
  while (has_room(p, w) && !atomic_load_explicit(&p->orders->stop, memory_order_relaxed)) {
    if (!cpu_shares_take(&p->shares, w->number, &first, &last)) return;
    wake_another(p);
    int why = t->run(t->args, first, last, w->scratch, &watch);
    if (why) cpu_orders_stop(p->orders, why);
  }
}

static CpuOrders orders_of(const CpuTask *t) {
  return (CpuOrders){.interrupted = t->interrupted, .user = t->user};
}

static int run_alone(const CpuTask *t, void *scratch) {
  CpuOrders orders = orders_of(t);
  CpuWatch watch = {.threads = 1, .orders = &orders, .is_caller = true};
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

static bool change(Worker *w, int from, int to) {
  return atomic_compare_exchange_strong(&w->state, &from, to);
}

/* Returns when there is an offer, or perhaps none any more. */
static void rest(Worker *w) {
  CpuSpin spin = {.limit = w->pool->spin};
  while (atomic_load_explicit(&w->state, memory_order_relaxed) == WORKER_RESTS)
    if (!cpu_spin(&spin)) break;
  if (!change(w, WORKER_RESTS, WORKER_SLEEPS)) return;
  pthread_mutex_lock(&w->lock);
  while (atomic_load(&w->state) == WORKER_SLEEPS || atomic_load(&w->state) == WORKER_CALLED)
    pthread_cond_wait(&w->changed, &w->lock);
  pthread_mutex_unlock(&w->lock);
}

static void take_part(Worker *w) {
  CpuPool *p = w->pool;
  const CpuTask *task = p->task;
  if (ready_scratch(w, task->scratch)) take_ranges(p, w, task);
  if (change(w, WORKER_RUNS, WORKER_RESTS)) return;
  pthread_mutex_lock(&w->lock); /* it is watched */
  atomic_store(&w->state, WORKER_RESTS);
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

static void *worker_main(void *user) {
  Worker *w = user;
  while (atomic_load(&w->state) != WORKER_LEAVES) {
    if (change(w, WORKER_OFFERED, WORKER_RUNS)) take_part(w);
    else rest(w);
  }
  return NULL;
}

static void start_workers(CpuPool *p, int n) {
  while (p->started < n) {
    Worker *w = &p->worker[p->started];
    if (pthread_create(&w->thread, NULL, worker_main, w) != 0) return;
    p->started++;
  }
}

/* ---- launches ---- */

/* True: it has to be woken. */
static bool offer(Worker *w) {
  for (;;) {
    if (change(w, WORKER_RESTS, WORKER_OFFERED)) return false;
    if (change(w, WORKER_SLEEPS, WORKER_CALLED)) return true;
  }
}

static void offer_to_all(CpuPool *p) {
  int threads = p->shares.threads, to_wake = threads;
  atomic_store(&p->to_wake, threads); /* none, until all have their offers */
  for (int i = threads - 1; i > 0; i--)
    if (offer(&p->worker[i])) to_wake = i;
  atomic_store(&p->to_wake, to_wake);
}

/* Withdraws the offer if it has not been accepted; otherwise returns when the worker has finished,
 * and calls `interrupted` in between. */
static void finish(Worker *w, CpuOrders *orders) {
  CpuSpin spin = {.limit = w->pool->spin};
  for (;;) {
    int state = atomic_load_explicit(&w->state, memory_order_acquire);
    if (state == WORKER_RESTS || state == WORKER_SLEEPS) return;
    if (state == WORKER_CALLED && change(w, state, WORKER_SLEEPS)) return;
    if (state == WORKER_OFFERED && change(w, state, WORKER_RESTS)) return;
    if (state == WORKER_RUNS && !cpu_spin(&spin) && change(w, state, WORKER_WATCHED)) break;
  }
  pthread_mutex_lock(&w->lock);
  while (atomic_load(&w->state) == WORKER_WATCHED) cpu_patient_wait(&w->changed, &w->lock, orders);
  pthread_mutex_unlock(&w->lock);
}

static int run_together(CpuPool *p, const CpuTask *t, int helpers) {
  CpuOrders orders = orders_of(t);
  start_workers(p, helpers + 1);
  p->shares.threads = p->started <= helpers ? p->started : helpers + 1;
  cpu_shares_divide(&p->shares, t->count);
  p->task = t;
  p->orders = &orders;
  offer_to_all(p);
  take_ranges(p, &p->worker[0], t);
  for (int i = 1; i < p->shares.threads; i++) finish(&p->worker[i], &orders);
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

static void open_workers(CpuPool *p) {
  pthread_mutex_init(&p->owner, NULL);
  for (int i = 0; i < p->threads; i++) {
    Worker *w = &p->worker[i];
    w->pool = p;
    w->number = i;
    atomic_store(&w->state, WORKER_RESTS);
    pthread_mutex_init(&w->lock, NULL);
    cpu_patient_init(&w->changed);
  }
}

void cpu_pool_after_fork(CpuPool *p) {
  p->started = 1;
  atomic_store(&p->launches, 0);
  open_workers(p);
}

static void *zeros(size_t bytes) {
  size_t size = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  void *memory = aligned_alloc(ALIGN, size);
  return memory ? memset(memory, 0, size) : NULL;
}

CpuPool *cpu_pool_new(int threads) {
  CpuPool *p = zeros(sizeof *p);
  if (!p) return NULL;
  p->threads = threads_wanted(threads);
  p->started = 1;
  p->spin = spin_seconds(p->threads);
  p->worker = zeros((size_t)p->threads * sizeof *p->worker);
  if (!p->worker) {
    free(p);
    return NULL;
  }
  p->shares.first = (char *)&p->worker[0].share;
  p->shares.stride = sizeof *p->worker;
  open_workers(p);
  return p;
}

static void dismiss(Worker *w) {
  pthread_mutex_lock(&w->lock);
  atomic_store(&w->state, WORKER_LEAVES);
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

void cpu_pool_free(CpuPool *p) {
  if (!p) return;
  pthread_mutex_lock(&p->owner);
  for (int i = 1; i < p->started; i++) dismiss(&p->worker[i]);
  for (int i = 1; i < p->started; i++) pthread_join(p->worker[i].thread, NULL);
  for (int i = 0; i < p->threads; i++) free(p->worker[i].scratch);
  pthread_mutex_unlock(&p->owner);
  free(p->worker);
  free(p);
}
