/* test_runtime_maps.c: derived arguments: tensor maps, numbers for divisions; launches from several
 * threads at the same time. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "runtime/launch/launch.h"
#include "unit/runtime_kit.h"

static const char tma_text[] =
    "thread kernel @tma(%a: mem<M, 64, f16>, %b: mem<M, 64, f16>)\n"
    "  launch grid (2) block (128) wave 32 shared 60000\n"
    "  dynamic M\n"
    "{\n"
    "  %s = alloc {base = 0} : mem<64, 64, f16, shared>\n"
    "  %bar = alloc {base = 16384} : mem<1, i64, shared>\n"
    "  %s0 = scalar 0 : i32\n"
    "  if ($T0 < 1) {\n"
    "    mbar_init %bar, %s0 {count = 1}\n"
    "    mbar_arrive %bar, %s0 {bytes = 4096}\n"
    "    tma_load %s, %s0, %bar, %s0, %a, %s0, %s0 {box = [32, 64], swizzle = 128}\n"
    "  }\n"
    "  mbar_wait %bar, %s0, %s0\n"
    "}\n";

enum { A = 0x10000, B = 0x20000 };

typedef struct Args {
  Tensor a, b;
  wv_launch_arg arg[2];
} Args;

static Args *args_of(Args *s, int64_t m) {
  tensor(&s->a, A, "f16", 2, (int64_t[]){m, 64});
  tensor(&s->b, B, "f16", 2, (int64_t[]){m, 64});
  s->arg[0] = (wv_launch_arg){.tensor = &s->a.t};
  s->arg[1] = (wv_launch_arg){.tensor = &s->b.t};
  return s;
}

/* The words of the map that was passed; the fake driver wrote them. */
static const uint64_t *map_of(const FakeCuda *f, uint64_t *words) {
  for (int i = 0; i < f->last.nargs; i++)
    if (f->last.arg_bytes[i] == 128) memcpy(words, f->last.arg[i], 128);
  return words;
}

/* The rows of a map that is clipped, and the two dims that lead back to the tensor (clip.h). */
TEST(clipped_maps) {
  static const char text[] = "thread kernel @clip(%a: mem<M, 64, f16>, %b: mem<M, 64, f16>)\n"
                             "  launch grid (2) block (128) wave 32 shared 60000\n"
                             "  dynamic M\n"
                             "{\n"
                             "  %s = alloc {base = 0} : mem<64, 64, f16, shared>\n"
                             "  %bar = alloc {base = 16384} : mem<1, i64, shared>\n"
                             "  %s0 = scalar 0 : i32\n"
                             "  if ($T0 < 1) {\n"
                             "    mbar_init %bar, %s0 {count = 1}\n"
                             "    mbar_arrive %bar, %s0 {bytes = 4096}\n"
                             "    tma_load %s, %s0, %bar, %s0, %a, %s0, %s0, %s0 {box = [32, 64], "
                             "swizzle = 128, clip = 0}\n"
                             "  }\n"
                             "  mbar_wait %bar, %s0, %s0\n"
                             "}\n";
  Bench b = bench_open(text, NULL);
  Args s;
  uint64_t m[16] = {0};
  CHECK(b.p && wv_launch(b.p, b.cx, args_of(&s, 90)->arg, 2, NULL, 0));
  map_of(b.fake, m);
  CHECK_INT((int)m[3], 4);
  CHECK_INT((int)m[4], 64 << 16 | 64);
  CHECK(m[5] == (UINT64_C(1) << 46 | 32));
  CHECK(m[6] == ((uint64_t)INT32_MAX << 16 | 1) && m[7] == m[6]);
  CHECK(m[10] == 128 && m[11] == 128 && m[12] == (UINT64_C(1) << 34) - 128);
  CHECK(m[12] << 30 == -(m[10] << 30));
  CHECK(wv_launch(b.p, b.cx, args_of(&s, 0)->arg, 2, NULL, 0)); /* no rows: nothing is copied */
  bench_close(&b);
}

