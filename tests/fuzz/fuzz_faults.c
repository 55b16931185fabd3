/* fuzz_faults.c: a random allocation or assertion of a random piece of work fails, while another
 * thread launches (fault_kit.h). Worth most under AddressSanitizer, where WAVE_FAULTS is on.
 *
 *     fuzz_faults --seed 1 --count 1000 */
#include "unit/fault_kit.h"

static uint64_t random_next(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static long number(int argc, char **argv, const char *name, long otherwise) {
  for (int i = 1; i + 1 < argc; i++)
    if (strcmp(argv[i], name) == 0) return atol(argv[i + 1]);
  return otherwise;
}

/* How many faults of each kind a piece of work has room for is counted when it is first drawn. */
static int fuzz(uint64_t seed, long count) {
  static long most[FAULT_WORKS][FAULT_KINDS];
  int failures = 0;
  for (long i = 0; i < count; i++) {
    int w = (int)(random_next(&seed) % FAULT_WORKS), k = (int)(random_next(&seed) % FAULT_KINDS);
    if (!most[w][k]) most[w][k] = fault_count(&fault_works[w], fault_kinds[k]);
    if (most[w][k] < 1) continue;
    long n = 1 + (long)(random_next(&seed) % (uint64_t)most[w][k]);
    const char *wrong = fault_try(&fault_works[w], fault_kinds[k], n);
    if (!wrong) continue;
    printf("%s, %s %ld of %ld: %s\n", fault_works[w].name, fault_kinds[k], n, most[w][k], wrong);
    failures++;
  }
  return failures;
}

int main(int argc, char **argv) {
  FaultMeanwhile meanwhile;
  char folder[] = "/tmp/wave-faults-XXXXXX";
  fault_open_cache(folder);
  fault_begin(&meanwhile);
  int failures =
      fuzz((uint64_t)number(argc, argv, "--seed", 1), number(argc, argv, "--count", 200));
  if (!fault_end(&meanwhile)) printf("a launch meanwhile gave another result\n"), failures++;
  fault_close_cache(folder);
  printf("%d failures\n", failures);
  return failures != 0;
}
