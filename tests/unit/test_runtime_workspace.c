/* test_runtime_workspace.c: memory that kernels need besides their arguments: a block of zeros for
 * each stream. */
#define _XOPEN_SOURCE 700
#include <pthread.h>
#include <unistd.h>

#include "unit/runtime_kit.h"

/* Two workspaces in one block: N elements, and one. */
static const char text[] =
    "thread kernel @tickets(%order: mem<N, i32>, %w: mem<N, i32> workspace,\n"
    "                       %count: mem<1, i32> workspace)\n"
    "  launch grid (N) block (32) wave 32\n"
    "  dynamic N\n"
    "{\n"
    "  if ($T0 < 1) {\n"
    "    %zero = scalar 0 : i32\n"
    "    %one = scalar 1 : i32\n"
    "    %ticket = atomic add %one, %count, %zero : i32\n"
    "    %more = atomic add %one, %w, %ticket : i32\n"
    "    %sum = add %ticket, %more\n"
    "    store %sum, %order, %ticket\n"
    "    %back = atomic xchg %zero, %w, %ticket : i32\n"
    "    %last = expr $APPLY_EXPR_ARG_0 + 1 >= N %ticket : i1\n"
    "    if %last {\n"
    "      %left = atomic xchg %zero, %count, %zero : i32\n"
    "    }\n"
    "  }\n"
    "}\n";

enum { ORDER, W, COUNT }; /* arguments of the code */

typedef struct Call {
  Tensor t;
  wv_launch_arg arg;
} Call;

static bool launch(Bench *b, int64_t n, void *stream) {
  Call c;
  wv_diag_clear(b->cx);
  c.arg = (wv_launch_arg){.tensor = &tensor(&c.t, 0x10000, "i32", 1, (int64_t[]){n})->t};
  return wv_launch(b->p, b->cx, &c.arg, 1, stream, 0);
}

static bool is_zero(const char *memory, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i++)
    if (memory[i]) return false;
  return true;
}

TEST(one_block_for_each_stream) {
  Bench b = bench_open(text, NULL);
  int streams[2];
  CHECK_INT(b.fake->allocated, 0);
  CHECK(launch(&b, 100, NULL));
  int64_t first = arg_i64(b.fake, W);
  CHECK_INT(arg_i64(b.fake, ORDER), 0x10000);
  CHECK_INT(first % 256, 0);
  CHECK_INT(arg_i64(b.fake, COUNT), first + 512); /* 400 bytes, rounded up */
  CHECK(is_zero((const char *)(intptr_t)first, 516));
  CHECK(launch(&b, 100, NULL) && launch(&b, 7, NULL) && launch(&b, 100, NULL));
  CHECK_INT(arg_i64(b.fake, W), first);
  CHECK_INT(b.fake->allocated, 1);
  int64_t block[2];
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < 2; i++) {
      CHECK(launch(&b, 100, &streams[i]));
      if (!round) block[i] = arg_i64(b.fake, W);
      CHECK_INT(arg_i64(b.fake, W), block[i]);
      CHECK_INT(arg_i64(b.fake, COUNT), block[i] + 512);
    }
  CHECK(block[0] != block[1] && block[0] != first && block[1] != first);
  CHECK_INT(b.fake->allocated, 3);
  CHECK_INT(b.fake->launches, 10);
  FakeCuda *fake = b.fake;
  bench_close(&b);
  CHECK_INT(fake->allocated, 0);
}

/* The smaller block stays: kernels in flight may use it. */
TEST(it_grows) {
  Bench b = bench_open(text, NULL);
  CHECK(launch(&b, 10, NULL));
  int64_t small = arg_i64(b.fake, W);
  CHECK(launch(&b, 100000, NULL));
  int64_t large = arg_i64(b.fake, W);
  CHECK(large != small && is_zero((const char *)(intptr_t)large, 400000));
  CHECK_INT(b.fake->allocated, 2);
  CHECK(launch(&b, 120000, NULL)); /* there was enough room */
  CHECK_INT(arg_i64(b.fake, W), large);
  CHECK_INT(b.fake->allocated, 2);
  CHECK(launch(&b, 0, NULL)); /* nothing is launched */
  CHECK_INT(b.fake->launches, 3);
  bench_close(&b);
}

/* Nothing of the allocation belongs to the graph, and the stream keeps its block. The graph may outlive the program:
 * code and memory stay. */
TEST(in_a_capture) {
  Bench b = bench_open(text, NULL);
  FakeCuda *fake = b.fake;
  int stream;
  CHECK(launch(&b, 100, NULL));
  b.fake->captured = &stream;
  CHECK(launch(&b, 100, &stream));
  int64_t block = arg_i64(b.fake, W);
  CHECK(is_zero((const char *)(intptr_t)block, 516));
  b.fake->captured = NULL;
  CHECK(launch(&b, 100, &stream));
  CHECK_INT(arg_i64(b.fake, W), block);
  CHECK_INT(b.fake->launches, 3);
  CHECK_INT(b.fake->allocated, 2);
  CHECK_INT(b.fake->streams, 0);
  bench_close(&b);
  CHECK_INT(fake->unloads, 0);
  CHECK_INT(fake->allocated, 2);
}

