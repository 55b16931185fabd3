/* im2col.h: tensor copies that walk over the pixels of images, for convolutions.
 *
 * A tensor is [image, pixels ..., channel] with one to three dims of pixels. A copy begins at a
 * pixel and goes on along the innermost of these dims; behind the greatest coordinate of one it
 * goes back to the least and takes a step along the next, at last to the next image. What it reads
 * there lies `taps` further on, which is where a filter looks: outside of the tensor are zeros. */
#ifndef WV_IM2COL_H
#define WV_IM2COL_H

#include <stdbool.h>
#include <stdint.h>

enum { IM2COL_DIMS = 3, IM2COL_PIXELS = 1024, IM2COL_CHANNELS = 256, IM2COL_STEP = 8 };

typedef struct Im2col {
  int dims;                     /* of pixels; all arrays have the outermost first */
  int64_t lowest[IM2COL_DIMS];  /* coordinate */
  int64_t highest[IM2COL_DIMS]; /* coordinate, minus that of the tensor's last pixel */
  int64_t step[IM2COL_DIMS];    /* from a pixel to the next */
} Im2col;

/* What the hardware can be told with so many dims: corners are in [-reach, reach), taps in [0, 2
 * reach). */
static inline int64_t im2col_reach(int dims) {
  return INT64_C(1) << (dims == 1 ? 15 : dims == 2 ? 7 : 4);
}

/* There are pixels, and `at` (image, pixel) is one of them; the image is any. size: of the tensor,
 * the image first. */
bool im2col_is_inside(const Im2col *m, const int64_t *size, const int64_t *at);

/* The pixel `n` further on. */
void im2col_walk(const Im2col *m, const int64_t *size, int64_t n, int64_t *at);

#endif
