/* use_scale.c: a program without Python and compiler: links the pair of files that `wavec --emit=c`
 * made from scale.wave, and libwave. Prints which device it used. */
#include <stdio.h>
#include <stdlib.h>

#include <scale.h>

static int fail(wv_ctx *cx, const char *what) {
  wv_diag d;
  fprintf(stderr, "failed: %s\n", what);
  for (int i = 0; i < wv_diag_count(cx); i++)
    if (wv_diag_get(cx, i, &d)) fputs(d.rendered, stderr);
  return 1;
}

/* y = s * x for m x n numbers; returns the number of wrong elements. */
static int wrong_elements(wv_ctx *cx, wv_program *p, int64_t m, int64_t n, double s) {
  wv_device device = {wv_program_kind(p), 0};
  size_t count = (size_t)(m * n), bytes = count * sizeof(float);
  float *x = malloc(bytes + 1), *y = malloc(bytes + 1);
  void *dx = wv_device_alloc(cx, device, bytes), *dy = wv_device_alloc(cx, device, bytes);
  int64_t shape[] = {m, n};
  int f32 = wv_dtype_find("f32"), wrong = 0;
  wv_tensor a = {dx, shape, NULL, 2, f32, device}, b = {dy, shape, NULL, 2, f32, device};
  for (size_t i = 0; i < count; i++) x[i] = (float)(i % 1000), y[i] = -1;
  if (!wv_device_copy(cx, device, dx, x, bytes) || !wv_device_copy(cx, device, dy, y, bytes) ||
      !scale_launch(p, cx, &a, s, &b, NULL) || !wv_device_wait(cx, device, NULL) ||
      !wv_device_copy(cx, device, y, dy, bytes))
    exit(fail(cx, "launch"));
  for (size_t i = 0; i < count; i++) wrong += y[i] != (float)s * x[i];
  wv_device_release(cx, device, dx);
  wv_device_release(cx, device, dy);
  free(x), free(y);
  return wrong;
}

int main(void) {
  static const int64_t shapes[][2] = {{1, 1}, {3, 128}, {100, 77}, {64, 1000}};
  wv_ctx *cx = wv_ctx_new();
  wv_program *p = scale_load(cx);
  if (!p) return fail(cx, "load");
  int wrong = 0;
  for (int i = 0; i < 4; i++) wrong += wrong_elements(cx, p, shapes[i][0], shapes[i][1], 2.5);
  printf("%s for %s: %d wrong\n", wv_program_name(p), wv_program_target(p), wrong);
  wv_program_free(p);
  wv_ctx_free(cx);
  return wrong != 0;
}
