/* im2col.c: see im2col.h. */
#include "target/maps/im2col.h"

static int64_t last_of(const Im2col *m, const int64_t *size, int d) {
  return size[1 + d] - 1 + m->highest[d];
}

bool im2col_is_inside(const Im2col *m, const int64_t *size, const int64_t *at) {
  for (int d = 0; d < m->dims; d++)
    if (at[1 + d] < m->lowest[d] || at[1 + d] > last_of(m, size, d)) return false;
  return true;
}

/* The walk may begin in the middle of a row, and not on the steps of the other rows. */
void im2col_walk(const Im2col *m, const int64_t *size, int64_t n, int64_t *at) {
  for (int d = m->dims - 1; d >= 0 && n; d--) {
    int64_t last = last_of(m, size, d), step = m->step[d];
    int64_t left = (last - at[1 + d]) / step, row = (last - m->lowest[d]) / step + 1;
    if (n <= left) {
      at[1 + d] += n * step;
      return;
    }
    n -= left + 1;
    at[1 + d] = m->lowest[d] + n % row * step;
    n = 1 + n / row;
  }
  at[0] += n;
}
