/* test_runtime_cache.c: whatever happens to the files of the cache, it never returns a wrong
 * kernel. */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/environment/environment.h"
#include "base/os.h"
#include "unit/cache_kit.h"

/* ---- files ---- */

TEST(stored_and_loaded) {
  Kit *k = kit_open();
  CHECK(!load(k));
  store(k);
  CHECK(is_right(load(k)));
  CHECK(!cache_load(k->a, &k->settings, "another key", &k->diags));
  CHECK(k->diags.first == NULL);
  CacheEntry *e;
  CHECK_INT(cache_list(k->a, k->settings.dir, &e), 1);
  CHECK_STR(e[0].art->name, "small");
  CHECK(!e[0].damage);
  CHECK_INT(cache_clear(k->settings.dir), 1);
  CHECK(!load(k));
  kit_close(k);
}

/* Another key with the same hash: the file of one is not mistaken for the other. */
TEST(hashes_may_collide) {
  Kit *k = kit_open();
  store(k);
  const char *path = path_of_file(k);
  size_t n;
  char *bytes = os_read_file(k->a, path, &n);
  cache_clear(k->settings.dir);
  cache_store(&k->settings, "A KEY", &k->art, 0, &k->diags);
  const char *other = path_of_file(k);
  write_file(other, bytes, n);
  CHECK(!cache_load(k->a, &k->settings, "A KEY", &k->diags));
  CHECK(k->diags.first == NULL);
  kit_close(k);
}

TEST(every_byte_damaged) {
  Kit *k = kit_open();
  store(k);
  const char *path = path_of_file(k);
  size_t n;
  char *bytes = os_read_file(k->a, path, &n);
  int taken = 0, silent = 0;
  for (size_t i = 0; i < n; i++)
    for (int all = 0; all < 2; all++) {
      int flip = all ? 0xff : 1 << i % 8;
      bytes[i] = (char)(bytes[i] ^ flip);
      write_file(path, bytes, n);
      bytes[i] = (char)(bytes[i] ^ flip);
      diags_clear(&k->diags);
      taken += load(k) != NULL;
      silent += k->diags.first == NULL || k->diags.first->code != DIAG_W0901;
    }
  CHECK_INT(taken, 0);
  CHECK_INT(silent, 0);
  store(k); /* is whole again */
  CHECK(is_right(load(k)));
  kit_close(k);
}

TEST(every_length) {
  Kit *k = kit_open();
  store(k);
  const char *path = path_of_file(k);
  size_t n;
  char *bytes = os_read_file(k->a, path, &n);
  int taken = 0;
  for (size_t len = 0; len < n; len++) {
    write_file(path, bytes, len);
    taken += load(k) != NULL;
  }
  CHECK_INT(taken, 0);
  CacheEntry *e;
  CHECK(cache_list(k->a, k->settings.dir, &e) == 1 && e[0].damage && !e[0].art);
  kit_close(k);
}

/* Bytes that pass every checksum are still not trusted. */
TEST(nonsense_inside) {
  Kit *k = kit_open();
  StrBuf out = {.arena = k->a};
  int variant;
  artefact_write(&out, &k->art, 0);
  CHECK(is_right(artefact_read(k->a, out.at, out.n, &variant)));
  static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
  for (size_t i = 0; i < out.n; i++)
    for (size_t v = 0; v < sizeof values; v++) {
      char old = out.at[i];
      out.at[i] = (char)values[v];
      Artefact *art = artefact_read(k->a, out.at, out.n, &variant);
      LaunchValue results[LAUNCH_VALUES];
      int64_t slots[ARTEFACT_SLOTS] = {0};
      if (art) launch_expr_run(&art->signature, slots, results);
      if (art && variant == 0) launch_expr_run(&art->variant[0].program, slots, results);
      out.at[i] = old;
    }
  CHECK(!artefact_read(k->a, out.at, out.n - 1, &variant));
  kit_close(k);
}

/* ---- processes ---- */

