/* turn_ops.h: groups of waves that take turns (transform/stages/turns.c), and the numbers of named
 * barriers. */
#ifndef WV_IR_TURN_OPS_H
#define WV_IR_TURN_OPS_H

#include "ir/ir.h"

enum {
  NAMED_BARRIERS = 16, /* of a workgroup; number 0 is that of all its waves */
  TURN_LEAST = 2,      /* groups */
  TURN_MOST = 8
};

/* "open", "take", "pass" or "close". */
bool op_is_turn(const Op *op, const char *mode);
int turn_groups(const Op *turn);

/* Waves that execute an op together: several for products whose operands are in shared memory. */
int turn_waves(Arena *scratch, const Op *op, int lanes);

/* The first of `n` named barriers that no op of a region, or of those inside, uses; 0: there are not
 * enough. Where `at` is given, those of ops that are executed only if it is not are free. */
int turn_barriers_free(const Kernel *k, const Region *r, const Op *at, int64_t n);

#endif
