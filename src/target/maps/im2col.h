/* im2col.h: tensor copies that traverse the pixels of images, for convolutions.
 *
 * A tensor is [image, pixels ..., channel] with one to three pixel dims. A copy begins at a pixel
 * and continues along the innermost of these dims; past the highest coordinate it wraps to the
 * lowest and advances by one step along the next dim, finally to the next image. It reads `taps`
 * further on from each pixel, where the filter looks; positions outside the tensor read as zero. */
#ifndef WV_IM2COL_H
#define WV_IM2COL_H

#include <stdbool.h>
#include <stdint.h>

enum { IM2COL_DIMS = 3, IM2COL_PIXELS = 1024, IM2COL_CHANNELS = 256, IM2COL_STEP = 8 };

typedef struct Im2col {
  int dims;                     /* pixel dims; all arrays list the outermost first */
  int64_t lowest[IM2COL_DIMS];  /* coordinate */
  int64_t highest[IM2COL_DIMS]; /* coordinate, minus that of the tensor's last pixel */
  int64_t step[IM2COL_DIMS];    /* from a pixel to the next */
} Im2col;

/* The ranges that the hardware encodes for this many dims: corners are in [-reach, reach), taps in
 * [0, 2 reach). */
static inline int64_t im2col_reach(int dims) {
  return INT64_C(1) << (dims == 1 ? 15 : dims == 2 ? 7 : 4);
}

/* There are pixels, and `at` (image, pixel) is one of them, in any image. size: of the tensor, the
 * image first. */
bool im2col_is_inside(const Im2col *m, const int64_t *size, const int64_t *at);

/* Advances `at` by `n` pixels. */
void im2col_walk(const Im2col *m, const int64_t *size, int64_t n, int64_t *at);

#endif
