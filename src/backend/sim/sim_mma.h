/* sim_mma.h: a prepared matrix instruction, shared by sim_mma.c and sim_wgmma.c. */
#ifndef WV_SIM_MMA_H
#define WV_SIM_MMA_H

#include "backend/sim/sim_state.h"

typedef struct Fragment {
  const int *index; /* [(wave * regs + reg) * lanes + lane]: index in the dense matrix; -1: none */
  const int *line;  /* the same: its row of A or C, its column of B */
  int regs, size;   /* per lane; of the dense matrix */
  bool copied;      /* several lanes hold an element */
  bool whole;       /* every register holds one */
} Fragment;

/* Dense operands: a[m][k], b[k][n], product[m][n]. Doubles represent every element of every type
 * that a row admits; integers are multiplied and summed as integers, which wrap. */
typedef struct MmaPlan {
  const MmaInfo *row;
  Fragment part[MMA_OPERANDS];
  int copies[3]; /* m, n, k */
  bool a_shared, is_float;
  bool narrows; /* operands of 32 bits are read as tf32 */
  double *a, *b;
  Reg *product;
  bool *a_undef, *b_undef; /* by row of a, column of b: some element is undefined */
  double *scale;
  int *holder; /* by element: 1 + the lane whose copy was seen; 0: none yet */
} MmaPlan;

/* The value that the instruction reads from an element. */
double mma_number(const MmaPlan *p, DType t, Reg r);

/* Gathers registers from `first` on of all lanes into a dense matrix; `wave`: of those that execute
 * it. */
void mma_gather(Wave *w, const SimOp *s, MmaOperand part, int arg, int first, int wave, double *to,
                bool *undef);

/* product = a * b for rows [from, to). */
void mma_multiply(const MmaPlan *p, int from, int to);

/* Registers of the result from `first` on: the accumulator's (NULL: zero) plus the product. */
void mma_scatter(Wave *w, const SimOp *s, const Value *acc, int first, int wave);

void mma_forget_holes(MmaPlan *p);

#endif
