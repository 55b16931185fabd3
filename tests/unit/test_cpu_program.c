/* test_cpu_program.c: programs for the CPU of this machine through wave.h: compiled, launched on
 * the pool, cached, rejected. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit/harness.h"
#include "wave.h"

static const char scale[] =
    "thread kernel @scale(%a: mem<M, N, f32>, %b: mem<M, N, f32>, %s: f32)\n"
    "  launch grid (M, ceiling(N/4)) block (1) wave 1\n  dynamic M, N\n"
    "{\n  %at = expr $WG0*N + $WG1*4 : index\n"
    "  %m0 = expr $WG1*4 < N : i1\n  %m1 = expr $WG1*4 + 1 < N : i1\n"
    "  %m2 = expr $WG1*4 + 2 < N : i1\n  %m3 = expr $WG1*4 + 3 < N : i1\n"
    "  %m = join %m0, %m1, %m2, %m3\n"
    "  %x = load %a, %at, %m : vec<4, f32>\n  %y = mul %x, %s\n"
    "  store %y, %b, %at, %m\n}\n";

typedef struct Bench {
  wv_ctx *cx;
  wv_kernel *kernel;
  wv_program *program;
} Bench;

static void print_diags(wv_ctx *cx) {
  wv_diag d;
  for (int i = 0; i < wv_diag_count(cx); i++)
    if (wv_diag_get(cx, i, &d)) printf("%s", d.rendered);
}

/* There is no program without a libLLVM; tests are skipped then. */
static Bench open_bench(const char *text, const wv_compile_options *o) {
  Bench b = {.cx = wv_ctx_new()};
  static const wv_compile_options plain = {.target = "cpu", .cache = -1};
  if (wv_parse(b.cx, "test.wave", text, &b.kernel, 1) != 1) print_diags(b.cx);
  if (wv_device_count(b.cx, WV_HOST) == 0) printf("skipped: there is no libLLVM\n");
  else b.program = wv_compile(b.kernel, o ? o : &plain);
  return b;
}

static void close_bench(Bench *b) {
  wv_program_free(b->program);
  wv_kernel_free(b->kernel);
  wv_ctx_free(b->cx);
}

static bool has_device(Bench *b) { return wv_device_count(b->cx, WV_HOST) > 0; }

/* m x n numbers times s; false: an element differs. */
static bool scales(wv_program *p, wv_ctx *cx, int64_t m, int64_t n, float s) {
  float *a = malloc(sizeof *a * (size_t)(m * n + 1)), *b = calloc((size_t)(m * n + 1), sizeof *b);
  int64_t shape[] = {m, n};
  wv_device host = {WV_HOST, 0};
  int f32 = wv_dtype_find("f32");
  wv_tensor x = {a, shape, NULL, 2, f32, host}, y = {b, shape, NULL, 2, f32, host};
  wv_launch_arg args[] = {{.tensor = &x}, {.tensor = &y}, {.number = (double)s}};
  for (int64_t i = 0; i < m * n; i++) a[i] = (float)(i % 1000);
  b[m * n] = 7; /* nothing after the end is written */
  bool ok = wv_launch(p, cx, args, 3, NULL, 0);
  for (int64_t i = 0; ok && i < m * n; i++) ok = b[i] == a[i] * s;
  ok = ok && b[m * n] == 7;
  free(a);
  free(b);
  return ok;
}

TEST(any_shape) {
  Bench b = open_bench(scale, NULL);
  static const int64_t sizes[][2] = {{1, 1},     {3, 4}, {7, 13}, {100, 64},
                                     {64, 1003}, {0, 5}, {5, 0}};
  if (has_device(&b)) CHECK(b.program != NULL);
  for (size_t i = 0; b.program && i < sizeof sizes / sizeof *sizes; i++)
    CHECK(scales(b.program, b.cx, sizes[i][0], sizes[i][1], 3));
  print_diags(b.cx);
  close_bench(&b);
}

TEST(what_it_says) {
  Bench b = open_bench(scale, NULL);
  wv_device_info info;
  wv_resources r;
  if (b.program) {
    const char *llvm = wv_program_text(b.program, b.cx, 0, "llvm");
    const char *ir = wv_program_text(b.program, b.cx, 0, "ir");
    CHECK(llvm && strstr(llvm, "define i32 @wave_scale("));
    CHECK(ir && strstr(ir, "thread kernel @scale"));
    CHECK(!wv_program_text(b.program, b.cx, 0, "ptx"));
    CHECK_INT(wv_program_kind(b.program), WV_HOST);
    CHECK(wv_device_get(b.cx, (wv_device){WV_HOST, 0}, &info) && info.units > 0);
    CHECK(!wv_device_get(b.cx, (wv_device){WV_HOST, 1}, &info));
    CHECK(wv_program_resources(b.program, b.cx, 0, 0, &r) && r.workgroups >= 1);
  }
  close_bench(&b);
}

typedef struct Caller {
  wv_program *program;
  bool ok;
} Caller;

static void *call_often(void *user) {
  Caller *c = user;
  wv_ctx *cx = wv_ctx_new();
  c->ok = true;
  for (int i = 0; i < 60; i++) c->ok &= scales(c->program, cx, 1 + i % 9, 5 + i, (float)i);
  wv_ctx_free(cx);
  return NULL;
}

