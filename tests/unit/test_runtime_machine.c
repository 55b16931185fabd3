/* test_runtime_machine.c: which machine options name, with a GPU and without one. */
#define _POSIX_C_SOURCE 200809L
#include "driver/compile.h"
#include "unit/hip_kit.h"

typedef struct Case {
  const char *target, *device;           /* the options */
  const char *kind, *with_gpu, *without; /* the machine, and its target with and without a GPU */
  bool anywhere, replaced;
} Case;

static const Case cases[] = {
    {NULL, NULL, NULL, "sm_90a", "", true, false},
    {"", "hip", NULL, "sm_90a", "", true, false},
    {"", "rocm", NULL, "sm_90a", "", true, false},
    {"", "something", NULL, "sm_90a", "", true, false},
    {"", "cpu", "cpu", "", "", false, false},
    {"", "cuda", "cuda", "sm_90a", "sm_80", false, false},
    {"eval", "cuda", "eval", "", "", false, false},
    {"sim", NULL, "sim", "sim", "sim", false, false},
    {"sim:gfx942", NULL, "sim", "sim:gfx942", "sim:gfx942", false, false},
    {"llvm-cpu", "cuda", "cpu", "", "", false, false},
    {"cpu_neon", NULL, "cpu", "cpu_neon", "cpu_neon", false, false},
    {"nvidia", NULL, "cuda", "sm_90a", "sm_80", false, false},
    {"cuda/sm_86", NULL, "cuda", "sm_86", "sm_86", false, false},
    {"cuda/sm_87", NULL, "cuda", "sm_86", "sm_86", false, false},
    {"sm_90", NULL, "cuda", "sm_90a", "sm_90a", false, false},
    {"hip", NULL, NULL, "sm_90a", "", true, true},
    {"rocm/gfx1100", NULL, NULL, "sm_90a", "", true, true},
    {"gfx1030", NULL, NULL, "sm_90a", "", true, true},
};

static bool is_text(const char *text, const char *expected) {
  return strcmp(text ? text : "", expected) == 0;
}

static void check_case(Harness *harness, wv_ctx *cx, const Case *c, bool gpu) {
  const char *kind = c->kind ? c->kind : gpu ? "cuda" : "cpu";
  wv_machine_options o = {.target = c->target, .device = c->device};
  wv_machine m = {0};
  CHECK(wv_machine_find(cx, &o, NULL) && wv_machine_find(cx, &o, &m));
  CHECK_STR(m.kind, kind);
  CHECK_STR(m.target ? m.target : "", gpu ? c->with_gpu : c->without);
  CHECK_INT(m.device, gpu && strcmp(kind, "cuda") == 0 ? 0 : -1);
  CHECK(m.anywhere == c->anywhere && (m.remark != NULL) == c->replaced);
  o.strict = true;
  CHECK(wv_machine_find(cx, &o, &m) == !c->replaced);
  CHECK(has(said(cx, "E0601"), "there is no AMD device here") == c->replaced);
  wv_diag_clear(cx);
}

static void check_cases(Harness *harness, const char *driver, bool gpu) {
  setenv("WAVE_CUDA_LIB", driver, 1);
  setenv("WAVE_HIP_LIB", "/nowhere/libamdhip64.so", 1);
  wv_ctx *cx = wv_ctx_new();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(harness, cx, &cases[i], gpu);
  wv_ctx_free(cx);
}

TEST(with_a_gpu) {
  fake_open(FAKE_CUDA);
  check_cases(harness, FAKE_CUDA, true);
}

TEST(without_a_gpu) { check_cases(harness, "/nowhere/libcuda.so", false); }

TEST(replaced) {
  wv_ctx *cx = wv_ctx_new();
  wv_machine_options o = {.target = "hip/gfx942"};
  wv_machine m;
  setenv("WAVE_CUDA_LIB", "/nowhere/libcuda.so", 1);
  CHECK(wv_machine_find(cx, &o, &m));
  CHECK_STR(m.remark,
            "there is no AMD device here to run `hip/gfx942`; compiled for this machine's CPU "
            "(target `emu:gfx942` executes its machine code on the host)");
  CHECK_STR(m.shown, "gfx942"); /* its passes are shown, although another machine runs the kernel */
  fake_open(FAKE_CUDA);
  CHECK(wv_machine_find(cx, &o, &m) && has(m.remark, "compiled for `sm_90a`"));
  o.code_only = true; /* code can be looked at without a device */
  CHECK(wv_machine_find(cx, &o, &m) && is_text(m.kind, "hip") && is_text(m.target, "gfx942"));
  CHECK(!m.remark && m.device == -1);
  o.target = "gfx1030"; /* there is no such row */
  CHECK(wv_machine_find(cx, &o, &m) && is_text(m.shown, "sm_90a"));
  wv_ctx_free(cx);
}

