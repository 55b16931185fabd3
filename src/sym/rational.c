/* rational.c: arithmetic with 128-bit intermediates, so that only results can overflow. */
#include "sym/rational.h"

int64_t int_gcd(int64_t a, int64_t b) {
  uint64_t x = (uint64_t)(a < 0 ? -a : a), y = (uint64_t)(b < 0 ? -b : b);
  while (y) {
    uint64_t t = x % y;
    x = y, y = t;
  }
  return (int64_t)x;
}

bool int_lcm(int64_t a, int64_t b, int64_t *out) {
  if (a == b) return *out = a, true;
  int64_t l;
  if (__builtin_mul_overflow(a / int_gcd(a, b), b, &l) || l == INT64_MIN) return false;
  return *out = l, true;
}

int64_t int_floordiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t int_mod(int64_t a, int64_t b) {
  int64_t r = a % b;
  return r && (r < 0) != (b < 0) ? r + b : r;
}

static Wide wide_gcd(Wide x, Wide y) {
  if (x < 0) x = -x;
  if (y < 0) y = -y;
  while (y) {
    if (x <= INT64_MAX && y <= INT64_MAX) return int_gcd((int64_t)x, (int64_t)y);
    Wide t = x % y;
    x = y, y = t;
  }
  return x;
}

static bool fits(Wide x) { return x <= INT64_MAX && x >= -INT64_MAX; }

bool rat_make(Wide num, Wide den, Rat *out) {
  if (den < 0) num = -num, den = -den;
  if (fits(num) && fits(den)) { /* nearly always */
    int64_t n = (int64_t)num, d = (int64_t)den, g = d == 1 ? 1 : int_gcd(n, d);
    return *out = g == 1 ? (Rat){n, d} : (Rat){n / g, d / g}, true;
  }
  Wide g = wide_gcd(num, den);
  num /= g, den /= g;
  if (!fits(num) || !fits(den)) return false;
  return *out = (Rat){(int64_t)num, (int64_t)den}, true;
}

bool rat_add_fractions(Rat a, Rat b, Rat *out) {
  if (a.den == b.den) return rat_make((Wide)a.num + b.num, a.den, out);
  /* |num| < 2^63 and den < 2^63, so each product is below 2^126 and the sum below 2^127. */
  return rat_make((Wide)a.num * b.den + (Wide)b.num * a.den, (Wide)a.den * b.den, out);
}

bool rat_mul_fractions(Rat a, Rat b, Rat *out) {
  return rat_make((Wide)a.num * b.num, (Wide)a.den * b.den, out);
}

bool rat_div(Rat a, Rat b, Rat *out) {
  if (rat_is(b, 1)) return *out = a, true;
  if (a.den == 1 && b.den == 1 && b.num && a.num % b.num == 0)
    return *out = rat_int(a.num / b.num), true;
  return b.num != 0 && rat_make((Wide)a.num * b.den, (Wide)a.den * b.num, out);
}

bool rat_pow(Rat a, int64_t e, Rat *out) {
  if (e == 1) return *out = a, true;
  if (e < 0) {
    if (a.num == 0) return false;
    a = a.num < 0 ? (Rat){-a.den, -a.num} : (Rat){a.den, a.num};
    e = -e;
    if (e == 1) return *out = a, true;
  }
  if (a.num == 0 || rat_is(a, 1)) return *out = e ? a : RAT_ONE, true;
  if (rat_is(a, -1)) return *out = rat_int(e % 2 ? -1 : 1), true;
  Rat r = RAT_ONE;
  for (int64_t i = 0; i < e; i++)
    if (i == 64 || !rat_mul(r, a, &r)) return false; /* |num| or den >= 2: 2^64 is too large */
  return *out = r, true;
}

int rat_cmp_fractions(Rat a, Rat b) {
  if (!a.den || !b.den) {
    int64_t x = a.den ? 0 : a.num, y = b.den ? 0 : b.num;
    return (x > y) - (x < y);
  }
  Wide x = (Wide)a.num * b.den, y = (Wide)b.num * a.den;
  return (x > y) - (x < y);
}

int64_t rat_floor(Rat a) { return a.den == 1 ? a.num : int_floordiv(a.num, a.den); }
int64_t rat_ceil(Rat a) { return a.den == 1 ? a.num : -int_floordiv(-a.num, a.den); }

bool rat_gcd(Rat a, Rat b, Rat *out) {
  int64_t den;
  if (a.den == 1 && b.den == 1) return *out = rat_int(int_gcd(a.num, b.num)), true;
  if (!int_lcm(a.den, b.den, &den)) return false;
  Wide x = (Wide)a.num * (den / a.den), y = (Wide)b.num * (den / b.den);
  return rat_make(wide_gcd(x, y), den, out);
}

bool rat_mod(Rat a, Rat m, Rat *out) {
  Rat q, p;
  if (a.den == 1 && m.den == 1) return *out = rat_int(int_mod(a.num, m.num)), true;
  return rat_div(a, m, &q) && rat_mul(m, rat_int(rat_floor(q)), &p) && rat_sub(a, p, out);
}
