/* test_runtime_saved.c: programs as bytes: loaded without kernel and compiler, or rejected. */
#include "unit/runtime_kit.h"

static const char text[] = "kernel @copy(%a: mem<M, N, f16>, %b: mem<M, N, f16>)\n"
                           "  dynamic M; dynamic N; assume M < 1000\n"
                           "  hardware threads 32\n"
                           "  workgroup M by 4 on 0; workgroup N by 64 on 1; wave M by 4\n"
                           "{\n"
                           "  %x = read %a : tile<M, N, f16>\n"
                           "  write %x, %b\n"
                           "}\n";

static bool launch(wv_program *p, wv_ctx *cx, uintptr_t at, int64_t m, int64_t n) {
  Tensor a, b;
  tensor(&a, at, "f16", 2, (int64_t[]){m, n});
  tensor(&b, 0x20000, "f16", 2, (int64_t[]){m, n});
  wv_launch_arg args[] = {{.tensor = &a.t}, {.tensor = &b.t}};
  return wv_launch(p, cx, args, 2, NULL, 0);
}

TEST(every_variant_is_there) {
  Bench b = bench_open(text, NULL);
  size_t n;
  char *bytes = wv_program_save(b.p, b.cx, &n);
  CHECK(bytes != NULL);
  wv_ctx *cx = wv_ctx_new();
  FakeCuda *fake = b.fake;
  bench_close(&b); /* nothing of it is needed any more */
  wv_program *p = wv_program_load(cx, bytes, n, 0);
  CHECK(p != NULL);
  wv_free(bytes);
  CHECK_STR(wv_program_name(p), "copy");
  int launches = fake->launches;
  CHECK(launch(p, cx, 0x10000, 8, 64)); /* aligned */
  CHECK_INT(fake->last.grid[0], 2);
  CHECK(launch(p, cx, 0x10002, 8, 63));        /* not */
  CHECK(launch(p, cx, 0x10000, 800, 1000000)); /* beyond 32 bits */
  CHECK_INT(fake->launches, launches + 3);
  CHECK(launch(p, cx, 0x10000, 1001, 64)); /* by code without the assumption, which is also saved */
  CHECK(has(said(cx, "R0701"), "the assumption `M < 1000` does not hold"));
  wv_diag_clear(cx);
  CHECK(has(wv_program_text(p, cx, 0, "ptx"), ".entry copy"));
  wv_resources r;
  CHECK(wv_program_resources(p, cx, 0, 0, &r) && r.registers == 42);
  wv_program_free(p);
  wv_ctx_free(cx);
}

static bool is_refused(wv_ctx *cx, const char *bytes, size_t n, const char *why) {
  wv_diag_clear(cx);
  wv_program *p = wv_program_load(cx, bytes, n, -1);
  bool refused = !p && has(said(cx, "E0907"), why);
  wv_program_free(p);
  return refused;
}

TEST(bytes_that_are_damaged) {
  Bench b = bench_open(text, &(wv_compile_options){.device = -1});
  size_t n;
  int taken = 0;
  char *bytes = wv_program_save(b.p, b.cx, &n);
  CHECK(is_refused(b.cx, bytes, 0, "not a compiled kernel"));
  CHECK(is_refused(b.cx, "something else altogether", 25, "not a compiled kernel"));
  CHECK(is_refused(b.cx, bytes, n - 1, "checksum"));
  for (size_t i = 8; i < n; i += 1 + n / 500) {
    bytes[i] ^= 1;
    taken += !is_refused(b.cx, bytes, n, "checksum");
    bytes[i] ^= 1;
  }
  CHECK_INT(taken, 0);
  wv_program *p = wv_program_load(b.cx, bytes, n, -1);
  CHECK(p != NULL);
  wv_program_free(p);
  wv_free(bytes);
  bench_close(&b);
}

TEST(as_c) {
  static const char odd[] =
      "kernel @odd.name(%int: mem<M, f32>, %n: i32, %x: f64, %p: mem<M, f32>)\n"
      "  dynamic M; hardware threads 32; workgroup M by 64 on 0\n"
      "{\n  %r = read %int\n  write %r, %p\n}\n";
  Bench b = bench_open(odd, &(wv_compile_options){.target = "sm_80", .device = -1});
  char *source = NULL, *header = NULL;
  CHECK(b.p && wv_program_emit_c(b.p, b.cx, "odd.h", &source, &header));
  CHECK(has(header, "wv_program *odd_name_load(wv_ctx *cx);"));
  CHECK(has(header,
            "const wv_tensor *int_, int64_t n, double x, const wv_tensor *p_, void *stream);"));
  CHECK(has(source, "#include \"odd.h\""));
  CHECK(has(source, "args[2].number = x;") && has(source, "args[1].integer = n;"));
  wv_free(source), wv_free(header);
  bench_close(&b);
}

TESTS_MAIN(RUN(every_variant_is_there) RUN(bytes_that_are_damaged) RUN(as_c))