/* A GPU that is too old for every row has no target: compiling for it says so. */
TEST(old_gpu) {
  FakeCuda *fake = fake_open(FAKE_CUDA);
  wv_ctx *cx = wv_ctx_new();
  wv_machine m;
  fake->major = 7;
  CHECK(wv_machine_find(cx, NULL, &m) && is_text(m.kind, "cuda") && !m.target && m.device == 0);
  wv_ctx_free(cx);
}

typedef struct AmdCase {
  const char *target, *chip; /* the option, and the device */
  bool found;                /* once there is code for it */
} AmdCase;

/* An AMD GPU is used if code is generated for it. */
TEST(amd_gpus) {
  static const AmdCase rows[] = {{"", "gfx942:sramecc+:xnack-", true},
                                 {"hip", "gfx90a", true},
                                 {"gfx942", "gfx942", true},
                                 {"rocm/gfx1100", "gfx1100", true},
                                 {"gfx942", "gfx90a", false},
                                 {"hip", "gfx1036", false},
                                 {"", "gfx1036", false},
                                 {"gfx1036", "gfx1036", false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const AmdCase *c = &rows[i];
    bool hip = c->found && backend_serves("gfx942");
    fake_hip_open(FAKE_HIP)->chip = c->chip;
    wv_ctx *cx = wv_ctx_new();
    wv_machine m;
    CHECK(wv_machine_find(cx, &(wv_machine_options){.target = c->target}, &m));
    bool replaced = *c->target && !hip; /* by a GPU of another kind, or the CPU */
    bool other = !c->found && strcmp(c->chip, "gfx90a") == 0 && backend_serves("gfx90a");
    CHECK_STR(m.kind, hip || other ? "hip" : "cpu");
    CHECK_INT(m.device, hip || other ? 0 : -1);
    CHECK((m.remark != NULL) == replaced);
    wv_ctx_free(cx);
  }
}

TEST(both_vendors) {
  fake_hip_open(FAKE_HIP);
  fake_open(FAKE_CUDA);
  setenv("WAVE_HIP_LIB", FAKE_HIP, 1);
  wv_ctx *cx = wv_ctx_new();
  wv_machine m;
  CHECK(wv_machine_find(cx, NULL, &m) && is_text(m.target, "sm_90a"));
  CHECK(wv_machine_find(cx, &(wv_machine_options){.device = "hip"}, &m)); /* says nothing */
  CHECK(is_text(m.target, "sm_90a") && m.anywhere);
  wv_ctx_free(cx);
  setenv("WAVE_HIP_LIB", "/nowhere/libamdhip64.so", 1);
}

TEST(without_llvm) {
  wv_machine_options o = {.target = "cpu"};
  wv_machine m;
  setenv("WAVE_LLVM", "/nowhere/libLLVM.so", 1);
  wv_ctx *cx = wv_ctx_new();
  CHECK(wv_machine_find(cx, &o, &m) && has(m.evaluated, "runs on the reference evaluator"));
  o.target = "eval"; /* as requested */
  CHECK(wv_machine_find(cx, &o, &m) && !m.evaluated);
  wv_ctx_free(cx);
  unsetenv("WAVE_LLVM");
}

TEST(names_that_mean_nothing) {
  const char *const bad[] = {"evl", "sim:sm_91", "vulkan/sm_90", "hip/mi300", "cuda:0", "sm_75"};
  wv_ctx *cx = wv_ctx_new();
  wv_machine m;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    wv_machine_options o = {.target = bad[i], .at = {"mine.py", 7, 3, 4}};
    CHECK(!wv_machine_find(cx, &o, &m) && !wv_machine_find(cx, &o, NULL));
    CHECK(has(said(cx, "E0603"), "mine.py:7:3") && has(said(cx, "E0603"), bad[i]));
    CHECK(!wv_target_device(bad[i]));
    wv_diag_clear(cx);
  }
  CHECK(!wv_machine_find(cx, &(wv_machine_options){.target = "sim:sm_90"}, &m));
  CHECK(has(said(cx, "E0603"), "did you mean `sim:sm_80`?"));
  CHECK(!wv_machine_find(NULL, NULL, &m) && !wv_target_device(NULL));
  wv_ctx_free(cx);
}

