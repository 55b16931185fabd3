/* wavec_loops.c: `wavec loops`: the loops with matrix instructions of code objects for AMD GPUs. */
#include <stdio.h>
#include <string.h>

#include "wavec.h"

static bool ends_with(const char *path, const char *end) {
  size_t n = strlen(path), length = strlen(end);
  return n >= length && strcmp(path + n - length, end) == 0;
}

bool is_code_object(const char *path, const char *bytes, size_t n) {
  bool is_elf = n >= 4 && memcmp(bytes, "\177ELF", 4) == 0;
  return is_elf || memchr(bytes, '\0', n) || ends_with(path, ".hsaco") || ends_with(path, ".co");
}

int print_loops(wv_ctx *cx, const char *name, const void *bytes, size_t n, FILE *out) {
  char *text = bytes ? wv_code_text(cx, "loops", name, bytes, n) : NULL;
  if (text) fputs(text, out);
  wv_free(text);
  return text ? STATUS_OK : STATUS_DIAGNOSTICS;
}

/* Of the variant for aligned, row-major tensors. */
int kernel_loops(const Options *o, wv_ctx *cx, wv_kernel *k, FILE *out) {
  wv_compile_options options = {
      .target = o->target, .device = -1, .fast_math = o->fast_math, .start_after = o->start_after};
  if (!o->target || !strstr(o->target, "gfx")) {
    wv_diag_report(cx, "E0603", (wv_place){0}, "only code for AMD GPUs is read",
                   "add `--target gfx942`");
    return STATUS_DIAGNOSTICS;
  }
  wv_program *p = wv_compile(k, &options);
  size_t n = 0;
  const void *code = p ? wv_program_code(p, cx, 0, &n) : NULL;
  int status = print_loops(cx, wv_kernel_name(k), code, n, out);
  wv_program_free(p);
  return status;
}
