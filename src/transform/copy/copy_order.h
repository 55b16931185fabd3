/* copy_order.h: in which order the rows of an allocation follow each other.
 *
 *     [128, 32] d1/32:1 d0/128:32                          as the dims say
 *     [128, 32] d0/128:1 d1/32:128                         dim 0 is contiguous
 *     [128, 32] d0/128:1 d1/4:128 d1/2:2048 d1/4:512       so that rows 0-3 and 8-11 follow each other */
#ifndef WV_COPY_ORDER_H
#define WV_COPY_ORDER_H

#include "layout/mem_layout.h"

/* The dims of an allocation, or digits of them, slowest first; the contiguous dim is last. */
typedef struct CopyOrder {
  Digit at[LAYOUT_DIMS]; /* stride: in coordinates */
  int n, inner;
  int dims, extent[LAYOUT_DIMS];
} CopyOrder;

CopyOrder copy_order_with(const MemLayout *rows, int inner);

/* Rows that the lanes of a wave address together follow each other. False: they overlap. */
bool copy_order_by_lanes(const MemLayout *rows, const Layout *lanes, int inner, CopyOrder *out);

/* Plain rows in that order, in which each digit is a dim. */
MemLayout copy_order_rows(const CopyOrder *o, int bits);

/* A layout of such rows, for the dims of the allocation. */
MemLayout copy_order_undo(const CopyOrder *o, const MemLayout *m);

#endif
