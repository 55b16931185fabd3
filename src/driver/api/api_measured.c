/* api_measured.c: the page of measurements through wave.h. */
#include <stdlib.h>
#include <string.h>

#include "driver/api/api.h"
#include "report/measured.h"

char *wv_measurements_html(const wv_measurements *m) {
  API_ASKS(NULL);
  if (!m) return NULL;
  wv_measurements titled = *m;
  if (!titled.title) titled.title = "";
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  measured_html(&out, &titled);
  char *text = malloc(out.n + 1);
  if (text) memcpy(text, sb_text(&out), out.n + 1);
  arena_free(a);
  return text;
}
