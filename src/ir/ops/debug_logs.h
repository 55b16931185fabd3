/* debug_logs.h: the debug logs of a kernel, in the order in which they are delivered. */
#ifndef WV_DEBUG_LOGS_H
#define WV_DEBUG_LOGS_H

#include "ir/ir.h"

/* The row `timeline` has a log that no op names: the pass `stamps` fills it. */
#define TIMELINE_LABEL "$timeline"
enum { TIMELINE_ROOM = 1 << 15 }; /* its elements, of i64 */

/* An op `debug_log`, and the label of its tensor. Its dimensions are a slot for each loop whose
 * iterations are kept apart, then those of the mapping or of the value; a single number has one. */
typedef struct DebugLog {
  Op *op;
  const char *label;
  const LogIter *slots;
  int nslots, rank; /* rank: with the slots */
} DebugLog;

typedef Vec(DebugLog) DebugLogs;

/* Default labels count the logs of inner regions before those of the enclosing ones. If several logs
 * have one label, the second in the text becomes label.2, and so on. False after reporting a log
 * with too many dimensions. */
bool debug_logs_find(Arena *a, Kernel *k, DebugLogs *out);

/* Dimension i after the slots; NULL: for a single number, which has one element. */
const Sym *debug_log_dim(const DebugLog *log, int i);

#endif
