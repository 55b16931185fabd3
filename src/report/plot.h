/* plot.h: plots as SVG inside of a page: groups of bars, marks along an axis of powers of ten,
 * points under roofs. Series i has the colour of class s<i>, which follows the page's theme. */
#ifndef WV_PLOT_H
#define WV_PLOT_H

#include "base/strbuf.h"

enum { PLOT_SERIES = 6, PLOT_PARTS = 2 };

void plot_legend(StrBuf *out, const char *const *series, int n);

/* ---- bars: shorter is better, or not; the label behind a bar says ---- */

typedef struct PlotBar {
  const char *name, *label; /* in front of it and behind it */
  double parts[PLOT_PARTS]; /* laid end to end; not finite, or not above 0: none */
  int series[PLOT_PARTS];
} PlotBar;

typedef struct PlotGroup {
  const char *name; /* above its bars; NULL: nothing */
  const PlotBar *bars;
  int n;
} PlotGroup;

/* `own_scale`: the longest bar of each group is as wide as the plot; else the longest of all. */
void plot_bars(StrBuf *out, const char *title, const PlotGroup *groups, int n, bool own_scale);

/* ---- marks along an axis of powers of ten ---- */

typedef struct PlotMark {
  const char *name, *tip; /* in front of its row; shown when it is pointed at */
  double at;              /* 0, and what is less: left of the axis, at `0` */
  double limit;           /* a line that it should stay left of; 0: none */
  int series;
} PlotMark;

void plot_marks(StrBuf *out, const char *title, const PlotMark *marks, int n);

/* ---- points under roofs: work per byte, and work per second ---- */

typedef struct PlotPoint {
  const char *name, *tip;
  double x, y;
  int series;
} PlotPoint;

/* `slope`: bytes in a second, `top`: work in a second; both in units of y. */
void plot_roofs(StrBuf *out, const char *title, double slope, double top, const PlotPoint *points,
                int n);

#endif
