/* tensor_rows.h: the lengths of the rows of a tensor, as far as they are known or expected when a kernel is compiled. */
#ifndef WV_TENSOR_ROWS_H
#define WV_TENSOR_ROWS_H

#include "analysis/distribute.h"

enum { TENSOR_LINE = 128 }; /* bytes of a line of the cache */

/* Whether rows are known or expected to begin anywhere in a line. Those that are not multiples of 16 bytes do not
 * count: a launch copies them to whole lines first (driver/repack/). */
bool tensor_rows_cross(const Distribution *d, const Type *t);

#endif