/* A writer that is killed at any moment leaves nothing that is mistaken for a valid file. */
TEST(killed_writers) {
  Kit *k = kit_open();
  for (int i = 0; i < 40; i++) {
    pid_t child = fork();
    if (child == 0)
      for (;;) store(k);
    nanosleep(&(struct timespec){.tv_nsec = i * 137000 % 2000000}, NULL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    Artefact *found = load(k);
    CHECK(!found || is_right(found));
  }
  CHECK(k->diags.first == NULL);
  char *left = arena_printf(k->a, "%s/.wavetmp-killed", k->settings.dir);
  write_file(left, "half a fi", 9);
  CacheEntry *e;
  CHECK(cache_list(k->a, k->settings.dir, &e) <= 1);
  cache_clear(k->settings.dir);
  CHECK_INT(files_in(k->settings.dir), 0);
  kit_close(k);
}

TEST(two_writers_and_a_reader) {
  Kit *k = kit_open();
  pid_t child[2];
  for (int i = 0; i < 2; i++)
    if ((child[i] = fork()) == 0) {
      for (int n = 0; n < 300; n++) store(k);
      _exit(k->diags.first != NULL);
    }
  int wrong = 0, status;
  for (int n = 0; n < 300; n++) {
    Artefact *found = load(k);
    wrong += found && !is_right(found);
  }
  for (int i = 0; i < 2; i++) {
    waitpid(child[i], &status, 0);
    CHECK_INT(status, 0);
  }
  CHECK_INT(wrong, 0);
  CHECK(is_right(load(k)));
  CHECK(k->diags.first == NULL);
  kit_close(k);
}

/* In a child process, which has its own limit: a disk on which a file cannot grow. */
TEST(full_disk) {
  Kit *k = kit_open();
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){64, 64});
    store(k);
    bool warned = k->diags.first && k->diags.first->code == DIAG_W0901;
    _exit(!warned || k->diags.errors || files_in(k->settings.dir) != 0);
  }
  int status;
  waitpid(child, &status, 0);
  CHECK_INT(status, 0);
  CHECK(!load(k));
  kit_close(k);
}

TEST(folder_that_cannot_be) {
  Kit *k = kit_open();
  const char *dir = k->settings.dir;
  k->settings.dir = "/proc/no/such/folder";
  store(k);
  CHECK(k->diags.first && k->diags.first->code == DIAG_W0901);
  CHECK_INT(k->diags.errors, 0);
  CHECK(!load(k));
  CacheEntry *e;
  CHECK_INT(cache_list(k->a, k->settings.dir, &e), 0);
  k->settings.dir = arena_printf(k->a, "%s/some/way/down", dir);
  diags_clear(&k->diags);
  store(k);
  CHECK(k->diags.first == NULL && is_right(load(k)));
  cache_clear(k->settings.dir);
  rmdir(k->settings.dir);
  rmdir(arena_printf(k->a, "%s/some/way", dir));
  rmdir(arena_printf(k->a, "%s/some", dir));
  k->settings.dir = dir;
  kit_close(k);
}

/* ---- the limit ---- */

static void store_as(Kit *k, const char *name) {
  cache_store(&k->settings, name, &k->art, 0, &k->diags);
}

static bool is_there(Kit *k, const char *name) {
  CacheSettings s = k->settings;
  return cache_load(k->a, &s, name, &k->diags) != NULL;
}

/* Each file a second older than the next. */
static void age_files(Kit *k, const char *const *names, int n) {
  for (int i = 0; i < n; i++) {
    Kit one = *k;
    CacheEntry *e;
    struct timespec at[2] = {{.tv_sec = 1000000 + i}, {.tv_sec = 1000000 + i}};
    one.settings.limit = 0;
    int before = cache_list(k->a, k->settings.dir, &e);
    store_as(&one, names[i]);
    int after = cache_list(k->a, k->settings.dir, &e);
    for (int f = 0; f < after && before < after; f++)
      if (e[f].used > 2000000) utimensat(AT_FDCWD, e[f].path, at, 0);
  }
}

static int64_t bytes_in(Kit *k) {
  CacheEntry *e;
  int64_t sum = 0;
  int n = cache_list(k->a, k->settings.dir, &e);
  for (int i = 0; i < n; i++) sum += e[i].bytes;
  return sum;
}

