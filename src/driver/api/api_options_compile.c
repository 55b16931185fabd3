/* api_options_compile.c: compiling as options by name request, through wave.h. */
#include <errno.h>
#include <string.h>

#include "base/os.h"
#include "driver/api/api.h"
#include "driver/options/dumps.h"
#include "driver/options/options.h"

bool wv_options_machine(wv_ctx *cx, const wv_options *o, wv_machine *out) {
  API_CHANGES(cx, false);
  if (!api_options(cx, o)) return false;
  wv_machine_options m = {.target = option_value(o, "target"),
                          .device = option_value(o, "device"),
                          .strict = option_is_on(o, "strict"),
                          .code_only = option_is_on(o, "compile_to_asm"),
                          .at = o->place};
  return wv_machine_find(cx, &m, out);
}

const char *wv_options_text_only(const wv_options *o) {
  API_PLAIN;
  static const char *const names[] = {"compile_to_mlir", "compile_to_asm"};
  for (size_t i = 0; o && i < WV_LEN(names); i++)
    if (option_is_on(o, names[i])) return names[i];
  return NULL;
}

/* ---- before compiling ---- */

static bool parse_override(wv_kernel *k, const char *name, const char *text, wv_kernel **out,
                           const char **mistake) {
  int n = wv_parse(k->cx, name, text, out, 1);
  if (n < 0) return false;
  if (n == 1 && wv_kernel_nparams(*out) == wv_kernel_nparams(k)) return true;
  if (n) wv_kernel_free(*out);
  *out = NULL;
  *mistake = arena_printf(
      k->cx->cx->arena, "override_mlir must hold one kernel with the parameters of %s", k->k->name);
  return false;
}

bool wv_options_override(wv_kernel *k, const wv_options *o, wv_kernel **out, const char **mistake) {
  API_KERNEL_USES(k, false);
  *out = NULL;
  *mistake = NULL;
  if (!api_options(k->cx, o)) return false;
  if (!option_value(o, "override_mlir")) return true;
  Arena *a = arena_new();
  const char *name, *text = api_option_content(k->cx, o, "override_mlir", a, &name);
  bool ok = text && parse_override(k, name, text, out, mistake);
  arena_free(a);
  return ok;
}

/* A line for each parameter: its name, its type, and whether the kernel writes it. */
static void print_signature(wv_kernel *k, Arena *a, const wv_output *out) {
  StrBuf text = {.arena = a};
  const char *name;
  wv_type t;
  bool is_output;
  sb_printf(&text, "%s:\n", k->k->name);
  for (int i = 0; wv_kernel_param(k, i, &name, &t, &is_output); i++) {
    sb_printf(&text, "  %s: %s", name, wv_type_dtype(t));
    for (int d = 0; d < wv_type_rank(t); d++)
      sb_printf(&text, "%s%s", d ? ", " : "[", wv_expr_text(k->cx, wv_type_dim(t, d)));
    if (strcmp(wv_type_kind(t), "mem") == 0)
      sb_printf(&text, "], %s", is_output ? "output" : "input");
    sb_printf(&text, "\n");
  }
  dumps_print(out, sb_text(&text));
}

static bool write_kernel(wv_kernel *k, const wv_options *o, const char *path, const char *text) {
  if (!path || os_write_file(path, text, strlen(text))) return true;
  diag_add(&k->cx->cx->diags, DIAG_E0618, api_span(k->cx->cx, o->place),
           "`%s` cannot be written: %s", path, strerror(errno));
  return false;
}

/* On the machine that the options choose. A kernel that cannot be compiled for it has no schedule:
 * compiling reports why. */
static bool write_schedule(wv_kernel *k, const wv_options *o) {
  const char *path = option_text(o, "dump_schedule");
  wv_machine m;
  Diags *diags = &k->cx->cx->diags;
  Diag *last = diags->last;
  if (!path || wv_kernel_is_open(k)) return true;
  bool found = wv_options_machine(k->cx, o, &m) && strcmp(m.kind, "eval") != 0;
  char *text = found ? wv_schedule(k, m.target ? m.target : "cpu") : NULL;
  diags_cut(diags, last);
  bool ok = !text || write_kernel(k, o, path, text);
  wv_free(text);
  return ok;
}

