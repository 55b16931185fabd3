/* api_sim.c: the simulator and its reports through wave.h. */
#include <stdlib.h>
#include <string.h>

#include "backend/sim/sim.h"
#include "driver/api/api.h"
#include "driver/dense_args.h"
#include "driver/schedule/explain.h"
#include "report/report.h"
#include "target/target.h"

struct wv_report {
  HandleKind handle;
  Arena *arena;
  wv_ctx *owner;
  Context *cx;
  SimReport sim;
  Report shown;
  Kernel *tiles; /* as in `shown` */
  ScheduleView loops;
  const char *text, *json, *html; /* made on demand */
};

/* ---- running ---- */

static bool find_machine(Context *cx, const char *name, const TargetInfo **out) {
  TargetChoice t = name ? target_find(name) : (TargetChoice){0};
  if (!name || (t.simulated && t.is_kind)) return true; /* "sim": any machine with such waves */
  if (!(*out = t.machine)) return target_unknown(&cx->diags, (Span){0}, name), false;
  if ((*out)->vendor != VENDOR_HOST || target_has(*out, FEATURE_REGISTER_TILES)) return true;
  Diag *d = diag_add(&cx->diags, DIAG_E0603, (Span){0}, "`%s` cannot be simulated: it has no lanes",
                     name);
  return diag_hint(&cx->diags, d, "use target `eval` for the reference evaluator");
}

/* "random:7": the number after the colon is the seed. */
static bool find_schedule(Context *cx, const char *word, SimOptions *out) {
  static const char *const names[N_SIM_SCHEDULES] = {"round", "reverse", "first", "last", "random"};
  size_t len = word ? strcspn(word, ":") : 0;
  char *end = NULL;
  out->seed = word && word[len] ? strtoull(word + len + 1, &end, 10) : 1;
  bool bad_seed = end && (end == word + len + 1 || *end);
  for (int i = 0; word && i < N_SIM_SCHEDULES; i++) {
    if (strlen(names[i]) != len || memcmp(names[i], word, len) != 0) continue;
    out->schedule = (SimSchedule)i;
    if (!bad_seed && (!end || out->schedule == SIM_RANDOM)) return true;
  }
  if (!word) return true;
  const char *near =
      diag_nearest(arena_strndup(cx->diags.arena, word, len), names, N_SIM_SCHEDULES);
  Diag *d = diag_add(&cx->diags, DIAG_E0602, (Span){0}, "unknown schedule `%s`", word);
  if (near && !word[len]) diag_hint(&cx->diags, d, "did you mean `%s`?", near);
  else diag_hint(&cx->diags, d, "use `round`, `reverse`, `first`, `last`, `random` or `random:SEED`");
  return false;
}

/* What was lowered, lowered again without assumptions; NULL after reporting. */
static wv_kernel *lower_plain(wv_kernel *k) {
  const char *target = *k->plain_target ? k->plain_target : NULL;
  Diag *before = k->k->cx->diags.last;
  if (k->without) return k->without;
  wv_kernel *plain = api_kernel(k->cx, kernel_clone(k->plain));
  arena_owner(plain->k->arena, api_kernel_free, plain);
  if (wv_lower(plain, &(wv_pass_options){.target = target}))
    return k->without = api_kernel_owned(plain);
  kernel_blame_assumptions(k->k, before);
  wv_kernel_free(plain);
  return NULL;
}

static bool simulate(wv_kernel *k, Arena *a, const EvalArg *args, int nargs, const SimOptions *o,
                     wv_report *r) {
  DenseArgs dense;
  if (!dense_args_open(k->k, a, args, nargs, &dense)) return false;
  bool ok = sim_run(k->k, dense.args, nargs, o, &r->sim);
  dense_args_close(k->k, &dense);
  return ok;
}

/* The program that uses assumptions; if they do not hold, *k becomes the other one. */
static bool simulate_either(wv_kernel **k, Arena *a, const EvalArg *args, int nargs, SimOptions *o,
                            wv_report *r) {
  bool without = false;
  if ((*k)->plain) o->without = &without;
  bool ok = simulate(*k, a, args, nargs, o, r);
  if (!without) return ok;
  wv_kernel *plain = lower_plain(*k);
  return plain && simulate(*k = plain, a, args, nargs, o, r);
}

static void attempt_run(wv_kernel *k, Arena *a, const wv_sim_options *o, const EvalArg *args,
                        int nargs) {
  const char *target = o->target ? o->target : "sim";
  const char *sim = strncmp(target, "sim", 3) == 0 ? "" : "sim:";
  const char *schedule = o->schedule ? o->schedule : "round";
  const char *words = arena_printf(a, "run --target=%s%s --schedule=%s", sim, target, schedule);
  api_attempt(k->cx, k->k, api_attempt_run(a, k->k, words, args, nargs));
}

