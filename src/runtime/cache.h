/* cache.h: compiled variants kept in files.
 *
 * A file is named after the hash of its *key*: the text of everything that decides what is compiled
 * (IR, target, options, build of the compiler). The key is in the file too and is compared, so that
 * equal hashes are no danger. A file is executed, so only this user's files in this user's folder
 * count (cache_trust.h). Files are written under another name and renamed when they are whole; a
 * file that is not exactly what was written is not used. Whatever goes wrong costs a compilation,
 * and never more than a warning. */
#ifndef WV_CACHE_H
#define WV_CACHE_H

#include "base/diag.h"
#include "runtime/artefact.h"

typedef struct CacheSettings {
  bool read, write;
  const char *dir;      /* NULL: there is none to be had */
  int64_t limit;        /* bytes that all files may have; 0: any number */
  const char *nonsense; /* what WAVE_CACHE_SIZE says if it is no size; NULL: it is one */
} CacheSettings;

/* From WAVE_CACHE_ON, WAVE_ALWAYS_COMPILE, WAVE_CACHE_DIR, WAVE_CACHE_SIZE and XDG_CACHE_HOME.
 * `use` 1 or -1 and a `dir` that is not NULL count more. */
CacheSettings cache_settings(Arena *a, int use, const char *dir);

/* NULL: it is not there, or damaged, which is a warning. */
Artefact *cache_load(Arena *a, const CacheSettings *s, const char *key, Diags *diags);
void cache_store(const CacheSettings *s, const char *key, const Artefact *art, int variant,
                 Diags *diags);

typedef struct CacheEntry {
  const char *path;
  int64_t bytes;
  const Artefact *art; /* NULL: the file is damaged */
  const char *damage;
  int64_t used; /* when it was last written or taken: seconds since 1970 */
} CacheEntry;

/* All files of a folder, by name. */
int cache_list(Arena *a, const char *dir, CacheEntry **out);
int cache_clear(const char *dir); /* how many files were removed; what a killed writer left, too */

/* ---- cache_limit.c ---- */

/* "200M": a whole number of bytes, or of K, M or G (1024, ...). False: it is none. */
bool cache_parse_size(const char *text, int64_t *bytes);

/* Removes the files that were not used for longest until all of them together are within the limit
 * (0: any number); never the one named `keep`. Several processes may do so at once, and may read
 * and write meanwhile.
 */
void cache_evict(int folder, int64_t limit, const char *keep);

/* Says that a file was used now. */
void cache_touch(int folder, const char *name);

/* Names of files: ours, and those that are being written. */
bool cache_is_file(const char *name);
bool cache_is_temporary(const char *name);
#define CACHE_SUFFIX ".wavebin"
#define CACHE_TEMPORARY ".wavetmp-"

#endif
