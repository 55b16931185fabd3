/* loop_entry.h: what comes before a loop and its first iterations, as one graph without cycles.
 *
 * A wait of the loop also waits for what was in flight before it: for groups of copies that were
 * closed then, and for the phases of barriers with which the copies of the first iterations end. If
 * an event before the loop comes before an event of iteration i, it comes before that of all later
 * iterations, so only the first iteration that conflicts with it matters. */
#ifndef WV_SCHEDULE_LOOP_ENTRY_H
#define WV_SCHEDULE_LOOP_ENTRY_H

#include "schedule/loop_graph.h"

typedef struct LoopEntry LoopEntry;

LoopEntry *loop_entry(Arena *a, const Distribution *d, const LoopGraph *entry,
                      const LoopGraph *body, int iterations);

/* Whether an event of the body in an iteration, or an event before the loop (iteration -1), follows
 * an event before the loop. */
bool loop_entry_follows(LoopEntry *e, int from, int to, int iteration);

/* Whether an event before the loop follows an event of the body, by service waves, in an iteration. */
bool loop_entry_precedes(LoopEntry *e, int from, int iteration, int to);

#endif
