/* failures.c: see failures.h. */
#include "base/failures.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 4 }; /* failures of one assertion that are described */

void failures_describe(StrBuf *out, const char *kind, const char *file, Span at,
                       const char *columns, const char *message) {
  sb_printf(out, "%s\t%s:%u:%u:%u\t%s\t", kind, file, at.line, at.col, at.len, columns);
  for (; *message; message++) sb_putc(out, *message == '\t' || *message == '\n' ? ' ' : *message);
  sb_putc(out, '\n');
}

/* ---- reading a line ---- */

typedef struct Site {
  const char *kind, *place, *columns, *message;
} Site;

/* The next field, without the tab or newline that ends it. */
static const char *take_field(Arena *a, const char **at) {
  size_t n = strcspn(*at, "\t\n");
  const char *field = arena_strndup(a, *at, n);
  *at += n + ((*at)[n] != '\0');
  return field;
}

static Site take_site(Arena *a, const char **at) {
  Site s = {.kind = take_field(a, at)};
  s.place = take_field(a, at);
  s.columns = take_field(a, at);
  s.message = take_field(a, at);
  return s;
}

/* Cuts off the last colon and the number after it, and returns the number. */
static uint32_t cut_number(char *text) {
  char *colon = strrchr(text, ':');
  if (!colon) return 0;
  *colon = '\0';
  return (uint32_t)strtoul(colon + 1, NULL, 10);
}

static Span place_of(Diags *diags, const Site *s) {
  char *text = arena_strdup(diags->arena, s->place);
  Span at = {.len = cut_number(text)};
  at.col = cut_number(text);
  at.line = cut_number(text);
  if (at.line) at.file = sources_file(diags->sources, text, NULL);
  return at;
}

/* ---- one failure ---- */

static void put_word(StrBuf *out, char type, int64_t word) {
  uint32_t low = (uint32_t)word;
  float single;
  double wide;
  memcpy(&single, &low, sizeof single);
  memcpy(&wide, &word, sizeof wide);
  switch ((FailureType)type) {
  case FAILURE_COORD:
  case FAILURE_GROUP:
  case FAILURE_INT: sb_printf(out, "%" PRId64, word); break;
  case FAILURE_UNSIGNED: sb_printf(out, "%" PRIu64, (uint64_t)word); break;
  case FAILURE_TRUTH: sb_puts(out, word ? "true" : "false"); break;
  case FAILURE_F32: sb_printf(out, "%.9g", (double)single); break;
  case FAILURE_F64: sb_printf(out, "%.17g", wide); break;
  }
}

static bool is_position(char type) { return type == FAILURE_COORD || type == FAILURE_GROUP; }

/* The text before a word; `before` is the type of the previous word, 0 at the beginning. */
static const char *separator(char before, char type) {
  if (before && is_position(before) == is_position(type)) return ", ";
  if (before) return before == FAILURE_GROUP ? "): " : ": ";
  return type == FAILURE_GROUP ? "in workgroup (" : type == FAILURE_COORD ? "at " : "";
}

/* "at M = 3, N = 5: x = 2.5"; "in workgroup (0, 1, 0)" */
static const char *row_text(Arena *a, const char *columns, const int64_t *row) {
  StrBuf out = {.arena = a};
  char before = 0;
  for (int i = 0; *columns && i < FAILURE_COLUMNS; i++) {
    char type = *columns++;
    int n = (int)strcspn(columns, " ");
    sb_puts(&out, separator(before, type));
    if (n) sb_printf(&out, "%.*s = ", n, columns);
    put_word(&out, type, row[i]);
    columns += n + (columns[n] == ' ');
    before = type;
  }
  if (before == FAILURE_GROUP) sb_putc(&out, ')');
  return sb_text(&out);
}

/* By coordinates, because the order in which threads report is arbitrary. */
static int compare_rows(const void *a, const void *b) {
  const int64_t *x = a, *y = b;
  for (int i = 0; i < FAILURE_COLUMNS; i++)
    if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  return 0;
}

/* ---- one assertion ---- */

static Diag *head(Diags *diags, const Site *s, Span at, int64_t count) {
  if (strcmp(s->kind, FAILURE_ASSERT) != 0)
    return diag_add(diags, strcmp(s->kind, FAILURE_ASSUME) == 0 ? DIAG_R0701 : DIAG_E0709, at,
                    "the assumption `%s` does not hold where the symbol is set", s->message);
  const char *text = *s->message ? arena_printf(diags->arena, ": %s", s->message) : "";
  if (count == 1) return diag_add(diags, DIAG_E0714, at, "assertion failed%s", text);
  return diag_add(diags, DIAG_E0714, at, "assertion failed%s (%" PRId64 " times)", text, count);
}

static void report_site(Diags *diags, const Site *s, const int64_t *table) {
  int64_t rows[FAILURE_ROWS][FAILURE_COLUMNS];
  Span at = place_of(diags, s);
  Diag *d = head(diags, s, at, table[0]);
  int n = table[0] < FAILURE_ROWS - 1 ? (int)table[0] : FAILURE_ROWS - 1;
  memcpy(rows, table + FAILURE_COLUMNS, sizeof **rows * FAILURE_COLUMNS * (size_t)n);
  qsort(rows, (size_t)n, sizeof *rows, compare_rows);
  for (int i = 0; i < n && i < SHOWN && *s->columns; i++)
    diag_note(diags, d, (Span){0}, "%s", row_text(diags->arena, s->columns, rows[i]));
}

bool failures_report(Diags *diags, const char *text, const int64_t *words, int64_t n) {
  int errors = diags->errors;
  for (int64_t i = 0; *text && (i + 1) * FAILURE_WORDS <= n; i++) {
    Site s = take_site(diags->arena, &text);
    if (words[i * FAILURE_WORDS] > 0) report_site(diags, &s, words + i * FAILURE_WORDS);
  }
  return diags->errors == errors;
}
