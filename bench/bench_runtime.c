/* bench_runtime.c: the cost of launches beyond the driver's own, and the time until a kernel is
 * loaded. Needs a GPU.
 *
 *     bench_runtime launch          ns of a launch with four tensors above the driver's alone
 *     bench_runtime maps            the same with two tensor maps
 *     bench_runtime compile FILE    ms from a kernel's text to code on the GPU; WAVE_CACHE_ON=0 and
 *                                   CUDA_CACHE_DISABLE=1 make it cold
 *
 * Launches are measured in pairs of batches, one of the driver's function alone and one through
 * Wave, in turns, on one core; the result is the median of their differences. A disturbance affects
 * both batches, or a pair that the median ignores. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "wave.h"

enum { PAIRS = 2000, EACH = 50 }; /* launches of one batch do not fill the driver's queue */

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

/* ---- the driver alone ---- */

typedef int LaunchFn(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                     unsigned by, unsigned bz, unsigned shared, void *stream, void **args,
                     void **extra);
typedef int EncodeFn(void *map, int element, uint32_t rank, void *address, const uint64_t *sizes,
                     const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                     int interleave, int swizzle, int promotion, int fill);

enum { BARE_ARGS = 16 };

/* The same code, loaded and launched without Wave. */
typedef struct Bare {
  LaunchFn *launch;
  EncodeFn *encode;
  int (*move)(void *map, void *address);
  void *function, *args[BARE_ARGS];
  unsigned threads, shared;
  uint64_t values[BARE_ARGS];
  _Alignas(64) char map[2][128];
} Bare;

static void driver_symbol(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
}

static bool bare_open(Bare *b, const char *ptx, const char *entry) {
  const char *name = getenv("WAVE_CUDA_LIB");
  void *library = dlopen(name ? name : "libcuda.so.1", RTLD_NOW), *context, *module;
  int (*find)(int *, int), (*retain)(void **, int), (*enter)(void *), device = 0;
  int (*load)(void **, const void *, unsigned, int *, void **);
  int (*get)(void **, void *, const char *);
  if (!library) return false;
  driver_symbol(library, "cuDeviceGet", &find);
  driver_symbol(library, "cuDevicePrimaryCtxRetain", &retain);
  driver_symbol(library, "cuCtxSetCurrent", &enter);
  driver_symbol(library, "cuModuleLoadDataEx", &load);
  driver_symbol(library, "cuModuleGetFunction", &get);
  driver_symbol(library, "cuLaunchKernel", &b->launch);
  driver_symbol(library, "cuTensorMapEncodeTiled", &b->encode);
  driver_symbol(library, "cuTensorMapReplaceAddress", &b->move);
  return !find(&device, gpu.index) && !retain(&context, device) && !enter(context) &&
         !load(&module, ptx, 0, NULL, NULL) && !get(&b->function, module, entry);
}

/* ---- pairs of batches ---- */

/* The work of a batch; `step` is the number of the launch in it. */
typedef struct Run {
  Bench *b;
  Bare *bare;
  wv_tensor t[4];
  wv_launch_arg args[4];
  int nargs;
  int64_t shape[2];
  char *memory;
} Run;

typedef void Change(Run *r, int step);