bool wv_sim(wv_kernel *k, const wv_arg *args, int nargs, const wv_sim_options *given,
            wv_report **report) {
  if (report) *report = NULL;
  API_KERNEL_USES(k, false);
  static const wv_sim_options plain;
  const wv_sim_options *o = given ? given : &plain;
  if (!api_list(k->cx, args, nargs, "arguments")) return false;
  Context *cx = k->k->cx;
  Arena *a = arena_new();
  wv_report *r = ARENA_NEW(a, wv_report);
  *r = (wv_report){
      .handle = HANDLE_REPORT, .arena = a, .owner = k->cx, .cx = cx, .sim = {.arena = a}};
  ApiRelay relay = {o->log, o->interrupted, o->user};
  SimOptions options = {.nonfinite = o->nonfinite,
                        .interrupted = api_relay_interrupt,
                        .log = api_relay_log,
                        .user = &relay};
  EvalArg *translated = api_args(cx, a, args, nargs);
  wv_kernel *ran = NULL;
  attempt_run(k, a, o, translated, nargs);
  bool ok = translated && find_machine(cx, o->target, &options.machine) &&
            find_schedule(cx, o->schedule, &options) &&
            (ran = api_kernel_for(k, o->target ? o->target : "sim", translated, nargs)) &&
            simulate_either(&ran, a, translated, nargs, &options, r);
  for (int i = 0; i < r->sim.findings; i++)
    r->sim.finding[i].diag = diag_copy(a, r->sim.finding[i].diag);
  const char *schedule = o->schedule ? arena_strdup(a, o->schedule) : "round";
  if (ran) r->shown = (Report){ran->k, ran->tiles, &r->sim, schedule, NULL, NULL};
  if (ran) r->tiles = ran->tiles;
  if (report) *report = r->sim.ran ? r : NULL;
  if (!report || !r->sim.ran) wv_report_free(r);
  return ok;
}

/* ---- reports ---- */

static wv_ctx *owner_of(const wv_report *r) { return api_is(r, HANDLE_REPORT) ? r->owner : NULL; }

#define API_REPORT(r, ...) API_ENTER(api_is(r, HANDLE_REPORT), owner_of(r), (void)0, __VA_ARGS__)

void wv_report_free(wv_report *r) {
  API_ASKS();
  if (api_is(r, HANDLE_REPORT)) arena_free(r->arena);
}

const char *wv_report_text(wv_report *r) {
  API_REPORT(r, NULL);
  StrBuf out = {.arena = r->arena};
  if (!r->text) sim_print(&out, r->cx, &r->sim);
  return r->text ? r->text : (r->text = sb_text(&out));
}

const char *wv_report_json(wv_report *r) {
  API_REPORT(r, NULL);
  StrBuf out = {.arena = r->arena};
  if (!r->json) report_json(&out, &r->shown);
  return r->json ? r->json : (r->json = sb_text(&out));
}

/* Computed only if it is shown. */
static void add_loops(wv_report *r) {
  if (!r->tiles || r->shown.loops) return;
  r->loops = api_schedule_view(r->arena, r->tiles, r->sim.machine);
  r->shown.loops = &r->loops;
  StrBuf decisions = {.arena = r->arena};
  api_explain_tiles(&decisions, r->tiles, r->sim.machine, r->arena);
  if (*sb_text(&decisions)) r->shown.decisions = sb_text(&decisions);
}

const char *wv_report_html(wv_report *r) {
  API_REPORT(r, NULL);
  StrBuf out = {.arena = r->arena};
  if (!r->html) add_loops(r);
  if (!r->html) report_html(&out, &r->shown);
  return r->html ? r->html : (r->html = sb_text(&out));
}

_Static_assert(WV_LEN(((wv_finding *)0)->index) == IR_MAX_RANK, "wave.h holds a whole index");

bool wv_report_finding(wv_report *r, int i, wv_finding *out) {
  API_REPORT(r, false);
  if (i < 0 || i >= r->sim.findings) return false;
  const SimFinding *f = &r->sim.finding[i];
  *out = (wv_finding){.count = f->count,
                      .other = api_place(r->cx, f->other),
                      .wave = f->wave,
                      .lane = f->lane,
                      .other_wave = f->other_wave,
                      .other_lane = f->other_lane,
                      .buffer = f->buffer,
                      .rank = f->rank,
                      .address = f->address};
  memcpy(out->workgroup, f->workgroup, sizeof out->workgroup);
  memcpy(out->index, f->index, sizeof out->index);
  api_diag(r->cx, r->arena, f->diag, &out->diag);
  return true;
}

static wv_cost cost_of(Context *cx, const SimLine *c) {
  return (wv_cost){api_place(cx, c->at), c->instructions, c->lane_ops,      c->shared,
                   c->conflicts,         c->sectors,      c->sectors_needed};
}

bool wv_report_line(wv_report *r, int i, wv_cost *out) {
  API_REPORT(r, false);
  if (i < 0 || i >= r->sim.nlines) return false;
  *out = cost_of(r->cx, &r->sim.line[i]);
  return true;
}

wv_cost wv_report_total(const wv_report *r) {
  API_REPORT(r, (wv_cost){0});
  return cost_of(r->cx, &r->sim.total);
}
