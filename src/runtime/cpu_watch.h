/* cpu_watch.h: what code that runs on the processor asks of its launch, and what it answers.
 *
 * Compiled code calls the functions below by name (cpu_symbols.def). At every so many workgroups
 * and rounds of loops it asks whether to go on; where it waits for what others do it says so,
 * and is told when nobody is left who could do it. */
#ifndef WV_CPU_WATCH_H
#define WV_CPU_WATCH_H

#include <stdatomic.h>

#include "base/base.h"

/* What a kernel's function returns. */
enum {
  CPU_DONE = 0,
  CPU_GIVEN_UP = 1, /* because the launch was told to stop */
  CPU_STUCK = 2     /* and above: at place `value - CPU_STUCK` of those where it waits */
};

typedef struct CpuGang CpuGang; /* those that may wait for each other: cpu_gang.h */

/* A launch as those see it who run parts of it. */
typedef struct CpuOrders {
  atomic_int stop;                 /* 0, or why: what a kernel returned */
  bool (*interrupted)(void *user); /* NULL: nobody wants to end it early */
  void *user;
} CpuOrders;

/* One thread's view of a launch. */
typedef struct CpuWatch {
  CpuOrders *orders;
  bool is_caller; /* this is the thread that launched: it asks `interrupted` */
  double asked;   /* when it last did */
  CpuGang *gang;  /* NULL: nobody waits for it */
  int member;     /* its number there */
} CpuWatch;

/* The first reason counts. */
void cpu_orders_stop(CpuOrders *o, int why);
/* Asks `interrupted`, which may take a while; by the thread that launched. */
bool cpu_orders_interrupted(CpuOrders *o);

/* After `rounds` rounds of something: how many more until it is to be asked again; 0: give up. */
int64_t cpu_watch_ask(CpuWatch *w, int64_t rounds);

/* Behind a round of a loop that waits for memory to change. `changed`: something did, of what the
 * loop carries. 0, or what the kernel's function is to return. `place` is where that is. */
int cpu_watch_wait(CpuWatch *w, int changed, int place);

/* All `members` of the workgroup that come to barrier `bar` go on when the last of them comes;
 * `arrive`: without waiting for that. The result as above. */
int cpu_watch_meet(CpuWatch *w, int bar, int members, int arrive, int place);

#endif
