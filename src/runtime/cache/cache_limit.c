/* cache_limit.c: limits the size of the cache.
 *
 * The time of last use of a file is its modification time: writing sets it, using sets it again.
 * There is no list of files that processes would have to agree on: a process that writes a file
 * looks at all of them. A process that loses a race over a file compiles once more, at worst. */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/landing.h"
#include "base/vec.h"
#include "runtime/cache/cache.h"

enum { ABANDONED_SECONDS = 3600 }; /* no writer takes this long */

bool cache_is_file(const char *name) {
  size_t n = strlen(name), end = strlen(CACHE_SUFFIX);
  return n > end && strcmp(name + n - end, CACHE_SUFFIX) == 0;
}

bool cache_is_temporary(const char *name) {
  return strncmp(name, CACHE_TEMPORARY, strlen(CACHE_TEMPORARY)) == 0;
}

/* If this is not permitted, the file merely appears older than it is. */
void cache_touch(int folder, const char *name) {
  (void)utimensat(folder, name, NULL, AT_SYMLINK_NOFOLLOW);
}

typedef struct Used {
  const char *name;
  int64_t bytes;
  struct timespec at;
} Used;

static int by_use(const void *a, const void *b) {
  const Used *x = a, *y = b;
  if (x->at.tv_sec != y->at.tv_sec) return x->at.tv_sec < y->at.tv_sec ? -1 : 1;
  if (x->at.tv_nsec != y->at.tv_nsec) return x->at.tv_nsec < y->at.tv_nsec ? -1 : 1;
  return strcmp(x->name, y->name); /* the same order in every process */
}

typedef struct Folder {
  Arena *arena;
  int fd;
  Vec(Used) files;
  int64_t bytes;
} Folder;

/* Files left by killed writers are removed when they are old. */
static void look_at(Folder *f, const char *name, time_t now) {
  struct stat info;
  bool temporary = cache_is_temporary(name);
  if ((!temporary && !cache_is_file(name)) || fstatat(f->fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
    return;
  if (temporary) {
    if (info.st_mtime + ABANDONED_SECONDS < now) unlinkat(f->fd, name, 0);
    return;
  }
  Used u = {arena_strdup(f->arena, name), (int64_t)info.st_size, info.st_mtim};
  vec_push(f->arena, &f->files, u);
  f->bytes += u.bytes;
}

/* A file that is already gone was removed by another process, which counted in the same way. */
static void remove_oldest(Folder *f, int64_t limit, const char *keep) {
  if (f->files.n) qsort(f->files.at, (size_t)f->files.n, sizeof *f->files.at, by_use);
  for (int i = 0; i < f->files.n && f->bytes > limit; i++) {
    const Used *u = &f->files.at[i];
    if (strcmp(u->name, keep) == 0) continue;
    if (unlinkat(f->fd, u->name, 0) == 0 || errno == ENOENT) f->bytes -= u->bytes;
  }
}

static void close_listing(void *dir) { closedir(dir); }

void cache_evict(int folder, int64_t limit, const char *keep) {
  int own = limit ? openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  DIR *dir = own >= 0 ? fdopendir(own) : NULL; /* with its own read position in the folder */
  if (!dir) {
    if (own >= 0) close(own);
    return;
  }
  Held held;
  landing_hold(&held, close_listing, dir);
  Folder f = {.arena = arena_new(), .fd = folder};
  time_t now = time(NULL);
  for (struct dirent *e; (e = readdir(dir));) look_at(&f, e->d_name, now);
  remove_oldest(&f, limit, keep);
  landing_let_go(&held);
  closedir(dir);
  arena_free(f.arena);
}
