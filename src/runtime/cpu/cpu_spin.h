/* cpu_spin.h: waiting for something that will probably happen soon, without going to sleep.
 *
 * To wake a thread takes 5 to 50 us, as long as a small kernel. So a thread that waits spins first,
 * for a limited time, and yields its core now and then: if another thread takes it, spinning is
 * pointless. */
#ifndef WV_CPU_SPIN_H
#define WV_CPU_SPIN_H

#include "base/base.h"

typedef struct CpuSpin {
  double limit;       /* seconds; 0: sleep at once */
  double start, last; /* when it began; when the core was last offered */
  int turns;
} CpuSpin;

/* One turn of a loop that waits. False: it is time to sleep. */
bool cpu_spin(CpuSpin *s);

#endif
