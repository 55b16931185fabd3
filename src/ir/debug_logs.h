/* debug_logs.h: the debug logs of a kernel, in the order in which they are delivered. */
#ifndef WV_DEBUG_LOGS_H
#define WV_DEBUG_LOGS_H

#include "ir/ir.h"

/* An op `debug_log`, and what its tensor is called. Its dimensions are a slot for each loop whose
 * iterations are kept apart, then those of the mapping or of the value; a lone number has one. */
typedef struct DebugLog {
  Op *op;
  const char *label;
  const LogIter *slots;
  int nslots, rank; /* rank: with the slots */
} DebugLog;

typedef Vec(DebugLog) DebugLogs;

/* Default labels count the logs of inner regions before those of the regions around them. False
 * after reporting one that has too many dimensions. */
bool debug_logs_find(Arena *a, Kernel *k, DebugLogs *out);

/* Dimension i behind the slots; NULL: of a lone number, which has one element. */
const Sym *debug_log_dim(const DebugLog *log, int i);

#endif
