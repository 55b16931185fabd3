/* test_cpu_count.c: limits of control groups, version 1 and 2, nested, and from inside containers. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "base/os.h"
#include "runtime/cpu/cpu_count.h"
#include "unit/harness.h"

static char root[64];

static bool put(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", root, name);
  return os_write_file(path, text, strlen(text));
}

static bool folder(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", root, name);
  return os_make_folder(path);
}

static int limit(const char *groups) {
  char path[256];
  snprintf(path, sizeof path, "%s/groups", root);
  return put("groups", groups) ? cpu_count_limit(path, root) : -1;
}

TEST(a_folder) {
  strcpy(root, "/tmp/wave-groups-XXXXXX");
  CHECK(mkdtemp(root) != NULL);
}

TEST(version_2) {
  CHECK(folder("a/b/c"));
  put("a/cpu.max", "400000 100000\n");
  put("a/b/cpu.max", "max 100000\n");
  CHECK_INT(limit("0::/a\n"), 4);
  CHECK_INT(limit("0::/a/b\n"), 4);
  put("a/b/c/cpu.max", "150000 100000\n"); /* one and a half */
  CHECK_INT(limit("0::/a/b/c\n"), 2);
  put("a/b/c/cpu.max", "1000 100000\n");
  CHECK_INT(limit("0::/a/b/c\n"), 1);
  put("a/b/c/cpu.max", "900000 100000\n"); /* more than the group around it */
  CHECK_INT(limit("0::/a/b/c\n"), 4);
  CHECK_INT(limit("0::/\n"), 0);
}

TEST(version_1) {
  CHECK(folder("cpu/docker"));
  put("cpu/docker/cpu.cfs_quota_us", "300000\n");
  put("cpu/docker/cpu.cfs_period_us", "100000\n");
  CHECK_INT(limit("5:memory:/docker\n4:cpu,cpuacct:/docker\n"), 3);
  CHECK_INT(limit("5:memory:/docker\n4:cpuset:/docker\n"), 0);
  put("cpu/docker/cpu.cfs_quota_us", "-1\n");
  CHECK_INT(limit("4:cpuacct,cpu:/docker\n"), 0);
  put("cpu/cpu.cfs_quota_us", "200000\n");
  put("cpu/cpu.cfs_period_us", "100000\n");
  CHECK_INT(limit("4:cpu:/outside/of/the/container\n"), 2);
}

TEST(nothing_of_use) {
  put("cpu.max", "nonsense\n");
  CHECK_INT(limit(""), 0);
  CHECK_INT(limit("nonsense\n0:\n::\n"), 0);
  CHECK_INT(limit("0::/no/such/folder\n"), 0);
  CHECK_INT(cpu_count_limit("/no/such/file", root), 0);
  put("cpu.max", "250000 50000\n");
  CHECK_INT(limit("0::/\n"), 5);
  CHECK_INT(limit("0::/outside/of/the/container\n"), 5);
  CHECK(cpu_count() >= 1);
}

TEST(removed) {
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", root);
  CHECK_INT(system(command), 0);
}

TESTS_MAIN(RUN(a_folder) RUN(version_2) RUN(version_1) RUN(nothing_of_use) RUN(removed))
