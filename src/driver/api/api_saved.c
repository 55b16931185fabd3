/* api_saved.c: compiled programs as bytes, which need neither the compiler nor the kernel any
 * more. */
#include <stdlib.h>
#include <string.h>

#include "driver/compiled.h"
#include "driver/emit_c.h"

static char *given_away(const StrBuf *from) {
  char *copy = malloc(from->n + 1);
  if (!copy) return NULL;
  memcpy(copy, from->at, from->n);
  copy[from->n] = '\0';
  return copy;
}

/* ---- saving ---- */

static bool prepare_variants(wv_program *p, wv_ctx *cx, int device) {
  ProgramLock lock;
  program_lock(p, &lock);
  bool ok = true;
  for (int i = 0; ok && i < p->art.nvariants; i++)
    ok = device < 0 ? program_compile(p, i) : program_load(p, i, device);
  program_forward(p, &cx->cx->diags);
  program_unlock(&lock);
  return ok;
}

bool wv_program_prepare(wv_program *p, wv_ctx *cx, int device) {
  API_PROGRAM(p, cx, false);
  if (!p->open.n) return prepare_variants(p, cx, device);
  bool ok = program_shown(p, &cx->cx->diags) != NULL;
  for (const Fitted *f = atomic_load(&p->fitted); ok && f; f = f->next)
    ok = !f->program || prepare_variants(f->program, cx, device);
  return ok;
}

/* A saved program must handle every call. */
static bool prepare_whole(wv_program *p, wv_ctx *cx) {
  if (!p->open.n) return prepare_variants(p, cx, -1);
  Span at = launch_report(&p->launcher, &cx->cx->diags, p->launcher.at).at;
  fit_refuse(&cx->cx->diags, at, p->art.name, &p->open, DIAG_E0606, "");
  return false;
}

char *wv_program_save(wv_program *p, wv_ctx *cx, size_t *n) {
  API_PROGRAM(p, cx, NULL);
  if (!prepare_whole(p, cx)) return NULL;
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  artefact_write_whole(&out, &p->art);
  *n = out.n;
  char *bytes = given_away(&out);
  arena_free(a);
  return bytes;
}

bool wv_program_emit_c(wv_program *p, wv_ctx *cx, const char *header_name, char **source,
                       char **header) {
  API_PROGRAM(p, cx, false);
  if (!prepare_whole(p, cx)) return false;
  Arena *a = arena_new();
  StrBuf bytes = {.arena = a}, c = {.arena = a}, h = {.arena = a};
  artefact_write_whole(&bytes, &p->art);
  emit_c_header(&h, &p->art);
  emit_c_source(&c, &p->art, header_name, &bytes);
  *source = given_away(&c), *header = given_away(&h);
  arena_free(a);
  return *source && *header;
}

/* ---- loading ---- */

static bool refuse(wv_ctx *cx, const char *name, const char *why) {
  return diag_fail(&cx->cx->diags, DIAG_E0907, (Span){0}, "%s%s%scannot be loaded: %s",
                   name ? "`" : "it ", name ? name : "", name ? "` " : "", why);
}

static bool has_key(const Artefact *art, const Backend *b, Arena *a, const CompileOptions *o) {
  const char *here = strstr(b->key(a, o), cpu_key_word);
  const char *there = strstr(art->needs, cpu_key_word);
  return here && there && strcmp(here, there) == 0;
}

/* Whether code for the CPU was compiled for this one, or for any with the features of its target:
 * compares the relevant requirements, except the compiler. */
static bool fits_processor(wv_ctx *cx, const Artefact *art, const Backend *backend, Arena *a,
                           CompileOptions *o) {
  const char *misfit = backend->misfit(a, o->machine);
  if (misfit) return refuse(cx, art->name, misfit);
  if (has_key(art, backend, a, o)) return true;
  o->native = true;
  return has_key(art, backend, a, o) || refuse(cx, art->name, "it was compiled for another CPU");
}

/* Running it takes a kind of device, not the backend that generated it; a driver rejects code for
 * another device of its kind. */
static bool fits_machine(wv_ctx *cx, const Artefact *art, Arena *a) {
  TargetChoice t = target_find(art->target);
  CompileOptions o = {.machine = t.machine};
  const DeviceKind *kind = t.machine ? device_kind_for(t.kind) : NULL;
  if (!kind || kind->number != art->device_kind)
    return refuse(cx, art->name, "its target is not available here");
  const Backend *backend = backend_for(o.machine);
  return !backend || !backend->misfit || fits_processor(cx, art, backend, a, &o);
}

wv_program *wv_program_load(wv_ctx *cx, const void *bytes, size_t n, int device) {
  API_CHANGES(cx, NULL);
  if (!api_expected(cx, bytes != NULL, "the bytes of a program")) return NULL;
  wv_program *p = program_blank();
  const char *damage;
  Artefact *art = artefact_read_whole(p->arena, bytes, n, &damage);
  bool ok = art ? fits_machine(cx, art, p->arena) : refuse(cx, NULL, damage);
  if (ok) {
    p->art = *art;
    p->launcher.has_logs = artefact_has_logs(art);
    ok = device < 0 || program_load(p, 0, device);
  }
  program_forward(p, &cx->cx->diags);
  if (!ok) wv_program_free(p), p = NULL;
  return p;
}
