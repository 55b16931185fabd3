/* test_measured.c: pages of measurements: their contents, and that any text and number is
 * accepted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/page.h"
#include "report/plot.h"
#include "unit/harness.h"
#include "wave.h"

static int count(const char *text, const char *word) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) n++;
  return n;
}

/* All elements are closed. */
static bool is_balanced(const char *html) {
  static const char *const names[] = {"svg",     "table", "section", "article",
                                      "details", "text",  "tr"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char open[16], bare[16], close[16];
    snprintf(open, sizeof open, "<%s ", names[i]);
    snprintf(bare, sizeof bare, "<%s>", names[i]);
    snprintf(close, sizeof close, "</%s>", names[i]);
    if (count(html, open) + count(html, bare) != count(html, close)) return false;
  }
  return true;
}

static const wv_rival rivals[] = {{"NumPy", 3.0}, {"PyTorch", 0.5}};
static const wv_diag remarks[] = {
    {.code = "R0602", .text = "by a tile", .at = {.line = 12}},
    {.code = "R0602", .text = "by a tile", .at = {.line = 12}}, /* of another variant */
    {.code = "R0601", .text = "it is pure", .at = {.line = 3}}};

static wv_measured row_of(const char *kernel, double error) {
  return (wv_measured){.kernel = kernel,
                       .about = "One & only.",
                       .target = "cpu",
                       .arguments = "4x4",
                       .compile_ms = 2,
                       .code_ms = 40,
                       .run_ms = 1.5,
                       .error = error,
                       .allowed = 1e-3,
                       .operations = 1e9,
                       .bytes = 1e6,
                       .rivals = rivals,
                       .nrivals = 2,
                       .source = "def f(a):\n    a < b\n    return\n",
                       .file = "kernels.py",
                       .line = 11,
                       .remarks = remarks,
                       .nremarks = 3,
                       .program = "thread kernel @f\n"};
}

static char *page_of(const wv_measured *rows, int n) {
  static const char *const machine[] = {"cpu: <fast>"};
  wv_measurements m = {"A & B", machine, 1, rows, n};
  return wv_measurements_html(&m);
}

TEST(a_page_holds_what_was_measured) {
  wv_measured rows[] = {row_of("gemm", 1e-5), row_of("copy", 0)};
  char *html = page_of(rows, 2);
  CHECK(is_balanced(html));
  CHECK(strstr(html, "<title>A &amp; B</title>") && strstr(html, "cpu: &lt;fast&gt;"));
  CHECK(strstr(html, "id=\"kernel-gemm\"") && strstr(html, "id=\"kernel-copy\""));
  CHECK(strstr(html, "all 2 results agree") && !strstr(html, "wrong</td>"));
  CHECK(strstr(html, "2.00\xc3\x97") && strstr(html, "0.33\xc3\x97")); /* NumPy, PyTorch */
  CHECK(strstr(html, "666.7 Gop/s") || strstr(html, "667 Gop/s"));
  CHECK(strstr(html, "42.0\xe2\x80\xafms")); /* compiling, all of it */
  CHECK_INT(count(html, "<svg "), 4);
  CHECK(strstr(html, "    a &lt; b") && strstr(html, "thread kernel @f"));
  CHECK_INT(count(html, "by a tile"), 2); /* once in each kernel */
  CHECK_INT(count(html, "it is pure"), 2);
  CHECK(!strstr(html, "href=\"h") && !strstr(html, "url(") && !strstr(html, " src="));
  wv_free(html);
}

/* Remarks for every target are in one listing; each target has its own figures and roofs.
 */
TEST(targets_stand_side_by_side) {
  static const wv_diag other = {.code = "R0602", .text = "by tensor cores", .at = {.line = 12}};
  wv_measured rows[] = {row_of("gemm", 0), row_of("gemm", 0)};
  rows[1].target = "cuda";
  rows[1].remarks = &other;
  rows[1].nremarks = 1;
  rows[1].nrivals = 1;
  char *html = page_of(rows, 2);
  CHECK(is_balanced(html));
  CHECK_INT(count(html, "id=\"kernel-gemm\""), 1);
  CHECK_INT(count(html, "by a tile"), 1);
  CHECK_INT(count(html, "by tensor cores"), 1);
  CHECK(strstr(html, "against NumPy on cuda") && !strstr(html, "against PyTorch on cuda"));
  CHECK(strstr(html, "gemm, cuda") && strstr(html, "on cpu</summary>"));
  CHECK_INT(count(html, "class=\"roof\""), 2);
  wv_free(html);
}

