/* rational.h: checked 64-bit rationals, with infinities for the ends of intervals.
 *
 * A finite rational has den > 0 and is in lowest terms. den == 0 is an infinity (num is +1 or -1)
 * and occurs only as the end of an interval. INT64_MIN is never a numerator, so negation is always
 * exact. Operations that can overflow return false and leave *out unchanged. */
#ifndef WV_SYM_RATIONAL_H
#define WV_SYM_RATIONAL_H

#include "base/base.h"

__extension__ typedef __int128 Wide;

typedef struct Rat {
  int64_t num, den;
} Rat;

#define RAT_ZERO ((Rat){0, 1})
#define RAT_ONE ((Rat){1, 1})
#define RAT_INF ((Rat){1, 0})
#define RAT_MINUS_INF ((Rat){-1, 0})

static inline Rat rat_int(int64_t v) { return (Rat){v, 1}; }
static inline bool rat_is_int(Rat a) { return a.den == 1; }
static inline bool rat_is(Rat a, int64_t v) { return a.num == v && a.den == 1; }
static inline bool rat_eq(Rat a, Rat b) { return a.num == b.num && a.den == b.den; }
static inline bool rat_finite(Rat a) { return a.den != 0; }
static inline Rat rat_neg(Rat a) { return (Rat){-a.num, a.den}; }

int64_t int_gcd(int64_t a, int64_t b); /* >= 0 */
bool int_lcm(int64_t a, int64_t b, int64_t *out);
int64_t int_floordiv(int64_t a, int64_t b); /* b != 0, no INT64_MIN */
int64_t int_mod(int64_t a, int64_t b);      /* sign of b */

bool rat_make(Wide num, Wide den, Rat *out); /* den != 0 */

/* For any operands. The inline functions below call these only when an operand is not an integer,
 * which is rare. */
bool rat_add_fractions(Rat a, Rat b, Rat *out);
bool rat_mul_fractions(Rat a, Rat b, Rat *out);
int rat_cmp_fractions(Rat a, Rat b);

static inline bool rat_add(Rat a, Rat b, Rat *out) {
  int64_t sum;
  if (b.num == 0) return *out = a, true;
  if (a.den != 1 || b.den != 1) return rat_add_fractions(a, b, out);
  if (__builtin_add_overflow(a.num, b.num, &sum) || sum == INT64_MIN) return false;
  return *out = rat_int(sum), true;
}

static inline bool rat_sub(Rat a, Rat b, Rat *out) { return rat_add(a, rat_neg(b), out); }

static inline bool rat_mul(Rat a, Rat b, Rat *out) {
  int64_t product;
  if (rat_is(b, 1)) return *out = a, true;
  if (rat_is(a, 1)) return *out = b, true;
  if (a.den != 1 || b.den != 1) return rat_mul_fractions(a, b, out);
  if (__builtin_mul_overflow(a.num, b.num, &product) || product == INT64_MIN) return false;
  return *out = rat_int(product), true;
}

/* Handles infinities. */
static inline int rat_cmp(Rat a, Rat b) {
  if (a.den == b.den && a.den) return (a.num > b.num) - (a.num < b.num);
  return rat_cmp_fractions(a, b);
}

bool rat_div(Rat a, Rat b, Rat *out); /* false for b == 0 too */
bool rat_pow(Rat a, int64_t e, Rat *out);
int64_t rat_floor(Rat a);
int64_t rat_ceil(Rat a);

/* The largest g with a and b both integer multiples of it; gcd(0, b) = |b|. */
bool rat_gcd(Rat a, Rat b, Rat *out);

/* a - m*floor(a/m), m > 0. */
bool rat_mod(Rat a, Rat m, Rat *out);

#endif
