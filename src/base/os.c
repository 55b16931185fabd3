/* os.c: see os.h. */
#define _POSIX_C_SOURCE 200809L
#include "base/os.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Read piece by piece, so that pipes work like files; `-` is standard input. */
char *os_read_file(Arena *a, const char *path, size_t *len) {
  FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
  if (!f) return NULL;
  size_t n = 0, cap = 1 << 14, got;
  char *text = arena_alloc(a, cap);
  while ((got = fread(text + n, 1, cap - n - 1, f)) > 0) {
    n += got;
    if (cap - n > 1) continue;
    char *bigger = arena_alloc(a, cap * 2);
    memcpy(bigger, text, n);
    text = bigger;
    cap *= 2;
  }
  bool failed = ferror(f) != 0;
  if (f != stdin) fclose(f);
  *len = n;
  return failed ? NULL : text;
}

int64_t os_file_stamp(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return 0;
  int64_t stamp = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
  return (stamp ^ (int64_t)st.st_size << 1) | 1;
}

double os_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
