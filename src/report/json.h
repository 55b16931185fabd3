/* json.h: writes JSON. Commas and nesting are tracked here; text may contain any bytes. */
#ifndef WV_JSON_H
#define WV_JSON_H

#include "base/strbuf.h"

enum { JSON_DEPTH = 16 };

typedef struct Json {
  StrBuf *out;
  int depth;
  bool filled[JSON_DEPTH]; /* the list or object already has an entry */
} Json;

/* `key` is the name of a member; NULL inside a list and at the top level. */
void json_open(Json *j, const char *key, char bracket);     /* '{' or '[' */
void json_close(Json *j, char bracket);                     /* '}' or ']' */
void json_text(Json *j, const char *key, const char *text); /* NULL: null */
void json_text_n(Json *j, const char *key, const char *text, size_t n);
void json_int(Json *j, const char *key, int64_t v);
void json_uint(Json *j, const char *key, uint64_t v);
void json_tenths(Json *j, const char *key, double v); /* one digit after the point */
void json_bool(Json *j, const char *key, bool v);
void json_null(Json *j, const char *key);
void json_ints(Json *j, const char *key, const int64_t *at, int n);

/* The length of the UTF-8 character at the start of the n bytes at `s`; 0: there is none. */
size_t json_utf8_length(const char *s, size_t n);

#endif
