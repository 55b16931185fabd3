/* wavec_data.c: makes up the arguments of `wavec run` that are not given, from a seed.
 *
 * Elements of a tensor differ from one another, so that a wrong index shows in the result. If a
 * type has fewer values than the tensor has elements, every run of that many elements holds each
 * value once. Floats are between -0.5 and 1.5, so that sums do not cancel, and are never zero;
 * integers count from 0.
 *
 * With --data=exact, floats are multiples of 1/8 between -1 and 1, and integers are between 0 and
 * 7: many are equal, but a sum of their products is exact, so that its bits do not depend on the
 * order of addition. */
#include <math.h>
#include <string.h>

#include "wavec.h"

static uint64_t mix(uint64_t z) { /* the output function of splitmix64 */
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* Number `x` in a random order of the integers below 2^bits: every step is a bijection. */
static uint64_t shuffled(uint64_t x, int bits, uint64_t seed) {
  uint64_t mask = (UINT64_C(1) << bits) - 1;
  x &= mask;
  for (uint64_t round = 0; round < 3; round++) {
    uint64_t key = mix(seed + round);
    x = (x * (key | 1) + (key >> 32)) & mask;
    x ^= x >> (bits / 2 + 1);
  }
  return x;
}

static bool holds(const char *dtype, double value) {
  uint64_t element = 0;
  wv_data_set(dtype, &element, 0, value);
  return wv_data_get(dtype, &element, 0) == value;
}

/* The number of significand bits of a float. */
static int significand(const char *dtype) {
  int bits = 1;
  while (bits < 53 && holds(dtype, 1 + ldexp(1, -bits))) bits++;
  return bits;
}

MadeData made_data(const Options *o, const char *dtype) {
  const char *class = "";
  int bits = 0;
  for (int i = 0; i < wv_dtype_count(); i++)
    if (strcmp(wv_dtype_name(i, &bits, &class), dtype) == 0) break;
  MadeData how = {.exact = o->data && strcmp(o->data, "exact") == 0,
                  .is_float = strcmp(class, "float") == 0,
                  .is_signed = holds(dtype, -1)};
  how.bits = how.is_float ? significand(dtype) : bits > 1 ? bits - 1 : 1;
  return how;
}

static double exact_value(const MadeData *how, uint64_t random) {
  if (how->bits == 1 && !how->is_float) return (double)(random % 2);
  return how->is_float ? ((double)(random % 17) - 8) / 8 : (double)(random % 8);
}

double made_value(const MadeData *how, int64_t i, int64_t n, uint64_t seed) {
  uint64_t at = (uint64_t)i;
  if (how->exact)
    return exact_value(how, mix(seed + (at + 1) * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
  int bits = 1;
  while (bits < how->bits && INT64_C(1) << bits < n) bits++;
  uint64_t number = shuffled(at, bits, mix(seed + (at >> bits)));
  if (!how->is_float) return (double)number;
  if (!how->is_signed) return ldexp(1, (int)number); /* f8e8m0fnu: powers of two */
  double from_zero = (double)number - ldexp(1, bits - 2);
  return ldexp(from_zero < 0 ? from_zero : from_zero + 1, 1 - bits);
}
