/* test_context_memory.c: a call leaves nothing in its context, whether it succeeds or fails. Each
 * is repeated, and the context's arena must have its size after the first few: what is interned is
 * there by then. tests/python/isolated/leak_failures.py measures whole processes. */
#include "base/arena.h"
#include "driver/api/api.h"
#include "unit/harness.h"
#include "wave.h"

static const char COPY[] = "kernel @k(%a: mem<M, f32>, %b: mem<M, f32>)\n"
                           "  workgroup M by 64 on 0\n"
                           "  hardware threads 64, vector {M: 64}\n"
                           "  dynamic M\n"
                           "{\n"
                           "  %x = read %a\n"
                           "  write %x, %b\n"
                           "}\n";
static const char RACE[] = "thread kernel @race(%a: mem<64, f32>)\n"
                           "  launch grid (1) block (64) wave 32\n"
                           "{\n"
                           "  %at = expr 63 - $T0 : index\n"
                           "  %own = expr $T0 : index\n"
                           "  %x = load %a, %at : f32\n"
                           "  store %x, %a, %own\n"
                           "}\n";

static float numbers[64];
static const int64_t all = 64, some = 4, others = 5;
static const wv_buffer given[] = {{numbers, "f32", 1, &all, NULL},
                                  {numbers, "f32", 1, &some, NULL},
                                  {numbers, "f32", 1, &others, NULL}};

static wv_kernel *parsed(wv_ctx *cx, const char *text) {
  wv_kernel *k = NULL;
  return wv_parse(cx, "k.wave", text, &k, 1) == 1 ? k : NULL;
}

/* ---- the calls: true if it did what is expected of it ---- */

static bool text_is_read(wv_ctx *cx) {
  wv_kernel *k = parsed(cx, COPY);
  wv_kernel_free(k);
  return k != NULL;
}

static bool text_is_refused(wv_ctx *cx) {
  return !parsed(cx, "kernel @k(%a: mem<M, f32>) {\n  x\n");
}

static bool kernel_is_not_lowered(wv_ctx *cx) {
  wv_kernel *k = parsed(cx, COPY);
  bool ok = k && wv_lower(k, &(wv_pass_options){.target = "no_machine"});
  wv_kernel_free(k);
  return k && !ok;
}

static bool call_is_refused(wv_ctx *cx) {
  wv_kernel *k = parsed(cx, COPY);
  wv_arg args[] = {{.buffer = &given[1]}, {.buffer = &given[2]}};
  bool ok = k && wv_eval(k, args, 2, NULL);
  wv_kernel_free(k);
  return k && !ok;
}

static bool simulation_finds_a_race(wv_ctx *cx) {
  wv_kernel *k = parsed(cx, RACE);
  wv_report *report = NULL;
  bool ok = k && wv_sim(k, &(wv_arg){.buffer = &given[0]}, 1, NULL, &report);
  wv_report_free(report);
  wv_kernel_free(k);
  return k && !ok;
}

static bool target_is_not_here(wv_ctx *cx) {
  wv_kernel *k = parsed(cx, COPY);
  wv_program *p = k ? wv_compile(k, &(wv_compile_options){.target = "gfx942", .cache = -1}) : NULL;
  wv_kernel_free(k);
  return k && !p;
}

static bool other_cpu_is_not_here(wv_ctx *cx) {
  static const char *const cpus[] = {"cpu_neon", "cpu_avx512"};
  int refused = 0;
  for (size_t i = 0; i < WV_LEN(cpus); i++) {
    wv_kernel *k = parsed(cx, COPY);
    wv_compile_options o = {.target = cpus[i], .cache = -1};
    wv_program *p = k ? wv_compile(k, &o) : NULL;
    refused += k && !p;
    wv_program_free(p);
    wv_kernel_free(k);
  }
  return refused > 0;
}

static bool launch_is_refused(wv_ctx *cx) {
  wv_kernel *k = parsed(cx, COPY);
  wv_compile_options o = {.target = "cpu", .cache = -1};
  wv_program *p = k ? wv_compile(k, &o) : NULL;
  wv_tensor a = {.data = numbers, .shape = &some, .rank = 1, .dtype = wv_dtype_find("f32")}, b = a;
  a.device = b.device = (wv_device){WV_HOST, 0};
  b.shape = &others;
  bool ok = p && wv_launch(p, cx, (wv_launch_arg[]){{.tensor = &a}, {.tensor = &b}}, 2, NULL, 0);
  wv_program_free(p);
  wv_kernel_free(k);
  return !ok;
}

static bool texts_are_shown(wv_ctx *cx) {
  wv_kernel *k = parsed(cx, COPY);
  const char *name;
  wv_type t;
  bool output, ok = k && wv_kernel_param(k, 0, &name, &t, &output) && wv_type_text(cx, t) &&
                    wv_expr_text(cx, wv_type_dim(t, 0));
  wv_kernel_free(k);
  return ok;
}

static bool cache_is_found(wv_ctx *cx) { return wv_cache_dir(cx) && wv_cache_limit(cx) >= 0; }

/* ---- repeated ---- */

static void check_flat(Harness *harness, const char *name, bool (*call)(wv_ctx *cx)) {
  enum { FIRST = 3, TIMES = 20 };
  wv_ctx *cx = wv_ctx_new();
  size_t before = 0;
  for (int i = 0; i < FIRST + TIMES; i++) {
    if (i == FIRST) before = arena_bytes(cx->cx->arena);
    if (!call(cx)) printf("%s: not as expected\n", name), harness->failures_here++;
    wv_diag_clear(cx);
  }
  size_t grown = arena_bytes(cx->cx->arena) - before;
  if (grown) printf("%s: %zu bytes after %d calls\n", name, grown, TIMES), harness->failures_here++;
  wv_ctx_free(cx);
}

#define FLAT(name)                                                                                 \
  TEST(name) { check_flat(harness, #name, name); }
FLAT(text_is_read)
FLAT(text_is_refused)
FLAT(kernel_is_not_lowered)
FLAT(call_is_refused)
FLAT(simulation_finds_a_race)
FLAT(target_is_not_here)
FLAT(other_cpu_is_not_here)
FLAT(launch_is_refused)
FLAT(texts_are_shown)
FLAT(cache_is_found)

TESTS_MAIN(RUN(text_is_read) RUN(text_is_refused) RUN(kernel_is_not_lowered) RUN(call_is_refused)
               RUN(simulation_finds_a_race) RUN(target_is_not_here) RUN(other_cpu_is_not_here)
                   RUN(launch_is_refused) RUN(texts_are_shown) RUN(cache_is_found))
