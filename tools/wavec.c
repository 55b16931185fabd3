/* wavec.c: the command line tool. Reads *.wave, checks it, runs passes, prints, runs.
 *
 * Exit status: 0 success, 1 errors were reported, 2 the command line or a file is wrong. */
#include "wavec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KERNELS = 256 };

/* ---- queries ---- */

static void list_ops(void) {
  const char *name, *level, *doc;
  for (int i = 0; wv_op_info(i, &name, &level, &doc); i++)
    printf("%-18s %-7s %s\n", name, level, doc);
}

/* One pipeline: the passes for these machines. Those of both are explained once. */
static void list_pipeline(const char *machines, const char *title, bool explain) {
  const char *name, *doc;
  printf("%s\n", title);
  for (int i = 0; wv_pass_info(i, &name, &doc); i++) {
    bool is_own = strcmp(wv_pass_machines(i), machines) == 0;
    if (!is_own && strcmp(wv_pass_machines(i), "both") != 0) continue;
    if (is_own || explain) printf("  %-14s %s\n", name, doc);
    else printf("  %s\n", name);
  }
}

static void list_passes(void) {
  list_pipeline("lanes", "for machines with lanes:", true);
  list_pipeline("loops", "for machines without lanes, as loops:", false);
}

static void list_targets(void) {
  const char *name, *doc;
  for (int i = 0; wv_target_info(i, &name, &doc); i++)
    printf("%-15s  %-12s  %s\n", name, wv_target_uses(i), doc);
  puts(
      "\ncode: code is generated; sim: `sim:NAME` simulates it; emu: `emu:NAME` executes its code");
}

static void list_diagnostics(void) {
  const char *code, *title, *explanation;
  for (int i = 0; wv_diag_info(i, &code, &title, &explanation); i++)
    printf("%s  %s\n", code, title);
}

static void list_mma(void) {
  wv_mma_info m;
  for (int i = 0; wv_mma_row(i, &m); i++)
    printf("%-32s m %3d  n %3d  k %3d  %2d lanes%s\n", m.name, m.m, m.n, m.k, m.lanes,
           m.scaled ? "  scaled" : "");
}

static void list_dtypes(void) {
  const char *class;
  int bits;
  for (int i = 0; i < wv_dtype_count(); i++) {
    const char *name = wv_dtype_name(i, &bits, &class);
    printf("%-12s %2d bits  %s\n", name, bits, class);
  }
}

static void list_environment(void) {
  wv_variable_info v;
  for (int i = 0; wv_variable_row(i, &v); i++)
    if (strcmp(v.reader, "none") != 0) printf("%-24s %s\n", v.name, v.text);
}

static void list_device(wv_ctx *cx, wv_device d) {
  wv_device_info info;
  if (!wv_device_get(cx, d, &info)) return;
  printf("%-4s %d  %-12s %s: %d units, %lld MiB\n", wv_device_kind_name(d.kind), d.index,
         info.target ? info.target : "-", info.name, info.units, (long long)(info.memory >> 20));
}

/* The devices of this machine; of a kind that has none, why. */
static void list_devices(void) {
  wv_ctx *cx = wv_ctx_new();
  wv_device_info info;
  wv_diag why;
  for (int i = 0, kind; (kind = wv_device_kind(i)); i++) {
    int n = wv_device_count(cx, kind);
    for (int d = 0; d < n; d++) list_device(cx, (wv_device){kind, d});
    if (n || wv_device_get(cx, (wv_device){kind, 0}, &info)) continue;
    int last = wv_diag_count(cx) - 1;
    printf("%-4s -  %s\n", wv_device_kind_name(kind),
           wv_diag_get(cx, last, &why) ? why.text : "there is none");
  }
  wv_ctx_free(cx);
}

static const struct {
  const char *name;
  void (*print)(void);
} lists[] = {{"ops", list_ops},
             {"passes", list_passes},
             {"mma", list_mma},
             {"targets", list_targets},
             {"devices", list_devices},
             {"dtypes", list_dtypes},
             {"diagnostics", list_diagnostics},
             {"environment", list_environment}};

