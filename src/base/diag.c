/* diag.c: collects diagnostics and renders them with the source line and a caret. */
#include "base/diag.h"

#include <ctype.h>
#include <string.h>

#define error SEVERITY_error
#define warning SEVERITY_warning
#define remark SEVERITY_remark
const DiagInfo diag_info[DIAG_COUNT] = {
#define DIAG(code, severity, title, explanation)                                                   \
  [DIAG_##code] = {#code, title, explanation, severity},
#include "base/diag.def"
};
#undef error
#undef warning
#undef remark

static const char *const severity_name[] = {"error", "warning", "remark"};

void diag_append(Diags *list, Diag *d) {
  d->next = NULL;
  if (list->last) list->last->next = d;
  else list->first = d;
  list->last = d;
  list->errors += diag_info[d->code].severity == SEVERITY_error;
}

Diag *diag_add(Diags *list, DiagCode code, Span at, const char *fmt, ...) {
  Diag *d = ARENA_NEW(list->arena, Diag);
  va_list ap;
  va_start(ap, fmt);
  *d = (Diag){.code = code, .at = at, .text = arena_vprintf(list->arena, fmt, ap)};
  va_end(ap);
  diag_append(list, d);
  return d;
}

void diag_note(Diags *list, Diag *d, Span at, const char *fmt, ...) {
  DiagNote **end = &d->notes;
  while (*end) end = &(*end)->next;
  va_list ap;
  va_start(ap, fmt);
  *end = ARENA_NEW(list->arena, DiagNote);
  **end = (DiagNote){.at = at, .text = arena_vprintf(list->arena, fmt, ap)};
  va_end(ap);
}

bool diag_hint(Diags *list, Diag *d, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  d->hint = arena_vprintf(list->arena, fmt, ap);
  va_end(ap);
  return false;
}

void diag_hint_size(Diags *list, Diag *d, int rank, bool is_given) {
  StrBuf nones = {.arena = list->arena};
  for (int i = 0; i < rank; i++) sb_printf(&nones, "%sNone", i ? ", " : "");
  diag_hint(list, d, "if its size may differ, declare it with `MemoryLayout(shape=[%s])`%s",
            sb_text(&nones),
            is_given
                ? ", or compile with `sizes=\"smallest\"` to use the size of the smallest tensor"
                : "");
}

Diag *diag_copy(Arena *a, const Diag *from) {
  Diag *d = arena_copy(a, from, sizeof *from);
  d->text = arena_strdup(a, from->text);
  if (from->hint) d->hint = arena_strdup(a, from->hint);
  d->next = NULL;
  for (DiagNote **at = &d->notes; *at; at = &(*at)->next) {
    *at = arena_copy(a, *at, sizeof **at);
    (*at)->text = arena_strdup(a, (*at)->text);
  }
  return d;
}

void diags_clear(Diags *list) {
  diags_cut(list, NULL);
  arena_reset(list->arena);
}

void diags_cut(Diags *list, Diag *last) {
  for (const Diag *d = last ? last->next : list->first; d; d = d->next)
    list->errors -= diag_info[d->code].severity == SEVERITY_error;
  if (last) last->next = NULL;
  else list->first = NULL;
  list->last = last;
}

static bool same_word(const char *a, const char *b) {
  while (*a && toupper((unsigned char)*a) == toupper((unsigned char)*b)) a++, b++;
  return !*a && !*b;
}

DiagCode diag_find(const char *code) {
  int c = 0;
  while (c < DIAG_COUNT && !same_word(code, diag_info[c].code)) c++;
  return (DiagCode)c;
}

/* "file:line:col: " as far as the source location is known. */
static void render_place(const Diags *list, Span at, StrBuf *out) {
  if (!at.file) return;
  sb_puts(out, sources_name(list->sources, at.file));
  if (at.line) sb_printf(out, ":%u", at.line);
  if (at.line && at.col) sb_printf(out, ":%u", at.col);
  sb_puts(out, ": ");
}

/* The source line, then carets under the span; tabs are kept so that the carets line up. */
static void render_source(const Diags *list, Span at, StrBuf *out) {
  size_t len;
  const char *line = sources_line(list->sources, at.file, at.line, &len);
  if (!line) return;
  sb_printf(out, "%5u | ", at.line);
  sb_write(out, line, len);
  sb_putc(out, '\n');
  if (!at.col || at.col > len + 1) return;
  sb_puts(out, "      | ");
  for (size_t i = 0; i + 1 < at.col; i++) sb_putc(out, line[i] == '\t' ? '\t' : ' ');
  size_t room = len + 1 - at.col, n = at.len < room ? at.len : room;
  for (size_t i = 0; i < (n ? n : 1); i++) sb_putc(out, '^');
  sb_putc(out, '\n');
}

void diag_render(const Diags *list, const Diag *d, StrBuf *out) {
  const DiagInfo *info = &diag_info[d->code];
  render_place(list, d->at, out);
  sb_printf(out, "%s[%s]: %s\n", severity_name[info->severity], info->code, d->text);
  render_source(list, d->at, out);
  for (const DiagNote *n = d->notes; n; n = n->next) {
    render_place(list, n->at, out);
    sb_printf(out, "note: %s\n", n->text);
    render_source(list, n->at, out);
  }
  if (d->hint) sb_printf(out, "hint: %s\n", d->hint);
}

void diags_render(const Diags *list, StrBuf *out) {
  for (const Diag *d = list->first; d; d = d->next) diag_render(list, d, out);
}

/* Levenshtein distance, ignoring case, of words up to 63 characters. */
static int distance(const char *a, const char *b) {
  enum { MOST = 64 };
  size_t na = strlen(a), nb = strlen(b);
  if (na >= MOST || nb >= MOST) return MOST;
  int row[MOST];
  for (size_t j = 0; j <= nb; j++) row[j] = (int)j;
  for (size_t i = 1; i <= na; i++) {
    int diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= nb; j++) {
      int change =
          diagonal + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
      int best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
      diagonal = row[j];
      row[j] = change < best ? change : best;
    }
  }
  return row[nb];
}

/* Of two names at the same distance, the one with the same beginning is the better guess: `exp`,
 * not `Expr`, for `expp`. */
const char *diag_nearest(const char *word, const char *const *names, int n) {
  const char *best = NULL;
  int most = (int)strlen(word) / 3 + 1, least = 0;
  for (int i = 0; i < n; i++) {
    int d = distance(word, names[i]), rank = 2 * d + (names[i][0] != word[0]);
    if (d <= most && (!best || rank < least)) best = names[i], least = rank;
  }
  return best;
}