static const char *const four[] = {"key 0", "key 1", "key 2", "key 3"};

/* Room for four: the fifth evicts the one used least recently, not the one written first. */
TEST(least_recently_used) {
  Kit *k = kit_open();
  age_files(k, four, 4);
  k->settings.limit = bytes_in(k);
  CHECK(is_there(k, four[0])); /* used now */
  store_as(k, "key 4");
  CHECK(is_there(k, four[0]) && !is_there(k, four[1]) && is_there(k, four[2]));
  CHECK(is_there(k, "key 4") && bytes_in(k) <= k->settings.limit);
  k->settings.limit = 0; /* none */
  for (int i = 0; i < 4; i++) store_as(k, four[i]);
  CacheEntry *e;
  CHECK_INT(cache_list(k->a, k->settings.dir, &e), 5);
  CHECK(k->diags.first == NULL);
  kit_close(k);
}

/* A lowered limit applies from the next file on; one smaller than any file keeps none, without a
 * message. */
TEST(small_limits) {
  Kit *k = kit_open();
  age_files(k, four, 4);
  int64_t one = bytes_in(k) / 4;
  CacheEntry *e;
  k->settings.limit = one * 2;
  store_as(k, four[3]);
  CHECK_INT(cache_list(k->a, k->settings.dir, &e), 2);
  CHECK(is_there(k, four[3]) && is_there(k, four[2]));
  k->settings.limit = one - 1;
  store_as(k, "key 4");
  CHECK(!is_there(k, "key 4"));
  CHECK_INT(cache_list(k->a, k->settings.dir, &e), 0);
  CHECK(k->diags.first == NULL);
  kit_close(k);
}

/* Other files in the folder are never removed; what a killed writer left long ago is. */
TEST(only_our_files) {
  Kit *k = kit_open();
  char *theirs = arena_printf(k->a, "%s/notes.txt", k->settings.dir);
  char *old = arena_printf(k->a, "%s/%sold", k->settings.dir, CACHE_TEMPORARY);
  char *fresh = arena_printf(k->a, "%s/%sfresh", k->settings.dir, CACHE_TEMPORARY);
  struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
  write_file(theirs, "a very long note", 16);
  write_file(old, "half", 4);
  write_file(fresh, "half", 4);
  utimensat(AT_FDCWD, old, long_ago, 0);
  age_files(k, four, 4);
  k->settings.limit = bytes_in(k) / 4;
  store_as(k, four[0]);
  CHECK_INT(access(theirs, F_OK), 0);
  CHECK_INT(access(fresh, F_OK), 0);
  CHECK(access(old, F_OK) != 0);
  unlink(theirs), unlink(fresh);
  kit_close(k);
}

/* Writers and readers in several processes, and room for a third of the files. */
TEST(several_processes_evict) {
  enum { WRITERS = 3, KEYS = 9, ROUNDS = 120 };
  Kit *k = kit_open();
  store(k);
  k->settings.limit = bytes_in(k) * KEYS / 3;
  pid_t child[WRITERS];
  for (int w = 0; w < WRITERS; w++)
    if ((child[w] = fork()) == 0) {
      int wrong = 0;
      for (int n = 0; n < ROUNDS; n++) {
        const char *name = arena_printf(k->a, "key %d", (n * 7 + w * 3) % KEYS);
        Artefact *found = cache_load(k->a, &k->settings, name, &k->diags);
        wrong += found && !is_right(found);
        if (!found) store_as(k, name);
      }
      _exit(wrong || k->diags.first);
    }
  for (int w = 0, status; w < WRITERS; w++) {
    waitpid(child[w], &status, 0);
    CHECK_INT(status, 0);
  }
  store_as(k, "the last");
  CHECK(bytes_in(k) <= k->settings.limit && is_there(k, "the last"));
  kit_close(k);
}