TEST(wrong_results_are_seen) {
  double errors[] = {1, NAN, INFINITY};
  for (int i = 0; i < 3; i++) {
    wv_measured row = row_of("gemm", errors[i]);
    char *html = page_of(&row, 1);
    CHECK(is_balanced(html) && strstr(html, "1 of 1 results are wrong"));
    CHECK(strstr(html, "✗ wrong") && strstr(html, "class=\"wrong s0\""));
    CHECK(!strstr(html, "=\"nan") && !strstr(html, "=\"-nan") && !strstr(html, "=\"inf"));
    wv_free(html);
  }
}

TEST(nothing_known_is_no_crash) {
  wv_measured row = {.kernel = "k", .target = "eval"};
  char *html = page_of(&row, 1);
  CHECK(is_balanced(html) && strstr(html, "id=\"kernel-k\""));
  CHECK(!strstr(html, "\"nan") && !strstr(html, "\"-nan") && !strstr(html, "inf\""));
  wv_free(html);
  html = page_of(NULL, 0);
  CHECK(is_balanced(html));
  wv_free(html);
}

TEST(times_are_readable) {
  Arena *a = arena_new();
  CHECK_STR(page_time_text(a, 0.0974), "97.4\xe2\x80\xaf\xc2\xb5s");
  CHECK_STR(page_time_text(a, 1.62), "1.62\xe2\x80\xafms");
  CHECK_STR(page_time_text(a, 250), "250\xe2\x80\xafms");
  CHECK_STR(page_time_text(a, 2500), "2.50\xe2\x80\xafs");
  CHECK_STR(page_time_text(a, 0), "\xe2\x80\x93");
  CHECK_STR(page_time_text(a, NAN), "\xe2\x80\x93");
  arena_free(a);
}

/* Bars keep their proportions; tiny values are still visible, NaN is not drawn. */
TEST(bars_are_to_scale) {
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  PlotBar bars[] = {{.name = "long", .label = "x", .parts = {100}},
                    {.name = "half", .label = "x", .parts = {50}},
                    {.name = "tiny", .label = "x", .parts = {1e-9}},
                    {.name = "none", .label = "x", .parts = {NAN}}};
  PlotGroup group = {"all", bars, 4};
  plot_bars(&out, "bars", &group, 1, true);
  CHECK_INT(count(sb_text(&out), "<rect "), 3);
  CHECK(strstr(sb_text(&out), "width=\"440.0\"") && strstr(sb_text(&out), "width=\"220.0\""));
  CHECK(strstr(sb_text(&out), "width=\"1.5\""));
  arena_free(a);
}

TEST(marks_stand_in_order) {
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  PlotMark marks[] = {{.name = "zero", .tip = "0"},
                      {.name = "low", .tip = "low", .at = 1e-8, .limit = 1e-6},
                      {.name = "high", .tip = "high", .at = 1e-3, .limit = 1e-2}};
  plot_marks(&out, "marks", marks, 3);
  double at[3], *next = at;
  for (const char *c = sb_text(&out); next < at + 3 && (c = strstr(c, "cx=\"")); c += 4)
    *next++ = strtod(c + 4, NULL);
  CHECK(next == at + 3 && at[0] < at[1] && at[1] < at[2]);
  CHECK_INT(count(sb_text(&out), "class=\"limit\""), 2);
  arena_free(a);
}

TESTS_MAIN(RUN(a_page_holds_what_was_measured) RUN(targets_stand_side_by_side)
               RUN(wrong_results_are_seen) RUN(nothing_known_is_no_crash) RUN(times_are_readable)
                   RUN(bars_are_to_scale) RUN(marks_stand_in_order))
