/* loop_turns.h: turns that groups of waves take in a loop (transform/turns/turns.c).
 *
 * In a graph of such a loop, the first of the two waves that compute stands for the first group, and
 * the second for the last group; those between only pass on what they get. Turns order waves of
 * different groups and not those of one, so they do not count where accesses are ordered, only where
 * something waits for itself. */
#ifndef WV_SCHEDULE_LOOP_TURNS_H
#define WV_SCHEDULE_LOOP_TURNS_H

#include "schedule/loop_graph.h"

/* A turn of the loop that is not taken and then passed once, or that is not opened before the
 * outermost loop and closed after it, or another barrier that not all waves pass; NULL: none. */
const Op *loop_turn_unbalanced(const Distribution *d, const LoopGraph *g);

/* What the loop enforces, turns included; and only that: from each event that passes a turn on to the
 * one that takes it. */
OrderList loop_turn_orders(Arena *a, const Kernel *k, const LoopGraph *g);
OrderList loop_turn_tokens(Arena *a, const Kernel *k, const LoopGraph *g);

#endif
