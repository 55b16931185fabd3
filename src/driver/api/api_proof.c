/* api_proof.c: what was proved about a kernel's accesses, and the schedules of its loops, through
 * wave.h. */
#include <string.h>

#include "analysis/access/in_bounds.h"
#include "analysis/analysis.h"
#include "anchors/anchors.h"
#include "driver/api/api.h"
#include "driver/variants.h"
#include "report/schedule/schedule_picture.h"
#include "report/schedule/timeline_text.h"
#include "schedule/proof/loop_proof.h"
#include "schedule/schedule_file.h"
#include "transform/pass_manager.h"

struct wv_proof {
  HandleKind handle;
  Arena *arena;
  Kernel *k;
  const AccessBounds *const *all;
  const char *text;
};

wv_proof *wv_prove(wv_kernel *handle) {
  API_KERNEL_USES(handle, NULL);
  api_attempt(handle->cx, handle->k, "--proof --emit=none");
  Arena *a = arena_new();
  wv_proof *p = ARENA_NEW(a, wv_proof);
  ir_renumber(handle->k);
  Facts facts = facts_of(handle->k, a, FACT_in_bounds | FACT_memory_uses | FACT_distribute);
  *p = (wv_proof){HANDLE_PROOF, a, handle->k, facts.in_bounds, NULL};
  StrBuf text = {.arena = a};
  proof_print(&text, handle->k, p->all);
  if (kernel_constraint(handle->k, CONSTRAINT_machine, NULL))
    loop_proof_print(&text, facts.distribute, facts.memory_uses);
  p->text = sb_text(&text);
  return p;
}

void wv_proof_free(wv_proof *p) {
  API_ASKS();
  if (api_is(p, HANDLE_PROOF)) arena_free(p->arena);
}

const char *wv_proof_text(const wv_proof *p) {
  API_PLAIN;
  return api_is(p, HANDLE_PROOF) ? p->text : NULL;
}

static void fill_row(const wv_proof *p, const AccessBounds *b, int i, wv_proof_row *out) {
  const Bound *bound = &b->bounds[i];
  out->op = op_info[b->access.op->kind].name;
  out->memory = b->access.memory ? memory_name(p->k, b->access.memory) : "";
  out->at = api_place(p->k->cx, b->access.op->at);
  out->dim = api_expr(bound->dim);
  out->of_memory = bound->of_memory;
  out->condition = api_expr(bound->meaning);
  out->verdict = bound_verdict_name[bound->verdict];
  out->test = bound->verdict == BOUND_tested ? api_expr(bound->test) : NULL;
  out->offset_bits = b->offset_bits;
  out->run = b->run;
  out->run_dim = b->run > 1 ? api_expr(b->access.tile->dims[b->run_axis]) : NULL;
}

bool wv_proof_get(const wv_proof *p, int i, wv_proof_row *out) {
  API_PLAIN;
  int access = 0;
  if (!api_is(p, HANDLE_PROOF)) return false;
  for (int op = 0; i >= 0 && op < p->k->nops; op++) {
    const AccessBounds *b = p->all[op];
    if (!b) continue;
    if (i < b->nbounds) {
      *out = (wv_proof_row){.access = access};
      fill_row(p, b, i, out);
      return true;
    }
    i -= b->nbounds;
    access++;
  }
  return false;
}

/* ---- schedules ---- */

typedef void ShowScheduleFn(StrBuf *out, const ScheduleView *s);

/* NULL: the rows alone. */
typedef struct ScheduleForm {
  const char *name;
  ShowScheduleFn *show;
} ScheduleForm;

static const ScheduleForm forms[] = {{"text", NULL},
                                     {"html", schedule_html},
                                     {"fragment", schedule_fragment},
                                     {"svg", schedule_svg},
                                     {"json", schedule_json}};

