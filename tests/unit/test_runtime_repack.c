/* test_runtime_repack.c: launches that copy operands first, because their rows do not begin at multiples
 * of 16 bytes: which launches do, in which order, and with which memory. */
#include "unit/runtime_kit.h"

#define GEMM(rows)                                                                                 \
  "kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"     \
  "  workgroup M by 64 on 0; workgroup N by 64 on 1; tile K by 64; wave M by 64\n"                 \
  "  hardware threads 128; " rows "\n"                                                             \
  "{\n"                                                                                            \
  "  %z = fill 0.0 : tile<M, N, f32>\n"                                                            \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    %x = read %a\n"                                                                             \
  "    %y = read %b\n"                                                                             \
  "    %n = mma %x, %y, %acc\n"                                                                    \
  "    yield %n\n"                                                                                 \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}\n"

static const char dynamic[] = GEMM("dynamic M; dynamic N; dynamic K");
static const char never[] = GEMM("dynamic M; dynamic N; dynamic K; repack 0");
static const char always[] = GEMM("dynamic M; dynamic N; dynamic K; repack 1");

enum { A = 0x100000, B = 0x10000000, C = 0x20000000 };

typedef struct Args {
  Tensor a, b, c;
  wv_launch_arg arg[3];
} Args;

static Args *args_of(Args *s, int64_t m, int64_t n, int64_t k) {
  tensor(&s->a, A, "f16", 2, (int64_t[]){m, k});
  tensor(&s->b, B, "f16", 2, (int64_t[]){n, k});
  tensor(&s->c, C, "f32", 2, (int64_t[]){m, n});
  s->arg[0] = (wv_launch_arg){.tensor = &s->a.t};
  s->arg[1] = (wv_launch_arg){.tensor = &s->b.t};
  s->arg[2] = (wv_launch_arg){.tensor = &s->c.t};
  return s;
}

/* How many kernels the call launches; -1: it fails. */
static int launches_of(Bench *b, const Args *s, void *stream, unsigned flags) {
  int before = b->fake->launches;
  wv_diag_clear(b->cx);
  return wv_launch(b->p, b->cx, s->arg, 3, stream, flags) ? b->fake->launches - before : -1;
}

/* 1001 elements of 2 bytes: odd rows, enough of them, and 16 workgroups need each. */
TEST(odd_rows_are_copied) {
  Bench b = bench_open(dynamic, NULL);
  Args s;
  CHECK_INT(launches_of(&b, args_of(&s, 1024, 2048, 1001), NULL, 0), 3);
  CHECK(has(said(b.cx, "R0624"), "`a` is copied before `gemm` runs"));
  CHECK_INT(b.fake->last.block[0] % 128, 0); /* the last is the kernel itself */
  CHECK_INT(b.fake->encodes, 2);
  CHECK_INT(b.fake->allocated, 1);
  CHECK_INT(launches_of(&b, &s, NULL, 0), 3); /* again, with the same memory */
  CHECK_INT(b.fake->allocated, 1);
  CHECK_INT(launches_of(&b, args_of(&s, 1024, 2048, 1008), NULL, 0), 1);
  CHECK_INT(launches_of(&b, args_of(&s, 1024, 2048, 1001), NULL, 0), 3);
  s.a.strides[0] = 1008; /* aligned rows apart: only the other operand */
  CHECK_INT(launches_of(&b, &s, NULL, 0), 2);
  s.a.t.data = (void *)(uintptr_t)(A + 2);
  CHECK_INT(launches_of(&b, &s, NULL, 0), 3);
  s.a.strides[1] = 2; /* elements apart */
  CHECK_INT(launches_of(&b, &s, NULL, 0), 1);
  bench_close(&b);
}

TEST(only_if_it_pays) {
  Bench b = bench_open(dynamic, NULL);
  Args s;
  CHECK_INT(launches_of(&b, args_of(&s, 16, 4096, 4095), NULL, 0), 1); /* read once */
  CHECK_INT(launches_of(&b, args_of(&s, 300, 300, 301), NULL, 0), 1);  /* small */
  CHECK_INT(launches_of(&b, args_of(&s, 4097, 4099, 4103), NULL, 0), 3);
  CHECK_INT(launches_of(&b, args_of(&s, 600, 600, 601), NULL, 0), 3);
  CHECK_INT(launches_of(&b, args_of(&s, 0, 2048, 1001), NULL, 0), 0);
  CHECK_INT(b.fake->allocated, 1);
  bench_close(&b);
}

