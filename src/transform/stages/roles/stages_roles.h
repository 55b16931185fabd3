/* stages_roles.h: copies of a loop that waves of their own make, which compute nothing.
 *
 *     roles K load 4 x 40, math 8 x 232
 *
 *     mbar_init %full {count = 2}
 *     mbar_init %empty {count = 8}
 *     barrier roles
 *     wave_registers give {count = 40, role = "load"}
 *     wave_registers take {count = 232}
 *     for K carry ... {
 *       mbar_wait %empty {slot = Mod($ARGK, 4), parity = Mod(floor($ARGK/4) + 1, 2), role = "load"}
 *       copy %a, %s, %full {slot = Mod($ARGK, 4), mode = tma, role = "load"}
 *       copy %b, %t, %full {slot = Mod($ARGK, 4), mode = tma, role = "load"}
 *       mbar_wait %full {slot = Mod($ARGK, 4), parity = Mod(floor($ARGK/4), 2)}
 *       %x = read %s {slot = Mod($ARGK, 4)}
 *       ...
 *       mbar_arrive %empty {slot = Mod($ARGK, 4)}
 *     }
 *
 * Ops with a role are executed by the service waves, which run the loops around these ops and nothing
 * else; all others are executed by the waves that compute. Copies are made as soon as their rings have
 * a free slot: one is filled again when every wave that computes has arrived on its `empty`
 * barrier, and read when its copies have arrived on `full`. Nothing else orders the two, and no
 * barrier of the workgroup is left in the loop.
 *
 * In a loop inside others, iterations are counted through all of its runs (analysis/runs.h), so that
 * slots and phases continue from one run to the next: service waves copy the first tiles of a run while
 * the others are still busy with what follows the run before it. Tiles that are read early are then
 * released when their own iteration ends.
 *
 * Workgroups of a cluster that copy for each other release each other's slots. After all loops, service waves wait
 * for every slot once more: a workgroup must not end before the last release has arrived.
 *
 * Copies share `full` barriers if their tiles have equally many slots and are first read by the same
 * op, and `empty` ones if they are released together: at the end of an iteration. A
 * product that is still in flight when the next iteration begins releases its slots one iteration
 * later. */
#ifndef WV_STAGES_ROLES_H
#define WV_STAGES_ROLES_H

#include "transform/stages/stages_plan.h"

/* Adds a `roles` row for each loop of the plan, without being asked: their workgroups are alone on a
 * compute unit, so nothing else computes while they copy, and two products follow each other in an
 * iteration, between which waves have much to compute. True: it did. */
bool roles_add(Kernel *k, const PassCtx *cx, const StagesPlan *plan);

/* Decides which copies have a role. False after reporting rows that cannot be obeyed. */
bool roles_plan(Kernel *k, PassCtx *cx, StagesPlan *plan);

/* Whether a workgroup has room for service waves: waves, and registers for the sums of its products. The assembler
 * needs those of an instruction, and a few more, among what all waves begin with. */
bool roles_have_room(const PassCtx *cx, const Op *loop);

/* Registers of a thread of the waves that compute, if as many others copy and rows give no numbers. */
int roles_registers(const TargetInfo *t, int waves, int copying);

/* Before the first loop is changed: the service waves, and where they part from the others. */
void roles_open(Kernel *k, PassCtx *cx, const StagesPlan *plan);

/* A ring of barriers that `count` threads arrive at, for copies of this op. It is initialised before roles
 * part. */
Value *roles_barrier(Kernel *k, const Op *of, const char *name, int slots, int count);

/* A wait for the tile with this number, which is the n-th to fill its slot: its phase is that of the n-th round, plus
 * `rounds`. */
Op *roles_wait(Kernel *k, Op *before, Value *ring, const Sym *number, int rounds);

/* The barriers of a loop's copies with a role; the waits for those that are read before the loop. */
void roles_begin_loop(Kernel *k, PassCtx *cx, StagedLoop *l);
void roles_await_first(Kernel *k, PassCtx *cx, const StagedLoop *l);

/* Issues and awaits the copies, and releases their slots. */
void roles_rewrite_loop(Kernel *k, PassCtx *cx, StagedLoop *l);

#endif
