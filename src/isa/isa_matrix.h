/* isa_matrix.h: matrix instructions as data (isa_layouts.def). */
#ifndef WV_ISA_MATRIX_H
#define WV_ISA_MATRIX_H

#include "layout/layout.h"

typedef enum IsaChips { ISA_CDNA, ISA_RDNA3, ISA_RDNA4, ISA_CDNA5 } IsaChips;

typedef enum IsaElement {
  ISA_f16,
  ISA_bf16,
  ISA_f32,
  ISA_f64,
  ISA_fp8,
  ISA_bf8,
  ISA_fp6,
  ISA_bf6,
  ISA_fp4,
  ISA_i8,
  ISA_iu8,
  ISA_i32,
  ISA_mx8, /* fp8 or bf8; fp6, bf6 or fp4: the instruction says which */
  ISA_mx4
} IsaElement;

typedef struct IsaMatrix {
  const char *name, *aliases;
  IsaChips chips;
  int m, n, k;
  IsaElement a, b, d;
  int cycles;
  const char *place_a, *place_b, *place_d; /* digits */
} IsaMatrix;

/* NULL past the end. */
const IsaMatrix *isa_matrix_at(int i);
/* NULL: there is none. The types of A and B matter only if rows leave them to the instruction. */
const IsaMatrix *isa_matrix_find(const char *name, IsaChips chips, IsaElement a, IsaElement b);
/* Operand 0: A over (m, k), 1: B over (n, k), 2: D over (m, n). */
Layout isa_matrix_layout(const IsaMatrix *m, int operand);

#endif
