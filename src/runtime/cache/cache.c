/* cache.c: see cache.h.
 *
 * A file:  magic 8 bytes · version 4 · 0 4 · length of the rest 8 · hash of the rest 8 ·
 *          length of the key 8 · key · artefact */
#define _XOPEN_SOURCE 700
#include "runtime/cache/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment/environment.h"
#include "base/landing.h"
#include "base/map.h"
#include "base/os.h"
#include "runtime/cache/cache_trust.h"

enum { VERSION = 1, HEAD_BYTES = 32, LIMIT = 512 << 20 };

static const char magic[8] = "WAVEKRNL";

/* ---- where ---- */

CacheSettings cache_settings(Arena *a, int use, const char *dir) {
  const char *given = environment_text(VARIABLE_CACHE_DIR), *xdg = getenv("XDG_CACHE_HOME");
  const char *home = getenv("HOME");
  if (!dir && given) dir = arena_strdup(a, given);
  else if (!dir && xdg && *xdg == '/') dir = arena_printf(a, "%s/wave", xdg);
  else if (!dir && home && *home) dir = arena_printf(a, "%s/.cache/wave", home);
  bool on = dir && (use ? use > 0 : environment_number(VARIABLE_CACHE_ON, 1) != 0);
  bool again = environment_number(VARIABLE_ALWAYS_COMPILE, 0) != 0;
  CacheSettings s = {on && !again, on, dir, environment_number(VARIABLE_CACHE_SIZE, LIMIT), NULL};
  if (!environment_is_valid(VARIABLE_CACHE_SIZE))
    s.nonsense = arena_strdup(a, environment_text(VARIABLE_CACHE_SIZE));
  return s;
}

static const char *name_of(Arena *a, const char *key) {
  size_t n = strlen(key);
  uint64_t h = hash_bytes(key, n), other = hash_mix(hash_bytes(key, n / 2), (uint64_t)n);
  return arena_printf(a, "%016llx%016llx%s", (unsigned long long)h, (unsigned long long)other,
                      CACHE_SUFFIX);
}

/* ---- one file ---- */

