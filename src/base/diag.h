/* diag.h: what the compiler tells the user.
 *
 * A diagnostic is an error, a warning or a remark with a code, a place, notes with their own
 * places, and at most one hint. The message text stands where the mistake is found; diag.def holds
 * the code and the long explanation of `wavec --explain`. Messages are lower case, without a final
 * stop, with names in backquotes, and say what was found and what was expected. */
#ifndef WV_DIAG_H
#define WV_DIAG_H

#include "base/span.h"
#include "base/strbuf.h"

typedef enum DiagCode {
#define DIAG(code, severity, title, explanation) DIAG_##code,
#include "base/diag.def"
  DIAG_COUNT
} DiagCode;

typedef enum Severity { SEVERITY_error, SEVERITY_warning, SEVERITY_remark } Severity;

typedef struct DiagInfo {
  const char *code, *title, *explanation;
  Severity severity;
} DiagInfo;

extern const DiagInfo diag_info[DIAG_COUNT];

typedef struct DiagNote {
  Span at;
  const char *text;
  struct DiagNote *next;
} DiagNote;

typedef struct Diag {
  DiagCode code;
  Span at;
  const char *text;
  const char *hint; /* NULL: none */
  DiagNote *notes;
  struct Diag *next;
} Diag;

typedef struct Diags {
  Arena *arena; /* its own: emptied with it */
  Sources *sources;
  Diag *first, *last;
  int errors;
} Diags;

Diag *diag_add(Diags *list, DiagCode code, Span at, const char *fmt, ...) WV_PRINTF(4, 5);
void diag_note(Diags *list, Diag *d, Span at, const char *fmt, ...) WV_PRINTF(4, 5);
void diag_hint(Diags *list, Diag *d, const char *fmt, ...) WV_PRINTF(3, 4);
/* What to do about a tensor of another size than its symbols have; `is_given`: these take their
 * values from the tensors. */
void diag_hint_size(Diags *list, Diag *d, int rank, bool is_given);
Diag *diag_copy(Arena *a, const Diag *from); /* which outlives its list */
void diags_clear(Diags *list);
void diags_cut(Diags *list, Diag *last); /* drops what follows it; NULL: all */
/* Without memory: the diagnostic stays where it is. */
void diag_append(Diags *list, Diag *d);

/* The code with this spelling ("E0102", in any case); DIAG_COUNT when there is none. */
DiagCode diag_find(const char *code);

void diag_render(const Diags *list, const Diag *d, StrBuf *out);
void diags_render(const Diags *list, StrBuf *out);

/* The name in `names` nearest to `word`, or NULL when none is near: for "did you mean" hints. */
const char *diag_nearest(const char *word, const char *const *names, int n);

#endif
