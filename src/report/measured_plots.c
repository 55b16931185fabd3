/* measured_plots.c: the plots of the page of measurements. */
#include <math.h>
#include <string.h>

#include "report/measured.h"
#include "report/page.h"
#include "report/plot.h"

/* ---- times compared with others ---- */

static PlotBar time_bar(Arena *a, const char *name, double ms, double of, int series) {
  const char *time = page_time_text(a, ms);
  bool other = series && of > 0;
  return (PlotBar){.name = name,
                   .label = other ? arena_printf(a, "%s · %.2f×", time, ms / of) : time,
                   .parts = {ms},
                   .series = {series}};
}

static void put_times(StrBuf *out, const wv_measurements *m, Arena *a) {
  const char *names[MOST_RIVALS + 1] = {"Wave"};
  int n = measured_rivals(m, names + 1);
  PlotGroup *groups = ARENA_ARRAY(a, PlotGroup, m->n);
  for (int r = 0; r < m->n; r++) {
    const wv_measured *row = &m->rows[r];
    PlotBar *bars = ARENA_ARRAY(a, PlotBar, n + 1);
    groups[r] = (PlotGroup){measured_name(a, m, row), bars, 0};
    bars[groups[r].n++] = time_bar(a, "Wave", row->run_ms, row->run_ms, 0);
    for (int i = 0; i < n; i++) {
      const wv_rival *rival = measured_rival(row, names[i + 1]);
      if (rival) bars[groups[r].n++] = time_bar(a, rival->name, rival->ms, row->run_ms, i + 1);
    }
  }
  page_section(out, "time", "Time");
  plot_legend(out, names, n + 1);
  plot_bars(out, "time of one call, by kernel", groups, m->n, true);
  sb_puts(out, "<p class=\"cap\">One call; shorter is better. Each kernel has a scale of its own; "
               "the numbers after the other bars say how many times as long they take.</p>\n");
  page_section_end(out);
}

/* ---- errors ---- */

static void put_errors(StrBuf *out, const wv_measurements *m, Arena *a) {
  PlotMark *marks = ARENA_ARRAY(a, PlotMark, m->n);
  for (int i = 0; i < m->n; i++) {
    const wv_measured *row = &m->rows[i];
    marks[i] = (PlotMark){.name = measured_name(a, m, row),
                          .tip = arena_printf(a, "%s: %.2e", row->kernel, row->error),
                          .at = row->error,
                          .limit = row->allowed};
  }
  page_section(out, "error", "Error");
  plot_marks(out, "largest error, by kernel", marks, m->n);
  sb_puts(out, "<p class=\"cap\">The largest absolute distance of an element from the result in "
               "float64, and the bound it was tested against.</p>\n");
  page_section_end(out);
}

/* ---- compiling ---- */

static void put_compiles(StrBuf *out, const wv_measurements *m, Arena *a) {
  static const char *const parts[] = {"Wave: from the traced kernel to one thread's program",
                                      "LLVM, or the GPU's driver"};
  PlotBar *bars = ARENA_ARRAY(a, PlotBar, m->n);
  PlotGroup all = {NULL, bars, m->n};
  for (int i = 0; i < m->n; i++) {
    const wv_measured *row = &m->rows[i];
    bars[i] = (PlotBar){.name = measured_name(a, m, row),
                        .label = page_time_text(a, row->compile_ms + row->code_ms),
                        .parts = {row->compile_ms, row->code_ms},
                        .series = {0, 1}};
  }
  page_section(out, "compile", "Compile time");
  plot_legend(out, parts, 2);
  plot_bars(out, "compile time, by kernel", &all, 1, false);
  sb_puts(out, "<p class=\"cap\">On one core, nothing taken from the cache.</p>\n");
  page_section_end(out);
}

/* ---- roofs ---- */

typedef struct Roofs {
  double bytes, operations; /* the highest rates of any program, in units of 10⁹ per second */
} Roofs;

static void raise(Roofs *roofs, const wv_measured *row, double ms) {
  if (!(ms > 0)) return;
  roofs->bytes = fmax(roofs->bytes, row->bytes / ms / 1e6);
  roofs->operations = fmax(roofs->operations, row->operations / ms / 1e6);
}

static Roofs roofs_of(const wv_measurements *m, const char *target) {
  Roofs roofs = {0};
  for (int i = 0; i < m->n; i++) {
    const wv_measured *row = &m->rows[i];
    if (strcmp(row->target, target) != 0) continue;
    raise(&roofs, row, row->run_ms);
    for (int r = 0; r < row->nrivals; r++) raise(&roofs, row, row->rivals[r].ms);
  }
  return roofs;
}

static void put_roof(StrBuf *out, const wv_measurements *m, const char *target, Arena *a) {
  int n = 0;
  Roofs roofs = roofs_of(m, target);
  PlotPoint *points = ARENA_ARRAY(a, PlotPoint, m->n);
  for (int i = 0; i < m->n; i++) {
    const wv_measured *row = &m->rows[i];
    if (strcmp(row->target, target) != 0 || !(row->operations > 0) || !(row->bytes > 0)) continue;
    double rate = row->operations / row->run_ms / 1e6;
    points[n++] = (PlotPoint){.name = row->kernel,
                              .tip = arena_printf(a, "%s: %.1f Gop/s", row->kernel, rate),
                              .x = row->operations / row->bytes,
                              .y = rate};
  }
  if (!n || !(roofs.bytes > 0)) return;
  page_put(out, "<h3>%s</h3>\n", target);
  plot_roofs(out, "roofline: operations per second", roofs.bytes, roofs.operations, points, n);
  sb_printf(
      out,
      "<p class=\"cap\">The roofs are the highest rates that any program reached in this run, "
      "Wave or another: %.1f GB/s of arguments and %.1f Gop/s. They are measured, not from "
      "a data sheet: the machine may be able to do more.</p>\n",
      roofs.bytes, roofs.operations);
}

static void put_all_roofs(StrBuf *out, const wv_measurements *m, Arena *a) {
  page_section(out, "roofs", "Roofline of this machine");
  for (int i = 0; i < m->n; i++)
    if (measured_first_of_target(m, i)) put_roof(out, m, m->rows[i].target, a);
  page_section_end(out);
}

void measured_plots(StrBuf *out, const wv_measurements *m) {
  Arena *a = arena_new();
  put_times(out, m, a);
  put_errors(out, m, a);
  put_compiles(out, m, a);
  put_all_roofs(out, m, a);
  arena_free(a);
}
