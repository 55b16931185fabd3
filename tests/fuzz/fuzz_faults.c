/* fuzz_faults.c: a random allocation or assertion of a random piece of work fails, while another
 * thread launches (fault_kit.h): half of the time one of the kit's own, else a kernel of tests/
 * that is compiled for a random machine. Most useful under AddressSanitizer, where WAVE_FAULTS is
 * on.
 *
 *     fuzz_faults --seed 1 --count 1000 */
#define _GNU_SOURCE
#include <glob.h>

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

/* ---- kernels of tests/ ---- */

typedef struct Texts {
  glob_t files;
  char *last; /* the text that was read last */
} Texts;

static const char *read_text(Texts *t, const char *path) {
  enum { MOST = 1 << 20 };
  FILE *f = fopen(path, "r");
  size_t n = 0;
  if (!t->last) t->last = malloc(MOST);
  if (f && t->last) n = fread(t->last, 1, MOST - 1, f);
  if (f) fclose(f);
  if (t->last) t->last[n] = '\0';
  return n ? t->last : NULL;
}

static FaultWork draw(Texts *t, uint64_t *seed) {
  static const char *const targets[] = {"cpu", "sm_90a", "sm_80", "gfx942"};
  if (!t->files.gl_pathc || random_next(seed) % 2)
    return fault_works[random_next(seed) % FAULT_WORKS];
  FaultWork w = {.name = t->files.gl_pathv[random_next(seed) % t->files.gl_pathc],
                 .run = fault_lower,
                 .target = targets[random_next(seed) % 4]};
  w.text = read_text(t, w.name);
  return w.text ? w : fault_works[0];
}

/* ---- all cases ---- */

static int fuzz(Texts *t, uint64_t seed, long count) {
  int failures = 0;
  for (long i = 0; i < count; i++) {
    FaultWork w = draw(t, &seed);
    const char *kind = fault_kinds[random_next(&seed) % FAULT_KINDS];
    long most = fault_count(&w, kind);
    if (most < 1) continue;
    long n = 1 + (long)(random_next(&seed) % (uint64_t)most);
    const char *wrong = fault_try(&w, kind, n);
    if (!wrong) continue;
    printf("%s %s, %s %ld of %ld: %s\n", w.name, w.target ? w.target : "", kind, n, most, wrong);
    failures++;
  }
  return failures;
}

int main(int argc, char **argv) {
  FaultMeanwhile meanwhile;
  Texts texts = {0};
  char folder[] = "/tmp/wave-faults-XXXXXX";
  fault_open_cache(folder);
  glob("tests/run/*.wave", 0, NULL, &texts.files);
  glob("bench/kernels/*.wave", GLOB_APPEND, NULL, &texts.files);
  fault_begin(&meanwhile);
  uint64_t seed = (uint64_t)number(argc, argv, "--seed", 1);
  long count = number(argc, argv, "--count", 200);
  int failures = fuzz(&texts, seed, count);
  if (!fault_end(&meanwhile)) printf("a concurrent launch gave another result\n"), failures++;
  fault_close_cache(folder);
  globfree(&texts.files);
  free(texts.last);
  printf("%ld passed, %d failed\n", count - failures, failures);
  return failures != 0;
}
