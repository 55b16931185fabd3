/* options.c: the rows of options.def, and what can be said about options without a kernel. */
#include "driver/options/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/strbuf.h"
#include "target/target.h"

static const OptionInfo rows[] = {
#define OPTION(what, word, ...) {.name = #word, .kind = OPTION_##what, .text = __VA_ARGS__},
#include "driver/options/options.def"
};

const OptionInfo *option_at(int i) { return i >= 0 && (size_t)i < WV_LEN(rows) ? &rows[i] : NULL; }

const OptionInfo *option_called(const char *name) {
  for (size_t i = 0; i < WV_LEN(rows); i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  return NULL;
}

/* Assigned by public code; without a meaning here, and not misspelt. */
static const char *const public_names[] = {"use_wave_asm_backend"};

const char *option_meant(const char *name) {
  const char *names[WV_LEN(rows)];
  if (option_called(name)) return NULL;
  for (size_t i = 0; i < WV_LEN(public_names); i++)
    if (strcmp(public_names[i], name) == 0) return NULL;
  for (size_t i = 0; i < WV_LEN(rows); i++) names[i] = rows[i].name;
  return diag_nearest(name, names, (int)WV_LEN(rows));
}

/* ---- values ---- */

const wv_option *option_given(const wv_options *o, const char *name) {
  for (int i = 0; i < o->n; i++)
    if (strcmp(o->at[i].name, name) == 0) return &o->at[i];
  return NULL;
}

const char *option_value(const wv_options *o, const char *name) {
  const wv_option *given = option_given(o, name);
  return given ? given->value : NULL;
}

const char *option_text(const wv_options *o, const char *name) {
  return option_is_on(o, name) ? option_value(o, name) : NULL;
}

bool option_is(const wv_options *o, const char *name, const char *value) {
  const wv_option *given = option_given(o, name);
  return given && given->value && strcmp(given->value, value) == 0;
}

/* As Python tests values. */
bool option_is_on(const wv_options *o, const char *name) {
  static const char *const off[] = {"False", "None", "0", ""};
  const wv_option *given = option_given(o, name);
  for (size_t i = 0; given && i < WV_LEN(off); i++)
    if (given->value && strcmp(given->value, off[i]) == 0) return false;
  return given != NULL;
}

/* All text IR has braces, and rows end with a line feed. */
bool option_is_content(const OptionInfo *row, const char *value) {
  char mark = row->file == OPTION_READ_OR_IR ? '{' : row->file == OPTION_READ_OR_ROWS ? '\n' : 0;
  return mark && strchr(value, mark);
}

/* Whether a word is among those of a list with this separator. */
static bool is_among(const char *list, char separator, const char *word, size_t n) {
  for (const char *at = list; at; at = strchr(at, separator), at = at ? at + 1 : NULL) {
    const char *end = strchr(at, separator);
    size_t len = end ? (size_t)(end - at) : strlen(at);
    if (len == n && strncmp(at, word, n) == 0) return true;
  }
  return false;
}

/* All items are values that no machine leaves out. */
static bool is_same(const OptionInfo *row, const char *value) {
  if (!row->same || !value) return false;
  for (const char *at = value; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
    if (!is_among(row->same, ',', at, strcspn(at, ","))) return false;
  return true;
}

/* ---- mistakes ---- */

/* `'equal' or 'smallest'` */
static const char *choices_text(Arena *a, const char *choices) {
  StrBuf out = {.arena = a};
  for (const char *at = choices; at; at = strchr(at, '|'), at = at ? at + 1 : NULL)
    sb_printf(&out, "%s'%.*s'", out.n ? " or " : "", (int)strcspn(at, "|"), at);
  return sb_text(&out);
}

static bool is_number(const char *text) {
  char *end = NULL;
  if (text) strtoll(text, &end, 10);
  return text && end != text && !*end;
}

static bool is_truth(const char *text) {
  return text && is_among("True,False,None", ',', text, strlen(text));
}

static const char *value_mistake(Arena *a, const OptionInfo *row, const wv_option *given) {
  const char *value = given->value ? given->value : "";
  if (row->choices && !is_among(row->choices, '|', value, strlen(value)))
    return arena_printf(a, "%s must be %s, not %s", row->name, choices_text(a, row->choices),
                        given->shown);
  if (row->is_number && !is_number(value))
    return arena_printf(a, "%s must be an integer, not %s", row->name, given->shown);
  if (row->is_truth && !is_truth(given->value))
    return arena_printf(a, "%s must be True or False, not %s", row->name, given->shown);
  if (row->is_text && !given->value)
    return arena_printf(a, "%s must be a text or a list of texts, not %s", row->name, given->shown);
  return NULL;
}

const char *options_mistake(Arena *a, const wv_options *o) {
  const char *wrong = NULL;
  for (int i = 0; !wrong && i < o->n; i++) {
    const OptionInfo *row = option_called(o->at[i].name);
    if (!row) return arena_printf(a, "unknown option `%s`", o->at[i].name);
    wrong = value_mistake(a, row, &o->at[i]);
  }
  if (wrong) return wrong;
  bool direct = option_is_on(o, "wave_runtime");
  if (option_is(o, "backend", "asm") && !direct && !option_is_on(o, "use_water_backend"))
    return "backend='asm' needs wave_runtime=True";
  if (direct && option_is_on(o, "run_bench"))
    return "wave_runtime=True cannot be combined with run_bench=True";
  return NULL;
}

static bool find_file(Diags *diags, Span at, const OptionInfo *row, const char *path) {
  if (row->file == OPTION_NO_FILE || option_is_content(row, path)) return true;
  if (row->file == OPTION_WRITTEN) {
    const char *folder = os_folder_of(diags->arena, path);
    if (os_is_folder(folder)) return true;
    return diag_fail(diags, DIAG_E0618, at,
                     "`%s` names a file in a folder that does not exist: `%s`", row->name, folder);
  }
  if (os_file_stamp(path)) return true;
  Diag *d = diag_add(diags, DIAG_E0618, at, "`%s` names a file that does not exist: `%s`",
                     row->name, path);
  if (row->file == OPTION_READ_OR_ROWS)
    diag_hint(diags, d, "if these are rows, end each with a line feed");
  return false;
}

bool options_find_files(Diags *diags, Span at, const wv_options *o) {
  for (int i = 0; i < o->n; i++) {
    const OptionInfo *row = option_called(o->at[i].name);
    const char *path = o->at[i].value;
    if (row && path && !find_file(diags, at, row, path)) return false;
  }
  return true;
}

/* ---- options without effect ---- */

static unsigned machine_bit(const wv_machine *m) {
  static const struct {
    const char *kind;
    unsigned bit;
  } bits[] = {{"sim", ON_SIM}, {"cpu", ON_CPU}, {"cuda", ON_CUDA}, {"hip", ON_HIP}};
  /* The code is that of the GPU, whatever executes it. */
  if (m->target && target_find(m->target).kind == TARGET_EMU) return ON_HIP;
  for (size_t i = 0; i < WV_LEN(bits); i++)
    if (strcmp(bits[i].kind, m->kind) == 0) return bits[i].bit;
  return 0;
}

/* `name=value`, shortened. */
static const char *setting(Arena *a, const wv_option *given) {
  enum { MOST = 40, DOTS = 3 };
  size_t n = strlen(given->shown);
  if (n <= MOST) return arena_printf(a, "`%s=%s`", given->name, given->shown);
  return arena_printf(a, "`%s=%.*s...`", given->name, MOST - DOTS, given->shown);
}

static const char *why_unused(Arena *a, const wv_option *given, const wv_machine *m) {
  const OptionInfo *row = option_called(given->name);
  if (!row || is_same(row, given->value)) return NULL;
  if (row->kind == OPTION_IDLE)
    return arena_printf(a, "%s has no effect: %s", setting(a, given), row->text);
  if (!row->on || row->on & machine_bit(m)) return NULL;
  return arena_printf(a, "%s has no effect on target `%s`", setting(a, given),
                      m->target ? m->target : m->kind);
}

int options_unused(Arena *a, const wv_options *o, const wv_machine *m, const char **out) {
  int n = 0;
  for (int i = 0; i < o->n; i++)
    if ((out[n] = why_unused(a, &o->at[i], m))) n++;
  if (!o->has_schedule && option_is(o, "schedule", "MANUAL"))
    out[n++] = "`schedule=MANUAL` has no effect without a schedule function";
  return n;
}