static int print_list(const char *name) {
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (strcmp(lists[i].name, name) == 0) lists[i].print();
  return STATUS_OK;
}

static int explain(const char *word) {
  const char *text = wv_explain(word), *code, *title, *rest;
  for (int i = 0; text && wv_diag_info(i, &code, &title, &rest); i++) {
    if (rest != text) continue;
    printf("%s: %s\n\n%s\n", code, title, text);
    return STATUS_OK;
  }
  complain("unknown diagnostic %s: run wavec --list=diagnostics", word);
  return STATUS_USAGE;
}

/* ---- files ---- */

/* The whole file and a final NUL, from malloc; NULL after an error message. */
static char *read_text(const char *path, size_t *len) {
  FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
  if (!f) return complain("cannot read %s: %s", path, strerror(errno)), NULL;
  char *text = NULL;
  size_t n = 0, cap = 0, got;
  do {
    cap = cap ? cap * 2 : 65536;
    char *more = realloc(text, cap);
    if (!more) abort();
    text = more;
    got = fread(text + n, 1, cap - n - 1, f);
    n += got;
  } while (n == cap - 1);
  text[n] = '\0';
  bool failed = ferror(f) != 0;
  if (f != stdin) fclose(f);
  *len = n;
  if (!failed) return text;
  complain("cannot read %s", path);
  free(text);
  return NULL;
}

/* The parser reads to the first NUL byte: one inside the file would hide the rest. */
static bool check_text(wv_ctx *cx, const char *name, const char *text, size_t len) {
  const char *nul = memchr(text, '\0', len);
  if (!nul) return true;
  wv_place at = {.file = name, .line = 1, .col = 1, .len = 1};
  for (const char *c = text; c < nul; c++, at.col++)
    if (*c == '\n') at.line++, at.col = 0;
  wv_diag_report(cx, "E0502", at, "the byte 0x00 is not allowed in a kernel", NULL);
  return false;
}

/* Remarks are about compiling, and `run` is about results. */
static void report(const Options *o, wv_ctx *cx) {
  wv_diag d;
  for (int i = 0; i < wv_diag_count(cx); i++)
    if (wv_diag_get(cx, i, &d) && !((o->run || o->loops) && strcmp(d.severity, "remark") == 0))
      fputs(d.rendered, stderr);
}

/* ---- kernels ---- */

bool is_dynamic(const wv_kernel *k, wv_expr symbol) {
  const char *kind;
  wv_expr dim, size;
  for (int i = 0; wv_kernel_row(k, i, &kind, &dim, &size); i++)
    if (strcmp(kind, "dynamic") == 0 && dim == symbol) return true;
  return false;
}

bool parse_setting(wv_ctx *cx, const char *word, wv_binding *out) {
  char name[256];
  const char *equals = strchr(word, '=');
  if (!equals || equals - word >= (long)sizeof name) {
    wv_diag_report(cx, "E0602", (wv_place){0}, "--set takes SYMBOL=EXPRESSION", NULL);
    return false;
  }
  snprintf(name, sizeof name, "%.*s", (int)(equals - word), word);
  out->from = wv_expr_parse(cx, name);
  out->to = wv_expr_parse(cx, equals + 1);
  return out->from && out->to;
}

/* A dynamic symbol has no row: its value is the size of an argument. */
static bool apply_settings(const Options *o, wv_ctx *cx, wv_kernel *k) {
  for (int i = 0; i < o->set.n; i++) {
    wv_binding b;
    if (!parse_setting(cx, o->set.at[i], &b)) return false;
    wv_constraint row = {.kind = "bind", .dim = b.from, .size = b.to};
    if (!is_dynamic(k, b.from) && !wv_kernel_constrain(k, &row, 1)) return false;
  }
  return true;
}

/* An open kernel, specialised for the sizes in the settings; NULL if they are missing, or if the
 * kernel is not open. */
static wv_kernel *fitted(const Options *o, wv_ctx *cx, wv_kernel *k) {
  wv_binding *values = calloc((size_t)o->set.n + 1, sizeof *values);
  bool ok = values && o->set.n && o->target && !o->run && wv_kernel_is_open(k);
  for (int i = 0; ok && i < o->set.n; i++) ok = parse_setting(cx, o->set.at[i], &values[i]);
  wv_kernel *made = ok ? wv_kernel_fit(k, values, o->set.n) : NULL;
  free(values);
  return made;
}