TEST(sizes_as_text) {
  static const struct {
    const char *text;
    int64_t bytes; /* -1: no size */
  } rows[] = {{"0", 0},
              {"12", 12},
              {"3K", 3072},
              {"2m", 2 << 20},
              {"1G", 1 << 30},
              {"", -1},
              {"M", -1},
              {"1.5G", -1},
              {"-1", -1},
              {"1KB", -1},
              {"12 K", -1},
              {"9999999999G", -1},
              {"99999999999999999999", -1}};
  for (size_t i = 0; i < WV_LEN(rows); i++) {
    int64_t bytes = -1;
    bool ok = environment_parse_size(rows[i].text, &bytes);
    CHECK_INT(ok, rows[i].bytes >= 0);
    CHECK_INT(bytes, rows[i].bytes);
  }
}

/* An invalid limit is reported, and the default applies. */
TEST(limit_that_is_none) {
  Kit *k = kit_open();
  setenv("WAVE_CACHE_SIZE", "lots", 1);
  CacheSettings s = cache_settings(k->a, 1, k->settings.dir);
  unsetenv("WAVE_CACHE_SIZE");
  CHECK(s.limit > 0);
  cache_store(&s, key, &k->art, 0, &k->diags);
  CHECK(k->diags.first && k->diags.first->code == DIAG_W0901 &&
        has(k->diags.first->text, "`lots`, which is not a size"));
  CHECK(is_right(load(k)));
  setenv("WAVE_CACHE_SIZE", "64K", 1);
  CHECK_INT(cache_settings(k->a, 1, NULL).limit, 65536);
  unsetenv("WAVE_CACHE_SIZE");
  kit_close(k);
}

/* ---- settings ---- */

TEST(environment) {
  Arena *a = arena_new();
  unsetenv("WAVE_CACHE_ON"), unsetenv("WAVE_ALWAYS_COMPILE"), unsetenv("WAVE_CACHE_DIR");
  setenv("XDG_CACHE_HOME", "/x", 1);
  CacheSettings s = cache_settings(a, 0, NULL);
  CHECK(s.read && s.write);
  CHECK_STR(s.dir, "/x/wave");
  setenv("HOME", "/home/me", 1);
  setenv("XDG_CACHE_HOME", "relative/path", 1); /* the folder would depend on where we are run */
  CHECK_STR(cache_settings(a, 0, NULL).dir, "/home/me/.cache/wave");
  unsetenv("XDG_CACHE_HOME");
  CHECK_STR(cache_settings(a, 0, NULL).dir, "/home/me/.cache/wave");
  setenv("WAVE_CACHE_DIR", "/here", 1);
  CHECK_STR(cache_settings(a, 0, NULL).dir, "/here");
  CHECK_STR(cache_settings(a, 0, "/there").dir, "/there");
  setenv("WAVE_ALWAYS_COMPILE", "1", 1);
  s = cache_settings(a, 0, NULL);
  CHECK(!s.read && s.write);
  unsetenv("WAVE_ALWAYS_COMPILE");
  setenv("WAVE_CACHE_ON", "0", 1);
  s = cache_settings(a, 0, NULL);
  CHECK(!s.read && !s.write);
  CHECK(cache_settings(a, 1, NULL).read);
  setenv("WAVE_CACHE_ON", "1", 1);
  CHECK(!cache_settings(a, -1, NULL).write);
  unsetenv("WAVE_CACHE_ON"), unsetenv("WAVE_CACHE_DIR"), unsetenv("HOME");
  s = cache_settings(a, 0, NULL);
  CHECK(!s.dir && !s.read && !s.write);
  arena_free(a);
}

/* ---- programs ---- */

static const char text[] = "kernel @copy(%a: mem<M, f32>, %b: mem<M, f32>)\n"
                           "  bind M = 1024; hardware threads 32; workgroup M by 64 on 0\n"
                           "{\n  %x = read %a\n  write %x, %b\n}\n";

/* Compiles; returns whether it came from the cache, and its PTX in `ptx`. */
static bool from_cache(wv_ctx *cx, const char *source, const wv_compile_options *o, char *ptx) {
  wv_kernel *k = kit_parse(cx, source);
  wv_program *p = k ? wv_compile(k, o) : NULL;
  wv_variant v = {0};
  if (p && wv_program_variant(p, 0, &v)) strcpy(ptx, wv_program_text(p, cx, 0, "ptx"));
  wv_program_free(p);
  wv_kernel_free(k);
  return v.from_cache;
}

