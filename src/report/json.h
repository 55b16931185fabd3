/* json.h: writing JSON. Commas and nesting are kept here; text may hold any bytes. */
#ifndef WV_JSON_H
#define WV_JSON_H

#include "base/strbuf.h"

enum { JSON_DEPTH = 16 };

typedef struct Json {
  StrBuf *out;
  int depth;
  bool filled[JSON_DEPTH]; /* something stands in the list or object already */
} Json;

/* `key` is the name of a member; NULL inside of a list, and for the whole. */
void json_open(Json *j, const char *key, char bracket);     /* '{' or '[' */
void json_close(Json *j, char bracket);                     /* '}' or ']' */
void json_text(Json *j, const char *key, const char *text); /* NULL: null */
void json_text_n(Json *j, const char *key, const char *text, size_t n);
void json_int(Json *j, const char *key, int64_t v);
void json_uint(Json *j, const char *key, uint64_t v);
void json_bool(Json *j, const char *key, bool v);
void json_null(Json *j, const char *key);
void json_ints(Json *j, const char *key, const int64_t *at, int n);

/* How many of the n bytes at `s` are one character of UTF-8; 0: they are not. */
size_t utf8_length(const char *s, size_t n);

#endif