static void write_dump(void *user, const char *pass, const char *text) {
  fputs(text, pass ? user : stderr);
}

static bool is_lowered(const wv_kernel *k) { return strcmp(wv_kernel_level(k), "thread") == 0; }

bool runs_on_device(const char *kind) {
  return strcmp(kind, "device") == 0 || strcmp(kind, "cpu") == 0;
}

/* `kind` is what will run the kernel (wv_target_kind), or NULL. */
static bool run_passes(const Options *o, wv_kernel *k, const char *kind, FILE *out) {
  bool simulate = kind && strcmp(kind, "sim") == 0;
  bool asked = o->passes || o->dump || o->dump_before || o->stop_after || o->start_after;
  if (kind && runs_on_device(kind)) return true; /* compiling does it, for each variant */
  if (simulate && !asked && !o->time && (is_lowered(k) || wv_kernel_is_open(k))) return true;
  if (!asked && !o->time && (!o->target || (kind && !simulate))) return true;
  bool all = !o->passes || strcmp(o->passes, "all") == 0;
  wv_pass_options p = {.passes = all ? NULL : o->passes,
                       .stop_after = o->stop_after,
                       .start_after = o->start_after,
                       .dump = o->dump,
                       .dump_before = o->dump_before,
                       .verify_each = o->verify && strcmp(o->verify, "each") == 0,
                       .time = o->time,
                       .write = write_dump,
                       .user = out,
                       .target = o->target};
  return simulate && !is_lowered(k) ? wv_lower(k, &p) : wv_run_passes(k, &p);
}

/* What will run the kernel; NULL after a diagnostic. */
static const char *runner(const Options *o, wv_ctx *cx, const wv_kernel *k) {
  if (!o->target) return is_lowered(k) ? "sim" : "eval";
  return wv_target_kind(cx, o->target);
}

static bool emits(const Options *o, const char *kind) {
  return o->emit && strcmp(o->emit, kind) == 0;
}
static bool emits_c(const Options *o) { return emits(o, "c"); }

static bool wants_text(const Options *o) {
  if (o->emit) return strcmp(o->emit, "wave") == 0;
  return !o->run && !o->loops && !o->dump && !o->dump_before && !o->proof;
}

static void print_proof(wv_kernel *k, FILE *out) {
  wv_proof *proof = wv_prove(k);
  fputs(wv_proof_text(proof), out);
  wv_proof_free(proof);
}

/* Rows of a file that pin schedules. */
static bool apply_schedule(const Options *o, wv_kernel *k) {
  size_t n;
  if (o->run || !o->schedule) return true;
  char *text = read_text(o->schedule, &n);
  bool ok = text && wv_kernel_schedule(k, o->schedule, text);
  free(text);
  return ok;
}

/* "schedule", or what follows the hyphen: "schedule-svg". */
static bool emits_schedule(const Options *o) {
  return o->emit && strncmp(o->emit, "schedule", 8) == 0;
}

static int print_schedule(const Options *o, wv_kernel *k, FILE *out) {
  const char *form = strchr(o->emit, '-');
  char *text = wv_schedule_as(k, o->target ? o->target : "", form ? form + 1 : "text");
  if (text) fputs(text, out);
  wv_free(text);
  return text ? STATUS_OK : STATUS_DIAGNOSTICS;
}

/* The number from 1 to `most` after an option; 0 after complaining. */
static int number_of(const char *option, const char *text, int most) {
  char *end;
  long n = strtol(text, &end, 10);
  if (!*end && end != text && n >= 1 && n <= most) return (int)n;
  complain("--%s is a number from 1 to %d, not `%s`", option, most, text);
  return 0;
}

/* --emit=explain, explain-html. */
static int print_explanation(const Options *o, wv_kernel *k, FILE *out) {
  const char *form = strchr(o->emit, '-');
  char *text = wv_decisions(k, o->target ? o->target : "", form ? form + 1 : "text");
  if (text) fputs(text, out);
  wv_free(text);
  return text ? STATUS_OK : STATUS_DIAGNOSTICS;
}

