/* parse_schedule.c: a schedule in a file of its own: rows of a header, and lines that say what the
 * next `schedule` row says, for readers of files of the public package. */
#include "ir/schedule/schedule.h"
#include "ir/text/parse.h"

/* `Initiation Interval: 3`, `Number of Stages: 3`. */
typedef struct Line {
  const char *first, *second, *third;
  size_t field; /* in the `schedule` row */
} Line;

static const Line lines[] = {
    {"Initiation", "Interval", NULL, offsetof(Constraint, schedule.interval)},
    {"Number", "of", "Stages", offsetof(Constraint, schedule.depth)},
};

static bool parse_line(Parser *p, const Line *line, int64_t *out) {
  parse_advance(p);
  if (!parse_expect_word(p, line->second)) return false;
  if (line->third && !parse_expect_word(p, line->third)) return false;
  if (!parse_expect(p, ':', NULL)) return false;
  return parse_expect_int(p, 1, INT32_MAX, "the number", out);
}

/* Rows of other kinds belong to the kernel itself. */
static bool check_row(Parser *p, const Constraint *row) {
  if (schedule_is_row(row)) return true;
  return diag_fail(
      &p->cx->diags, DIAG_E0505, row->at,
      "a `%s` row is not part of a schedule, which has rows `schedule`, `ring`, `at`, `prio`, "
      "`fence`, `roles`, `in`, `turns` and `order`",
      constraint_name[row->kind]);
}

/* A number that only the line gives is the row's. */
static bool take_lines(Parser *p, Constraint *row, int64_t *given) {
  for (size_t i = 0; i < WV_LEN(lines); i++) {
    int *field = (int *)(void *)((char *)row + lines[i].field);
    if (given[i] && *field && *field != given[i])
      return diag_fail(&p->cx->diags, DIAG_E0212, row->at,
                       "`%s %s` is %lld above this row, and %d in it", lines[i].first,
                       lines[i].second, (long long)given[i], *field);
    if (given[i]) *field = (int)given[i];
    given[i] = 0;
  }
  return true;
}

static const Line *line_here(const Parser *p) {
  for (size_t i = 0; i < WV_LEN(lines); i++)
    if (parse_at_word(p, lines[i].first)) return &lines[i];
  return NULL;
}

static bool parse_schedule(Parser *p, RowList *rows, Arena *a) {
  int64_t given[WV_LEN(lines)] = {0};
  Span last = p->tok.span;
  while (p->tok.kind != TOK_end) {
    const Line *line = line_here(p);
    Constraint row;
    last = p->tok.span;
    if (line) {
      if (!parse_line(p, line, &given[line - lines])) return false;
      continue;
    }
    if (parse_accept(p, ';')) continue;
    if (!parse_one_row(p, &row) || !check_row(p, &row)) return false;
    if (row.kind == CONSTRAINT_schedule && !take_lines(p, &row, given)) return false;
    vec_push(a, rows, row);
  }
  for (size_t i = 0; i < WV_LEN(lines); i++)
    if (given[i])
      return diag_fail(&p->cx->diags, DIAG_E0505, last, "no `schedule` row follows this line");
  return true;
}

bool ir_parse_schedule(Context *cx, const char *name, const char *text, Arena *a, RowList *out) {
  Parser p = {.cx = cx, .scratch = a, .errors = cx->diags.errors};
  p.spellings.arena = a;
  p.lx = lex_new(a, sources_file(&cx->sources, name, text), text);
  p.tok = lex_next(&p.lx);
  *out = (RowList){0};
  return parse_schedule(&p, out, a);
}