TEST(calls_with_tensors_elsewhere) {
  const struct {
    wv_machine m;
    const char *where, *kind, *target;
    int device;
  } rows[] = {
      {{.kind = "eval", .device = -1}, "cuda", "eval", "", -1},
      {{.kind = "sim", .target = "sim:toy8", .device = -1}, "cpu", "sim", "sim:toy8", -1},
      {{.kind = "cpu", .device = -1}, "cpu", "cpu", "cpu", 0},
      {{.kind = "cpu", .target = "cpu_neon", .device = -1}, "cpu", "cpu", "cpu_neon", 0},
      {{.kind = "cpu", .device = -1, .anywhere = true}, "cuda", "cuda", "cuda", 0},
      {{.kind = "cuda", .target = "sm_80", .device = -1}, "cuda", "cuda", "sm_80", -1},
      {{.kind = "cuda", .target = "sm_90a", .anywhere = true}, "cpu", "cpu", "cpu", 0},
      {{.kind = "cuda", .anywhere = true}, "cuda", "cuda", "cuda", 0},
      {{.kind = "cpu", .device = -1, .anywhere = true}, "hip", "hip", "hip", 0},
      {{.kind = "hip", .target = "gfx942", .device = 1}, "hip", "hip", "gfx942", 1},
  };
  wv_ctx *cx = wv_ctx_new();
  wv_machine m;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    CHECK(wv_machine_on(cx, &rows[i].m, rows[i].where, &m));
    CHECK_STR(m.kind, rows[i].kind);
    CHECK_STR(m.target ? m.target : "", rows[i].target);
    CHECK_INT(m.device, rows[i].device);
  }
  CHECK(!wv_machine_on(cx, &(wv_machine){.kind = "cpu"}, "cuda", &m));
  CHECK(!wv_machine_on(cx, &(wv_machine){.kind = "cuda", .target = "sm_80"}, "cpu", &m));
  CHECK_INT(wv_diag_count(cx), 0);
  wv_ctx_free(cx);
  setenv("WAVE_LLVM", "/nowhere/libLLVM.so", 1);
  cx = wv_ctx_new();
  CHECK(wv_machine_on(cx, &(wv_machine){.kind = "cuda", .anywhere = true}, "cpu", &m));
  CHECK(has(m.evaluated, "no libLLVM"));
  CHECK(!wv_machine_on(cx, NULL, "cpu", &m) && !wv_machine_on(cx, &m, NULL, &m));
  unsetenv("WAVE_LLVM");
  wv_ctx_free(cx);
}

TEST(the_evaluator_replaces_a_cpu) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = kit_parse(
      cx, "kernel @f(%a: mem<M, f32>)\n  hardware threads 64; workgroup M by 64 on 0\n{\n}\n");
  CHECK(k && !wv_compile_fallback(k, "cpu", false)); /* nothing failed */
  wv_diag_report(cx, "R0609", (wv_place){0}, "a remark", NULL);
  wv_diag_report(cx, "E0601", (wv_place){0}, "`topk` is not supported yet", NULL);
  const char *why = wv_compile_fallback(k, "cpu", false);
  CHECK_STR(why, "`f` runs on the reference evaluator, which is slow: `topk` is not supported yet");
  CHECK(wv_compile_fallback(k, "cpu_neon", false) && !wv_compile_fallback(k, "cpu", true));
  CHECK(!wv_compile_fallback(k, "sm_90a", false) && !wv_compile_fallback(k, "sim:cpu", false));
  CHECK(!wv_compile_fallback(k, NULL, false) && !wv_compile_fallback(NULL, "cpu", false));
  wv_diag_report(cx, "E0303", (wv_place){0}, "another error", NULL);
  CHECK(!wv_compile_fallback(k, "cpu", false));
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

TEST(devices_and_families) {
  CHECK_STR(wv_target_device("hip/gfx942"), "hip");
  CHECK_STR(wv_target_device("sm_86"), "cuda");
  CHECK_STR(wv_target_device("sim:cpu"), "sim");
  CHECK_STR(wv_target_device("local-sync"), "cpu");
  CHECK_STR(wv_target_family("gfx1201"), "RDNA");
  CHECK_STR(wv_target_family(NULL), "CDNA");
}

TESTS_MAIN(RUN(with_a_gpu) RUN(without_a_gpu) RUN(replaced) RUN(old_gpu) RUN(amd_gpus)
               RUN(both_vendors) RUN(without_llvm) RUN(names_that_mean_nothing)
                   RUN(calls_with_tensors_elsewhere) RUN(the_evaluator_replaces_a_cpu)
                       RUN(devices_and_families))
