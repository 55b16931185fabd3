/* cpu_dot.h: register tiles: declarations shared by the files that emit them. */
#ifndef WV_CPU_DOT_H
#define WV_CPU_DOT_H

#include "backend/cpu/cpu_state.h"
#include "target/mma.h"

typedef enum DotKind {
  DOT_KIND_DOT,
  DOT_KIND_MADD,
  DOT_KIND_LANE,
  DOT_KIND_SQUARE,
  DOT_KIND_MATRIX
} DotKind;

/* An instruction of the host: a row of cpu_dots.def. */
typedef struct CpuDot {
  DotKind kind;
  DType dtype;
  CpuArch arch;
  const char *feature;
  int bits; /* 0: SVE vectors */
  const char *name, *type;
} CpuDot;

/* One product of fragments. */
typedef struct TileMma {
  Llvm *p;
  const MmaInfo *row;
  int m, n, k;
  int k_group[2]; /* elements of k that are contiguous in a and b */
  DType acc;
  int width;        /* elements of a vector of acc */
  const char *elem; /* of acc */
  Held *a, *b;
} TileMma;

/* Dot products or squares (cpu_dot.c); NULL: the host has none for these operands. `sums` have the
 * row's layout: rows, or squares. */
const CpuDot *cpu_dot_of(const Llvm *p, const MmaInfo *row, DType operands, DType acc);
void cpu_dot_rows(TileMma *t, const CpuDot *dot, const char ***rows);
void cpu_dot_squares(TileMma *t, const CpuDot *dot, const char **sums);
int cpu_square_sums(const Llvm *p, const CpuDot *dot); /* sums per register */

/* The same for a wave_mma op; also NULL if it is not a register tile. */
const CpuDot *cpu_dot_for(Llvm *p, const Op *op);

/* The number of elements to load at a time if A is broadcast to all lanes, or segments, of a
 * register; 0: A is used as it is stored. */
int cpu_dot_repeats(const Llvm *p, const CpuDot *dot);

/* The index of (row, k) in a fragment of `rows` rows. */
int cpu_index_in(int rows, int k_group, int row, int k);

/* ---- matrix registers (cpu_matrix.c) ---- */

void cpu_matrix_product(TileMma *t, const CpuDot *dot, Held *acc, Held *to);

#endif
