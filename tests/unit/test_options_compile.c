/* test_options_compile.c: kernels compiled as options by name request: machines, overrides, output. */
#define _XOPEN_SOURCE 700
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"
#include "unit/harness.h"
#include "wave.h"

static const char *const text = "kernel @copy(%a: mem<M, f32>, %b: mem<M, f32>, %s: i1)\n"
                                "  hardware threads 64; workgroup M by 64 on 0; bind M = 640\n"
                                "{\n"
                                "  %x = read %a\n"
                                "  write %x, %b\n"
                                "}\n";

#define OPTIONS(...)                                                                               \
  (&(wv_options){.at = (const wv_option[]){__VA_ARGS__},                                           \
                 .n = sizeof((const wv_option[]){__VA_ARGS__}) / sizeof(wv_option),                \
                 .place = {"mine.py", 3, 1, 4}})

static bool has(const char *whole, const char *part) { return whole && strstr(whole, part); }

/* The first diagnostic with this code; "" if there is none. */
static const char *said(wv_ctx *cx, const char *code) {
  wv_diag d;
  for (int i = 0; i < wv_diag_count(cx); i++)
    if (wv_diag_get(cx, i, &d) && strcmp(d.code, code) == 0) return d.rendered;
  return "";
}

/* ---- output ---- */

typedef struct Screen {
  char text[1 << 16];
  size_t n;
} Screen;

static void print(void *user, const char *part) {
  Screen *s = user;
  size_t n = strlen(part);
  if (s->n + n < sizeof s->text) memcpy(s->text + s->n, part, n + 1), s->n += n;
}

static Screen screen;

static const wv_output *cleared(void) {
  static const wv_output out = {print, &screen};
  screen.n = 0;
  *screen.text = '\0';
  return &out;
}

/* The lines that begin with `# ----`, without that, each followed by ';'. */
static const char *titles(void) {
  static char kept[4096];
  size_t n = 0;
  static const char lead[] = "# ---- ";
  for (const char *at = screen.text; (at = strstr(at, lead)); at++) {
    const char *from = at + sizeof lead - 1;
    n += (size_t)snprintf(kept + n, sizeof kept - n, "%.*s;", (int)strcspn(from, "\n"), from);
  }
  kept[n] = '\0';
  return kept;
}

static wv_kernel *parsed(wv_ctx *cx) {
  wv_kernel *k = NULL;
  return wv_parse(cx, "test.wave", text, &k, 1) == 1 ? k : NULL;
}

/* A folder that is removed with all that tests put there. */
static char *folder(void) {
  static char path[] = "/tmp/wave-options-XXXXXX";
  memcpy(path + sizeof path - 7, "XXXXXX", 6);
  return mkdtemp(path);
}

static void remove_folder(const char *path) {
  char command[256];
  snprintf(command, sizeof command, "rm -rf '%s'", path);
  if (system(command) != 0) perror(command);
}

/* ---- machines ---- */

TEST(machine) {
  wv_ctx *cx = wv_ctx_new();
  wv_machine m;
  const char *mistake;
  CHECK(wv_options_machine(cx, OPTIONS({"target", "sim:gfx942", "'sim:gfx942'"}), &m));
  CHECK(strcmp(m.kind, "sim") == 0 && strcmp(m.target, "sim:gfx942") == 0);
  CHECK(wv_options_machine(cx, OPTIONS({"device", "cpu", "'cpu'"}), &m));
  CHECK_STR(m.kind, "cpu");
  CHECK(!wv_options_machine(cx, OPTIONS({"target", "gfx942", ""}, {"strict", "True", "True"}), &m));
  CHECK(has(said(cx, "E0601"), "mine.py:3:1"));
  wv_diag_clear(cx);
  CHECK(!wv_options_check(cx, OPTIONS({"target", "sm90", "'sm90'"}), &mistake) && !mistake);
  CHECK(has(said(cx, "E0603"), "mine.py:3:1"));
  CHECK(!wv_options_check(cx, OPTIONS({"target", NULL, "2.5"}), &mistake));
  CHECK_STR(mistake, "target must be a text or a list of texts, not 2.5");
  CHECK(!wv_options_check(cx, OPTIONS({"print_ir_after", NULL, "('a', 3)"}), &mistake));
  CHECK(has(mistake, "print_ir_after must be a text or a list of texts"));
  CHECK(!wv_options_machine(cx, NULL, &m));
  wv_ctx_free(cx);
}

