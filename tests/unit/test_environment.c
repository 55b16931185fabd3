/* test_environment.c: environment variables: their table, values, and unknown names. */
#define _XOPEN_SOURCE 700
#include "base/environment/environment.h"

#include <stdlib.h>

#include "unit/harness.h"
#include "wave.h"

static bool has(const char *whole, const char *part) { return whole && strstr(whole, part); }

TEST(rows) {
  wv_variable_info v;
  int n = 0;
  for (; wv_variable_row(n, &v); n++) {
    CHECK(strncmp(v.name, "WAVE_", 5) == 0 && environment_find(v.name) == (Variable)n);
    CHECK(v.text[0] && !has(v.text, "  ") && v.text[strlen(v.text) - 1] != '.');
    CHECK(strcmp(v.reader, "none") != 0 || strcmp(v.kind, "text") == 0);
  }
  CHECK(n == VARIABLE_COUNT && !wv_variable_row(-1, &v));
  CHECK(environment_find("WAVE_NOTHING") == VARIABLE_COUNT);
}

/* -7: it is not valid. */
static const struct {
  const char *name, *text;
  int64_t number;
} values[] = {
    {"WAVE_CACHE_ON", "0", 0},
    {"WAVE_CACHE_ON", "off", 0},
    {"WAVE_CACHE_ON", "No", 0},
    {"WAVE_CACHE_ON", "FALSE", 0},
    {"WAVE_CACHE_ON", "1", 1},
    {"WAVE_CACHE_ON", "on", 1},
    {"WAVE_CACHE_ON", "yes", 1},
    {"WAVE_CACHE_ON", "True", 1},
    {"WAVE_CACHE_ON", "2", 1},
    {"WAVE_CACHE_ON", "offf", -7},
    {"WAVE_CACHE_ON", "o", -7},
    {"WAVE_CACHE_ON", "1 ", -7},
    {"WAVE_CACHE_LIMIT", "0", 0},
    {"WAVE_CACHE_LIMIT", "16", 16},
    {"WAVE_CACHE_LIMIT", "-1", -7},
    {"WAVE_CACHE_LIMIT", "many", -7},
    {"WAVE_NUM_THREADS", "0", -7},
    {"WAVE_NUM_THREADS", "3", 3},
    {"WAVE_NUM_THREADS", "3x", -7},
    {"WAVE_NUM_THREADS", "99999999999999999999", -7},
    {"WAVE_CACHE_SIZE", "2k", 2048},
    {"WAVE_CACHE_SIZE", "1Q", -7},
    {"WAVE_CACHE_SIZE", "99999999999G", -7},
};

TEST(numbers) {
  wv_ctx *cx = wv_ctx_new();
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    setenv(values[i].name, values[i].text, 1);
    CHECK_INT(wv_variable_number(values[i].name, -7), values[i].number);
    CHECK_STR(wv_variable_text(values[i].name), values[i].text);
    wv_variables_check(cx);
    wv_diag d;
    bool is_valid = values[i].number != -7;
    CHECK_INT(wv_diag_count(cx), is_valid ? 0 : 1);
    CHECK(is_valid || (wv_diag_get(cx, 0, &d) && strcmp(d.code, "W0902") == 0 &&
                       has(d.text, values[i].name) && has(d.text, "is ignored")));
    wv_diag_clear(cx);
    setenv(values[i].name, "", 1); /* the same as none */
    CHECK(!wv_variable_text(values[i].name) && wv_variable_number(values[i].name, 5) == 5);
    wv_variables_check(cx);
    CHECK_INT(wv_diag_count(cx), 0);
    unsetenv(values[i].name);
  }
  CHECK(!wv_variable_text("WAVE_NOTHING") && !wv_variable_text(NULL) && !wv_variable_text("HOME"));
  CHECK_INT(wv_variable_number("WAVE_NOTHING", 4), 4);
  CHECK_INT(wv_variable_number(NULL, 4), 4);
  wv_ctx_free(cx);
}

TEST(unknown_names) {
  wv_ctx *cx = wv_ctx_new();
  wv_diag d;
  setenv("WAVE_CACHE_NO", "1", 1);
  wv_variables_check(cx);
  CHECK(wv_diag_get(cx, 0, &d) && has(d.text, "WAVE_CACHE_NO is unknown"));
  CHECK(has(d.hint, "WAVE_CACHE_ON"));
  wv_diag_clear(cx);
  unsetenv("WAVE_CACHE_NO");
  setenv("WAVE_", "1", 1);
  setenv("WAVES", "1", 1); /* another program's */
  wv_variables_check(cx);
  CHECK_INT(wv_diag_count(cx), 1);
  CHECK(wv_diag_get(cx, 0, &d) && !d.hint);
  unsetenv("WAVE_"), unsetenv("WAVES");
  wv_ctx_free(cx);
}

TEST(default_target) {
  wv_ctx *cx = wv_ctx_new();
  setenv("WAVE_CUDA_LIB", "/nowhere/libcuda.so", 1);
  unsetenv("WAVE_DEFAULT_ARCH");
  CHECK_STR(wv_target_default(cx, NULL), "cpu");
  CHECK_STR(wv_target_default(cx, ""), "cpu");
  CHECK_STR(wv_target_default(cx, "gfx90a"), "gfx90a");
  setenv("WAVE_DEFAULT_ARCH", "gfx1201", 1);
  CHECK_STR(wv_target_default(cx, "gfx90a"), "gfx1201");
  unsetenv("WAVE_DEFAULT_ARCH"), unsetenv("WAVE_CUDA_LIB");
  CHECK(!wv_target_default(NULL, NULL));
  wv_ctx_free(cx);
}

TESTS_MAIN(RUN(rows) RUN(numbers) RUN(unknown_names) RUN(default_target))
