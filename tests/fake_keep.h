/* fake_keep.h: memory and modules of a fake driver that a program leaves to captured graphs. They are not freed, but
 * what looks for leaks finds them here. */
#ifndef WV_FAKE_KEEP_H
#define WV_FAKE_KEEP_H

#include <stdatomic.h>

static inline void *fake_keep(void *p) {
  static void *_Atomic kept[256];
  static atomic_uint n;
  atomic_store(&kept[atomic_fetch_add(&n, 1) % 256], p);
  return p;
}

#endif
