/* measured_source.c: the kernels of the page of measurements: their source lines, each followed by
 * the compiler's remarks about it. */
#include <string.h>

#include "report/measured.h"
#include "report/page.h"

static void put_remark(StrBuf *out, const wv_diag *d) {
  page_put(out,
           "<tr class=\"remark\"><th></th><td class=\"code\"><span class=\"chip\">"
           "<b>%s</b> %s</span></td></tr>\n",
           d->code, d->text);
}

/* The remarks of all rows of a kernel, concatenated. */
typedef struct Remarks {
  const wv_diag **at;
  int n;
} Remarks;

/* Other variants and targets repeat the same remarks about a line. */
static bool said(const Remarks *r, const wv_diag *d) {
  for (int i = 0; i < r->n; i++)
    if (r->at[i]->at.line == d->at.line && strcmp(r->at[i]->text, d->text) == 0) return true;
  return false;
}

static Remarks remarks_of(Arena *a, const wv_measurements *m, const char *kernel) {
  Remarks r = {0};
  int most = 0;
  for (int i = 0; i < m->n; i++) most += m->rows[i].nremarks;
  r.at = ARENA_ARRAY(a, const wv_diag *, most);
  for (int i = 0; i < m->n; i++)
    for (int j = 0; strcmp(m->rows[i].kernel, kernel) == 0 && j < m->rows[i].nremarks; j++)
      if (!said(&r, &m->rows[i].remarks[j])) r.at[r.n++] = &m->rows[i].remarks[j];
  return r;
}

static uint32_t put_lines(StrBuf *out, const wv_measured *row, const Remarks *r) {
  uint32_t line = row->line;
  for (const char *at = row->source; *at; line++) {
    size_t len = strcspn(at, "\n");
    sb_printf(out, "<tr><th scope=\"row\">%u</th><td class=\"code\"><code>", line);
    page_text_n(out, at, len);
    sb_puts(out, "</code></td></tr>\n");
    for (int i = 0; i < r->n; i++)
      if (r->at[i]->at.line == line) put_remark(out, r->at[i]);
    at += len + (at[len] == '\n');
  }
  return line;
}

/* Remarks about lines that are not shown come at the end. */
static void put_other_remarks(StrBuf *out, const Remarks *r, uint32_t first, uint32_t end) {
  for (int i = 0; i < r->n; i++)
    if (r->at[i]->at.line < first || r->at[i]->at.line >= end) put_remark(out, r->at[i]);
}

static void put_program(StrBuf *out, const wv_measured *row) {
  if (!row->program || !*row->program) return;
  page_put(out,
           "<details><summary>what one thread does, on %s</summary>"
           "<pre class=\"program\"><code>%s</code></pre></details>\n",
           row->target, row->program);
}

static bool is_first(const wv_measurements *m, int i) {
  for (int j = 0; j < i; j++)
    if (strcmp(m->rows[j].kernel, m->rows[i].kernel) == 0) return false;
  return true;
}

static void put_kernel(StrBuf *out, const wv_measurements *m, const wv_measured *row) {
  page_put(out, "<article id=\"kernel-%s\">\n<h3>%s</h3>\n<p>%s</p>\n", row->kernel, row->kernel,
           row->about ? row->about : "");
  if (row->source) {
    page_put(out,
             "<div class=\"scroll\"><table class=\"lines source\"><caption>%s</caption>\n<tbody>\n",
             row->file ? row->file : "");
    Remarks remarks = remarks_of(out->arena, m, row->kernel);
    put_other_remarks(out, &remarks, row->line, put_lines(out, row, &remarks));
    sb_puts(out, "</tbody></table></div>\n");
  }
  for (int i = 0; i < m->n; i++)
    if (strcmp(m->rows[i].kernel, row->kernel) == 0) put_program(out, &m->rows[i]);
  sb_puts(out, "</article>\n");
}

void measured_sources(StrBuf *out, const wv_measurements *m) {
  page_section(out, "kernels", "Kernels");
  for (int i = 0; i < m->n; i++)
    if (is_first(m, i)) put_kernel(out, m, &m->rows[i]);
  page_section_end(out);
}
