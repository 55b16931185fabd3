/* report_html.c: a simulation as one page: first what happened, then where, then why. */
#include "report/page.h"
#include "report/report.h"
#include "report/schedule/schedule_picture.h"

/* At most 1: lanes that read the same bytes need them more often than they are moved. */
static double share_of(uint64_t part, uint64_t whole) {
  return part < whole ? (double)part / (double)whole : 1;
}

static void put_three(StrBuf *out, const int64_t *n) {
  int last = n[2] > 1 ? 3 : n[1] > 1 ? 2 : 1;
  for (int i = 0; i < last; i++) sb_printf(out, "%s%lld", i ? " × " : "", (long long)n[i]);
}

static void put_verdict(StrBuf *out, const Report *r) {
  const SimReport *s = r->sim;
  if (s->interrupted) sb_puts(out, "<p class=\"verdict bad\">interrupted before it ended</p>\n");
  else if (!s->findings)
    sb_puts(out, "<p class=\"verdict good\">✓ nothing found: no race, no access out of bounds, "
                 "nothing uninitialised, no deadlock</p>\n");
  else
    sb_printf(out, "<p class=\"verdict bad\">✗ <a href=\"#findings\">%d finding%s</a></p>\n",
              s->findings, s->findings > 1 ? "s" : "");
}

static void put_launch(StrBuf *out, const Report *r) {
  const SimReport *s = r->sim;
  page_put(out, "<p>Simulated on <b>%s</b>, %s. Grid <b>", s->machine->name, s->machine->doc);
  put_three(out, s->grid);
  sb_puts(out, "</b> of workgroups with <b>");
  put_three(out, s->block);
  sb_printf(out, "</b> threads: %d wave%s of %d lanes, ", s->nwaves, s->nwaves > 1 ? "s" : "",
            s->wave);
  page_number(out, (uint64_t)s->shared_bytes);
  page_put(out, " bytes of shared memory. Schedule <b>%s</b>.</p>\n", r->schedule);
}

static void put_figures(StrBuf *out, const Report *r, Arena *a) {
  const SimReport *s = r->sim;
  const SimLine *t = &s->total;
  sb_puts(out, "<dl class=\"figures\">\n");
  page_figure(out, "instructions", "issued by waves", page_number_text(a, t->instructions), -1);
  uint64_t slots = t->instructions * (uint64_t)s->wave;
  page_figure(out, "active lanes", "of all lanes of issued waves",
              arena_printf(a, "%.0f%%", 100 * share_of(t->lane_ops, slots)),
              share_of(t->lane_ops, slots));
  page_figure(out, "shared memory", "accesses", page_number_text(a, t->shared), -1);
  page_figure(out, "bank conflicts", "extra cycles", page_number_text(a, t->conflicts), -1);
  page_figure(out, "global memory", "32-byte sectors moved", page_number_text(a, t->sectors), -1);
  page_figure(out, "coalescing", "of the sectors moved were requested",
              arena_printf(a, "%.0f%%", 100 * share_of(t->sectors_needed, t->sectors)),
              share_of(t->sectors_needed, t->sectors));
  sb_puts(out, "</dl>\n");
}

static bool has_loops(const Report *r) { return r->loops && r->loops->loops.n; }

static void put_contents(StrBuf *out, const Report *r) {
  sb_puts(out, "<nav aria-label=\"contents\">");
  if (r->sim->findings) sb_puts(out, "<a href=\"#findings\">findings</a> ");
  sb_puts(out, "<a href=\"#source\">source</a> ");
  if (r->tiles) sb_puts(out, "<a href=\"#layouts\">tiles and lanes</a> ");
  if (has_loops(r)) sb_puts(out, "<a href=\"#loops\">loops</a> ");
  if (r->decisions) sb_puts(out, "<a href=\"#decisions\">decisions</a> ");
  sb_puts(out, "<a href=\"#memory\">memory</a> <a href=\"#program\">program</a></nav>\n");
}

/* ---- findings ---- */

static void chip(StrBuf *out, const char *name, const char *value) {
  page_put(out, "<span class=\"chip\"><b>%s</b> %s</span> ", name, value);
}

