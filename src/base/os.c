/* os.c: see os.h. */
#define _POSIX_C_SOURCE 200809L
#include "base/os.h"

#include "base/landing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Reads in pieces, so that pipes work as well as files. */
static char *read_stream(Arena *a, FILE *f, size_t *len) {
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
  *len = n;
  return ferror(f) ? NULL : text;
}

static void close_file(void *f) { fclose(f); }

/* f NULL: it could not be opened. */
static char *read_and_close(Arena *a, FILE *f, size_t *len) {
  Held held;
  if (!f) return NULL;
  landing_hold(&held, close_file, f);
  char *text = read_stream(a, f, len);
  landing_let_go(&held);
  fclose(f);
  return text;
}

/* `-` is standard input. */
char *os_read_file(Arena *a, const char *path, size_t *len) {
  if (strcmp(path, "-") == 0) return read_stream(a, stdin, len);
  return read_and_close(a, fopen(path, "rb"), len);
}

char *os_read_descriptor(Arena *a, int fd, size_t *len) {
  FILE *f = fdopen(fd, "rb");
  if (!f) close(fd);
  return read_and_close(a, f, len);
}

int64_t os_file_stamp(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return 0;
  int64_t stamp = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
  return (stamp ^ (int64_t)st.st_size << 1) | 1;
}

bool os_is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool os_make_folder(const char *path) {
  char part[4096];
  size_t n = strlen(path);
  if (n >= sizeof part) return errno = ENAMETOOLONG, false;
  for (size_t i = 1; i <= n; i++) {
    if (path[i] != '/' && path[i]) continue;
    memcpy(part, path, i);
    part[i] = '\0';
    if (!os_is_folder(part) && mkdir(part, 0777) != 0 && errno != EEXIST) return false;
  }
  return os_is_folder(path) || (errno = ENOTDIR, false);
}

bool os_write_file(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  bool ok = f && fwrite(bytes, 1, n, f) == n;
  return f && fclose(f) == 0 && ok;
}

char *os_folder_of(Arena *a, const char *path) {
  char here[4096];
  const char *slash = strrchr(path, '/');
  int n = slash ? (int)(slash - path) : 0;
  if (*path == '/') return n ? arena_strndup(a, path, (size_t)n) : arena_strdup(a, "/");
  if (!getcwd(here, sizeof here)) return arena_strndup(a, path, (size_t)n);
  return n ? arena_printf(a, "%s/%.*s", here, n, path) : arena_strdup(a, here);
}

double os_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