TEST(if_asked) {
  Args s;
  Bench b = bench_open(never, NULL);
  CHECK_INT(launches_of(&b, args_of(&s, 4097, 4099, 4103), NULL, 0), 1);
  bench_close(&b);
  b = bench_open(always, NULL);
  CHECK_INT(launches_of(&b, args_of(&s, 3, 5, 7), NULL, 0), 3);
  CHECK_INT(launches_of(&b, args_of(&s, 3, 5, 8), NULL, 0), 1);
  CHECK_INT(launches_of(&b, args_of(&s, 3000000, 5, 9), NULL, 0), 3);  /* many rows */
  CHECK_INT(launches_of(&b, args_of(&s, 3, 5, 200001), NULL, 0), 3);   /* long ones */
  CHECK_INT(launches_of(&b, args_of(&s, 3, 5, 8000001), NULL, 0), 1);  /* 32 bits are too few */
  CHECK_INT(launches_of(&b, args_of(&s, 70000, 5, 4001), NULL, 0), 1); /* more than 512 MB */
  bench_close(&b);
}

/* The kernel must not begin before the copies are complete, nor they before the last kernel has read
 * theirs. */
TEST(without_overlap) {
  Bench b = bench_open(always, NULL);
  Args s;
  CHECK_INT(launches_of(&b, args_of(&s, 70, 70, 71), NULL, WV_LAUNCH_OVERLAP), 3);
  CHECK_INT(b.fake->last.overlap, 0);
  CHECK_INT(launches_of(&b, args_of(&s, 70, 70, 72), NULL, WV_LAUNCH_OVERLAP), 1);
  CHECK_INT(b.fake->last.overlap, 1);
  bench_close(&b);
}

TEST(memory_of_a_stream) {
  Bench b = bench_open(always, NULL);
  Args s;
  int stream;
  CHECK_INT(launches_of(&b, args_of(&s, 70, 70, 71), NULL, 0), 3);
  b.fake->captured = &stream; /* of which it is the first launch */
  CHECK_INT(launches_of(&b, &s, &stream, 0), 3);
  CHECK_INT(launches_of(&b, &s, &stream, 0), 3);
  b.fake->captured = NULL;
  CHECK_INT(b.fake->allocated, 2);
  CHECK_INT(launches_of(&b, args_of(&s, 700, 700, 701), NULL, 0), 3); /* it grows */
  CHECK_INT(b.fake->allocated, 3);
  FakeCuda *fake = b.fake;
  bench_close(&b);
  CHECK_INT(fake->allocated, 3); /* the graph uses them */
}

TEST(failures) {
  Bench b = bench_open(always, NULL);
  Args s;
  b.fake->fail = "cuMemAlloc_v2";
  b.fake->fail_error = 2;
  CHECK_INT(launches_of(&b, args_of(&s, 70, 70, 71), NULL, 0), -1);
  CHECK(has(said(b.cx, "E0902"), "out of memory"));
  CHECK_INT(b.fake->launches, 0);
  b.fake->fail = "cuLaunchKernel";
  b.fake->fail_after = 1; /* the second copy */
  CHECK_INT(launches_of(&b, &s, NULL, 0), -1);
  CHECK(has(said(b.cx, "E0902"), "`repack`: the launch failed: out of memory"));
  b.fake->fail = NULL;
  CHECK_INT(launches_of(&b, &s, NULL, 0), 3);
  bench_close(&b);
}

/* A program that was saved has no compiler, and so no kernel that copies. */
TEST(saved_programs_do_not_copy) {
  Bench b = bench_open(always, NULL);
  size_t n;
  Args s;
  char *bytes = wv_program_save(b.p, b.cx, &n);
  CHECK(bytes != NULL);
  wv_program *loaded = wv_program_load(b.cx, bytes, n, 0);
  CHECK(loaded != NULL);
  wv_program_free(b.p);
  b.p = loaded;
  CHECK_INT(launches_of(&b, args_of(&s, 70, 70, 71), NULL, 0), 1);
  free(bytes);
  bench_close(&b);
}

TESTS_MAIN(RUN(odd_rows_are_copied) RUN(only_if_it_pays) RUN(if_asked) RUN(without_overlap)
               RUN(memory_of_a_stream) RUN(failures) RUN(saved_programs_do_not_copy))
