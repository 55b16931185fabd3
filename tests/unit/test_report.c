/* test_report.c: JSON and pages with any text; reports through include/wave.h, also about
 * mistakes. */
#include <stdlib.h>
#include <string.h>

#include "report/json.h"
#include "report/page.h"
#include "unit/harness.h"
#include "wave.h"

static const char *as_json(Arena *a, const char *text, size_t n) {
  StrBuf out = {.arena = a};
  Json j = {.out = &out};
  json_text_n(&j, NULL, text, n);
  return sb_text(&out);
}

TEST(json_text_is_valid) {
  Arena *a = arena_new();
  CHECK_STR(as_json(a, "a\"b\\c\n", 6), "\"a\\\"b\\\\c\\u000a\"");
  CHECK_STR(as_json(a, "</script>", 9), "\"\\u003c/script\\u003e\"");
  CHECK_STR(as_json(a, "\xc3\xa9\xf0\x9f\x8c\x8a", 6), "\"\xc3\xa9\xf0\x9f\x8c\x8a\"");
  CHECK_STR(as_json(a, "\xff\xc3(\xe2\x82", 5), "\"\\ufffd\\ufffd(\\ufffd\\ufffd\"");
  CHECK_STR(as_json(a, "\xc0\x80\xed\xa0\x80", 5),
            "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\""); /* overlong; a surrogate */
  CHECK_STR(as_json(a, "\xf4\x90\x80\x80", 4), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
  CHECK_STR(as_json(a, "a\0b", 3), "\"a\\u0000b\"");
  CHECK_STR(as_json(a, NULL, 0), "null");
  arena_free(a);
}

TEST(json_nests) {
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  Json j = {.out = &out};
  json_open(&j, NULL, '{');
  json_int(&j, "a", -3);
  json_open(&j, "b", '[');
  json_bool(&j, NULL, true);
  json_null(&j, NULL);
  json_close(&j, ']');
  json_open(&j, "c", '[');
  json_close(&j, ']');
  json_ints(&j, "d", (int64_t[]){1, 2}, 2);
  json_uint(&j, "e", UINT64_MAX);
  json_close(&j, '}');
  CHECK_STR(sb_text(&out), "{\n \"a\": -3,\n \"b\": [\n  true,\n  null\n ],\n \"c\": [],\n"
                           " \"d\": [1, 2],\n \"e\": 18446744073709551615\n}");
  arena_free(a);
}

TEST(page_text_is_escaped) {
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  page_text(&out, "<a href='\"'>&\x01\xff\xc3\xa9");
  CHECK_STR(sb_text(&out), "&lt;a href=&#39;&quot;&#39;&gt;&amp;&#xfffd;&#xfffd;\xc3\xa9");
  CHECK_STR(page_number_text(a, 0), "0");
  CHECK_STR(page_number_text(a, 1234567), "1\xe2\x80\xaf"
                                          "234\xe2\x80\xaf"
                                          "567");
  CHECK_INT(page_hue(0, 1), 210);
  CHECK(page_hue(0, 64) != page_hue(63, 64));
  arena_free(a);
}

/* ---- reports ---- */

static const char race[] = "thread kernel @race(%a: mem<M, f32>)\n"
                           "  launch grid (1) block (32) wave 32 shared 128\n"
                           "  bind M = 32\n"
                           "{\n"
                           "  %s = alloc : mem<32, f32, shared>\n"
                           "  %i = expr $T0 : i32\n"
                           "  %x = load %a, %i : f32\n"
                           "  store %x, %s, %i\n"
                           "  %j = expr 31 - $T0 : i32\n"
                           "  %y = load %s, %j : f32\n"
                           "  store %y, %a, %i\n"
                           "}\n";

typedef struct Lab {
  wv_ctx *cx;
  wv_kernel *k;
  float data[32];
  int64_t shape[1];
  wv_buffer buffer;
  wv_arg arg;
  wv_report *report;
} Lab;

static bool run(Lab *l, const char *name, const char *text, const wv_sim_options *o) {
  *l = (Lab){.cx = wv_ctx_new(), .shape = {32}};
  if (wv_parse(l->cx, name, text, &l->k, 1) != 1) return false;
  l->buffer = (wv_buffer){l->data, "f32", 1, l->shape, NULL};
  l->arg.buffer = &l->buffer;
  return wv_sim(l->k, &l->arg, 1, o, &l->report);
}

static void close_lab(Lab *l) {
  wv_report_free(l->report);
  wv_kernel_free(l->k);
  wv_ctx_free(l->cx);
}

TEST(findings) {
  Lab l;
  CHECK(!run(&l, "race.wave", race, &(wv_sim_options){.target = "sim:sm_90a"}));
  wv_finding f;
  CHECK(l.report && wv_report_finding(l.report, 0, &f));
  CHECK_STR(f.diag.code, "E0803");
  CHECK_INT(f.diag.at.line, 10);
  CHECK_INT(f.other.line, 8);
  CHECK(f.count > 1);
  CHECK_STR(f.buffer, "s");
  CHECK_INT(f.rank, 1);
  CHECK_INT(f.address, 4 * f.index[0]);
  CHECK_INT(f.index[0], 31 - f.lane);
  CHECK_INT(f.other_lane, f.index[0]);
  CHECK(!wv_report_finding(l.report, 1, &f) && !wv_report_finding(l.report, -1, &f));
  CHECK_INT((long long)wv_report_total(l.report).instructions, 6);
  wv_cost c;
  int lines = 0;
  while (wv_report_line(l.report, lines, &c)) lines++;
  CHECK_INT(lines, 7);
  CHECK(strstr(wv_report_json(l.report), "\"index\": [31]"));
  CHECK(strstr(wv_report_html(l.report), "id=\"finding1\""));
  CHECK(wv_report_html(l.report) == wv_report_html(l.report)); /* made once */
  close_lab(&l);
}

/* On a machine whose lanes run in lockstep there is no race, and a wave of another size does not
 * run.
 */
TEST(machines) {
  Lab l;
  CHECK(!run(&l, "race.wave", race, &(wv_sim_options){.target = "gfx942"}));
  CHECK(!l.report);
  close_lab(&l);
  CHECK(run(&l, "race.wave", race, &(wv_sim_options){.target = "gfx1100"}));
  CHECK(strstr(wv_report_json(l.report), "\"ok\": true"));
  close_lab(&l);
}

/* A CPU that emulates a machine of many lanes: that machine is created for the run. */
TEST(played_machine) {
  Lab l;
  CHECK(!run(&l, "race.wave", race, &(wv_sim_options){.target = "sim:cpu_neon"}));
  CHECK(l.report && strstr(wv_report_json(l.report), "\"lanes\": 32"));
  CHECK(l.report && wv_report_html(l.report));
  close_lab(&l);
}

TEST(odd_names) {
  Lab l;
  CHECK(!run(&l, "a<b>\"c\\\xff'&.wave", race, NULL));
  CHECK(strstr(wv_report_json(l.report), "\"a\\u003cb\\u003e\\\"c\\\\\\ufffd'\\u0026.wave\""));
  CHECK(strstr(wv_report_html(l.report), "a&lt;b&gt;&quot;c\\&#xfffd;&#39;&amp;.wave"));
  CHECK(!strstr(wv_report_html(l.report), "a<b>"));
  close_lab(&l);
}

static bool stop(void *user) {
  ++*(int *)user;
  return true;
}

TEST(interrupted) {
  Lab l;
  int asked = 0;
  const char *many = "thread kernel @many(%a: mem<M, f32>)\n"
                     "  launch grid (5000) block (32) wave 32\n  bind M = 32\n{\n"
                     "  %i = expr $T0 : i32\n  %x = load %a, %i : f32\n}\n";
  CHECK(!run(&l, "many.wave", many, &(wv_sim_options){.interrupted = stop, .user = &asked}));
  CHECK_INT(asked, 1);
  CHECK_INT(wv_diag_errors(l.cx), 0);
  CHECK(l.report && strstr(wv_report_json(l.report), "\"interrupted\": true"));
  CHECK(strstr(wv_report_html(l.report), "interrupted before it ended"));
  close_lab(&l);
}

TEST(empty_kernels) {
  Lab l;
  CHECK(
      run(&l, "k.wave",
          "thread kernel @k(%a: mem<M, f32>)\n  launch grid (0) block (32) wave 32\n  bind M = 32\n"
          "{\n}\n",
          NULL));
  CHECK(strstr(wv_report_json(l.report), "\"lines\": []"));
  CHECK(strstr(wv_report_html(l.report), "</html>"));
  CHECK(strstr(wv_report_text(l.report), "all"));
  close_lab(&l);
}

/* A copy in another context shows the same locations and messages. */
TEST(copies) {
  Lab l;
  CHECK(!run(&l, "race.wave", race, NULL));
  wv_ctx *other = wv_ctx_new();
  wv_kernel *copy = wv_kernel_copy(l.k, other);
  wv_report *report = NULL;
  CHECK(copy && !wv_sim(copy, &l.arg, 1, NULL, &report));
  CHECK_STR(wv_report_json(report), wv_report_json(l.report));
  wv_report_free(report);
  wv_kernel_free(copy);
  wv_ctx_free(other);
  close_lab(&l);
}

/* Tiles that are lowered: the report shows their layouts. */
TEST(lowered) {
  Lab l = {.cx = wv_ctx_new(), .shape = {32}};
  const char *text = "kernel @twice(%a: mem<M, f32>)\n"
                     "  workgroup M by 64 on 0; hardware threads 64; bind M = 30\n{\n"
                     "  %x = read %a\n  %y = add %x, %x\n  write %y, %a\n}\n";
  CHECK_INT(wv_parse(l.cx, "twice.wave", text, &l.k, 1), 1);
  CHECK_STR(wv_kernel_level(l.k), "tile");
  CHECK(wv_lower(l.k, &(wv_pass_options){.target = "sim:toy8"}));
  CHECK_STR(wv_kernel_level(l.k), "thread");
  wv_kernel *clone = wv_kernel_clone(l.k);
  for (int i = 0; i < 32; i++) l.data[i] = (float)i;
  l.shape[0] = 30;
  l.buffer = (wv_buffer){l.data, "f32", 1, l.shape, NULL};
  l.arg.buffer = &l.buffer;
  CHECK(wv_sim(clone, &l.arg, 1, &(wv_sim_options){.target = "sim:toy8"}, &l.report));
  CHECK(l.data[29] == 58 && l.data[30] == 30);
  CHECK(strstr(wv_report_json(l.report), "\"name\": \"x\""));
  CHECK(strstr(wv_report_html(l.report), "id=\"layouts\""));
  wv_report_free(l.report);
  l.report = NULL;
  wv_kernel_free(clone);
  close_lab(&l);
}

TESTS_MAIN(RUN(json_text_is_valid) RUN(json_nests) RUN(page_text_is_escaped) RUN(findings)
               RUN(machines) RUN(played_machine) RUN(odd_names) RUN(interrupted) RUN(empty_kernels)
                   RUN(copies) RUN(lowered))
