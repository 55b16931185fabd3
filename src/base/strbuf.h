/* strbuf.h: the one text writer. The text grows in an arena and is always NUL-terminated. */
#ifndef WV_STRBUF_H
#define WV_STRBUF_H

#include "base/arena.h"

typedef struct StrBuf {
  Arena *arena;
  char *at; /* NULL while empty: use sb_text */
  size_t n, cap;
} StrBuf;

void sb_putc(StrBuf *out, char c);
void sb_puts(StrBuf *out, const char *s);
void sb_write(StrBuf *out, const char *s, size_t n);
void sb_int(StrBuf *out, int64_t v);
void sb_printf(StrBuf *out, const char *fmt, ...) WV_PRINTF(2, 3);
void sb_quote(StrBuf *out, const char *s); /* "text" with C escapes */
void sb_put_u64(StrBuf *out, uint64_t v);  /* eight bytes, little-endian */
uint64_t sb_get_u64(const char *at);       /* reads what sb_put_u64 wrote */
const char *sb_text(const StrBuf *out);

#endif
