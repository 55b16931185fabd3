/* report_source.c: the user's lines and the program that ran, each with its cost. */
#include <string.h>

#include "report/page.h"
#include "report/report.h"

enum { MOST_ROWS = 2000, GAP = 24, AROUND = 1 };

void source_link(StrBuf *out, const Report *r, Span at) {
  sb_printf(out, "<a href=\"#L%u-%u\">", at.file, at.line);
  page_text(out, sources_name(&r->k->cx->sources, at.file));
  sb_printf(out, ":%u", at.line);
  sb_puts(out, "</a>");
}

/* ---- tables of lines ---- */

static void open_table(StrBuf *out, const char *id, const char *first, const char *caption) {
  sb_printf(out, "<div class=\"scroll\"><table class=\"lines\" id=\"%s\">\n<caption>%s</caption>\n",
            id, caption);
  sb_printf(out, "<thead><tr><th scope=\"col\">%s</th>", first);
  for (int i = 0; i < NCOUNTERS; i++)
    sb_printf(out, "<th scope=\"col\" title=\"%s\">%s</th>", counters[i].what, counters[i].title);
  sb_puts(out, "<th scope=\"col\" class=\"code\">code</th></tr></thead>\n<tbody>\n");
}

static void close_table(StrBuf *out) { sb_puts(out, "</tbody></table></div>\n"); }

static void put_cells(StrBuf *out, const SimLine *c) {
  for (int i = 0; i < NCOUNTERS; i++) {
    uint64_t v = c ? report_counter_of(c, i) : 0;
    if (!v) {
      sb_puts(out, "<td></td>");
      continue;
    }
    sb_printf(out, "<td data-n=\"%llu\">", (unsigned long long)v);
    page_number(out, v);
    sb_puts(out, "</td>");
  }
}

static void put_total(StrBuf *out, const Report *r) {
  sb_puts(out, "<tr class=\"total\"><th scope=\"row\">all</th>");
  put_cells(out, &r->sim->total);
  sb_puts(out, "<td class=\"code\"></td></tr>\n");
}

static double heat_of(uint64_t v, uint64_t most) { return most ? (double)v / (double)most : 0; }

static void choose_heat(StrBuf *out, const char *table) {
  sb_printf(out, "<fieldset class=\"heat\" data-table=\"%s\"><legend>colour by</legend>", table);
  for (int i = 0; i < NCOUNTERS - 1; i++) {
    sb_printf(out, "<label title=\"%s\"><input type=\"radio\" name=\"heat-%s\" value=\"%d\"%s> ",
              counters[i].what, table, i, i ? "" : " checked");
    sb_printf(out, "%s</label> ", counters[i].title);
  }
  sb_puts(out, "</fieldset>\n");
}

/* ---- the user's lines ---- */

static void put_marks(StrBuf *out, const Report *r, uint32_t file, uint32_t line) {
  for (int i = 0; i < r->sim->findings; i++) {
    const SimFinding *f = &r->sim->finding[i];
    bool here = f->diag->at.file == file && f->diag->at.line == line;
    bool other = f->other.file == file && f->other.line == line;
    if (here || other)
      sb_printf(out, " <a class=\"dot\" href=\"#finding%d\" title=\"finding %d%s\">%d</a>", i + 1,
                i + 1, here ? "" : ", the other access", i + 1);
  }
}

static void put_row(StrBuf *out, const Report *r, uint32_t file, uint32_t line, const SimLine *c,
                    uint64_t most) {
  size_t len = 0;
  const char *text = sources_line(&r->k->cx->sources, file, line, &len);
  sb_printf(out, "<tr id=\"L%u-%u\" style=\"--heat:%.3f\"><th scope=\"row\">%u", file, line,
            heat_of(c ? c->instructions : 0, most), line);
  put_marks(out, r, file, line);
  sb_puts(out, "</th>");
  put_cells(out, c);
  sb_puts(out, "<td class=\"code\"><code>");
  if (text) page_text_n(out, text, len);
  sb_puts(out, "</code></td></tr>\n");
}

static void put_gap(StrBuf *out, uint32_t lines) {
  sb_printf(out, "<tr class=\"gap\"><td colspan=\"%d\">⋯ %u lines that do nothing</td></tr>\n",
            NCOUNTERS + 2, lines);
}

