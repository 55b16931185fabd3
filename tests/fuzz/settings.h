/* settings.h: what fuzzers take from the command line: --seed N --count N --seconds N. */
#ifndef WV_TESTS_SETTINGS_H
#define WV_TESTS_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct Settings {
  uint64_t seed;
  long count;
  double seconds; /* 0: no limit */
} Settings;

/* False: it is not one of them. */
static inline bool take_setting(Settings *s, const char *name, const char *value) {
  if (strcmp(name, "--seed") == 0) s->seed = strtoull(value, NULL, 10);
  else if (strcmp(name, "--count") == 0) s->count = strtol(value, NULL, 10);
  else if (strcmp(name, "--seconds") == 0) s->seconds = strtod(value, NULL), s->count = INT32_MAX;
  else return false;
  return true;
}

#endif