static const ScheduleForm *find_form(Diags *diags, const char *name) {
  const char *names[WV_LEN(forms)];
  for (size_t i = 0; i < WV_LEN(forms); i++) {
    if (strcmp(forms[i].name, name) == 0) return &forms[i];
    names[i] = forms[i].name;
  }
  const char *near = diag_nearest(name, names, (int)WV_LEN(forms));
  Diag *d = diag_add(diags, DIAG_E0602, (Span){0}, "a schedule has no form `%s`", name);
  diag_hint(diags, d,
            near ? "did you mean `%s`?" : "use `html`, `fragment`, `svg`, `json` or `text`%s",
            near ? near : "");
  return NULL;
}

static void show_schedule(StrBuf *out, const ScheduledKernel *s, const ScheduleForm *form,
                          Arena *a) {
  if (form->show) {
    ScheduleView view = schedule_view(a, s);
    form->show(out, &view);
  } else {
    schedule_print(out, s);
  }
}

/* Predicts times where that is possible: for a kernel with layouts, on a machine with lanes. */
static ScheduledKernel scheduled(const Kernel *written, Kernel *k, const TargetInfo *t, Arena *a) {
  const MachineSpec *row = kernel_machine(k);
  ScheduledKernel s = {.written = written, .k = k, .target = t};
  if (!row || target_has(t, FEATURE_REGISTER_TILES)) return s;
  ir_renumber(k);
  Facts facts = facts_of(k, a, FACT_memory_uses | FACT_distribute);
  Machine *machine = ARENA_NEW(a, Machine);
  *machine = machine_from(t, row);
  s.d = facts.distribute, s.uses = facts.memory_uses, s.machine = machine;
  return s;
}

ScheduleView api_schedule_view(Arena *a, Kernel *k, const TargetInfo *t) {
  ScheduledKernel s = scheduled(k, k, t, a);
  return schedule_view(a, &s);
}

/* A kernel that `stages` has changed is read as it is. */
static bool print_schedule(StrBuf *out, Kernel *k, const TargetChoice *t, const ScheduleForm *form,
                           Arena *a) {
  bool is_decided = kernel_constraint(k, CONSTRAINT_machine, NULL) != NULL;
  bool lanes = !target_has(t->machine, FEATURE_REGISTER_TILES);
  PassOptions o = {.target = t->machine->name, .stop_after = lanes ? "turns" : "mask"};
  Kernel *copy = is_decided ? k : variant_first(k, t, a);
  bool ok = is_decided || passes_run(copy, &o);
  if (ok) {
    ScheduledKernel s = scheduled(k, copy, t->machine, a);
    show_schedule(out, &s, form, a);
  }
  if (copy != k) kernel_free(copy);
  return ok;
}

static char *schedule_as(wv_kernel *k, const char *target, const char *name) {
  if (!api_text(k->cx, target, "target") || !api_text(k->cx, name, "form")) return NULL;
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  Diags *diags = &k->k->cx->diags;
  api_attempt(k->cx, k->k, arena_printf(a, "--emit=schedule --target=%s", target));
  const ScheduleForm *form = find_form(diags, name);
  TargetChoice t = form ? target_resolve(diags, target) : (TargetChoice){0};
  bool ok = t.machine != NULL;
  if (ok && k->k->level != LEVEL_TILE)
    ok = diag_fail(diags, DIAG_E0409, k->k->at, "a thread kernel has no schedule");
  ir_renumber(k->k);
  ok = ok && print_schedule(&out, k->k, &t, form, a);
  char *text = ok ? api_given_away(sb_text(&out)) : NULL;
  arena_free(a);
  return text;
}

char *wv_schedule(wv_kernel *k, const char *target) {
  API_KERNEL_USES(k, NULL);
  return schedule_as(k, target, "text");
}

char *wv_schedule_as(wv_kernel *k, const char *target, const char *form) {
  API_KERNEL_USES(k, NULL);
  return schedule_as(k, target, form);
}

/* ---- timelines ---- */

typedef struct TimelineForm {
  const char *name;
  void (*show)(StrBuf *out, const Timeline *t);
} TimelineForm;

static const TimelineForm timeline_forms[] = {{"text", timeline_text},
                                              {"fragment", timeline_fragment},
                                              {"svg", timeline_svg},
                                              {"json", timeline_json}};

