/* test_dtype.c: every float format of at most 16 bits, exhaustively compared with an independent
 * definition (value tables and nearest-neighbour search), wider ones at their edges. */
#include "ir/dtype.h"

#include <math.h>

#include "unit/harness.h"

static const DType small_floats[] = {
    DTYPE_f16,        DTYPE_bf16,      DTYPE_f8e4m3fn, DTYPE_f8e4m3fnuz, DTYPE_f8e5m2,
    DTYPE_f8e5m2fnuz, DTYPE_f8e8m0fnu, DTYPE_f6e2m3fn, DTYPE_f4e2m1fn,
};

static uint64_t codes(DType t) { return (uint64_t)1 << dtype_info[t].bits; }

static bool same(double a, double b) {
  return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

/* The definition of the format: sign, exponent and mantissa fields and the special codes. */
static double by_the_book(DType t, uint64_t code) {
  int m = dtype_info[t].mantissa, e = dtype_info[t].exponent;
  int field = (int)(code >> m & (((uint64_t)1 << e) - 1));
  int mantissa = (int)(code & (((uint64_t)1 << m) - 1)), top = (1 << e) - 1;
  double sign = code >> (e + m) & 1 ? -1 : 1;
  int bias = (1 << (e - 1)) - 1;
  if (t == DTYPE_f8e8m0fnu) return code == 255 ? NAN : pow(2, (double)code - 127);
  if (t == DTYPE_f8e4m3fnuz || t == DTYPE_f8e5m2fnuz) {
    if (code == 0x80) return NAN;
    bias++;
  } else if (t == DTYPE_f8e4m3fn) {
    if (field == top && mantissa == 7) return NAN;
  } else if (dtype_info[t].bits >= 8 && field == top) {
    return mantissa ? NAN : sign * INFINITY;
  }
  double fraction = mantissa / pow(2, m);
  return sign * (field ? (1 + fraction) * pow(2, field - bias) : fraction * pow(2, 1 - bias));
}

TEST(decode_every_code) {
  for (size_t i = 0; i < WV_LEN(small_floats); i++) {
    DType t = small_floats[i];
    int wrong = 0;
    for (uint64_t c = 0; c < codes(t); c++) wrong += !same(dtype_decode(t, c), by_the_book(t, c));
    if (wrong) printf("%s: %d codes\n", dtype_info[t].name, wrong);
    CHECK_INT(wrong, 0);
  }
}

TEST(encode_gives_every_code_back) {
  for (size_t i = 0; i < WV_LEN(small_floats); i++) {
    DType t = small_floats[i];
    int wrong = 0;
    for (uint64_t c = 0; c < codes(t); c++) wrong += dtype_encode(t, dtype_decode(t, c)) != c;
    if (wrong) printf("%s: %d codes\n", dtype_info[t].name, wrong);
    CHECK_INT(wrong, 0);
  }
}

/* Between two neighbouring values: the halfway point rounds to the even code, anything else to the
 * nearer one. */
TEST(round_to_nearest_even) {
  for (size_t i = 0; i < WV_LEN(small_floats); i++) {
    DType t = small_floats[i];
    int wrong = 0;
    uint64_t last = codes(t) / (t == DTYPE_f8e8m0fnu ? 1 : 2) - 1;
    for (uint64_t c = 0; c < last; c++) {
      double a = dtype_decode(t, c), b = dtype_decode(t, c + 1), half = a + (b - a) / 2;
      if (!isfinite(a) || !isfinite(b)) break;
      uint64_t even = t == DTYPE_f8e8m0fnu || (c & 1) ? c + 1 : c;
      wrong += dtype_encode(t, half) != even;
      wrong += dtype_encode(t, nextafter(half, a)) != c;
      wrong += dtype_encode(t, nextafter(half, b)) != c + 1;
      if (t == DTYPE_f8e8m0fnu) continue;
      uint64_t sign = codes(t) / 2, minus = even || !signbit(dtype_decode(t, 0)) ? even : 0;
      bool fnuz = t == DTYPE_f8e4m3fnuz || t == DTYPE_f8e5m2fnuz;
      wrong += dtype_encode(t, -half) != (minus == 0 && fnuz ? 0 : sign | minus);
    }
    if (wrong) printf("%s: %d points\n", dtype_info[t].name, wrong);
    CHECK_INT(wrong, 0);
  }
}

typedef struct Edge {
  DType t;
  double v;
  uint64_t code;
} Edge;

TEST(overflow_nan_and_zero) {
  static const Edge edges[] = {
      {DTYPE_f16, 65504, 0x7bff},
      {DTYPE_f16, 65519.99, 0x7bff},
      {DTYPE_f16, 65520, 0x7c00},
      {DTYPE_f16, -1e9, 0xfc00},
      {DTYPE_f16, NAN, 0x7e00},
      {DTYPE_f16, -0.0, 0x8000},
      {DTYPE_f16, 0x1p-24, 1},
      {DTYPE_f16, 0x1p-25, 0},
      {DTYPE_f16, 0x1.8p-25, 1},
      {DTYPE_bf16, 3.4e38, 0x7f80},
      {DTYPE_bf16, INFINITY, 0x7f80},
      {DTYPE_f8e4m3fn, 448, 0x7e},
      {DTYPE_f8e4m3fn, 464, 0x7e},
      {DTYPE_f8e4m3fn, 465, 0x7f},
      {DTYPE_f8e4m3fn, -1e6, 0xff},
      {DTYPE_f8e4m3fn, INFINITY, 0x7f},
      {DTYPE_f8e4m3fn, -0.0, 0x80},
      {DTYPE_f8e4m3fnuz, 240, 0x7f},
      {DTYPE_f8e4m3fnuz, 248, 0x80},
      {DTYPE_f8e4m3fnuz, -0.0, 0},
      {DTYPE_f8e4m3fnuz, -1e-9, 0},
      {DTYPE_f8e4m3fnuz, NAN, 0x80},
      {DTYPE_f8e5m2, 57344, 0x7b},
      {DTYPE_f8e5m2, 61440, 0x7c},
      {DTYPE_f8e5m2, -INFINITY, 0xfc},
      {DTYPE_f8e5m2fnuz, 57344, 0x7f},
      {DTYPE_f8e5m2fnuz, 1e9, 0x80},
      {DTYPE_f8e8m0fnu, 1, 127},
      {DTYPE_f8e8m0fnu, 0, 0},
      {DTYPE_f8e8m0fnu, 1e-300, 0},
      {DTYPE_f8e8m0fnu, -1, 255},
      {DTYPE_f8e8m0fnu, NAN, 255},
      {DTYPE_f8e8m0fnu, 1e300, 255},
      {DTYPE_f8e8m0fnu, 0x1p127, 254},
      {DTYPE_f8e8m0fnu, 2.9, 128},
      {DTYPE_f8e8m0fnu, 3, 129},
      {DTYPE_f6e2m3fn, 7.5, 0x1f},
      {DTYPE_f6e2m3fn, 100, 0x1f},
      {DTYPE_f6e2m3fn, -INFINITY, 0x3f},
      {DTYPE_f4e2m1fn, 6, 7},
      {DTYPE_f4e2m1fn, 1e9, 7},
      {DTYPE_f4e2m1fn, -5.1, 15},
      {DTYPE_f4e2m1fn, 5, 6},
      {DTYPE_f4e2m1fn, 0.25, 0},
      {DTYPE_f4e2m1fn, NAN, 7},
      {DTYPE_f32, 1e300, 0x7f800000},
      {DTYPE_f32, 0x1p-149, 1},
      {DTYPE_f32, 0x1p-150, 0},
      {DTYPE_f32, 16777217, 0x4b800000},
  };
  for (size_t i = 0; i < WV_LEN(edges); i++)
    CHECK_INT((long long)dtype_encode(edges[i].t, edges[i].v), (long long)edges[i].code);
}

/* Wide formats, compared with the machine's own conversions. */
TEST(f32_and_f64) {
  uint64_t seed = 1;
  int wrong = 0;
  for (int i = 0; i < 200000; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    double v;
    memcpy(&v, &seed, sizeof v);
    if (i & 1) v = ldexp(v, -(int)(seed >> 60) * 60); /* more of them near f32's range */
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(v)) continue;
    wrong += dtype_encode(DTYPE_f32, v) != bits;
    wrong += !same(dtype_round(DTYPE_f32, v), (double)f);
    wrong += !same(dtype_decode(DTYPE_f32, bits), (double)f);
    wrong += !same(dtype_decode(DTYPE_f64, dtype_encode(DTYPE_f64, v)), v);
  }
  CHECK_INT(wrong, 0);
  CHECK(dtype_encode(DTYPE_f32, dtype_decode(DTYPE_f32, 0x7f812345)) == 0x7f812345); /* payloads */
  CHECK(dtype_encode(DTYPE_f64, dtype_decode(DTYPE_f64, 0xfff0000000000001)) == 0xfff0000000000001);
}

