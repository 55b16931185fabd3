/* lower_mma.h: what the lowerings of matmuls share. */
#ifndef WV_LOWER_MMA_H
#define WV_LOWER_MMA_H

#include "lower_threads/lower.h"

/* A product as instructions of one lane. */
typedef struct LaneProduct {
  Lower *l;
  const Op *op;
  Product of;
  MmaDivision div;
  bool swap;
  int first[3], count[3]; /* instructions along m, n and k: of a part */
  int point[LAYOUT_DIMS]; /* coordinates of the result along the batch dims */
} LaneProduct;

/* Which of the instructions the op has, if it is a part. */
void product_part(LaneProduct *p);

/* The registers of operand `part`, in the order the instructions take them. */
int *product_registers(LaneProduct *p, MmaOperand part, const Value *v, int *n);

/* Those registers. What an instruction over-covers along k must be 0 in both operands, and is. */
Value *product_operand(LaneProduct *p, MmaOperand part, const Value *v);

/* Advances to the next coordinates along the batch dims; false past the last. */
bool product_next(LaneProduct *p, const Value *out);

/* The product with instructions that read shared memory (lower_wgmma.c). */
bool lower_wgmma(LaneProduct *p, const MmaChoice *choice);

#endif