static double batch(Run *r, bool bare, Change *change) {
  Bare *d = r->bare;
  double start = os_seconds();
  for (int i = 0; i < EACH; i++) {
    if (change) change(r, i);
    int error = 0;
    if (bare)
      error = d->launch(d->function, 1, 1, 1, d->threads, 1, 1, d->shared, NULL, d->args, NULL);
    else error = !wv_launch(r->b->p, r->b->cx, r->args, r->nargs, NULL, 0);
    if (error) exit(fail(r->b->cx, bare ? "the driver's launch" : "launch"));
  }
  double each = (os_seconds() - start) / EACH;
  if (!wv_device_wait(r->b->cx, gpu, NULL)) exit(fail(r->b->cx, "wait"));
  return each * 1e9;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The order alternates from pair to pair. `change` is part of both. */
static void compare(Run *r, const char *what, Change *change) {
  static double bare[PAIRS], above[PAIRS];
  for (int i = -20; i < PAIRS; i++) { /* the first ones warm up */
    bool turn = i & 1;
    double first = batch(r, turn, change), second = batch(r, !turn, change);
    if (i < 0) continue;
    bare[i] = turn ? first : second;
    above[i] = (turn ? second : first) - bare[i];
  }
  qsort(bare, PAIRS, sizeof *bare, by_value);
  qsort(above, PAIRS, sizeof *above, by_value);
  printf("%-36s driver %5.0f ns, above it %4.0f ns (half of all pairs: %.0f to %.0f)\n", what,
         bare[PAIRS / 2], above[PAIRS / 2], above[PAIRS / 4], above[PAIRS * 3 / 4]);
}

static void stay_on_one_core(void) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET((size_t)sched_getcpu(), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) perror("not on one core");
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

static void other_sizes(Run *r, int step) { r->shape[0] = 1 + step % 2; }

static void other_address(Run *r, int step) { r->t[0].data = r->memory + (step % 2 << 13); }

static void take_tensors(Run *r, int n, const char *dtype) {
  r->memory = wv_device_alloc(r->b->cx, gpu, 5 << 13);
  r->nargs = n;
  for (int i = 0; i < n; i++) {
    char *data = r->memory + ((i ? i + 1 : 0) << 13);
    r->t[i] = (wv_tensor){data, r->shape, NULL, 2, wv_dtype_find(dtype), gpu};
    r->args[i].tensor = &r->t[i];
  }
}

static int bench_launch(void) {
  Bench b;
  Bare bare = {.threads = 32};
  Run r = {.b = &b, .bare = &bare, .shape = {1, 32}};
  if (!bench_open(&b, sum_text)) return fail(b.cx, "compile");
  take_tensors(&r, 4, "f32");
  if (!bare_open(&bare, wv_program_text(b.p, b.cx, 0, "ptx"), "sum")) return fail(b.cx, "driver");
  for (int i = 0; i < BARE_ARGS; i++) {
    bare.values[i] = i < 4 ? (uint64_t)(uintptr_t)r.t[i].data : 32; /* sizes */
    bare.args[i] = &bare.values[i];
  }
  compare(&r, "4 tensors, as before", NULL);
  compare(&r, "4 tensors, one elsewhere each time", other_address);
  compare(&r, "4 tensors, other sizes each time", other_sizes);
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

static int encode_bare(Bare *b, int i, const wv_tensor *t) {
  enum { HALF = 1, SWIZZLE_128 = 3, L2_256 = 3 };
  uint64_t sizes[2] = {64, (uint64_t)t->shape[0]}, strides[1] = {128};
  uint32_t box[2] = {64, 64}, steps[2] = {1, 1};
  return b->encode(b->map[i], HALF, 2, t->data, sizes, strides, box, steps, 0, SWIZZLE_128, L2_256,
                   0);
}

/* The cost of the driver's own functions. */
static int bench_encode(Bare *b, const wv_tensor *t) {
  enum { CALLS = 100000 };
  int errors = 0;
  double start = os_seconds();
  for (int i = 0; i < CALLS; i++) errors += encode_bare(b, 0, t) != 0;
  double encoded = os_seconds();
  for (int i = 0; i < CALLS; i++) errors += b->move(b->map[0], t->data) != 0;
  double moved = os_seconds();
  printf("the driver: a map is made in %.0f ns, moved in %.0f ns\n",
         (encoded - start) / CALLS * 1e9, (moved - encoded) / CALLS * 1e9);
  return errors;
}

static int bench_maps(void) {
  Bench b;
  Bare bare = {.threads = 128, .shared = 16400};
  Run r = {.b = &b, .bare = &bare, .shape = {2, 64}};
  if (!bench_open(&b, maps_text)) return fail(b.cx, "compile");
  take_tensors(&r, 2, "f16");
  if (!bare_open(&bare, wv_program_text(b.p, b.cx, 0, "ptx"), "maps")) return fail(b.cx, "driver");
  for (int i = 0; i < 2; i++) {
    if (encode_bare(&bare, i, &r.t[i])) return fail(b.cx, "a map");
    bare.values[i] = (uint64_t)(uintptr_t)r.t[i].data;
    bare.args[i] = &bare.values[i]; /* addresses are passed first, then maps */
    bare.args[2 + i] = bare.map[i];
  }
  if (bench_encode(&bare, &r.t[0])) return fail(b.cx, "a map");
  compare(&r, "2 maps, as before", NULL);
  compare(&r, "2 maps, one moved each time", other_address);
  compare(&r, "2 maps, other sizes each time", other_sizes);
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
  void *memory = wv_device_alloc(cx, gpu, 16); /* the context exists, as in a running program */
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
  stay_on_one_core();
  if (strcmp(word, "launch") == 0) return bench_launch();
  if (strcmp(word, "maps") == 0) return bench_maps();
  if (strcmp(word, "compile") == 0 && argc > 2) return bench_compile_one(argv[2]);
  fprintf(stderr, "bench_runtime launch | maps | compile FILE\n");
  return 2;
}
