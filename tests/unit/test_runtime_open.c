/* test_runtime_open.c: programs that are compiled when they are launched, because their tiles are
 * as large as a tensor. */
#include "unit/runtime_kit.h"

#include <pthread.h>
#include <unistd.h>

#include "base/base.h"

static const char sums_text[] = "kernel @sums(%a: mem<M, N, f32>, %b: mem<M, f32>)\n"
                                "  dynamic M; dynamic N\n"
                                "  hardware threads 32\n"
                                "  workgroup M by 4 on 0\n"
                                "{\n"
                                "  %x = read %a\n"
                                "  %s = sum %x {dim = N}\n"
                                "  write %s, %b\n"
                                "}\n";

/* The tile of M is N: a larger one would sum other rows. */
static const char values_text[] = "kernel @parts(%a: mem<M, N, f32>, %b: mem<M, f32>)\n"
                                  "  dynamic M; dynamic N\n"
                                  "  hardware threads 32\n"
                                  "  workgroup M by N on 0; workgroup N by 64 on 1\n"
                                  "{\n"
                                  "  %x = read %a\n"
                                  "  %s = sum %x {dim = N}\n"
                                  "  write %s, %b\n"
                                  "}\n";

enum { A = 0x100000, B = 0x800000 };

typedef struct Args {
  Tensor a, b;
  wv_launch_arg arg[2];
} Args;

static Args *args_of(Args *s, int64_t m, int64_t n) {
  tensor(&s->a, A, "f32", 2, (int64_t[]){m, n});
  tensor(&s->b, B, "f32", 1, (int64_t[]){m});
  s->arg[0] = (wv_launch_arg){.tensor = &s->a.t};
  s->arg[1] = (wv_launch_arg){.tensor = &s->b.t};
  return s;
}

static bool launch(Bench *b, int64_t n) {
  Args s;
  wv_diag_clear(b->cx);
  return wv_launch(b->p, b->cx, args_of(&s, 8, n)->arg, 2, NULL, 0);
}

TEST(one_program_for_a_power_of_two) {
  static const struct {
    int64_t n;
    int loads; /* so far */
  } rows[] = {{64, 1}, {64, 1}, {60, 1}, {36, 1}, {128, 2}, {64, 2}, {0, 3}, {4, 4}, {2048, 5}};
  Bench b = bench_open(sums_text, NULL);
  CHECK(has(said(b.cx, "R0613"), "`sums` is compiled when it is called"));
  CHECK_INT(b.fake->loads, 0);
  for (size_t i = 0; i < WV_LEN(rows); i++) {
    CHECK(launch(&b, rows[i].n));
    CHECK_INT(b.fake->loads, rows[i].loads);
    CHECK_INT(b.fake->launches, (int)i + 1);
  }
  CHECK(launch(&b, 63)); /* rows that are not whole 16 bytes: another variant of a program */
  CHECK_INT(b.fake->loads, 6);
  bench_close(&b);
}

TEST(one_program_for_each_value) {
  Bench b = bench_open(values_text, NULL);
  CHECK(launch(&b, 4) && launch(&b, 8) && launch(&b, 4));
  CHECK_INT(b.fake->loads, 2);
  CHECK(launch(&b, 5));
  CHECK_INT(b.fake->loads, 3);
  CHECK(!launch(&b, 0));
  CHECK(has(said(b.cx, "E0204"), "the workgroup tile of `M` is 0"));
  CHECK(launch(&b, 5));
  CHECK_INT(b.fake->loads, 3);
  bench_close(&b);
}

TEST(mistakes) {
  Bench b = bench_open(sums_text, NULL);
  Args s;
  args_of(&s, 8, 64)->b.shape[0] = 7;
  CHECK(!wv_launch(b.p, b.cx, s.arg, 2, NULL, 0));
  CHECK(has(said(b.cx, "E0702"), "argument `b` has size 7 along `M`, expected 8"));
  wv_diag_clear(b.cx);
  CHECK(!wv_launch(b.p, b.cx, args_of(&s, 8, 64)->arg, 1, NULL, 0));
  CHECK(has(said(b.cx, "E0702"), "got 1 arguments, expected 2"));
  CHECK_INT(b.fake->loads, 0); /* nothing was compiled for them */
  CHECK(!launch(&b, 1 << 22));
  CHECK(has(said(b.cx, "E0606"), "the tile of `N` has 4194304 elements"));
  CHECK(launch(&b, 64));
  bench_close(&b);
}

