/* bench_runtime.c: what launches cost beside the driver's own, and how long it takes until a kernel
 * is loaded. Needs a GPU.
 *
 *     bench_runtime launch          ns of a launch with four tensors, and of the driver's alone
 *     bench_runtime maps            ns of a launch with two tensor maps
 *     bench_runtime compile FILE    ms from a kernel's text to code on the GPU; WAVE_CACHE_ON=0 and
 *                                   CUDA_CACHE_DISABLE=1 make it cold */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "wave.h"

enum { ROUNDS = 100, EACH = 200 }; /* launches of one round do not fill the driver's queue */

static const wv_device gpu = {WV_CUDA, 0};

static int fail(wv_ctx *cx, const char *what) {
  wv_diag d;
  fprintf(stderr, "failed: %s\n", what);
  for (int i = 0; i < wv_diag_count(cx); i++)
    if (wv_diag_get(cx, i, &d) && *d.code == 'E') fputs(d.rendered, stderr);
  return 1;
}

typedef struct Bench {
  wv_ctx *cx;
  wv_kernel *k;
  wv_program *p;
} Bench;

static bool bench_open(Bench *b, const char *text) {
  *b = (Bench){.cx = wv_ctx_new()};
  if (wv_parse(b->cx, "bench.wave", text, &b->k, 1) == 1) b->p = wv_compile(b->k, NULL);
  return b->p != NULL;
}

static void bench_close(Bench *b) {
  wv_program_free(b->p);
  wv_kernel_free(b->k);
  wv_ctx_free(b->cx);
}

/* ---- launch ---- */

static const char sum_text[] =
    "kernel @sum(%a: mem<M, N, f32>, %b: mem<M, N, f32>, %c: mem<M, N, f32>, %d: mem<M, N, f32>)\n"
    "  dynamic M; dynamic N\n"
    "  hardware threads 32\n"
    "  workgroup M by 1 on 0; workgroup N by 32 on 1; wave M by 1\n"
    "{\n"
    "  %x = read %a : tile<M, N, f32>\n"
    "  %y = read %b : tile<M, N, f32>\n"
    "  %z = read %c : tile<M, N, f32>\n"
    "  %s = add %x, %y\n"
    "  %t = add %s, %z\n"
    "  write %t, %d\n"
    "}\n";

typedef int LaunchFn(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                     unsigned by, unsigned bz, unsigned shared, void *stream, void **args,
                     void **extra);

/* The same code, loaded and launched without us. */
typedef struct Bare {
  LaunchFn *launch;
  void *function, *args[16];
  uint64_t values[16];
} Bare;

static void *driver_symbol(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  return memcpy(function, &symbol, sizeof symbol);
}

static bool bare_open(Bare *b, const char *ptx, const wv_tensor *tensors, int n) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *context, *module;
  int (*retain)(void **, int), (*enter)(void *);
  int (*load)(void **, const void *), (*get)(void **, void *, const char *);
  if (!library) return false;
  driver_symbol(library, "cuDevicePrimaryCtxRetain", &retain);
  driver_symbol(library, "cuCtxSetCurrent", &enter);
  driver_symbol(library, "cuModuleLoadData", &load);
  driver_symbol(library, "cuModuleGetFunction", &get);
  driver_symbol(library, "cuLaunchKernel", &b->launch);
  for (int i = 0; i < 16; i++) {
    b->values[i] = i < n ? (uint64_t)(uintptr_t)tensors[i].data : 32; /* sizes */
    b->args[i] = &b->values[i];
  }
  return !retain(&context, 0) && !enter(context) && !load(&module, ptx) &&
         !get(&b->function, module, "sum");
}

enum { BARE, SAME_SIZES, NEW_SIZES, WAYS };
static const char *const ways[] = {"cuLaunchKernel", "wv_launch, sizes as before",
                                   "wv_launch, other sizes each time"};

static double launch_round(Bench *b, Bare *bare, int way, const wv_launch_arg *args,
                           int64_t *shape) {
  double start = os_seconds();
  for (int i = 0; i < EACH; i++) {
    if (way == NEW_SIZES) shape[0] = 1 + i % 2;
    if (way == BARE) bare->launch(bare->function, 1, 1, 1, 32, 1, 1, 0, NULL, bare->args, NULL);
    else if (!wv_launch(b->p, b->cx, args, 4, NULL, 0)) exit(fail(b->cx, "launch"));
  }
  double each = (os_seconds() - start) / EACH;
  shape[0] = 1;
  if (!wv_device_wait(b->cx, gpu, NULL)) exit(fail(b->cx, "wait"));
  return each;
}

