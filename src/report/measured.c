/* measured.c: the page of measurements: verdict, figures, the table; then plots and sources. */
#include "report/measured.h"

#include <math.h>
#include <string.h>

#include "report/page.h"

/* ---- what follows from the numbers ---- */

static bool measured_right(const wv_measured *row) { return row->error <= row->allowed; }

/* The rival's time divided by the kernel's; 0: unknown. */
static double measured_ratio(const wv_measured *row, const wv_rival *rival) {
  return rival && rival->ms > 0 && row->run_ms > 0 ? rival->ms / row->run_ms : 0;
}

const wv_rival *measured_rival(const wv_measured *row, const char *name) {
  for (int i = 0; i < row->nrivals; i++)
    if (strcmp(row->rivals[i].name, name) == 0) return &row->rivals[i];
  return NULL;
}

int measured_rivals(const wv_measurements *m, const char *names[MOST_RIVALS]) {
  int n = 0;
  for (int r = 0; r < m->n; r++)
    for (int i = 0; i < m->rows[r].nrivals; i++) {
      const char *name = m->rows[r].rivals[i].name;
      int at = 0;
      while (at < n && strcmp(names[at], name) < 0) at++;
      if ((at < n && strcmp(names[at], name) == 0) || n == MOST_RIVALS) continue;
      memmove(names + at + 1, names + at, sizeof *names * (size_t)(n++ - at));
      names[at] = name;
    }
  return n;
}

bool measured_first_of_target(const wv_measurements *m, int i) {
  int first = 0;
  while (strcmp(m->rows[first].target, m->rows[i].target) != 0) first++;
  return first == i;
}

static bool one_target(const wv_measurements *m) {
  for (int i = 1; i < m->n; i++)
    if (strcmp(m->rows[i].target, m->rows[0].target) != 0) return false;
  return true;
}

const char *measured_name(Arena *a, const wv_measurements *m, const wv_measured *row) {
  return one_target(m) ? row->kernel : arena_printf(a, "%s, %s", row->kernel, row->target);
}

/* ---- figures ---- */

/* The geometric mean of the ratio of `name`'s time to ours; 0: it was never measured. */
static double mean_ratio(const wv_measurements *m, const char *target, const char *name, int *of) {
  double sum = 0;
  *of = 0;
  for (int i = 0; i < m->n; i++) {
    if (strcmp(m->rows[i].target, target) != 0) continue;
    double ratio = measured_ratio(&m->rows[i], measured_rival(&m->rows[i], name));
    if (ratio > 0) sum += log(ratio), ++*of;
  }
  return *of ? exp(sum / *of) : 0;
}

static void put_verdict(StrBuf *out, const wv_measurements *m) {
  int wrong = 0;
  for (int i = 0; i < m->n; i++) wrong += !measured_right(&m->rows[i]);
  if (wrong)
    sb_printf(out, "<p class=\"verdict bad\">✗ %d of %d results are wrong</p>\n", wrong, m->n);
  else
    sb_printf(out,
              "<p class=\"verdict good\">✓ all %d results agree with what NumPy computes in "
              "float64</p>\n",
              m->n);
}

static void put_ratios(StrBuf *out, const wv_measurements *m, const char *target, Arena *a) {
  const char *names[MOST_RIVALS], *where = one_target(m) ? "" : arena_printf(a, " on %s", target);
  int n = measured_rivals(m, names);
  for (int i = 0, of; i < n; i++) {
    double ratio = mean_ratio(m, target, names[i], &of);
    if (of)
      page_figure(out, arena_printf(a, "against %s%s", names[i], where),
                  arena_printf(a, "as fast, geometric mean of %d kernels", of),
                  arena_printf(a, "%.2f\xc3\x97", ratio), -1);
  }
}

static void put_figures(StrBuf *out, const wv_measurements *m, Arena *a) {
  double slowest = 0, sum = 0;
  for (int i = 0; i < m->n; i++) {
    double ms = m->rows[i].compile_ms + m->rows[i].code_ms;
    slowest = fmax(slowest, ms);
    sum += ms;
  }
  sb_puts(out, "<dl class=\"figures\">\n");
  for (int i = 0; i < m->n; i++)
    if (measured_first_of_target(m, i)) put_ratios(out, m, m->rows[i].target, a);
  page_figure(out, "to compile a kernel", "on average, LLVM or the driver included",
              page_time_text(a, m->n ? sum / m->n : 0), -1);
  page_figure(out, "the longest compile", "from the traced kernel to loaded code",
              page_time_text(a, slowest), -1);
  sb_puts(out, "</dl>\n");
}

