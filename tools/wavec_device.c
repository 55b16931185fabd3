/* wavec_device.c: `wavec run --target cuda`: compiles a kernel for a device, and copies its
 * arguments there and back. */
#include <stdio.h>
#include <stdlib.h>

#include "wavec.h"

typedef struct Run {
  wv_ctx *cx;
  wv_program *p;
  wv_device device;
  const wv_arg *from;
  int n;
  wv_tensor *tensors;
  wv_launch_arg *args;
  const Options *o;
} Run;

static size_t bytes_of(const wv_buffer *b) {
  int64_t n = 1;
  for (int i = 0; i < b->rank; i++) n *= b->shape[i];
  return wv_data_bytes(b->dtype, n);
}

/* Tensors on the host are not copied. */
static bool is_here(const Run *r) { return r->device.kind == WV_HOST; }

static bool bring(Run *r) {
  for (int i = 0; i < r->n; i++) {
    const wv_buffer *b = r->from[i].buffer;
    r->args[i] = (wv_launch_arg){NULL, r->from[i].number, r->from[i].integer};
    if (!b) continue;
    wv_tensor *t = &r->tensors[i];
    r->args[i].tensor = t;
    *t = (wv_tensor){b->data, b->shape, b->strides, b->rank, wv_dtype_find(b->dtype), r->device};
    if (is_here(r)) continue;
    t->data = wv_device_alloc(r->cx, r->device, bytes_of(b));
    if (!t->data || !wv_device_copy(r->cx, r->device, t->data, b->data, bytes_of(b))) return false;
  }
  return true;
}

static bool fetch(Run *r) {
  for (int i = 0; i < r->n; i++) {
    const wv_buffer *b = r->from[i].buffer;
    if (b && !wv_device_copy(r->cx, r->device, b->data, r->tensors[i].data, bytes_of(b)))
      return false;
  }
  return true;
}

static void release(Run *r) {
  for (int i = 0; i < r->n && !is_here(r); i++)
    if (r->args[i].tensor) wv_device_release(r->cx, r->device, r->tensors[i].data);
}

static bool run(Run *r) {
  void *options = (void *)(uintptr_t)r->o;
  bool ok = bring(r) && wv_launch_logged(r->p, r->cx, r->args, r->n, NULL, print_log, options) &&
            wv_device_wait(r->cx, r->device, NULL) && (is_here(r) || fetch(r));
  release(r);
  return ok;
}

static void write_dump(void *user, const char *pass, const char *text) {
  fputs(text, pass ? user : stderr);
}

int run_on_device(const Options *o, wv_ctx *cx, wv_kernel *k, const wv_arg *args, int nargs) {
  bool dumps = o->dump || o->dump_before || o->time;
  wv_pass_options dump = {.dump = o->dump,
                          .dump_before = o->dump_before,
                          .time = o->time,
                          .write = write_dump,
                          .user = stdout};
  wv_compile_options options = {.target = o->target,
                                .fast_math = o->fast_math,
                                .start_after = o->start_after,
                                .dump = dumps ? &dump : NULL};
  Run r = {.cx = cx, .p = wv_compile(k, &options), .from = args, .n = nargs, .o = o};
  if (!r.p) return STATUS_DIAGNOSTICS;
  r.device = (wv_device){wv_program_kind(r.p), 0};
  r.tensors = calloc((size_t)nargs + 1, sizeof *r.tensors);
  r.args = calloc((size_t)nargs + 1, sizeof *r.args);
  bool ok = r.tensors && r.args && run(&r);
  free(r.tensors);
  free(r.args);
  wv_program_free(r.p);
  return ok ? STATUS_OK : STATUS_DIAGNOSTICS;
}