/* Images, rows and columns are one dim, which steps like the innermost of them with several elements. */
TEST(joined_maps) {
  static const char text[] = "thread kernel @joined(%x: mem<N, P, Q, 64, f16>)\n"
                             "  launch grid (1) block (32) wave 32 shared 8200\n"
                             "  dynamic N, P, Q\n"
                             "{\n"
                             "  %s = alloc {base = 0} : mem<48, 64, f16, shared>\n"
                             "  %z = scalar 0 : i32\n"
                             "  tma_store %s, %z, %x, %z, %z, %z, %z {box = [1, 1, 48, 64], joined "
                             "= 2, swizzle = 128}\n"
                             "}\n";
  static const int64_t sizes[][3] = {{7, 9, 11}, {7, 9, 1}, {7, 1, 1}, {1, 1, 1}};
  Bench b = bench_open(text, NULL);
  for (int i = 0; i < 4; i++) {
    const int64_t *n = sizes[i];
    Tensor x;
    wv_launch_arg arg = {.tensor = &x.t};
    uint64_t m[16] = {0};
    tensor(&x, A, "f16", 4, (int64_t[]){n[0], n[1], n[2], 64});
    CHECK(b.p && wv_launch(b.p, b.cx, &arg, 1, NULL, 0));
    map_of(b.fake, m);
    CHECK_INT((int)m[3], 4);
    CHECK_INT((int)m[4], 64 << 16 | 64);
    CHECK_INT((int)m[5], (int)(n[0] * n[1] * n[2]) << 16 | 48);
    CHECK_INT((int)m[6], 1 << 16 | 1);
    CHECK_INT((int)m[7], 1 << 16 | 1);
    CHECK_INT((int)m[10], i < 3 ? 128 : 16);
  }
  bench_close(&b);
}

/* A miss in the L2 cache brings 256 bytes of short rows, and 128 of long ones. */
TEST(what_a_miss_brings) {
  static const char text[] = "thread kernel @rows(%x: mem<M, N, f16>)\n"
                             "  launch grid (1) block (32) wave 32 shared 8200\n"
                             "  dynamic M, N\n"
                             "{\n"
                             "  %s = alloc {base = 0} : mem<16, 64, f16, shared>\n"
                             "  %z = scalar 0 : i32\n"
                             "  tma_store %s, %z, %x, %z, %z {box = [16, 64], swizzle = 128}\n"
                             "}\n";
  static const int columns[] = {64, 256, 264, 4096}, code[] = {3, 3, 2, 2};
  Bench b = bench_open(text, NULL);
  for (int i = 0; i < 4; i++) {
    Tensor x;
    wv_launch_arg arg = {.tensor = &x.t};
    uint64_t m[16] = {0};
    tensor(&x, A, "f16", 2, (int64_t[]){32, columns[i]});
    CHECK(b.p && wv_launch(b.p, b.cx, &arg, 1, NULL, 0));
    CHECK_INT((int)map_of(b.fake, m)[15], code[i]);
  }
  bench_close(&b);
}

