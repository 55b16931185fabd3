/* api_schedules.c: the best schedules of a kernel's loops, through wave.h. */
#include <string.h>

#include "driver/api/api.h"
#include "driver/variants.h"
#include "ir/schedule/schedule.h"
#include "schedule/schedule_file.h"
#include "transform/pass_manager.h"
#include "transform/solve/solve_search.h"

enum { BUDGET_FOR_EACH = 4, BUDGET_BESIDES = 8 }; /* trials for each schedule that is wanted */

/* A schedule of one loop; the others have theirs. */
typedef struct Candidate {
  Trial *trial;
  double saves; /* of the load (trial.h), compared with what the compiler does by itself */
} Candidate;

typedef struct Listing {
  Arena *arena;
  const Kernel *written;
  Kernel *k; /* before `solve` */
  const TargetInfo *target;
  int most;
  Vec(Candidate) all; /* best first */
} Listing;

static const char *rows_text(const Listing *l, const Trial *t) {
  StrBuf out = {.arena = l->arena};
  ScheduledKernel s = {l->written,          t->k,        l->target,
                       t->facts.distribute, &t->machine, t->facts.memory_uses};
  schedule_print(&out, &s);
  return sb_text(&out);
}

/* What comes of the schedule as a file, which places only ops that have names; NULL: the file is
 * refused. */
static Trial *trial_of_text(const Listing *l, const SolveLoop *s, const Trial *t) {
  RowList all, rows = {0};
  if (!ir_parse_schedule(l->k->cx, "schedule", rows_text(l, t), l->arena, &all)) return NULL;
  for (int i = 0; i < all.n; i++)
    if (solve_is_about(s, &all.at[i])) vec_push(l->arena, &rows, all.at[i]);
  Trial *made = trial_new(s, &rows, true);
  if (made) trial_time(made, 0);
  return made;
}

static bool is_known(const Listing *l, const Trial *t) {
  const char *text = rows_text(l, t);
  for (int i = 0; i < l->all.n; i++)
    if (strcmp(rows_text(l, l->all.at[i].trial), text) == 0) return true;
  return false;
}

static void add_candidate(Listing *l, Trial *t, double saves) {
  int at = l->all.n;
  vec_push(l->arena, &l->all, ((Candidate){0}));
  for (; at > 0 && l->all.at[at - 1].saves < saves; at--) l->all.at[at] = l->all.at[at - 1];
  l->all.at[at] = (Candidate){t, saves};
}

static void add_candidates(Listing *l, const SolveLoop *s, const Solution *found) {
  for (int i = 0; i < found->trials.n; i++) {
    Trial *t = trial_of_text(l, s, found->trials.at[i]);
    bool new = t && (!t->times.why_not || !l->all.n) && !is_known(l, t);
    double load = new && !t->times.why_not ? trial_load(t) : found->first_load;
    if (new) add_candidate(l, t, found->first_load - load);
    else trial_free(t);
  }
}

/* Of loops that have the same name only the first: rows are about all of them. */
static bool is_listed(const Kernel *k, const Op *loop, const char *name) {
  return schedule_next_loop(k, NULL, name) == loop;
}

static bool solve_all(Listing *l) {
  for (const Op *loop = NULL; (loop = schedule_next_loop(l->k, loop, NULL));) {
    const char *name = schedule_loop_name(l->arena, loop);
    SolveLoop s = {l->k, l->target, name};
    Solution found;
    if (!is_listed(l->k, loop, name)) continue;
    if (!solve_loop(&s, l->most, BUDGET_FOR_EACH * l->most + BUDGET_BESIDES, &found)) return false;
    add_candidates(l, &s, &found);
    solve_forget(&found);
  }
  return true;
}

/* The schedules of all loops of a trial's kernel, after a line about the trial. */
static char *text_of(const Listing *l, int number) {
  const Trial *t = l->all.at[number].trial;
  StrBuf out = {.arena = l->arena};
  sb_printf(&out, "# schedule %d: %lld bytes of shared memory, about %d registers for tiles\n",
            number + 1, (long long)t->bytes, t->registers);
  if (!t->times.why_not)
    sb_printf(&out, "# load: %.0f cycles per iteration of a workgroup; a compute unit holds %d\n",
              trial_load(t), trial_groups(t));
  sb_puts(&out, rows_text(l, t));
  return api_given_away(sb_text(&out));
}

static bool lower(Listing *l, Kernel *k, const TargetChoice *t) {
  Diag *before = k->cx->diags.last;
  PassOptions o = {.target = t->machine->name, .stop_after = "mask"};
  l->k = variant_first(k, t, l->arena);
  if (!passes_run(l->k, &o)) return false;
  diags_cut(&k->cx->diags, before);
  return true;
}

/* On a machine without lanes loops have no schedule: there is nothing to list. */
static int list(Listing *l, Kernel *k, const char *target, int most, char **texts) {
  TargetChoice t = target_resolve(&k->cx->diags, target);
  if (!t.machine) return -1;
  if (target_has(t.machine, FEATURE_REGISTER_TILES)) return 0;
  l->target = t.machine, l->written = k;
  ir_renumber(k);
  int n = -1;
  if (lower(l, k, &t) && solve_all(l))
    for (n = 0; n < l->all.n && n < most; n++) texts[n] = text_of(l, n);
  for (int i = 0; i < l->all.n; i++) trial_free(l->all.at[i].trial);
  kernel_free(l->k);
  return n;
}

int wv_schedules(wv_kernel *k, const char *target, int most, char **texts) {
  API_KERNEL_USES(k, -1);
  if (!api_text(k->cx, target, "target")) return -1;
  if (!api_expected(k->cx, most >= 0 && (texts || !most), "room for texts")) return -1;
  if (k->k->level != LEVEL_TILE || kernel_constraint(k->k, CONSTRAINT_machine, NULL)) {
    diag_add(&k->k->cx->diags, DIAG_E0409, k->k->at, "the schedule of this kernel is decided");
    return -1;
  }
  Arena *a = arena_new();
  api_attempt(k->cx, k->k, arena_printf(a, "--schedules=%d --target=%s", most, target));
  Listing l = {.arena = a, .most = most < 1 ? 1 : most};
  int n = list(&l, k->k, target, most, texts);
  arena_free(a);
  return n;
}
