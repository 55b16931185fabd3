/* matrices.h: tiles whose registers ldmatrix can fill from shared memory.
 *
 *     reg d1/2:1 d0/2:8 d1/2:8 | lane d1/4:2 d0/8:1          a 16x16 fragment of 16-bit elements
 *     rows: lane d0/8:1 d0/2:8 d1/2:8                        where each lane's row begins
 *
 * The instruction moves 1, 2 or 4 matrices of eight rows of 16 bytes. Lane 8i + r addresses row r
 * of matrix i; lane 4r + c gets the c-th word of row r or, transposed, elements 2c and 2c + 1 of
 * column r. Whether the registers of a layout match what the instruction delivers is not derived:
 * every register of every lane is compared. */
#ifndef WV_MATRICES_H
#define WV_MATRICES_H

#include "layout/mem_layout.h"

enum { MATRIX_LANES = 32, MATRIX_ROWS = 8, MATRIX_ROW_BITS = 128 };

typedef struct MatrixPlan {
  Layout rows;     /* register g, lane 8i + r: where row r of matrix i of instruction g begins */
  int count;       /* matrices of an instruction */
  int each;        /* elements of a matrix that a lane gets */
  bool transposed; /* rows run along another dim than a lane's elements do */
} MatrixPlan;

/* Elements along dim `along` are contiguous in memory, at least 16 bytes of them. */
bool matrix_plan(const Layout *l, int bits, int along, MatrixPlan *out);

/* The dim along which 16 bytes are contiguous; -1: none. */
int matrix_dim(const MemLayout *m);

#endif
