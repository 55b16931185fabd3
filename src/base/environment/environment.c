/* environment.c: see environment.h. */
#include "base/environment/environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

const VariableInfo environment_table[VARIABLE_COUNT] = {
#define VARIABLE(reader, kind, name, text) {"WAVE_" #name, READER_##reader, KIND_##kind, text},
#include "base/environment/environment.def"
};

static const char prefix[] = "WAVE_";
enum { PREFIX = sizeof prefix - 1 };

/* ---- values ---- */

static bool parse_integer(const char *text, int64_t least, int64_t *out) {
  char *end;
  errno = 0;
  long long n = strtoll(text, &end, 10);
  if (end == text || *end || errno || n < least) return false;
  *out = n;
  return true;
}

static bool is_word(const char *text, const char *word) {
  for (; *text && *word; text++, word++)
    if ((*text >= 'A' && *text <= 'Z' ? *text - 'A' + 'a' : *text) != *word) return false;
  return !*text && !*word;
}

/* Any integer but 0 is on. */
static bool parse_switch(const char *text, int64_t *out) {
  static const char *const words[2][3] = {{"off", "no", "false"}, {"on", "yes", "true"}};
  for (int on = 0; on < 2; on++)
    for (int i = 0; i < 3; i++)
      if (is_word(text, words[on][i])) return *out = on, true;
  if (!parse_integer(text, INT64_MIN, out)) return false;
  *out = *out != 0;
  return true;
}

bool environment_parse_size(const char *text, int64_t *bytes) {
  static const char units[] = "KMG";
  char *end;
  errno = 0;
  long long n = strtoll(text, &end, 10);
  const char *unit = *end ? strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end) : NULL;
  int shift = unit ? 10 * (int)(unit - units + 1) : 0;
  if (end == text || errno || n < 0 || (*end && !unit) || (unit && end[1])) return false;
  if (n > INT64_MAX >> shift) return false;
  *bytes = (int64_t)n << shift;
  return true;
}

static bool parse(VariableKind kind, const char *text, int64_t *out) {
  switch (kind) {
  case KIND_TEXT: break;
  case KIND_SWITCH: return parse_switch(text, out);
  case KIND_COUNT: return parse_integer(text, 0, out);
  case KIND_SOME: return parse_integer(text, 1, out);
  case KIND_SIZE: return environment_parse_size(text, out);
  }
  return true;
}

const char *environment_text(Variable v) {
  const char *text = getenv(environment_table[v].name);
  return text && *text ? text : NULL;
}

int64_t environment_number(Variable v, int64_t otherwise) {
  const char *text = environment_text(v);
  int64_t n = otherwise;
  return text && parse(environment_table[v].kind, text, &n) ? n : otherwise;
}

bool environment_is_valid(Variable v) {
  const char *text = environment_text(v);
  int64_t n;
  return !text || parse(environment_table[v].kind, text, &n);
}

/* ---- mistakes ---- */

Variable environment_find(const char *name) {
  for (int v = 0; v < VARIABLE_COUNT; v++)
    if (strcmp(environment_table[v].name, name) == 0) return (Variable)v;
  return VARIABLE_COUNT;
}

static void report_unknown(Diags *diags, const char *name) {
  const char *names[VARIABLE_COUNT];
  for (int v = 0; v < VARIABLE_COUNT; v++) names[v] = environment_table[v].name;
  const char *near = diag_nearest(name, names, VARIABLE_COUNT);
  Diag *d =
      diag_add(diags, DIAG_W0902, (Span){0}, "environment variable %s is unknown to Wave", name);
  if (near) diag_hint(diags, d, "did you mean %s?", near);
}

void environment_check(Diags *diags) {
  for (int v = 0; v < VARIABLE_COUNT; v++)
    if (!environment_is_valid((Variable)v))
      diag_add(diags, DIAG_W0902, (Span){0}, "environment variable %s=%s is ignored (%s)",
               environment_table[v].name, environment_text((Variable)v), environment_table[v].text);
  for (char **at = environ; at && *at; at++) {
    size_t n = strcspn(*at, "=");
    if (strncmp(*at, prefix, PREFIX) != 0) continue;
    const char *name = arena_printf(diags->arena, "%.*s", (int)n, *at);
    if (environment_find(name) == VARIABLE_COUNT) report_unknown(diags, name);
  }
}
