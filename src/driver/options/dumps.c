/* dumps.c: see dumps.h. What passes call while they run allocates nothing from arenas: it runs as a
 * user's callback does (base/landing.h). */
#define _POSIX_C_SOURCE 200809L
#include "driver/options/dumps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment/environment.h"
#include "base/landing.h"
#include "base/os.h"
#include "base/strbuf.h"
#include "driver/options/options.h"
#include "transform/pass_manager.h"

/* ---- words ---- */

typedef struct Word {
  const char *at;
  size_t n;
} Word;

/* The next word of a list with commas, without the spaces around it. False: there is none. */
static bool next_word(const char **list, Word *out) {
  while (**list) {
    *out = (Word){*list, strcspn(*list, ",")};
    *list += out->n + ((*list)[out->n] == ',');
    while (out->n && *out->at == ' ') out->at++, out->n--;
    while (out->n && out->at[out->n - 1] == ' ') out->n--;
    if (out->n) return true;
  }
  return false;
}

static bool has_word(const char *list, Word wanted) {
  for (Word w; next_word(&list, &w);)
    if (w.n == wanted.n && memcmp(w.at, wanted.at, w.n) == 0) return true;
  return false;
}

static bool has(const char *list, const char *text) {
  return has_word(list, (Word){text, strlen(text)});
}

/* What may be in a list of passes besides passes. */
static const char words[] = "all,first,last,trace";

/* Whether a list has `all`, or this pass under its name or a former one. */
static bool lists(const char *list, const char *pass) {
  if (has(list, "all")) return true;
  for (Word w; next_word(&list, &w);) {
    const PassInfo *row = pass_called(w.at, w.n);
    if (row && strcmp(row->name, pass) == 0) return true;
  }
  return false;
}

/* The passes of a list as the pass manager takes them. */
static const char *passes_of(Arena *a, const char *list) {
  StrBuf out = {.arena = a};
  if (has(list, "all")) return "all";
  for (Word w; next_word(&list, &w);)
    if (!has_word(words, w)) sb_printf(&out, "%s%.*s", out.n ? "," : "", (int)w.n, w.at);
  return out.n ? sb_text(&out) : NULL;
}

/* ---- what is wanted ---- */

static const char *or_empty(const char *text) { return text ? text : ""; }

Dumps dumps_of(Arena *a, const wv_options *o, const wv_output *out) {
  const char *all = option_is_on(o, "mlir_print_ir_after_all") ? "all" : "";
  Dumps d = {.after = arena_printf(a, "%s,%s,%s", or_empty(option_text(o, "print_ir_after")), all,
                                   or_empty(environment_text(VARIABLE_DUMP))),
             .before = or_empty(option_text(o, "print_ir_before")),
             .times = option_is_on(o, "print_pass_times")
                          ? "all"
                          : or_empty(option_text(o, "profile_pass")),
             .folder = option_text(o, "dump_intermediates"),
             .binaries = option_text(o, "dump_binaries"),
             .out = out ? *out : (wv_output){0}};
  bool every = d.folder || has(d.after, "last");
  d.asked_after = every ? "all" : passes_of(a, d.after);
  d.asked_before = passes_of(a, d.before);
  return d;
}

bool dumps_are_wanted(const Dumps *d) {
  return d->asked_after || d->asked_before || *d->times || d->binaries;
}

bool dumps_want_trace(const Dumps *d) { return has(d->after, "trace") || has(d->before, "first"); }

/* ---- output ---- */

void dumps_print(const wv_output *out, const char *text) {
  Landing away;
  if (!out || !out->print) {
    fputs(text, stdout);
    return;
  }
  landing_call_out(&away);
  out->print(out->user, text);
  landing_back(&away);
}

static void print_part(const Dumps *d, const char *title, const char *name, const char *text) {
  const char *parts[] = {"# ---- ", title, name, "\n", text, "\n"};
  for (size_t i = 0; i < WV_LEN(parts); i++) dumps_print(&d->out, parts[i]);
}

