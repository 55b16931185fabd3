/* test_runtime.c: devices, compiled programs and launches, on a driver without a GPU. */
#define _POSIX_C_SOURCE 200809L
#include "base/base.h"
#include "unit/runtime_kit.h"

static const char scale_text[] = "kernel @scale(%a: mem<M, N, f32>, %b: mem<M, N, f32>, %s: f32)\n"
                                 "  dynamic M; dynamic N\n"
                                 "  hardware threads 64\n"
                                 "  workgroup M by 4 on 0; workgroup N by 64 on 1; wave M by 1\n"
                                 "{\n"
                                 "  %x = read %a : tile<M, N, f32>\n"
                                 "  %t = broadcast %s : tile<M, N, f32>\n"
                                 "  %y = mul %x, %t\n"
                                 "  write %y, %b\n"
                                 "}\n";

enum { A = 0x10000, B = 0x20000 };

typedef struct ScaleArgs {
  Tensor a, b;
  wv_launch_arg arg[3];
} ScaleArgs;

static ScaleArgs *scale_args(ScaleArgs *s, int64_t m, int64_t n) {
  tensor(&s->a, A, "f32", 2, (int64_t[]){m, n});
  tensor(&s->b, B, "f32", 2, (int64_t[]){m, n});
  s->arg[0] = (wv_launch_arg){.tensor = &s->a.t};
  s->arg[1] = (wv_launch_arg){.tensor = &s->b.t};
  s->arg[2] = (wv_launch_arg){.number = 2.5};
  return s;
}

static bool launch(Bench *b, const ScaleArgs *s) {
  wv_diag_clear(b->cx);
  return wv_launch(b->p, b->cx, s->arg, 3, (void *)7, 0);
}

/* ---- drivers and devices ---- */

