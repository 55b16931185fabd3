/* test_cpu_shares.c: every workgroup belongs to one range, whichever thread takes it; a thread takes
 * its own share first, from its front. */
#include <pthread.h>
#include <stdlib.h>

#include "runtime/cpu/cpu_shares.h"
#include "unit/harness.h"

enum { THREADS = 4, APART = 64 };

typedef struct Shared {
  _Alignas(APART) char bytes[THREADS][APART];
  CpuShares shares;
  atomic_int *taken; /* how often, for each workgroup */
} Shared;

static void divide(Shared *s, int threads, int64_t count) {
  s->shares = (CpuShares){.threads = threads, .first = s->bytes[0], .stride = APART};
  cpu_shares_divide(&s->shares, count);
}

/* One thread takes everything: its own share first. */
TEST(one_takes_all) {
  static const int64_t counts[] = {1, 2, 3, 4, 5, 63, 64, 255, 256, 257, 1000, 99991};
  Shared s;
  for (int threads = 1; threads <= THREADS; threads++)
    for (int c = 0; c < 12; c++) {
      int64_t first, last, sum = 0, end = 0;
      divide(&s, threads, counts[c]);
      while (cpu_shares_take(&s.shares, 0, &first, &last)) {
        CHECK(first < last && last <= counts[c]);
        if (first == end) end = last;
        sum += last - first;
      }
      CHECK_INT(sum, counts[c]);
      CHECK(end >= counts[c] / threads / s.shares.unit * s.shares.unit);
    }
}

/* More than 2^32, as large grids have. */
TEST(large_numbers) {
  int64_t count = (INT64_C(1) << 40) + 3, first, last, sum = 0;
  Shared s;
  divide(&s, 3, count);
  while (cpu_shares_take(&s.shares, 1, &first, &last)) sum += last - first;
  CHECK(sum == count);
}

/* The half that is left of the first share is what another thread takes, from its end. */
TEST(halves) {
  int64_t first, last;
  Shared s;
  divide(&s, 2, 16);
  CHECK(cpu_shares_take(&s.shares, 0, &first, &last) && first == 0 && last == 4);
  CHECK(cpu_shares_take(&s.shares, 1, &first, &last) && first == 8 && last == 12);
  CHECK(cpu_shares_take(&s.shares, 1, &first, &last) && first == 12 && last == 14);
  CHECK(cpu_shares_take(&s.shares, 1, &first, &last) && first == 14 && last == 15);
  CHECK(cpu_shares_take(&s.shares, 1, &first, &last) && first == 15 && last == 16);
  CHECK(cpu_shares_take(&s.shares, 1, &first, &last) && first == 6 && last == 7);
  CHECK(cpu_shares_take(&s.shares, 0, &first, &last) && first == 4 && last == 5);
}

typedef struct Taker {
  Shared *shared;
  int number;
} Taker;

static void *take_all(void *user) {
  Taker *t = user;
  int64_t first, last;
  while (cpu_shares_take(&t->shared->shares, t->number, &first, &last))
    for (int64_t i = first; i < last; i++) atomic_fetch_add(&t->shared->taken[i], 1);
  return NULL;
}

TEST(threads_take_each_once) {
  enum { COUNT = 1777 };
  Shared s;
  s.taken = calloc(COUNT, sizeof *s.taken);
  for (int round = 1; round <= 100; round++) {
    pthread_t thread[THREADS];
    Taker taker[THREADS];
    divide(&s, THREADS, COUNT);
    for (int i = 0; i < THREADS; i++) {
      taker[i] = (Taker){&s, i};
      pthread_create(&thread[i], NULL, take_all, &taker[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < COUNT; i++) CHECK_INT(s.taken[i], round);
  }
  free(s.taken);
}

TESTS_MAIN(RUN(one_takes_all) RUN(large_numbers) RUN(halves) RUN(threads_take_each_once))