TEST(programs_come_back) {
  Kit *k = kit_open();
  FakeCuda *fake = fake_open(FAKE_CUDA);
  wv_ctx *cx = wv_ctx_new();
  wv_compile_options o = {.cache = 1, .cache_dir = k->settings.dir};
  char *first = arena_alloc(k->a, 1 << 16), *second = arena_alloc(k->a, 1 << 16);
  CHECK(!from_cache(cx, text, &o, first));
  CHECK(from_cache(cx, text, &o, second));
  CHECK_STR(second, first);
  CHECK_INT(fake->loads, 2);
  o.target = "sm_80";
  CHECK(!from_cache(cx, text, &o, second));
  o.target = NULL;
  char *other = arena_strdup(k->a, text);
  memcpy(strstr(other, "1024"), "2048", 4);
  CHECK(!from_cache(cx, other, &o, second));
  CacheEntry *e;
  CHECK_INT(cache_list(k->a, k->settings.dir, &e), 3);
  for (int i = 0; i < 3; i++) write_file(e[i].path, "nonsense", 8);
  CHECK(!from_cache(cx, text, &o, second));
  CHECK_STR(second, first);
  CHECK(has(said(cx, "W0901"), "is not used: it is too short"));
  wv_ctx_free(cx);
  kit_close(k);
}

/* The messages of a program when it is compiled, loaded, or a variant of it is needed. */
static const char *remarks_of(Arena *a, const char *dir) {
  static const char dynamic[] = "kernel @copy(%a: mem<M, f32>, %b: mem<M, f32>)\n"
                                "  dynamic M; hardware threads 32; workgroup M by 64 on 0\n"
                                "{\n  %x = read %a\n  write %x, %b\n}\n";
  StrBuf out = {.arena = a};
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = kit_parse(cx, dynamic);
  wv_program *p = wv_compile(k, &(wv_compile_options){.cache = 1, .cache_dir = dir});
  Tensor x, y;
  tensor(&x, 0x10004, "f32", 1, (int64_t[]){100});
  tensor(&y, 0x20004, "f32", 1, (int64_t[]){100});
  wv_launch_arg args[] = {{.tensor = &x.t}, {.tensor = &y.t}};
  sb_printf(&out, "%d\n", wv_launch(p, cx, args, 2, NULL, 0));
  wv_diag d;
  for (int i = 0; i < wv_diag_count(cx); i++)
    if (wv_diag_get(cx, i, &d)) sb_puts(&out, d.rendered);
  wv_variant v;
  for (int i = 0; wv_program_variant(p, i, &v); i++) {
    const char *said = v.compiled ? wv_program_text(p, cx, i, "remarks") : NULL;
    if (said) sb_printf(&out, "variant %d\n%s", i, said);
  }
  wv_program_free(p);
  wv_kernel_free(k);
  wv_ctx_free(cx);
  return sb_text(&out);
}

TEST(remarks_come_back) {
  Kit *k = kit_open();
  fake_open(FAKE_CUDA);
  const char *first = remarks_of(k->a, k->settings.dir);
  CacheEntry *e;
  CHECK_INT(cache_list(k->a, k->settings.dir, &e), 2); /* two variants were needed */
  CHECK(has(first, "remark[R"));
  CHECK_STR(remarks_of(k->a, k->settings.dir), first);
  kit_close(k);
}

TESTS_MAIN(RUN(stored_and_loaded) RUN(hashes_may_collide) RUN(every_byte_damaged) RUN(every_length)
               RUN(nonsense_inside) RUN(killed_writers) RUN(two_writers_and_a_reader) RUN(full_disk)
                   RUN(folder_that_cannot_be) RUN(least_recently_used) RUN(small_limits)
                       RUN(only_our_files) RUN(several_processes_evict) RUN(sizes_as_text)
                           RUN(limit_that_is_none) RUN(environment) RUN(programs_come_back)
                               RUN(remarks_come_back))
