/* pass_manager.c: everything that surrounds a pass, written once.
 *
 * A pass that produces invalid IR is a bug of the compiler, but the process survives: the
 * verifier's findings are followed by I0001, which names the pass and contains the kernel as
 * text. */
#include "transform/pass_manager.h"

#include <string.h>

#include "anchors/anchors.h"
#include "base/os.h"

/* The words used in passes.def. */
enum {
  NONE = FACT_NONE,
  ALL = FACT_ALL,
  USES = FACT_uses,
  HEADER = FACT_header,
  DISTRIBUTE = FACT_distribute,
  STANDING = FACT_standing,
  UNIFORM = FACT_uniform,
  BOUNDS = FACT_in_bounds,
  MEMORY = FACT_memory_uses,
  OPS = USES | UNIFORM | BOUNDS | MEMORY
};
static const PassInfo passes[] = {
#define PASS(name, level, machines, needs, breaks, summary)                                        \
  {#name, summary, pass_##name, LEVEL_##level, PASS_##machines, needs, breaks},
#include "transform/passes.def"
};

enum { NPASSES = WV_LEN(passes) };

const PassInfo *pass_at(int i) { return i >= 0 && i < NPASSES ? &passes[i] : NULL; }

/* ---- options ---- */

typedef struct Plan {
  Kernel *k;
  const PassOptions *o;
  const TargetInfo *target;
  const PassInfo *run[64];
  int n;
  bool dump[NPASSES], dump_before[NPASSES];
  bool has_run[NPASSES];
  const char *text; /* of the kernel, if no pass has changed it since; for verify_each */
} Plan;

static const PassInfo *find_row(const char *name, size_t len) {
  for (int i = 0; i < NPASSES; i++)
    if (strlen(passes[i].name) == len && memcmp(passes[i].name, name, len) == 0) return &passes[i];
  return NULL;
}

/* The row that had another name before; NULL: none did. */
static const PassInfo *find_renamed(const char *name, size_t len) {
  static const struct {
    const char *was, *name;
  } renamed[] = {
#define RENAMED(was, name) {#was, #name},
#include "transform/passes.def"
  };
  for (size_t i = 0; i < WV_LEN(renamed); i++)
    if (strlen(renamed[i].was) == len && memcmp(renamed[i].was, name, len) == 0)
      return find_row(renamed[i].name, strlen(renamed[i].name));
  return NULL;
}

const PassInfo *pass_called(const char *name, size_t len) {
  const PassInfo *row = find_row(name, len);
  return row ? row : find_renamed(name, len);
}

void pass_unknown(Diags *diags, Span at, const char *name, size_t len) {
  const char *names[NPASSES], *word = arena_strndup(diags->arena, name, len);
  for (int i = 0; i < NPASSES; i++) names[i] = passes[i].name;
  Diag *d = diag_add(diags, DIAG_E0604, at, "unknown pass `%s`", word);
  const char *near = diag_nearest(word, names, NPASSES);
  if (near) diag_hint(diags, d, "did you mean `%s`?", near);
}

/* NULL after reporting; a former name gives a remark. */
static const PassInfo *find_pass(Kernel *k, const char *name, size_t len) {
  const PassInfo *row = pass_called(name, len);
  if (!row) return pass_unknown(&k->cx->diags, (Span){0}, name, len), NULL;
  if (strlen(row->name) != len || memcmp(row->name, name, len) != 0)
    diag_add(&k->cx->diags, DIAG_R0614, (Span){0}, "the pass `%.*s` is now called `%s`", (int)len,
             name, row->name);
  return row;
}

static bool add_run(Plan *plan, const PassInfo *pass) {
  if (plan->n < (int)WV_LEN(plan->run)) return plan->run[plan->n++] = pass, true;
  return diag_fail(&plan->k->cx->diags, DIAG_E0604, (Span){0}, "more than %d passes requested",
                   (int)WV_LEN(plan->run));
}

static bool add_dump(Plan *plan, const PassInfo *pass) { return plan->dump[pass - passes] = true; }

static bool add_dump_before(Plan *plan, const PassInfo *pass) {
  return plan->dump_before[pass - passes] = true;
}

/* Every row with the name of `pass`, which is the first: the kernel's level decides which ones
 * run. */
static bool each_row(Plan *plan, const PassInfo *pass, bool (*add)(Plan *, const PassInfo *)) {
  for (const PassInfo *row = pass; row < passes + NPASSES; row++)
    if (strcmp(row->name, pass->name) == 0 && !add(plan, row)) return false;
  return true;
}

/* Each name of a comma-separated list; empty names are skipped. */
static bool each_pass(Plan *plan, const char *list, bool (*add)(Plan *, const PassInfo *)) {
  for (size_t len; *list; list += len + (list[len] == ',')) {
    len = strcspn(list, ",");
    const PassInfo *pass = len ? find_pass(plan->k, list, len) : NULL;
    if (len && (!pass || !each_row(plan, pass, add))) return false;
  }
  return true;
}

static bool plan_all(Plan *plan, bool (*add)(Plan *, const PassInfo *)) {
  for (int i = 0; i < NPASSES; i++) add(plan, &passes[i]);
  return true;
}

/* "all", names, or NULL: none. */
static bool plan_dumps(Plan *plan, const char *list, bool (*add)(Plan *, const PassInfo *)) {
  if (!list) return true;
  return strcmp(list, "all") == 0 ? plan_all(plan, add) : each_pass(plan, list, add);
}

/* The row of that name after which nothing runs; if there are several, the first that works on the
 * kernel as given. -1: none of those that run. */
static int find_last(const Plan *plan, const char *name) {
  int found = -1;
  for (int i = plan->n - 1; i >= 0; i--) {
    const PassInfo *pass = plan->run[i];
    bool better =
        found < 0 || (pass->level & plan->k->level) || !(plan->run[found]->level & plan->k->level);
    if (strcmp(pass->name, name) == 0 && better) found = i;
  }
  return found;
}

/* The position of a pass of that name; -1 after reporting that it does not run. */
static int find_planned(const Plan *plan, const char *name) {
  const PassInfo *pass = find_pass(plan->k, name, strlen(name));
  int at = pass ? find_last(plan, pass->name) : -1;
  if (pass && at < 0)
    diag_add(&plan->k->cx->diags, DIAG_E0604, (Span){0}, "`%s` is not one of the passes that run",
             name);
  return at;
}

static bool make_plan(Plan *plan) {
  const PassOptions *o = plan->o;
  if (!(o->passes ? each_pass(plan, o->passes, add_run) : plan_all(plan, add_run))) return false;
  if (!plan_dumps(plan, o->dump, add_dump) || !plan_dumps(plan, o->dump_before, add_dump_before))
    return false;
  int first = -1, last = plan->n - 1;
  if (o->start_after && (first = find_planned(plan, o->start_after)) < 0) return false;
  if (o->stop_after && (last = find_planned(plan, o->stop_after)) < 0) return false;
  plan->n = last > first ? last - first : 0;
  memmove(plan->run, plan->run + first + 1, sizeof *plan->run * (size_t)plan->n);
  return true;
}

/* ---- around a pass ---- */

static bool report_invalid(Kernel *k, const char *pass) {
  StrBuf text = {.arena = k->cx->diags.arena};
  ir_print(&text, k);
  Diag *d = diag_add(&k->cx->diags, DIAG_I0001, k->at, "invalid IR after `%s`", pass);
  diag_note(&k->cx->diags, d, (Span){0}, "the kernel is now\n%s", sb_text(&text));
  return false;
}

static void dump(const Plan *plan, const PassInfo *pass, bool before, Arena *scratch) {
  const bool *wanted = before ? plan->dump_before : plan->dump;
  if (!wanted[pass - passes] || !plan->o->write) return;
  StrBuf text = {.arena = scratch};
  sb_printf(&text, "# %s %s\n", before ? "before" : "after", pass->name);
  ir_print(&text, plan->k);
  plan->o->write(plan->o->user, pass->name, sb_text(&text));
}

/* The machine adapted to the kernel's own rows: a CPU that emulates waves of lanes
 * (ARCHITECTURE.md) does so from the row that says so to the last pass. */
static const TargetInfo *fitted_target(const Kernel *k, const TargetInfo *t, Arena *a) {
  const MachineSpec *machine = kernel_machine(k);
  const LaunchSpec *launch = kernel_launch(k);
  if (!t || !target_has(t, FEATURE_REGISTER_TILES)) return t;
  bool lanes = machine ? machine->observable : launch && launch_threads(launch) != 1;
  if (!lanes) return t;
  TargetInfo *played = ARENA_NEW(a, TargetInfo);
  *played = target_playing(t, machine ? machine->lanes : launch->lanes);
  return played;
}

static bool works_on(const PassInfo *pass, const Kernel *k, const TargetInfo *target) {
  return (pass->level & k->level) && (pass->machines & pass_machines(target));
}

/* No pass after number i works on the kernel at its current level. */
static bool is_last_to_run(const Plan *plan, int i, Arena *scratch) {
  const TargetInfo *target = fitted_target(plan->k, plan->target, scratch);
  for (int j = i + 1; j < plan->n; j++)
    if (works_on(plan->run[j], plan->k, target)) return false;
  return true;
}

static const Machine *fitted_machine(const Kernel *k, const TargetInfo *t, Arena *a) {
  const MachineSpec *row = kernel_machine(k);
  Machine *m = row ? ARENA_NEW(a, Machine) : NULL;
  if (row) *m = machine_from(t, row);
  return m;
}

static const char *text_of(const Kernel *k, Arena *a) {
  StrBuf text = {.arena = a};
  ir_print(&text, k);
  return sb_text(&text);
}

/* Checks that a pass that claims to be idle was, since analyses are then kept. */
static bool was_idle(Kernel *k, const PassInfo *pass, const char *before, Arena *a) {
  return strcmp(before, text_of(k, a)) == 0 || report_invalid(k, pass->name);
}

static bool run_pass(Plan *plan, int i, PassCtx *cx, Facts *facts) {
  const PassInfo *pass = plan->run[i];
  Kernel *k = plan->k;
  cx->target = fitted_target(k, plan->target, cx->scratch);
  if (!works_on(pass, k, cx->target)) return true;
  plan->has_run[pass - passes] = true;
  cx->machine = fitted_machine(k, cx->target, cx->scratch);
  facts_supply(facts, k, pass->needs);
  cx->facts = facts_only(facts, pass->needs);
  if (plan->o->verify_each && !plan->text) plan->text = text_of(k, facts->arena);
  cx->idle = false;
  dump(plan, pass, true, cx->scratch);
  bool ok = pass->run(k, cx);
  if (!cx->idle) facts_drop(facts, pass->breaks);
  arena_reset(cx->scratch);
  if (!ok) return false;
  if (cx->idle && plan->text && !was_idle(k, pass, plan->text, cx->scratch)) return false;
  if (!cx->idle) plan->text = NULL;
  ir_renumber(k);
  bool last = !plan->o->trial && is_last_to_run(plan, i, cx->scratch);
  bool check = plan->o->verify_each || last;
  if (check && !(ir_verify_constraints(k) && ir_verify(k))) return report_invalid(k, pass->name);
  dump(plan, pass, false, cx->scratch);
  if (plan->o->after) plan->o->after(plan->o->user, k);
  arena_reset(cx->scratch);
  return true;
}

static bool is_repeated(const Plan *plan, int i) {
  for (int j = 0; j < i; j++)
    if (strcmp(plan->run[j]->name, plan->run[i]->name) == 0) return true;
  return false;
}

static bool has_run(const Plan *plan, const char *name) {
  for (int i = 0; i < NPASSES; i++)
    if (plan->has_run[i] && strcmp(passes[i].name, name) == 0) return true;
  return false;
}

/* Says which passes of a list, if it names any, had nothing to print: they are not for the kernel's
 * machine. */
static void remark_undumped(const Plan *plan, const char *list, const bool *wanted) {
  if (!list || strcmp(list, "all") == 0) return;
  for (int i = 0; i < plan->n; i++) {
    const PassInfo *pass = plan->run[i];
    if (!wanted[pass - passes] || is_repeated(plan, i) || has_run(plan, pass->name)) continue;
    diag_add(&plan->k->cx->diags, DIAG_R0609, plan->k->at,
             "nothing is printed for the pass `%s`: it does not run for this kernel and target",
             pass->name);
  }
}

static void write_times(const Plan *plan, const double *seconds, Arena *scratch) {
  if (!plan->o->time || !plan->o->write) return;
  StrBuf text = {.arena = scratch};
  double total = 0;
  for (int i = 0; i < plan->n; i++) {
    sb_printf(&text, "%-12s %9.3f ms\n", plan->run[i]->name, seconds[i] * 1e3);
    total += seconds[i];
  }
  sb_printf(&text, "%-12s %9.3f ms\n", "total", total * 1e3);
  plan->o->write(plan->o->user, NULL, sb_text(&text));
}

/* All passes run, and nobody looks at the kernel between them. */
static bool may_finish_early(const PassOptions *o) {
  bool whole = !o->passes && !o->stop_after && !o->trial && !o->unproved;
  return whole && !o->dump && !o->dump_before && !o->after && !o->time && !o->verify_each;
}

static void take_finished(Kernel *k, PassCtx *cx) {
  kernel_become(k, cx->finished);
  kernel_free(cx->finished);
}

bool passes_run(Kernel *k, const PassOptions *o) {
  Plan plan = {.k = k, .o = o};
  const TargetInfo *target = o->target ? target_resolve(&k->cx->diags, o->target).machine : NULL;
  if ((o->target && !target) || !make_plan(&plan)) return false;
  plan.target = target;
  PassCtx cx = {.scratch = arena_new(), .unproved = o->unproved, .may_finish = may_finish_early(o)};
  Facts facts = {.arena = arena_new()};
  double seconds[WV_LEN(plan.run)] = {0};
  ir_renumber(k);
  bool ok = true;
  for (int i = 0; ok && i < plan.n && !cx.finished; i++) {
    double start = os_seconds();
    ok = run_pass(&plan, i, &cx, &facts);
    seconds[i] = os_seconds() - start;
  }
  if (cx.finished) take_finished(k, &cx);
  if (ok) {
    write_times(&plan, seconds, cx.scratch);
    remark_undumped(&plan, o->dump, plan.dump);
    remark_undumped(&plan, o->dump_before, plan.dump_before);
  }
  arena_free(facts.arena);
  arena_free(cx.scratch);
  return ok;
}
