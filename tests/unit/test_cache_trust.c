/* test_cache_trust.c: a file that another user could have written is never executed. */
#define _XOPEN_SOURCE 700
#include <sys/stat.h>

#include "unit/cache_kit.h"

enum { NOBODY = 65534 };

static bool refused(Kit *k, const char *why) {
  diags_clear(&k->diags);
  const Artefact *found = load(k);
  const Diag *d = k->diags.first;
  return !found && d && d->code == DIAG_W0901 && !d->next && has(d->text, why);
}

TEST(folders_and_files_are_private) {
  Kit *k = kit_open();
  struct stat info;
  mode_t before = umask(0);
  const char *top = k->settings.dir;
  k->settings.dir = arena_printf(k->a, "%s/a/b", top);
  store(k);
  umask(before);
  CHECK(stat(k->settings.dir, &info) == 0 && (info.st_mode & 0777) == 0700);
  CHECK(stat(arena_printf(k->a, "%s/a", top), &info) == 0 && (info.st_mode & 0777) == 0700);
  CHECK(stat(path_of_file(k), &info) == 0 && (info.st_mode & 0777) == 0600);
  CHECK(k->diags.first == NULL && is_right(load(k)));
  cache_clear(k->settings.dir);
  rmdir(k->settings.dir);
  rmdir(arena_printf(k->a, "%s/a", top));
  k->settings.dir = top;
  kit_close(k);
}

/* A compilation loads and stores: the folder is reported once, and nothing is written to it. */
TEST(folder_that_others_write_to) {
  Kit *k = kit_open();
  store(k);
  const char *path = path_of_file(k);
  for (int bit = 0; bit < 2; bit++) {
    chmod(k->settings.dir, bit ? 0720 : 0702);
    CHECK(refused(k, "other users may write to it"));
    CHECK(k->diags.first && has(k->diags.first->hint, "chmod"));
    unlink(path);
    store(k);
    CHECK(k->diags.first && !k->diags.first->next);
    CHECK(access(path, F_OK) != 0);
    CacheEntry *e;
    CHECK_INT(cache_list(k->a, k->settings.dir, &e), 0);
    chmod(k->settings.dir, 0700);
    store(k);
    CHECK(is_right(load(k)));
  }
  chmod(k->settings.dir, 0755); /* others may read: no harm */
  CHECK(is_right(load(k)));
  chmod(k->settings.dir, 0777);
  CacheEntry *e;
  CHECK(cache_list(k->a, k->settings.dir, &e) == 1 && !e[0].art && has(e[0].damage, "folder"));
  kit_close(k);
}

TEST(file_that_others_write_to) {
  Kit *k = kit_open();
  store(k);
  const char *path = path_of_file(k);
  chmod(path, 0622);
  CHECK(refused(k, "other users may write to it"));
  CacheEntry *e;
  CHECK(cache_list(k->a, k->settings.dir, &e) == 1 && e[0].damage && !e[0].art);
  store(k); /* replaces it */
  CHECK(is_right(load(k)));
  kit_close(k);
}

/* A file that another user left in a folder, or the other user's folder. */
TEST(files_of_another_user) {
  Kit *k = kit_open();
  store(k);
  if (geteuid() == 0) {
    CHECK_INT(chown(path_of_file(k), NOBODY, NOBODY), 0);
    CHECK(refused(k, "it belongs to another user"));
    store(k);
    CHECK(is_right(load(k)));
    CHECK_INT(chown(k->settings.dir, NOBODY, NOBODY), 0);
    CHECK(refused(k, "it belongs to another user"));
    CHECK_INT(chown(k->settings.dir, 0, 0), 0);
  } else {
    const char *dir = k->settings.dir;
    k->settings.dir = "/usr";
    CHECK(refused(k, "it belongs to another user"));
    k->settings.dir = dir;
  }
  kit_close(k);
}

TEST(links_are_not_followed) {
  Kit *k = kit_open();
  store(k);
  const char *path = path_of_file(k), *dir = k->settings.dir;
  const char *aside = arena_printf(k->a, "%s/aside", dir);
  rename(path, aside);
  CHECK_INT(symlink(aside, path), 0);
  CHECK(refused(k, "it is not a regular file"));
  store(k); /* replaces the link, not what it points to */
  struct stat info;
  CHECK(lstat(path, &info) == 0 && S_ISREG(info.st_mode) && is_right(load(k)));
  unlink(aside);
  k->settings.dir = arena_printf(k->a, "%s.link", dir);
  CHECK_INT(symlink(dir, k->settings.dir), 0);
  CHECK(refused(k, "it is a symbolic link or not a folder"));
  unlink(k->settings.dir);
  k->settings.dir = dir;
  kit_close(k);
}

/* Opening a pipe without a writer would block the reader. */
TEST(pipes_and_folders_in_place_of_files) {
  Kit *k = kit_open();
  store(k);
  const char *path = path_of_file(k);
  unlink(path);
  CHECK_INT(mkfifo(path, 0600), 0);
  CHECK(refused(k, "it is not a regular file"));
  store(k);
  CHECK(is_right(load(k)));
  unlink(path);
  CHECK_INT(mkdir(path, 0700), 0);
  CHECK(refused(k, "it is not a regular file"));
  store(k); /* a file cannot replace a folder */
  CHECK(k->diags.first && has(k->diags.last->text, "cannot be written"));
  CHECK_INT(files_in(k->settings.dir), 1);
  rmdir(path);
  kit_close(k);
}

TESTS_MAIN(RUN(folders_and_files_are_private) RUN(folder_that_others_write_to)
               RUN(file_that_others_write_to) RUN(files_of_another_user) RUN(links_are_not_followed)
                   RUN(pipes_and_folders_in_place_of_files))
