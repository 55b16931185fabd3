/* api_copy.c: copies a kernel, in its context or to another one.
 *
 * A context belongs to one thread. A kernel that is to run while others are still being built gets
 * a context of its own. */
#include "driver/api/api.h"

static wv_kernel *clone_to(wv_ctx *to, const wv_kernel *from) {
  wv_kernel *copy = api_kernel(to, kernel_clone_to(to->cx, from->k));
  if (from->tiles) copy->tiles = kernel_clone_to(to->cx, from->tiles);
  if (from->plain) copy->plain = kernel_clone_to(to->cx, from->plain);
  if (from->plain) copy->plain_target = arena_strdup(copy->k->arena, from->plain_target);
  return copy;
}

wv_kernel *wv_kernel_clone(wv_kernel *k) {
  API_KERNEL_USES(k, NULL);
  return clone_to(k->cx, k);
}

static wv_kernel *refuse_broken(const wv_kernel *from, wv_ctx *to) {
  diag_add(&to->cx->diags, DIAG_E0002, (Span){0}, "this kernel can no longer be used: %s",
           from->cx->trouble.text);
  return NULL;
}

wv_kernel *wv_kernel_copy(wv_kernel *from, wv_ctx *to) {
  API_CHANGES(to, NULL);
  if (!api_expected(to, api_is(from, HANDLE_KERNEL), "a kernel")) return NULL;
  if (from->is_broken) return refuse_broken(from, to);
  return clone_to(to, from);
}
