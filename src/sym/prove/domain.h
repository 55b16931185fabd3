/* domain.h: what is known about a value: interval x lattice x bits.
 *
 * The three parts refine each other (dom_reduce): the ends of the interval move onto the lattice, a
 * lattice whose step is a power of two fixes the low bits, and an interval fixes the high bits. The
 * lattice is rational, so that K/32 with 256 | K is known to be a multiple of 8. Every operation
 * over-approximates: its result contains every value that the operands allow. */
#ifndef WV_SYM_DOMAIN_H
#define WV_SYM_DOMAIN_H

#include "sym/rational.h"

typedef struct Dom {
  Rat lo, hi;           /* inclusive, may be infinite; lo > hi: no value at all */
  bool lattice;         /* the value is offset + step*k for some integer k; step 0: a constant */
  Rat step, offset;     /* step >= 0; offset in [0, step) unless step is 0 */
  uint64_t zeros, ones; /* bits of the two's complement value known to be 0, to be 1 (integers) */
} Dom;

Dom dom_any(void);
Dom dom_integer(void);
Dom dom_const(Rat v);
Dom dom_range(Rat lo, Rat hi); /* of integers */
bool dom_empty(const Dom *d);
bool dom_is_const(const Dom *d, Rat *v);
bool dom_is_integer(const Dom *d);
void dom_reduce(Dom *d);

Dom dom_meet(Dom a, Dom b); /* both hold */
Dom dom_join(Dom a, Dom b); /* one of them holds */
Dom dom_add(Dom a, Dom b);
Dom dom_scale(Dom a, Rat c);
Dom dom_mul(Dom a, Dom b);
Dom dom_inverse(Dom a);
Dom dom_floor(Dom a);
Dom dom_ceil(Dom a);
Dom dom_mod(Dom a, Dom m);
Dom dom_min(Dom a, Dom b);
Dom dom_max(Dom a, Dom b);
Dom dom_xor(Dom a, Dom b);

#endif
