/* mma.h: matrix instructions as data.
 *
 * Every row computes acc[m, n] += sum over k of lhs[m, k] * rhs[n, k] on one tile. Its operands are
 * A = lhs over (m, k), B = rhs over (n, k), C = acc over (m, n), and for scaled rows SA over (m,
 * k/32) and SB over (n, k/32). The position of each element is a layout (layout.h), kept as text in
 * the row and parsed on demand. */
#ifndef WV_MMA_H
#define WV_MMA_H

#include "layout/layout.h"

typedef enum MmaForm {
  MMA_NATIVE,
  MMA_VIRTUAL, /* native instructions on slices of the registers: K in another order */
  MMA_SCALED,  /* with MX scales, one for 32 elements of K */
  MMA_DOT,     /* no instruction: products within lanes, summed over neighbours */
  MMA_TILE,    /* on a CPU: a row of register_tile.def */
} MmaForm;

typedef enum MmaOperand { MMA_A, MMA_B, MMA_C, MMA_SA, MMA_SB, MMA_OPERANDS } MmaOperand;

/* Element types, one bit each; the names are those of types.def, and tf32. */
typedef enum MmaType {
  MMA_f64 = 1 << 0,
  MMA_f32 = 1 << 1,
  MMA_tf32 = 1 << 2, /* an f32 of which only 19 bits are read */
  MMA_f16 = 1 << 3,
  MMA_bf16 = 1 << 4,
  MMA_f8e4m3fn = 1 << 5,
  MMA_f8e5m2 = 1 << 6,
  MMA_f8e4m3fnuz = 1 << 7,
  MMA_f8e5m2fnuz = 1 << 8,
  MMA_f6e2m3fn = 1 << 9,
  MMA_f4e2m1fn = 1 << 10,
  MMA_i32 = 1 << 11,
  MMA_i8 = 1 << 12,
  MMA_i16 = 1 << 13,
} MmaType;

/* How CPUs multiply (register_tile.def); bit numbers. */
typedef enum DotForm {
#define REGISTER_TILE(word, ...) DOT_##word,
#include "target/register_tile.def"
  DOT_COUNT
} DotForm;

typedef enum MmaStorage {
  MMA_REGISTERS = 1,
  MMA_SHARED = 2
} MmaStorage; /* where an operand may be */

typedef struct MmaInfo {
  const char *name;
  int code; /* in the public package's enumerations; 0: not public */
  MmaForm form;
  int m, n, k;
  int lanes;                         /* threads that execute it together: several waves for wgmma */
  int operand_elems, acc_elems;      /* of A and C per lane, as the public package reports them */
  unsigned operand_types, acc_types; /* MmaType */
  bool mixed;                        /* A and B may have different types from the set */
  unsigned storage_a, storage_b;     /* MmaStorage */
  unsigned needs;                    /* of features.def */
  DotForm tile;                      /* of MMA_TILE */
  const char *layout[MMA_OPERANDS];  /* digits; NULL: the operand does not exist or is never in
                                      * registers */
  const char *emit;                  /* the instruction's spelling, see mma.def */
} MmaInfo;

int mma_count(void);
const MmaInfo *mma_at(int i);              /* NULL past the end */
const MmaInfo *mma_find(const char *name); /* NULL: no such instruction */
/* The name of an instruction that the public package may spell `MMAType.NAME` or `MFMA_NAME`. */
const char *mma_plain_name(const char *spelled);

/* The register layout of an operand; false if it has none. */
bool mma_fragment(const MmaInfo *row, MmaOperand operand, Layout *out);

/* The tile an operand covers. */
void mma_extents(const MmaInfo *row, MmaOperand operand, int extent[2]);

/* How far K may be permuted, provided that A and B (and the scales) are permuted alike: whole
 * blocks of this many elements may be swapped, and elements within a block. k: freely. */
int mma_k_block(const MmaInfo *row);

bool mma_allows(const MmaInfo *row, MmaType a, MmaType b, MmaType acc);

/* Scaled instructions lay out 4- and 6-bit elements differently. Returns the row of the same
 * instruction whose types include this one; NULL: none. */
const MmaInfo *mma_for_type(const MmaInfo *row, MmaType type);

/* ---- rows made on demand: in the caller's arena, not in the table ---------------------------- */

typedef enum MmaAlong { MMA_ALONG_N, MMA_ALONG_M } MmaAlong;

typedef struct MmaDot {
  int out_vec, k_vec, k_mult;
  MmaAlong along; /* the dim that lanes are spread along */
} MmaDot;

/* GenericDot on a wave of `lanes`: each lane multiplies k_vec elements of K for out_vec results;
 * k_mult neighbouring lanes share a result. NULL: k_mult does not divide the lanes. */
const MmaInfo *mma_dot(Arena *a, MmaDot dot, int lanes);

typedef struct DotInfo {
  const char *word, *doc;
  int k, k_group_a, k_group_b, grain;
  bool squares;               /* results are in squares; otherwise in rows */
  unsigned types, from, sums; /* MmaType */
} DotInfo;

const DotInfo *dot_info(DotForm form);

/* A register tile of a CPU: m x n results. The form `tile` takes any k (0: that of its row), with
 * the elements of K of one step contiguous. */
const MmaInfo *mma_register_tile(Arena *a, DotForm form, int m, int n, int k);

/* A row of the table, or the register tile with a name such as `bfdot_8x48x2`; NULL: neither. */
const MmaInfo *mma_named(Arena *a, const char *name);

#endif
