/* wavec_cache.c: `wavec cache`: the files of compiled programs. */
#include <stdio.h>
#include <string.h>

#include "wavec.h"

static void print_entry(void *user, const wv_cache_entry *e) {
  (void)user;
  if (e->damage) printf("%10lld  damaged: %s\n", (long long)e->bytes, e->path);
  else printf("%10lld  %-8s %-24s %s\n", (long long)e->bytes, e->target, e->kernel, e->path);
}

static void verify_entry(void *user, const wv_cache_entry *e) {
  if (!e->damage) return;
  printf("%s: %s\n", e->path, e->damage);
  ++*(int *)user;
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
  if (list)
    printf("%d files in %s\n", wv_cache_each(cx, dir, print_entry, NULL),
           dir ? dir : wv_cache_dir(cx));
  else if (verify) {
    int n = wv_cache_each(cx, dir, verify_entry, &damaged);
    printf("%d files, %d damaged\n", n, damaged);
  } else printf("%d files removed\n", wv_cache_clear(cx, dir));
  wv_ctx_free(cx);
  return damaged ? STATUS_DIAGNOSTICS : STATUS_OK;
}
