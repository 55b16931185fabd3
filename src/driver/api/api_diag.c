/* api_diag.c: contexts and their diagnostics through wave.h. */
#include "driver/api/api.h"
#include "runtime/device.h"

wv_ctx *wv_ctx_new(void) {
  API_ASKS(NULL);
  Context *cx = context_new();
  wv_ctx *handle = ARENA_NEW(cx->arena, wv_ctx);
  handle->handle = HANDLE_CTX;
  handle->cx = cx;
  return handle;
}

void wv_ctx_free(wv_ctx *cx) {
  API_ASKS();
  if (!api_is(cx, HANDLE_CTX)) return;
  for (size_t i = 0; i < WV_LEN(cx->devices); i++) device_close(cx->devices[i]);
  if (cx->attempt) landing_attempt(NULL); /* it may be the current one */
  arena_free(cx->attempt);
  context_free(cx->cx);
}

bool wv_ctx_usable(const wv_ctx *cx) {
  API_PLAIN;
  return api_is(cx, HANDLE_CTX) && !cx->is_broken;
}

const char *wv_ctx_saved(const wv_ctx *cx) {
  API_PLAIN;
  return api_is(cx, HANDLE_CTX) && *cx->trouble.saved ? cx->trouble.saved : NULL;
}

const char *wv_version(void) {
  API_PLAIN;
  return WAVE_VERSION;
}

/* ---- diagnostics and the places they name ---- */

Span api_span(Context *cx, wv_place at) {
  if (!at.file) return (Span){0};
  return (Span){sources_file(&cx->sources, at.file, NULL), at.line, at.col, at.len};
}

wv_place api_place(Context *cx, Span at) {
  if (!at.file) return (wv_place){0};
  return (wv_place){sources_name(&cx->sources, at.file), at.line, at.col, at.len};
}

static const Diag *diag_at(const wv_ctx *cx, int i) {
  const Diag *d = i < 0 ? NULL : cx->cx->diags.first;
  for (; d && i > 0; i--) d = d->next;
  return d;
}

int wv_diag_count(const wv_ctx *cx) {
  API_PLAIN;
  int n = 0;
  for (const Diag *d = api_is(cx, HANDLE_CTX) ? cx->cx->diags.first : NULL; d; d = d->next) n++;
  return n;
}

int wv_diag_errors(const wv_ctx *cx) {
  API_PLAIN;
  return api_is(cx, HANDLE_CTX) ? cx->cx->diags.errors : 0;
}

void api_diag(Context *cx, Arena *a, const Diag *d, wv_diag *out) {
  static const char *const severities[] = {"error", "warning", "remark"};
  const DiagInfo *info = &diag_info[d->code];
  StrBuf text = {.arena = a};
  diag_render(&cx->diags, d, &text);
  *out = (wv_diag){severities[info->severity], info->code,    d->text, d->hint,
                   api_place(cx, d->at),       sb_text(&text)};
}

/* Without memory for more, at least the message is returned. */
static bool get_bare(const wv_ctx *cx, int i, wv_diag *out) {
  const Diag *d = api_is(cx, HANDLE_CTX) ? diag_at(cx, i) : NULL;
  if (d)
    *out = (wv_diag){.severity = "error",
                     .code = diag_info[d->code].code,
                     .text = d->text,
                     .hint = d->hint,
                     .rendered = d->text};
  return d != NULL;
}

bool wv_diag_get(wv_ctx *cx, int i, wv_diag *out) {
  API_ENTER(api_is(cx, HANDLE_CTX), cx, (void)0, get_bare(cx, i, out));
  const Diag *d = diag_at(cx, i);
  if (d) api_diag(cx->cx, cx->cx->diags.arena, d, out);
  return d != NULL;
}

int wv_diag_notes(wv_ctx *cx, int i, wv_note *out, int cap) {
  API_READS(cx, 0);
  const Diag *d = diag_at(cx, i);
  int n = 0;
  for (const DiagNote *note = d ? d->notes : NULL; note; note = note->next, n++)
    if (n < cap) out[n] = (wv_note){api_place(cx->cx, note->at), note->text};
  return n;
}

void wv_diag_clear(wv_ctx *cx) {
  API_PLAIN;
  if (api_is(cx, HANDLE_CTX)) diags_clear(&cx->cx->diags);
}

void wv_diag_report(wv_ctx *cx, const char *code, wv_place at, const char *text, const char *hint) {
  API_CHANGES(cx, );
  DiagCode c = code ? diag_find(code) : DIAG_COUNT;
  if (c == DIAG_COUNT) c = DIAG_E0105; /* a mistake of the front end: its message is kept */
  Diag *d = diag_add(&cx->cx->diags, c, api_span(cx->cx, at), "%s", text ? text : "");
  if (hint) diag_hint(&cx->cx->diags, d, "%s", hint);
}

void wv_source(wv_ctx *cx, const char *file, const char *text) {
  API_READS(cx, );
  Sources *s = &cx->cx->sources;
  if (file && text) sources_give_text(s, sources_file(s, file, NULL), text);
}

const char *wv_explain(const char *code) {
  API_PLAIN;
  DiagCode c = code ? diag_find(code) : DIAG_COUNT;
  return c == DIAG_COUNT ? NULL : diag_info[c].explanation;
}

const char *wv_nearest(const char *word, const char *const *words, int n) {
  API_PLAIN;
  return word ? diag_nearest(word, words, n) : NULL;
}
