/* Debug logs of programs: each launch has its own memory for them. On the fake CUDA driver, where
 * kernels do not run; what they write is tested on the CPU (tests/python/test_debug_logs.py). */
#include "unit/runtime_kit.h"

static const char text[] = "kernel @k(%a: mem<M, N, f32>)\n"
                           "  workgroup M by 4 on 0; workgroup N by 32 on 1; dynamic M, N\n"
                           "  hardware threads 32, vector {M: 4, N: 32}\n"
                           "{\n"
                           "  %x = read %a\n"
                           "  %h = cast %x : tile<M, N, f16>\n"
                           "  debug_log \"x\" %x\n"
                           "  debug_log \"half\" %h\n"
                           "}\n";

typedef struct Seen {
  int n;
  char what[8][64];
  bool zeros;
} Seen;

static void see(void *user, const char *label, const wv_buffer *b) {
  Seen *s = user;
  int64_t n = 1;
  for (int i = 0; i < b->rank; i++) n *= b->shape[i];
  s->zeros = true;
  for (size_t i = 0; i < wv_data_bytes(b->dtype, n); i++) s->zeros &= !((char *)b->data)[i];
  if (s->n < 8)
    snprintf(s->what[s->n], sizeof s->what[0], "%s %s %lldx%lld", label, b->dtype,
             (long long)b->shape[0], (long long)b->shape[1]);
  s->n++;
}

static wv_launch_arg *arg_of(Tensor *t, wv_launch_arg *arg, int64_t m, int64_t n) {
  tensor(t, 1 << 20, "f32", 2, (int64_t[]){m, n});
  *arg = (wv_launch_arg){.tensor = &t->t};
  return arg;
}

TEST(a_launch_brings_their_memory) {
  Bench b = bench_open(text, NULL);
  Tensor t;
  wv_launch_arg arg;
  Seen seen = {0};
  CHECK(b.p && wv_launch_logged(b.p, b.cx, arg_of(&t, &arg, 5, 70), 1, (void *)7, see, &seen));
  CHECK_INT(seen.n, 2);
  CHECK_STR(seen.what[0], "x f32 5x70");
  CHECK_STR(seen.what[1], "half f16 5x70");
  CHECK(seen.zeros);
  CHECK_INT(b.fake->launches, 1);
  CHECK(b.fake->last.nargs >= 3); /* three addresses, and what follows from the sizes */
  CHECK(b.fake->last.stream == (void *)7);
  CHECK(wv_launch(b.p, b.cx, arg_of(&t, &arg, 2, 3), 1, NULL, 0)); /* they are not requested */
  CHECK(wv_program_warm(b.p, b.cx, arg_of(&t, &arg, 1, 1), 1));
  CHECK_INT(b.fake->launches, 2);
  CHECK_INT(seen.n, 2);
  CHECK_INT(wv_diag_errors(b.cx), 0);
  bench_close(&b);
}

TEST(no_elements) {
  Bench b = bench_open(text, NULL);
  Tensor t;
  wv_launch_arg arg;
  Seen seen = {0};
  CHECK(b.p && wv_launch_logged(b.p, b.cx, arg_of(&t, &arg, 0, 70), 1, NULL, see, &seen));
  CHECK_STR(seen.what[1], "half f16 0x70");
  CHECK_INT(b.fake->launches, 0);
  bench_close(&b);
}

TEST(not_in_a_capture) {
  Bench b = bench_open(text, NULL);
  Tensor t;
  wv_launch_arg arg;
  Seen seen = {0};
  int stream;
  CHECK(b.p && wv_launch(b.p, b.cx, arg_of(&t, &arg, 5, 70), 1, &stream, 0));
  b.fake->captured = &stream;
  CHECK(!wv_launch_logged(b.p, b.cx, &arg, 1, &stream, see, &seen));
  CHECK(has(said(b.cx, "E0905"), "`k` has debug logs, and the stream is being captured"));
  CHECK(!wv_launch(b.p, b.cx, &arg, 1, &stream, 0));
  CHECK_INT(b.fake->launches, 1);
  CHECK_INT(seen.n, 0);
  b.fake->captured = NULL;
  bench_close(&b);
}

TEST(mistakes) {
  Bench b = bench_open(text, NULL);
  Tensor t;
  wv_launch_arg arg[3];
  Seen seen = {0};
  arg_of(&t, arg, 5, 70);
  arg[1] = arg[2] = arg[0]; /* logs cannot be given */
  CHECK(b.p && !wv_launch_logged(b.p, b.cx, arg, 3, NULL, see, &seen));
  CHECK(has(said(b.cx, "E0702"), "`k` got 3 arguments, expected 1"));
  wv_diag_clear(b.cx);
  CHECK(!wv_launch_logged(b.p, b.cx, arg_of(&t, arg, 1 << 15, 1 << 15), 1, NULL, see, &seen));
  CHECK(has(said(b.cx, "E0706"), "the debug log `x` would have more than"));
  CHECK_INT(b.fake->launches, 0);
  CHECK_INT(seen.n, 0);
  bench_close(&b);
}

/* Any failure is reported once, and memory is freed. */
TEST(failures_of_the_driver) {
  static const char *const calls[] = {"cuMemAlloc_v2", "cuMemcpy", "cuStreamSynchronize"};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    for (int after = 0; after < 2; after++) {
      Bench b = bench_open(text, NULL);
      Tensor t;
      wv_launch_arg arg;
      Seen seen = {0};
      arg_of(&t, &arg, 5, 70);
      b.fake->fail = calls[i], b.fake->fail_error = 2, b.fake->fail_after = after;
      CHECK(b.p && !wv_launch_logged(b.p, b.cx, &arg, 1, NULL, see, &seen));
      CHECK_INT(wv_diag_errors(b.cx), 1);
      CHECK_INT(seen.n, 0);
      b.fake->fail = NULL;
      CHECK(wv_launch_logged(b.p, b.cx, &arg, 1, NULL, see, &seen));
      CHECK_INT(seen.n, 2);
      bench_close(&b);
    }
}

TESTS_MAIN(RUN(a_launch_brings_their_memory) RUN(no_elements) RUN(not_in_a_capture) RUN(mistakes)
               RUN(failures_of_the_driver))
