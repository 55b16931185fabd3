/* test_ptx_divide.c: multiplications that replace divisions, as the emitter writes them. */
#include "backend/ptx/ptx_divide.h"
#include "base/base.h"
#include "unit/harness.h"

/* The upper half of a 64-bit multiplication, computed from halves. */
static int64_t high64(int64_t a, int64_t b) {
  uint64_t al = (uint32_t)a, bl = (uint32_t)b;
  int64_t ah = a >> 32, bh = b >> 32;
  int64_t mid = (int64_t)(al * bl >> 32) + (int64_t)((uint64_t)ah * bl & UINT32_MAX) +
                (int64_t)((uint64_t)bh * al & UINT32_MAX);
  int64_t ab = (ah * (int64_t)bl) >> 32, ba = (bh * (int64_t)al) >> 32;
  return ah * bh + ab + ba + (mid >> 32);
}

static int64_t quotient(int64_t x, int64_t d, int bits) {
  Divide m = divide_by(d, bits);
  if (bits == 64) {
    int64_t q = (int64_t)((uint64_t)high64(x, (int64_t)m.factor) + (uint64_t)m.add * (uint64_t)x);
    q >>= m.shift;
    return q + (q < 0);
  }
  int32_t q = (int32_t)(uint32_t)((uint64_t)(x * (int32_t)(uint32_t)m.factor) >> 32);
  q = (int32_t)((uint32_t)q + (uint32_t)m.add * (uint32_t)x);
  q >>= m.shift;
  return q + (q < 0);
}

static const int64_t small[] = {
    2,   3,   5,   6,   7,   9,    10,    11,         12,         25,         64,      100,
    125, 127, 128, 255, 641, 1000, 65535, 0x7ffffffe, 0x7fffffff, 0x40000000, 1 << 30, 715827883};
static const int64_t large[] = {INT64_C(1) << 40, INT64_C(10000000000),        INT64_MAX,
                                INT64_MAX - 1,    INT64_C(0x5555555555555556), INT64_C(1) << 62};

/* Near multiples of the divisor, near zero, and at both ends. */
static int wrong_of(int64_t d, int bits) {
  int64_t most = bits == 64 ? INT64_MAX : INT32_MAX, least = -most - 1;
  int wrong = 0;
  for (int64_t k = -300; k <= 300; k++) {
    int64_t at[] = {k, most - 300 + (k < 0 ? -k : k) % 301, least + 300 + k % 301};
    for (size_t i = 0; i < WV_LEN(at); i++) {
      if (bits == 32) at[i] = (int32_t)at[i];
      wrong += quotient(at[i], d, bits) != at[i] / d;
    }
    int64_t m = most / d / 14 * (k % 7), near = m - m % d;
    for (int64_t j = -2; j <= 2; j++) wrong += quotient(near + j, d, bits) != (near + j) / d;
  }
  return wrong;
}

TEST(quotients) {
  for (size_t i = 0; i < WV_LEN(small); i++) {
    CHECK_INT(wrong_of(small[i], 32), 0);
    CHECK_INT(wrong_of(-small[i], 32), 0);
    CHECK_INT(wrong_of(small[i], 64), 0);
    CHECK_INT(wrong_of(-small[i], 64), 0);
  }
  CHECK_INT(wrong_of(INT32_MIN, 32), 0);
  for (size_t i = 0; i < WV_LEN(large); i++) {
    CHECK_INT(wrong_of(large[i], 64), 0);
    CHECK_INT(wrong_of(-large[i], 64), 0);
  }
}

/* All divisors of a few bits, with the critical dividends: multiples, and one less. */
TEST(many_divisors) {
  int wrong = 0;
  for (int64_t d = 2; d < 3000; d++)
    for (int64_t k = 1; k < 40; k++) {
      int64_t x = INT32_MAX / k, m = x - x % d;
      wrong += quotient(m, d, 32) != m / d || quotient(m - 1, d, 32) != (m - 1) / d;
      wrong += quotient(-m, -d, 32) != m / d || quotient(1 - m, d, 32) != (1 - m) / d;
    }
  CHECK_INT(wrong, 0);
}

TESTS_MAIN(RUN(quotients) RUN(many_divisors))
