/* diag.h: what the compiler tells the user.
 *
 * A diagnostic is an error, a warning or a remark with a code, a place, notes with their own
 * places, and at most one hint. The message text is written where the mistake is detected; diag.def
 * holds the code and the long explanation for `wavec --explain`. Messages are lower case, without a
 * final stop, with names in backquotes, and say what was found and what was expected. */
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
  Arena *arena; /* private to the list and reset with it */
  Sources *sources;
  Diag *first, *last;
  int errors;
} Diags;

Diag *diag_add(Diags *list, DiagCode code, Span at, const char *fmt, ...) WV_PRINTF(4, 5);
/* The same for a check that fails: it is false, and so is what diag_hint returns. */
#define diag_fail(...) (diag_add(__VA_ARGS__), false)
void diag_note(Diags *list, Diag *d, Span at, const char *fmt, ...) WV_PRINTF(4, 5);
bool diag_hint(Diags *list, Diag *d, const char *fmt, ...) WV_PRINTF(3, 4);
/* Says what to do about a tensor whose size differs from that of its symbols; `is_given`: the
 * symbols take their values from the tensors. */
void diag_hint_size(Diags *list, Diag *d, int rank, bool is_given);
Diag *diag_copy(Arena *a, const Diag *from); /* a copy that outlives its list */
void diags_clear(Diags *list);
void diags_cut(Diags *list, Diag *last); /* drops everything after `last`; NULL: all */
/* Allocates nothing: d is linked into the list as it is. */
void diag_append(Diags *list, Diag *d);

/* The code with this spelling ("E0102", case-insensitive); DIAG_COUNT if there is none. */
DiagCode diag_find(const char *code);

void diag_render(const Diags *list, const Diag *d, StrBuf *out);
void diags_render(const Diags *list, StrBuf *out);

/* The name in `names` nearest to `word`, or NULL if none is near: for "did you mean" hints. */
const char *diag_nearest(const char *word, const char *const *names, int n);

#endif
