/* wavec.c: the command line tool. Reads *.wave, checks it, runs passes, prints, evaluates.
 *
 * Exit status: 0 all well, 1 diagnostics were reported, 2 the command line or a file is wrong. */
#include "wavec.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KERNELS = 256 };

/* ---- options ---- */

typedef enum OptionKind { OPTION_FLAG, OPTION_WORD, OPTION_MAYBE, OPTION_LIST } OptionKind;

typedef struct Option {
  const char *name, *value;
  OptionKind kind;
  size_t field;        /* offset in Options */
  const char *choices; /* "a|b", or NULL: anything */
  const char *help;
} Option;

#define FLAG(field) OPTION_FLAG, offsetof(Options, field)
#define WORD(field) OPTION_WORD, offsetof(Options, field)
#define MAYBE(field) OPTION_MAYBE, offsetof(Options, field) /* =VALUE may be left out */
#define LIST(field) OPTION_LIST, offsetof(Options, field)

/* A row without a kind of its own (value NULL, name a sentence) heads a group of the help. */
static const Option options[] = {
    {"What comes out:", NULL, OPTION_FLAG, 0, NULL, NULL},
    {"emit", "KIND", WORD(emit), "wave|none",
     "wave: the kernel as text (default); none: only check"},
    {"o", "FILE", WORD(output), NULL, "write there instead of to the standard output"},
    {"proof", NULL, FLAG(proof), NULL, "say of each access what was proved and what is tested"},
    {"set", "SYM=EXPR", LIST(set), NULL, "bind a symbol, as a `bind` row of the header would"},

    {"Passes:", NULL, OPTION_FLAG, 0, NULL, NULL},
    {"passes", "A,B", WORD(passes), NULL, "run these in this order; `all`: the whole pipeline"},
    {"stop-after", "PASS", WORD(stop_after), NULL, "leave out the passes behind this one"},
    {"dump", "A,B", WORD(dump), NULL, "print the kernel after these passes; `all`: after each"},
    {"target", "NAME", WORD(target), NULL, "fit the kernel to this machine; --list=targets"},
    {"verify", "WHEN", WORD(verify), "each|last", "check the kernel after each pass, or the last"},
    {"time", NULL, FLAG(time), NULL, "say how long each pass took"},

    {"Running:", NULL, OPTION_FLAG, 0, NULL, NULL},
    {"eval", NULL, FLAG(eval), NULL, "run a tile kernel with the reference evaluator"},
    {"sim", "TARGET", MAYBE(sim), NULL, "run a thread kernel lane by lane, and judge it"},
    {"schedule", "HOW", WORD(schedule), "round|reverse|random", "order of the waves in --sim"},
    {"costs", NULL, FLAG(costs), NULL, "print what each line cost in --sim"},
    {"nonfinite", NULL, FLAG(nonfinite), NULL, "report where infinities and NaN appear in --sim"},
    {"arg", "NAME=VALUE", LIST(arg), NULL, "an argument: a .npy file, or a number for a scalar"},
    {"out", "NAME=FILE", LIST(out), NULL, "write a tensor to a .npy file afterwards"},
    {"show", "NAME", LIST(show), NULL, "print the elements of a tensor or log"},
    {"seed", "N", WORD(seed), NULL, "for arguments that are not given (default 1)"},

    {"check-passes", NULL, FLAG(check_passes), NULL,
     "run the kernel after each pass and compare with what it computed before"},

    {"Asking:", NULL, OPTION_FLAG, 0, NULL, NULL},
    {"list", "TABLE", WORD(list), "ops|passes|targets|diagnostics|mma|dtypes", "print a table"},
    {"explain", "CODE", WORD(explain), NULL, "say more about a diagnostic, such as E0203"},
    {"version", NULL, FLAG(version), NULL, "print the version"},
    {"help", NULL, FLAG(help), NULL, "print this"},
};
enum { NOPTIONS = sizeof options / sizeof *options };

static bool is_heading(const Option *o) { return !o->help; }

bool complain(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fputs("wavec: ", stderr);
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
  va_end(ap);
  return false;
}

bool split_word(const char *word, const char *name, const char **rest) {
  size_t n = strlen(name);
  if (strncmp(word, name, n) != 0 || (word[n] != '=' && word[n])) return false;
  *rest = word[n] ? word + n + 1 : word + n;
  return true;
}

static void push(WordList *list, const char *word) {
  const char **at = realloc(list->at, sizeof *at * ((size_t)list->n + 1));
  if (!at) abort();
  at[list->n++] = word;
  list->at = at;
}

static const Option *find_option(const char *name, size_t len) {
  for (int i = 0; i < NOPTIONS; i++)
    if (!is_heading(&options[i]) && strlen(options[i].name) == len &&
        memcmp(options[i].name, name, len) == 0)
      return &options[i];
  return NULL;
}

