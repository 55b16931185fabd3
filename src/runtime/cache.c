/* cache.c: see cache.h.
 *
 * A file:  magic 8 bytes · version 4 · 0 4 · length of the rest 8 · hash of the rest 8 ·
 *          length of the key 8 · key · artefact */
#define _XOPEN_SOURCE 700
#include "runtime/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "base/os.h"

enum { VERSION = 1, HEAD_BYTES = 32, LIMIT = 512 << 20 };

static const char magic[8] = "WAVEKRNL";

/* ---- where ---- */

static bool is_on(const char *name, bool otherwise) {
  const char *value = getenv(name);
  return value && *value ? strcmp(value, "0") != 0 : otherwise;
}

CacheSettings cache_settings(Arena *a, int use, const char *dir) {
  const char *given = getenv("WAVE_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME");
  const char *home = getenv("HOME");
  if (!dir && given && *given) dir = arena_strdup(a, given);
  else if (!dir && xdg && *xdg) dir = arena_printf(a, "%s/wave", xdg);
  else if (!dir && home && *home) dir = arena_printf(a, "%s/.cache/wave", home);
  bool on = dir && (use ? use > 0 : is_on("WAVE_CACHE_ON", true));
  CacheSettings s = {on && !is_on("WAVE_ALWAYS_COMPILE", false), on, dir, LIMIT, NULL};
  const char *limit = getenv("WAVE_CACHE_SIZE");
  if (limit && *limit && !cache_parse_size(limit, &s.limit)) s.nonsense = arena_strdup(a, limit);
  return s;
}

static const char *path_of(Arena *a, const char *dir, const char *key) {
  size_t n = strlen(key);
  uint64_t h = hash_bytes(key, n), other = hash_mix(hash_bytes(key, n / 2), (uint64_t)n);
  return arena_printf(a, "%s/%016llx%016llx%s", dir, (unsigned long long)h,
                      (unsigned long long)other, CACHE_SUFFIX);
}

/* ---- one file ---- */

/* The bytes of a file; the artefact's own in `body`. NULL: `damage` says why not. */
static const char *check_file(const char *bytes, size_t n, size_t *body, size_t *key,
                              const char **damage) {
  *damage = "it is too short";
  if (n < HEAD_BYTES + 8) return NULL;
  *damage = "it is no file of this cache";
  if (memcmp(bytes, magic, sizeof magic) != 0) return NULL;
  *damage = "it is of another version";
  if (sb_get_u64(bytes + 8) != VERSION) return NULL;
  *damage = "it is not complete";
  if (sb_get_u64(bytes + 16) != n - HEAD_BYTES) return NULL;
  *damage = "its checksum is wrong";
  if (sb_get_u64(bytes + 24) != hash_bytes(bytes + HEAD_BYTES, n - HEAD_BYTES)) return NULL;
  uint64_t key_bytes = sb_get_u64(bytes + HEAD_BYTES);
  *damage = "its key is too long";
  if (key_bytes > n - HEAD_BYTES - 8) return NULL;
  *key = (size_t)key_bytes;
  *body = n - HEAD_BYTES - 8 - *key;
  *damage = NULL;
  return bytes + HEAD_BYTES + 8;
}

/* `key` NULL: any. Neither art nor damage: the file is for another key. */
static Artefact *read_artefact(Arena *a, const char *bytes, size_t n, const char *key,
                               const char **damage) {
  size_t body, key_bytes;
  int variant;
  const char *at = check_file(bytes, n, &body, &key_bytes, damage);
  if (!at) return NULL;
  if (key && (strlen(key) != key_bytes || memcmp(at, key, key_bytes) != 0)) return NULL;
  Artefact *art = artefact_read(a, at + key_bytes, body, &variant);
  if (!art || variant < 0) *damage = "its content makes no sense";
  return *damage ? NULL : art;
}

Artefact *cache_load(Arena *a, const CacheSettings *s, const char *key, Diags *diags) {
  size_t n;
  const char *damage = NULL, *path = s->read ? path_of(a, s->dir, key) : NULL;
  char *bytes = path ? os_read_file(a, path, &n) : NULL;
  if (!bytes) return NULL;
  Artefact *art = read_artefact(a, bytes, n, key, &damage);
  if (damage) diag_add(diags, DIAG_W0901, (Span){0}, "`%s` is not used: %s", path, damage);
  if (art) cache_touch(path);
  return art;
}

/* ---- writing ---- */

