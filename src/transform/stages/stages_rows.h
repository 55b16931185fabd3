/* stages_rows.h: what the rows of a schedule pin in a loop whose copies may be prefetched.
 *
 * An op in stage s of the loop's iteration i is that of iteration i - s, so a copy runs as many
 * iterations ahead of the ops that use its tile as their stages differ. Other ops of earlier stages
 * are computed early, and their values carried (stages_lead.h). */
#ifndef WV_STAGES_ROWS_H
#define WV_STAGES_ROWS_H

#include "ir/schedule/schedule.h"
#include "transform/stages/stages_plan.h"

/* Collects the rows for this machine that are about the loop. */
void staged_read_rows(Kernel *k, Arena *a, const TargetInfo *t, StagedLoop *l);

/* Pins stage and ring of the loop's copies, the leads of its other ops, and whether l->early is
 * computed early; drops copies that run in the same iteration. Puts the body in the order of its
 * cycles. False after reporting. */
bool staged_pin(Kernel *k, Arena *a, const MemoryUses *m, StagedLoop *l);

/* Puts the body in the order of its cycles and of the `order` row. False after reporting. */
bool staged_order(Kernel *k, Arena *a, const MemoryUses *m, StagedLoop *l);

/* Reports that a row about prefetching in the loop, or about `copy` if that is not NULL, cannot be
 * obeyed. True: there is none. */
bool staged_refuse(Kernel *k, const StagedLoop *l, const Op *copy, const char *why);

/* Reports a row that asks for prefetching where no loop can do it, or names an op that is gone;
 * obeyed: by number of the row. */
bool staged_check_rows(Kernel *k, Arena *a, const TargetInfo *t, const bool *obeyed);

/* The stages of a loop that its author pipelined; 1 for others. */
int staged_own_depth(Kernel *k, const Op *loop);

/* Notes on loops how often their bodies are repeated, and how many of their last iterations run apart.
 * False after reporting. */
bool staged_mark_loops(Kernel *k, const TargetInfo *t);

/* The slots that a copy needs which runs so far ahead. */
int staged_slots(const StagedCopy *c, int ahead);

/* The place of a copy in the `order` row, or of its store; STAGED_FREE: none. */
int staged_rank(const StagedLoop *l, const StagedCopy *c, bool stores);

/* Where a copy, or its store, is inserted: before the op that it returns. `usual` if rows allow it. */
Op *staged_place(const StagedLoop *l, const StagedCopy *c, bool stores, Op *usual);

/* Where something of that cycle is inserted: before the op that it returns. `usual` if rows allow
 * it; cycle STAGED_FREE: anywhere. */
Op *staged_before(const StagedLoop *l, int cycle, Op *usual);

#endif
