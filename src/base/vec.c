/* vec.c: growth of Vec. */
#include "base/vec.h"

#include <string.h>

void *vec_room(Arena *a, void *at, int n, int *cap, size_t elem) {
  if (n < *cap) return at;
  int more = *cap ? *cap * 2 : 8;
  void *bigger = arena_alloc(a, (size_t)more * elem);
  if (n) memcpy(bigger, at, (size_t)n * elem);
  *cap = more; /* only now: the allocation may have failed */
  return bigger;
}
