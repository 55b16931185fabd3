/* explain.h: what was decided about a kernel, as text. */
#ifndef WV_EXPLAIN_H
#define WV_EXPLAIN_H

#include "ir/ir.h"
#include "target/target.h"

/* Of a kernel before any pass; false after reporting. */
bool api_explain(StrBuf *out, Kernel *k, const char *target, Arena *a);
/* Of a kernel after `turns`, without what passes remarked. */
void api_explain_tiles(StrBuf *out, Kernel *k, const TargetInfo *t, Arena *a);

#endif
