/* failures.h: reports the failed assertions of a launch.
 *
 * A kernel with assertions takes one more buffer, initialised to zero: for each assertion a table
 * of FAILURE_ROWS rows of FAILURE_COLUMNS words (i64). The first word counts the failures; each row
 * after the first describes one of them. A text describes the tables, one line each:
 *
 *     assert <tab> k.py:12:5 <tab> xM xN fvalue <tab> the message
 *
 * The third field names the words of a row: a letter for the type, then a name. */
#ifndef WV_FAILURES_H
#define WV_FAILURES_H

#include "base/diag.h"

enum { FAILURE_ROWS = 16, FAILURE_COLUMNS = 12, FAILURE_WORDS = FAILURE_ROWS * FAILURE_COLUMNS };

/* What a failure is reported as: an error (E0714), a remark (R0701), an error (E0709). */
#define FAILURE_ASSERT "assert"
#define FAILURE_ASSUME "assume"
#define FAILURE_REQUIRE "require"

/* Types of the words of a row. */
typedef enum FailureType {
  FAILURE_COORD = 'x', /* the coordinate along the dimension of that name */
  FAILURE_GROUP = 'g', /* one component of the workgroup id */
  FAILURE_INT = 'i',
  FAILURE_UNSIGNED = 'u',
  FAILURE_TRUTH = 'b',
  FAILURE_F32 = 'f', /* the bits, in the lower half */
  FAILURE_F64 = 'd'
} FailureType;

/* Appends a line to the text. Tabs and newlines in `message` become spaces. */
void failures_describe(StrBuf *out, const char *kind, const char *file, Span at,
                       const char *columns, const char *message);

/* Reports one diagnostic for each assertion that failed according to `words`. False: at least one
 * of them is an error. */
bool failures_report(Diags *diags, const char *text, const int64_t *words, int64_t n);

#endif
