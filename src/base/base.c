/* base.c: how the compiler dies when one of its own invariants is broken. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

void base_bug(const char *file, int line, const char *what) {
  fprintf(stderr, "wave: internal error at %s:%d: %s\n", file, line, what);
  abort();
}
