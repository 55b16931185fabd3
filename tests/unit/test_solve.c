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

/* Matmuls of small workgroups, whose intervals are proved: tiles, and those of a wave. */
typedef struct Matmul {
  int m, n, k, wave_m, wave_n;
} Matmul;

static const Matmul matmuls[] = {{64, 64, 32, 32, 32},    {128, 128, 32, 64, 64},
                                 {128, 128, 64, 64, 64},  {64, 128, 64, 32, 64},
                                 {256, 128, 32, 128, 64}, {128, 64, 128, 64, 32}};

static Kernel *make_matmul(Context *cx, const Matmul *m) {
  const char *text = arena_printf(
      cx->arena,
      "kernel @k(%%a: mem<M, K, f16, shared>, %%b: mem<N, K, f16, shared>, %%c: mem<M, N, f32>)\n"
      "  hardware threads 64, mma F32_16x16x16_F16, load_bits 128\n"
      "  workgroup M by %d on 0; workgroup N by %d on 1; tile K by %d; wave M by %d; wave N by %d\n"
      "  bind M = 4096; bind N = 4096; bind K = 4096\n"
      "{\n  %%z = fill 0.0 : tile<M, N, f32>\n  %%r = for K carry %%acc = %%z {\n"
      "    %%x = read %%a\n    %%y = read %%b\n    %%n = mma %%x, %%y, %%acc\n    yield %%n\n  }\n"
      "  write %%r, %%c\n}",
      m->m, m->n, m->k, m->wave_m, m->wave_n);
  KernelList list = ir_parse(cx, "matmul", text, cx->arena);
  return list.n == 1 ? list.at[0] : NULL;
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

static Solved solve_kernel(Context *cx, Kernel *k, const char *loop, const char *target, int most) {
  Solved s = {.cx = cx, .k = k};
  PassOptions o = {.target = target, .stop_after = "mask"};
  s.ok = k && passes_run(k, &o);
  SolveLoop in = {k, s.ok ? target_resolve(&cx->diags, target).machine : NULL, loop};
  s.ok = s.ok && solve_loop(&in, most, SOLVE_TRIALS, &s.found);
  return s;
}

static Solved solve(const Case *c, const char *target, int most) {
  Context *cx = context_new();
  return solve_kernel(cx, load(cx, c), c->loop, target, most);
}

static void forget(Solved *s) {
  if (s->ok) solve_forget(&s->found);
  kernel_free(s->k);
  context_free(s->cx);
}

/* Whether no schedule is shorter than the bound. */
static bool holds(Solved s, const char *name, const char *target) {
  bool ok = s.ok;
  for (int i = 0; ok && i < s.found.trials.n; i++) {
    const Trial *t = s.found.trials.at[i];
    const Op *at;
    if (t->times.cycles >= bound_of(&s.found, t) && t->registers >= trial_least_registers(t, &at))
      continue;
    printf("%s on %s: %lld cycles, bound %lld\n", name, target, (long long)t->times.cycles,
           (long long)bound_of(&s.found, t));
    ok = false;
  }
  forget(&s);
  return ok;
}

TEST(bounds_hold) {
  for (size_t c = 0; c < WV_LEN(cases); c++)
    for (size_t t = 0; t < WV_LEN(targets); t++)
      CHECK(holds(solve(&cases[c], targets[t], 1), cases[c].file, targets[t]));
}

TEST(bounds_hold_for_lists) {
  for (size_t c = 0; c < WV_LEN(cases); c++)
    for (size_t t = 0; t < WV_LEN(targets); t++)
      CHECK(holds(solve(&cases[c], targets[t], MOST_SCHEDULES), cases[c].file, targets[t]));
}

TEST(bounds_hold_for_matmuls) {
  for (size_t i = 0; i < WV_LEN(matmuls); i++)
    for (size_t t = 0; t < WV_LEN(targets); t++) {
      Context *cx = context_new();
      Solved s = solve_kernel(cx, make_matmul(cx, &matmuls[i]), "K", targets[t], MOST_SCHEDULES);
      CHECK(holds(s, "a matmul", targets[t]));
    }
}

/* No schedule of the matmul is shorter, although its units are not always busy. */
TEST(matmul_is_proved_to_be_optimal) {
  Solved s = solve(&cases[0], "gfx942", 1);
  CHECK(s.ok);
  CHECK_INT(s.found.trials.at[0]->times.cycles, s.found.bound);
  CHECK(s.found.trials.at[0]->times.limit < 0);
  forget(&s);
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

/* The operands and the sum of a product on sm_80 are more registers than a thread has. */
TEST(products_may_not_fit) {
  for (int i = 0; i < 2; i++) {
    Solved s = solve(&cases[0], i ? "gfx942" : "sm_80", 1);
    CHECK(s.ok);
    const Trial *best = s.found.trials.at[0];
    const Op *at;
    int least = trial_least_registers(best, &at);
    CHECK(trial_spills(best) == (i == 0));
    CHECK((least > best->machine.target->registers) == (i == 0));
    CHECK(at->kind == OP_mma);
    forget(&s);
  }
}

/* The rules' rings have more slots than the search tries. */
TEST(rules_with_many_slots_are_improved) {
  Solved s = solve(&cases[2], "sm_90a", 1);
  CHECK(s.ok);
  CHECK(s.found.trials.at[0]->times.cycles < s.found.first / 2);
  forget(&s);
}

TESTS_MAIN(RUN(bounds_hold) RUN(bounds_hold_for_lists) RUN(bounds_hold_for_matmuls)
               RUN(matmul_is_proved_to_be_optimal)
                   RUN(schedules_may_need_as_many_registers_as_the_rules) RUN(products_may_not_fit)
                       RUN(rules_with_many_slots_are_improved))
