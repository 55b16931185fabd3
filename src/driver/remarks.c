/* remarks.c: diagnostics of a variant's compilation are part of the variant, so that a program from
 * the cache reports the same as one that was just compiled. */
#include "driver/compile.h"

static ArtNote keep_note(const Diags *from, Span at, const char *text) {
  return (ArtNote){at.file ? sources_name(from->sources, at.file) : "", (int)at.line, (int)at.col,
                   (int)at.len, text};
}

static bool is_kept(const Diag *d) { return diag_info[d->code].severity != SEVERITY_error; }

static int count_notes(const Diag *d) {
  int n = 0;
  for (const DiagNote *note = d->notes; note; note = note->next) n++;
  return n;
}

static ArtNote copied(Arena *a, ArtNote n) {
  n.file = arena_strdup(a, n.file);
  n.text = arena_strdup(a, n.text);
  return n;
}

static ArtRemark keep_one(Arena *a, const Diags *from, const Diag *d) {
  ArtRemark r = {.code = diag_info[d->code].code, .hint = arena_strdup(a, d->hint ? d->hint : "")};
  r.said = copied(a, keep_note(from, d->at, d->text));
  r.notes = ARENA_ARRAY(a, ArtNote, count_notes(d) + 1);
  for (const DiagNote *n = d->notes; n; n = n->next)
    r.notes[r.nnotes++] = copied(a, keep_note(from, n->at, n->text));
  return r;
}

void remarks_keep(Arena *a, const Diags *from, const Diag *before, ArtVariant *out) {
  const Diag *first = before ? before->next : from->first;
  int n = 0;
  for (const Diag *d = first; d; d = d->next) n += is_kept(d);
  if (n > ARTEFACT_REMARKS) n = ARTEFACT_REMARKS;
  out->remarks = ARENA_ARRAY(a, ArtRemark, n + 1);
  out->nremarks = 0;
  for (const Diag *d = first; d && out->nremarks < n; d = d->next)
    if (is_kept(d)) out->remarks[out->nremarks++] = keep_one(a, from, d);
}

static Span place_of(const ArtNote *n, Diags *to) {
  if (!*n->file) return (Span){0};
  return (Span){sources_file(to->sources, n->file, NULL), (uint32_t)n->line, (uint32_t)n->col,
                (uint32_t)n->len};
}

/* Codes are those of this build: another build uses other files of the cache. */
void remarks_say(const ArtVariant *v, Diags *to) {
  for (int i = 0; i < v->nremarks; i++) {
    const ArtRemark *r = &v->remarks[i];
    DiagCode code = diag_find(r->code);
    if (code == DIAG_COUNT) continue;
    Diag *d = diag_add(to, code, place_of(&r->said, to), "%s", r->said.text);
    for (int n = 0; n < r->nnotes; n++)
      diag_note(to, d, place_of(&r->notes[n], to), "%s", r->notes[n].text);
    if (*r->hint) diag_hint(to, d, "%s", r->hint);
  }
}

const char *remarks_text(Arena *a, const ArtVariant *v, Sources *sources) {
  Diags said = {.arena = a, .sources = sources};
  StrBuf out = {.arena = a};
  remarks_say(v, &said);
  for (const Diag *d = said.first; d; d = d->next)
    if (diag_info[d->code].severity == SEVERITY_remark) diag_render(&said, d, &out);
  return sb_text(&out);
}
