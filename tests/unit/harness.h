/* harness.h: the whole unit test harness.
 *
 *     TEST(name) { CHECK(1 + 1 == 2); CHECK_STR(text, "expected"); }
 *     TESTS_MAIN(RUN(name) RUN(other))
 *
 * A failed check prints its location and values and the program continues; the last line is
 * "N passed, M failed". */
#ifndef WV_HARNESS_H
#define WV_HARNESS_H

#include <stdio.h>
#include <string.h>

typedef struct Harness {
  int passed, failed;
  int failures_here;
} Harness;

#define TEST(name) static void test_##name(Harness *harness)

#define CHECK(cond)                                                                                \
  ((cond) ? (void)0                                                                                \
          : (void)(harness->failures_here++,                                                       \
                   printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #cond)))

#define CHECK_INT(got, want) harness_int(harness, __FILE__, __LINE__, #got, (got), (want))
#define CHECK_STR(got, want) harness_str(harness, __FILE__, __LINE__, #got, (got), (want))

#define RUN(name) harness_run(&harness, #name, test_##name);
#define TESTS_MAIN(runs)                                                                           \
  int main(void) {                                                                                 \
    Harness harness = {0};                                                                         \
    runs printf("%d passed, %d failed\n", harness.passed, harness.failed);                         \
    return harness.failed != 0;                                                                    \
  }

static inline void harness_int(Harness *h, const char *file, int line, const char *what,
                               long long got, long long want) {
  if (got == want) return;
  h->failures_here++;
  printf("%s:%d: %s is %lld, expected %lld\n", file, line, what, got, want);
}

static inline void harness_str(Harness *h, const char *file, int line, const char *what,
                               const char *got, const char *want) {
  if (got && strcmp(got, want) == 0) return;
  h->failures_here++;
  printf("%s:%d: %s is\n  %s\nexpected\n  %s\n", file, line, what, got ? got : "(null)", want);
}

static inline void harness_run(Harness *h, const char *name, void (*test)(Harness *)) {
  h->failures_here = 0;
  test(h);
  if (h->failures_here) printf("FAILED %s\n", name), h->failed++;
  else h->passed++;
}

#endif
