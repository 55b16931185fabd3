/* cpu_together.c: see cpu_together.h. */
#define _GNU_SOURCE
#include "runtime/cpu_together.h"

#include <pthread.h>
#include <stdlib.h>

enum { ALIGN = 64 };

/* Threads wait here until all of them exist, or go home because they never will. */
typedef struct Gate {
  pthread_mutex_t lock;
  pthread_cond_t open;
  enum { GATE_SHUT, GATE_OPEN, GATE_HOME } state;
} Gate;

typedef struct Group {
  const CpuTask *task;
  Gate *gate;
  int64_t number;
  void *scratch;
  pthread_t thread;
  int error;
} Group;

static bool pass_gate(Gate *g) {
  pthread_mutex_lock(&g->lock);
  while (g->state == GATE_SHUT) pthread_cond_wait(&g->open, &g->lock);
  bool go = g->state == GATE_OPEN;
  pthread_mutex_unlock(&g->lock);
  return go;
}

static void set_gate(Gate *g, bool go) {
  pthread_mutex_lock(&g->lock);
  g->state = go ? GATE_OPEN : GATE_HOME;
  pthread_cond_broadcast(&g->open);
  pthread_mutex_unlock(&g->lock);
}

static void *run_group(void *user) {
  Group *g = user;
  const CpuTask *t = g->task;
  if (pass_gate(g->gate)) g->error = t->run(t->args, g->number, g->number + 1, g->scratch);
  return NULL;
}

/* One block of scratch for each workgroup; NULL: there is no memory. */
static char *scratch_for(const CpuTask *t, size_t *each) {
  *each = (t->scratch + ALIGN) / ALIGN * ALIGN;
  return aligned_alloc(ALIGN, *each * (size_t)t->count);
}

int cpu_run_together(const CpuTask *t) {
  Gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .open = PTHREAD_COND_INITIALIZER};
  Group groups[CPU_TOGETHER_MOST];
  size_t each;
  int64_t started = 0;
  int error = 0;
  WV_ASSERT(t->count <= CPU_TOGETHER_MOST);
  char *scratch = scratch_for(t, &each);
  for (; scratch && started < t->count; started++) {
    Group *g = &groups[started];
    *g = (Group){.task = t, .gate = &gate, .number = started};
    g->scratch = scratch + each * (size_t)started;
    if (pthread_create(&g->thread, NULL, run_group, g) != 0) break;
  }
  bool all = scratch && started == t->count;
  set_gate(&gate, all);
  for (int64_t i = 0; i < started; i++) {
    pthread_join(groups[i].thread, NULL);
    if (!error) error = groups[i].error;
  }
  free(scratch);
  return all ? error : CPU_POOL_NO_MEMORY;
}
