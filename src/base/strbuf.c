/* strbuf.c: growth and formatting of StrBuf. */
#include "base/strbuf.h"

#include <stdio.h>
#include <string.h>

static void reserve(StrBuf *out, size_t more) {
  if (out->n + more + 1 <= out->cap) return;
  size_t cap = out->cap ? out->cap * 2 : 128;
  while (cap < out->n + more + 1) cap *= 2;
  char *bigger = arena_alloc(out->arena, cap);
  if (out->n) memcpy(bigger, out->at, out->n);
  out->at = bigger;
  out->cap = cap;
}

void sb_write(StrBuf *out, const char *s, size_t n) {
  if (!n) return;
  reserve(out, n);
  memcpy(out->at + out->n, s, n);
  out->n += n;
  out->at[out->n] = 0;
}

void sb_putc(StrBuf *out, char c) { sb_write(out, &c, 1); }
void sb_puts(StrBuf *out, const char *s) { sb_write(out, s, strlen(s)); }

void sb_int(StrBuf *out, int64_t v) {
  char digits[24];
  char *p = digits + sizeof digits;
  uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  do *--p = (char)('0' + u % 10);
  while (u /= 10);
  if (v < 0) *--p = '-';
  sb_write(out, p, (size_t)(digits + sizeof digits - p));
}

void sb_printf(StrBuf *out, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  size_t room = out->cap - out->n; /* most texts fit, and are formatted once */
  int n = vsnprintf(room ? out->at + out->n : NULL, room, fmt, ap);
  WV_ASSERT(n >= 0);
  if ((size_t)n >= room) {
    if (room) out->at[out->n] = 0;
    reserve(out, (size_t)n);
    vsnprintf(out->at + out->n, (size_t)n + 1, fmt, again);
  }
  out->n += (size_t)n;
  va_end(again);
  va_end(ap);
}

void sb_quote(StrBuf *out, const char *s) {
  sb_putc(out, '"');
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') sb_putc(out, '\\');
    if (*s == '\n') sb_puts(out, "\\n");
    else sb_putc(out, *s);
  }
  sb_putc(out, '"');
}

void sb_put_u64(StrBuf *out, uint64_t v) {
  for (int i = 0; i < 8; i++) sb_putc(out, (char)(v >> 8 * i));
}

uint64_t sb_get_u64(const char *at) {
  uint64_t v = 0;
  for (int i = 0; i < 8; i++) v |= (uint64_t)(unsigned char)at[i] << 8 * i;
  return v;
}

const char *sb_text(const StrBuf *out) { return out->at ? out->at : ""; }
