/* wavec_cache.c: `wavec cache`: the files of compiled programs. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "wavec.h"

typedef struct Sums {
  int64_t bytes;
  int damaged;
} Sums;

/* The age, in the largest unit that fits. */
static const char *ago(int64_t seconds, char *text, size_t room) {
  static const struct {
    int64_t seconds;
    char unit;
  } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
  size_t i = 0;
  if (seconds < 0) seconds = 0; /* clocks differ */
  while (i < 3 && seconds < units[i].seconds) i++;
  snprintf(text, room, "%lld%c ago", (long long)(seconds / units[i].seconds), units[i].unit);
  return text;
}

static void print_entry(void *user, const wv_cache_entry *e) {
  char when[32];
  ((Sums *)user)->bytes += e->bytes;
  ago((int64_t)time(NULL) - e->used, when, sizeof when);
  if (e->damage) printf("%10lld  %8s  damaged: %s\n", (long long)e->bytes, when, e->path);
  else
    printf("%10lld  %8s  %-8s %-24s %s\n", (long long)e->bytes, when, e->target, e->kernel,
           e->path);
}

static void verify_entry(void *user, const wv_cache_entry *e) {
  Sums *sums = user;
  sums->bytes += e->bytes;
  if (!e->damage) return;
  printf("%s: %s\n", e->path, e->damage);
  sums->damaged++;
}

static void print_sums(wv_ctx *cx, const Sums *sums) {
  int64_t limit = wv_cache_limit(cx);
  printf("%lld bytes", (long long)sums->bytes);
  if (limit) printf(" of at most %lld", (long long)limit);
}

static void list_files(wv_ctx *cx, const char *dir) {
  Sums sums = {0};
  int n = wv_cache_each(cx, dir, print_entry, &sums);
  printf("%d files in %s, ", n, dir ? dir : wv_cache_dir(cx));
  print_sums(cx, &sums);
  printf("\n");
}

/* Returns how many are damaged. */
static int verify_files(wv_ctx *cx, const char *dir) {
  Sums sums = {0};
  int n = wv_cache_each(cx, dir, verify_entry, &sums);
  printf("%d files, %d damaged, ", n, sums.damaged);
  print_sums(cx, &sums);
  printf("\n");
  return sums.damaged;
}

int cache_command(int argc, char **argv) {
  const char *word = argc ? argv[0] : "", *dir = argc > 1 ? argv[1] : NULL;
  bool list = strcmp(word, "list") == 0, verify = strcmp(word, "verify") == 0;
  if (argc < 1 || argc > 2 || (!list && !verify && strcmp(word, "clear") != 0)) {
    complain("wavec cache list|verify|clear [FOLDER]");
    return STATUS_USAGE;
  }
  wv_ctx *cx = wv_ctx_new();
  int damaged = 0;
  if (list) list_files(cx, dir);
  else if (verify) damaged = verify_files(cx, dir);
  else printf("%d files removed\n", wv_cache_clear(cx, dir));
  wv_ctx_free(cx);
  return damaged ? STATUS_DIAGNOSTICS : STATUS_OK;
}
