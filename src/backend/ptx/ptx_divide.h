/* ptx_divide.h: what a division by a known number multiplies by. */
#ifndef WV_PTX_DIVIDE_H
#define WV_PTX_DIVIDE_H

#include <stdint.h>

/* The quotient of x toward zero is ((x * factor >> bits) + add * x >> shift), plus 1 where that is
 * negative; the factor is signed, of so many bits. */
typedef struct Divide {
  uint64_t factor;
  int shift, add;
} Divide;

Divide divide_by(int64_t d, int bits); /* d is not 0, 1 or -1, nor the least integer of 64 bits */

#endif