static const Option *unknown_option(const char *word, const char *name, size_t len) {
  const char *names[NOPTIONS];
  int n = 0;
  for (int i = 0; i < NOPTIONS; i++)
    if (!is_heading(&options[i])) names[n++] = options[i].name;
  char typed[64];
  snprintf(typed, sizeof typed, "%.*s", (int)len, name);
  const char *near = wv_nearest(typed, names, n);
  if (near) complain("unknown option %s: did you mean --%s?", word, near);
  else complain("unknown option %s: wavec --help lists them", word);
  return NULL;
}

/* One of the words of "a|b|c". */
static bool is_choice(const Option *o, const char *value) {
  size_t n = strlen(value);
  for (const char *at = o->choices; at; at = strchr(at, '|'), at = at ? at + 1 : NULL)
    if (strcspn(at, "|") == n && memcmp(at, value, n) == 0) return true;
  return !o->choices || complain("--%s is one of %s, not `%s`", o->name, o->choices, value);
}

static bool store(Options *all, const Option *o, const char *value) {
  void *field = (char *)all + o->field;
  if (o->kind == OPTION_FLAG) return *(bool *)field = true;
  if (!is_choice(o, value)) return false;
  if (o->kind == OPTION_LIST) push(field, value);
  else *(const char **)field = value;
  return true;
}

/* --name, --name=value, --name value, -o value; *i moves over what was taken. */
static bool take_option(Options *all, int argc, char **argv, int *i) {
  const char *word = argv[*i], *name = word + (word[1] == '-' ? 2 : 1);
  size_t len = strcspn(name, "=");
  const Option *o = strcmp(word, "-h") == 0 ? find_option("help", 4) : find_option(name, len);
  if (!o) return unknown_option(word, name, len) != NULL;
  const char *value = name[len] ? name + len + 1 : NULL;
  if (o->kind == OPTION_FLAG && value) return complain("--%s takes no value", o->name);
  if (o->kind == OPTION_MAYBE && !value) value = "";
  if (o->kind != OPTION_FLAG && !value) {
    if (*i + 1 >= argc) return complain("--%s needs %s", o->name, o->value);
    value = argv[++*i];
  }
  return store(all, o, value);
}

static bool parse_options(Options *all, int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (argv[i][0] != '-' || !argv[i][1]) push(&all->files, argv[i]);
    else if (!take_option(all, argc, argv, &i)) return false;
  }
  return true;
}

/* ---- asking ---- */

static void print_help(void) {
  puts("wavec [options] FILE.wave...     (- reads the standard input)\n"
       "\n"
       "Reads kernels in text form (docs/ir.md), checks them, and prints them.\n");
  for (int i = 0; i < NOPTIONS; i++) {
    const Option *o = &options[i];
    char left[64];
    if (is_heading(o)) {
      printf("%s%s\n", i ? "\n" : "", o->name);
      continue;
    }
    const char *dashes = o->name[1] ? "--" : "-";
    const char *gap = o->kind == OPTION_LIST || !o->name[1] ? " " : "=";
    bool maybe = o->kind == OPTION_MAYBE;
    snprintf(left, sizeof left, "%s%s%s%s%s%s", dashes, o->name, maybe ? "[" : "",
             o->value ? gap : "", o->value ? o->value : "", maybe ? "]" : "");
    printf("  %-20s %s\n", left, o->help);
    if (o->choices && strchr(o->choices, '|') && strlen(o->choices) > 12)
      printf("  %-20s %s\n", "", o->choices);
  }
  puts("\n"
       "Examples:\n"
       "  wavec gemm.wave                            is it right? and how is it written?\n"
       "  wavec gemm.wave --passes=bind,simplify     what these passes make of it\n"
       "  wavec gemm.wave --dump=all --time          every step, and what it cost\n"
       "  wavec gemm.wave --eval --set M=64 --set N=64 --set K=32 --out c=c.npy\n"
       "  wavec --explain E0203                      what a diagnostic means\n"
       "\n"
       "Exit status: 0 all well, 1 diagnostics were reported, 2 the command line is wrong.");
}

static void list_ops(void) {
  const char *name, *level, *doc;
  for (int i = 0; wv_op_info(i, &name, &level, &doc); i++)
    printf("%-18s %-7s %s\n", name, level, doc);
}

static void list_passes(void) {
  const char *name, *doc;
  for (int i = 0; wv_pass_info(i, &name, &doc); i++) printf("%-12s %s\n", name, doc);
}

static void list_targets(void) {
  const char *name, *doc;
  for (int i = 0; wv_target_info(i, &name, &doc); i++) printf("%-12s %s\n", name, doc);
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

static const struct {
  const char *name;
  void (*print)(void);
} lists[] = {{"ops", list_ops},         {"passes", list_passes}, {"mma", list_mma},
             {"targets", list_targets}, {"dtypes", list_dtypes}, {"diagnostics", list_diagnostics}};

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
  complain("there is no diagnostic %s: wavec --list=diagnostics shows them", word);
  return STATUS_USAGE;
}

