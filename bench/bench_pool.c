/* bench_pool.c: what a launch on the CPU costs besides its work.
 *
 *     bench_pool [THREADS ...]     by default 1, 2 and as many as there are cores
 *
 * One row for each number of threads: us of a launch of 64 workgroups that do nothing, one directly
 * after the other, and 3 ms apart, when threads sleep; GB/s of sums over memory that fits into the
 * L2 caches and that does not. The launches of a row are sorted: their median, and the lower
 * quartile in parentheses. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os.h"
#include "runtime/cpu/cpu_pool.h"

enum { GROUPS = 64, MOST = 2000 };

static int nothing(const void *args, int64_t first, int64_t last, void *scratch, CpuWatch *watch) {
  (void)args, (void)first, (void)last, (void)scratch, (void)watch;
  return 0;
}

typedef struct Piece {
  const float *x;
  int64_t count; /* of a workgroup */
} Piece;

static int add_up(const void *args, int64_t first, int64_t last, void *scratch, CpuWatch *watch) {
  const Piece *piece = args;
  float sum[64] = {0}, *to = scratch;
  (void)watch;
  for (int64_t i = first * piece->count; i < last * piece->count; i += 64)
    for (int j = 0; j < 64; j++) sum[j] += piece->x[i + j];
  for (int j = 0; j < 64; j++) to[j] = sum[j];
  return 0;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Seconds of a launch: the median, or another place in the order. */
typedef struct Times {
  double median, quartile;
} Times;

static Times measure(CpuPool *p, const CpuTask *t, int launches, int apart) {
  static double seconds[MOST];
  for (int i = 0; i < launches; i++) {
    if (apart) usleep((useconds_t)apart);
    double start = os_seconds();
    cpu_pool_run(p, t);
    seconds[i] = os_seconds() - start;
  }
  qsort(seconds, (size_t)launches, sizeof *seconds, by_value);
  return (Times){seconds[launches / 2], seconds[launches / 4]};
}

static void show_sums(CpuPool *p, int64_t bytes, float *x) {
  Piece piece = {x, bytes / GROUPS / (int64_t)sizeof *x};
  CpuTask t = {.run = add_up, .args = &piece, .count = GROUPS, .scratch = 256};
  Times s = measure(p, &t, 300, 0);
  printf("%8lld MB %6.1f GB/s (%.1f us)", (long long)(bytes >> 20), 1e-9 * (double)bytes / s.median,
         1e6 * s.median);
}

static void show(int threads) {
  enum { SMALL = 1 << 20, LARGE = 256 << 20 };
  CpuTask none = {.run = nothing, .count = GROUPS};
  CpuPool *p = cpu_pool_new(threads);
  float *x = calloc(LARGE, 1);
  if (!p || !x) abort();
  for (int i = 0; i < LARGE / (int)sizeof *x; i += 1024) x[i] = 1;
  Times often = measure(p, &none, MOST, 0), seldom = measure(p, &none, 200, 3000);
  printf("%2d threads: %6.2f us (%.2f), 3 ms apart %6.2f us (%.2f);", threads, 1e6 * often.median,
         1e6 * often.quartile, 1e6 * seldom.median, 1e6 * seldom.quartile);
  show_sums(p, (int64_t)SMALL * (threads < 4 ? 1 : threads), x);
  show_sums(p, LARGE, x);
  printf("\n");
  free(x);
  cpu_pool_free(p);
}

int main(int argc, char **argv) {
  CpuPool *p = cpu_pool_new(0);
  int all = p ? cpu_pool_threads(p) : 1;
  cpu_pool_free(p);
  for (int i = 1; i < argc; i++) show(atoi(argv[i]));
  if (argc > 1) return 0;
  show(1);
  if (all > 1) show(2);
  if (all > 2) show(all);
  return 0;
}
