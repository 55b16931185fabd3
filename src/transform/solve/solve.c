/* solve: finds the schedules of loops for which a row says `kind modulo`.
 *
 *     schedule K kind modulo           schedule K depth 3 kind modulo
 *                                =>    ring K x slots 2
 *                                      at K 2.0 x.fetch
 *                                      at K 0.1 x.copy
 *                                      ...
 *
 * What the rows of the loop say already is kept: a pin. The new rows say the rest, so `stages` obeys
 * them as if an author had written them. This is the one pass that runs others: on copies of the kernel,
 * to see what comes of a schedule (trial.h). Runs before `version`, which makes copies of loops. */
#include <string.h>

#include "ir/attr.h"
#include "ir/schedule/schedule.h"
#include "transform/solve/solve_search.h"

static bool asks(const Constraint *row, const TargetInfo *t) {
  const char *how = row->schedule.how;
  return how && strcmp(how, "modulo") == 0 && schedule_is_for(row, t);
}

/* The rows of a trial in place of those of the loop. */
static void write_rows(const SolveLoop *s, const Trial *t) {
  Kernel *k = s->k;
  int n = 0;
  for (int i = 0; i < k->constraints.n; i++)
    if (!solve_is_about(s, &k->constraints.at[i])) k->constraints.at[n++] = k->constraints.at[i];
  k->constraints.n = n;
  for (int i = 0; i < t->rows.n; i++)
    vec_push(k->arena, &k->constraints, constraint_copy(k, &t->rows.at[i]));
}

/* Why a loop is left as it is. */
static void remark_spills(Diags *diags, Diag *d, const Trial *t) {
  const Op *at;
  int most = t->machine.target->registers, least = trial_least_registers(t, &at);
  diag_note(diags, d, (Span){0},
            "its tiles need %d registers of %d: the loop is pipelined as without a row",
            t->registers, most);
  if (least > most)
    diag_note(diags, d, at->at,
              "every schedule needs %d or more, for the operands of this op and what the loop "
              "keeps: smaller tiles of a wave need fewer",
              least);
}

/* "is as short as the bound", or by how much it may be longer. */
static void remark(const SolveLoop *s, const Solution *found, Span at) {
  Diags *diags = &s->k->cx->diags;
  const Trial *best = found->trials.at[0];
  long long cycles = best->times.cycles, bound = solve_bound(found);
  if (best->times.why_not) {
    diag_add(diags, DIAG_R0618, at, "the loop `%s` is pipelined as without a row: %s", s->name,
             best->times.why_not);
    return;
  }
  Diag *d = diag_add(diags, DIAG_R0618, at, "an iteration of the loop `%s` takes %lld cycles%s",
                     s->name, cycles, cycles <= bound ? ", the fewest possible" : "");
  if (trial_spills(best)) remark_spills(diags, d, best);
  else if (cycles > bound && trial_is_full(best))
    diag_note(
        diags, d, (Span){0},
        "no schedule is faster if a compute unit holds %d workgroups: one of its units is always "
        "busy",
        trial_groups(best));
  else if (cycles > bound)
    diag_note(diags, d, (Span){0},
              "no schedule takes fewer than %lld, or is faster by more than %.1f %%", bound,
              100 * found->gap);
  if (best->machine.service)
    diag_note(diags, d, (Span){0}, "%d waves besides the %d that compute make its copies",
              best->machine.service, best->machine.waves);
  if (cycles < found->first)
    diag_note(diags, d, (Span){0}, "without the solver it would take %lld",
              (long long)found->first);
  if (found->spent)
    diag_note(diags, d, (Span){0}, "the search ended after %d schedules", found->tried);
}

static bool solve(const SolveLoop *s, Span at) {
  Solution found;
  if (!solve_loop(s, 1, SOLVE_TRIALS, &found)) return false;
  remark(s, &found, at);
  write_rows(s, found.trials.at[0]);
  solve_forget(&found);
  return true;
}

/* The next row that asks, after number i. */
static int next_row(const Kernel *k, const TargetInfo *t, int i) {
  for (i++; i < k->constraints.n; i++)
    if (k->constraints.at[i].kind == CONSTRAINT_schedule && asks(&k->constraints.at[i], t))
      return i;
  return -1;
}

bool pass_solve(Kernel *k, PassCtx *cx) {
  Vec(const char *) names = {0};
  Vec(Span) at = {0};
  cx->idle = true;
  if (!cx->machine || !cx->target) return true;
  for (int i = -1; (i = next_row(k, cx->target, i)) >= 0;) {
    vec_push(cx->scratch, &names, k->constraints.at[i].schedule.loop);
    vec_push(cx->scratch, &at, k->constraints.at[i].at);
  }
  for (int i = 0; i < names.n; i++) {
    SolveLoop s = {k, cx->target, names.at[i]};
    if (!schedule_next_loop(k, NULL, names.at[i])) continue;
    if (!solve(&s, at.at[i])) return false;
    cx->idle = false;
  }
  return true;
}
