/* test_faults.c: no internal error ends the process. Each allocation and assertion of pieces of
 * work that cover the whole compiler fails in turn; those that are evaluated many times are sampled
 * here, and drawn by tests/fuzz/fuzz_faults.c. In builds without WAVE_FAULTS only system memory
 * fails. */
#include "unit/fault_kit.h"
#include "unit/harness.h"

static void try_all(Harness *harness, const char *kind, long most) {
  for (int w = 0; w < FAULT_WORKS; w++) {
    const FaultWork *work = &fault_works[w];
    long n = fault_count(work, kind), step = n > most ? n / most : 1;
    if (n < 0) continue;
    if (getenv("FAULT_COUNTS")) printf("%s: %ld %s\n", work->name, n, kind), fflush(stdout);
    for (long i = 1; i <= n; i += step) {
      const char *wrong = fault_try(work, kind, i);
      if (wrong) printf("%s, %s %ld of %ld: %s\n", work->name, kind, i, n, wrong);
      CHECK(!wrong);
    }
    CHECK(!fault_try(work, kind, n + 1000)); /* and without a fault everything is as before */
  }
}

TEST(memory_of_the_system) { try_all(harness, "malloc", 50); }
TEST(pieces_of_memory) { try_all(harness, "alloc", 15); }
TEST(every_assertion) { try_all(harness, "site", 1000); }
TEST(assertions_later_on) { try_all(harness, "assert", 10); }

static FaultMeanwhile meanwhile;

TEST(others_launch) {
  CHECK(!atomic_load(&meanwhile.wrong));
  CHECK(!meanwhile.p || atomic_load(&meanwhile.launches) > 0);
}

int main(void) {
  Harness harness = {0};
  char folder[] = "/tmp/wave-faults-XXXXXX";
  fault_open_cache(folder);
  fault_begin(&meanwhile);
  RUN(memory_of_the_system)
  RUN(every_assertion)
  RUN(pieces_of_memory)
  RUN(assertions_later_on)
  RUN(others_launch)
  fault_end(&meanwhile);
  fault_close_cache(folder);
  printf("%d passed, %d failed\n", harness.passed, harness.failed);
  return harness.failed != 0;
}
