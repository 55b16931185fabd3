/* test_solve.c: bounds of solved loops: no schedule that is compiled takes fewer cycles; and what is tried. */
#include <string.h>

#include "base/os.h"
#include "ir/schedule/schedule.h"
#include "transform/pass_manager.h"
#include "transform/solve/solve_search.h"
#include "unit/harness.h"

enum { MOST_SCHEDULES = 12 };

typedef struct Case {
  const char *file, *loop, *rows;
} Case;

static const Case cases[] = {
    {"gemm", "K", "bind M = 4096; bind N = 4096; bind K = 4096"},
    {"attention", "K2", "bind B = 32; bind M = 4096; bind K2 = 4096"},
    {"attention_backward", "M", "bind M = 4096; bind L = 4096"},
    {"convolution", "C*HF*WF", "bind N = 8; bind H = 58; bind W = 58; bind C = 64; bind NF = 128"},
    {"scaled", "K", "bind M = 4096; bind N = 4096; bind K = 4096"},
};

static const char *const targets[] = {"gfx942", "gfx950", "sm_80", "sm_90a"};

/* Where some waves only copy, the others do not wait for all. Turns make schedules longer. */
static int64_t bound_of(const Solution *found, const Trial *t) {
  if (t->times.why_not) return 0;
  return t->machine.service ? found->served : found->bound;
}

/* The kernel of a file of bench/kernels, with rows; NULL: it cannot be read. */
static Kernel *load(Context *cx, const Case *c) {
  size_t n;
  const char *here = __FILE__, *unit = strstr(here, "tests/unit/");
  const char *path = arena_printf(cx->arena, "%.*sbench/kernels/%s.wave",
                                  unit ? (int)(unit - here) : 0, here, c->file);
  const char *text = os_read_file(cx->arena, path, &n), *body = text ? strstr(text, "\n{") : NULL;
  if (!body) return NULL;
  text = arena_printf(cx->arena, "%.*s\n%s%s", (int)(body - text), text, c->rows, body);
  KernelList list = ir_parse(cx, path, text, cx->arena);
  return list.n == 1 ? list.at[0] : NULL;
}

/* A loop that was solved. */
typedef struct Solved {
  Context *cx;
  Kernel *k;
  Solution found;
  bool ok;
} Solved;

static Solved solve(const Case *c, const char *target, int most) {
  Solved s = {.cx = context_new()};
  PassOptions o = {.target = target, .stop_after = "mask"};
  s.k = load(s.cx, c);
  s.ok = s.k && passes_run(s.k, &o);
  SolveLoop loop = {s.k, s.ok ? target_resolve(&s.cx->diags, target).machine : NULL, c->loop};
  s.ok = s.ok && solve_loop(&loop, most, SOLVE_TRIALS, &s.found);
  return s;
}

static void forget(Solved *s) {
  if (s->ok) solve_forget(&s->found);
  kernel_free(s->k);
  context_free(s->cx);
}

/* Whether no schedule is shorter than the bound. */
static bool holds(const Case *c, const char *target, int most) {
  Solved s = solve(c, target, most);
  bool ok = s.ok;
  for (int i = 0; ok && i < s.found.trials.n; i++) {
    const Trial *t = s.found.trials.at[i];
    if (t->times.cycles >= bound_of(&s.found, t)) continue;
    printf("%s on %s: %lld cycles, bound %lld\n", c->file, target, (long long)t->times.cycles,
           (long long)bound_of(&s.found, t));
    ok = false;
  }
  forget(&s);
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

/* The gradients on sm_80: tiles of the rules' schedule leave fewer registers than addresses are assumed to
 * need. Another schedule may need as many. */
TEST(schedules_may_need_as_many_registers_as_the_rules) {
  Solved s = solve(&cases[2], "sm_80", 1);
  CHECK(s.ok);
  const Trial *best = s.found.trials.at[0];
  CHECK(best->registers > best->room);
  CHECK(best->times.cycles < s.found.first);
  forget(&s);
}

TESTS_MAIN(RUN(bounds_hold) RUN(bounds_hold_for_lists)
               RUN(schedules_may_need_as_many_registers_as_the_rules))
