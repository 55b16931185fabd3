/* clip.h: tensor copies whose rows end before the tensor does.
 *
 * A tensor map says where the tensor ends, but where a sequence ends in a tensor of many is only
 * known to the workgroup that copies it. The map of a clipped dim has 2^30 rows, of which a box
 * takes the last n, those before the end, and two more dims that lead the address back to the
 * tensor:
 *
 *     dim     stride      coordinate
 *     row     s           2^30 - n
 *     above   s           first + n
 *     back    2^34 - s    2^30            the product is -2^30 s, in 64 bits
 *
 * The products add up to s * first, and row i of the box is inside the map if i < n; the copy fills
 * the others with zeros. The first row must not be negative. */
#ifndef WV_CLIP_H
#define WV_CLIP_H

#include <stdint.h>

enum {
  CLIP_ROWS = 1 << 30,
  CLIP_RANK = 3 /* at most, so that the map has no more than five dims */
};

static inline uint64_t clip_back(uint64_t stride) { return (UINT64_C(1) << 34) - stride; }

#endif
