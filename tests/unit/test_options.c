/* test_options.c: options by name: their table, mistakes, those without effect, and what they change. */
#include "driver/options/options.h"

#include "unit/harness.h"
#include "wave.h"

static const char *const text = "kernel @copy(%a: mem<M, f32>, %b: mem<M, f32>)\n"
                                "  hardware threads 64; workgroup M by 64 on 0; assume M > 3\n"
                                "{\n"
                                "  %x = read %a\n"
                                "  write %x, %b\n"
                                "}\n";

#define OPTIONS(...)                                                                               \
  (&(wv_options){.at = (const wv_option[]){__VA_ARGS__},                                           \
                 .n = sizeof((const wv_option[]){__VA_ARGS__}) / sizeof(wv_option),                \
                 .place = {"mine.py", 3, 1, 4}})

/* The first diagnostic with this code; "" if there is none. */
static const char *said(wv_ctx *cx, const char *code) {
  wv_diag d;
  for (int i = 0; i < wv_diag_count(cx); i++)
    if (wv_diag_get(cx, i, &d) && strcmp(d.code, code) == 0) return d.rendered;
  return "";
}

static bool has(const char *whole, const char *part) { return whole && strstr(whole, part); }

TEST(rows) {
  wv_option_info o;
  int n = 0;
  for (; wv_option_row(n, &o); n++) {
    const OptionInfo *row = option_called(o.name);
    CHECK(row == option_at(n)); /* no name appears twice */
    CHECK(o.text[0] && !has(o.text, "  ") && o.text[strlen(o.text) - 1] != '.');
    CHECK(row->kind == OPTION_WORKS || (!row->on && !row->off));
    CHECK(o.file && (!*o.file || !strcmp(o.file, "read") || !strcmp(o.file, "written")));
    CHECK(!row->off || row->on); /* a machine without shared memory leaves it out */
  }
  CHECK(n > 80 && !wv_option_row(-1, &o) && !option_called("nothing"));
}

TEST(mistakes) {
  const struct {
    const wv_options *o;
    const char *mistake;
  } bad[] = {
      {OPTIONS({"sizes", "odd", "'odd'"}), "sizes must be 'equal' or 'smallest', not 'odd'"},
      {OPTIONS({"assume", NULL, "3.5"}), "assume must be 'check' or 'ignore', not 3.5"},
      {OPTIONS({"assume", "check|ignore", "'check|ignore'"}),
       "assume must be 'check' or 'ignore', not 'check|ignore'"},
      {OPTIONS({"multi_buffer_count", "two", "'two'"}),
       "multi_buffer_count must be an integer, not 'two'"},
      {OPTIONS({"backend", "asm", "'asm'"}), "backend='asm' needs wave_runtime=True"},
      {OPTIONS({"backend", "asm", "'asm'"}, {"wave_runtime", "0", "0"}),
       "backend='asm' needs wave_runtime=True"},
      {OPTIONS({"run_bench", "True", "True"}, {"wave_runtime", "True", "True"}),
       "wave_runtime=True cannot be combined with run_bench=True"},
      {OPTIONS({"no_such", "1", "1"}), "unknown option `no_such`"},
  };
  wv_ctx *cx = wv_ctx_new();
  const char *mistake;
  for (size_t i = 0; i < WV_LEN(bad); i++) {
    CHECK(!wv_options_check(cx, bad[i].o, &mistake));
    CHECK_STR(mistake, bad[i].mistake);
  }
  CHECK(wv_options_check(cx, OPTIONS({"sizes", "smallest", ""}, {"multi_buffer_count", "-2", ""}),
                         &mistake));
  CHECK(wv_options_check(cx, OPTIONS({"backend", "asm", ""}, {"use_water_backend", "True", ""}),
                         &mistake));
  CHECK(wv_options_check(cx, &(wv_options){0}, &mistake) && wv_diag_count(cx) == 0);
  CHECK(!wv_options_check(cx, NULL, &mistake) && !mistake && wv_diag_errors(cx) == 1);
  wv_ctx_free(cx);
}

TEST(files) {
  wv_ctx *cx = wv_ctx_new();
  const char *mistake;
  const wv_options *bad[] = {OPTIONS({"override_schedule", "/nowhere/file", ""}),
                             OPTIONS({"override_schedule", "/", ""}),
                             OPTIONS({"override_mlir", "/nowhere/file", ""}),
                             OPTIONS({"print_mlir_file", "/nowhere/file", ""}),
                             OPTIONS({"create_vmfb_file", "nowhere/file", ""})};
  for (size_t i = 0; i < WV_LEN(bad); i++) {
    CHECK(!wv_options_check(cx, bad[i], &mistake) && !mistake);
    CHECK(has(said(cx, "E0618"), "mine.py:3:1") && has(said(cx, "E0618"), bad[i]->at[0].name));
    wv_diag_clear(cx);
  }
  const wv_options *good[] = {OPTIONS({"print_mlir_file", "file", ""}),
                              OPTIONS({"print_mlir_file", "/file", ""}),
                              OPTIONS({"override_mlir", "kernel @f() {}", ""})};
  for (size_t i = 0; i < WV_LEN(good); i++) CHECK(wv_options_check(cx, good[i], &mistake));
  wv_ctx_free(cx);
}

