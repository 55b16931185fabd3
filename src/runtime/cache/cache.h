/* cache.h: compiled variants kept in files.
 *
 * A file is named after the hash of its *key*: the text of everything that determines the result of
 * compilation (IR, target, options, build of the compiler). The key is also stored in the file and
 * compared, so that hash collisions are harmless. The content is executed, so only this user's
 * files in this user's folder are used (cache_trust.h). Files are written under a temporary name
 * and renamed when complete; a file that is not exactly what was written is not used. Any failure
 * costs a compilation, and at most a warning. */
#ifndef WV_CACHE_H
#define WV_CACHE_H

#include "base/diag.h"
#include "runtime/cache/artefact.h"

typedef struct CacheSettings {
  bool read, write;
  const char *dir;      /* NULL: none is available */
  int64_t limit;        /* total size of all files in bytes; 0: unlimited */
  const char *nonsense; /* the content of WAVE_CACHE_SIZE if it is not a size; NULL: it is */
} CacheSettings;

/* From WAVE_CACHE_ON, WAVE_ALWAYS_COMPILE, WAVE_CACHE_DIR, WAVE_CACHE_SIZE and XDG_CACHE_HOME.
 * `use` 1 or -1 and a `dir` that is not NULL take precedence. */
CacheSettings cache_settings(Arena *a, int use, const char *dir);

/* NULL: it does not exist, or is damaged, which is a warning. */
Artefact *cache_load(Arena *a, const CacheSettings *s, const char *key, Diags *diags);
void cache_store(const CacheSettings *s, const char *key, const Artefact *art, int variant,
                 Diags *diags);

typedef struct CacheEntry {
  const char *path;
  int64_t bytes;
  const Artefact *art; /* NULL: the file is damaged */
  const char *damage;
  int64_t used; /* when it was last written or used: seconds since 1970 */
} CacheEntry;

/* All files of a folder, by name. */
int cache_list(Arena *a, const char *dir, CacheEntry **out);
int cache_clear(const char *dir); /* number of files removed, including those left by killed
                                   * writers */

/* ---- cache_limit.c ---- */

/* Removes the least recently used files until the total is within the limit (0: unlimited); never
 * the one named `keep`. Several processes may do so at once, and may read and write meanwhile. */
void cache_evict(int folder, int64_t limit, const char *keep);

/* Marks a file as just used. */
void cache_touch(int folder, const char *name);

/* Names of files: the cache's own, and those being written. */
bool cache_is_file(const char *name);
bool cache_is_temporary(const char *name);
#define CACHE_SUFFIX ".wavebin"
#define CACHE_TEMPORARY ".wavetmp-"

#endif
