/* ptx_divide.h: the multiplier for a division by a constant. */
#ifndef WV_PTX_DIVIDE_H
#define WV_PTX_DIVIDE_H

#include <stdint.h>

/* The quotient of x, rounded toward zero, is ((x * factor >> bits) + add * x >> shift), plus 1
 * where that is negative; the factor is a signed number of that many bits. */
typedef struct Divide {
  uint64_t factor;
  int shift, add;
} Divide;

Divide divide_by(int64_t d, int bits); /* d is not 0, 1 or -1, nor INT64_MIN */

#endif