TEST(unused) {
  const wv_machine eval = {.kind = "eval"}, cpu = {.kind = "cpu", .target = "cpu_neon"};
  wv_ctx *cx = wv_ctx_new();
  CHECK(wv_options_unused(cx, OPTIONS({"use_buffer_ops", "True", "True"}), &eval));
  CHECK(has(said(cx, "R0609"),
            "mine.py:3:1: remark[R0609]: `use_buffer_ops=True` has no effect on "));
  wv_diag_clear(cx);
  CHECK(wv_options_unused(cx, OPTIONS({"enable_swizzle", "False", "False"}), &cpu));
  CHECK(has(said(cx, "R0609"), "`enable_swizzle=False` has no effect on target `cpu_neon`"));
  wv_diag_clear(cx);
  const char *name = "0123456789012345678901234567890123456789x"; /* is shortened */
  CHECK(wv_options_unused(cx, OPTIONS({"func_name", name, name}), &cpu));
  CHECK(has(said(cx, "R0609"), "=0123456789012345678901234567890123456...`"));
  wv_diag_clear(cx);
  CHECK(wv_options_unused(cx, OPTIONS({"enable_swizzle", "False", "False"}),
                          &(wv_machine){.kind = "sim", .target = "sim:toy8"}));
  CHECK(wv_options_unused(cx, OPTIONS({"print_ir_after", "trace,trace", ""}), &eval));
  CHECK(wv_options_unused(cx, OPTIONS({"use_fast_math", "True", "True"}), &cpu));
  CHECK(wv_options_unused(cx, OPTIONS({"use_global_to_shared", "True", "True"}), &eval));
  CHECK_INT(wv_diag_count(cx), 0);
  CHECK(wv_options_unused(cx, OPTIONS({"print_ir_after", "trace,cse", ""}), &eval));
  CHECK(wv_options_unused(cx, OPTIONS({"schedule", "MANUAL", ""}), &eval));
  CHECK_INT(wv_diag_count(cx), 2);
  CHECK(wv_options_unused(cx, &(wv_options){.has_schedule = true}, &eval));
  CHECK_INT(wv_diag_count(cx), 2);
  wv_diag_clear(cx);
  CHECK(wv_options_unused(cx, OPTIONS({"recompte", NULL, ""}), &eval));
  CHECK(has(said(cx, "W0601"), "mine.py:3:1: warning[W0601]: `recompte`"));
  CHECK(has(said(cx, "W0601"), "did you mean `recompute`?"));
  wv_diag_clear(cx);
  CHECK(wv_options_unused(cx, OPTIONS({"use_wave_asm_backend", NULL, ""}, {"note", NULL, ""}), &eval));
  CHECK_INT(wv_diag_count(cx), 0);
  wv_ctx_free(cx);
}

TEST(strict) {
  const wv_machine eval = {.kind = "eval"};
  wv_ctx *cx = wv_ctx_new();
  const wv_options *o = OPTIONS({"strict", "True", "True"}, {"waves_per_eu", "2", "2"},
                                {"use_fast_math", "True", "True"});
  CHECK(!wv_options_unused(cx, o, &eval) && wv_diag_count(cx) == 1);
  CHECK(has(said(cx, "E0617"), "`waves_per_eu=2` has no effect on target `eval`"));
  CHECK(has(said(cx, "E0617"), "; `use_fast_math=True` has no effect on target `eval`"));
  wv_diag_clear(cx);
  CHECK(wv_options_unused(cx, OPTIONS({"strict", "True", "True"}), &eval));
  CHECK(!wv_options_unused(cx, o, NULL) && !wv_options_unused(cx, NULL, &eval));
  wv_ctx_free(cx);
}

/* The text of the kernel after options were applied to it; "" if they could not be. */
static const char *applied(wv_ctx *cx, const wv_options *o) {
  static char kept[1000];
  wv_kernel *k = NULL;
  *kept = 0;
  if (wv_parse(cx, "test.wave", text, &k, 1) != 1) return "does not parse";
  char *printed = wv_options_apply(k, o) ? wv_print(k) : NULL;
  if (printed) snprintf(kept, sizeof kept, "%s", printed);
  wv_free(printed);
  wv_kernel_free(k);
  return kept;
}

TEST(apply) {
  wv_ctx *cx = wv_ctx_new();
  const char *plain = applied(cx, &(wv_options){0});
  CHECK(has(plain, "assume M >= 4") && !has(plain, "stages") && !has(plain, "boxes"));
  CHECK(has(applied(cx, OPTIONS({"schedule", "MODULO", ""})), "stages 0"));
  CHECK(!has(applied(cx, OPTIONS({"schedule", "MANUAL", ""})), "stages"));
  const wv_option both[] = {{"schedule", "MODULO", ""}, {"multi_buffer_count", "3", ""}};
  CHECK(has(applied(cx, &(wv_options){.at = both, .n = 2}), "stages 3"));
  const char *off =
      applied(cx, OPTIONS({"use_global_to_shared", "False", ""}, {"enable_swizzle", "False", ""},
                          {"minimize_shared_allocs", "False", ""}));
  CHECK(has(off, "boxes 0") && has(off, "swizzle 0") && has(off, "overlap 0"));
  CHECK(has(applied(cx, OPTIONS({"use_global_to_shared", "True", ""})), "boxes 1"));
  CHECK(!has(applied(cx, OPTIONS({"enable_swizzle", "False", ""}, {"override_mlir", "{", ""})),
             "swizzle"));
  CHECK(!has(applied(cx, OPTIONS({"assume", "ignore", ""}, {"strict", "True", ""})), "assume"));
  CHECK(has(applied(cx, OPTIONS({"strict", "True", ""})), "assume M >= 4 required"));
  CHECK_STR(applied(cx, OPTIONS({"multi_buffer_count", "-1", ""})), "");
  CHECK(wv_diag_errors(cx) > 0 && has(said(cx, "E0212"), "mine.py:3:1"));
  CHECK(!wv_options_apply(NULL, &(wv_options){0}));
  wv_ctx_free(cx);
}

TESTS_MAIN(RUN(rows) RUN(mistakes) RUN(files) RUN(unused) RUN(strict) RUN(apply))
