/* cpu_gate.c: see cpu_gate.h. */
#define _GNU_SOURCE
#include "runtime/cpu/cpu_gate.h"

#include <pthread.h>
#include <stdlib.h>

static struct Gate {
  pthread_mutex_t lock;
  pthread_cond_t moved;
  int inside;
  bool is_closed;
  bool hears_forks, hears_exit; /* the handlers below are installed */
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false, false, false};

static void close_gate(void) { /* keeps the lock */
  pthread_mutex_lock(&gate.lock);
  gate.is_closed = true;
  while (gate.inside > 0) pthread_cond_wait(&gate.moved, &gate.lock);
}

static void open_gate(void) {
  gate.is_closed = false;
  pthread_cond_broadcast(&gate.moved);
  pthread_mutex_unlock(&gate.lock);
}

static void in_child(void) { /* the waiting threads do not exist here */
  gate.moved = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  open_gate();
}

static void at_exit(void) { /* threads at the gate wait until the process has ended */
  close_gate();
  pthread_mutex_unlock(&gate.lock);
}

void cpu_gate_exiting(bool is_exiting) {
  if (is_exiting) {
    at_exit();
    return;
  }
  pthread_mutex_lock(&gate.lock);
  open_gate();
}

void cpu_gate_in(bool loaded) {
  pthread_mutex_lock(&gate.lock);
  if (!gate.hears_forks) gate.hears_forks = pthread_atfork(close_gate, open_gate, in_child) == 0;
  if (!gate.hears_exit && loaded) gate.hears_exit = atexit(at_exit) == 0;
  while (gate.is_closed) pthread_cond_wait(&gate.moved, &gate.lock);
  gate.inside++;
  pthread_mutex_unlock(&gate.lock);
}

void cpu_gate_out(void) {
  pthread_mutex_lock(&gate.lock);
  gate.inside--;
  pthread_cond_broadcast(&gate.moved);
  pthread_mutex_unlock(&gate.lock);
}