/* --choices=N. */
static int print_choices(const Options *o, wv_kernel *k, FILE *out) {
  enum { MOST = 4096 };
  int most = number_of("choices", o->choices, MOST);
  char *text = most ? wv_choices(k, o->target ? o->target : "", most) : NULL;
  if (text) fputs(text, out);
  wv_free(text);
  return text ? STATUS_OK : most ? STATUS_DIAGNOSTICS : STATUS_USAGE;
}

/* --schedules=N. */
static int print_schedules(const Options *o, wv_kernel *k, FILE *out) {
  enum { MOST = 64 };
  char *texts[MOST];
  int most = number_of("schedules", o->schedules, MOST);
  if (!most) return STATUS_USAGE;
  int n = wv_schedules(k, o->target ? o->target : "", most, texts);
  for (int i = 0; i < n; i++) {
    fprintf(out, "%s%s", i ? "\n" : "", texts[i]);
    wv_free(texts[i]);
  }
  return n < 0 ? STATUS_DIAGNOSTICS : STATUS_OK;
}

/* The input of a backend, if one was requested. */
static bool print_code(const Options *o, wv_kernel *k, FILE *out) {
  bool ptx = emits(o, "ptx"), assembly = emits(o, "asm"), linked = emits(o, "hsaco");
  bool object = assembly || emits(o, "obj");
  size_t n = 0;
  if (!ptx && !object && !linked && !emits(o, "llvm")) return true;
  char *text = ptx      ? wv_emit_ptx(k, o->target, o->fast_math)
               : object ? wv_emit_object(k, o->target, assembly, o->fast_math, &n)
               : linked ? wv_emit_hsaco(k, o->target, o->fast_math, &n)
                        : wv_emit_llvm(k, o->target, o->fast_math);
  if (text) fwrite(text, 1, object || linked ? n : strlen(text), out);
  wv_free(text);
  return text != NULL;
}

static int compile_verified(const Options *o, wv_ctx *cx, wv_kernel *k, FILE *out) {
  if (o->check_passes) return check_passes(o, cx, k);
  if (emits_c(o)) return emit_c(o, cx, k);
  if (emits(o, "program")) return compile_program(o, cx, k);
  if (emits_schedule(o)) return print_schedule(o, k, out);
  if (emits(o, "explain") || emits(o, "explain-html")) return print_explanation(o, k, out);
  if (o->schedules) return print_schedules(o, k, out);
  if (o->choices) return print_choices(o, k, out);
  if (o->loops) return kernel_loops(o, cx, k, out);
  const char *kind = o->run ? runner(o, cx, k) : NULL;
  if ((o->run && !kind) || !run_passes(o, k, kind, out)) return STATUS_DIAGNOSTICS;
  if (wants_text(o)) {
    char *text = wv_print(k);
    fputs(text, out);
    wv_free(text);
  }
  if (o->emit && !print_code(o, k, out)) return STATUS_DIAGNOSTICS;
  if (o->proof) print_proof(k, out);
  return o->run ? eval_kernel(o, cx, k, kind) : STATUS_OK;
}

static int compile_kernel(const Options *o, wv_ctx *cx, wv_kernel *k, FILE *out) {
  if (!apply_settings(o, cx, k) || !wv_verify(k) || !apply_schedule(o, k))
    return STATUS_DIAGNOSTICS;
  wv_kernel *made = fitted(o, cx, k);
  int status = compile_verified(o, cx, made ? made : k, out);
  wv_kernel_free(made);
  return status;
}

/* The same with sizes that come from files. */
static int compile_sized(const Options *o, wv_ctx *cx, wv_kernel *k, FILE *out) {
  Options sized = *o;
  WordList found = {0};
  int status = STATUS_USAGE;
  sized.set = (WordList){0};
  if (sizes_of_files(o, k, &found)) {
    for (int i = 0; i < o->set.n; i++) push_word(&sized.set, o->set.at[i]);
    for (int i = 0; i < found.n; i++) push_word(&sized.set, found.at[i]);
    status = compile_kernel(&sized, cx, k, out);
  }
  for (int i = 0; i < found.n; i++) free((void *)(uintptr_t)found.at[i]);
  free(found.at);
  free(sized.set.at);
  return status;
}

