/* measured.h: kernels measured against others, as one HTML page. */
#ifndef WV_MEASURED_H
#define WV_MEASURED_H

#include "base/strbuf.h"
#include "wave.h"

void measured_html(StrBuf *out, const wv_measurements *m);

/* ---- parts of the page: measured_plots.c, measured_source.c ---- */

const wv_rival *measured_rival(const wv_measured *row, const char *name); /* NULL: none */
/* Whether no row before row `i` has the same target. */
bool measured_first_of_target(const wv_measurements *m, int i);
/* The names of all rivals, in alphabetical order. */
enum { MOST_RIVALS = 4 };
int measured_rivals(const wv_measurements *m, const char *names[MOST_RIVALS]);
/* "gemm", or "gemm on cuda" if there is more than one target. */
const char *measured_name(Arena *a, const wv_measurements *m, const wv_measured *row);

void measured_plots(StrBuf *out, const wv_measurements *m);
void measured_sources(StrBuf *out, const wv_measurements *m);

#endif
