/* span.c: the table of source files and access to their lines. */
#include "base/span.h"

#include <string.h>

#include "base/os.h"

uint32_t sources_file(Sources *s, const char *name, const char *text) {
  name = intern(s->names, name);
  void *known = text ? NULL : map_get(&s->by_name, map_key(name));
  if (known) return (uint32_t)(uintptr_t)known;
  vec_push(s->arena, &s->files, ((SourceFile){.name = name}));
  if (text) s->files.at[s->files.n - 1].text = arena_strdup(s->arena, text);
  map_set(s->arena, &s->by_name, map_key(name), (void *)(uintptr_t)s->files.n);
  return (uint32_t)s->files.n;
}

const char *sources_name(const Sources *s, uint32_t file) {
  return file && file <= (uint32_t)s->files.n ? s->files.at[file - 1].name : "<unknown>";
}

static const char *text_of(Sources *s, uint32_t file) {
  if (!file || file > (uint32_t)s->files.n) return NULL;
  SourceFile *f = &s->files.at[file - 1];
  if (!f->text && !f->unreadable) {
    size_t len;
    f->text = os_read_file(s->arena, f->name, &len);
    f->unreadable = !f->text;
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