TEST(text_only) {
  CHECK(!wv_options_text_only(&(wv_options){0}) && !wv_options_text_only(NULL));
  CHECK_STR(wv_options_text_only(OPTIONS({"compile_to_asm", "True", ""})), "compile_to_asm");
  CHECK(!wv_options_text_only(OPTIONS({"compile_to_mlir", "False", ""})));
}

/* ---- before compiling ---- */

TEST(show) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = parsed(cx);
  char path[128];
  const char *in = folder();
  snprintf(path, sizeof path, "%s/file", in);
  CHECK(wv_options_show(k, &(wv_options){0}, cleared()));
  CHECK_STR(screen.text, "");
  const wv_options *prints[] = {
      OPTIONS({"print_mlir", "True", ""}), OPTIONS({"print_trace_begin", "True", ""}),
      OPTIONS({"print_ir_after", "mask, trace", ""}), OPTIONS({"print_ir_before", "first", ""})};
  for (size_t i = 0; i < 4; i++) {
    CHECK(wv_options_show(k, prints[i], cleared()));
    CHECK(strncmp(screen.text, "kernel @copy(", 13) == 0);
  }
  CHECK(wv_options_show(k, OPTIONS({"print_signature", "True", ""}), cleared()));
  CHECK_STR(screen.text, "copy:\n  a: f32[M], input\n  b: f32[M], output\n  s: i1\n");
  CHECK(wv_options_show(k, OPTIONS({"print_mlir_file", path, ""}), cleared()));
  CHECK(os_file_stamp(path) && screen.n == 0);
  CHECK(!wv_options_show(k, OPTIONS({"print_mlir_file", in, ""}), cleared()));
  CHECK(has(said(cx, "E0618"), "cannot be written"));
  CHECK(!wv_options_show(NULL, &(wv_options){0}, NULL));
  remove_folder(in);
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

TEST(override) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = parsed(cx), *out;
  const char *mistake, *other = "kernel @other(%a: mem<M, f32>)\n"
                                "  hardware threads 64; workgroup M by 64 on 0\n"
                                "{\n"
                                "  %x = read %a\n"
                                "  write %x, %a\n"
                                "}\n";
  CHECK(wv_options_override(k, &(wv_options){0}, &out, &mistake) && !out && !mistake);
  CHECK(wv_options_override(k, OPTIONS({"override_mlir", text, ""}), &out, &mistake) && out);
  CHECK(out != k && wv_equal(out, k));
  wv_kernel_free(out);
  CHECK(!wv_options_override(k, OPTIONS({"override_mlir", other, ""}), &out, &mistake) && !out);
  CHECK_STR(mistake, "override_mlir must hold one kernel with the parameters of copy");
  CHECK(!wv_options_override(k, OPTIONS({"override_mlir", "{", ""}), &out, &mistake) && !mistake);
  CHECK(wv_diag_errors(cx) > 0);
  wv_diag_clear(cx);
  CHECK(!wv_options_override(k, OPTIONS({"override_mlir", "/no/file", ""}), &out, &mistake));
  CHECK(!mistake && has(said(cx, "E0618"), "`/no/file` cannot be read"));
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

TEST(key) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = parsed(cx);
  char *plain = wv_options_key(k, &(wv_options){0});
  char *same = wv_options_key(k, OPTIONS({"print_mlir", "True", "True"}));
  char *other = wv_options_key(k, OPTIONS({"use_fast_math", "True", "True"}));
  CHECK_STR(plain, same);
  CHECK(has(plain, "kernel @copy") && has(other, "use_fast_math=True"));
  wv_free(plain), wv_free(same), wv_free(other);
  CHECK(!wv_options_key(NULL, &(wv_options){0}));
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

