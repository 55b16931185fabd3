/* cpu_spin.c: see cpu_spin.h. */
#define _GNU_SOURCE
#include "runtime/cpu/cpu_spin.h"

#include <sched.h>

#include "base/os.h"

#if defined(__x86_64__)
#include <immintrin.h>
static void pause_core(void) { _mm_pause(); }
#elif defined(__aarch64__)
static void pause_core(void) { __asm__ volatile("isb" ::: "memory"); }
#else
static void pause_core(void) { sched_yield(); }
#endif

enum { TURNS = 32 };             /* between two offers: 1 to 2 us */
static const double AWAY = 5e-5; /* an offer that takes longer was accepted */

bool cpu_spin(CpuSpin *s) {
  if (s->limit <= 0) return false;
  pause_core();
  if (++s->turns % TURNS) return true;
  sched_yield();
  double now = os_seconds(), last = s->last;
  if (!s->start) s->start = last = now;
  s->last = now;
  return now - last < AWAY && now - s->start < s->limit;
}
