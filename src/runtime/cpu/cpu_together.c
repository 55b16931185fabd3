/* cpu_together.c: see cpu_together.h.
 *
 * Each of the workgroups that run concurrently has a *slot*: scratch memory, and threads for its
 * waves. If all wait for each other, there is a slot for every one of them, and they form one
 * gang. Otherwise each slot is a gang of its own and takes one workgroup after the other. */
#define _GNU_SOURCE
#include "runtime/cpu/cpu_together.h"

#include <stdlib.h>

#include "runtime/cpu/cpu_gang.h"

enum { ALIGN = 64, STACK = 1 << 19 };

typedef struct Crowd Crowd;

typedef struct Slot {
  Crowd *crowd;
  CpuGang *gang;
  int first;             /* index of its first member there */
  int64_t group;         /* the workgroup running here */
  pthread_barrier_t end; /* its waves have run */
  void *scratch;
} Slot;

typedef struct Runner {
  Slot *slot;
  int wave;
  pthread_t thread;
} Runner;

struct Crowd {
  const CpuTask *task;
  CpuOrders orders;
  int slots, gangs;
  Slot *slot;
  CpuGang *gang;
  Runner *runner;
  char *scratch;
  atomic_llong next; /* the next workgroup without a slot */
  pthread_mutex_t lock;
  pthread_cond_t open, done;
  enum { GATE_SHUT, GATE_OPEN, GATE_HOME } gate; /* shut until all threads exist */
  int running;
};

/* ---- one thread ---- */

static bool pass_gate(Crowd *c) {
  pthread_mutex_lock(&c->lock);
  while (c->gate == GATE_SHUT) pthread_cond_wait(&c->open, &c->lock);
  bool go = c->gate == GATE_OPEN;
  pthread_mutex_unlock(&c->lock);
  return go;
}

static void run_wave(Crowd *c, const Slot *at, int wave) {
  const CpuTask *t = c->task;
  CpuWatch watch = {
      .threads = 1, .orders = &c->orders, .gang = at->gang, .member = at->first + wave};
  int64_t number = at->group * t->waves + wave;
  int why = t->run(t->args, number, number + 1, at->scratch, &watch);
  if (why) {
    cpu_orders_stop(&c->orders, why);
    cpu_gang_wake(at->gang);
  }
  cpu_gang_leave(at->gang, watch.member);
}

/* When all waves have arrived, one of them takes the next workgroup for all. */
static void next_group(Crowd *c, Slot *at) {
  if (pthread_barrier_wait(&at->end) == PTHREAD_BARRIER_SERIAL_THREAD) {
    bool stop = atomic_load(&c->orders.stop) != 0;
    at->group = stop ? c->task->count : atomic_fetch_add(&c->next, 1);
    if (at->group < c->task->count) cpu_gang_again(at->gang);
  }
  pthread_barrier_wait(&at->end);
}

static void *run_waves(void *user) {
  Runner *r = user;
  Crowd *c = r->slot->crowd;
  if (pass_gate(c))
    while (r->slot->group < c->task->count) {
      run_wave(c, r->slot, r->wave);
      next_group(c, r->slot);
    }
  pthread_mutex_lock(&c->lock);
  if (--c->running == 0) pthread_cond_signal(&c->done);
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

/* ---- all of them ---- */

static bool open_gangs(Crowd *c) {
  const CpuTask *t = c->task;
  bool one = c->slots == t->count;
  int gangs = one ? 1 : c->slots;
  c->gang = calloc((size_t)gangs, sizeof *c->gang);
  if (!c->gang) return false;
  for (; c->gangs < gangs; c->gangs++)
    if (!cpu_gang_open(&c->gang[c->gangs], &c->orders, one ? c->slots : 1, t->waves)) return false;
  return true;
}

static bool open_slots(Crowd *c) {
  const CpuTask *t = c->task;
  size_t each = (t->scratch + ALIGN) / ALIGN * ALIGN;
  c->slot = calloc((size_t)c->slots, sizeof *c->slot);
  c->runner = calloc((size_t)c->slots * (size_t)t->waves, sizeof *c->runner);
  c->scratch =
      each > SIZE_MAX / CPU_TOGETHER_MOST ? NULL : aligned_alloc(ALIGN, each * (size_t)c->slots);
  if (!c->slot || !c->runner || !c->scratch || !open_gangs(c)) return false;
  for (int i = 0; i < c->slots; i++) {
    Slot *at = &c->slot[i];
    *at = (Slot){.crowd = c, .group = i, .scratch = c->scratch + each * (size_t)i};
    at->gang = &c->gang[c->gangs == 1 ? 0 : i];
    at->first = c->gangs == 1 ? i * t->waves : 0;
    pthread_barrier_init(&at->end, NULL, (unsigned)t->waves);
  }
  return true;
}

static int start_threads(Crowd *c) {
  int n = 0, all = c->slots * c->task->waves;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, STACK);
  for (c->running = all; n < all; n++) {
    Runner *r = &c->runner[n];
    *r = (Runner){.slot = &c->slot[n / c->task->waves], .wave = n % c->task->waves};
    if (pthread_create(&r->thread, &attr, run_waves, r) != 0) break;
  }
  pthread_attr_destroy(&attr);
  return n;
}

/* The launching thread waits here: it has no wave of its own. */
static void watch_threads(Crowd *c, int started, bool all) {
  pthread_mutex_lock(&c->lock);
  c->running -= c->slots * c->task->waves - started;
  c->gate = all ? GATE_OPEN : GATE_HOME;
  pthread_cond_broadcast(&c->open);
  while (c->running) {
    cpu_patient_wait(&c->done, &c->lock, &c->orders);
    if (!c->running || !atomic_load(&c->orders.stop)) continue;
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < c->gangs; i++) cpu_gang_wake(&c->gang[i]);
    pthread_mutex_lock(&c->lock);
  }
  pthread_mutex_unlock(&c->lock);
  for (int i = 0; i < started; i++) pthread_join(c->runner[i].thread, NULL);
}

static void close_crowd(Crowd *c, bool has_slots) {
  for (int i = 0; has_slots && i < c->slots; i++) pthread_barrier_destroy(&c->slot[i].end);
  for (int i = 0; i < c->gangs; i++) cpu_gang_close(&c->gang[i]);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->open);
  pthread_cond_destroy(&c->done);
  free(c->gang);
  free(c->slot);
  free(c->runner);
  free(c->scratch);
}

int cpu_run_together(const CpuTask *t, int groups) {
  if (t->count <= 0) return CPU_DONE;
  Crowd c = {.task = t, .slots = groups < t->count ? groups : (int)t->count};
  if (c.slots * t->waves > CPU_TOGETHER_MOST) return CPU_POOL_NO_MEMORY; /* run_task prevents it */
  c.orders = (CpuOrders){.interrupted = t->interrupted, .user = t->user};
  atomic_store(&c.next, c.slots);
  pthread_mutex_init(&c.lock, NULL);
  pthread_cond_init(&c.open, NULL);
  cpu_patient_init(&c.done);
  bool ready = open_slots(&c), all = false;
  if (ready) {
    int started = start_threads(&c);
    all = started == c.slots * t->waves;
    watch_threads(&c, started, all);
  }
  close_crowd(&c, ready);
  return all ? atomic_load(&c.orders.stop) : CPU_POOL_NO_MEMORY;
}
