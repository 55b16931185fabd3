/* api_code.c: code objects for AMD GPUs, ours and others', through wave.h. */
#include <string.h>

#include "driver/api/api.h"
#include "runtime/amd/amd_compile.h"
#include "runtime/amd/amd_text.h"

const char *api_code_text(Arena *a, Diags *diags, const char *what, const char *name,
                          const void *bytes, size_t n) {
  const char *error = "no bytes", *text = NULL;
  const LlvmLibrary *l = NULL;
  AmdImage image;
  bool ok = bytes && amd_image_load(a, bytes, n, &image, &error);
  if (ok && !(l = amd_library_open(a, chip_named(image.chip), &error)))
    return diag_add(diags, DIAG_E0901, (Span){0}, "%s", error), NULL;
  if (l)
    text = strcmp(what, "asm") == 0 ? amd_listing(a, &image, l, &error)
                                    : amd_loops(a, &image, l, &error);
  if (!text) diag_add(diags, DIAG_E0903, (Span){0}, "`%s`: %s", name, error);
  return text;
}

char *wv_code_text(wv_ctx *cx, const char *what, const char *name, const void *bytes, size_t n) {
  API_CHANGES(cx, NULL);
  Arena *a = arena_new();
  bool known = what && (strcmp(what, "asm") == 0 || strcmp(what, "loops") == 0);
  const char *text =
      known ? api_code_text(a, &cx->cx->diags, what, name ? name : "code", bytes, n) : NULL;
  char *out = text ? api_given_away(text) : NULL;
  arena_free(a);
  return out;
}
