/* test_solve.c: bounds of solved loops: no schedule that is compiled takes fewer cycles. */
#include <string.h>

#include "../bench/bench_kernels.h"
#include "ir/schedule/schedule.h"
#include "transform/pass_manager.h"
#include "transform/solve/solve_search.h"
#include "unit/harness.h"

enum { MOST_SCHEDULES = 12 };

typedef struct Case {
  const char *file, *loop;
  Binding bind[MOST_BINDINGS];
} Case;

static const Case cases[] = {
    {"gemm", "K", {{"M", 4096}, {"N", 4096}, {"K", 4096}}},
    {"attention", "K2", {{"B", 32}, {"M", 4096}, {"K2", 4096}}},
    {"attention_backward", "M", {{"M", 4096}, {"L", 4096}}},
    {"convolution", "C*HF*WF", {{"N", 8}, {"H", 58}, {"W", 58}, {"C", 64}, {"NF", 128}}},
    {"scaled", "K", {{"M", 4096}, {"N", 4096}, {"K", 4096}}},
};

static const char *const targets[] = {"gfx942", "gfx950", "sm_80", "sm_90a"};

/* Waves that only copy, and turns, are not what bounds are about. */
static bool is_bounded(const Trial *t) {
  return !t->turns && !t->machine.service && !t->times.why_not;
}

/* Whether some schedule was compared, and none is shorter than the bound. */
static bool holds(const Case *c, const char *target, int most) {
  char path[256];
  Context *cx = context_new();
  snprintf(path, sizeof path, "../bench/kernels/%s.wave", c->file);
  Kernel *k = load_kernel(cx, path, c->bind);
  PassOptions o = {.target = target, .stop_after = "mask"};
  Solution found;
  bool ok = passes_run(k, &o);
  SolveLoop s = {k, ok ? target_resolve(&cx->diags, target).machine : NULL, c->loop};
  ok = ok && solve_loop(&s, most, SOLVE_TRIALS, &found);
  for (int i = 0; ok && i < found.trials.n; i++) {
    const Trial *t = found.trials.at[i];
    if (!is_bounded(t) || t->times.cycles >= found.bound) continue;
    printf("%s on %s: %lld cycles, bound %lld\n", c->file, target, (long long)t->times.cycles,
           (long long)found.bound);
    ok = false;
  }
  if (s.target) solve_forget(&found);
  kernel_free(k);
  context_free(cx);
  return ok;
}

TEST(bounds_hold) {
  for (size_t c = 0; c < WV_LEN(cases); c++)
    for (size_t t = 0; t < WV_LEN(targets); t++) CHECK(holds(&cases[c], targets[t], 1));
}

TEST(bounds_hold_for_lists) {
  for (size_t c = 0; c < WV_LEN(cases); c++)
    for (size_t t = 0; t < WV_LEN(targets); t++)
      CHECK(holds(&cases[c], targets[t], MOST_SCHEDULES));
}

TESTS_MAIN(RUN(bounds_hold) RUN(bounds_hold_for_lists))
