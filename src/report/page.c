/* page.c: see page.h. */
#include "report/page.h"

#include <math.h>
#include <string.h>

#include "report/json.h"

static const char *entity(char c) {
  switch (c) {
  case '&': return "&amp;";
  case '<': return "&lt;";
  case '>': return "&gt;";
  case '"': return "&quot;";
  case '\'': return "&#39;";
  default: return (unsigned char)c < 0x20 && c != '\n' && c != '\t' ? "&#xfffd;" : NULL;
  }
}

void page_text_n(StrBuf *out, const char *s, size_t n) {
  for (size_t i = 0, len; i < n; i += len) {
    len = json_utf8_length(s + i, n - i);
    const char *instead = len ? entity(s[i]) : "&#xfffd;";
    if (!len) len = 1;
    if (instead) sb_puts(out, instead);
    else sb_write(out, s + i, len);
  }
}

void page_text(StrBuf *out, const char *s) { page_text_n(out, s, strlen(s)); }

void page_put(StrBuf *out, const char *form, ...) {
  va_list ap;
  va_start(ap, form);
  for (const char *at; (at = strchr(form, '%')); form = at + 2) {
    WV_ASSERT(at[1] == 's');
    sb_write(out, form, (size_t)(at - form));
    page_text(out, va_arg(ap, const char *));
  }
  va_end(ap);
  sb_puts(out, form);
}

void page_number(StrBuf *out, uint64_t v) {
  char digits[32];
  int n = 0;
  do digits[n++] = (char)('0' + v % 10);
  while (v /= 10);
  while (n--) {
    sb_putc(out, digits[n]);
    if (n && n % 3 == 0) sb_puts(out, "\xe2\x80\xaf"); /* narrow no-break space */
  }
}

const char *page_number_text(Arena *a, uint64_t v) {
  StrBuf text = {.arena = a};
  page_number(&text, v);
  return sb_text(&text);
}

const char *page_time_text(Arena *a, double ms) {
  if (!(ms > 0) || !isfinite(ms)) return "\xe2\x80\x93";
  double n = ms >= 1000 ? ms / 1000 : ms >= 1 ? ms : ms * 1000;
  const char *unit = ms >= 1000 ? "s" : ms >= 1 ? "ms" : "\xc2\xb5s";
  return arena_printf(a, "%.*f\xe2\x80\xaf%s", n < 10 ? 2 : n < 100 ? 1 : 0, n, unit);
}

int page_hue(int i, int n) { return n > 1 ? (int)(300.0 * i / n) : 210; }

void page_begin(StrBuf *out, const char *title) {
  sb_puts(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
               "<meta name=\"viewport\" content=\"width=device-width\">\n"
               "<meta name=\"color-scheme\" content=\"light dark\">\n"
               "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
               "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n");
  page_put(out, "<title>%s</title>\n", title);
  sb_printf(out, "<style>\n%s</style>\n</head>\n<body>\n", page_style);
  sb_puts(out, "<button id=\"theme\" type=\"button\" title=\"light or dark\">"
               "<span aria-hidden=\"true\">\xe2\x97\x90</span> theme</button>\n");
}

void page_end(StrBuf *out) {
  sb_printf(out,
            "<div id=\"tip\" role=\"status\" hidden></div>\n<script>\n%s</script>\n"
            "</body>\n</html>\n",
            page_script);
}

void page_section(StrBuf *out, const char *id, const char *title) {
  page_put(out, "<section id=\"%s\" aria-labelledby=\"%s-title\">\n<h2 id=\"%s-title\">%s</h2>\n",
           id, id, id, title);
}

void page_section_end(StrBuf *out) { sb_puts(out, "</section>\n"); }

void page_figure(StrBuf *out, const char *name, const char *what, const char *number,
                 double share) {
  page_put(out, "<div class=\"figure\"><dt>%s</dt><dd><b>%s</b> <span>%s</span>", name, number,
           what);
  if (share >= 0)
    sb_printf(out, "<i class=\"bar\"><i style=\"width:%.1f%%\"></i></i>",
              100 * (share > 1 ? 1 : share));
  sb_puts(out, "</dd></div>\n");
}
