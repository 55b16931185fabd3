/* op_parts.h: tile ops that are divided (transform/loops/parts.c).
 *
 * `part` has two numbers for each dimension of an op, those of its result and then, of a matmul, the one
 * along which it sums: part `at` of `of`, by instructions of a wave. A matmul that is a part adds nothing to
 * other elements; other ops leave them undefined.
 *
 * Of a copy to shared memory, and of the load and the store that it may become, a part is a slice of the
 * tile: elements [at * extent/of, (at + 1) * extent/of) along the dimension. */
#ifndef WV_IR_OP_PARTS_H
#define WV_IR_OP_PARTS_H

#include "ir/ir.h"

enum { PART_DIMS = IR_MAX_RANK + 1 };

typedef struct OpPart {
  int at, of; /* 0 of 1: all of it */
} OpPart;

/* Each element of its result is computed from those of its operands at the same position. */
bool parts_keep_positions(const Op *op);
/* Part of what brings a tile to shared memory. */
bool parts_of_copy(const Op *op);
/* A read, a copy, a matmul, or an op that keeps positions. */
bool parts_may_be(const Op *op);
/* The dimensions that may be divided. */
int parts_dims(const Op *op, const Sym **dims);
OpPart parts_along(const Op *op, int dim);
/* How many parts there are in all. */
int parts_all(const Op *op);
/* Whether registers of a tile in this layout, from `first` on, have something of the part. */
bool parts_have(const Op *op, const Layout *l, int first, int n);
bool parts_equal(const Op *a, const Op *b);
/* NULL, or what is wrong with the attribute. */
const char *parts_wrong(const Op *op);

#endif
