/* failures.h: what a launch reports of assertions that failed.
 *
 * A kernel with assertions is given one more memory, full of zeros: for each assertion a table of
 * FAILURE_ROWS rows of FAILURE_COLUMNS words (i64). The first word counts its failures; every row
 * behind the first describes one of them. A text says what the tables are about, a line each:
 *
 *     assert <tab> k.py:12:5 <tab> xM xN fvalue <tab> the message
 *
 * The words of a row are named by the third field: a letter for their type, then a name. */
#ifndef WV_FAILURES_H
#define WV_FAILURES_H

#include "base/diag.h"

enum { FAILURE_ROWS = 16, FAILURE_COLUMNS = 12, FAILURE_WORDS = FAILURE_ROWS * FAILURE_COLUMNS };

/* What a failure is: an error (E0714), a remark (R0701), or an error (E0709). */
#define FAILURE_ASSERT "assert"
#define FAILURE_ASSUME "assume"
#define FAILURE_REQUIRE "require"

/* Types of the words of a row. */
typedef enum FailureType {
  FAILURE_COORD = 'x', /* the coordinate along the dimension of that name */
  FAILURE_GROUP = 'g', /* one of the workgroup's three numbers */
  FAILURE_INT = 'i',
  FAILURE_UNSIGNED = 'u',
  FAILURE_TRUTH = 'b',
  FAILURE_F32 = 'f', /* the bits, in the lower half */
  FAILURE_F64 = 'd'
} FailureType;

/* A line of the text. Tabs and ends of lines in `message` become blanks. */
void failures_describe(StrBuf *out, const char *kind, const char *file, Span at,
                       const char *columns, const char *message);

/* Reports what `words` say, one diagnostic for each assertion that failed. False: there was an
 * error among them. */
bool failures_report(Diags *diags, const char *text, const int64_t *words, int64_t n);

#endif
