/* span.c: the table of source files and access to their lines. */
#include "base/span.h"

#include <string.h>

#include "base/os.h"

uint32_t sources_file(Sources *s, const char *name, const char *text) {
  name = intern(s->names, name);
  uint32_t known = (uint32_t)(uintptr_t)map_get(&s->by_name, map_key(name));
  const SourceFile *f = known ? &s->files.at[known - 1] : NULL;
  if (f && (!text || (f->given && strcmp(f->text, text) == 0))) return known;
  vec_push(s->arena, &s->files, ((SourceFile){.name = name}));
  if (text) sources_give_text(s, (uint32_t)s->files.n, text);
  map_set(s->arena, &s->by_name, map_key(name), (void *)(uintptr_t)s->files.n);
  return (uint32_t)s->files.n;
}

const char *sources_name(const Sources *s, uint32_t file) {
  return file && file <= (uint32_t)s->files.n ? s->files.at[file - 1].name : "<unknown>";
}

void sources_give_text(Sources *s, uint32_t file, const char *text) {
  SourceFile *f = &s->files.at[file - 1];
  if (f->given && strcmp(f->text, text) == 0) return;
  f->text = arena_strdup(s->arena, text);
  f->given = true;
}

static const char *text_of(Sources *s, uint32_t file) {
  if (!file || file > (uint32_t)s->files.n) return NULL;
  SourceFile *f = &s->files.at[file - 1];
  int64_t stamp = f->given ? 0 : os_file_stamp(f->name);
  if (!f->given && stamp != f->stamp) {
    size_t len;
    f->text = stamp ? os_read_file(s->arena, f->name, &len) : NULL;
    f->stamp = stamp;
  }
  return f->text;
}

const char *sources_line(Sources *s, uint32_t file, uint32_t line, size_t *len) {
  const char *p = text_of(s, file);
  if (!p || !line) return NULL;
  while (--line) {
    p = strchr(p, '\n');
    if (!p) return NULL;
    p++;
  }
  *len = strcspn(p, "\r\n");
  return p;
}
