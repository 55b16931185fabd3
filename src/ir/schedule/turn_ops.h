/* turn_ops.h: groups of waves that take turns (transform/turns/turns.c), and the numbers of named
 * barriers. */
#ifndef WV_IR_TURN_OPS_H
#define WV_IR_TURN_OPS_H

#include "ir/ir.h"

enum {
  NAMED_BARRIERS = 16, /* of a workgroup; number 0 is that of all its waves */
  TURN_LEAST = 2,      /* groups */
  TURN_MOST = 8,
  TURN_LAGGED = 0 /* the barrier by which two groups take turns that are a barrier apart */
};

/* "open", "take", "pass", "meet" or "close". */
bool op_is_turn(const Op *op, const char *mode);
/* It is not inserted yet. */
Op *turn_new(Kernel *k, Span at, const char *mode, int bar, int groups);
int turn_groups(const Op *turn);

/* Waves that execute an op together: several for products whose operands are in shared memory. */
int turn_waves(Arena *scratch, const Op *op, int lanes);

/* A turn by the barrier of the workgroup: the second group passes it one time more before the loop, and
 * the first group after it. A barrier of one group is then the next barrier of the other:
 *
 *     first group          a0 | b0 | a1 | b1 | close
 *     second group  open | a0 | b0 | a1 | b1 |
 *
 * Every barrier of the loop is such an op; `meet` is one that begins and ends no turn. */
bool turn_is_lagged(const Op *op);

/* The first of `n` named barriers that no op of a region, or of those inside, uses; 0: there are not
 * enough. Where `at` is given, those of ops that are executed only if it is not are free. */
int turn_barriers_free(const Kernel *k, const Region *r, const Op *at, int64_t n);

#endif
