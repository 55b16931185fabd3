/* bench_solve.c: how long the solver takes (`kind modulo`), what it finds, and how far that may be
 * from the best schedule; and how long it takes to prove a loop.
 *
 *     bench_solve FOLDER [--rounds N] [--kernel NAME] [--target NAME]
 *
 * FOLDER holds gemm.wave and the others. Times are those of the CPU, the best of N rounds
 * (default 10); columns are explained in NOTES.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_kernels.h"
#include "ir/attr.h"
#include "ir/schedule/schedule.h"
#include "schedule/proof/loop_proof.h"
#include "transform/pass_manager.h"
#include "transform/solve/solve_search.h"

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

typedef struct Result {
  double solve, prove; /* ms */
  int64_t first, cycles, bound;
  int tried;
  double gap, launch; /* shares: of the shortest interval that was tried; of a launch */
  bool spills;        /* whatever is tried, so nothing is */
} Result;

static double cpu_ms(void) { return (double)clock() * 1e3 / CLOCKS_PER_SEC; }

static double time_proof(const Facts *facts, const Op *loop) {
  Arena *a = arena_new();
  double start = cpu_ms();
  for (int i = 0; i < 10; i++) loop_prove(a, facts->distribute, facts->memory_uses, loop);
  double took = (cpu_ms() - start) / 10;
  arena_free(a);
  return took;
}

/* By how much the shortest interval that was tried may be longer than necessary. */
static double interval_gap(const Solution *found) {
  int64_t least = INT64_MAX;
  for (int i = 0; i < found->trials.n; i++)
    if (found->trials.at[i]->times.cycles < least) least = found->trials.at[i]->times.cycles;
  int64_t bound = solve_bound(found);
  bool proved = least <= bound || trial_is_full(found->trials.at[0]);
  return proved ? 0 : (double)(least - bound) / (double)least;
}

static bool measure(const char *path, const Case *c, const char *target, Result *out) {
  Context *cx = context_new();
  Kernel *k = load_kernel(cx, path, c->bind);
  PassOptions o = {.target = target, .stop_after = "mask"};
  Solution found;
  bool ok = passes_run(k, &o);
  SolveLoop s = {k, ok ? target_resolve(&cx->diags, target).machine : NULL, c->loop};
  double start = cpu_ms();
  ok = ok && solve_loop(&s, 1, SOLVE_TRIALS, &found);
  if (ok) {
    out->solve = cpu_ms() - start;
    out->first = found.first, out->bound = solve_bound(&found), out->tried = found.tried;
    out->cycles = found.trials.at[0]->times.cycles;
    out->gap = interval_gap(&found), out->launch = found.gap;
    out->spills = trial_spills(found.trials.at[0]);
    out->prove = time_proof(&found.trials.at[0]->facts, found.trials.at[0]->loop);
    solve_forget(&found);
  }
  kernel_free(k);
  context_free(cx);
  return ok;
}

static void run(const char *folder, const Case *c, const char *target, int rounds) {
  char path[512];
  Result best = {0}, now;
  snprintf(path, sizeof path, "%s/%s.wave", folder, c->file);
  for (int i = 0; i < rounds; i++) {
    if (!measure(path, c, target, &now)) {
      printf("%-20s %-7s cannot be compiled\n", c->file, target);
      return;
    }
    if (i && best.solve < now.solve) now.solve = best.solve;
    if (i && best.prove < now.prove) now.prove = best.prove;
    best = now;
  }
  char gap[32] = "spills";
  if (!best.spills)
    snprintf(gap, sizeof gap, "%.1f %% %6.1f %%", 100 * best.gap, 100 * best.launch);
  printf("%-20s %-7s %7lld %7lld %7lld %16s %3d %8.2f ms %7.3f ms\n", c->file, target,
         (long long)best.first, (long long)best.cycles, (long long)best.bound, gap, best.tried,
         best.solve, best.prove);
}

/* How long it takes to prove loops with others inside. */
static void run_nest(const char *folder, int rounds) {
  static const char *const loops[] = {"T", "S", "R"}; /* around one, two and three others */
  char path[512];
  Context *cx = context_new();
  Arena *a = arena_new();
  PassOptions o = {.target = "sm_90a", .stop_after = "sync"};
  snprintf(path, sizeof path, "%s/nest.wave", folder);
  Kernel *k = load_kernel(cx, path, (Binding[MOST_BINDINGS]){{0}});
  if (!passes_run(k, &o)) exit(2);
  Facts facts = facts_of(k, a, FACT_memory_uses | FACT_distribute);
  for (size_t i = 0; i < WV_LEN(loops); i++) {
    const Op *loop = schedule_next_loop(k, NULL, loops[i]);
    double best = time_proof(&facts, loop);
    for (int j = 1; j < rounds; j++) {
      double now = time_proof(&facts, loop);
      if (now < best) best = now;
    }
    printf("nest of %d loops       %-7s %79.3f ms\n", (int)i + 2, o.target, best);
  }
  arena_free(a);
  kernel_free(k);
  context_free(cx);
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "bench/kernels", *kernel = NULL, *only = NULL;
  int rounds = 10;
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) rounds = atoi(argv[++i]);
    else if (strcmp(argv[i], "--kernel") == 0 && i + 1 < argc) kernel = argv[++i];
    else if (strcmp(argv[i], "--target") == 0 && i + 1 < argc) only = argv[++i];
    else return fprintf(stderr, "bench_solve: what is %s?\n", argv[i]), 2;
  }
  printf("%-20s %-7s %7s %7s %7s %7s %8s %3s %11s %10s\n", "kernel", "target", "rules", "solved",
         "bound", "gap", "launch", "of", "solve", "prove");
  for (size_t c = 0; c < WV_LEN(cases); c++)
    for (size_t t = 0; t < WV_LEN(targets); t++)
      if ((!kernel || strcmp(kernel, cases[c].file) == 0) &&
          (!only || strcmp(only, targets[t]) == 0))
        run(folder, &cases[c], targets[t], rounds);
  if ((!kernel || strcmp(kernel, "nest") == 0) && !only) run_nest(folder, rounds);
  return 0;
}
