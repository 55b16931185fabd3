/* matrices.h: tiles whose registers ldmatrix can fill from shared memory.
 *
 *     reg d1/2:1 d0/2:8 d1/2:8 | lane d1/4:2 d0/8:1          a 16x16 fragment of 16-bit elements
 *     rows: lane d0/8:1 d0/2:8 d1/2:8                        where each lane's row begins
 *
 * The instruction moves 1, 2 or 4 matrices of eight rows of 16 bytes. Lane 8i + r addresses row r
 * of matrix i; lane 4r + c gets the c-th word of row r or, transposed, elements 2c and 2c + 1 of
 * column r. AMD's transposing reads move other matrices (MatrixForm): there every lane addresses a
 * row. Whether the registers of a layout match what the instruction delivers is not
 * derived: every register of every lane is compared. */
#ifndef WV_MATRICES_H
#define WV_MATRICES_H

#include "layout/mem_layout.h"
#include "target/target.h"

enum { MATRIX_LANES = 32, MATRIX_ROWS = 8, MATRIX_ROW_BITS = 128 };

/* A read of AMD's that exchanges rows and columns on the way to the registers. All lanes of the wave
 * take part: each addresses a row of adjacent elements, aligned to its size, and gets as many bits. */
typedef struct MatrixForm {
  int lanes, bits, row; /* of a wave; of an element; bits of a row */
  /* Element r of lane l's result is this element of the row that this lane addresses: bits of r and
   * l, lowest first. */
  const char *element, *lane;
} MatrixForm;

/* NULL: there is none. */
const MatrixForm *matrix_form(int lanes, int bits);

/* Element `reg` of a lane's result: the lane that addresses its row, and its number there. */
typedef struct MatrixSource {
  int lane, element;
} MatrixSource;

MatrixSource matrix_source(const MatrixForm *f, int reg, int lane);

typedef struct MatrixPlan {
  Layout rows;     /* register g, lane 8i + r: where row r of matrix i of instruction g begins;
                    * with a form: where the row of each lane begins */
  int count;       /* matrices of an instruction */
  int each;        /* elements of a matrix that a lane gets */
  bool transposed; /* rows run along another dim than a lane's elements do */
  const MatrixForm *form; /* NULL: ldmatrix */
} MatrixPlan;

/* Elements along dim `along` are contiguous in memory, at least those of a row. */
bool matrix_plan(const TargetInfo *t, const Layout *l, int bits, int along, MatrixPlan *out);

/* The dim along which a row is contiguous; -1: none. */
int matrix_dim(const TargetInfo *t, const MemLayout *m);

/* Does the machine have instructions that read matrices from shared memory? */
bool matrix_is_read(const TargetInfo *t);

#endif
