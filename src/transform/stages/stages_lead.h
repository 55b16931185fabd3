/* stages_lead.h: which ops of a loop are computed some iterations early, their *lead*.
 *
 * An op that rows place n stages before the last one is computed n iterations early, with what it
 * needs: its operands, the reads of tiles that copies fill, and values that go through shared memory
 * on the way to it. An op may use what the loop carries if that is computed at most one iteration
 * later than it would be needed. Ops with an effect outside the iteration stay in the last stage.
 *
 * Without rows, a product at the start of an iteration that depends on nothing but copied tiles is
 * computed one iteration early, if registers allow it. If a second product follows that adds up what
 * is computed from the first, then either only the first is early, and its result waits in registers
 * for an iteration, or all but the second, and its operand waits. */
#ifndef WV_STAGES_LEAD_H
#define WV_STAGES_LEAD_H

#include "transform/stages/stages_plan.h"

/* A tile that matrix instructions read from shared memory themselves: nothing fetches it. */
bool lead_is_left(const Op *op);

/* Gives ops the leads that rows ask for, if `last` is the last stage, and records those of the reads
 * of each copy. False after reporting. */
bool lead_pin(Kernel *k, Arena *a, const MemoryUses *m, StagedLoop *l, int last);

/* Finds l->lead, again if the loop has fewer copies than when leads were pinned. */
void lead_find_most(const Kernel *k, Arena *a, StagedLoop *l);

/* Why what the coordinates of a copy are computed from cannot be computed early; NULL: it can. */
const char *lead_why_not_tables(const Kernel *k, Arena *a, const MemoryUses *m, const Op *loop,
                                const Op *copy);

/* Finds the ops that compute coordinates of the loop's copies from tables (l->tables), and repeats them
 * if others use their results, too. They are computed one iteration before a copy is issued, unless
 * rows say earlier. False after reporting a row that says later. */
bool lead_tables(Kernel *k, Arena *a, StagedLoop *l);

/* The first product of the loop, if it reads both operands from shared memory, depends on nothing
 * that the loop computes, and its result is used in the loop; NULL: there is none. */
Op *lead_find_product(const StagedLoop *l);

/* Gives l->early a lead of 1, and moves it behind the last use of its result, so that the next one
 * may take its registers. */
void lead_product(Kernel *k, Arena *a, StagedLoop *l);

/* The second product of a loop whose l->early is the first, if it had better be the only one that is
 * not early; NULL: there is none. It had if a mask is applied to the result of the first: that takes
 * place in its registers, so those of the next one would be copied in each iteration. It also had if
 * copies have a role. In both cases its sum must have at least as many registers as the result of the
 * first, if that may also be early alone: otherwise it takes less time than what runs beside it. (Measured:
 * bench/NOTES.md.) */
Op *lead_find_second(const Kernel *k, Arena *a, const StagedLoop *l, bool has_roles);

/* Gives all ops a lead of 1 but l->late and what scales its sum, and moves these behind l->early. */
void lead_first(Kernel *k, Arena *a, StagedLoop *l);

#endif
