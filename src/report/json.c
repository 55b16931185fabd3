/* json.c: see json.h. */
#include "report/json.h"

#include <inttypes.h>
#include <string.h>

static void put_string(StrBuf *out, const char *s, size_t n);

static void put_key(Json *j, const char *key) {
  if (j->filled[j->depth]) sb_putc(j->out, ',');
  if (j->depth) {
    sb_printf(j->out, "\n%*s", j->depth, "");
    j->filled[j->depth] = true;
  }
  if (!key) return;
  put_string(j->out, key, strlen(key));
  sb_putc(j->out, ':');
  sb_putc(j->out, ' ');
}

void json_open(Json *j, const char *key, char bracket) {
  WV_ASSERT(j->depth + 1 < JSON_DEPTH);
  put_key(j, key);
  sb_putc(j->out, bracket);
  j->filled[++j->depth] = false;
}

void json_close(Json *j, char bracket) {
  bool filled = j->filled[j->depth--];
  if (filled) sb_printf(j->out, "\n%*s", j->depth, "");
  sb_putc(j->out, bracket);
}

size_t json_utf8_length(const char *text, size_t n) {
  const unsigned char *s = (const unsigned char *)text;
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t len = *s < 0x80 ? 1 : *s >= 0xf0 ? 4 : *s >= 0xe0 ? 3 : 2;
  if (len == 1) return 1;
  if (*s < 0xc2 || *s > 0xf4 || len > n) return 0;
  uint32_t c = *s & (0xff >> (len + 1));
  for (size_t i = 1; i < len; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0;
    c = c << 6 | (s[i] & 0x3f);
  }
  bool surrogate = c >= 0xd800 && c < 0xe000;
  return c < least[len] || c > 0x10ffff || surrogate ? 0 : len;
}

/* Bytes that are not UTF-8 become U+FFFD. Characters special to HTML are escaped too, so that JSON
 * can be embedded in a page. */
static void put_string(StrBuf *out, const char *s, size_t n) {
  sb_putc(out, '"');
  for (size_t i = 0, len; i < n; i += len) {
    unsigned char c = (unsigned char)s[i];
    len = json_utf8_length(s + i, n - i);
    if (!len) sb_puts(out, "\\ufffd"), len = 1;
    else if (c == '"' || c == '\\') sb_printf(out, "\\%c", c);
    else if (c < 0x20 || c == 0x7f || strchr("<>&", c)) sb_printf(out, "\\u%04x", c);
    else sb_write(out, s + i, len);
  }
  sb_putc(out, '"');
}

void json_text_n(Json *j, const char *key, const char *text, size_t n) {
  put_key(j, key);
  if (text) put_string(j->out, text, n);
  else sb_puts(j->out, "null");
}

void json_text(Json *j, const char *key, const char *text) {
  json_text_n(j, key, text, text ? strlen(text) : 0);
}

void json_int(Json *j, const char *key, int64_t v) {
  put_key(j, key);
  sb_int(j->out, v);
}

void json_uint(Json *j, const char *key, uint64_t v) {
  put_key(j, key);
  sb_printf(j->out, "%" PRIu64, v);
}

void json_tenths(Json *j, const char *key, double v) {
  put_key(j, key);
  sb_printf(j->out, "%.1f", v);
}

void json_bool(Json *j, const char *key, bool v) {
  put_key(j, key);
  sb_puts(j->out, v ? "true" : "false");
}

void json_null(Json *j, const char *key) {
  put_key(j, key);
  sb_puts(j->out, "null");
}

void json_ints(Json *j, const char *key, const int64_t *at, int n) {
  put_key(j, key);
  for (int i = 0; i < n; i++) sb_printf(j->out, "%s%" PRId64, i ? ", " : "[", at[i]);
  sb_puts(j->out, n ? "]" : "[]");
}
