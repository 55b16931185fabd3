/* cpu_count.c: see cpu_count.h. Groups are nested, and each may have a limit. */
#define _GNU_SOURCE
#include "runtime/cpu/cpu_count.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

enum { PATH_BYTES = 4096 };

static bool read_line(const char *folder, const char *name, char *line, int size) {
  char path[2 * PATH_BYTES];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "re");
  bool ok = f && fgets(line, size, f);
  if (f) fclose(f);
  return ok;
}

/* Microseconds of CPU time in a period; false: unlimited. Version 2 has both numbers in one file. */
static bool limit_of(const char *folder, long long *time, long long *period) {
  char line[128];
  if (read_line(folder, "cpu.max", line, sizeof line))
    return sscanf(line, "%lld %lld", time, period) == 2 && *time > 0 && *period > 0;
  if (!read_line(folder, "cpu.cfs_quota_us", line, sizeof line) || (*time = atoll(line)) <= 0)
    return false;
  return read_line(folder, "cpu.cfs_period_us", line, sizeof line) && (*period = atoll(line)) > 0;
}

/* The least limit of the group and those around it. In a container the paths of groups may be those
 * outside it, which do not exist: then its own folder is `root`. */
static int least_limit(const char *root, char *path) {
  char folder[PATH_BYTES];
  int least = 0;
  for (;;) {
    long long time, period;
    snprintf(folder, sizeof folder, "%s%s", root, path);
    if (limit_of(folder, &time, &period)) {
      long long cpus = (time - 1) / period + 1;
      if (!least || cpus < least) least = cpus > INT32_MAX ? INT32_MAX : (int)cpus;
    }
    char *slash = strrchr(path, '/');
    if (!slash) return least;
    *slash = 0;
  }
}

/* A line is `number:controllers:path`; version 2 has number 0 and no controllers. */
static int limit_of_line(char *line, const char *root) {
  char folder[PATH_BYTES], *controllers = strchr(line, ':');
  char *path = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!path) return 0;
  *path++ = 0;
  path[strcspn(path, "\n")] = 0;
  if (!*++controllers) return least_limit(root, path);
  bool limits = false;
  char *rest = controllers;
  for (char *word; (word = strsep(&rest, ","));) limits |= strcmp(word, "cpu") == 0;
  snprintf(folder, sizeof folder, "%s/cpu", root);
  return limits ? least_limit(folder, path) : 0;
}

int cpu_count_limit(const char *groups, const char *root) {
  char line[PATH_BYTES];
  int least = 0;
  FILE *f = fopen(groups, "re");
  while (f && fgets(line, sizeof line, f)) {
    int limit = limit_of_line(line, root);
    if (limit && (!least || limit < least)) least = limit;
  }
  if (f) fclose(f);
  return least;
}

int cpu_count(void) {
  cpu_set_t set;
  long n =
      sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  int limit = cpu_count_limit("/proc/self/cgroup", "/sys/fs/cgroup");
  if (n < 1) n = 1;
  return limit && limit < n ? limit : (int)n;
}
