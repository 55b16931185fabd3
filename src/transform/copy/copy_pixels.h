/* copy_pixels.h: a copy that gathers the patches of a convolution, as a walk over pixels (im2col).
 *
 *     copy %x, %s {mapping: [N, H, W, C] of ($x0, $x1)}
 *         image    floor($x0/(P*Q))
 *         row      2*Mod(floor($x0/Q), P) - 1 + r($x1)
 *         column   2*Mod($x0, Q) - 1 + s($x1)
 *         channel  Mod($x1, C)
 *
 * A row of the tile is a pixel, a column is a channel seen through a tap (r, s) of the filter: the
 * copy engine walks along rows, starting at -1 in steps of 2 while Q of them fit
 * (target/maps/im2col.h). */
#ifndef WV_COPY_PIXELS_H
#define WV_COPY_PIXELS_H

#include "analysis/access/in_bounds.h"
#include "target/maps/im2col.h"

typedef struct CopyPixels {
  Im2col walk;                    /* dims 0: not such a walk */
  int pixel, channel;             /* axes of the tile */
  const Sym *at[IM2COL_DIMS + 1]; /* image and pixel, over $x(pixel) */
  const Sym *first;               /* channel, over $x(channel) */
  const Sym *tap[IM2COL_DIMS];    /* over $x(channel): uniform over a tile */
  const Sym *count;               /* of all pixels */
} CopyPixels;

/* extent: of the tile. False: it is not such a copy, or not known to be one. */
bool copy_pixels(const Distribution *d, const AccessBounds *b, const int *extent, CopyPixels *out);

#endif
