/* reports.h: the memory in which a launch reports what failed (base/failures.h): a parameter that
 * no caller gives, with a table for each assertion.
 *
 *     kernel @k(%a: mem<M, f32>, %failures: mem<failure_word, i64> report "assert\tk.py:3:5...")
 *       bind failure_word = 192
 *       report %ok, %failures, %m, %x {mapping = map 1 {failure_word: 0} -> {M: $index0}} */
#ifndef WV_REPORTS_H
#define WV_REPORTS_H

#include "base/failures.h"
#include "ir/ir.h"

/* What an assertion is, and what the words of its rows are: `columns` as in base/failures.h. */
typedef struct ReportSite {
  const char *kind, *columns, *message;
  Span at;
} ReportSite;

/* The memory, with a table for one more assertion; *mapping sends every element of a value like
 * `cond` to its beginning. */
Value *report_add(Kernel *k, const ReportSite *site, const Type *cond, const Mapping **mapping);

/* Nobody has reported this before. */
bool report_is_new(Kernel *k, const ReportSite *site);

/* Assertions are left out, and the memory with them. */
void kernel_drop_reports(Kernel *k);

/* What a word says of a value of this dtype. */
FailureType report_type(DType t);

#endif
