/* live.h: how many registers of a thread the values of a program occupy, in the order in which it is
 * written, at either level. */
#ifndef WV_LIVE_H
#define WV_LIVE_H

#include "ir/ir.h"

/* Registers of 32 bits that hold a value. Conditions have none, nor do tiles without a layout and tiles
 * whose elements are one of two constants; indices of all elements have one. */
int live_registers(const Value *v);

/* By op id: the registers that are occupied when the op begins. In loops, values from outside that the
 * body uses are occupied throughout. */
const int *live_at_ops(Arena *a, const Kernel *k);
/* The same with other numbers of registers, for instance of tiles that have no layout yet. */
typedef int LiveFn(void *user, const Value *v);
const int *live_at_ops_by(Arena *a, const Kernel *k, LiveFn *registers, void *user);

/* The registers of a thread that waves which compute have taken from those that copy; 0: they take none. */
int live_taken(const Kernel *k);

/* The most registers that one lane's program occupies at once, each until its own last use
 * (live_lane.c). `scalar`, by value id: all lanes of a wave share a register for it, of which there are
 * LIVE_SCALARS; NULL: no value is. */
enum { LIVE_SCALARS = 40 }; /* NVIDIA's machines have 63, and instructions need some in passing */
int live_most(Arena *a, const Kernel *k, const bool *scalar);
/* The same, in loops that have no others inside. */
int live_most_looped(Arena *a, const Kernel *k, const bool *scalar);

#endif
