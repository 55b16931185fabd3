/* schedule_selects.c: what a name in a schedule row says besides a tag: class, parts, which op. */
#include <stdlib.h>
#include <string.h>

#include "ir/schedule/schedule.h"

/* A dot that no class follows belongs to the name. */
static OpClass class_of(const char *name, size_t n, size_t *dot) {
  for (*dot = n; *dot > 0 && name[*dot - 1] != '.';) --*dot;
  for (int i = 1; *dot && i < OP_CLASS_COUNT; i++)
    if (strlen(op_class_name[i]) == n - *dot &&
        memcmp(op_class_name[i], name + *dot, n - *dot) == 0)
      return (OpClass)i;
  return OP_CLASS_none;
}

/* `2/3` */
static const char *read_ratio(const char *at, int *number, int *of) {
  char *end;
  long a = strtol(at, &end, 10);
  if (end == at || *end != '/') return NULL;
  const char *second = end + 1;
  long b = strtol(second, &end, 10);
  if (end == second || a < 0 || a >= b || b > SCHEDULE_PARTS) return NULL;
  *number = (int)a, *of = (int)b;
  return end;
}

/* One of `[1/3, K 0/2]`; NULL: something else. */
static const char *read_selection(Arena *a, const char *at, OpName *out) {
  size_t n = strcspn(at, " ,]");
  if (at[n] != ' ') return read_ratio(at, &out->at, &out->of);
  if (out->nparts == NAME_PARTS) return NULL;
  NamePart *part = &out->parts[out->nparts++];
  part->dim = arena_strndup(a, at, n);
  return read_ratio(at + n + 1, &part->at, &part->of);
}

static bool read_selections(Arena *a, const char *open, OpName *out) {
  const char *at = read_selection(a, open + 1, out);
  while (at && at[0] == ',' && at[1] == ' ') at = read_selection(a, at + 2, out);
  return at && strcmp(at, "]") == 0;
}

OpName schedule_split_name(Arena *a, const char *text) {
  OpName whole = {0}, name = {0};
  const char *open = strrchr(text, '[');
  bool selects = open && open > text && read_selections(a, open, &name);
  if (!selects) name = whole;
  size_t n = selects ? (size_t)(open - text) : strlen(text), dot;
  name.class = class_of(text, n, &dot);
  name.plain = arena_strndup(a, text, name.class ? dot - 1 : n);
  name.called = arena_strndup(a, text, n);
  name.selection = text + n;
  return name;
}

OpClass schedule_named_class(const char *text) {
  Arena *a = arena_new();
  OpClass class = schedule_split_name(a, text).class;
  arena_free(a);
  return class;
}

const char *schedule_plain_name(Arena *a, const char *text) {
  return schedule_split_name(a, text).plain;
}

int schedule_named_part(const OpName *name, const char *dim, int *of) {
  for (int i = 0; i < name->nparts; i++)
    if (strcmp(name->parts[i].dim, dim) == 0) return *of = name->parts[i].of, name->parts[i].at;
  *of = 1;
  return 0;
}
