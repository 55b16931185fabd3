/* test_lower.c: one lane's program computes what the tiles mean, on every machine. */
#include "unit/lane_kit.h"

/* What is refused, and how. Declared waves of 8 lanes are observable in two samples, and no wider
 * machine has such waves; test_observable.c runs them with others. */
static const struct {
  const char *name, *target, *code;
} refused[] = {
    {"split", "gfx942", "E0608"},    {"split", "sm_80", "E0608"},
    {"split", "sm_90a", "E0608"},    {"histogram", "gfx942", "E0608"},
    {"histogram", "sm_80", "E0608"}, {"histogram", "sm_90a", "E0608"},
};

static const char *refusal(const Sample *s, const char *target) {
  for (size_t i = 0; i < WV_LEN(refused); i++)
    if (!strcmp(refused[i].name, s->name) && !strcmp(refused[i].target, target))
      return refused[i].code;
  return NULL;
}

/* The lanes hold more copies than the tiles have elements: the evaluator is no judge. */
static bool is_observable(const Sample *s) {
  return strcmp(s->name, "histogram") == 0 || strcmp(s->name, "split") == 0;
}

TEST(samples_on_all_machines) {
  EACH_SAMPLE(s) EACH_TARGET(t) {
    const char *code = refusal(s, t);
    if (!code && is_observable(s)) continue;
    if (code) CHECK(lane_refuses(s, t, code));
    else CHECK_INT(lane_differs(s, t), 0);
  }
}

TESTS_MAIN(RUN(samples_on_all_machines))