/* The kernels of a text. */
static int compile_text(const Options *o, wv_ctx *cx, const char *path, const char *text,
                        size_t len, FILE *out) {
  wv_kernel *kernels[MAX_KERNELS];
  const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
  int n = check_text(cx, name, text, len) ? wv_parse(cx, name, text, kernels, MAX_KERNELS) : -1;
  int status = n < 0 ? STATUS_DIAGNOSTICS : STATUS_OK;
  if (n > 1 && emits_c(o) && o->output) {
    complain("%s: -o names one pair of files, but there are %d kernels", path, n);
    status = STATUS_USAGE;
  }
  if (n > 1 && o->schedule && !o->run) {
    complain("%s: --schedule is for one kernel, but there are %d", path, n);
    status = STATUS_USAGE;
  }
  for (int i = 0; i < n && i < MAX_KERNELS; i++) {
    if (status == STATUS_OK) {
      if (i && (wants_text(o) || o->loops || emits_schedule(o))) fputc('\n', out);
      status = compile_sized(o, cx, kernels[i], out);
    }
    wv_kernel_free(kernels[i]);
  }
  if (n > MAX_KERNELS) complain("%s: only the first %d kernels are read", path, MAX_KERNELS);
  return status;
}

static int compile_file(const Options *o, const char *path, FILE *out) {
  size_t len;
  char *text = read_text(path, &len);
  if (!text) return STATUS_USAGE;
  wv_ctx *cx = wv_ctx_new();
  int status = o->loops && is_code_object(path, text, len)
                   ? print_loops(cx, path, text, len, out)
                   : compile_text(o, cx, path, text, len, out);
  report(o, cx);
  wv_ctx_free(cx);
  free(text);
  return status;
}

static void check_environment(const Options *o) {
  wv_ctx *cx = wv_ctx_new();
  wv_variables_check(cx);
  report(o, cx);
  wv_ctx_free(cx);
}

static int compile_files(const Options *o) {
  check_environment(o);
  if (!o->files.n) return complain("no input file: run wavec --help"), STATUS_USAGE;
  bool to_file = o->output && !emits_c(o); /* which opens its files itself */
  bool binary = emits(o, "obj") || emits(o, "hsaco");
  if (binary && (!o->output || o->files.n > 1))
    return complain("--emit=%s needs exactly one input file and -o NAME.%s", o->emit,
                    emits(o, "obj") ? "o" : o->emit),
           STATUS_USAGE;
  FILE *out = to_file ? fopen(o->output, "w") : stdout;
  if (!out) return complain("cannot write %s: %s", o->output, strerror(errno)), STATUS_USAGE;
  int status = STATUS_OK;
  for (int i = 0; i < o->files.n; i++) {
    int one = compile_file(o, o->files.at[i], out);
    status = one > status ? one : status;
  }
  bool failed = ferror(out) != 0;
  if (to_file) failed |= fclose(out) != 0;
  return failed ? (complain("cannot write the output"), STATUS_USAGE) : status;
}

static int run_command(int argc, char **argv) {
  Options o = {0};
  int status = STATUS_OK;
  if (!parse_options(&o, argc, argv)) status = STATUS_USAGE;
  else if (o.help) print_help(&o);
  else if (o.version) printf("wavec %s\n", wv_version());
  else if (o.list) status = print_list(o.list);
  else if (o.explain) status = explain(o.explain);
  else status = compile_files(&o);
  free_options(&o);
  return status;
}

int main(int argc, char **argv) {
  Again again = {.argc = argc, .argv = argv};
  bool once_more = argc > 1 && strcmp(argv[1], "again") == 0;
  if (argc > 1 && strcmp(argv[1], "cache") == 0) return cache_command(argc - 2, argv + 2);
  if (once_more && !again_words(argc, argv, &again)) return STATUS_USAGE;
  int status = run_command(again.argc, again.argv);
  if (once_more) again_free(&again);
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  complain("cannot write to the standard output: %s", strerror(errno));
  return STATUS_USAGE;
}