TEST(round_is_the_value_of_encode) {
  for (size_t i = 0; i < WV_LEN(small_floats); i++)
    for (double v = -9; v < 9; v += 0.0625) {
      DType t = small_floats[i];
      CHECK(same(dtype_round(t, v), dtype_decode(t, dtype_encode(t, v))));
    }
}

TEST(extremes) {
  CHECK(dtype_highest(DTYPE_f16) == INFINITY && dtype_lowest(DTYPE_f16) == -INFINITY);
  CHECK(dtype_highest(DTYPE_f8e4m3fn) == 448 && dtype_lowest(DTYPE_f8e4m3fn) == -448);
  CHECK(dtype_highest(DTYPE_f4e2m1fn) == 6 && dtype_lowest(DTYPE_f8e8m0fnu) == 0x1p-127);
  CHECK(dtype_min_int(DTYPE_i8) == -128 && dtype_max_int(DTYPE_i4) == 7);
  CHECK(dtype_min_int(DTYPE_i1) == 0 && dtype_max_int(DTYPE_i1) == 1);
  CHECK(dtype_max_int(DTYPE_i64) == INT64_MAX && dtype_min_int(DTYPE_index) == INT64_MIN);
}

TEST(integers) {
  CHECK_INT(dtype_wrap(DTYPE_i8, 130), -126);
  CHECK_INT(dtype_wrap(DTYPE_i4, 7), 7);
  CHECK_INT(dtype_wrap(DTYPE_i4, 8), -8);
  CHECK_INT(dtype_wrap(DTYPE_i32, INT64_C(0x180000000)), INT32_MIN);
  CHECK_INT(dtype_wrap(DTYPE_i1, 6), 0);
  CHECK_INT(dtype_wrap(DTYPE_i1, -1), 1);
  CHECK_INT(dtype_wrap(DTYPE_i64, INT64_MIN), INT64_MIN);
  CHECK_INT(dtype_truncate(DTYPE_i32, -2.9), -2);
  CHECK_INT(dtype_truncate(DTYPE_i8, 1e9), 127);
  CHECK_INT(dtype_truncate(DTYPE_i8, -INFINITY), -128);
  CHECK_INT(dtype_truncate(DTYPE_i64, 1e300), INT64_MAX);
  CHECK_INT(dtype_truncate(DTYPE_i64, -0x1p63), INT64_MIN);
  CHECK_INT(dtype_truncate(DTYPE_i16, NAN), 0);
  CHECK_INT(dtype_truncate(DTYPE_i1, 0.5), 1);
  CHECK_INT((long long)dtype_int_bits(DTYPE_i4, -1), 15);
}

