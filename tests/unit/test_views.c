/* test_views.c: a kernel that accepts any view of a tensor reads and writes the same elements as
 * the tile evaluator, with wide accesses if the header says that they are possible. */
#include <stdlib.h>

#include "unit/harness.h"
#include "wave.h"

#define BODY                                                                                       \
  "  dynamic M, N\n"                                                                               \
  "  hardware threads 64, vector {M: 1, N: 64}\n"                                                  \
  "  workgroup M by 4 on 0; workgroup N by 64 on 1; wave M by 4\n"                                 \
  "{\n"                                                                                            \
  "  %x = read %a : tile<M, N, f16>\n"                                                             \
  "  %y = add %x, %x\n"                                                                            \
  "  write %y, %b\n"                                                                               \
  "}\n"

static const char any_text[] =
    "kernel @twice(%a: mem<M, N, f16>, %b: mem<M, N, f16>)\n  view a; view b\n" BODY;
static const char rows_text[] =
    "kernel @twice(%a: mem<M, N, f16>, %b: mem<M, N, f16>)\n  view a; view b\n"
    "  assume Eq($STRIDE_a_1, 1); assume Eq($STRIDE_b_1, 1); assume Eq(Mod(N, 8), 0)\n"
    "  assume Eq(Mod($STRIDE_a_0, 8), 0); assume Eq(Mod($STRIDE_b_0, 8), 0)\n"
    "  assume Eq(Mod($BASE_a, 16), 0); assume Eq(Mod($BASE_b, 16), 0)\n" BODY;

enum { ROOM = 1 << 16 };

typedef struct View {
  _Alignas(256) uint16_t data[ROOM];
  int64_t shape[2], strides[2];
  wv_buffer buffer;
} View;

static void view_make(View *v, int offset, int64_t m, int64_t n, int64_t row, int64_t column) {
  for (int i = 0; i < ROOM; i++) v->data[i] = 0x3c00; /* 1.0 */
  v->shape[0] = m, v->shape[1] = n;
  v->strides[0] = row, v->strides[1] = column;
  v->buffer = (wv_buffer){v->data + offset, "f16", 2, v->shape, v->strides};
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++)
      wv_data_set("f16", v->data + offset, i * row + j * column, (double)(i * 16 + j % 16) / 8);
}

/* Lowers for a machine and runs; false after printing the diagnostics. */
static bool simulate(wv_ctx *cx, const char *text, View *a, View *b) {
  wv_kernel *k;
  wv_arg args[2] = {{.buffer = &a->buffer}, {.buffer = &b->buffer}};
  bool ok = wv_parse(cx, "test.wave", text, &k, 1) == 1 &&
            wv_lower(k, &(wv_pass_options){.target = "sm_80"}) &&
            wv_sim(k, args, 2, &(wv_sim_options){.target = "sm_80"}, NULL);
  if (!ok) {
    wv_diag d;
    for (int i = 0; i < wv_diag_count(cx); i++)
      if (wv_diag_get(cx, i, &d) && *d.code == 'E') fputs(d.rendered, stdout);
  }
  wv_kernel_free(k);
  return ok;
}

static int wrong_elements(const View *a, const View *b) {
  int wrong = 0;
  for (int64_t i = 0; i < a->shape[0]; i++)
    for (int64_t j = 0; j < a->shape[1]; j++) {
      double x = wv_data_get("f16", a->buffer.data, i * a->strides[0] + j * a->strides[1]);
      double y = wv_data_get("f16", b->buffer.data, i * b->strides[0] + j * b->strides[1]);
      wrong += y != 2 * x;
    }
  return wrong;
}

typedef struct Case {
  int offset;
  int64_t m, n, row, column;
} Case;

static void check_views(Harness *harness, const char *text, const Case *a, const Case *b) {
  View *x = aligned_alloc(256, sizeof *x), *y = aligned_alloc(256, sizeof *y);
  wv_ctx *cx = wv_ctx_new();
  view_make(x, a->offset, a->m, a->n, a->row, a->column);
  view_make(y, b->offset, b->m, b->n, b->row, b->column);
  CHECK(simulate(cx, text, x, y));
  CHECK_INT(wrong_elements(x, y), 0);
  wv_ctx_free(cx);
  free(x);
  free(y);
}

TEST(any_view) {
  static const Case cases[][2] = {
      {{0, 12, 128, 128, 1}, {0, 12, 128, 128, 1}}, /* row-major */
      {{0, 12, 100, 1, 12}, {0, 12, 100, 100, 1}},  /* transposed */
      {{3, 7, 65, 131, 1}, {1, 7, 65, 80, 1}},      /* sliced, at odd addresses */
      {{0, 8, 64, 256, 2}, {0, 8, 64, 64, 1}},      /* every second column */
      {{5, 9, 70, 0, 1}, {0, 9, 70, 70, 1}},        /* one row, broadcast */
      {{0, 1, 1, 5, 5}, {0, 1, 1, 1, 1}},           /* strides of one element do not matter */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_views(harness, any_text, &cases[i][0], &cases[i][1]);
}

TEST(views_with_rows) {
  static const Case a = {8, 12, 128, 160, 1}, b = {0, 12, 128, 128, 1};
  check_views(harness, rows_text, &a, &b);
}

/* One lane loads several elements with one access. */
static bool has_wide(wv_ctx *cx, const char *text) {
  wv_kernel *k;
  if (wv_parse(cx, "test.wave", text, &k, 1) != 1) return false;
  bool ok = wv_lower(k, &(wv_pass_options){.target = "sm_80"});
  char *lowered = wv_print(k);
  const char *load = strstr(lowered, "= load %a"), *end = load ? strchr(load, '\n') : NULL;
  const char *vector = load ? strstr(load, ": vec<4, f16>") : NULL;
  bool wide = ok && vector && vector < end;
  wv_free(lowered);
  wv_kernel_free(k);
  return wide;
}

TEST(widths) {
  wv_ctx *cx = wv_ctx_new();
  CHECK(has_wide(cx, rows_text));
  CHECK(!has_wide(cx, any_text));
  wv_ctx_free(cx);
}

TESTS_MAIN(RUN(any_view) RUN(views_with_rows) RUN(widths))
