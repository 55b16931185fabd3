/* test_lower.c: one lane's program computes the same as the tile kernel, on every machine. */
#include "unit/lane_kit.h"

TEST(samples_on_all_machines) { EACH_SAMPLE(s) EACH_TARGET(t) CHECK_INT(lane_differs(s, t), 0); }

TESTS_MAIN(RUN(samples_on_all_machines))