TEST(no_memory) {
  Bench b = bench_open(text, NULL);
  b.fake->fail = "cuMemAlloc_v2";
  b.fake->fail_error = 2;
  CHECK(!launch(&b, 100, NULL));
  CHECK(has(said(b.cx, "E0902"), "out of memory"));
  static const char *const calls[] = {"cuThreadExchangeStreamCaptureMode", "cuStreamCreate",
                                      "cuMemsetD32Async", "cuStreamSynchronize",
                                      "cuStreamDestroy_v2"};
  for (int i = 0; i < 5; i++) {
    b.fake->fail = calls[i];
    CHECK(!launch(&b, 100, NULL));
    CHECK_INT(b.fake->allocated, 0);
  }
  CHECK_INT(b.fake->launches, 0);
  b.fake->fail = NULL;
  CHECK(launch(&b, 100, NULL));
  bench_close(&b);
}

TEST(from_the_cache) {
  char dir[] = "/tmp/wave-workspace-XXXXXX";
  wv_compile_options o = {.cache = 1, .cache_dir = mkdtemp(dir)};
  wv_variant v;
  for (int round = 0; round < 2; round++) {
    Bench b = bench_open(text, &o);
    CHECK(wv_program_variant(b.p, 0, &v) && v.from_cache == (round == 1));
    CHECK(launch(&b, 100, NULL));
    CHECK_INT(arg_i64(b.fake, COUNT), arg_i64(b.fake, W) + 512);
    if (round) wv_cache_clear(b.cx, dir);
    bench_close(&b);
  }
  rmdir(dir);
}

/* ---- on the CPU, where kernels run ---- */

static const char counts[] = "thread kernel @counts(%a: mem<N, i32>, %w: mem<N, i32> workspace)\n"
                             "  launch grid (1) block (1) wave 1\n"
                             "  dynamic N\n"
                             "{\n"
                             "  for I with {trips = N} {\n"
                             "    %i = expr $ARGI : index\n"
                             "    %x = load %a, %i : i32\n"
                             "    %old = load %w, %i : i32\n"
                             "    %sum = add %x, %old\n"
                             "    store %sum, %w, %i\n"
                             "    %new = load %w, %i : i32\n"
                             "    %two = add %new, %sum\n"
                             "    store %two, %a, %i\n"
                             "    %zero = scalar 0 : i32\n"
                             "    store %zero, %w, %i\n"
                             "  }\n"
                             "}\n";

typedef struct Worker {
  wv_program *p;
  int wrong;
} Worker;

/* Each thread doubles its own numbers with the same program. */
static void *work(void *user) {
  enum { N = 2000, ROUNDS = 200 };
  Worker *w = user;
  wv_ctx *cx = wv_ctx_new();
  int32_t data[N];
  int64_t shape[] = {N};
  wv_tensor t = {data, shape, NULL, 1, wv_dtype_find("i32"), {WV_HOST, 0}};
  wv_launch_arg arg = {.tensor = &t};
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < N; i++) data[i] = i + round;
    shape[0] = N - round % 3;
    if (!wv_launch(w->p, cx, &arg, 1, NULL, 0)) w->wrong++;
    for (int i = 0; i < N; i++) w->wrong += data[i] != (i < shape[0] ? 2 : 1) * (i + round);
  }
  wv_ctx_free(cx);
  return NULL;
}

TEST(threads_on_the_cpu) {
  enum { THREADS = 4 };
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = kit_parse(cx, counts);
  pthread_t thread[THREADS];
  Worker worker[THREADS];
  CHECK(k != NULL);
  if (wv_device_count(cx, WV_HOST) == 0) printf("skipped: there is no libLLVM\n");
  else {
    wv_program *p = wv_compile(k, &(wv_compile_options){.target = "cpu", .cache = -1});
    CHECK(p != NULL);
    for (int i = 0; i < THREADS && p; i++) {
      worker[i] = (Worker){p, 0};
      pthread_create(&thread[i], NULL, work, &worker[i]);
    }
    for (int i = 0; i < THREADS && p; i++) {
      pthread_join(thread[i], NULL);
      CHECK_INT(worker[i].wrong, 0);
    }
    wv_program_free(p);
  }
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

TESTS_MAIN(RUN(one_block_for_each_stream) RUN(it_grows) RUN(in_a_capture) RUN(no_memory)
               RUN(from_the_cache) RUN(threads_on_the_cpu))