TEST(tensor_maps) {
  Bench b = bench_open(tma_text, NULL);
  Args s;
  uint64_t m[16] = {0};
  CHECK(b.p != NULL);
  CHECK(b.p && wv_launch(b.p, b.cx, args_of(&s, 90)->arg, 2, NULL, 0));
  map_of(b.fake, m);
  CHECK(m[0] == A);
  CHECK_INT((int)m[1], 1);             /* 16 bits */
  CHECK_INT((int)m[2], 3);             /* swizzled over 128 bytes */
  CHECK_INT((int)m[3], 2);             /* dims, the innermost first: */
  CHECK_INT((int)m[4], 64 << 16 | 64); /* 64 elements, boxes of 64 */
  CHECK_INT((int)m[5], 90 << 16 | 32); /* 90 rows, boxes of 32 */
  CHECK_INT((int)m[10], 128);          /* bytes from row to row */
  CHECK_INT(b.fake->encodes, 1);
  CHECK(wv_launch(b.p, b.cx, s.arg, 2, NULL, 0)); /* the same again */
  CHECK_INT(b.fake->encodes + b.fake->moves, 1);
  s.a.t.data = (void *)0x50000;
  CHECK(wv_launch(b.p, b.cx, s.arg, 2, NULL, 0)); /* only the address */
  CHECK_INT(b.fake->encodes, 1);
  CHECK_INT(b.fake->moves, 1);
  CHECK(map_of(b.fake, m)[0] == 0x50000);
  CHECK_INT((int)m[5], 90 << 16 | 32);
  CHECK(wv_launch(b.p, b.cx, args_of(&s, 80)->arg, 2, NULL, 0)); /* another size */
  CHECK_INT(b.fake->encodes, 2);
  CHECK_INT((int)map_of(b.fake, m)[5], 80 << 16 | 32);
  args_of(&s, 1)->a.strides[0] = 65; /* any stride is valid; the driver needs 16 bytes */
  CHECK(wv_launch(b.p, b.cx, s.arg, 2, NULL, 0));
  CHECK_INT((int)map_of(b.fake, m)[5], 1 << 16 | 32);
  CHECK_INT((int)m[10], 16);
  b.fake->fail = "cuTensorMapEncodeTiled", b.fake->fail_error = 1;
  CHECK(!wv_launch(b.p, b.cx, args_of(&s, 70)->arg, 2, NULL, 0));
  CHECK(has(said(b.cx, "E0902"), "`tma`: the launch failed"));
  bench_close(&b);
}

static const char pixels_text[] =
    "thread kernel @pixels(%x: mem<N, 9, 11, 64, f16>)\n"
    "  launch grid (1) block (32) wave 32 shared 8200\n"
    "  dynamic N\n"
    "{\n"
    "  %s = alloc {base = 0} : mem<48, 64, f16, shared>\n"
    "  %bar = alloc {base = 8192} : mem<1, i64, shared>\n"
    "  %z = scalar 0 : i32\n"
    "  tma_load %s, %z, %bar, %z, %x, %z, %z, %z, %z, %z, %z {box = [48, 64], im2col = [-1, -2, "
    "-3, 4], steps = [5, 6], swizzle = 128}\n"
    "}\n";

TEST(maps_over_pixels) {
  Bench b = bench_open(pixels_text, NULL);
  Tensor x;
  wv_launch_arg arg = {.tensor = &x.t};
  uint64_t m[16] = {0};
  tensor(&x, A, "f16", 4, (int64_t[]){7, 9, 11, 64});
  CHECK(b.p && wv_launch(b.p, b.cx, &arg, 1, NULL, 0));
  map_of(b.fake, m);
  CHECK(m[0] == A);
  CHECK_INT((int)m[3], 4);
  CHECK_INT((int)(m[4] >> 16), 64); /* channels, columns, rows, images */
  CHECK_INT((int)(m[5] >> 16), 11);
  CHECK_INT((int)(m[6] >> 16), 9);
  CHECK_INT((int)(m[7] >> 16), 7);
  CHECK_INT((int)m[9], 48 << 16 | 64);
  CHECK_INT((int)m[10], 0xfe0406); /* along columns from -2 to 4 after the last, by 6 */
  CHECK_INT((int)m[11], 0xfffd05);
  CHECK_INT((int)m[13], 128);
  x.t.data = (void *)0x50000;
  CHECK(wv_launch(b.p, b.cx, &arg, 1, NULL, 0));
  CHECK_INT(b.fake->encodes, 1);
  CHECK_INT(b.fake->moves, 1);
  b.fake->fail = "cuTensorMapEncodeIm2col", b.fake->fail_error = 1;
  tensor(&x, A, "f16", 4, (int64_t[]){8, 9, 11, 64});
  CHECK(!wv_launch(b.p, b.cx, &arg, 1, NULL, 0));
  CHECK(has(said(b.cx, "E0902"), "`pixels`: the launch failed"));
  bench_close(&b);
}

