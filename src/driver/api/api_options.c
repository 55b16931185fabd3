/* api_options.c: options of a compile by name, through wave.h. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/strbuf.h"
#include "driver/api/api.h"
#include "driver/options/options.h"
#include "ir/schedule/schedule.h"

static const char *machines_text(unsigned on) {
  static const char *const names[] = {
      "",         "sim",          "cpu",          "sim,cpu",         "cuda",    "sim,cuda",
      "cpu,cuda", "sim,cpu,cuda", "hip",          "sim,hip",         "cpu,hip", "sim,cpu,hip",
      "cuda,hip", "sim,cuda,hip", "cpu,cuda,hip", "sim,cpu,cuda,hip"};
  return names[on];
}

bool wv_option_row(int i, wv_option_info *out) {
  API_PLAIN;
  static const char *const kinds[] = {"works", "holds", "idle", "result"};
  static const char *const files[] = {[OPTION_NO_FILE] = "",
                                      [OPTION_READ] = "read",
                                      [OPTION_WRITTEN] = "written",
                                      [OPTION_READ_OR_IR] = "",
                                      [OPTION_READ_OR_ROWS] = ""};
  const OptionInfo *row = option_at(i);
  if (!row) return false;
  *out = (wv_option_info){row->name,        kinds[row->kind], row->text, machines_text(row->on),
                          files[row->file], row->is_key};
  return true;
}

bool api_options(wv_ctx *cx, const wv_options *o) {
  if (!api_expected(cx, o != NULL, "options") || !api_list(cx, o->at, o->n, "options"))
    return false;
  for (int i = 0; i < o->n; i++)
    if (!api_text(cx, o->at[i].name, "name") || !api_text(cx, o->at[i].shown, "text")) return false;
  return true;
}

bool wv_options_check(wv_ctx *cx, const wv_options *o, const char **mistake) {
  API_CHANGES(cx, false);
  *mistake = NULL;
  if (!api_options(cx, o) || (*mistake = options_mistake(cx->cx->arena, o))) return false;
  const wv_option *target = option_given(o, "target");
  wv_machine_options named = {.target = target ? target->value : NULL, .at = o->place};
  if (!wv_machine_find(cx, &named, NULL)) return false;
  return options_find_files(&cx->cx->diags, api_span(cx->cx, o->place), o);
}

/* Each as a remark, or all in one error. */
static bool report_unused(wv_ctx *cx, const wv_options *o, const char *const *found, int n) {
  Diags *diags = &cx->cx->diags;
  Span at = api_span(cx->cx, o->place);
  bool strict = option_is_on(o, "strict");
  StrBuf all = {.arena = diags->arena};
  for (int i = 0; i < n; i++) {
    if (strict) sb_printf(&all, "%s%s", i ? "; " : "", found[i]);
    else diag_add(diags, DIAG_R0609, at, "%s", found[i]);
  }
  if (!n || !strict) return true;
  Diag *d = diag_add(diags, DIAG_E0617, at, "%s", sb_text(&all));
  return diag_hint(diags, d, "remove the option, or remove strict=True");
}

/* Names that resemble options. */
static bool report_misspelt(wv_ctx *cx, const wv_options *o) {
  bool strict = option_is_on(o, "strict"), found = false;
  for (int i = 0; i < o->n; i++) {
    const char *meant = option_meant(o->at[i].name);
    if (!meant) continue;
    found = true;
    Diag *d =
        diag_add(&cx->cx->diags, strict ? DIAG_E0602 : DIAG_W0601, api_span(cx->cx, o->place),
                 "`%s` was assigned to WaveCompileOptions, which has no such field", o->at[i].name);
    diag_hint(&cx->cx->diags, d, "did you mean `%s`?", meant);
  }
  return !found || !strict;
}

bool wv_options_unused(wv_ctx *cx, const wv_options *o, const wv_machine *m) {
  API_CHANGES(cx, false);
  if (!api_options(cx, o) || !api_expected(cx, m && m->kind, "machine")) return false;
  Arena *a = cx->cx->diags.arena; /* freed with the diagnostics */
  const char **found = ARENA_ARRAY(a, const char *, o->n + 1);
  bool spelt = report_misspelt(cx, o);
  return report_unused(cx, o, found, options_unused(a, o, m, found)) && spelt;
}

/* ---- options of a kernel ---- */

bool wv_options_undumped(wv_kernel *k, const wv_options *o) {
  API_KERNEL_USES(k, false);
  if (!api_options(k->cx, o)) return false;
  const wv_option *target = option_given(o, "target");
  const char *runs = target && target->value ? wv_target_device(target->value) : NULL;
  if (runs && strcmp(runs, "eval") == 0) return true; /* wv_options_unused says so */
  bool dumps = wv_options_dump(k->cx, o) || option_is_on(o, "dump_schedule");
  if (!dumps || !wv_kernel_is_open(k)) return true;
  const char *text =
      arena_printf(k->cx->cx->diags.arena,
                   "nothing is dumped: `%s` is compiled when it is called (R0613), unless the "
                   "symbols that its tiles depend on are bound",
                   k->k->name);
  return report_unused(k->cx, o, &text, 1);
}