/* Prints the lines that begin with this word, in their own order. */
static void print_lines(const Dumps *d, const char *text, Word w) {
  const PassInfo *row = pass_called(w.at, w.n);
  char line[256];
  for (size_t n; row && *text; text += n) {
    n = strcspn(text, "\n") + 1;
    size_t len = strlen(row->name);
    if (strncmp(text, row->name, len) != 0 || text[len] != ' ' || n >= sizeof line) continue;
    snprintf(line, sizeof line, "%.*s", (int)n, text);
    dumps_print(&d->out, line);
  }
}

static void print_times(const Dumps *d, const char *text) {
  const char *list = d->times;
  dumps_print(&d->out, "# ---- times of passes\n");
  if (has(d->times, "all")) dumps_print(&d->out, text);
  else
    for (Word w; next_word(&list, &w);) print_lines(d, text, w);
}

static void write_file(Dumps *d, const char *path, const void *bytes, size_t n) {
  if (os_write_file(path, bytes, n) || d->broken[0]) return;
  snprintf(d->broken, sizeof d->broken, "`%.150s` cannot be written: %.80s", path, strerror(errno));
}

static void take_after(Dumps *d, const char *pass, const char *text) {
  char path[4096];
  if (has(d->after, "last")) {
    free(d->last);
    d->last = strdup(text); /* NULL: nothing is printed at the end */
  }
  if (lists(d->after, pass)) print_part(d, "after ", pass, text);
  if (!d->folder) return;
  snprintf(path, sizeof path, "%s/%02d_%s.wave", d->folder, ++d->count, pass);
  write_file(d, path, text, strlen(text));
}

/* Called by passes: a dump, or with pass NULL the times. */
static void take(void *user, const char *pass, const char *text) {
  Dumps *d = user;
  static const char before[] = "# before";
  if (!pass) print_times(d, text);
  else if (strncmp(text, before, sizeof before - 1) == 0) print_part(d, "before ", pass, text);
  else take_after(d, pass, text);
}

/* ---- around a compile ---- */

static bool make_folder(const char *path, Diags *diags, Span at) {
  if (!path || os_make_folder(path)) return true;
  diag_add(diags, DIAG_E0618, at, "the folder `%s` cannot be made: %s", path, strerror(errno));
  return false;
}

static bool check_passes(const char *list, Diags *diags, Span at) {
  for (Word w; next_word(&list, &w);)
    if (!has_word(words, w) && !pass_called(w.at, w.n))
      return pass_unknown(diags, at, w.at, w.n), false;
  return true;
}

bool dumps_begin(Dumps *d, Diags *diags, Span at) {
  if (!check_passes(d->after, diags, at) || !check_passes(d->before, diags, at)) return false;
  if (!check_passes(d->times, diags, at)) return false;
  return make_folder(d->folder, diags, at) && make_folder(d->binaries, diags, at);
}

wv_pass_options dumps_passes(Dumps *d) {
  return (wv_pass_options){.dump = d->asked_after,
                           .dump_before = d->asked_before,
                           .time = *d->times != '\0',
                           .write = take,
                           .user = d};
}

void dumps_save(Dumps *d, wv_program *p, wv_ctx *cx) {
  char path[4096];
  wv_variant v;
  int kind = wv_program_kind(p);
  const char *ending = kind == WV_CUDA ? "ptx" : kind == WV_HIP ? "hsaco" : "o";
  for (int i = 0; d->binaries && wv_program_variant(p, i, &v); i++) {
    size_t n = 0;
    const void *code = v.compiled ? wv_program_code(p, cx, i, &n) : NULL;
    snprintf(path, sizeof path, "%s/%s_%s_%d.%s", d->binaries, wv_program_name(p),
             wv_program_target(p), i, ending);
    if (code) write_file(d, path, code, n);
  }
}

bool dumps_end(Dumps *d, bool ok, Diags *diags, Span at) {
  if (ok && d->last && !has(d->after, "all")) print_part(d, "after the last pass", "", d->last);
  free(d->last);
  d->last = NULL;
  if (ok && d->broken[0]) diag_add(diags, DIAG_E0618, at, "%s", d->broken);
  return ok && !d->broken[0];
}