static int bench_launch(void) {
  Bench b;
  Bare bare;
  int64_t shape[2] = {1, 32};
  wv_tensor t[4];
  wv_launch_arg args[4] = {{0}};
  double best[WAYS], sum[WAYS] = {0};
  if (!bench_open(&b, sum_text)) return fail(b.cx, "compile");
  for (int i = 0; i < 4; i++) {
    void *memory = wv_device_alloc(b.cx, gpu, 256);
    t[i] = (wv_tensor){memory, shape, NULL, 2, wv_dtype_find("f32"), gpu};
    args[i].tensor = &t[i];
  }
  if (!bare_open(&bare, wv_program_text(b.p, b.cx, 0, "ptx"), t, 4)) return fail(b.cx, "driver");
  for (int round = -5; round < ROUNDS; round++) /* the first ones warm up */
    for (int way = 0; way < WAYS; way++) {
      double each = launch_round(&b, &bare, way, args, shape);
      if (round <= 0 || each < best[way]) best[way] = each;
      if (round >= 0) sum[way] += each;
    }
  for (int way = 0; way < WAYS; way++)
    printf("%-34s best %5.0f ns, mean %5.0f ns; above the driver %4.0f and %4.0f\n", ways[way],
           best[way] * 1e9, sum[way] / ROUNDS * 1e9, (best[way] - best[BARE]) * 1e9,
           (sum[way] - sum[BARE]) / ROUNDS * 1e9);
  bench_close(&b);
  return 0;
}

/* ---- tensor maps ---- */

static const char maps_text[] =
    "thread kernel @maps(%a: mem<M, 64, f16>, %b: mem<M, 64, f16>)\n"
    "  launch grid (1) block (128) wave 32 shared 16400\n"
    "  dynamic M\n"
    "{\n"
    "  %s = alloc {base = 0} : mem<64, 64, f16, shared>\n"
    "  %bar = alloc {base = 16384} : mem<1, i64, shared>\n"
    "  %s0 = scalar 0 : i32\n"
    "  if ($T0 < 1) {\n"
    "    mbar_init %bar, %s0 {count = 1}\n"
    "    mbar_expect %bar, %s0 {bytes = 8192}\n"
    "    mbar_arrive %bar, %s0\n"
    "    tma_load %s, %s0, %bar, %s0, %a, %s0, %s0 {box = [64, 64], swizzle = 128}\n"
    "  }\n"
    "  barrier workgroup\n"
    "  mbar_wait %bar, %s0, %s0\n"
    "  fence_proxy\n"
    "  barrier workgroup\n"
    "  if ($T0 < 1) {\n"
    "    tma_store %s, %s0, %b, %s0, %s0 {box = [64, 64], swizzle = 128}\n"
    "    bulk_commit\n"
    "    bulk_wait 0\n"
    "  }\n"
    "}\n";

static int bench_maps(void) {
  static const char *const what[] = {"nothing changed", "one address moved", "sizes changed"};
  Bench b;
  int64_t shape[2] = {50, 64};
  double best[3];
  if (!bench_open(&b, maps_text)) return fail(b.cx, "compile");
  char *memory = wv_device_alloc(b.cx, gpu, 3 << 13);
  wv_tensor t[2] = {{memory, shape, NULL, 2, wv_dtype_find("f16"), gpu},
                    {memory + (2 << 13), shape, NULL, 2, wv_dtype_find("f16"), gpu}};
  wv_launch_arg args[2] = {{.tensor = &t[0]}, {.tensor = &t[1]}};
  for (int round = 0; round < ROUNDS; round++)
    for (int way = 0; way < 3; way++) {
      double start = os_seconds();
      for (int i = 0; i < EACH; i++) {
        t[0].data = memory + (way == 1) * (i % 2 << 13);
        shape[0] = 50 - (way == 2) * (i % 2);
        if (!wv_launch(b.p, b.cx, args, 2, NULL, 0)) return fail(b.cx, "launch");
      }
      double each = (os_seconds() - start) / EACH;
      if (!round || each < best[way]) best[way] = each;
      if (!wv_device_wait(b.cx, gpu, NULL)) return fail(b.cx, "wait");
    }
  for (int way = 0; way < 3; way++)
    printf("two maps, %-18s best %5.0f ns\n", what[way], best[way] * 1e9);
  bench_close(&b);
  return 0;
}

/* ---- compile ---- */

static int bench_compile_one(const char *path) {
  Arena *a = arena_new();
  size_t n;
  Bench b;
  const char *text = os_read_file(a, path, &n);
  wv_ctx *cx = wv_ctx_new();
  void *memory = wv_device_alloc(cx, gpu, 16); /* the context is there, as in a running program */
  if (!text || !memory) return fail(cx, path);
  double start = os_seconds();
  if (!bench_open(&b, text)) return fail(b.cx, "compile");
  double whole = os_seconds() - start;
  wv_variant v;
  wv_program_variant(b.p, 0, &v);
  printf("%s for %s: %.2f ms: %.2f %s, %.2f the driver\n", wv_program_name(b.p),
         wv_program_target(b.p), whole * 1e3, v.compile_ms,
         v.from_cache ? "from the cache" : "compiling", v.load_ms);
  bench_close(&b);
  wv_device_release(cx, gpu, memory);
  wv_ctx_free(cx);
  arena_free(a);
  return 0;
}

int main(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  if (strcmp(word, "launch") == 0) return bench_launch();
  if (strcmp(word, "maps") == 0) return bench_maps();
  if (strcmp(word, "compile") == 0 && argc > 2) return bench_compile_one(argv[2]);
  fprintf(stderr, "bench_runtime launch | maps | compile FILE\n");
  return 2;
}