/* The bytes of a file; the artefact's length in `body`. NULL: `damage` says why. */
static const char *check_file(const char *bytes, size_t n, size_t *body, size_t *key,
                              const char **damage) {
  *damage = "it is too short";
  if (n < HEAD_BYTES + 8) return NULL;
  *damage = "it is not a cache file";
  if (memcmp(bytes, magic, sizeof magic) != 0) return NULL;
  *damage = "it was written by another version";
  if (sb_get_u64(bytes + 8) != VERSION) return NULL;
  *damage = "it is incomplete";
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

/* `key` NULL: any. If neither art nor damage results, the file is for another key. */
static Artefact *read_artefact(Arena *a, const char *bytes, size_t n, const char *key,
                               const char **damage) {
  size_t body, key_bytes;
  int variant;
  const char *at = check_file(bytes, n, &body, &key_bytes, damage);
  if (!at) return NULL;
  if (key && (strlen(key) != key_bytes || memcmp(at, key, key_bytes) != 0)) return NULL;
  Artefact *art = artefact_read(a, at + key_bytes, body, &variant);
  if (!art || variant < 0) *damage = "its contents are invalid";
  return *damage ? NULL : art;
}

/* ---- resources held while allocating ---- */

static void close_descriptor(void *fd) { close(*(int *)fd); }

static void close_listing(void *dir) {
  if (dir) closedir(dir);
}

/* ---- warnings ---- */

/* A compilation first loads and then stores; a problem with the folder is reported once. */
static void warn(Diags *diags, const char *hint, const char *text) {
  for (const Diag *d = diags->first; d; d = d->next)
    if (d->code == DIAG_W0901 && strcmp(d->text, text) == 0) return;
  Diag *d = diag_add(diags, DIAG_W0901, (Span){0}, "%s", text);
  if (hint) diag_hint(diags, d, "%s", hint);
}

static void warn_of_file(Arena *a, const char *dir, const char *name, const char *why,
                         Diags *diags) {
  warn(diags, NULL, arena_printf(a, "`%s/%s` is not used: %s", dir, name, why));
}

/* The open folder; -1: there is none, or it is not trusted, which is a warning. */
static int open_folder(Arena *a, const CacheSettings *s, Diags *diags) {
  const char *why;
  int folder = trust_folder(s->dir, &why);
  if (folder < 0 && why)
    warn(diags, "`chmod 700` the folder, or set WAVE_CACHE_DIR to a folder of your own",
         arena_printf(a, "the cache in `%s` is not used: %s", s->dir, why));
  return folder;
}

static void warn_of_writing(Arena *a, const CacheSettings *s, Diags *diags) {
  warn(diags, "set WAVE_CACHE_DIR to another folder, or WAVE_CACHE_ON=0 to disable the cache",
       arena_printf(a, "the cache in `%s` cannot be written: %s", s->dir, strerror(errno)));
}

static void warn_of_limit(Arena *a, const char *found, Diags *diags) {
  warn(diags, "give a number of bytes, optionally followed by K, M or G; 0 means no limit",
       arena_printf(a, "WAVE_CACHE_SIZE is `%s`, which is not a size", found));
}

/* ---- reading ---- */

/* The whole file; NULL: `why`, or it does not exist. */
static char *read_trusted(Arena *a, int folder, const char *name, size_t *n, const char **why) {
  int file = trust_file(folder, name, why);
  char *bytes = file >= 0 ? os_read_descriptor(a, file, n) : NULL;
  if (file >= 0 && !bytes) *why = "it cannot be read";
  return bytes;
}

Artefact *cache_load(Arena *a, const CacheSettings *s, const char *key, Diags *diags) {
  int folder = s->read ? open_folder(a, s, diags) : -1;
  if (folder < 0) return NULL;
  Held held;
  landing_hold(&held, close_descriptor, &folder);
  size_t n;
  const char *why, *name = name_of(a, key);
  char *bytes = read_trusted(a, folder, name, &n, &why);
  Artefact *art = bytes ? read_artefact(a, bytes, n, key, &why) : NULL;
  if (why) warn_of_file(a, s->dir, name, why, diags);
  if (art) cache_touch(folder, name);
  landing_let_go(&held);
  close(folder);
  return art;
}

/* ---- writing ---- */

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

static void store_in(Arena *a, int folder, const CacheSettings *s, const char *name,
                     const StrBuf *file, Diags *diags) {
  bool too_large = s->limit && (int64_t)file->n > s->limit; /* it would evict all others, and soon
                                                             * itself */
  if (!too_large && !trust_replace(a, folder, name, file->at, file->n))
    warn_of_writing(a, s, diags);
  cache_evict(folder, s->limit, name);
}

void cache_store(const CacheSettings *s, const char *key, const Artefact *art, int variant,
                 Diags *diags) {
  if (!s->write) return;
  Arena *a = arena_new();
  StrBuf file = {.arena = a};
  put_file(a, &file, key, art, variant);
  if (s->nonsense) warn_of_limit(a, s->nonsense, diags);
  bool made = trust_make_folder(a, s->dir);
  if (!made) warn_of_writing(a, s, diags);
  int folder = made ? open_folder(a, s, diags) : -1;
  if (folder >= 0) {
    Held held;
    landing_hold(&held, close_descriptor, &folder);
    store_in(a, folder, s, name_of(a, key), &file, diags);
    landing_let_go(&held);
    close(folder);
  }
  arena_free(a);
}

/* ---- all files ---- */

static int by_path(const void *a, const void *b) {
  return strcmp(((const CacheEntry *)a)->path, ((const CacheEntry *)b)->path);
}

static CacheEntry read_entry(Arena *a, const char *dir, int folder, const char *name) {
  struct stat info;
  bool there = fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
  CacheEntry e = {.path = arena_printf(a, "%s/%s", dir, name)};
  size_t n;
  char *bytes = read_trusted(a, folder, name, &n, &e.damage);
  if (there) e.used = (int64_t)info.st_mtime, e.bytes = (int64_t)info.st_size;
  if (bytes) e.art = read_artefact(a, bytes, n, NULL, &e.damage);
  else if (!e.damage) e.damage = "it is gone";
  return e;
}

/* In an untrusted folder no file is trusted, and none is read. */
static CacheEntry distrusted_entry(Arena *a, const char *dir, const char *name, const char *why) {
  return (CacheEntry){.path = arena_printf(a, "%s/%s", dir, name),
                      .damage = arena_printf(a, "its folder is not used: %s", why)};
}

int cache_list(Arena *a, const char *dir, CacheEntry **out) {
  Vec(CacheEntry) all = {0};
  const char *why;
  int trusted = trust_folder(dir, &why);
  DIR *folder = opendir(dir);
  struct dirent *entry;
  Held held, listing;
  landing_hold(&held, close_descriptor, &trusted); /* -1: nothing happens */
  landing_hold(&listing, close_listing, folder);
  while (folder && (entry = readdir(folder)))
    if (cache_is_file(entry->d_name))
      vec_push(a, &all,
               trusted >= 0 ? read_entry(a, dir, trusted, entry->d_name)
                            : distrusted_entry(a, dir, entry->d_name, why ? why : "it is gone"));
  landing_let_go(&listing);
  landing_let_go(&held);
  close_listing(folder);
  if (trusted >= 0) close(trusted);
  if (all.n) qsort(all.at, (size_t)all.n, sizeof *all.at, by_path);
  *out = all.at;
  return all.n;
}

int cache_clear(const char *dir) {
  Arena *a = arena_new();
  DIR *folder = opendir(dir);
  struct dirent *entry;
  int removed = 0;
  Held held;
  landing_hold(&held, close_listing, folder);
  while (folder && (entry = readdir(folder))) {
    bool left = cache_is_temporary(entry->d_name);
    if (!left && !cache_is_file(entry->d_name)) continue;
    if (unlink(arena_printf(a, "%s/%s", dir, entry->d_name)) == 0) removed += !left;
  }
  landing_let_go(&held);
  close_listing(folder);
  arena_free(a);
  return removed;
}
