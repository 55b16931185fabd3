/* plot.c: see plot.h. Coordinates are pixels of a view that scales to the width of the page. */
#include "report/plot.h"

#include <math.h>

#include "report/page.h"

enum { WIDTH = 760, LABEL = 150, BAR = 18, ROW = 24, HEADING = 26, BEHIND = 170, AXIS = 30 };

static void open_svg(StrBuf *out, const char *title, double height) {
  sb_printf(out, "<svg class=\"plot\" role=\"img\" viewBox=\"0 0 %d %.0f\"><title>", WIDTH, height);
  page_put(out, "%s</title>\n", title);
}

static void close_svg(StrBuf *out) { sb_puts(out, "</svg>\n"); }

static void put_label(StrBuf *out, double x, double y, const char *class, const char *text) {
  sb_printf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
  page_put(out, "%s</text>\n", text);
}

static void put_tip(StrBuf *out, const char *tip) { page_put(out, "<title>%s</title>", tip); }

void plot_legend(StrBuf *out, const char *const *series, int n) {
  sb_puts(out, "<p class=\"legend\">");
  for (int i = 0; i < n; i++) {
    sb_printf(out, "<span><i class=\"s%d\"></i>", i % PLOT_SERIES);
    page_put(out, "%s</span> ", series[i]);
  }
  sb_puts(out, "</p>\n");
}

/* ---- bars ---- */

static double part_of(const PlotBar *b, int i) {
  return isfinite(b->parts[i]) && b->parts[i] > 0 ? b->parts[i] : 0;
}

static double length_of(const PlotBar *b) {
  double sum = 0;
  for (int i = 0; i < PLOT_PARTS; i++) sum += part_of(b, i);
  return sum;
}

static double longest(const PlotGroup *groups, int n) {
  double most = 0;
  for (int g = 0; g < n; g++)
    for (int i = 0; i < groups[g].n; i++) most = fmax(most, length_of(&groups[g].bars[i]));
  return most > 0 ? most : 1;
}

static void put_bar(StrBuf *out, const PlotBar *b, double y, double scale) {
  double x = LABEL;
  put_label(out, LABEL - 10, y + BAR - 5, "end", b->name);
  for (int i = 0; i < PLOT_PARTS; i++) {
    double width = part_of(b, i) * scale;
    if (!(width > 0)) continue;
    width = fmax(width, 1.5); /* never invisibly thin */
    sb_printf(out,
              "<rect class=\"s%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" "
              "rx=\"2\"/>\n",
              b->series[i] % PLOT_SERIES, x, y, width, BAR);
    x += width;
  }
  put_label(out, x + 8, y + BAR - 5, "start", b->label);
}

void plot_bars(StrBuf *out, const char *title, const PlotGroup *groups, int n, bool own_scale) {
  double height = 6, most = longest(groups, n);
  for (int g = 0; g < n; g++) height += (groups[g].name ? HEADING : 0) + ROW * groups[g].n + 6;
  open_svg(out, title, height);
  double y = 0;
  for (int g = 0; g < n; g++) {
    double scale = (WIDTH - LABEL - BEHIND) / (own_scale ? longest(&groups[g], 1) : most);
    if (groups[g].name) put_label(out, 0, y + BAR, "heading", groups[g].name), y += HEADING;
    for (int i = 0; i < groups[g].n; i++, y += ROW) put_bar(out, &groups[g].bars[i], y, scale);
    y += 6;
  }
  close_svg(out);
}

/* ---- logarithmic axes ---- */

typedef struct Decades {
  int first, last;
  double from, to; /* pixels */
} Decades;

static void include(Decades *d, double v) {
  if (!(v > 0) || !isfinite(v)) return;
  int below = (int)floor(log10(v)), above = (int)ceil(log10(v));
  if (d->first > d->last) d->first = below, d->last = above;
  d->first = below < d->first ? below : d->first;
  d->last = above > d->last ? above : d->last;
}

static double pixel(const Decades *d, double v) {
  double at = v > 0 && isfinite(v) ? (log10(v) - d->first) / (d->last - d->first) : 0;
  return d->from + (d->to - d->from) * (at < 0 ? 0 : at > 1 ? 1 : at);
}

/* 10⁻³ */
static void put_power(StrBuf *out, int exponent) {
  static const char *const digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  sb_puts(out, exponent ? "10" : "1");
  if (exponent == 0 || exponent == 1) return;
  if (exponent < 0) sb_puts(out, "⁻");
  int n = exponent < 0 ? -exponent : exponent;
  if (n >= 100) sb_puts(out, digits[n / 100 % 10]);
  if (n >= 10) sb_puts(out, digits[n / 10 % 10]);
  sb_puts(out, digits[n % 10]);
}

/* Labels at most about eight of them. */
static int step_of(const Decades *d) { return (d->last - d->first + 7) / 8; }

static void put_columns(StrBuf *out, const Decades *d, double top, double bottom) {
  for (int e = d->first; e <= d->last; e++) {
    double x = pixel(d, pow(10, e));
    sb_printf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", x, top, bottom);
    if ((e - d->first) % step_of(d)) continue;
    sb_printf(out, "<text class=\"tick mid\" x=\"%.1f\" y=\"%.1f\">", x, bottom + 16);
    put_power(out, e);
    sb_puts(out, "</text>\n");
  }
}

/* ---- marks ---- */

static bool is_zero(const PlotMark *m) { return !(m->at > 0) && !isnan(m->at); }