TEST(several_threads) {
  Bench b = open_bench(scale, NULL);
  Caller callers[4];
  pthread_t thread[4];
  for (int i = 0; b.program && i < 4; i++) {
    callers[i].program = b.program;
    pthread_create(&thread[i], NULL, call_often, &callers[i]);
  }
  for (int i = 0; b.program && i < 4; i++) {
    pthread_join(thread[i], NULL);
    CHECK(callers[i].ok);
  }
  close_bench(&b);
}

/* The second program comes from the cache, and computes the same. */
TEST(from_the_cache) {
  char dir[] = "/tmp/wave-test-XXXXXX";
  CHECK(mkdtemp(dir) != NULL);
  wv_compile_options o = {.target = "cpu", .cache = 1, .cache_dir = dir};
  for (int turn = 0; turn < 2; turn++) {
    Bench b = open_bench(scale, &o);
    wv_variant v;
    if (b.program) {
      CHECK(wv_program_variant(b.program, 0, &v) && v.from_cache == (turn == 1));
      CHECK(scales(b.program, b.cx, 9, 17, 2));
      CHECK(strstr(wv_program_text(b.program, b.cx, 0, "llvm"), "wave_scale"));
    }
    if (turn) wv_cache_clear(b.cx, dir);
    close_bench(&b);
  }
  rmdir(dir);
}

static bool refuses(const char *text, const char *code, const char *words) {
  Bench b = open_bench(text, NULL);
  wv_diag d;
  bool found = !has_device(&b);
  for (int i = 0; i < wv_diag_count(b.cx); i++)
    found |= wv_diag_get(b.cx, i, &d) && strcmp(d.code, code) == 0 && strstr(d.text, words);
  found &= !b.program;
  if (!found) print_diags(b.cx);
  close_bench(&b);
  return found;
}

TEST(refusals) {
  CHECK(refuses("thread kernel @k(%a: mem<N, f32>)\n  launch grid (1) block (8) wave 8 shared 128\n"
                "  bind N = 8\n{\n  %c = alloc : mem<64, i16, shared>\n  %z = scalar 0 : i32\n"
                "  %x = ldmatrix %c, %z : vec<2, i16>\n}\n",
                "E0615", "ldmatrix"));
  CHECK(refuses("thread kernel @k(%a: mem<N, f32>)\n  launch grid (1) block (1) wave 1\n"
                "  bind N = 8\n{\n  %z = scalar 0 : index\n  %x = load %a, %z : f32\n"
                "  %y = shuffle xor %x {by = 1}\n  store %y, %a, %z\n}\n",
                "E0601", "shuffle"));
}

/* More expressions of sizes than a program can be given arguments. */
static void *compile_once(void *compiled) {
  Bench b = open_bench(scale, NULL);
  close_bench(&b);
  atomic_store((atomic_bool *)compiled, true);
  return NULL;
}

TEST(nobody_compiles_in_a_process_that_ends) {
  Bench b = open_bench(scale, NULL);
  bool is_there = b.program != NULL;
  close_bench(&b);
  if (!is_there) return;
  atomic_bool compiled = false;
  pthread_t thread;
  wv_exiting(true);
  pthread_create(&thread, NULL, compile_once, &compiled);
  usleep(50000);
  CHECK(!atomic_load(&compiled));
  wv_exiting(false); /* it continues after all */
  pthread_join(thread, NULL);
  CHECK(atomic_load(&compiled));
}

TEST(more_numbers_than_arguments) {
  enum { STORES = 300, N = 701 };
  char *text = malloc(1 << 16), *at = text;
  int32_t values[STORES] = {0};
  int64_t shape[] = {STORES}, other[] = {N};
  wv_device host = {WV_HOST, 0};
  int i32 = wv_dtype_find("i32");
  wv_tensor x = {values, shape, NULL, 1, i32, host}, y = {values, other, NULL, 1, i32, host};
  wv_launch_arg args[] = {{.tensor = &x}, {.tensor = &y}};
  at += sprintf(at, "thread kernel @many(%%a: mem<M, i32>, %%b: mem<N, i32>)\n  dynamic M, N\n"
                    "  launch grid (1) block (1) wave 1\n{\n");
  for (int i = 0; i < STORES; i++)
    at += sprintf(at,
                  "  %%v%d = expr floor(%d*N/(N + %d)) : i32\n  %%o%d = expr %d : index\n"
                  "  store %%v%d, %%a, %%o%d\n",
                  i, i * i, i + 1, i, i, i, i);
  sprintf(at, "}\n");
  Bench b = open_bench(text, NULL);
  if (!has_device(&b)) return close_bench(&b), free(text);
  int wrong = 0;
  CHECK(b.program && wv_launch(b.program, b.cx, args, 2, NULL, 0));
  for (int i = 0; i < STORES; i++) wrong += values[i] != i * i * N / (N + i + 1);
  CHECK_INT(wrong, 0);
  free(text);
  close_bench(&b);
}

TESTS_MAIN(RUN(any_shape) RUN(what_it_says) RUN(several_threads) RUN(from_the_cache) RUN(refusals)
               RUN(nobody_compiles_in_a_process_that_ends) RUN(more_numbers_than_arguments))