TEST(memory) {
  unsigned char bytes[32] = {0};
  for (int64_t i = 0; i < 6; i++) dtype_store(DTYPE_i4, bytes, i, (uint64_t)i + 9);
  CHECK_INT(bytes[0], 0xa9);
  CHECK_INT(bytes[2], 0xed);
  dtype_store(DTYPE_f4e2m1fn, bytes, 1, 2);
  CHECK_INT(bytes[0], 0x29);
  CHECK_INT((long long)dtype_load(DTYPE_f4e2m1fn, bytes, 5), 0xe);
  dtype_store(DTYPE_i32, bytes + 1, 3, 0x89abcdef); /* not aligned */
  CHECK_INT((long long)dtype_load(DTYPE_i32, bytes + 1, 3), 0x89abcdef);
  CHECK_INT(bytes[13], 0xef);
  bytes[5] = 200;
  CHECK_INT((long long)dtype_load(DTYPE_i1, bytes, 5), 1);
  CHECK_INT((long long)dtype_bytes(DTYPE_i4, 5), 3);
  CHECK_INT((long long)dtype_bytes(DTYPE_f6e2m3fn, 5), 5);
  CHECK_INT((long long)dtype_bytes(DTYPE_f64, 5), 40);
}

TESTS_MAIN(RUN(decode_every_code) RUN(encode_gives_every_code_back) RUN(round_to_nearest_even)
               RUN(overflow_nan_and_zero) RUN(f32_and_f64) RUN(round_is_the_value_of_encode)
                   RUN(extremes) RUN(integers) RUN(memory))
