/* reports.h: the memory in which a launch reports failures (base/failures.h): a parameter that no
 * caller passes, with a table for each assertion.
 *
 *     kernel @k(%a: mem<M, f32>, %failures: mem<failure_word, i64> report "assert\tk.py:3:5...")
 *       bind failure_word = 192
 *       report %ok, %failures, %m, %x {mapping = map 1 {failure_word: 0} -> {M: $index0}} */
#ifndef WV_REPORTS_H
#define WV_REPORTS_H

#include "base/failures.h"
#include "ir/ir.h"

/* An assertion, and the words of its rows: `columns` as in base/failures.h. */
typedef struct ReportSite {
  const char *kind, *columns, *message;
  Span at;
} ReportSite;

/* The memory, with a table for one more assertion; *mapping maps every element of a value like
 * `cond` to its beginning. */
Value *report_add(Kernel *k, const ReportSite *site, const Type *cond, const Mapping **mapping);

/* Whether this has not been reported before. */
bool report_is_new(Kernel *k, const ReportSite *site);

/* Removes assertions, and the memory with them. */
void kernel_drop_reports(Kernel *k);

/* The type of a word for a value of this dtype. */
FailureType report_type(DType t);

#endif
