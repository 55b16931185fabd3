/* cache_trust.c: see cache_trust.h. */
#define _XOPEN_SOURCE 700
#include "runtime/cache/cache_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cache/cache.h"

enum { PRIVATE_FOLDER = 0700, PRIVATE_FILE = 0600 };

/* ---- what is open ---- */

static const char *distrust(int fd, mode_t kind) {
  struct stat info;
  if (fstat(fd, &info) != 0) return strerror(errno);
  if ((info.st_mode & S_IFMT) != kind) return "it is not a regular file";
  if (info.st_uid != geteuid()) return "it belongs to another user";
  if (info.st_mode & (S_IWGRP | S_IWOTH)) return "other users may write to it";
  return NULL;
}

static int checked(int fd, mode_t kind, const char **why) {
  *why = distrust(fd, kind);
  if (!*why) return fd;
  close(fd);
  return -1;
}

int trust_folder(const char *dir, const char **why) {
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0) return checked(fd, S_IFDIR, why);
  bool other = errno == ENOTDIR || errno == ELOOP;
  *why = errno == ENOENT ? NULL : other ? "it is a symbolic link or not a folder" : strerror(errno);
  return -1;
}

/* O_NONBLOCK: opening a pipe must not wait for its writer. */
int trust_file(int folder, const char *name, const char **why) {
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd >= 0) return checked(fd, S_IFREG, why);
  bool other = errno == ELOOP || errno == ENXIO; /* a link, a socket */
  *why = errno == ENOENT ? NULL : other ? "it is not a regular file" : strerror(errno);
  return -1;
}

/* ---- writing ---- */

bool trust_make_folder(Arena *a, const char *dir) {
  char *path = arena_strdup(a, dir);
  for (char *at = path + 1; *at; at++) {
    if (*at != '/') continue;
    *at = '\0';
    if (mkdir(path, PRIVATE_FOLDER) != 0 && errno != EEXIST) return false;
    *at = '/';
  }
  return mkdir(path, PRIVATE_FOLDER) == 0 || errno == EEXIST;
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

/* A new file under a unique name. Threads of this process, or a killed process with the same id,
 * may have used some. */
static int create_temporary(Arena *a, int folder, const char **name) {
  enum { TRIES = 10000 };
  int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, fd = -1;
  for (int i = 0; i < TRIES; i++) {
    *name = arena_printf(a, "%s%ld-%d", CACHE_TEMPORARY, (long)getpid(), i);
    fd = openat(folder, *name, flags, PRIVATE_FILE);
    if (fd >= 0 || errno != EEXIST) break;
  }
  return fd;
}

bool trust_replace(Arena *a, int folder, const char *name, const char *bytes, size_t n) {
  const char *temporary;
  int file = create_temporary(a, folder, &temporary);
  if (file < 0) return false;
  bool ok = fchmod(file, PRIVATE_FILE) == 0 && write_all(file, bytes, n); /* whatever the umask */
  int error = errno;
  if (close(file) != 0 && ok) ok = false, error = errno;
  if (ok && renameat(folder, temporary, folder, name) == 0) return true;
  if (ok) error = errno;
  unlinkat(folder, temporary, 0);
  errno = error;
  return false;
}
