/* page.h: one self-contained HTML page; it loads nothing.
 *
 * Light or dark follows the reader's system, and a button switches. Reports compose a page from
 * these parts and their own SVG; `script` and `style` are in page_assets.c. */
#ifndef WV_PAGE_H
#define WV_PAGE_H

#include "base/strbuf.h"

/* Text between tags or in attribute values; bytes that HTML does not allow become U+FFFD. */
void page_text(StrBuf *out, const char *s);
void page_text_n(StrBuf *out, const char *s, size_t n);
/* HTML in which each `%s` is replaced by such a text; there are no other conversions. */
void page_put(StrBuf *out, const char *form, ...) WV_PRINTF(2, 3);

void page_begin(StrBuf *out, const char *title);
void page_end(StrBuf *out);

/* A section with a heading, which is listed in the table of contents at the top. */
void page_section(StrBuf *out, const char *id, const char *title);
void page_section_end(StrBuf *out);

/* A number and what it counts. `share` in 0 .. 1 draws a bar below it; negative: none. */
void page_figure(StrBuf *out, const char *name, const char *what, const char *number, double share);

/* 12345678 as 12 345 678, with thin spaces. */
void page_number(StrBuf *out, uint64_t v);
const char *page_number_text(Arena *a, uint64_t v);

/* A time in suitable units: 97.4 µs, 1.62 ms, 2.5 s; an invalid time is a dash. */
const char *page_time_text(Arena *a, double ms);

/* The hue of part `i` of `n`, in degrees: neighbours are similar, the ends differ. */
int page_hue(int i, int n);

extern const char page_style[], page_script[];

#endif