static bool make_folders(Arena *a, const char *dir) {
  char *path = arena_strdup(a, dir);
  for (char *at = path + 1; *at; at++) {
    if (*at != '/') continue;
    *at = '\0';
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return false;
    *at = '/';
  }
  return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static bool write_all(int file, const char *at, size_t n) {
  while (n) {
    ssize_t done = write(file, at, n);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done, n -= (size_t)done;
  }
  return true;
}

/* Two writers write the same: whoever renames last wins, and readers see one or the other whole. */
static bool replace_file(Arena *a, const char *dir, const char *path, const StrBuf *bytes) {
  char *temp = arena_printf(a, "%s/%sXXXXXX", dir, CACHE_TEMPORARY);
  int file = mkstemp(temp);
  if (file < 0) return false;
  bool ok = write_all(file, bytes->at, bytes->n);
  int error = errno;
  if (close(file) != 0 && ok) ok = false, error = errno;
  if (ok && rename(temp, path) == 0) return true;
  if (ok) error = errno;
  unlink(temp);
  errno = error;
  return false;
}

static void put_file(Arena *a, StrBuf *out, const char *key, const Artefact *art, int variant) {
  StrBuf rest = {.arena = a};
  sb_put_u64(&rest, strlen(key));
  sb_puts(&rest, key);
  artefact_write(&rest, art, variant);
  sb_write(out, magic, sizeof magic);
  sb_put_u64(out, VERSION);
  sb_put_u64(out, rest.n);
  sb_put_u64(out, hash_bytes(rest.at, rest.n));
  sb_write(out, rest.at, rest.n);
}

static void warn_of_limit(const char *found, Diags *diags) {
  Diag *d =
      diag_add(diags, DIAG_W0901, (Span){0}, "WAVE_CACHE_SIZE is `%s`, which is no size", found);
  diag_hint(diags, d, "a number of bytes, or with K, M or G behind it; 0: no limit");
}

void cache_store(const CacheSettings *s, const char *key, const Artefact *art, int variant,
                 Diags *diags) {
  if (!s->write) return;
  Arena *a = arena_new();
  StrBuf file = {.arena = a};
  const char *path = path_of(a, s->dir, key);
  put_file(a, &file, key, art, variant);
  if (s->nonsense) warn_of_limit(s->nonsense, diags);
  bool too_large = s->limit && (int64_t)file.n > s->limit; /* it would be alone, and soon gone */
  if (!too_large && (!make_folders(a, s->dir) || !replace_file(a, s->dir, path, &file))) {
    Diag *d = diag_add(diags, DIAG_W0901, (Span){0}, "the cache in `%s` cannot be written: %s",
                       s->dir, strerror(errno));
    diag_hint(diags, d, "WAVE_CACHE_DIR names another folder, WAVE_CACHE_ON=0 switches it off");
  }
  cache_evict(s, path);
  arena_free(a);
}

/* ---- all files ---- */

static int by_path(const void *a, const void *b) {
  return strcmp(((const CacheEntry *)a)->path, ((const CacheEntry *)b)->path);
}

static CacheEntry read_entry(Arena *a, const char *path) {
  struct stat info;
  CacheEntry e = {.path = path, .used = stat(path, &info) == 0 ? (int64_t)info.st_mtime : 0};
  size_t n = 0;
  char *bytes = os_read_file(a, path, &n);
  e.bytes = (int64_t)n;
  if (bytes) e.art = read_artefact(a, bytes, n, NULL, &e.damage);
  else e.damage = "it cannot be read";
  return e;
}

int cache_list(Arena *a, const char *dir, CacheEntry **out) {
  Vec(CacheEntry) all = {0};
  DIR *folder = opendir(dir);
  struct dirent *entry;
  while (folder && (entry = readdir(folder)))
    if (cache_is_file(entry->d_name))
      vec_push(a, &all, read_entry(a, arena_printf(a, "%s/%s", dir, entry->d_name)));
  if (folder) closedir(folder);
  if (all.n) qsort(all.at, (size_t)all.n, sizeof *all.at, by_path);
  *out = all.at;
  return all.n;
}

int cache_clear(const char *dir) {
  Arena *a = arena_new();
  DIR *folder = opendir(dir);
  struct dirent *entry;
  int removed = 0;
  while (folder && (entry = readdir(folder))) {
    bool left = cache_is_temporary(entry->d_name);
    if (!left && !cache_is_file(entry->d_name)) continue;
    if (unlink(arena_printf(a, "%s/%s", dir, entry->d_name)) == 0) removed += !left;
  }
  if (folder) closedir(folder);
  arena_free(a);
  return removed;
}
