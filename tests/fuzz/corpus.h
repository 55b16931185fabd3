/* corpus.h: random choices, the time a case takes, and the test files as a corpus, for
 * fuzzers. */
#ifndef WV_TESTS_CORPUS_H
#define WV_TESTS_CORPUS_H

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/os.h"
#include "base/vec.h"

/* ---- random choices ---- */

typedef struct Random {
  uint64_t state;
} Random;

static inline uint32_t next(Random *r) { /* splitmix64 */
  uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)(z >> 32);
}

static inline size_t below(Random *r, size_t n) { return n ? next(r) % n : 0; }

/* CPU time: other programs on the machine do not make a case slow. */
static inline double cpu_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* ---- texts ---- */

typedef struct Corpus {
  Arena *arena;
  Vec(const char *) texts;
  Vec(uint64_t) keys; /* of the texts, by content */
} Corpus;

static inline void add_file(Corpus *c, const char *path) {
  size_t len;
  const char *text = os_read_file(c->arena, path, &len);
  if (!text || strlen(text) != len) return;
  vec_push(c->arena, &c->texts, text);
  vec_push(c->arena, &c->keys, hash_bytes(text, len));
}

/* The text whose key wins a draw: a text that is added or changed changes only its own cases, so
 * that all others keep their seeds. */
static inline const char *any_of_corpus(const Corpus *c, Random *r) {
  uint64_t ticket = next(r), best = 0;
  int at = 0;
  for (int i = 0; i < c->texts.n; i++) {
    uint64_t drawn = hash_mix(ticket, c->keys.at[i]);
    if (drawn >= best) best = drawn, at = i;
  }
  return c->texts.at[at];
}

static inline int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted by name: the order of a directory differs between machines. */
static inline void add_folder(Corpus *c, const char *folder) {
  Vec(const char *) names = {0};
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));)
    if (e->d_name[0] != '.') vec_push(c->arena, &names, arena_strdup(c->arena, e->d_name));
  if (dir) closedir(dir);
  if (names.n) qsort(names.at, (size_t)names.n, sizeof *names.at, by_name);
  for (int i = 0; i < names.n; i++) {
    const char *path = arena_printf(c->arena, "%s/%s", folder, names.at[i]);
    const char *dot = strrchr(names.at[i], '.');
    if (dot && strcmp(dot, ".wave") == 0) add_file(c, path);
    else if (!dot) add_folder(c, path);
  }
}

/* Subfolders of tests/; `file`: __FILE__ of a program in one of them. */
static inline void add_tests(Corpus *c, const char *file, const char *const *folders, size_t n) {
  char *tests = arena_strdup(c->arena, file);
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(tests, '/');
    if (slash) *slash = '\0';
  }
  for (size_t i = 0; i < n; i++) add_folder(c, arena_printf(c->arena, "%s/%s", tests, folders[i]));
}

#endif