static void put_mark(StrBuf *out, const Decades *d, const PlotMark *m, double y, double zero) {
  double x = is_zero(m) ? zero : isfinite(m->at) ? pixel(d, m->at) : d->to;
  put_label(out, LABEL - 10, y + 5, "end", m->name);
  sb_printf(out, "<path class=\"row\" d=\"M%d %.1fH%.1f\"/>", LABEL, y, d->to);
  if (m->limit > 0)
    sb_printf(out, "<path class=\"limit\" d=\"M%.1f %.1fv14\"><title>allowed: %.1e</title></path>",
              pixel(d, m->limit), y - 7, m->limit);
  bool bad = isnan(m->at) || m->at > m->limit;
  sb_printf(out, "<circle class=\"%s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\">", bad ? "wrong s" : "s",
            m->series % PLOT_SERIES, x, y);
  put_tip(out, m->tip);
  sb_puts(out, "</circle>\n");
}

void plot_marks(StrBuf *out, const char *title, const PlotMark *marks, int n) {
  enum { ZERO = 40 };
  Decades d = {1, 0, LABEL + 20, WIDTH - 20};
  bool zeros = false;
  for (int i = 0; i < n; i++) {
    zeros |= is_zero(&marks[i]);
    include(&d, marks[i].at);
    include(&d, marks[i].limit);
  }
  if (d.first > d.last) d.first = -1, d.last = 0;
  if (d.first == d.last) d.first--;
  if (zeros) d.from += ZERO;
  double bottom = ROW * n + 6, zero = d.from - ZERO;
  open_svg(out, title, bottom + AXIS);
  put_columns(out, &d, 0, bottom);
  if (zeros) put_label(out, zero, bottom + 16, "tick mid", "0");
  for (int i = 0; i < n; i++) put_mark(out, &d, &marks[i], ROW * (i + 0.5) + 4, zero);
  close_svg(out);
}

/* ---- points under roofs ---- */

static void put_rows(StrBuf *out, const Decades *d, double left, double right) {
  for (int e = d->first; e <= d->last; e++) {
    double y = pixel(d, pow(10, e));
    sb_printf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", left, y, right);
    sb_printf(out, "<text class=\"tick end\" x=\"%.1f\" y=\"%.1f\">", left - 8, y + 4);
    put_power(out, e);
    sb_puts(out, "</text>\n");
  }
}

/* The slope up to the top, then the top; their heights. */
static void put_roof(StrBuf *out, const Decades *x, const Decades *y, double slope, double top) {
  double left = pow(10, x->first), knee = top / slope;
  sb_printf(out, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1fH%.1f\"/>\n", x->from,
            pixel(y, slope * left), pixel(x, knee), pixel(y, top), x->to);
  sb_printf(out, "<text class=\"tick end\" x=\"%.1f\" y=\"%.1f\">%.3g Gop/s</text>\n", x->to - 6,
            pixel(y, top) - 7, top);
  double low = pixel(x, sqrt(left * knee));
  sb_printf(out, "<text class=\"tick start\" x=\"%.1f\" y=\"%.1f\">%.3g GB/s</text>\n", low + 8,
            pixel(y, slope * sqrt(left * knee)) + 12, slope);
}

/* The row in which the label of the last of `n` points fits: below the labels of earlier nearby
 * points. */
static double label_row(const PlotPoint *points, int n, const Decades *x, const Decades *y,
                        const double *rows) {
  enum { LINE = 14, NEAR = 110 };
  double at = pixel(x, points[n - 1].x), row = pixel(y, points[n - 1].y) + 4;
  for (int j = 0; j < n - 1; j++) {
    if (fabs(pixel(x, points[j].x) - at) >= NEAR || fabs(rows[j] - row) >= LINE) continue;
    row = rows[j] + LINE;
    j = -1; /* it may now overlap another */
  }
  return row;
}

void plot_roofs(StrBuf *out, const char *title, double slope, double top, const PlotPoint *points,
                int n) {
  enum { HEIGHT = 330, LEFT = 60 };
  Decades x = {1, 0, LEFT, WIDTH - 20}, y = {1, 0, HEIGHT - AXIS - 18, 10};
  include(&x, top / slope);
  include(&y, top);
  for (int i = 0; i < n; i++) include(&x, points[i].x), include(&y, points[i].y);
  if (x.first == x.last) x.last++;
  if (y.first == y.last) y.first--;
  double *rows = ARENA_ARRAY(out->arena, double, n);
  open_svg(out, title, HEIGHT);
  put_columns(out, &x, y.to, y.from);
  put_rows(out, &y, x.from, x.to);
  put_roof(out, &x, &y, slope, top);
  for (int i = 0; i < n; i++) {
    const PlotPoint *p = &points[i];
    double px = pixel(&x, p->x), py = pixel(&y, p->y);
    bool left = px > WIDTH - 160;
    sb_printf(out, "<circle class=\"s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\">",
              p->series % PLOT_SERIES, px, py);
    put_tip(out, p->tip);
    sb_puts(out, "</circle>\n");
    rows[i] = label_row(points, i + 1, &x, &y, rows);
    put_label(out, px + (left ? -11 : 11), rows[i], left ? "end" : "start", p->name);
  }
  put_label(out, x.to, HEIGHT - 4, "tick end", "operations per byte of the arguments");
  put_label(out, x.from + 6, y.to + 12, "tick start", "Gop/s");
  close_svg(out);
}