static void put_chips(StrBuf *out, const SimFinding *f, Arena *a) {
  chip(out, "workgroup",
       arena_printf(a, "%lld, %lld, %lld", (long long)f->workgroup[0], (long long)f->workgroup[1],
                    (long long)f->workgroup[2]));
  if (f->wave >= 0) chip(out, "wave", arena_printf(a, "%d", f->wave));
  if (f->lane >= 0) chip(out, "lane", arena_printf(a, "%d", f->lane));
  if (f->buffer) chip(out, "buffer", f->buffer);
  if (f->rank) {
    StrBuf index = {.arena = a};
    for (int i = 0; i < f->rank; i++)
      sb_printf(&index, "%s%lld", i ? ", " : "", (long long)f->index[i]);
    chip(out, "index", sb_text(&index));
  }
  if (f->address >= 0) chip(out, "byte", arena_printf(a, "%lld", (long long)f->address));
}

/* The line with the blamed part marked. */
static void put_line(StrBuf *out, const Report *r, Span at) {
  size_t len = 0;
  const char *text = sources_line(&r->k->cx->sources, at.file, at.line, &len);
  if (!text) return;
  size_t from = at.col ? at.col - 1 : 0, n = at.len;
  if (from > len) from = len;
  if (n > len - from) n = len - from;
  sb_puts(out, "<pre><code>");
  page_text_n(out, text, from);
  if (n) sb_puts(out, "<mark>");
  page_text_n(out, text + from, n);
  if (n) sb_puts(out, "</mark>");
  page_text_n(out, text + from + n, len - from - n);
  sb_puts(out, "</code></pre>\n");
}

static void put_place(StrBuf *out, const Report *r, Span at) {
  if (!at.file) return;
  sb_puts(out, "<p class=\"place\">");
  source_link(out, r, at);
  sb_puts(out, "</p>\n");
  put_line(out, r, at);
}

static void put_finding(StrBuf *out, const Report *r, const SimFinding *f, int number, Arena *a) {
  const DiagInfo *info = &diag_info[f->diag->code];
  sb_printf(out, "<article class=\"finding\" id=\"finding%d\">\n<h3><code>%s</code> ", number,
            info->code);
  page_put(out, "%s</h3>\n<p>%s</p>\n<p>", info->title, f->diag->text);
  put_chips(out, f, a);
  sb_puts(out, "</p>\n");
  put_place(out, r, f->diag->at);
  for (const DiagNote *n = f->diag->notes; n; n = n->next) {
    page_put(out, "<p class=\"note\">%s</p>\n", n->text);
    put_place(out, r, n->at);
  }
  if (f->diag->hint) {
    page_put(out, "<p class=\"hint\">%s</p>\n", f->diag->hint);
  }
  page_put(out, "<details><summary>what this means</summary><p>%s</p></details>\n</article>\n",
           info->explanation);
}

static void section_loops(StrBuf *out, const Report *r) {
  page_section(out, "loops", "Loops");
  sb_puts(out, "<p class=\"cap\">How loops are pipelined, and what the machine is predicted to do "
               "in an iteration (docs/schedules.md).</p>\n");
  schedule_fragment(out, r->loops);
  page_section_end(out);
}

static void section_decisions(StrBuf *out, const Report *r) {
  page_section(out, "decisions", "Decisions");
  page_put(out, "<pre class=\"program\">%s</pre>\n", r->decisions);
  page_section_end(out);
}

void report_html(StrBuf *out, const Report *r) {
  Arena *a = arena_new();
  page_begin(out, arena_printf(a, "%s on %s", r->k->name, r->sim->machine->name));
  page_put(out, "<header>\n<h1>%s</h1>\n", r->k->name);
  put_verdict(out, r);
  put_launch(out, r);
  put_figures(out, r, a);
  put_contents(out, r);
  sb_puts(out, "</header>\n<main>\n");
  if (r->sim->findings) {
    page_section(out, "findings", "Findings");
    for (int i = 0; i < r->sim->findings; i++) put_finding(out, r, &r->sim->finding[i], i + 1, a);
    page_section_end(out);
  }
  section_source(out, r);
  if (r->tiles) section_layouts(out, r);
  if (has_loops(r)) section_loops(out, r);
  if (r->decisions) section_decisions(out, r);
  section_memory(out, r);
  section_program(out, r);
  sb_puts(out, "</main>\n");
  page_end(out);
  arena_free(a);
}