TEST(tensor_maps_of_an_old_driver) {
  FakeCuda *old = fake_open(FAKE_CUDA_OLD);
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = kit_parse(cx, tma_text);
  wv_program *p = wv_compile(k, NULL);
  Args s;
  CHECK(p && !wv_launch(p, cx, args_of(&s, 90)->arg, 2, NULL, 0));
  CHECK(has(said(cx, "E0905"), "tensor maps"));
  CHECK_INT(old->launches, 0);
  wv_program_free(p);
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

/* The quotient as the device computes it. */
static uint32_t divide(uint32_t a, int64_t d) {
  uint64_t high = (uint64_t)a * launch_magic(d) >> 32;
  return (uint32_t)((high + a) >> launch_shift(d));
}

TEST(divisions) {
  static const uint32_t values[] = {
      0, 1, 2, 3, 6, 7, 63, 64, 65, 1000003, 0x7fffffff, 0x80000000u, 0xfffffffeu, 0xffffffffu};
  int wrong = 0;
  for (int64_t d = 1; d < 5000; d++)
    for (size_t i = 0; i < WV_LEN(values); i++) wrong += divide(values[i], d) != values[i] / d;
  static const int64_t large[] = {65535,      65536,       0x7fffffff,  0x80000000,
                                  0xffffffff, 0x100000000, 0x100000001, INT64_C(1) << 40,
                                  INT64_MAX};
  for (size_t j = 0; j < WV_LEN(large); j++)
    for (size_t i = 0; i < WV_LEN(values); i++)
      wrong += divide(values[i], large[j]) != values[i] / large[j];
  for (uint32_t i = 0; i < 200000; i++) {
    uint32_t a = i * 2654435761u, d = (i * 40503u + 1) % 100000 + 1;
    wrong += divide(a, d) != a / d;
  }
  CHECK_INT(wrong, 0);
}

/* ---- threads ---- */

static const char copy_text[] = "kernel @copy(%a: mem<M, N, f16>, %b: mem<M, N, f16>)\n"
                                "  dynamic M; dynamic N\n"
                                "  hardware threads 32\n"
                                "  workgroup M by 4 on 0; workgroup N by 64 on 1; wave M by 4\n"
                                "{\n  %x = read %a\n  write %x, %b\n}\n";

typedef struct Worker {
  wv_program *p;
  int number, failed;
} Worker;

static void *launch_often(void *user) {
  Worker *w = user;
  wv_ctx *cx = wv_ctx_new();
  Args s;
  for (int i = 0; i < 400; i++) {
    args_of(&s, 4 * (1 + (i + w->number) % 5));  /* the same as others, and different */
    if (i % 7 == w->number) s.a.strides[0] = 65; /* a variant that has not been compiled yet */
    w->failed += !wv_launch(w->p, cx, s.arg, 2, (void *)(uintptr_t)w->number, 0);
  }
  wv_ctx_free(cx);
  return NULL;
}

TEST(several_threads) {
  enum { THREADS = 4 };
  Bench b = bench_open(copy_text, NULL);
  pthread_t thread[THREADS];
  Worker worker[THREADS];
  for (int i = 0; i < THREADS; i++) {
    worker[i] = (Worker){b.p, i, 0};
    pthread_create(&thread[i], NULL, launch_often, &worker[i]);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(thread[i], NULL);
    CHECK_INT(worker[i].failed, 0);
  }
  CHECK_INT(b.fake->launches, THREADS * 400);
  CHECK_INT(b.fake->loads, 2);
  CHECK_INT(b.fake->pushes, 0);
  bench_close(&b);
}

TESTS_MAIN(RUN(tensor_maps) RUN(what_a_miss_brings) RUN(clipped_maps) RUN(joined_maps) RUN(maps_over_pixels)
               RUN(tensor_maps_of_an_old_driver) RUN(divisions) RUN(several_threads))