TEST(driver_is_absent) {
  setenv("WAVE_CUDA_LIB", "/nowhere/libcuda.so", 1);
  wv_ctx *cx = wv_ctx_new();
  wv_device_info info;
  CHECK_INT(wv_device_count(cx, WV_CUDA), 0);
  CHECK_INT(wv_diag_count(cx), 0);
  CHECK(!wv_device_get(cx, (wv_device){WV_CUDA, 0}, &info));
  CHECK(has(said(cx, "E0901"), "no CUDA driver found"));
  CHECK(has(said(cx, "E0901"), "/nowhere/libcuda.so"));
  CHECK(has(said(cx, "E0901"), "WAVE_CUDA_LIB"));
  wv_kernel *k = kit_parse(cx, scale_text);
  wv_diag_clear(cx);
  CHECK(!wv_compile(k, &(wv_compile_options){.target = "cuda"}));
  CHECK(has(said(cx, "E0901"), "no CUDA driver found"));
  wv_compile_options o = {.target = "sm_80", .device = -1, .cache = -1};
  wv_program *p = wv_compile(k, &o); /* compiling needs no driver */
  CHECK(p != NULL);
  CHECK(has(wv_program_text(p, cx, 0, "ptx"), ".target sm_80"));
  wv_program_free(p);
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

TEST(library_is_no_driver) {
  setenv("WAVE_CUDA_LIB", "libm.so.6", 1);
  wv_ctx *cx = wv_ctx_new();
  wv_device_info info;
  CHECK(!wv_device_get(cx, (wv_device){WV_CUDA, 0}, &info));
  CHECK(has(said(cx, "E0901"), "`libm.so.6` lacks `cuInit`"));
  wv_ctx_free(cx);
}

static void check_target(Harness *harness, int major, int minor, const char *target) {
  FakeCuda *fake = fake_open(FAKE_CUDA);
  fake->major = major, fake->minor = minor;
  wv_ctx *cx = wv_ctx_new();
  wv_device_info info;
  CHECK(wv_device_get(cx, (wv_device){WV_CUDA, 1}, &info));
  CHECK_STR(info.name, "Fake 1");
  CHECK_INT(info.units, 4);
  CHECK_INT(info.memory, 1 << 30);
  CHECK_INT(info.driver, 13000);
  if (target) CHECK_STR(info.target, target);
  else CHECK(!info.target);
  wv_ctx_free(cx);
}

TEST(devices) {
  FakeCuda *fake = fake_open(FAKE_CUDA);
  wv_ctx *cx = wv_ctx_new();
  wv_device_info info;
  CHECK_INT(wv_device_count(cx, WV_CUDA), 2);
  CHECK(!wv_device_get(cx, (wv_device){WV_CUDA, 2}, &info));
  CHECK(has(said(cx, "E0902"), "there is no CUDA device 2: 2 available"));
  CHECK(!wv_device_get(cx, (wv_device){77, 0}, &info));
  CHECK(has(said(cx, "E0906"), "unknown kind of device 77"));
  CHECK_INT(fake->retains, 0); /* querying does not create a context */
  wv_ctx_free(cx);
  check_target(harness, 9, 0, "sm_90a");
  check_target(harness, 8, 0, "sm_80");
  check_target(harness, 8, 6, "sm_86");
  check_target(harness, 8, 7, "sm_86");
  check_target(harness, 8, 9, "sm_89");
  check_target(harness, 10, 0, "sm_89"); /* sm_90a runs on 9.0 only */
  check_target(harness, 7, 5, NULL);
}

TEST(device_memory) {
  FakeCuda *fake = fake_open(FAKE_CUDA);
  wv_ctx *cx = wv_ctx_new();
  wv_device d = {WV_CUDA, 1};
  int from[4] = {1, 2, 3, 4}, to[4] = {0};
  void *memory = wv_device_alloc(cx, d, sizeof from);
  CHECK(memory != NULL);
  CHECK(wv_device_copy(cx, d, memory, from, sizeof from));
  CHECK(wv_device_copy(cx, d, to, memory, sizeof to));
  CHECK(memcmp(from, to, sizeof to) == 0);
  CHECK(wv_device_wait(cx, d, NULL));
  wv_device_release(cx, d, memory);
  CHECK_INT(fake->retains, 1);
  CHECK_INT(fake->pushes, 0); /* the thread's context is as it was */
  fake->fail = "cuMemAlloc_v2", fake->fail_error = 2;
  CHECK(!wv_device_alloc(cx, d, 1));
  CHECK(has(said(cx, "E0902"), "out of memory"));
  fake->fail = "cuStreamSynchronize", fake->fail_error = 700;
  wv_diag_clear(cx);
  CHECK(!wv_device_wait(cx, d, NULL));
  CHECK(has(said(cx, "E0902"), "an illegal memory access"));
  CHECK(has(said(cx, "E0902"), "simulator"));
  wv_ctx_free(cx);
  CHECK_INT(fake->releases, 1);
}

/* ---- launches ---- */

TEST(launch_passes_arguments) {
  Bench b = bench_open(scale_text, NULL);
  ScaleArgs s;
  CHECK(b.p != NULL);
  CHECK_STR(wv_program_name(b.p), "scale");
  CHECK_STR(wv_program_target(b.p), "sm_90a");
  CHECK_INT(wv_program_kind(b.p), WV_CUDA);
  CHECK_INT(b.fake->loads, 1); /* nothing is left for the first launch */
  CHECK(launch(&b, scale_args(&s, 12, 128)));
  CHECK_INT(b.fake->launches, 1);
  CHECK_INT(b.fake->last.grid[0], 3);
  CHECK_INT(b.fake->last.grid[1], 2);
  CHECK_INT(b.fake->last.grid[2], 1);
  CHECK(b.fake->last.stream == (void *)7);
  CHECK_INT(arg_i64(b.fake, 0), A);
  CHECK_INT(arg_i64(b.fake, 1), B);
  float number;
  memcpy(&number, b.fake->last.arg[2], 4);
  CHECK(number == 2.5f);
  bool seen_m = false, seen_n = false;
  for (int i = 3; i < b.fake->last.nargs; i++) {
    seen_m |= arg_i64(b.fake, i) == 12;
    seen_n |= arg_i64(b.fake, i) == 128;
  }
  CHECK(seen_m && seen_n);
  bench_close(&b);
  CHECK_INT(b.fake->unloads, b.fake->loads);
  CHECK_INT(b.fake->releases, b.fake->retains);
  CHECK_INT(b.fake->pushes, 0);
}

/* Values computed for the last launch are reused; addresses and numbers are the new ones. */
TEST(launch_again) {
  Bench b = bench_open(scale_text, NULL);
  ScaleArgs s;
  CHECK(launch(&b, scale_args(&s, 12, 128)));
  s.a.t.data = (void *)0x30000, s.arg[2].number = -1;
  CHECK(launch(&b, &s));
  CHECK_INT(arg_i64(b.fake, 0), 0x30000);
  float number;
  memcpy(&number, b.fake->last.arg[2], 4);
  CHECK(number == -1);
  CHECK_INT(b.fake->last.grid[0], 3);
  CHECK(launch(&b, scale_args(&s, 40, 128)));
  CHECK_INT(b.fake->last.grid[0], 10);
  CHECK_INT(b.fake->launches, 3);
  CHECK_INT(b.fake->loads, 1);
  bench_close(&b);
}

TEST(launch_on_another_device) {
  Bench b = bench_open(scale_text, NULL);
  ScaleArgs s;
  int here;
  scale_args(&s, 4, 64);
  s.a.t.device.index = s.b.t.device.index = 1;
  b.fake->enter(&here); /* another library's context is pushed and restored */
  CHECK(launch(&b, &s));
  b.fake->enter(NULL);
  CHECK_INT(b.fake->last.device, 1);
  CHECK_INT(b.fake->loads, 2);
  b.fake->enter(NULL);
  CHECK(launch(&b, &s)); /* a thread without a context gets one */
  CHECK_INT(b.fake->pushes, 0);
  scale_args(&s, 4, 64);
  s.b.t.device.index = 1;
  CHECK(!launch(&b, &s));
  CHECK(
      has(said(b.cx, "E0702"), "argument `b` is on device 1, but earlier tensors are on device 0"));
  bench_close(&b);
}

TEST(nothing_to_launch) {
  Bench b = bench_open(scale_text, NULL);
  ScaleArgs s;
  scale_args(&s, 0, 64);
  s.a.t.data = s.b.t.data = NULL; /* tensors without elements have no memory */
  CHECK(launch(&b, &s));
  CHECK(launch(&b, scale_args(&s, 4, 0)));
  CHECK_INT(b.fake->launches, 0);
  CHECK(launch(&b, scale_args(&s, 1, 1)));
  CHECK_INT(b.fake->launches, 1);
  bench_close(&b);
}

TEST(grid_is_too_large) {
  Bench b = bench_open(scale_text, NULL);
  ScaleArgs s;
  CHECK(launch(&b, scale_args(&s, 4, 64 * 65535)));
  CHECK(!launch(&b, scale_args(&s, 4, 64 * 65536)));
  CHECK(has(said(b.cx, "E0905"), "a grid of (1, 65536, 1)"));
  CHECK(has(said(b.cx, "E0905"), "at most (2147483647, 65535, 65535)"));
  CHECK_INT(b.fake->launches, 1);
  bench_close(&b);
}

/* ---- mistakes ---- */

TEST(arguments_that_do_not_fit) {
  Bench b = bench_open(scale_text, NULL);
  ScaleArgs s;
  scale_args(&s, 4, 64);
  wv_diag_clear(b.cx);
  CHECK(!wv_launch(b.p, b.cx, s.arg, 2, NULL, 0));
  CHECK(has(said(b.cx, "E0702"), "`scale` got 2 arguments, expected 3"));
  s.a.t.rank = 1;
  CHECK(!launch(&b, &s));
  CHECK(has(said(b.cx, "E0702"), "argument `a` has rank 1, expected 2: mem<M, N, f32>"));
  CHECK(has(said(b.cx, "E0702"), "test.wave:1:"));
  scale_args(&s, 4, 64)->b.t.dtype = wv_dtype_find("f16");
  CHECK(!launch(&b, &s));
  CHECK(has(said(b.cx, "E0702"), "argument `b` has dtype f16, expected mem<M, N, f32>"));
  scale_args(&s, 4, 64)->b.t.dtype = 1000;
  CHECK(!launch(&b, &s));
  scale_args(&s, 4, 64)->b.t.device.kind = WV_HOST;
  CHECK(!launch(&b, &s));
  CHECK(has(said(b.cx, "E0702"), "argument `b` is on `cpu`, expected `cuda`"));
  scale_args(&s, 4, 64)->b.t.device.index = 99;
  CHECK(!launch(&b, &s));
  scale_args(&s, 4, 64)->b.shape[1] = 65;
  CHECK(!launch(&b, &s));
  CHECK(has(said(b.cx, "E0702"), "argument `b` has size 65 along `N`, expected 64"));
  scale_args(&s, 4, 64)->a.shape[0] = -1;
  CHECK(!launch(&b, &s));
  CHECK(has(said(b.cx, "E0702"), "size -1"));
  scale_args(&s, 4, 64)->a.t.data = NULL;
  CHECK(!launch(&b, &s));
  CHECK(has(said(b.cx, "E0702"), "has a null data pointer"));
  scale_args(&s, 4, 64)->arg[1].tensor = NULL;
  CHECK(!launch(&b, &s));
  CHECK(has(said(b.cx, "E0702"), "argument `b` is not a tensor"));
  scale_args(&s, 4, 64)->arg[2].tensor = &s.a.t;
  CHECK(!launch(&b, &s));
  CHECK(has(said(b.cx, "E0702"), "argument `s` is a tensor, expected a number: f32"));
  CHECK_INT(b.fake->launches, 0);
  CHECK(launch(&b, scale_args(&s, 4, 64)));
  bench_close(&b);
}

/* The text with its assumptions required. */
static char *with_required(const char *text) {
  static const char before[] = "Eq(Mod(M, 2), 0)";
  const char *at = strstr(text, before) + strlen(before);
  size_t head = (size_t)(at - text), n = strlen(text) + 16;
  char *out = malloc(n);
  snprintf(out, n, "%.*s required%s", (int)head, text, at);
  return out;
}

TEST(sizes_that_depend_on_each_other) {
  static const char text[] =
      "kernel @scaled(%a: mem<M, K, f16>, %s: mem<M, K/32, i8>, %c: mem<M, K, f16>)\n"
      "  dynamic M; dynamic K\n"
      "  assume M < 100; assume Eq(Mod(M, 2), 0)\n"
      "  hardware threads 64\n"
      "  workgroup M by 4 on 0; wave M by 1; workgroup K by 64 on 1\n"
      "{\n"
      "  %x = read %a : tile<M, K, f16>\n"
      "  write %x, %c\n"
      "}\n";
  Bench b = bench_open(text, NULL);
  Tensor a, s, c;
  wv_launch_arg args[3] = {{.tensor = &a.t}, {.tensor = &s.t}, {.tensor = &c.t}};
  tensor(&a, A, "f16", 2, (int64_t[]){6, 96});
  tensor(&c, B, "f16", 2, (int64_t[]){6, 96});
  tensor(&s, B, "i8", 2, (int64_t[]){6, 3});
  CHECK(b.p && wv_launch(b.p, b.cx, args, 3, NULL, 0));
  s.t.dtype = wv_dtype_find("f8e8m0fnu"); /* bytes are bytes */
  CHECK(wv_launch(b.p, b.cx, args, 3, NULL, 0));
  s.shape[1] = 4;
  CHECK(!wv_launch(b.p, b.cx, args, 3, NULL, 0));
  CHECK(has(said(b.cx, "E0702"), "argument `s` has size 4 along `K/32`, expected 3"));
  wv_diag_clear(b.cx);
  a.shape[1] = c.shape[1] = 100;
  CHECK(!wv_launch(b.p, b.cx, args, 3, NULL, 0));
  CHECK(has(said(b.cx, "E0702"), "`K/32` is not an integer"));
  wv_diag_clear(b.cx);
  tensor(&a, A, "f16", 2, (int64_t[]){7, 96});
  tensor(&c, B, "f16", 2, (int64_t[]){7, 96});
  tensor(&s, B, "i8", 2, (int64_t[]){7, 3});
  CHECK(wv_launch(b.p, b.cx, args, 3, NULL, 0)); /* by code without assumptions */
  CHECK(has(said(b.cx, "R0701"), "`Eq(Mod(M, 2), 0)` does not hold for these arguments"));
  CHECK(has(said(b.cx, "R0701"), "test.wave:3:"));
  CHECK_INT(b.fake->launches, 3);
  wv_diag_clear(b.cx);
  CHECK(wv_launch(b.p, b.cx, args, 3, NULL, 0) && wv_diag_count(b.cx) == 0); /* said once */
  bench_close(&b);
  char *required = with_required(text);
  b = bench_open(required, NULL);
  CHECK(!wv_launch(b.p, b.cx, args, 3, NULL, 0));
  CHECK(has(said(b.cx, "E0709"), "the assumption `Eq(Mod(M, 2), 0)` does not hold"));
  CHECK(has(said(b.cx, "E0709"), "test.wave:3:"));
  CHECK_INT(b.fake->launches, 0);
  bench_close(&b);
  free(required);
}

/* ---- the driver fails ---- */

TEST(driver_refuses_code) {
  FakeCuda *fake = fake_open(FAKE_CUDA);
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = kit_parse(cx, scale_text);
  fake->fail = "cuModuleLoadDataEx", fake->fail_error = 218;
  CHECK(!wv_compile(k, NULL));
  CHECK(has(said(cx, "E0903"), "the driver rejects `scale`: CUDA_ERROR_218"));
  CHECK(has(said(cx, "E0903"), "told to fail"));
  CHECK(has(said(cx, "E0903"), "line two"));
  CHECK(has(said(cx, "E0903"), "line 10000 of the PTX comes from test.wave:"));
  CHECK(has(said(cx, "E0903"), "test.wave:1:"));
  wv_diag_clear(cx);
  fake->fail = "cuFuncLoad", fake->fail_error = 2;
  CHECK(!wv_compile(k, NULL));
  CHECK(has(said(cx, "E0902"), "`scale`: the driver cannot load its function: out of memory"));
  CHECK_INT(fake->loads, fake->unloads);
  fake->fail = NULL;
  wv_program *p = wv_compile(k, NULL); /* the process continues */
  CHECK(p != NULL);
  wv_program_free(p);
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

TEST(launch_fails) {
  Bench b = bench_open(scale_text, NULL);
  ScaleArgs s;
  b.fake->fail = "cuLaunchKernel", b.fake->fail_error = 2;
  CHECK(!launch(&b, scale_args(&s, 4, 64)));
  CHECK(has(said(b.cx, "E0902"), "`scale`: the launch failed: out of memory (CUDA_ERROR_2)"));
  CHECK(has(said(b.cx, "E0902"), "grid (1, 1, 1)"));
  CHECK(has(said(b.cx, "E0902"), "test.wave:1:"));
  b.fake->fail = NULL;
  CHECK(launch(&b, &s));
  bench_close(&b);
}

/* Messages of ptxas 13. */
static const char *const advices[] = {
    "(C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility across "
    "compilation units.",
    "(C7505) Potential Performance Loss: 'setmaxnreg' ignored to allow debugging.",
    "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count "
    "at entry.",
    "(C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
    "insufficient register resources for the wgmma pipeline in the function 'scale'",
    "(C7519) warpgroup.arrive is injected in around line 205 by compiler to allow use of registers "
    "in GMMA in function 'scale'",
};

static int remarks_with(wv_ctx *cx, const char *words) {
  wv_diag d;
  int n = 0;
  for (int i = 0; i < wv_diag_count(cx); i++)
    n += wv_diag_get(cx, i, &d) && strcmp(d.code, "R0901") == 0 && has(d.rendered, words);
  return n;
}

TEST(advice_of_the_driver) {
  FakeCuda *fake = fake_open(FAKE_CUDA);
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = kit_parse(cx, scale_text);
  char log[4096] = "ptxas info    : 0 bytes gmem\n"
                   "ptxas info    : Compiling entry function 'scale' for 'sm_90a'\n";
  for (size_t i = 0; i < WV_LEN(advices); i++)
    snprintf(log + strlen(log), sizeof log - strlen(log), "ptxas info    : %s\n", advices[i]);
  strcat(log, "ptxas info    : Used 42 registers, used 1 barriers, 376 bytes cmem[0]\n");
  fake->spilled = 24;
  fake->info_log = log;
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  wv_program *p = wv_compile(k, NULL);
  unsetenv("CUDA_CACHE_DISABLE");
  for (size_t i = 0; i < WV_LEN(advices); i++) CHECK_INT(remarks_with(cx, advices[i]), 1);
  CHECK_INT(remarks_with(cx, "24 bytes per thread are spilled"), 1);
  CHECK_INT(remarks_with(cx, "`scale`"), (int)WV_LEN(advices) + 1);
  CHECK(has(said(cx, "R0902"), "CUDA_CACHE_DISABLE"));
  wv_resources r;
  CHECK(wv_program_resources(p, cx, 0, 0, &r));
  CHECK_INT(r.registers, 42);
  CHECK_INT(r.spilled, 24);
  CHECK(r.threads > 0 && r.workgroups == 1024 / r.threads);
  CHECK(r.occupancy == 0.5);
  wv_program_free(p);
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

TEST(overlapping_launches) {
  Bench b = bench_open(scale_text, NULL);
  ScaleArgs s;
  scale_args(&s, 4, 64);
  CHECK(wv_launch(b.p, b.cx, s.arg, 3, NULL, WV_LAUNCH_OVERLAP));
  CHECK_INT(b.fake->last.overlap, 1);
  bench_close(&b);
  FakeCuda *old = fake_open(FAKE_CUDA_OLD);
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = kit_parse(cx, scale_text);
  wv_program *p = wv_compile(k, NULL);
  CHECK(p && wv_launch(p, cx, s.arg, 3, NULL, 0));
  CHECK(p && !wv_launch(p, cx, s.arg, 3, NULL, WV_LAUNCH_OVERLAP));
  CHECK(has(said(cx, "E0905"), "lacks"));
  CHECK_INT(old->launches, 1);
  wv_program_free(p);
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

/* Workgroups that wait for each other are launched so that all of them are resident. */
TEST(workgroups_that_wait) {
  static const char text[] = "thread kernel @flag(%flag: mem<M, i32>)\n"
                             "  launch grid (M) block (32) wave 32\n"
                             "  dynamic M\n"
                             "{\n"
                             "  %zero = scalar 0 : index\n"
                             "  while F as signed(F.2) (%f) from %zero cond signed(F.2) < 1 {\n"
                             "    %v = load %flag, %zero {volatile} : i32\n"
                             "    %n = cast %v : index\n"
                             "    yield %n\n"
                             "  }\n"
                             "}\n";
  Bench b = bench_open(text, NULL);
  Tensor flag;
  wv_launch_arg arg = {.tensor = &tensor(&flag, A, "i32", 1, (int64_t[]){2})->t};
  ScaleArgs s;
  CHECK(b.p && wv_launch(b.p, b.cx, &arg, 1, NULL, 0));
  CHECK_INT(b.fake->last.together, 1);
  b.fake->fail = "cuLaunchKernelEx", b.fake->fail_error = 720;
  CHECK(b.p && !wv_launch(b.p, b.cx, &arg, 1, NULL, 0));
  CHECK(has(said(b.cx, "E0905"), "wait for each other, but do not all fit"));
  bench_close(&b);
  b = bench_open(scale_text, NULL);
  CHECK(launch(&b, scale_args(&s, 4, 64)));
  CHECK_INT(b.fake->last.together, 0);
  bench_close(&b);
}

/* Four multiprocessors hold 32 such workgroups each. */
TEST(registers_are_spilled_until_all_fit) {
  static const char text[] = "thread kernel @waits(%%flag: mem<4, i32>)\n"
                             "  launch grid (%d) block (32) wave 32\n"
                             "{\n"
                             "  %%zero = scalar 0 : index\n"
                             "  while F as signed(F.2) (%%f) from %%zero cond signed(F.2) < 1 {\n"
                             "    %%v = load %%flag, %%zero {volatile} : i32\n"
                             "    %%n = cast %%v : index\n"
                             "    yield %%n\n"
                             "  }\n"
                             "}\n";
  for (int grid = 128; grid <= 300; grid += 172) {
    char now[512];
    snprintf(now, sizeof now, text, grid);
    Bench b = bench_open(now, NULL);
    Tensor flag;
    wv_launch_arg arg = {.tensor = &tensor(&flag, A, "i32", 1, (int64_t[]){4})->t};
    CHECK(b.p && wv_launch(b.p, b.cx, &arg, 1, NULL, 0));
    CHECK_INT(b.fake->loads, grid == 128 ? 1 : 2);
    CHECK_INT(b.fake->unloads, grid == 128 ? 0 : 1);
    bool told = has(said(b.cx, "R0901"), "300 workgroups that wait for each other");
    CHECK(told == (grid > 128));
    bench_close(&b);
  }
}

/* ---- integers ---- */

typedef struct Range {
  const char *dtype;
  int64_t least, most;
} Range;

static const Range ranges[] = {{"i8", INT8_MIN, INT8_MAX},    {"u8", 0, UINT8_MAX},
                               {"i16", INT16_MIN, INT16_MAX}, {"u16", 0, UINT16_MAX},
                               {"i32", INT32_MIN, INT32_MAX}, {"u32", 0, UINT32_MAX}};

static const char *fill_text(const char *dtype) {
  static char text[400];
  snprintf(text, sizeof text,
           "kernel @fill(%%s: %s, %%b: mem<N, %s>)\n  dynamic N\n"
           "  workgroup N by 64 on 0; hardware threads 64\n"
           "{\n  %%t = broadcast %%s : tile<N, %s>\n  write %%t, %%b\n}\n",
           dtype, dtype, dtype);
  return text;
}

/* The first launch checks its arguments; one like the last has a way of its own. */
TEST(integers_beyond_their_type) {
  for (size_t i = 0; i < WV_LEN(ranges); i++) {
    const Range *r = &ranges[i];
    Bench b = bench_open(fill_text(r->dtype), NULL);
    Tensor to;
    wv_launch_arg args[2] = {{0}, {.tensor = &tensor(&to, A, r->dtype, 1, (int64_t[]){5})->t}};
    int64_t bad[] = {r->least - 1, r->most + 1, r->most + (INT64_C(1) << 32), INT64_MAX, INT64_MIN};
    for (size_t j = 0; j < WV_LEN(bad); j++) {
      args[0].integer = j % 2 ? r->most : r->least;
      CHECK(b.p && wv_launch(b.p, b.cx, args, 2, NULL, 0));
      CHECK(b.p && wv_launch(b.p, b.cx, args, 2, NULL, 0));
      args[0].integer = bad[j];
      CHECK(b.p && !wv_launch(b.p, b.cx, args, 2, NULL, 0));
      CHECK(has(said(b.cx, "E0702"), "which is not a valid"));
      CHECK(!wv_dtype_holds(wv_dtype_find(r->dtype), bad[j]));
    }
    bench_close(&b);
  }
  CHECK(wv_dtype_holds(wv_dtype_find("i64"), INT64_MIN) &&
        wv_dtype_holds(wv_dtype_find("u64"), -1));
  CHECK(wv_dtype_holds(wv_dtype_find("i1"), 1) && !wv_dtype_holds(wv_dtype_find("i1"), 2));
  CHECK(!wv_dtype_holds(-1, 0) && !wv_dtype_holds(1000, 0) && !wv_dtype_holds(0, 0)); /* a float */
}

/* The evaluator and the simulator refuse the same. */
TEST(integers_beyond_their_type_on_the_host) {
  static unsigned char data[64];
  static const int64_t five = 5;
  for (size_t i = 0; i < 2 * WV_LEN(ranges); i++) {
    const Range *r = &ranges[i / 2];
    wv_ctx *cx = wv_ctx_new();
    wv_kernel *k = NULL;
    wv_buffer to = {data, r->dtype, 1, &five, NULL};
    wv_arg args[2] = {{.integer = r->most}, {.buffer = &to}};
    CHECK_INT(wv_parse(cx, "fill.wave", fill_text(r->dtype), &k, 1), 1);
    if (i % 2) CHECK(wv_lower(k, &(wv_pass_options){.target = "gfx942"}));
    for (int j = 0; j < 2; j++, args[0].integer++) {
      bool ok = i % 2 ? wv_sim(k, args, 2, NULL, NULL) : wv_eval(k, args, 2, NULL);
      CHECK(ok == (j == 0));
    }
    CHECK(has(said(cx, "E0702"), "which is not a valid"));
    wv_kernel_free(k);
    wv_ctx_free(cx);
  }
}

/* ---- many numbers ---- */

/* More expressions of sizes than a kernel can be given arguments, a division among them. */
TEST(more_numbers_than_arguments) {
  enum { STORES = 400 };
  char *text = malloc(1 << 16), *at = text;
  at += sprintf(at, "thread kernel @many(%%a: mem<N, i32>)\n  dynamic N\n"
                    "  launch grid (1) block (32) wave 32\n{\n");
  for (int i = 0; i < STORES; i++)
    at += sprintf(at,
                  "  %%v%d = expr Mod(%d*N + floor(%d*N/(N + 1)), 1000) : i32\n"
                  "  %%o%d = expr Mod(%d*N + %d, N) : index\n  store %%v%d, %%a, %%o%d\n",
                  i, i + 3, i + 7, i, i + 2, i, i, i);
  sprintf(at, "}\n");
  Bench b = bench_open(text, NULL);
  Tensor a;
  wv_launch_arg arg = {.tensor = &tensor(&a, 0x10000, "i32", 1, (int64_t[]){500})->t};
  CHECK(b.p && wv_launch(b.p, b.cx, &arg, 1, NULL, 0));
  CHECK(b.fake->last.nargs > 100 && b.fake->last.nargs < 200);
  free(text);
  bench_close(&b);
}

TESTS_MAIN(RUN(driver_is_absent) RUN(library_is_no_driver) RUN(devices) RUN(device_memory)
               RUN(launch_passes_arguments) RUN(launch_again) RUN(launch_on_another_device)
                   RUN(nothing_to_launch) RUN(grid_is_too_large) RUN(arguments_that_do_not_fit)
                       RUN(sizes_that_depend_on_each_other) RUN(driver_refuses_code)
                           RUN(launch_fails) RUN(advice_of_the_driver) RUN(overlapping_launches)
                               RUN(workgroups_that_wait) RUN(registers_are_spilled_until_all_fit)
                                   RUN(more_numbers_than_arguments) RUN(integers_beyond_their_type)
                                       RUN(integers_beyond_their_type_on_the_host))
