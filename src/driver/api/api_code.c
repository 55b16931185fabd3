/* api_code.c: code objects for AMD GPUs, ours and others', through wave.h. */
#include "driver/api/api.h"
#include "runtime/amd/amd_compile.h"
#include "runtime/amd/amd_loops.h"

/* The text, in the arena; NULL after reporting. */
static const char *loops_of(Arena *a, Diags *diags, const char *name, const void *bytes, size_t n) {
  const char *error = "no bytes", *text = NULL;
  const LlvmLibrary *l = NULL;
  AmdImage image;
  bool ok = bytes && amd_image_load(a, bytes, n, &image, &error);
  if (ok && !(l = amd_library_open(a, chip_named(image.chip), &error)))
    return diag_add(diags, DIAG_E0901, (Span){0}, "%s", error), NULL;
  if (l) text = amd_loops(a, &image, l, &error);
  if (!text) diag_add(diags, DIAG_E0903, (Span){0}, "`%s`: %s", name ? name : "code", error);
  return text;
}

char *wv_code_loops(wv_ctx *cx, const char *name, const void *bytes, size_t n) {
  API_CHANGES(cx, NULL);
  Arena *a = arena_new();
  const char *text = loops_of(a, &cx->cx->diags, name, bytes, n);
  char *out = text ? api_given_away(text) : NULL;
  arena_free(a);
  return out;
}