/* ---- the table ---- */

static void put_cell(StrBuf *out, const char *class, const char *text) {
  sb_printf(out, "<td%s>", class);
  page_put(out, "%s</td>", text);
}

static const char *rate_text(Arena *a, const wv_measured *row) {
  double s = row->run_ms / 1e3;
  if (!(s > 0)) return "";
  if (row->operations > 4 * row->bytes)
    return arena_printf(a, "%.*f Gop/s", row->operations / s < 1e11 ? 1 : 0,
                        row->operations / s / 1e9);
  return row->bytes > 0 ? arena_printf(a, "%.1f GB/s", row->bytes / s / 1e9) : "";
}

static const char *ratio_text(Arena *a, double ratio) {
  return ratio > 0 ? arena_printf(a, "%.*f\xc3\x97", ratio < 10 ? 2 : 1, ratio) : "–";
}

static void put_row(StrBuf *out, const wv_measured *row, const char *const *names, int n,
                    Arena *a) {
  page_put(out, "<tr><th scope=\"row\"><a href=\"#kernel-%s\">%s</a></th>", row->kernel,
           row->kernel);
  put_cell(out, " class=\"word\"", row->target);
  put_cell(out, " class=\"word\"", row->arguments ? row->arguments : "");
  put_cell(out, "", page_time_text(a, row->compile_ms + row->code_ms));
  put_cell(out, " class=\"run\"", page_time_text(a, row->run_ms));
  put_cell(out, "", rate_text(a, row));
  for (int i = 0; i < n; i++) {
    const wv_rival *rival = measured_rival(row, names[i]);
    double ratio = measured_ratio(row, rival);
    put_cell(out, "", page_time_text(a, rival ? rival->ms : 0));
    put_cell(out, ratio >= 1 ? " class=\"good\"" : "", ratio_text(a, ratio));
  }
  put_cell(out, "", arena_printf(a, "%.1e", row->error));
  bool right = measured_right(row);
  put_cell(out, right ? " class=\"good\"" : " class=\"bad\"", right ? "✓" : "✗ wrong");
  sb_puts(out, "</tr>\n");
}

static void put_table(StrBuf *out, const wv_measurements *m, Arena *a) {
  const char *names[MOST_RIVALS];
  int n = measured_rivals(m, names);
  page_section(out, "results", "Results");
  sb_puts(out, "<div class=\"scroll\"><table class=\"lines results\">\n<thead><tr><th></th>"
               "<th class=\"word\">target</th><th class=\"word\">arguments</th><th>compile</th>"
               "<th>run</th><th>rate</th>");
  for (int i = 0; i < n; i++) {
    page_put(out, "<th>%s</th><th>ratio</th>", names[i]);
  }
  sb_puts(out, "<th>error</th><th></th></tr></thead>\n<tbody>\n");
  for (int i = 0; i < m->n; i++) put_row(out, &m->rows[i], names, n, a);
  sb_puts(out, "</tbody></table></div>\n<p class=\"cap\">run: the fastest of many calls, taken in "
               "turns with the others; ratio: their time divided by Wave's; error: the largest "
               "difference from the result in float64.</p>\n");
  page_section_end(out);
}

void measured_html(StrBuf *out, const wv_measurements *m) {
  Arena *a = arena_new();
  page_begin(out, m->title);
  page_put(out, "<header>\n<h1>%s</h1>\n", m->title);
  put_verdict(out, m);
  for (int i = 0; i < m->nmachine; i++) {
    page_put(out, "<p class=\"place\">%s</p>\n", m->machine[i]);
  }
  put_figures(out, m, a);
  sb_puts(out, "<nav aria-label=\"contents\"><a href=\"#results\">results</a> <a href=\"#time\">"
               "time</a> <a href=\"#error\">error</a> <a href=\"#compile\">compile time</a> "
               "<a href=\"#roofs\">roofs</a> <a href=\"#kernels\">kernels</a></nav>\n"
               "</header>\n<main>\n");
  put_table(out, m, a);
  measured_plots(out, m);
  measured_sources(out, m);
  sb_puts(out, "</main>\n");
  page_end(out);
  arena_free(a);
}