/* The lines of one file: `at` .. `end` of the report's lines, and the source lines between them. */
static void put_file(StrBuf *out, const Report *r, const SimLine *at, const SimLine *end,
                     uint64_t most, int *rows) {
  uint32_t file = at->at.file;
  uint32_t line = at->at.line > AROUND ? at->at.line - AROUND : 1;
  const Span *head = &r->k->at; /* include the header if it is not far away */
  if (head->file == file && head->line && head->line < line && line - head->line < 64)
    line = head->line;
  for (; at < end && *rows < MOST_ROWS; at++) {
    if (at->at.line > line + GAP) {
      put_gap(out, at->at.line - AROUND - line);
      line = at->at.line - AROUND;
    }
    for (; line < at->at.line; line++, ++*rows) put_row(out, r, file, line, NULL, most);
    put_row(out, r, file, line++, at, most);
    ++*rows;
  }
}

void section_source(StrBuf *out, const Report *r) {
  const SimReport *s = r->sim;
  uint64_t most = 0;
  int rows = 0, from = 0;
  for (int i = 0; i < s->nlines; i++)
    if (s->line[i].instructions > most) most = s->line[i].instructions;
  page_section(out, "source", "Cost of each line");
  choose_heat(out, "lines");
  open_table(out, "lines", "line", "totals of the whole grid; hover over a column's name");
  while (from < s->nlines && !s->line[from].at.line) from++; /* ops without a source location */
  for (int i = from, end; i < s->nlines; i = end) {
    for (end = i; end < s->nlines && s->line[end].at.file == s->line[i].at.file; end++) {
    }
    sb_printf(out, "<tr class=\"file\"><th scope=\"rowgroup\" colspan=\"%d\">", NCOUNTERS + 2);
    page_put(out, "%s</th></tr>\n", sources_name(&r->k->cx->sources, s->line[i].at.file));
    put_file(out, r, &s->line[i], &s->line[end], most, &rows);
  }
  put_total(out, r);
  close_table(out);
  if (rows >= MOST_ROWS)
    sb_printf(out, "<p class=\"cap\">The first %d lines are shown.</p>\n", MOST_ROWS);
  page_section_end(out);
}

/* ---- the program ---- */

static const Op *next_shown(const Op *op) {
  while (op && op->kind == OP_yield && !op->nargs && !op->nattrs) op = ir_next(op);
  return op;
}

static void put_op_row(StrBuf *out, const Report *r, const Op *op, const char *text, size_t len,
                       uint64_t most) {
  const SimLine *c = op ? &r->sim->op[op->id] : NULL;
  sb_printf(out, "<tr style=\"--heat:%.3f\"><th scope=\"row\">",
            heat_of(c ? c->instructions : 0, most));
  if (op && op->at.line)
    sb_printf(out, "<a href=\"#L%u-%u\">%u</a>", op->at.file, op->at.line, op->at.line);
  sb_puts(out, "</th>");
  put_cells(out, c);
  sb_puts(out, "<td class=\"code\"><code>");
  page_text_n(out, text, len);
  sb_puts(out, "</code></td></tr>\n");
}

/* The printed kernel, line by line: in the body, each line except a closing brace is the next
 * op. */
static void put_program(StrBuf *out, const Report *r, const char *text, uint64_t most) {
  const Op *op = next_shown(ir_first(r->k));
  bool body = false;
  int rows = 0;
  for (size_t len; *text && rows < MOST_ROWS; text += len + (text[len] == '\n'), rows++) {
    len = strcspn(text, "\n");
    bool closes = text[strspn(text, " ")] == '}';
    put_op_row(out, r, body && !closes ? op : NULL, text, len, most);
    if (body && !closes && op) op = next_shown(ir_next(op));
    body |= *text == '{';
  }
  put_total(out, r);
  close_table(out);
  if (*text) sb_printf(out, "<p class=\"cap\">The first %d lines are shown.</p>\n", MOST_ROWS);
}

void section_program(StrBuf *out, const Report *r) {
  enum { OPEN_BELOW = 150 };
  Arena *a = arena_new();
  StrBuf text = {.arena = a};
  uint64_t most = 0;
  for (int i = 0; i < r->k->nops; i++)
    if (r->sim->op[i].instructions > most) most = r->sim->op[i].instructions;
  ir_print(&text, r->k);
  page_section(out, "program", "The program of one lane");
  sb_printf(out,
            "<details%s><summary>%d ops; the first column is the line each comes from"
            "</summary>\n",
            r->k->nops < OPEN_BELOW ? " open" : "", r->k->nops);
  choose_heat(out, "ops");
  open_table(out, "ops", "from", "the IR that ran; <code>wavec</code> reads it");
  put_program(out, r, sb_text(&text), most);
  sb_puts(out, "</details>\n");
  page_section_end(out);
  arena_free(a);
}