/* ---- files ---- */

/* The whole file and a final NUL, from malloc; NULL after complaining. */
static char *read_text(const char *path, size_t *len) {
  FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
  if (!f) return complain("cannot read %s", path), NULL;
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
  wv_diag_report(cx, "E0502", at, "the byte 0x00 does not belong in a kernel", NULL);
  return false;
}

static void report(wv_ctx *cx) {
  wv_diag d;
  for (int i = 0; i < wv_diag_count(cx); i++)
    if (wv_diag_get(cx, i, &d)) fputs(d.rendered, stderr);
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

static void write_dump(void *user, const char *pass, const char *text) {
  fputs(text, pass ? user : stderr);
}

static bool run_passes(const Options *o, wv_kernel *k, FILE *out) {
  if (!o->passes && !o->dump && !o->stop_after && !o->time && !o->target) return true;
  bool all = !o->passes || strcmp(o->passes, "all") == 0;
  wv_pass_options p = {.passes = all ? NULL : o->passes,
                       .stop_after = o->stop_after,
                       .dump = o->dump,
                       .verify_each = o->verify && strcmp(o->verify, "each") == 0,
                       .time = o->time,
                       .write = write_dump,
                       .user = out,
                       .target = o->target};
  return wv_run_passes(k, &p);
}

static bool wants_text(const Options *o) {
  if (o->emit) return strcmp(o->emit, "wave") == 0;
  return !o->eval && !o->sim && !o->dump && !o->proof;
}

static void print_proof(wv_kernel *k, FILE *out) {
  wv_proof *proof = wv_prove(k);
  fputs(wv_proof_text(proof), out);
  wv_proof_free(proof);
}

static int compile_kernel(const Options *o, wv_ctx *cx, wv_kernel *k, FILE *out) {
  if (!apply_settings(o, cx, k) || !wv_verify(k)) return STATUS_DIAGNOSTICS;
  if (o->check_passes) return check_passes(o, cx, k);
  if (!run_passes(o, k, out)) return STATUS_DIAGNOSTICS;
  if (wants_text(o)) {
    char *text = wv_print(k);
    fputs(text, out);
    wv_free(text);
  }
  if (o->proof) print_proof(k, out);
  return o->eval || o->sim ? eval_kernel(o, cx, k) : STATUS_OK;
}

static int compile_file(const Options *o, const char *path, FILE *out) {
  size_t len;
  char *text = read_text(path, &len);
  if (!text) return STATUS_USAGE;
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *kernels[MAX_KERNELS];
  const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
  int n = check_text(cx, name, text, len) ? wv_parse(cx, name, text, kernels, MAX_KERNELS) : -1;
  int status = n < 0 ? STATUS_DIAGNOSTICS : STATUS_OK;
  for (int i = 0; i < n && i < MAX_KERNELS; i++) {
    if (status == STATUS_OK) {
      if (i && wants_text(o)) fputc('\n', out);
      status = compile_kernel(o, cx, kernels[i], out);
    }
    wv_kernel_free(kernels[i]);
  }
  if (n > MAX_KERNELS) complain("%s: only the first %d kernels are read", path, MAX_KERNELS);
  report(cx);
  wv_ctx_free(cx);
  free(text);
  return status;
}

static int compile_files(const Options *o) {
  if (!o->files.n) return complain("no file: wavec --help says more"), STATUS_USAGE;
  FILE *out = o->output ? fopen(o->output, "w") : stdout;
  if (!out) return complain("cannot write %s", o->output), STATUS_USAGE;
  int status = STATUS_OK;
  for (int i = 0; i < o->files.n; i++) {
    int one = compile_file(o, o->files.at[i], out);
    status = one > status ? one : status;
  }
  bool failed = ferror(out) != 0;
  if (o->output) failed |= fclose(out) != 0;
  return failed ? (complain("cannot write the output"), STATUS_USAGE) : status;
}

int main(int argc, char **argv) {
  Options o = {0};
  int status = STATUS_OK;
  if (!parse_options(&o, argc, argv)) status = STATUS_USAGE;
  else if (o.help) print_help();
  else if (o.version) printf("wavec %s\n", wv_version());
  else if (o.list) status = print_list(o.list);
  else if (o.explain) status = explain(o.explain);
  else status = compile_files(&o);
  WordList *lists_of_words[] = {&o.set, &o.arg, &o.out, &o.show, &o.files};
  for (size_t i = 0; i < sizeof lists_of_words / sizeof *lists_of_words; i++)
    free(lists_of_words[i]->at);
  return status;
}
