/* test_im2col.c: the im2col walk over pixels, compared with one that takes every step. */
#include "base/base.h"
#include "target/maps/im2col.h"
#include "unit/harness.h"

static void step_on(const Im2col *m, const int64_t *size, int64_t *at) {
  for (int d = m->dims - 1; d >= 0; d--) {
    at[1 + d] += m->step[d];
    if (at[1 + d] <= size[1 + d] - 1 + m->highest[d]) return;
    at[1 + d] = m->lowest[d];
  }
  at[0]++;
}

static int walks_apart(const Im2col *m, const int64_t *size, const int64_t *from) {
  int64_t slow[1 + IM2COL_DIMS], apart = 0;
  memcpy(slow, from, sizeof slow);
  for (int n = 0; n < 200; n++) {
    int64_t leap[1 + IM2COL_DIMS];
    memcpy(leap, from, sizeof leap);
    im2col_walk(m, size, n, leap);
    apart += memcmp(leap, slow, sizeof(int64_t) * (size_t)(1 + m->dims)) != 0;
    apart += !im2col_is_inside(m, size, leap);
    step_on(m, size, slow);
  }
  return (int)apart;
}

TEST(walks) {
  static const struct {
    Im2col m;
    int64_t size[4], at[4];
  } cases[] = {
      {{1, {0}, {0}, {1}}, {3, 7}, {0, 0}},
      {{1, {-2}, {1}, {3}}, {3, 7}, {1, 4}},
      {{2, {-1, -1}, {-1, -1}, {2, 2}}, {2, 9, 11}, {0, -1, -1}},
      {{2, {-1, 0}, {-1, -4}, {1, 2}}, {2, 5, 6}, {1, 3, 1}}, /* between the steps of other rows */
      {{2, {3, 3}, {-1, 2}, {8, 1}}, {2, 5, 6}, {-4, 3, 7}},  /* before the first image */
      {{3, {-1, -2, 0}, {0, -1, -2}, {1, 2, 3}}, {2, 4, 5, 6}, {0, 2, -2, 3}},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++)
    CHECK_INT(walks_apart(&cases[i].m, cases[i].size, cases[i].at), 0);
}

TEST(outside) {
  Im2col m = {2, {-1, 0}, {0, -2}, {1, 1}};
  int64_t size[] = {1, 4, 4};
  CHECK(im2col_is_inside(&m, size, (int64_t[]){9, -1, 0}));
  CHECK(im2col_is_inside(&m, size, (int64_t[]){0, 3, 1}));
  CHECK(!im2col_is_inside(&m, size, (int64_t[]){0, -2, 0}));
  CHECK(!im2col_is_inside(&m, size, (int64_t[]){0, 4, 0}));
  CHECK(!im2col_is_inside(&m, size, (int64_t[]){0, 0, -1}));
  CHECK(!im2col_is_inside(&m, size, (int64_t[]){0, 0, 2}));
  m.highest[1] = -4; /* no pixel at all */
  CHECK(!im2col_is_inside(&m, size, (int64_t[]){0, 0, 0}));
}

TESTS_MAIN(RUN(walks) RUN(outside))