TEST(nothing_to_look_at_before) {
  Bench b = bench_open(sums_text, NULL);
  wv_variant v;
  wv_resources r;
  size_t n;
  char *source, *header;
  CHECK(!wv_program_variant(b.p, 0, &v));
  CHECK(!wv_program_text(b.p, b.cx, 0, "ptx") && has(said(b.cx, "E0904"), "depends on `N`"));
  wv_diag_clear(b.cx);
  CHECK(!wv_program_resources(b.p, b.cx, 0, 0, &r) && has(said(b.cx, "E0904"), "is compiled when"));
  wv_diag_clear(b.cx);
  CHECK(!wv_program_prepare(b.p, b.cx, 0) && has(said(b.cx, "E0904"), "is compiled when"));
  CHECK(launch(&b, 64));
  CHECK(wv_program_variant(b.p, 0, &v) && v.compiled);
  CHECK(has(wv_program_text(b.p, b.cx, 0, "ptx"), ".entry sums"));
  CHECK(wv_program_prepare(b.p, b.cx, 0));
  for (int i = 0; wv_program_variant(b.p, i, &v); i++) CHECK(v.compiled);
  CHECK(!wv_program_save(b.p, b.cx, &n) &&
        has(said(b.cx, "E0606"), "is compiled when")); /* it would not support every call */
  wv_diag_clear(b.cx);
  CHECK(!wv_program_emit_c(b.p, b.cx, "sums.h", &source, &header) &&
        has(said(b.cx, "E0606"), "is compiled when"));
  bench_close(&b);
}

TEST(capture) {
  Bench b = bench_open(sums_text, NULL);
  Args s;
  int stream;
  b.fake->captured = &stream;
  wv_diag_clear(b.cx);
  CHECK(!wv_launch(b.p, b.cx, args_of(&s, 8, 64)->arg, 2, &stream, 0));
  CHECK(has(said(b.cx, "E0904"), "not ready for launches like this one (N at most 64)"));
  b.fake->captured = NULL;
  wv_diag_clear(b.cx);
  CHECK(wv_program_warm(b.p, b.cx, s.arg, 2));
  CHECK_INT(b.fake->launches, 0);
  b.fake->captured = &stream;
  CHECK(wv_launch(b.p, b.cx, s.arg, 2, &stream, 0));
  CHECK_INT(b.fake->launches, 1);
  CHECK_INT(wv_diag_errors(b.cx), 0);
  bench_close(&b);
}

typedef struct Caller {
  wv_program *p;
  int first, failed;
} Caller;

static void *call_often(void *user) {
  Caller *c = user;
  wv_ctx *cx = wv_ctx_new();
  for (int i = 0; i < 40; i++) {
    Args s;
    int64_t n = (c->first + 37 * i) % 500;
    c->failed += !wv_launch(c->p, cx, args_of(&s, 8, n)->arg, 2, NULL, 0);
  }
  wv_ctx_free(cx);
  return NULL;
}

TEST(callers_at_once) {
  enum { CALLERS = 4 };
  Bench b = bench_open(sums_text, NULL);
  Caller caller[CALLERS];
  pthread_t thread[CALLERS];
  for (int i = 0; i < CALLERS; i++) {
    caller[i] = (Caller){b.p, 100 * i, 0};
    CHECK_INT(pthread_create(&thread[i], NULL, call_often, &caller[i]), 0);
  }
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(thread[i], NULL);
    CHECK_INT(caller[i].failed, 0);
  }
  CHECK_INT(b.fake->launches, CALLERS * 40);
  bench_close(&b);
}

TEST(kept_in_the_cache) {
  char dir[] = "/tmp/wave-open-XXXXXX";
  wv_compile_options o = {.cache = 1, .cache_dir = mkdtemp(dir)};
  wv_variant v;
  Bench b = bench_open(sums_text, &o);
  CHECK(launch(&b, 64) && wv_program_variant(b.p, 0, &v) && !v.from_cache);
  bench_close(&b);
  b = bench_open(sums_text, &o);
  CHECK(launch(&b, 40) && wv_program_variant(b.p, 0, &v) && v.from_cache);
  wv_cache_clear(b.cx, dir);
  bench_close(&b);
  rmdir(dir);
}

TESTS_MAIN(RUN(one_program_for_a_power_of_two) RUN(one_program_for_each_value) RUN(mistakes)
               RUN(nothing_to_look_at_before) RUN(capture) RUN(callers_at_once)
                   RUN(kept_in_the_cache))