bool wv_options_show(wv_kernel *k, const wv_options *o, const wv_output *out) {
  API_KERNEL_READS(k, false);
  if (!api_options(k->cx, o)) return false;
  Arena *a = arena_new();
  Dumps dumps = dumps_of(a, o, out);
  bool prints = option_is_on(o, "print_mlir") || option_is_on(o, "print_trace_begin") ||
                dumps_want_trace(&dumps);
  const char *path = option_text(o, "print_mlir_file");
  StrBuf text = {.arena = a};
  if (prints || path) ir_print(&text, k->k);
  if (prints) dumps_print(out, sb_text(&text)), dumps_print(out, "\n");
  if (option_is_on(o, "print_signature")) print_signature(k, a, out);
  bool ok = write_kernel(k, o, path, path ? sb_text(&text) : "");
  arena_free(a);
  return ok && write_schedule(k, o);
}

char *wv_options_key(wv_kernel *k, const wv_options *o) {
  API_KERNEL_READS(k, NULL);
  if (!api_options(k->cx, o)) return NULL;
  Arena *a = arena_new();
  StrBuf key = {.arena = a};
  ir_print(&key, k->k);
  for (int i = 0; i < o->n; i++) {
    const OptionInfo *row = option_called(o->at[i].name);
    if (row && row->is_key) sb_printf(&key, "%s=%s\n", row->name, o->at[i].shown);
  }
  char *text = api_given_away(sb_text(&key));
  arena_free(a);
  return text;
}

/* ---- compiling ---- */

bool wv_options_dump(wv_ctx *cx, const wv_options *o) {
  API_CHANGES(cx, false);
  if (!api_options(cx, o)) return false;
  Arena *a = arena_new();
  Dumps dumps = dumps_of(a, o, NULL);
  bool wanted = dumps_are_wanted(&dumps);
  arena_free(a);
  return wanted;
}

/* Whether options and machine are given. */
static bool expects(wv_kernel *k, const wv_options *o, const wv_machine *m) {
  return api_options(k->cx, o) && api_expected(k->cx, m != NULL, "machine");
}

/* An open kernel is lowered for the sizes of each call, unless it was lowered in part. */
static bool lower(wv_kernel *k, const wv_options *o, const wv_machine *m, Dumps *dumps) {
  const char *after = option_value(o, "override_stage");
  wv_pass_options p = dumps_passes(dumps);
  p.target = m->target ? m->target : "sim";
  p.start_after = after;
  return (!after && wv_kernel_is_open(k)) || wv_lower(k, &p);
}

bool wv_options_lower(wv_kernel *k, const wv_options *o, const wv_machine *m,
                      const wv_output *out) {
  API_KERNEL(k, false);
  if (!expects(k, o, m)) return false;
  Arena *a = arena_new();
  Diags *diags = &k->cx->cx->diags;
  Span at = api_span(k->cx->cx, o->place);
  Dumps dumps = dumps_of(a, o, out);
  bool ok = dumps_begin(&dumps, diags, at);
  ok = dumps_end(&dumps, ok && lower(k, o, m, &dumps), diags, at);
  arena_free(a);
  return ok;
}

static wv_program *compile(wv_kernel *k, const wv_options *o, const wv_machine *m,
                           wv_compile_options c, Dumps *dumps) {
  wv_pass_options passes = dumps_passes(dumps);
  c.target = m->target;
  c.device = option_is_on(o, "compile_to_asm") ? -1 : m->device;
  c.fast_math = option_is_on(o, "use_fast_math");
  c.start_after = option_value(o, "override_stage");
  if (passes.dump || passes.dump_before || passes.time) c.dump = &passes;
  wv_program *p = wv_compile(k, &c);
  if (p) dumps_save(dumps, p, k->cx);
  return p;
}

wv_program *wv_options_compile(wv_kernel *k, const wv_options *o, const wv_machine *m, int cache,
                               const char *cache_dir, const wv_output *out) {
  API_KERNEL_USES(k, NULL);
  if (!expects(k, o, m)) return NULL;
  Arena *a = arena_new();
  Diags *diags = &k->cx->cx->diags;
  Span at = api_span(k->cx->cx, o->place);
  Dumps dumps = dumps_of(a, o, out);
  wv_compile_options c = {.cache = cache, .cache_dir = cache_dir};
  wv_program *p = dumps_begin(&dumps, diags, at) ? compile(k, o, m, c, &dumps) : NULL;
  if (!dumps_end(&dumps, p != NULL, diags, at)) wv_program_free(p), p = NULL;
  arena_free(a);
  return p;
}

const char *wv_options_fallback(wv_kernel *k, const wv_options *o, const wv_machine *m) {
  API_KERNEL_READS(k, NULL);
  if (!expects(k, o, m)) return NULL;
  return wv_compile_fallback(k, m->target, option_is_on(o, "strict"));
}
