/* api_enter.c: how functions of wave.h begin: whether the handles are valid and still usable; and
 * what an internal error leaves behind. */
#include <stdio.h>
#include <string.h>

#include "driver/api/api.h"

/* ---- handles ---- */

bool api_is(const void *handle, HandleKind kind) {
  return handle && *(const HandleKind *)handle == kind;
}

bool api_expected(wv_ctx *cx, bool is_there, const char *what) {
  if (is_there) return true;
  if (api_usable(cx))
    diag_add(&cx->cx->diags, DIAG_E0001, (Span){0},
             "expected %s, got NULL or a handle of another kind", what);
  return false;
}

bool api_list(wv_ctx *cx, const void *at, int n, const char *what) {
  if (n >= 0 && (at || n == 0)) return true;
  if (api_usable(cx))
    diag_add(&cx->cx->diags, DIAG_E0001, (Span){0},
             n < 0 ? "%d %s" : "got %d %s, but a NULL pointer", n, what);
  return false;
}

bool api_text(wv_ctx *cx, const char *text, const char *what) {
  return api_expected(cx, text != NULL, what);
}

bool api_usable(wv_ctx *cx) {
  if (!api_is(cx, HANDLE_CTX)) return false;
  if (!cx->is_broken) return true;
  Diag *d = diag_add(&cx->cx->diags, DIAG_E0002, (Span){0},
                     "this context can no longer be used: %s", cx->trouble.text);
  return diag_hint(&cx->cx->diags, d,
                   "create another context; programs compiled earlier can still be launched");
}

wv_ctx *api_kernel_cx(const wv_kernel *k) { return api_is(k, HANDLE_KERNEL) ? k->cx : NULL; }

bool api_kernel_usable(const wv_kernel *k) { return api_usable(api_kernel_cx(k)); }

bool api_kernel_readable(const wv_kernel *k) {
  if (!api_is(k, HANDLE_KERNEL)) return false;
  return !k->is_broken || api_usable(k->cx); /* which reports it */
}

wv_ctx *api_builder_cx(const wv_builder *b) { return api_is(b, HANDLE_BUILDER) ? b->cx : NULL; }

bool api_builder_usable(wv_builder *b) { return api_usable(api_builder_cx(b)); }

/* ---- tests ---- */

long wv_test_fault(const char *what, long n) {
  API_PLAIN;
  static const char *const names[] = {[FAULT_MALLOC] = "malloc",
                                      [FAULT_ALLOC] = "alloc",
                                      [FAULT_ASSERT] = "assert",
                                      [FAULT_SITE] = "site"};
  for (int i = FAULT_MALLOC; what && i <= FAULT_SITE; i++)
    if (strcmp(names[i], what) == 0) return landing_set_fault((Fault)i, n);
  return -1;
}

/* ---- after an internal error ---- */

void api_landed(wv_ctx *cx) {
  const Failure *f = landing_failure();
  if (!api_is(cx, HANDLE_CTX) || cx->is_broken) return;
  Trouble *t = &cx->trouble;
  cx->is_broken = true;
  snprintf(t->text, sizeof t->text, "%s", f->text);
  t->diag = (Diag){.code = f->is_memory ? DIAG_I0003 : DIAG_I0002, .text = t->text};
  snprintf(t->saved, sizeof t->saved, "%s", f->saved);
  snprintf(t->said, sizeof t->said, "the kernel was saved: run `wavec again %s` to reproduce this",
           t->saved);
  t->note = (DiagNote){.text = t->said};
  if (*t->saved) t->diag.notes = &t->note;
  t->diag.hint =
      f->is_memory
          ? "if the kernel is not unusually large, this is a bug in the compiler: please report it"
          : "this is a bug in the compiler: please report it";
  diag_append(&cx->cx->diags, &t->diag);
}

void api_break_kernel(wv_kernel *k) {
  if (api_is(k, HANDLE_KERNEL)) k->is_broken = true;
}
