/* api_program.c: compiled programs through wave.h. */
#include "driver/api.h"
#include "target/target.h"

static bool refuse(wv_ctx *cx) {
  diag_add(&cx->cx->diags, DIAG_E0601, (Span){0}, "programs are not launched yet");
  return false;
}

int wv_dtype_find(const char *name) {
  DType d;
  return name && dtype_parse(name, &d) ? (int)d : -1;
}

int wv_device_count(wv_ctx *cx, int kind) { return (void)cx, (void)kind, 0; }

bool wv_device_get(wv_ctx *cx, wv_device d, wv_device_info *out) {
  (void)d, (void)out;
  return refuse(cx);
}

void *wv_device_alloc(wv_ctx *cx, wv_device d, size_t bytes) {
  (void)d, (void)bytes, refuse(cx);
  return NULL;
}

void wv_device_release(wv_ctx *cx, wv_device d, void *memory) { (void)cx, (void)d, (void)memory; }

bool wv_device_copy(wv_ctx *cx, wv_device d, void *to, const void *from, size_t bytes) {
  (void)d, (void)to, (void)from, (void)bytes;
  return refuse(cx);
}

bool wv_device_wait(wv_ctx *cx, wv_device d, void *stream) {
  (void)d, (void)stream;
  return refuse(cx);
}

wv_program *wv_compile(wv_kernel *k, const wv_compile_options *o) {
  (void)o;
  diag_add(&k->k->cx->diags, DIAG_E0601, k->k->at, "programs are not launched yet");
  return NULL;
}

void wv_program_free(wv_program *p) { (void)p; }
const char *wv_program_name(const wv_program *p) { return (void)p, NULL; }
const char *wv_program_target(const wv_program *p) { return (void)p, NULL; }
int wv_program_kind(const wv_program *p) { return (void)p, 0; }

bool wv_program_variant(wv_program *p, int i, wv_variant *out) {
  (void)p, (void)i, (void)out;
  return false;
}

const char *wv_program_text(wv_program *p, wv_ctx *cx, int variant, const char *what) {
  (void)p, (void)variant, (void)what, refuse(cx);
  return NULL;
}

bool wv_program_resources(wv_program *p, wv_ctx *cx, int variant, int device, wv_resources *out) {
  (void)p, (void)variant, (void)device, (void)out;
  return refuse(cx);
}

bool wv_launch(wv_program *p, wv_ctx *cx, const wv_launch_arg *args, int nargs, void *stream,
               unsigned flags) {
  (void)p, (void)args, (void)nargs, (void)stream, (void)flags;
  return refuse(cx);
}

bool wv_program_warm(wv_program *p, wv_ctx *cx, const wv_launch_arg *args, int nargs) {
  (void)p, (void)args, (void)nargs;
  return refuse(cx);
}

const char *wv_cache_dir(wv_ctx *cx) { return (void)cx, ""; }

int wv_cache_each(wv_ctx *cx, const char *dir, void (*each)(void *user, const wv_cache_entry *e),
                  void *user) {
  (void)cx, (void)dir, (void)each, (void)user;
  return 0;
}

int wv_cache_clear(wv_ctx *cx, const char *dir) { return (void)cx, (void)dir, 0; }
