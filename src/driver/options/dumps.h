/* dumps.h: what options and WAVE_DUMP print, or write to files, while a kernel is compiled: the IR
 * between passes, how long passes took, and the final code.
 *
 *     Dumps d = dumps_of(arena, options, out);
 *     if (!dumps_begin(&d, diags, at)) ...           unknown passes, folders that cannot be made
 *     wv_pass_options p = dumps_passes(&d);          for wv_lower or wv_compile
 *     ...
 *     if (!dumps_end(&d, ok, diags, at)) ...         files that could not be written */
#ifndef WV_DUMPS_H
#define WV_DUMPS_H

#include "base/diag.h"
#include "wave.h"

typedef struct Dumps {
  const char *after, *before; /* words with commas: names of passes, `all`, `last`, `trace`, ... */
  const char *times;          /* the same; "": none */
  const char *folder;         /* for the IR after each pass; NULL: none */
  const char *binaries;       /* for the code; NULL: none */
  const char *asked_after, *asked_before; /* as passes are told: NULL, "all", or names */
  wv_output out;
  int count;        /* files written to `folder` */
  char *last;       /* the last dump, from malloc; NULL: none */
  char broken[256]; /* the first file that could not be written, and why; "": none */
} Dumps;

Dumps dumps_of(Arena *a, const wv_options *o, const wv_output *out);
bool dumps_are_wanted(const Dumps *d);
bool dumps_want_trace(const Dumps *d); /* the kernel as traced */

bool dumps_begin(Dumps *d, Diags *diags, Span at); /* false after reporting */
wv_pass_options dumps_passes(Dumps *d);            /* `d` must live as long */
void dumps_save(Dumps *d, wv_program *p, wv_ctx *cx);
/* Prints what was kept for the end if the passes succeeded. False after reporting. */
bool dumps_end(Dumps *d, bool ok, Diags *diags, Span at);

void dumps_print(const wv_output *out, const char *text);

#endif
