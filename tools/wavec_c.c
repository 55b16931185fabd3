/* wavec_c.c: `wavec --emit=c`: a compiled kernel as NAME.c and NAME.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wavec.h"

static bool write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  bool ok = f && fputs(text, f) >= 0;
  if (f && fclose(f) != 0) ok = false;
  return ok || complain("%s: %s", path, strerror(errno));
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* `source` ends with .c; its header has the same name with .h. */
static bool write_pair(wv_program *p, wv_ctx *cx, const char *source) {
  char *header = malloc(strlen(source) + 1), *c = NULL, *h = NULL;
  if (!header) return complain("no memory");
  strcpy(header, source);
  header[strlen(header) - 1] = 'h';
  bool ok = wv_program_emit_c(p, cx, base_name(header), &c, &h) && write_text(source, c) &&
            write_text(header, h);
  wv_free(c);
  wv_free(h);
  free(header);
  return ok;
}

static wv_program *compile(const Options *o, wv_kernel *k) {
  wv_compile_options options = {
      .target = o->target, .device = -1, .fast_math = o->fast_math, .start_after = o->start_after};
  return wv_compile(k, &options);
}

int compile_program(const Options *o, wv_ctx *cx, wv_kernel *k) {
  size_t n;
  wv_program *p = compile(o, k);
  char *bytes = p ? wv_program_save(p, cx, &n) : NULL; /* which compiles every variant */
  int status = bytes ? STATUS_OK : STATUS_DIAGNOSTICS;
  wv_free(bytes);
  wv_program_free(p);
  return status;
}

int emit_c(const Options *o, wv_ctx *cx, wv_kernel *k) {
  char own[512];
  const char *source = o->output;
  snprintf(own, sizeof own, "%s.c", wv_kernel_name(k));
  if (!source) source = own;
  size_t n = strlen(source);
  if (n < 3 || strcmp(source + n - 2, ".c") != 0) {
    complain("--emit=c writes a .c file and a header: add -o NAME.c");
    return STATUS_USAGE;
  }
  wv_program *p = compile(o, k);
  bool ok = p && write_pair(p, cx, source);
  wv_program_free(p);
  return ok ? STATUS_OK : STATUS_DIAGNOSTICS;
}
