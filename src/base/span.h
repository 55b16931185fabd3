/* span.h: source locations (places, in wave.h). */
#ifndef WV_SPAN_H
#define WV_SPAN_H

#include "base/map.h"
#include "base/vec.h"

/* Lines and columns count from 1 (columns in bytes); file 0 or line 0: unknown. */
typedef struct Span {
  uint32_t file, line, col, len;
} Span;

typedef struct SourceFile {
  const char *name;
  const char *text; /* NULL until first needed, then read from disk */
  bool given;       /* the text did not come from disk */
  int64_t stamp;    /* of the file when it was read; if it changes, the file is read again */
} SourceFile;

typedef struct Sources {
  Arena *arena;
  Intern *names;
  Vec(SourceFile) files;
  Map by_name; /* interned name -> index + 1 */
} Sources;

/* The number of the file called `name`. A different `text` makes a new entry: two texts may both be
 * called <string>. */
uint32_t sources_file(Sources *s, const char *name, const char *text);
const char *sources_name(const Sources *s, uint32_t file); /* "<unknown>" for 0 */

/* Sets the text of a file that is not on disk, or has changed there: a notebook cell. */
void sources_give_text(Sources *s, uint32_t file, const char *text);

/* The text of a line without its newline; NULL if the source cannot be read. */
const char *sources_line(Sources *s, uint32_t file, uint32_t line, size_t *len);

#endif