/* ---- dumps ---- */

static const wv_machine gfx = {.kind = "sim", .target = "sim:gfx942"};

/* What lowering for a simulated machine prints; `ok`: whether it succeeds. */
static const char *lowered(wv_ctx *cx, const wv_options *o, bool *ok) {
  wv_kernel *k = parsed(cx);
  *ok = wv_options_lower(k, o, &gfx, cleared());
  wv_kernel_free(k);
  return titles();
}

TEST(dumps) {
  wv_ctx *cx = wv_ctx_new();
  bool ok;
  unsetenv("WAVE_DUMP");
  CHECK_STR(lowered(cx, &(wv_options){0}, &ok), "");
  CHECK(ok && !wv_options_dump(cx, &(wv_options){0}));
  const struct {
    const wv_options *o;
    const char *titles;
  } rows[] = {
      {OPTIONS({"print_ir_after", " mask ,bind,,", ""}), "after bind;after mask;"},
      {OPTIONS({"print_ir_before", "widen", ""}, {"print_ir_after", "mask", ""}),
       "before widen;after mask;"},
      {OPTIONS({"print_ir_after", "trace", ""}, {"print_ir_before", "first", ""}), ""},
      {OPTIONS({"print_ir_after", "last", ""}), "after the last pass;"},
      {OPTIONS({"print_ir_after", "last,mask", ""}), "after mask;after the last pass;"},
      {OPTIONS({"print_pass_times", "True", ""}), "times of passes;"},
      {OPTIONS({"profile_pass", "mask,layouts", ""}), "times of passes;"},
      {OPTIONS({"print_ir_after", "None", ""}), ""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    CHECK_STR(lowered(cx, rows[i].o, &ok), rows[i].titles);
    CHECK(ok && wv_options_dump(cx, rows[i].o) == (*rows[i].titles != '\0'));
  }
  lowered(cx, OPTIONS({"profile_pass", "mask,layouts", ""}), &ok);
  const char *mask = strstr(screen.text, "\nmask "), *layouts = strstr(screen.text, "\nlayouts ");
  CHECK(mask && layouts && mask < layouts && !has(screen.text, "total"));
  const char *every = lowered(cx, OPTIONS({"mlir_print_ir_after_all", "True", ""}), &ok);
  CHECK(has(every, "after bind;") && has(every, "after cse;") && !has(every, "last"));
  setenv("WAVE_DUMP", "bind", 1);
  CHECK_STR(lowered(cx, OPTIONS({"print_ir_after", "mask", ""}), &ok), "after bind;after mask;");
  CHECK(wv_options_dump(cx, &(wv_options){0}));
  unsetenv("WAVE_DUMP");
  wv_ctx_free(cx);
}

/* A former name of a pass means the pass, whatever else is dumped. */
TEST(former_names) {
  wv_ctx *cx = wv_ctx_new();
  bool ok;
  CHECK_STR(lowered(cx, OPTIONS({"print_ir_after", "pack", ""}), &ok), "after allocs;");
  CHECK(ok && has(said(cx, "R0614"), "`pack`"));
  const wv_options *both = OPTIONS({"print_ir_after", "pack,last", ""});
  CHECK_STR(lowered(cx, both, &ok), "after allocs;after the last pass;");
  wv_ctx_free(cx);
}

TEST(unknown_passes) {
  wv_ctx *cx = wv_ctx_new();
  bool ok;
  const char *const names[] = {"print_ir_after", "print_ir_before", "profile_pass"};
  lowered(cx, OPTIONS({"print_ir_after", "last,layout", ""}), &ok); /* also if all are dumped */
  CHECK(!ok && has(said(cx, "E0604"), "mine.py:3:1"));
  wv_diag_clear(cx);
  for (size_t i = 0; i < 3; i++) {
    lowered(cx, OPTIONS({names[i], "layout", ""}), &ok);
    CHECK(!ok && has(said(cx, "E0604"), "unknown pass `layout`"));
    CHECK(has(said(cx, "E0604"), "did you mean `layouts`?"));
    wv_diag_clear(cx);
  }
  wv_ctx_free(cx);
}

TEST(dumps_to_files) {
  wv_ctx *cx = wv_ctx_new();
  bool ok;
  char path[256], file[300];
  const char *in = folder();
  snprintf(path, sizeof path, "%s/new/folder", in);
  CHECK_STR(lowered(cx, OPTIONS({"dump_intermediates", path, ""}), &ok), "");
  snprintf(file, sizeof file, "%s/01_choose.wave", path);
  CHECK(ok && os_file_stamp(file));
  CHECK_INT(mkdir(file, 0700) != 0 && remove(file) == 0 && mkdir(file, 0700) == 0, 1);
  lowered(cx, OPTIONS({"dump_intermediates", path, ""}), &ok);
  CHECK(!ok && has(said(cx, "E0618"), "01_choose.wave` cannot be written"));
  wv_diag_clear(cx);
  snprintf(file, sizeof file, "%s/02_logs.wave", path);
  lowered(cx, OPTIONS({"dump_intermediates", file, ""}), &ok); /* a file, not a folder */
  CHECK(!ok && has(said(cx, "E0618"), "cannot be made"));
  remove_folder(in);
  wv_ctx_free(cx);
}

/* ---- programs ---- */

TEST(compile) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = parsed(cx);
  const wv_machine sm = {.kind = "cuda", .target = "sm_90a", .device = -1};
  char file[300];
  const char *in = folder();
  const wv_options *o = OPTIONS({"dump_binaries", in, ""}, {"print_ir_after", "mask", ""});
  wv_program *p = wv_options_compile(k, o, &sm, -1, NULL, cleared());
  CHECK(p && wv_options_dump(cx, o));
  CHECK_STR(titles(), "after mask;");
  snprintf(file, sizeof file, "%s/copy_sm_90a_0.ptx", in);
  CHECK(os_file_stamp(file));
  wv_program_free(p);
  snprintf(file, sizeof file, "%s/copy_sm_90a_0.ptx/in", in);
  p = wv_options_compile(k, OPTIONS({"dump_binaries", file, ""}), &sm, -1, NULL, cleared());
  CHECK(!p && has(said(cx, "E0618"), "cannot be made"));
  CHECK(!wv_options_compile(k, o, NULL, -1, NULL, NULL) && !wv_options_lower(k, o, NULL, NULL));
  CHECK(!wv_options_fallback(k, o, &sm));
  remove_folder(in);
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

/* An open kernel is lowered when it is called: nothing is dumped before. */
TEST(open_kernels) {
  wv_ctx *cx = wv_ctx_new();
  static const char *const open = "kernel @sums(%a: mem<M, N, f32>, %b: mem<M, f32>)\n"
                                  "  dynamic M; dynamic N\n"
                                  "  hardware threads 64; workgroup M by 4 on 0\n"
                                  "{\n"
                                  "  %x = read %a\n"
                                  "  %s = sum %x {dim = N}\n"
                                  "  write %s, %b\n"
                                  "}\n";
  wv_kernel *k = NULL;
  const wv_options *dump = OPTIONS({"print_ir_after", "mask", ""});
  const wv_options *eval = OPTIONS({"print_ir_after", "mask", ""}, {"target", "eval", ""});
  CHECK(wv_parse(cx, "open.wave", open, &k, 1) == 1 && wv_kernel_is_open(k));
  CHECK(wv_options_undumped(k, &(wv_options){0}) && wv_options_undumped(k, eval));
  CHECK_INT(wv_diag_count(cx), 0);
  CHECK(wv_options_undumped(k, dump) && has(said(cx, "R0609"), "nothing is dumped"));
  CHECK(wv_options_lower(k, dump, &gfx, cleared()));
  CHECK(screen.n == 0 && wv_kernel_is_open(k));
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

TESTS_MAIN(RUN(machine) RUN(text_only) RUN(show) RUN(override) RUN(key) RUN(dumps) RUN(former_names)
               RUN(unknown_passes) RUN(dumps_to_files) RUN(compile) RUN(open_kernels))
