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

/* If `ends`, the loop has no more iterations than these: its last ones wait for the last one instead of
 * later ones. */
LoopEntry *loop_entry(Arena *a, const Distribution *d, const LoopGraph *entry,
                      const LoopGraph *body, int iterations, bool ends);

/* Whether the second event follows the first: each is one of the body in an iteration, or one before the
 * loop (iteration -1). */
bool loop_entry_orders(LoopEntry *e, int from, int iteration, int to, int then);

#endif
