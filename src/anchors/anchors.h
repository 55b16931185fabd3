/* anchors.h: the tiles whose layouts are fixed or preferred.
 *
 * An anchor is a tile whose layout matters, and the layout it should have:
 *
 *     RESULT     of a matrix instruction: produced in this layout
 *     OPERAND    of a matrix instruction: required in this layout, or converted to it
 *     REDUCTION  neighbours along the dim in neighbouring lanes, waves along other dims
 *     MEMORY     vectors along the contiguous dim of a read or write, adjacent lanes
 *
 * Stronger kinds come first; among equals, the one that moves more bytes, trip counts included;
 * then the one that comes first in the program. This order is total, so the winner does not depend
 * on the order in which anchors are found. */
#ifndef WV_ANCHORS_H
#define WV_ANCHORS_H

#include "analysis/distribute.h"
#include "target/target.h"

/* The machine that a row describes. */
static inline Machine machine_from(const TargetInfo *t, const MachineSpec *row) {
  int cluster = row->cluster > 1 ? row->cluster : 1;
  return (Machine){t, row->lanes, row->waves, row->observable, row->service, cluster};
}

typedef enum AnchorKind {
  ANCHOR_MEMORY,
  ANCHOR_REDUCTION,
  ANCHOR_OPERAND,
  ANCHOR_RESULT
} AnchorKind;

typedef struct Anchor {
  AnchorKind kind;
  Value *value;
  Layout layout;
  int64_t weight; /* bytes moved by a workgroup per launch, roughly */
  Op *op;         /* the op that the anchor belongs to */
  int operand;    /* which operand; -1: its result */
} Anchor;

typedef Vec(Anchor) Anchors;

/* Appends the anchors of every op, in program order; false after reporting a tile without
 * extents. */
bool find_anchors(const Distribution *d, const Machine *m, Arena *a, Anchors *out);

/* Rows of the tile are at most as long as what a thread reads at once: it can have whole rows, any of
 * them. */
bool anchor_has_short_rows(const Type *t, const int *extent);

bool anchor_before(const Anchor *x, const Anchor *y); /* x wins over y */

/* The layout of operand `operand` (-1: the result) of an mma; false: it stays in shared memory. */
bool anchor_mma(const Distribution *d, const Machine *m, Arena *a, Op *op, int operand,
                Layout *out);

/* An mma reads an operand from `memory` itself: it is shared memory, and no register holds it. */
bool anchor_takes_from(const Op *op, const Value *memory);

/* How an mma is divided into instructions: a wave's part is copies[0] x copies[1] of them along the
 * instruction's m and n, and copies[2] along k. False: the op has no instruction. */
typedef struct MmaDivision {
  const MmaInfo *row;
  const Sym *m, *n, *k; /* the program's dims that the instruction's dims run along */
  int copies[3];
  const Digits *order;     /* MmaChoice.order; NULL: k is not permuted */
  const Digits *across[2]; /* MmaChoice.across; NULL: a group's part of m or n is not permuted */
  int along[2], tile[2];   /* groups of waves along m and n, n counted first; elements per group */
  const Sym *batch; /* a dim of separate products that waves divide, `each` per group; NULL: none */
  int each;
} MmaDivision;
int mma_order_at(const Digits *order, int position); /* the element of k, m or n at a position */
bool anchor_mma_division(const Distribution *d, const Machine *m, Arena *a, Op *op,
                         MmaDivision *out);
/* The same, as if the op had this instruction. */
bool anchor_mma_division_by(const Distribution *d, const Machine *m, Arena *a, Op *op,
                            const MmaChoice *choice, MmaDivision *out);

/* ---- parts of fetches, matmuls and what is between them (anchor_parts.c) ---- */

/* Why an op has no `of` parts along a dimension, and the op to blame; NULL: it has. */
const char *anchor_whole(const Distribution *d, const Machine *m, Arena *a, Op *op, const Sym *dim,
                         int of, const Op **blame);
/* Whether a user of the op's result may use a part of it: as the operand of a matmul, or elementwise. */
bool anchor_takes_part(const Op *user, const Op *of);

/* A layout for a tile without anchors: contiguous along its last dim. */
Layout anchor_default(const Machine *m, const Type *t, const int *extent);

/* A layout for the tile of an access: contiguous like the memory, as far as its mapping shows. */
Layout anchor_access(const Distribution *d, const Machine *m, const Op *op, const Type *t,
                     const Type *memory, const int *extent);

/* ---- lane-observable kernels: as declared (anchor_declared.c) ---- */

/* Reports that a thread would hold too many elements; returns false. */
bool anchor_report_size(const Kernel *k, const Op *op, int64_t elements);
/* False after reporting a vector shape that the lanes do not fill, or one that is too large. */
bool anchor_declared_access(const Distribution *d, const Machine *m, Op *op, const Type *t,
                            const int *extent, Layout *out);
bool anchor_declared_reduction(const Distribution *d, const Machine *m, Op *op, const int *extent,
                               Layout *out);
/* The workgroup dimension whose declared waves divide `dim` (-1: none), and how many waves lie
 * along a dimension. */
int anchor_wave_axis(const Distribution *d, const Sym *dim);
int anchor_waves_on(const Distribution *d, int axis);
/* Whether those waves share the tile of a loop: they reduce along `dim` together. */
bool anchor_shares_loop(const Distribution *d, const Sym *dim);
/* How much of a dim one wave covers at a time; -1: not declared. */
int64_t anchor_vector_shape(const Distribution *d, const Op *op, const Sym *dim);
/* The layout in which every lane of a wave holds the same elements. */
Layout anchor_undivided(const Distribution *d, const Machine *m, const Op *op, const Type *t,
                        const int *extent);

#endif
