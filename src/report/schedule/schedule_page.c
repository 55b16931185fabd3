/* schedule_page.c: pictures of all loops of a kernel, as a page and as part of one. */
#include "report/page.h"
#include "report/schedule/schedule_picture.h"

static void put_loop(StrBuf *out, const ScheduleView *s, const LoopView *l) {
  Arena *a = arena_new();
  if (l->why_not) {
    page_put(out, "<p>Loop <b>%s</b>: no prediction, since %s.</p>\n", l->name, l->why_not);
  } else {
    Drawing d = schedule_drawing(a, s, l);
    sb_puts(out, "<figure class=\"scroll\">\n");
    drawing_svg(out, &d, false);
    sb_puts(out, "</figure>\n");
  }
  arena_free(a);
}

void schedule_fragment(StrBuf *out, const ScheduleView *s) {
  for (int i = 0; i < s->loops.n; i++) put_loop(out, s, &s->loops.at[i]);
  if (!s->loops.n) page_put(out, "<p>%s has no loop.</p>\n", s->kernel);
  page_put(out, "<details><summary>as rows</summary><pre>%s</pre></details>\n", s->rows);
}

/* Explains a missing picture. */
static Drawing empty_drawing(Arena *a, const ScheduleView *s) {
  Drawing d = {.arena = a, .width = 640, .height = 40};
  d.title = arena_printf(a, "%s on %s has no loop with a prediction", s->kernel, s->target);
  drawing_box(&d, "back", 0.5, 0.5, d.width - 1, d.height - 1, NULL, NULL);
  drawing_text(&d, "text", 14, 24, d.title);
  return d;
}

void schedule_svg(StrBuf *out, const ScheduleView *s) {
  Arena *a = arena_new();
  int i = 0;
  while (i < s->loops.n && s->loops.at[i].why_not) i++;
  Drawing d = i < s->loops.n ? schedule_drawing(a, s, &s->loops.at[i]) : empty_drawing(a, s);
  drawing_svg(out, &d, true);
  arena_free(a);
}

/* ---- the page ---- */

static void put_number(StrBuf *out, int64_t n) { sb_printf(out, "<td>%lld</td>", (long long)n); }

static void put_box(StrBuf *out, const LoopView *l, const ViewBox *b, Arena *a) {
  const ViewLane *lane = &l->lanes.at[b->lane];
  page_put(out, "<tr><th scope=\"row\">%s</th><td class=\"word\">%s</td><td class=\"word\">%s</td>",
           b->name, schedule_iteration_text(a, b->ahead), lane->name);
  put_number(out, b->start);
  put_number(out, b->cycles);
  put_number(out, b->ends);
  page_put(out, "<td class=\"word\">%s</td></tr>\n", b->place);
}

static void put_table(StrBuf *out, const LoopView *l) {
  Arena *a = arena_new();
  sb_puts(out, "<details><summary>all numbers</summary><div class=\"scroll\">"
               "<table class=\"lines\">\n<thead><tr><th>op</th><th>iteration</th><th>lane</th>"
               "<th>starts</th><th>cycles</th><th>result</th><th></th></tr></thead>\n<tbody>\n");
  for (int i = 0; i < l->boxes.n; i++)
    if (l->boxes.at[i].kind != VIEW_WAITS) put_box(out, l, &l->boxes.at[i], a);
  sb_puts(out, "</tbody></table></div></details>\n");
  arena_free(a);
}

void schedule_html(StrBuf *out, const ScheduleView *s) {
  Arena *a = arena_new();
  page_begin(out, arena_printf(a, "Schedule of %s on %s", s->kernel, s->target));
  page_put(out, "<header>\n<h1>%s</h1>\n<p>How its loops are pipelined on <b>%s</b>, %s.</p>\n",
           s->kernel, s->target, s->doc);
  sb_puts(out, "</header>\n<main>\n");
  for (int i = 0; i < s->loops.n; i++) {
    const LoopView *l = &s->loops.at[i];
    page_section(out, arena_printf(a, "loop%d", i), arena_printf(a, "Loop %s", l->name));
    put_loop(out, s, l);
    if (!l->why_not) put_table(out, l);
    page_section_end(out);
  }
  if (!s->loops.n) sb_puts(out, "<p>It has no loop.</p>\n");
  page_section(out, "rows", "Rows");
  page_put(out, "<pre class=\"program\">%s</pre>\n", s->rows);
  page_section_end(out);
  sb_puts(out, "</main>\n");
  page_end(out);
  arena_free(a);
}
