/* api_program.c: compiled programs through wave.h: asking and launching. */
#include <string.h>

#include "driver/compiled.h"

int wv_dtype_find(const char *name) {
  DType d;
  return name && dtype_parse(name, &d) ? (int)d : -1;
}

const char *wv_program_name(const wv_program *p) { return p->art.name; }
const char *wv_program_target(const wv_program *p) { return p->art.target; }
int wv_program_kind(const wv_program *p) { return p->art.device_kind; }

bool wv_program_variant(wv_program *p, int i, wv_variant *out) {
  if (i < 0 || i >= p->art.nvariants) return false;
  pthread_mutex_lock(&p->mutex);
  const VariantState *s = &p->state[i];
  *out = (wv_variant){p->art.variant[i].facts,
                      p->art.variant[i].compiled,
                      s->from_cache,
                      s->compile_ms,
                      s->load_ms,
                      p->art.variant[i].llvm_ms,
                      p->art.variant[i].shared};
  pthread_mutex_unlock(&p->mutex);
  return true;
}

static const char *text_of(wv_program *p, const ArtVariant *v, const char *what) {
  bool object = v->listing && *v->listing;
  if (strcmp(what, "ir") == 0) return v->ir;
  if (strcmp(what, "llvm") == 0) return object ? v->listing : NULL;
  if (strcmp(what, "ptx") == 0) return object ? NULL : v->code;
  if (strcmp(what, "asm") == 0) return object ? v->listing : v->code;
  if (strcmp(what, "remarks") == 0) return remarks_text(p->arena, v, &p->own->cx->sources);
  return NULL;
}

/* A variant, compiled if need be, with the program locked; NULL, and nothing is locked: there is no
 * such variant, or it was reported why it cannot be compiled. */
static const ArtVariant *lock_variant(wv_program *p, wv_ctx *cx, int i) {
  if (i < 0 || i >= p->art.nvariants) return NULL;
  pthread_mutex_lock(&p->mutex);
  bool ok = program_compile(p, i);
  program_forward(p, &cx->cx->diags);
  if (!ok) pthread_mutex_unlock(&p->mutex);
  return ok ? &p->art.variant[i] : NULL;
}

const char *wv_program_text(wv_program *p, wv_ctx *cx, int variant, const char *what) {
  const ArtVariant *v = what ? lock_variant(p, cx, variant) : NULL;
  const char *text = v ? text_of(p, v, what) : NULL;
  if (v) pthread_mutex_unlock(&p->mutex);
  return text;
}

const void *wv_program_code(wv_program *p, wv_ctx *cx, int variant, size_t *n) {
  const ArtVariant *v = lock_variant(p, cx, variant);
  if (!v) return NULL;
  const void *code = v->code;
  *n = (size_t)v->code_bytes;
  pthread_mutex_unlock(&p->mutex);
  return code;
}

bool wv_program_resources(wv_program *p, wv_ctx *cx, int variant, int device, wv_resources *out) {
  DeviceResources r;
  if (variant < 0 || variant >= p->art.nvariants || device < 0) return false;
  Launcher *l = &p->launcher;
  pthread_mutex_lock(&p->mutex);
  bool ok = program_load(p, variant, device);
  if (ok) {
    DeviceReport report = program_report(p);
    const DeviceCode *code = atomic_load(&l->code[variant][device]);
    ok = l->device->kind->resources(l->device, code, &r, &report);
  }
  program_forward(p, &cx->cx->diags);
  pthread_mutex_unlock(&p->mutex);
  if (ok)
    *out = (wv_resources){r.registers, r.shared, r.spilled, r.threads, r.workgroups, r.occupancy};
  return ok;
}

void wv_ctx_interrupt(wv_ctx *cx, bool (*interrupted)(void *user), void *user) {
  cx->interrupted = interrupted;
  cx->user = user;
}

bool wv_launch(wv_program *p, wv_ctx *cx, const wv_launch_arg *args, int nargs, void *stream,
               unsigned flags) {
  if (!p || !cx) return false;
  LaunchCall c = {.args = args,
                  .nargs = nargs,
                  .stream = stream,
                  .flags = flags,
                  .interrupted = cx->interrupted,
                  .interrupted_user = cx->user};
  return launch_logged(&p->launcher, &cx->cx->diags, &c);
}

bool wv_launch_logged(wv_program *p, wv_ctx *cx, const wv_launch_arg *args, int nargs, void *stream,
                      void (*log)(void *user, const char *label, const wv_buffer *value),
                      void *user) {
  LaunchCall c = {.args = args,
                  .nargs = nargs,
                  .stream = stream,
                  .log = log,
                  .user = user,
                  .interrupted = cx->interrupted,
                  .interrupted_user = cx->user};
  return launch_logged(&p->launcher, &cx->cx->diags, &c);
}

bool wv_program_warm(wv_program *p, wv_ctx *cx, const wv_launch_arg *args, int nargs) {
  LaunchCall c = {.args = args, .nargs = nargs, .only_plan = true};
  return launch_logged(&p->launcher, &cx->cx->diags, &c);
}
