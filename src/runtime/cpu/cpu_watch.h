/* cpu_watch.h: what code running on the CPU asks of its launch.
 *
 * Compiled code calls the functions below by name (cpu_symbols.def). At intervals of workgroups and
 * loop iterations it checks whether to continue; where it waits for other threads it says so, and
 * is told when no thread is left that could end the wait. */
#ifndef WV_CPU_WATCH_H
#define WV_CPU_WATCH_H

#include <stdatomic.h>

#include "base/base.h"

/* What a kernel's function returns. */
enum {
  CPU_DONE = 0,
  CPU_GIVEN_UP = 1, /* the launch was stopped */
  CPU_STUCK = 2     /* and above: deadlock at wait `value - CPU_STUCK` */
};

typedef struct CpuGang CpuGang; /* threads that may wait for each other: cpu_gang.h */

/* A launch as seen by the threads that run parts of it. */
typedef struct CpuOrders {
  atomic_int stop;                 /* 0, or why: the kernel's result */
  bool (*interrupted)(void *user); /* NULL: it cannot be interrupted */
  void *user;
} CpuOrders;

/* One thread's view of a launch. */
typedef struct CpuWatch {
  int64_t threads; /* that share the workgroups; compiled code reads this */
  CpuOrders *orders;
  bool is_caller; /* the thread that launched, which calls `interrupted` */
  double asked;   /* when it last did */
  CpuGang *gang;  /* NULL: no thread waits for it */
  int member;     /* its index there */
} CpuWatch;

/* Only the first reason counts. */
void cpu_orders_stop(CpuOrders *o, int why);
/* Calls `interrupted`, which may take a while, unless the launch is stopped already; only from the
 * launching thread. */
bool cpu_orders_interrupted(CpuOrders *o);

/* After `rounds` iterations of something: the number of iterations until the next call; 0: stop. */
int64_t cpu_watch_ask(CpuWatch *w, int64_t rounds);

/* After an iteration of a loop that waits for memory to change. `changed`: a value that the loop
 * carries did. Returns 0, or what the kernel's function must return. `wait` identifies the
 * wait. */
int cpu_watch_wait(CpuWatch *w, int changed, int wait);

/* All `members` of the workgroup that arrive at barrier `bar` continue when the last of them
 * arrives; `arrive`: without waiting for that. The result as above. */
int cpu_watch_meet(CpuWatch *w, int bar, int members, int arrive, int wait);

#endif