static void add_row(wv_kernel *k, const wv_options *o, const char *kind, int64_t size,
                    wv_constraint *rows, int *n) {
  rows[(*n)++] = (wv_constraint){.kind = kind, .at = o->place, .size = wv_int(k->cx, size)};
}

static bool option_is_set(const wv_options *o, const OptionInfo *row) {
  const wv_option *given = option_given(o, row->name);
  return given && given->value && strcmp(given->value, "None") != 0 && *given->value;
}

static int64_t row_value(const wv_options *o, const OptionInfo *row) {
  const char *value = option_given(o, row->name)->value;
  if (row->choices) return row->same && strcmp(value, row->same) == 0;
  return row->is_number ? strtoll(value, NULL, 10) : strcmp(value, "True") == 0;
}

/* Of a SchedulingType, which has the names of schedule.def in capitals; 0: as many as are useful. */
static int kind_slots(const char *value) {
  char kind[32] = {0};
  for (size_t i = 0; value && value[i] && i + 1 < sizeof kind; i++)
    kind[i] = (char)tolower((unsigned char)value[i]);
  return schedule_kind_depth(kind);
}

/* The rows of the header that options request. */
static bool add_rows(wv_kernel *k, const wv_options *o) {
  enum { MOST = 12 };
  wv_constraint rows[MOST];
  int n = 0;
  const wv_option *slots = option_given(o, "multi_buffer_count");
  const wv_option *schedule = option_given(o, "schedule");
  if (slots && slots->value) add_row(k, o, "stages", strtoll(slots->value, NULL, 10), rows, &n);
  else if (schedule && !option_is(o, "schedule", "MANUAL"))
    add_row(k, o, "stages", kind_slots(schedule->value), rows, &n);
  const OptionInfo *row;
  for (int i = 0; (row = option_at(i)); i++)
    if (row->off && option_is(o, row->name, "False") && n < MOST)
      add_row(k, o, row->off, 0, rows, &n);
    else if (row->row && option_is_set(o, row) && n < MOST)
      add_row(k, o, row->row, row_value(o, row), rows, &n);
  return wv_kernel_constrain(k, rows, n);
}

static bool has_schedule_row(const Kernel *k, const char *loop) {
  EACH_ROW(k, schedule, row)
    if (strcmp(row->schedule.loop, loop) == 0) return true;
  return false;
}

/* MODULO: the schedules of all loops are solved, except those that rows are about already. */
static void add_modulo(Kernel *k, const wv_options *o) {
  if (!option_is(o, "schedule", "MODULO") && !option_is(o, "schedule", "MODULO_MULTI_BUFFERED"))
    return;
  for (const Op *loop = NULL; (loop = schedule_next_loop(k, loop, NULL));) {
    const char *name = schedule_loop_name(k->arena, loop);
    if (has_schedule_row(k, name)) continue;
    Constraint row = constraint_empty(CONSTRAINT_schedule, loop->at);
    row.schedule.loop = name, row.schedule.how = "modulo";
    vec_push(k->arena, &k->constraints, row);
  }
}

const char *api_option_content(wv_ctx *cx, const wv_options *o, const char *option, Arena *a,
                               const char **name) {
  const char *given = option_value(o, option);
  size_t n;
  *name = arena_printf(a, "<%s>", option);
  if (option_is_content(option_called(option), given)) return given;
  *name = given;
  const char *text = os_read_file(a, given, &n);
  if (!text)
    diag_add(&cx->cx->diags, DIAG_E0618, api_span(cx->cx, o->place), "`%s` cannot be read: %s",
             given, strerror(errno));
  return text;
}

/* The rows of a schedule that was written before. */
static bool add_schedule(wv_kernel *k, const wv_options *o) {
  if (!option_text(o, "override_schedule")) return true;
  Arena *a = arena_new();
  const char *name, *text = api_option_content(k->cx, o, "override_schedule", a, &name);
  bool ok = text && wv_kernel_schedule(k, name, text);
  arena_free(a);
  return ok;
}

bool wv_options_apply(wv_kernel *k, const wv_options *o) {
  API_KERNEL(k, false);
  if (!api_options(k->cx, o)) return false;
  bool is_edited = option_given(o, "override_mlir") != NULL; /* its header has the rows already */
  if (!is_edited && !add_rows(k, o)) return false;
  if (!is_edited) add_modulo(k->k, o);
  if (!add_schedule(k, o)) return false;
  if (option_is(o, "sizes", "smallest")) wv_kernel_free_sizes(k);
  if (option_is(o, "assume", "ignore")) wv_kernel_assume(k, WV_ASSUME_IGNORED);
  else if (option_is_on(o, "strict")) wv_kernel_assume(k, WV_ASSUME_REQUIRED);
  if (option_given(o, "device_asserts") && !option_is_on(o, "device_asserts"))
    wv_kernel_drop_asserts(k);
  return true;
}
