/* tensor_rows.h: the lengths of the rows of a tensor, as far as they are known or expected when a kernel is compiled. */
#ifndef WV_TENSOR_ROWS_H
#define WV_TENSOR_ROWS_H

#include "analysis/distribute.h"

/* Bytes that rows may be multiples of. */
enum {
  TENSOR_LINE = 128, /* a line of the cache */
  TENSOR_PIECE = 16  /* what the copy engine requires; a launch copies tensors with other rows first */
};

/* Whether rows are known or expected not to be multiples of this many bytes, so that they begin anywhere
 * between them. */
bool tensor_rows_cross(const Distribution *d, const Type *t, int bytes);

#endif
