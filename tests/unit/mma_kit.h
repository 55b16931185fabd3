/* mma_kit.h: a matmul computed densely in float64, to compare with the one an instruction computes
 * on fragments. Used by the tests that execute the rows of mma.def in the simulator.
 *
 * Operands are A[m][k], B[n][k], C[m][n], scales SA[m][k/32], SB[n][k/32], all in float64 and
 * quantised to their types. EXACT: small multiples of 1/2, whose products and sums every
 * accumulator represents exactly, so that results must be equal. ROUGH: any values of the type near
 * 1; then a result may be wrong by half a unit of the accumulator for each instruction that rounds,
 * relative to the sum of the products' magnitudes. */
#ifndef WV_MMA_KIT_H
#define WV_MMA_KIT_H

#include <math.h>

#include "layout/mem_layout.h"
#include "unit/sim_kit.h"

typedef enum Values { EXACT, ROUGH } Values;

typedef struct Dense {
  Arena *arena;
  int m, n, k;
  DType type[MMA_OPERANDS];
  double *at[MMA_OPERANDS]; /* NULL: no such operand */
  double *sum, *size;       /* the expected result; the sum of magnitudes */
  Values values;
  bool tf32; /* operands are read without their last 13 bits */
  uint64_t seed;
} Dense;

static inline int dense_columns(const Dense *d, MmaOperand o) {
  return o == MMA_C ? d->n : o == MMA_A || o == MMA_B ? d->k : d->k / 32;
}
static inline int dense_rows(const Dense *d, MmaOperand o) {
  return o == MMA_B || o == MMA_SB ? d->n : d->m;
}

static inline uint64_t dense_bits(Dense *d) {
  d->seed = d->seed * 6364136223846793005u + 1442695040888963407u;
  return d->seed >> 33;
}

static inline double dense_value(Dense *d, MmaOperand o) {
  DType t = d->type[o];
  if (o == MMA_SA || o == MMA_SB) return ldexp(1, (int)(dense_bits(d) % 5) - 2);
  if (!dtype_is_float(t)) return (double)((int)(dense_bits(d) % 201) - 100);
  if (d->values == EXACT) return 0.5 * ((int)(dense_bits(d) % 9) - 4);
  return dtype_round(t, ((double)dense_bits(d) / 0x7fffffff - 0.5) * 4);
}

static inline double dense_read(const Dense *d, MmaOperand o, int row, int column) {
  double v = d->at[o][row * dense_columns(d, o) + column];
  if (!d->tf32 || o == MMA_C) return v;
  float f = (float)v;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  bits &= 0xffffe000u;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static inline void dense_multiply(Dense *d) {
  d->sum = ARENA_ARRAY(d->arena, double, d->m * d->n);
  d->size = ARENA_ARRAY(d->arena, double, d->m * d->n);
  for (int i = 0; i < d->m; i++)
    for (int j = 0; j < d->n; j++) {
      double sum = dense_read(d, MMA_C, i, j), size = fabs(sum);
      for (int e = 0; e < d->k; e++) {
        double product = dense_read(d, MMA_A, i, e) * dense_read(d, MMA_B, j, e);
        if (d->at[MMA_SA])
          product *=
              d->at[MMA_SA][i * (d->k / 32) + e / 32] * d->at[MMA_SB][j * (d->k / 32) + e / 32];
        sum += product;
        size += fabs(product);
      }
      d->sum[i * d->n + j] = sum;
      d->size[i * d->n + j] = size;
    }
}

/* Operands with random values; scaled: with scales. */
static inline void dense_fill(Dense *d, bool scaled) {
  for (int o = 0; o < MMA_OPERANDS; o++) {
    if (!scaled && (o == MMA_SA || o == MMA_SB)) continue;
    int n = dense_rows(d, (MmaOperand)o) * dense_columns(d, (MmaOperand)o);
    d->at[o] = ARENA_ARRAY(d->arena, double, n);
    for (int i = 0; i < n; i++) d->at[o][i] = dense_value(d, (MmaOperand)o);
  }
  dense_multiply(d);
}

/* `steps`: how often an accumulator was rounded. */
static inline bool dense_agrees(const Dense *d, int i, int j, double got, int steps) {
  double want = d->sum[i * d->n + j], size = d->size[i * d->n + j];
  DType t = d->type[MMA_C];
  double unit = dtype_is_float(t) && d->values == ROUGH ? ldexp(1, -dtype_info[t].mantissa) : 0;
  if (t == DTYPE_f64) unit = ldexp(1, -45); /* the float64 sum itself is rounded */
  if (fabs(got - want) <= unit * steps * size) return true;
  printf("element (%d, %d) is %.17g, expected %.17g\n", i, j, got, want);
  return false;
}

static inline const char *vec_text(Arena *a, int n, DType t) {
  return n == 1 ? dtype_info[t].name : arena_printf(a, "vec<%d, %s>", n, dtype_info[t].name);
}

/* The dtypes of types.def that a row accepts; tf32 is an f32. */
static inline unsigned mma_type_bits(const MmaInfo *row, DType t) {
  unsigned bits = (unsigned)dtype_mma(t);
  if (t == DTYPE_f32) bits |= (unsigned)MMA_tf32;
  return bits & row->operand_types;
}

/* Whether the machine has the row, and multiplies these types with it. */
static inline bool multiplies(const TargetInfo *t, const MmaInfo *row, DType a, DType b) {
  unsigned types = target_mma_types(t, row);
  return target_has_mma(t, row) && row->lanes % t->lanes == 0 && (row->mixed || a == b) &&
         (types & mma_type_bits(row, a)) && (types & mma_type_bits(row, b));
}

/* The accumulator's dtype: rows have one. */
static inline DType acc_type(const MmaInfo *row) {
  for (int t = 0; t < DTYPE_COUNT; t++)
    if (row->acc_types & (unsigned)dtype_mma((DType)t)) return (DType)t;
  return DTYPE_f32;
}

/* Everything: `make test-full`. Otherwise a sample. */
static inline bool full_test(void) { return getenv("TEST_FULL") != NULL; }

#endif