static const TimelineForm *find_timeline_form(Diags *diags, const char *name) {
  for (size_t i = 0; i < WV_LEN(timeline_forms); i++)
    if (strcmp(timeline_forms[i].name, name) == 0) return &timeline_forms[i];
  Diag *d = diag_add(diags, DIAG_E0602, (Span){0}, "a timeline has no form `%s`", name);
  diag_hint(diags, d, "use `text`, `fragment`, `svg` or `json`");
  return NULL;
}

/* The simulator and the executor of AMD code know no other time. */
static bool counts_instructions(const TargetChoice *t) {
  return t->kind == TARGET_SIM || t->kind == TARGET_EMU || t->simulated;
}

/* The plan is made for the kernel as it was when the pass `stamps` began. */
static bool print_timeline(StrBuf *out, const TimelineForm *form, Kernel *k, const TargetChoice *t,
                           const wv_stamps *stamps, Arena *a) {
  bool lanes = !target_has(t->machine, FEATURE_REGISTER_TILES);
  PassOptions o = {.target = t->machine->name, .stop_after = lanes ? "prio" : "mask"};
  Kernel *copy = variant_first(k, t, a);
  bool ok = passes_run(copy, &o);
  if (ok) {
    ScheduledKernel s = scheduled(k, copy, t->machine, a);
    Timeline timeline = timeline_of(a, &s, stamps->at, stamps->n);
    timeline.unit = counts_instructions(t) ? "instructions" : "cycles";
    form->show(out, &timeline);
  }
  kernel_free(copy);
  return ok;
}

char *wv_timeline_as(wv_kernel *k, const char *target, const char *name, wv_stamps stamps) {
  API_KERNEL_USES(k, NULL);
  if (!api_text(k->cx, target, "target") || !api_text(k->cx, name, "form")) return NULL;
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  Diags *diags = &k->k->cx->diags;
  const TimelineForm *form = find_timeline_form(diags, name);
  TargetChoice t = form ? target_resolve(diags, target) : (TargetChoice){0};
  bool ok = t.machine != NULL;
  if (ok && (k->k->level != LEVEL_TILE || kernel_constraint(k->k, CONSTRAINT_machine, NULL)))
    ok = diag_fail(diags, DIAG_E0409, k->k->at, "only a kernel as it was written has a timeline");
  ir_renumber(k->k);
  ok = ok && print_timeline(&out, form, k->k, &t, &stamps, a);
  char *text = ok ? api_given_away(sb_text(&out)) : NULL;
  arena_free(a);
  return text;
}

/* ---- rows ---- */

/* The rows of a file replace those that the kernel has for the same loops. */
static bool is_replaced(const Constraint *old, const RowList *rows) {
  for (int i = 0; schedule_is_row(old) && i < rows->n; i++)
    if (strcmp(old->scheduled.loop, rows->at[i].scheduled.loop) == 0) return true;
  return false;
}

static bool replace_rows(Kernel *k, const RowList *rows) {
  Kernel before = *k;
  k->constraints.at = NULL, k->constraints.n = k->constraints.cap = 0;
  for (int i = 0; i < before.constraints.n; i++)
    if (!is_replaced(&before.constraints.at[i], rows))
      vec_push(k->arena, &k->constraints, before.constraints.at[i]);
  for (int i = 0; i < rows->n; i++)
    vec_push(k->arena, &k->constraints, constraint_copy(k, &rows->at[i]));
  ir_renumber(k);
  if (ir_verify_constraints(k) && schedule_check(k)) {
    if (k->warned) schedule_warn(k); /* otherwise ir_warn does */
    return true;
  }
  k->constraints = before.constraints;
  return false;
}

bool wv_kernel_schedule(wv_kernel *k, const char *name, const char *text) {
  API_KERNEL(k, false);
  if (!api_text(k->cx, name, "name") || !api_text(k->cx, text, "text")) return false;
  Arena *a = arena_new();
  RowList rows;
  api_attempt(k->cx, k->k, "--emit=none");
  bool ok = ir_parse_schedule(k->k->cx, name, text, a, &rows) && replace_rows(k->k, &rows);
  arena_free(a);
  return ok;
}
