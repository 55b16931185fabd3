/* lower_mma.h: what the lowerings of matrix products share. */
#ifndef WV_LOWER_MMA_H
#define WV_LOWER_MMA_H

#include "lower_threads/lower.h"

typedef struct Product {
  Lower *l;
  const Op *op;
  MmaDivision div;
  bool swap;
  int point[LAYOUT_DIMS]; /* coordinates of the result along the batch dims */
} Product;

/* The registers of operand `part`, in the order the instructions take them. */
int *product_registers(Product *p, MmaOperand part, const Value *v, int *n);

/* Those registers. What an instruction over-covers along k must be 0 in both operands, and is. */
Value *product_operand(Product *p, MmaOperand part, const Value *v);

/* Advances to the next coordinates along the batch dims; false past the last. */
bool product_next(Product *p, const Value *out);

/* The product with instructions that read shared memory (lower_wgmma.c). */
bool lower_wgmma(Product *p, const MmaChoice *choice);

#endif
