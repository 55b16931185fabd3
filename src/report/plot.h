/* plot.h: plots as SVG inside a page: groups of bars, marks along a logarithmic axis, points under
 * roofs. Series i has the colour of class s<i>, which follows the page's theme. */
#ifndef WV_PLOT_H
#define WV_PLOT_H

#include "base/strbuf.h"

enum { PLOT_SERIES = 6, PLOT_PARTS = 2 };

void plot_legend(StrBuf *out, const char *const *series, int n);

/* ---- bars: whether shorter is better depends; the label after a bar says ---- */

typedef struct PlotBar {
  const char *name, *label; /* before and after the bar */
  double parts[PLOT_PARTS]; /* stacked end to end; not finite, or not above 0: none */
  int series[PLOT_PARTS];
} PlotBar;

typedef struct PlotGroup {
  const char *name; /* above its bars; NULL: none */
  const PlotBar *bars;
  int n;
} PlotGroup;

/* `own_scale`: the longest bar of each group spans the plot; otherwise only the longest of all
 * does. */
void plot_bars(StrBuf *out, const char *title, const PlotGroup *groups, int n, bool own_scale);

/* ---- marks along a logarithmic axis ---- */

typedef struct PlotMark {
  const char *name, *tip; /* before its row; shown on hover */
  double at;              /* 0 or less: left of the axis, at `0` */
  double limit;           /* a line that the mark should stay left of; 0: none */
  int series;
} PlotMark;

void plot_marks(StrBuf *out, const char *title, const PlotMark *marks, int n);

/* ---- points under roofs: work per byte, and work per second ---- */

typedef struct PlotPoint {
  const char *name, *tip;
  double x, y;
  int series;
} PlotPoint;

/* `slope`: bytes per second, `top`: operations per second; both in units of y. */
void plot_roofs(StrBuf *out, const char *title, double slope, double top, const PlotPoint *points,
                int n);

#endif
