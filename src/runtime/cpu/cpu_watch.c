/* cpu_watch.c: whether a launch continues. Waiting for other threads is in cpu_gang.c. */
#include "runtime/cpu/cpu_watch.h"

#include "base/os.h"

void cpu_orders_stop(CpuOrders *o, int why) {
  int none = 0;
  atomic_compare_exchange_strong(&o->stop, &none, why);
}

bool cpu_orders_interrupted(CpuOrders *o) {
  bool stops = atomic_load_explicit(&o->stop, memory_order_relaxed) != 0;
  if (stops || !o->interrupted || !o->interrupted(o->user)) return stops;
  cpu_orders_stop(o, CPU_GIVEN_UP);
  return true;
}

/* A check takes as long as a very small workgroup, so checks become rarer until there is one every
 * few milliseconds: faster than a person would notice. */
int64_t cpu_watch_ask(CpuWatch *w, int64_t rounds) {
  static const double SOON = 2e-3, LATE = 20e-3;
  static const int64_t MOST = INT64_C(1) << 30;
  CpuOrders *o = w->orders;
  if (atomic_load_explicit(&o->stop, memory_order_relaxed)) return 0;
  double now = os_seconds(), passed = now - w->asked;
  bool first = w->asked == 0;
  if (w->is_caller && !first && passed >= SOON && cpu_orders_interrupted(o)) return 0;
  if (first || passed >= SOON) w->asked = now;
  if (passed < SOON || first) return rounds < MOST ? 2 * rounds : rounds;
  return passed > LATE && rounds > 1 ? rounds / 2 : rounds;
}
